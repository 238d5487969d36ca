/* The one of two random paths that has the lower round trip: the built-in p2c, decision by
 * decision (Mitzenmacher 2001; crates/policy/src/power_of_two.rs). No parameters.
 */
#include "fairway_policy.h"

uint32_t fairway_init(void) {
    return fairway.start.text_bytes ? fairway_refuse("p2c takes no parameters") : 0;
}

static uint32_t ones(uint64_t bits) { return (uint32_t)__builtin_popcountll(bits); }

/* Usable path number `n`, of which there are more than `n`. */
static uint32_t nth_usable(uint32_t n) {
    const uint64_t *word = fairway.chunk.usable;
    uint32_t at = 0;
#pragma clang loop unroll(disable)
    for (; n >= ones(*word) && at + 64 < FAIRWAY_PATHS; at += 64)
        n -= ones(*word++);
    uint64_t bits = *word;
#pragma clang loop unroll(disable)
    for (; bits && n >= ones(bits & 0xff); bits >>= 8, at += 8)
        n -= ones(bits & 0xff);
#pragma clang loop unroll(disable)
    while (n--)
        bits &= bits - 1;
    return bits ? at + (uint32_t)__builtin_ctzll(bits) : 0;
}

uint32_t choose_path(uint32_t count) {
    (void)count; /* paths beyond it are not usable */
    const uint64_t *word = fairway.chunk.usable;
    uint32_t usable = ones(word[0]) + ones(word[1]) + ones(word[2]) + ones(word[3]);
    if (usable <= 1)
        return nth_usable(0);
    /* Half of the random number draws one of n, the other half one of the n - 1 others. */
    uint32_t first = ((fairway.chunk.random & 0xffff) * usable) >> 16;
    uint32_t other = ((fairway.chunk.random >> 16) * (usable - 1)) >> 16;
    other += other >= first;
    first = nth_usable(first);
    other = nth_usable(other);
    const struct fairway_path *a = &fairway.paths[first], *b = &fairway.paths[other];
    if (b->smoothed_rtt_ps != a->smoothed_rtt_ps)
        return b->smoothed_rtt_ps < a->smoothed_rtt_ps ? other : first;
    return b->in_flight < a->in_flight ? other : first;
}
