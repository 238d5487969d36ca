//! What can be set, and to what names.

/// Every setting, what it takes, and what it means.
pub const SETTINGS: &[(&str, &str, &str)] = &[
    (
        "workload",
        "NAME",
        "permutation, incast, outcast, all-to-all, incast-permutation, ring-allreduce, \
         tree-allreduce, all-gather, reduce-scatter, websearch, hadoop, sizes, matrix, \
         trace, moe, sweep3d, halo3d, halo3d26 or streams",
    ),
    (
        "topology",
        "NAME",
        "fat-tree (three tiers), leaf-spine (two), rail, torus, hyperx, dragonfly or dual-plane \
         (each host has a wire into each of two networks)",
    ),
    ("plane", "NAME", "of dual-plane, what each network is: fat-tree or leaf-spine"),
    ("sizes", "AxB[xC]", "switches in each dimension of a torus or HyperX"),
    ("dragonfly", "A:H:G", "switches of a group, global links of a switch, groups"),
    ("hosts-per-switch", "N", "of torus, hyperx and dragonfly"),
    ("nodes", "N", "hosts"),
    ("hosts-per-leaf", "N", "of leaf-spine and rail"),
    ("oversubscription", "N", "ports of a leaf down for each one up"),
    ("rails", "N", "NICs of a server, of topology rail"),
    ("link", "RATE", "rate of every link, as 400G or 0.5G: whole megabits per second, 1M to 100T"),
    ("latency", "TIME", "latency of every link, as 1us or 0.5ms: 1ps to 1s"),
    ("bytes", "SIZE", "of a message, as 64M"),
    ("messages", "N", "messages of each flow of incast-permutation"),
    ("senders", "N", "of incast and incast-permutation; receivers of outcast"),
    (
        "stack",
        "NAME",
        "what NICs speak: fairway, roce (go-back-N), or roce-irn (what is missing is sent again)",
    ),
    ("mtu", "SIZE", "payload of a packet, as 4K"),
    ("chunk", "SIZE", "of a chunk, as 32K, or policy: what the policy chooses"),
    ("paths", "N", "of every channel, 1 to 256"),
    ("split", "N", "channels of every pair of hosts, which share the paths: 1 to 16"),
    ("pieces", "N", "WRITEs that a message of permutation is cut into"),
    ("tokens", "N", "of each host, of moe"),
    ("experts", "N:K", "experts of moe, on all hosts in turn, and how many a token goes to"),
    ("skew", "PERMILLE", "tokens of moe that choose experts by Zipf's law, and not all alike"),
    (
        "path",
        "NAME",
        "choice of path, with everything else as policy has it: spray, p2c, plb or mp-rdma",
    ),
    (
        "policy",
        "SPEC",
        "as cc=swift,path=spray, or with modules: cc=./mine.wasm; default: Swift, for this network",
    ),
    ("policy-swap", "TIME:ITEM", "from then on another module: 1ms:cc=./new.wasm; may be repeated"),
    ("load", "PERCENT", "of all hosts' links, by websearch, hadoop and sizes"),
    ("flows", "N", "of websearch, hadoop and sizes"),
    ("routing", "NAME", "ecmp, source, spray, adaptive, dimension, valiant or ugal"),
    ("queue", "SIZE", "room of a switch port for data; default: a bandwidth-delay product"),
    ("overflow", "HOW", "drop or trim"),
    ("switching", "HOW", "store (and forward) or cut-through"),
    ("ecn", "HOW", "off, threshold:SIZE or red:LOW:HIGH[:PERMILLE]; default: red at 20 % and 80 %"),
    ("shared-buffer", "SIZE[:PERMILLE]", "of a switch, and what a queue may hold of what is free"),
    (
        "pfc",
        "PAUSE:RESUME",
        "bytes that came by a link: above, data waits at its sender; below, not",
    ),
    ("loss", "CHANCE", "that a packet is lost on its host's link, as 0.0001 or 0.01%"),
    (
        "fail",
        "A-B@TIME[..TIME]",
        "the links between two nodes, or of plane-0 or plane-1, are gone from the first TIME until \
         the second, as 4-6@0us..1ms or plane-1@20us; may be repeated",
    ),
    (
        "degrade",
        "A-B@TIME:RATE",
        "from TIME on such links have another rate, as 4-6@0us:0.5G: whole megabits per second, 1M \
         to 100T; may be repeated",
    ),
    (
        "delay",
        "A-B@TIME:LATENCY",
        "from TIME on such links take longer, as 4-6@0us:10ms: at most 1s; may be repeated",
    ),
    ("window", "N", "packets that a channel can track; default: four bandwidth-delay products"),
    ("burst", "N", "packets that a NIC takes from its engine at once"),
    (
        "timeout-min",
        "TIME",
        "the shortest retransmission time-out; default: eight round trips, of RoCE 1ms at least",
    ),
    (
        "reorder-tolerance",
        "N",
        "packets that may overtake one before its receiver calls it lost; default: what a round trip \
         carries, 64 at least",
    ),
    ("acknowledge-every", "N", "data packets, at the latest"),
    ("end", "TIME", "of simulated time, at the latest"),
    (
        "grid",
        "AxB[xC]",
        "ranks in each dimension of sweep3d and halo3d; default: as equal as can be",
    ),
    ("cells", "AxBxC", "of a rank, of sweep3d and halo3d"),
    ("layers", "N", "of cells that sweep3d computes and sends at once"),
    ("iterations", "N", "of sweep3d and halo3d"),
    ("compute", "TIME", "for a layer and field of sweep3d, or an iteration of halo3d"),
    ("ranks-per-node", "N", "of sweep3d and halo3d"),
    (
        "protocol",
        "NAME",
        "of sweep3d and halo3d: rvma (mailboxes), rdma (address, WRITE, message), rdma-ordered \
         (address, WRITE) or rendezvous (copies, or match, READ, acknowledgement)",
    ),
    ("host-latency", "TIME", "from a rank to its NIC, and back"),
    ("copy", "RATE", "at which a rank copies, as 80G: whole megabits per second, 1M to 100T"),
    ("eager", "SIZE", "of messages that rendezvous copies, at most"),
    ("depth", "1|2", "messages to a neighbour under way before their sender waits"),
    ("buffers", "N", "of a mailbox, and receives for each neighbour"),
    (
        "stream",
        "A-B [NAME=VALUE]...",
        "of streams: messages from host A to B, with verb (write, or read: then B reads from A), \
         size (64K, or 4K..1M drawn), depth under way, count of streams, every TIME one, start, \
         end, rate, weight, tenant, tenant-weight, hint (N, or N@TIME), paths, policy; may be \
         repeated",
    ),
    ("measure", "TIME", "from when on streams and control are measured"),
    (
        "control",
        "THREADS:TIME",
        "what schedulers run on, and for how long an event keeps a thread; default: in line, at once",
    ),
    (
        "coalescing",
        "HOW",
        "of control: until-threshold, as the law asks, or slots (what comes while it is busy)",
    ),
    ("check", "on|off", "check that every byte is placed once and where it belongs"),
];

/// The workloads by name.
pub const WORKLOADS: [&str; 19] = [
    "permutation",
    "incast",
    "outcast",
    "all-to-all",
    "incast-permutation",
    "ring-allreduce",
    "tree-allreduce",
    "all-gather",
    "reduce-scatter",
    "websearch",
    "hadoop",
    "sizes",
    "matrix",
    "trace",
    "moe",
    "sweep3d",
    "halo3d",
    "halo3d26",
    "streams",
];
/// The topologies by name.
pub(super) const TOPOLOGIES: [&str; 7] =
    ["fat-tree", "leaf-spine", "rail", "torus", "hyperx", "dragonfly", "dual-plane"];
/// Those that may be a plane.
pub(super) const PLANES: [&str; 2] = ["fat-tree", "leaf-spine"];
