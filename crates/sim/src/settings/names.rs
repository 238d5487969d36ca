//! Names, values and meanings of all settings.

use crate::traffic::Collective;

/// For every setting: its name, the values it takes, and its meaning.
pub const SETTINGS: &[(&str, &str, &str)] = &[
    (
        "workload",
        "NAME",
        "permutation, incast, outcast, all-to-all, incast-permutation, ring-allreduce, \
         tree-allreduce, halving-allreduce, doubling-allreduce, all-gather, reduce-scatter, \
         broadcast, reduce, pairwise-alltoall, direct-alltoall, websearch, hadoop, sizes, \
         matrix, trace, moe, sweep3d, halo3d, halo3d26 or streams",
    ),
    (
        "topology",
        "NAME",
        "fat-tree (three tiers), leaf-spine (two), rail, torus, hyperx, dragonfly or dual-plane \
         (each host has a wire into each of two networks); default: fat-tree, or leaf-spine for a \
         number of hosts that no fat tree has",
    ),
    ("plane", "NAME", "topology of each network of dual-plane: fat-tree or leaf-spine"),
    ("sizes", "AxB[xC]", "switches in each dimension of a torus or HyperX; default: 8x8"),
    (
        "dragonfly",
        "A:H:G",
        "A switches in a group, H global links of a switch, G groups: A times H is a multiple of G \
         - 1; default: 4:2:9",
    ),
    (
        "hosts-per-switch",
        "N",
        "hosts at each switch of torus, hyperx and dragonfly, 1 to 512; default: 1",
    ),
    (
        "nodes",
        "N",
        "number of hosts, 2 to 262144; default: 32 for all-to-all, 64 for moe and collective \
         operations, 128 for incast-permutation, 1024 for others, or as many as a matrix or trace has",
    ),
    ("hosts-per-leaf", "N", "hosts at each leaf of leaf-spine and rail, 1 to 1024"),
    (
        "oversubscription",
        "N",
        "ports of a leaf to hosts for each port to a spine, 1 to 64; default: 1",
    ),
    ("rails", "N", "NICs of each server in topology rail, 1 to 64; default: 8"),
    (
        "link",
        "RATE",
        "rate of every link, as 400G or 0.5G: whole megabits per second, 1M to 100T; default: 400G",
    ),
    ("latency", "TIME", "latency of every link, as 1us or 0.5ms: 1ps to 1s; default: 1us"),
    (
        "bytes",
        "SIZE",
        "bytes of a message (moe: of a token), as 64M or 64K: 1 to 4294967295; default: 2000000 \
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
        "protocol of the NICs: fairway, roce (go-back-N), or roce-irn (selective repeat)",
    ),
    (
        "mtu",
        "SIZE",
        "payload of a packet, as 4K (the default): 64 to 32K, for RoCE a power of two, 256 to 4K",
    ),
    (
        "chunk",
        "SIZE",
        "bytes of a chunk, which takes one path: a size, packet (one packet, the default), or policy (the policy chooses)",
    ),
    ("paths", "N", "paths of every channel, 1 to 256; default: 256; a queue pair of RoCE has one"),
    (
        "split",
        "N[:SIZE]",
        "channels (RoCE: queue pairs) between two hosts, which share the paths, 1 to 16; default: \
         1. Messages go by several channels in parts of at least SIZE, default: 256K, or off",
    ),
    ("pieces", "N", "WRITEs of which a message of permutation consists, 1 to 4096; default: 1"),
    (
        "collectives",
        "ranks|flows",
        "how collective operations run: ranks (the state machine of live ranks, with keys, \
         headers, slots that are returned, and time to copy and combine), or flows (its messages, \
         each as soon as those that it is made of have arrived, and nothing else: for RoCE, and \
         for thousands of hosts); default: ranks, with RoCE flows. Traces run as flows",
    ),
    (
        "rounds",
        "N",
        "calls of a collective operation by each rank, one after the other, 1 to 65536; default: 1",
    ),
    (
        "placement",
        "order|random",
        "hosts of the ranks of a collective operation: in order (the default), or drawn at random",
    ),
    ("slots", "N", "slots that a rank has for messages of each other rank, 4 to 32; default: 16"),
    (
        "slot",
        "SIZE",
        "length of a slot, the longest message of a collective operation, a multiple of 8; \
         default: 256K, for flows and traces whole pieces",
    ),
    (
        "direct-from",
        "SIZE",
        "length of output buffers from which on messages go straight to their place, after the \
         exchange of a key, instead of through slots; default: 128K",
    ),
    (
        "combine",
        "RATE",
        "rate at which a rank combines elements, as 64G (the default, measured with f32): whole \
         megabits per second, 1M to 100T",
    ),
    (
        "turn",
        "SIZE",
        "bytes of a message before another message between the same hosts has its turn, in whole \
         chunks; default: a slot, for flows without slots one chunk",
    ),
    ("tokens", "N", "tokens of each host of moe, 1 to 65536; default: 128"),
    (
        "experts",
        "N:K",
        "N experts of moe, on all hosts in turn, K of which receive each token; default: 256:8",
    ),
    (
        "skew",
        "PERMILLE",
        "thousandths of tokens of moe that choose experts by Zipf's law; default: 0",
    ),
    (
        "path",
        "NAME",
        "path choice in place of that of policy: spray, p2c, plb, mp-rdma, bitmap, reps, least-rtt or \
         flowlet",
    ),
    (
        "policy",
        "SPEC",
        "policies, as cc=swift,path=spray, or a module: cc=./mine.wasm; default: NSCC with \
         REPS and RACK, set for the network (RoCE: DCQCN)",
    ),
    ("policy-swap", "TIME:ITEM", "replace a module at TIME, as 1ms:cc=./new.wasm; may be repeated"),
    (
        "load",
        "PERCENT",
        "load of the hosts' links by websearch, hadoop and sizes, 1 to 1000; default: 50",
    ),
    ("flows", "N", "flows of websearch, hadoop and sizes, 1 to 16777216; default: 10000"),
    (
        "routing",
        "NAME",
        "how switches choose links: ecmp, source, spray, adaptive, dimension, valiant or ugal",
    ),
    ("queue", "SIZE", "bytes that a switch port can queue; default: a bandwidth-delay product"),
    ("overflow", "HOW", "what a full queue does with a packet: drop or trim"),
    ("switching", "HOW", "how switches forward: store (store and forward) or cut-through"),
    (
        "ecn",
        "HOW",
        "ECN marking: off, threshold:SIZE or red:LOW:HIGH[:PERMILLE], with 0 to 1000 thousandths at \
         HIGH; default: red at 20 % and 80 %, 1000",
    ),
    (
        "hint",
        "HOW",
        "what switches write into data packets: off; caqm[:LOW:HIGH:ZERO] for cc=caqm, queue \
         lengths at which congestion ends and begins, and the hint is 0 (20, 40 and 80 %); \
         use[:TIME] for cc=hpcc, the use of links over TIME (a round trip); default: caqm with \
         cc=caqm, use with cc=hpcc, otherwise off",
    ),
    (
        "shared-buffer",
        "SIZE[:PERMILLE]",
        "buffer that the ports of a switch share, and the part of its free bytes that a queue may \
         use",
    ),
    (
        "classes",
        "N",
        "classes that switches serve by strict priority, 2 to 8, control packets being one; \
         default: 8. Of the policies, homa names classes of data",
    ),
    (
        "pfc",
        "PAUSE:RESUME",
        "priority flow control: bytes queued of a link from which its sender is paused, and below \
         which it is resumed: 1 to PAUSE",
    ),
    (
        "loss",
        "CHANCE",
        "probability that a packet is lost on its host's link, as 0.0001 or 0.01%: at most 50%",
    ),
    (
        "fail",
        "LINKS@TIME[..TIME]",
        "LINKS fail at the first TIME and return at the second, which is later, as spine-0@20us or \
         4-6@0us..1ms; may be repeated. LINKS are those between two nodes (4-6; hosts have the first numbers, \
         then switches tier by tier), all of a node (4, host-4, leaf-0, spine-0, aggregation-0, \
         core-0, switch-0), or all of plane-0 or plane-1",
    ),
    (
        "degrade",
        "LINKS@TIME:RATE",
        "LINKS have this rate from TIME on, as 4-6@0us:0.5G: whole megabits per second, 1M to \
         100T; may be repeated",
    ),
    (
        "delay",
        "LINKS@TIME:LATENCY",
        "LINKS have this latency from TIME on, as 4-6@0us:10ms: at most 1s; may be repeated",
    ),
    (
        "drain",
        "HOST:RATE[@TIME..TIME]",
        "HOST, a number or all, takes data out of its NIC at RATE (from the first TIME until the \
         second), as 1:25G@100us..300us: whole megabits per second, 1M to 100T; may be repeated",
    ),
    (
        "receive-queue",
        "SIZE[:PRESS:RELIEVE]",
        "bytes that can wait for a host with drain, the number from which it signals pressure to \
         its peers, and the number at which it ceases to; default: 512K:128K:64K",
    ),
    (
        "window",
        "N",
        "packets that a channel can track, 128 to 32768; default: four bandwidth-delay products",
    ),
    ("burst", "N", "packets that a NIC takes from its protocol at once, 1 to 1024; default: 1"),
    (
        "timeout-min",
        "TIME",
        "shortest retransmission time-out; default: eight round trips, for RoCE at least 1ms",
    ),
    (
        "reorder-tolerance",
        "N",
        "packets that may overtake one before the receiver reports it lost; default: those of a \
         round trip, at least 64",
    ),
    (
        "acknowledge-every",
        "N|chunk",
        "most data packets that one acknowledgement covers; chunk: the last packet of each chunk is \
         acknowledged at once; default: 16",
    ),
    (
        "small-messages",
        "BYTES",
        "longest message that takes the path of small messages instead of several; default: 16K",
    ),
    (
        "acknowledge-marks",
        "on|off",
        "on: a packet with a congestion mark is acknowledged at once; off: the next \
         acknowledgement names the paths whose packets had marks; default: off",
    ),
    ("end", "TIME", "simulated time at which a run ends at the latest, up to 1000s; default: 1s"),
    (
        "grid",
        "AxB[xC]",
        "ranks in each dimension of sweep3d and halo3d; default: as equal as can be",
    ),
    ("cells", "AxBxC", "cells of each rank of sweep3d and halo3d"),
    (
        "layers",
        "N",
        "layers of cells that sweep3d computes and sends at once, 1 to 65536; default: 10",
    ),
    ("iterations", "N", "iterations of sweep3d and halo3d, 1 to 65536; default: 1"),
    (
        "compute",
        "TIME",
        "computing time of a layer and field of sweep3d, or of an iteration of halo3d",
    ),
    (
        "ranks-per-node",
        "N",
        "ranks of sweep3d, halo3d and collective operations on each node, 1 to 1024; default: 1",
    ),
    (
        "protocol",
        "NAME",
        "protocol of sweep3d and halo3d: rvma (mailboxes), rdma (address, WRITE, message), \
         rdma-ordered (address, WRITE) or rendezvous (copies, or match, READ, acknowledgement)",
    ),
    ("host-latency", "TIME", "latency from a rank to its NIC, and back"),
    ("copy", "RATE", "rate at which a rank copies, as 80G: whole megabits per second, 1M to 100T"),
    ("eager", "SIZE", "size up to which rendezvous copies messages"),
    ("depth", "1|2", "messages to a neighbour in flight before the sender waits"),
    ("buffers", "N", "buffers of a mailbox, and receives for each neighbour, 1 to 256; default: 8"),
    (
        "stream",
        "A-B [NAME=VALUE]...",
        "a stream of messages from host A to B, with verb (write, or read: B reads from A), size \
         (64K, or 4K..1M at random), depth (messages in flight), count (of streams), every \
         (TIME between the starts of these streams), start, end, rate, weight, tenant, tenant-weight, hint (N, or N@TIME), \
         order (none, relaxed, strict), mode (roi, rot, rol), paths and policy; may be repeated",
    ),
    ("measure", "TIME", "time from which streams and control are measured; before end"),
    (
        "control",
        "THREADS:TIME",
        "threads on which schedulers run, and time that each event takes; default: in line, no \
         time",
    ),
    (
        "coalescing",
        "HOW",
        "which events control receives as one: until-threshold (as the policy requests) or slots \
         (those that arrive while it is busy)",
    ),
    ("check", "on|off", "check that every byte is placed once and where it belongs"),
];

/// The workloads by name, with a description of each.
pub const WORKLOADS: [(&str, &str); 25] = [
    ("permutation", "every host sends a message to one other and receives one"),
    ("incast", "--senders hosts (default: all others) send a message each to host 0"),
    ("outcast", "host 0 sends a message to each of --senders hosts (default: all others)"),
    ("all-to-all", "every host sends a message to every other"),
    (
        "incast-permutation",
        "an incast of --messages messages per sender beside a permutation of as many",
    ),
    ("ring-allreduce", "all-reduce of --bytes by a ring of all hosts"),
    ("tree-allreduce", "all-reduce of --bytes by two binary trees of all hosts"),
    ("halving-allreduce", "all-reduce of --bytes by pairs that exchange halves, quarters, ..."),
    ("doubling-allreduce", "all-reduce of --bytes by pairs that exchange the whole buffer"),
    ("all-gather", "every host gets --bytes, a share of which each host contributes, by a ring"),
    ("reduce-scatter", "every host gets its share of the sum of all hosts' --bytes, by a ring"),
    ("broadcast", "every host gets the --bytes of host 0, by a binary tree"),
    ("reduce", "host 0 gets the sum of all hosts' --bytes, by a binary tree"),
    ("pairwise-alltoall", "every host sends --bytes / --nodes to every other, one at a time"),
    ("direct-alltoall", "the same, all at once"),
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
        "moe" => 64,
        name if Collective::named(name).is_some() => 64,
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
pub(super) const FAIRWAY_ONLY: [&str; 6] =
    ["paths", "path", "chunk", "turn", "policy-swap", "hint"];

/// Settings that only the ranks of collective operations have.
pub(super) const RANKS_ONLY: [&str; 4] = ["rounds", "slots", "direct-from", "combine"];

/// Names of the topologies.
pub(super) const TOPOLOGIES: [&str; 7] =
    ["fat-tree", "leaf-spine", "rail", "torus", "hyperx", "dragonfly", "dual-plane"];
/// Topologies that a plane may have.
pub(super) const PLANES: [&str; 2] = ["fat-tree", "leaf-spine"];
