/* What a Fairway policy in C needs: compile one file that includes this to WebAssembly.
 *
 *   clang --target=wasm32 -O2 -nostdlib -ffreestanding \
 *       -Wl,--no-entry,--strip-all,-z,stack-size=8192 -o mine.wasm mine.c
 *
 * A congestion control exports fairway_init, on_ack and on_loss; a path choice fairway_init and
 * choose_path; a loss detector fairway_init and is_lost; a scheduler fairway_init, fairway_rates,
 * flow_started and flow_ended. The events and the decisions lie in the one variable `fairway`
 * below; its layout is version 5 of the interface and only ever grows behind what there is
 * (docs/policies.md).
 * Times are picoseconds. Reserved fields are zero. There are no floats.
 */
#ifndef FAIRWAY_POLICY_H
#define FAIRWAY_POLICY_H

#include <stdint.h>

#define FAIRWAY_ABI 5
#define FAIRWAY_PATHS 256
#define FAIRWAY_EXPORT(name) __attribute__((export_name(#name)))

/* What a congestion control decides. The host reads it after every call. At fairway_init it holds
 * what a policy decided that this one takes the place of, or zeros. */
struct fairway_decision {
    uint64_t window_bytes;            /* in flight at most; two packets are always allowed */
    uint64_t pacing_bytes_per_second; /* 0: as fast as the window lets; at least 125000 */
    uint32_t pacing_burst_bytes;      /* may leave back to back under pacing; at most 65536 */
    uint32_t chunk_bytes;             /* of one burst on one path; 0: 32768 */
    /* The rest counts only if the module exports on_sent: it then spends credit. */
    uint64_t allowance_bytes; /* may leave before more credit arrives; nothing leaves at 0 */
    uint64_t total_bytes;     /* of the request, if credit_request returns 1 */
    uint64_t request_at_ps;   /* when credit_request has to be called again; 0: not at all */
    uint64_t ahead_bytes;     /* credit that is accepted without a request */
    uint32_t request_flags;   /* 1: some of the data was lost before; 2: no credit is left */
    uint32_t reserved;
};

/* on_ack: what one acknowledgement taught. */
struct fairway_ack {
    uint64_t now_ps;
    uint64_t rtt_ps; /* if FAIRWAY_HAS_RTT */
    uint64_t smoothed_rtt_ps;
    uint64_t bytes_in_flight;
    uint32_t acked_bytes;
    uint32_t acked_packets;
    uint32_t marked_packets;
    uint32_t path;
    uint32_t flags;
    uint32_t hint;
    uint64_t endpoint_delay_ps; /* of rtt, what the hosts caused; if FAIRWAY_HAS_ENDPOINT */
    uint32_t hops;              /* 0: not counted */
};
#define FAIRWAY_HAS_RTT 1u
#define FAIRWAY_PRESSURE 2u       /* the receiver requests to slow down */
#define FAIRWAY_WINDOW_LIMITED 4u /* the window, and not lack of data, held the sender back */
#define FAIRWAY_HAS_ENDPOINT 8u

/* on_loss: packets were declared lost. */
struct fairway_loss {
    uint64_t now_ps;
    uint64_t smoothed_rtt_ps;
    uint32_t lost_bytes;
    uint32_t path;
    uint32_t flags;
    uint64_t sent_at_ps; /* when the newest of the packets had been sent; since version 4 */
};
#define FAIRWAY_BY_TIMEOUT 1u

/* choose_path: the chunk that is about to leave. */
struct fairway_chunk {
    uint64_t now_ps;
    uint32_t bytes;
    uint32_t random;
    uint64_t usable[FAIRWAY_PATHS / 64]; /* bit p % 64 of word p / 64: path p is usable */
};

/* on_path_ack: packets of a path were acknowledged. on_path_loss has struct fairway_loss. */
struct fairway_path_ack {
    uint64_t now_ps;
    uint64_t rtt_ps; /* if FAIRWAY_HAS_RTT */
    uint32_t acked_packets;
    uint32_t marked_packets;
    uint32_t flags;
    /* Since the packet was sent, if it was sent once; if FAIRWAY_HAS_ELAPSED. Since version 5. */
    uint64_t elapsed_ps;
};
#define FAIRWAY_HAS_ELAPSED 2u

/* is_lost: what is known of a packet that is missing. on_reordering: of one that came late, without
 * `age_ps`. */
struct fairway_evidence {
    uint64_t age_ps;          /* since it was sent */
    uint64_t overtaken_by_ps; /* how much later the newest acknowledged packet was sent */
    uint64_t smoothed_rtt_ps;
    uint32_t path_distance; /* later packets of its path that arrived; 0: none */
    uint32_t psn_distance;  /* the same in packets of the channel */
    uint32_t flags;         /* is_lost: the gap is wider than the receiver tolerates;
                               on_reordering: it had been declared lost */
};

/* on_progress, since version 3. */
struct fairway_progress {
    uint32_t packets; /* acknowledged */
};

/* flow_started and share_changed. */
struct fairway_share {
    uint32_t tenant, weight, tenant_weight;
};

/* on_transmit: what a flow has sent since its last event. */
struct fairway_transmit {
    uint64_t now_ps;
    uint64_t bytes;
    uint32_t events;
    uint32_t flags; /* 1: it has more to send; 2: it waits for its rate alone */
};

/* An entry of a scheduler's list. */
struct fairway_rate {
    uint64_t bytes_per_second; /* UINT64_MAX: no limit; at least 125000 */
    uint32_t flow;
    uint32_t quantum_bytes; /* 0: the default; at least 128 */
};

/* fairway_init. */
struct fairway_start {
    uint32_t mtu_bytes;
    uint32_t abi; /* of the host */
    uint32_t text_bytes;
    uint32_t flows; /* of a scheduler */
    uint32_t reserved[4];
    /* What the module states at its start. */
    /* A scheduler's: bytes from which on a transmit event is needed. Since version 5 the host reads
     * it after every call. */
    uint32_t event_bytes;
    uint32_t traits;
    uint32_t unused[6];
};
#define FAIRWAY_COMPARES_ACROSS_PATHS 1u /* is_lost is called for packets of every path */
#define FAIRWAY_PACES_WITHIN_WINDOW 2u   /* pacing only spreads a window over a round trip */

struct fairway_path {
    uint64_t smoothed_rtt_ps; /* 0: none yet */
    uint64_t rtt_deviation_ps;
    uint64_t sent; /* packets since the channel opened; likewise the next two */
    uint64_t lost;
    uint64_t marked;
    uint32_t in_flight; /* packets */
    uint32_t flags;
};
#define FAIRWAY_USABLE 1u

struct fairway_area {
    struct fairway_decision decision;
    union {
        struct fairway_ack ack;
        struct fairway_loss loss;
        struct fairway_chunk chunk;
        struct fairway_path_ack path_ack;
        struct fairway_evidence evidence;
        struct fairway_progress progress;
        struct fairway_share share;
        struct fairway_transmit transmit;
        uint64_t unused[16];
    };
    struct fairway_start start;
    struct fairway_path paths[FAIRWAY_PATHS];
    char text[1024]; /* the parameters; after a refusal, why */
    uint64_t probed_rtt_ps[FAIRWAY_PATHS]; /* of the last probe; 0: none yet; since version 5 */
    uint8_t reserved[768];
};
_Static_assert(sizeof(struct fairway_area) == 16384, "the layout is frozen");

static struct fairway_area fairway;

FAIRWAY_EXPORT(fairway_policy_abi) uint32_t fairway_policy_abi(void) { return FAIRWAY_ABI; }
FAIRWAY_EXPORT(fairway_area) struct fairway_area *fairway_area(void) { return &fairway; }

/* What a policy defines, as far as it uses the events. A hook that is not there costs nothing.
 * fairway_init gives 0, or refuses and leaves in fairway.text why. */
FAIRWAY_EXPORT(fairway_init) uint32_t fairway_init(void);
FAIRWAY_EXPORT(on_ack) void on_ack(void);
FAIRWAY_EXPORT(on_loss) void on_loss(void);
FAIRWAY_EXPORT(on_spurious) void on_spurious(uint64_t now_ps, uint32_t packets);
FAIRWAY_EXPORT(permit_retransmit) uint32_t permit_retransmit(uint64_t now_ps, uint32_t bytes);
FAIRWAY_EXPORT(on_data) void on_data(uint64_t now_ps, uint32_t bytes, uint32_t retransmitted);
FAIRWAY_EXPORT(on_credit) void on_credit(uint64_t now_ps, uint32_t bytes);
FAIRWAY_EXPORT(on_sent) void on_sent(uint64_t now_ps, uint32_t bytes, uint64_t backlog_bytes);
FAIRWAY_EXPORT(credit_request) uint32_t credit_request(uint64_t now_ps, uint64_t backlog_bytes);
FAIRWAY_EXPORT(choose_path) uint32_t choose_path(uint32_t count);
FAIRWAY_EXPORT(has_room) uint32_t has_room(uint32_t count);
FAIRWAY_EXPORT(on_path_ack) void on_path_ack(uint32_t path);
FAIRWAY_EXPORT(on_path_loss) void on_path_loss(uint32_t path);
FAIRWAY_EXPORT(is_lost) uint32_t is_lost(void);
FAIRWAY_EXPORT(on_reordering) void on_reordering(void);
FAIRWAY_EXPORT(on_progress) void on_progress(uint64_t now_ps, uint64_t smoothed_rtt_ps);
FAIRWAY_EXPORT(overdue_after) int64_t overdue_after(uint64_t smoothed_rtt_ps);
FAIRWAY_EXPORT(fairway_rates) struct fairway_rate *fairway_rates(void);
FAIRWAY_EXPORT(flow_started) uint32_t flow_started(uint64_t now_ps, uint32_t flow);
FAIRWAY_EXPORT(flow_ended) uint32_t flow_ended(uint64_t now_ps, uint32_t flow);
FAIRWAY_EXPORT(share_changed) uint32_t share_changed(uint64_t now_ps, uint32_t flow);
FAIRWAY_EXPORT(on_transmit) uint32_t on_transmit(uint32_t flow);
FAIRWAY_EXPORT(on_hint) uint32_t on_hint(uint64_t now_ps, uint32_t flow, uint64_t hint);

/* The square root, rounded down, of the host. */
__attribute__((import_module("fairway"), import_name("isqrt"))) uint64_t fairway_isqrt(uint64_t);

/* Refuses to start, and says why: return fairway_refuse("..."); */
static inline uint32_t fairway_refuse(const char *why) {
    uint32_t i = 0;
    for (; why[i] && i + 1 < sizeof fairway.text; i++)
        fairway.text[i] = why[i];
    fairway.text[i] = 0;
    return 1;
}

/* One of the parameters `name=value:name=value`. Begin with zeros. */
struct fairway_parameter {
    uint32_t next;
    const char *name, *value;
    uint32_t name_bytes, value_bytes;
};

/* Goes to the next parameter; 0 if there is none. */
static inline int fairway_next(struct fairway_parameter *p) {
    uint32_t at = p->next, end = fairway.start.text_bytes;
    if (at >= end)
        return 0;
    p->name = &fairway.text[at];
    while (at < end && fairway.text[at] != '=' && fairway.text[at] != ':')
        at++;
    p->name_bytes = (uint32_t)(&fairway.text[at] - p->name);
    if (at < end && fairway.text[at] == '=')
        at++;
    p->value = &fairway.text[at];
    while (at < end && fairway.text[at] != ':')
        at++;
    p->value_bytes = (uint32_t)(&fairway.text[at] - p->value);
    p->next = at + 1;
    return 1;
}

static inline int fairway_same(const char *text, uint32_t bytes, const char *word) {
    uint32_t i = 0;
    while (i < bytes && word[i] && text[i] == word[i])
        i++;
    return i == bytes && !word[i];
}

/* Is it called so? */
static inline int fairway_is(const struct fairway_parameter *p, const char *name) {
    return fairway_same(p->name, p->name_bytes, name);
}

/* Reads digits; what is left is the unit. 0 if there are none, or too many. */
static inline int fairway_digits(const struct fairway_parameter *p, uint64_t *number,
                                 const char **unit, uint32_t *unit_bytes) {
    uint32_t i = 0;
    *number = 0;
    while (i < p->value_bytes && i < 15 && p->value[i] >= '0' && p->value[i] <= '9')
        *number = *number * 10 + (uint64_t)(p->value[i++] - '0');
    *unit = p->value + i;
    *unit_bytes = p->value_bytes - i;
    return i > 0;
}

/* A number, perhaps with K, M or G (powers of 1024); 0 if it is none. */
static inline int fairway_bytes(const struct fairway_parameter *p, uint64_t *bytes) {
    const char *unit;
    uint32_t n;
    if (!fairway_digits(p, bytes, &unit, &n))
        return 0;
    if (fairway_same(unit, n, "K"))
        *bytes <<= 10;
    else if (fairway_same(unit, n, "M"))
        *bytes <<= 20;
    else if (fairway_same(unit, n, "G"))
        *bytes <<= 30;
    else
        return n == 0;
    return 1;
}

/* A time with ns, us, ms or s, in picoseconds; 0 if it is none. */
static inline int fairway_time(const struct fairway_parameter *p, uint64_t *ps) {
    const char *unit;
    uint32_t n;
    if (!fairway_digits(p, ps, &unit, &n) || *ps > 1000000)
        return 0;
    if (fairway_same(unit, n, "ns"))
        *ps *= 1000ull;
    else if (fairway_same(unit, n, "us"))
        *ps *= 1000000ull;
    else if (fairway_same(unit, n, "ms"))
        *ps *= 1000000000ull;
    else if (fairway_same(unit, n, "s"))
        *ps *= 1000000000000ull;
    else
        return 0;
    return 1;
}

#endif
