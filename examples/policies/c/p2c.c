/* The one of two random paths that has the lower round trip: the built-in p2c, decision by
 * decision (Mitzenmacher 2001; crates/policy/src/power_of_two.rs). No parameters.
 */
#include "fairway_policy.h"

uint32_t fairway_init(void) {
    return fairway.start.text_bytes ? fairway_refuse("p2c takes no parameters") : 0;
}

/* Usable path number `n`; 0 if there is none. */
static uint32_t nth_usable(uint32_t count, uint32_t n) {
    for (uint32_t i = 0; i < count; i++)
        if ((fairway.paths[i].flags & FAIRWAY_USABLE) && n-- == 0)
            return i;
    return 0;
}

uint32_t choose_path(uint32_t count) {
    uint32_t usable = 0;
    for (uint32_t i = 0; i < count; i++)
        usable += fairway.paths[i].flags & FAIRWAY_USABLE;
    if (usable <= 1)
        return nth_usable(count, 0);
    /* Half of the random number draws one of n, the other half one of the n - 1 others. */
    uint32_t first = ((fairway.chunk.random & 0xffff) * usable) >> 16;
    uint32_t other = ((fairway.chunk.random >> 16) * (usable - 1)) >> 16;
    other += other >= first;
    first = nth_usable(count, first);
    other = nth_usable(count, other);
    const struct fairway_path *a = &fairway.paths[first], *b = &fairway.paths[other];
    if (b->smoothed_rtt_ps != a->smoothed_rtt_ps)
        return b->smoothed_rtt_ps < a->smoothed_rtt_ps ? other : first;
    return b->in_flight < a->in_flight ? other : first;
}
