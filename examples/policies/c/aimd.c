/* Additive increase, multiplicative decrease, by delay.
 *
 * At every acknowledgement, with the lower of the sampled and the smoothed round trip as `delay`:
 *
 *   delay < target, nothing marked, no pressure:  w += ai * acked / w   (ai bytes per round trip)
 *   otherwise, and at loss:                       w *= 1 - beta / 1000  (once per round trip)
 *
 * Parameters: target (300us), ai (32K), beta (500), min (64K), max (8M), initial (512K).
 * ../rust/examples/aimd.rs is the same law in Rust.
 */
#include "fairway_policy.h"

static uint64_t target_ps = 300000000, increase = 32 << 10, beta = 500;
static uint64_t min = 64 << 10, max = 8 << 20, initial = 512 << 10;
static uint64_t growth, last_fall_ps;
static int has_fallen;

uint32_t fairway_init(void) {
    struct fairway_parameter p = {0};
    while (fairway_next(&p)) {
        int good = fairway_is(&p, "target")    ? fairway_time(&p, &target_ps)
                   : fairway_is(&p, "ai")      ? fairway_bytes(&p, &increase)
                   : fairway_is(&p, "beta")    ? fairway_bytes(&p, &beta) && beta <= 1000
                   : fairway_is(&p, "min")     ? fairway_bytes(&p, &min)
                   : fairway_is(&p, "max")     ? fairway_bytes(&p, &max)
                   : fairway_is(&p, "initial") ? fairway_bytes(&p, &initial)
                                               : 0;
        if (!good)
            return fairway_refuse("aimd takes target, ai, beta (0 to 1000), min, max and initial");
    }
    uint64_t least = 2 * (uint64_t)fairway.start.mtu_bytes;
    min = min < least ? least : min;
    max = max < min ? min : max;
    /* A policy that replaces another continues from its window. */
    uint64_t window = fairway.decision.window_bytes ? fairway.decision.window_bytes : initial;
    fairway.decision = (struct fairway_decision){0};
    fairway.decision.window_bytes = window < min ? min : window > max ? max : window;
    return 0;
}

static void fall(uint64_t now_ps, uint64_t round_trip_ps) {
    if (has_fallen && now_ps - last_fall_ps < round_trip_ps)
        return;
    uint64_t window = fairway.decision.window_bytes * (1000 - beta) / 1000;
    fairway.decision.window_bytes = window < min ? min : window;
    growth = 0;
    has_fallen = 1;
    last_fall_ps = now_ps;
}

void on_ack(void) {
    const struct fairway_ack *ack = &fairway.ack;
    uint64_t delay = ack->smoothed_rtt_ps;
    if ((ack->flags & FAIRWAY_HAS_RTT) && (ack->rtt_ps < delay || delay == 0))
        delay = ack->rtt_ps;
    if (delay >= target_ps || ack->marked_packets || (ack->flags & FAIRWAY_PRESSURE)) {
        fall(ack->now_ps, ack->smoothed_rtt_ps);
    } else if (ack->flags & FAIRWAY_WINDOW_LIMITED) {
        uint64_t window = fairway.decision.window_bytes;
        growth += increase * ack->acked_bytes;
        uint64_t grown = window + growth / window;
        growth %= window;
        fairway.decision.window_bytes = grown > max ? max : grown;
    }
}

void on_loss(void) { fall(fairway.loss.now_ps, fairway.loss.smoothed_rtt_ps); }
