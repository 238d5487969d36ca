//! Names, values and meanings of all settings.

/// For every setting: its name, the values it takes, and its meaning.
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
    ("sizes", "AxB[xC]", "switches in each dimension of a torus or HyperX; default: 8x8"),
    (
        "dragonfly",
        "A:H:G",
        "switches of a group, global links of a switch, groups: A times H is a multiple of G - 1; \
         default: 4:2:9",
    ),
    (
        "hosts-per-switch",
        "N",
        "hosts of a switch of torus, hyperx and dragonfly, 1 to 512; default: 1",
    ),
    (
        "nodes",
        "N",
        "hosts, 2 to 262144; default: 32 for all-to-all, 64 for moe and collectives by a ring, 128 \
         for incast-permutation, 1024 for others, or as many as a matrix or trace has",
    ),
    ("hosts-per-leaf", "N", "hosts of a leaf of leaf-spine and rail, 1 to 1024"),
    ("oversubscription", "N", "ports of a leaf down for each one up, 1 to 64; default: 1"),
    ("rails", "N", "NICs of a server, of topology rail, 1 to 64; default: 8"),
    (
        "link",
        "RATE",
        "rate of every link, as 400G or 0.5G: whole megabits per second, 1M to 100T; default: 400G",
    ),
    ("latency", "TIME", "latency of every link, as 1us or 0.5ms: 1ps to 1s; default: 1us"),
    (
        "bytes",
        "SIZE",
        "bytes of a message (of a token of moe), as 64M or 64K: 1 to 4294967295; default: 2000000 \
         (moe: 7K)",
    ),
    ("messages", "N", "messages of each flow of incast-permutation, 1 to 65536; default: 4"),
    (
        "senders",
        "N",
        "senders of incasts, receivers of outcast, 1 to 262144; default: all hosts but one",
    ),
    (
        "stack",
        "NAME",
        "what NICs speak: fairway, roce (go-back-N), or roce-irn (what is missing is sent again)",
    ),
    (
        "mtu",
        "SIZE",
        "payload of a packet, as 4K (the default): 64 to 32K; of RoCE a power of two, 256 to 4K",
    ),
    ("chunk", "SIZE", "bytes of a chunk, as 32K (the default), or policy: what the policy chooses"),
    ("paths", "N", "paths of every channel, 1 to 256; default: 256. RoCE has one for a queue pair"),
    (
        "split",
        "N",
        "channels (queue pairs of RoCE) of two hosts, which share the paths, 1 to 16; default: 1",
    ),
    ("pieces", "N", "WRITEs that a message of permutation is cut into, 1 to 4096; default: 1"),
    ("tokens", "N", "tokens of each host of moe, 1 to 65536; default: 128"),
    (
        "experts",
        "N:K",
        "experts of moe, on all hosts in turn, and those a token goes to; default: 256:8",
    ),
    (
        "skew",
        "PERMILLE",
        "thousandths of tokens of moe that choose experts by Zipf's law; default: 0",
    ),
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
    (
        "load",
        "PERCENT",
        "of all hosts' links, by websearch, hadoop and sizes, 1 to 1000; default: 50",
    ),
    ("flows", "N", "flows of websearch, hadoop and sizes, 1 to 16777216; default: 10000"),
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
        "LINKS@TIME[..TIME]",
        "LINKS are gone from the first TIME until the second, as spine-0@20us or 4-6@0us..1ms; may be \
         repeated. LINKS: those between two nodes (4-6; hosts are counted first, then switches tier \
         by tier), all of a node (4, host-4, leaf-0, spine-0, aggregation-0, core-0, switch-0), or of \
         plane-0 or plane-1",
    ),
    (
        "degrade",
        "LINKS@TIME:RATE",
        "from TIME on LINKS have another rate, as 4-6@0us:0.5G: whole megabits per second, 1M \
         to 100T; may be repeated",
    ),
    (
        "delay",
        "LINKS@TIME:LATENCY",
        "from TIME on LINKS take longer, as 4-6@0us:10ms: at most 1s; may be repeated",
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

/// The workloads by name, with a description of each.
pub const WORKLOADS: [(&str, &str); 19] = [
    ("permutation", "every host sends a message to one other and receives one"),
    ("incast", "--senders hosts (default: all others) send a message each to host 0"),
    ("outcast", "host 0 sends a message to each of --senders hosts (default: all others)"),
    ("all-to-all", "every host sends a message to every other"),
    (
        "incast-permutation",
        "an incast of --messages messages per sender beside a permutation of as many",
    ),
    ("ring-allreduce", "all-reduce of --bytes by a ring of all hosts"),
    ("tree-allreduce", "all-reduce of --bytes by a binary tree of all hosts"),
    ("all-gather", "every host gets the --bytes of all others, by a ring"),
    ("reduce-scatter", "every host gets its share of the sum of all hosts' --bytes, by a ring"),
    ("websearch", "--flows flows at --load, with the sizes of web search (Poisson arrivals)"),
    ("hadoop", "the same with the sizes of Hadoop"),
    ("sizes", "the same with the sizes of a file (--distribution)"),
    ("matrix", "the flows of a file (--matrix)"),
    ("trace", "collective operations and computation of a file: sim trace FILE"),
    ("moe", "dispatch and combine of a mixture of experts: --tokens of --bytes, --experts, --skew"),
    ("sweep3d", "ranks of a wavefront over a grid: --grid, --cells, --layers, --protocol"),
    ("halo3d", "ranks that exchange faces with their 6 neighbours: --grid, --cells, --iterations"),
    ("halo3d26", "the same with 26 neighbours"),
    ("streams", "messages without end between pairs of hosts, one --stream each"),
];

/// Default number of hosts of a workload, chosen so that a run takes seconds.
pub(super) fn usual_nodes(workload: &str) -> u32 {
    match workload {
        "all-to-all" => 32,
        "ring-allreduce" | "all-gather" | "reduce-scatter" | "moe" => 64,
        "incast-permutation" => 128,
        _ => 1024,
    }
}

/// Default bytes of a message or token.
pub(super) fn usual_bytes(workload: &str) -> u32 {
    match workload {
        // 7,168 values of 8 bits, as DeepSeek-V3 dispatches them.
        "moe" => 7168,
        _ => 2_000_000,
    }
}

/// Settings of Fairway's transport that RoCE NICs do not support.
pub(super) const FAIRWAY_ONLY: [&str; 4] = ["paths", "path", "chunk", "policy-swap"];

/// Names of the topologies.
pub(super) const TOPOLOGIES: [&str; 7] =
    ["fat-tree", "leaf-spine", "rail", "torus", "hyperx", "dragonfly", "dual-plane"];
/// Topologies that a plane may have.
pub(super) const PLANES: [&str; 2] = ["fat-tree", "leaf-spine"];
