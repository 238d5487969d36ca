//! The NIC's pipelines, stage by stage: latency and initiation interval in cycles.
//!
//! Source of the latencies: the SystemC bench of the OpenURMA paper (§6.3, Fig. 11a), transmit 24
//! for UB and 9 for RoCE, receive 4. Initiation intervals: Table 1 of the paper (jsched, ord_ini
//! and ord_tgt 2, atom 4). The encapsulators are not pipelined in the paper's design: 5 cycles per
//! packet is the minimum of its UB encapsulator, and 6 is the result of its throughput bench (§8.3)
//! for RoCE (256 requests in 1531 cycles). All other stages accept a packet every cycle.

/// A stage of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Name in the paper's design.
    pub name: &'static str,
    /// Latency, in cycles.
    pub cycles: u64,
    /// Cycles until the next packet may enter.
    pub interval: u64,
}

const fn stage(name: &'static str, cycles: u64, interval: u64) -> Stage {
    Stage { name, cycles, interval }
}

/// Transmit stages of UB work requests.
pub const UB_TX: &[Stage] = &[
    stage("doorbell", 1, 1),
    stage("jsched", 5, 2),
    stage("ord_ini", 1, 2),
    stage("btah_b", 1, 1),
    stage("tpc_tx", 1, 1),
    stage("cwnd", 1, 1),
    stage("retrans", 1, 1),
    stage("rtph_b", 1, 1),
    stage("nth_b", 1, 1),
    stage("ethenc", 11, 5),
];

/// Transmit stages of UB loads and stores, which bypass the transport.
pub const LDST_TX: &[Stage] =
    &[stage("ldst", 1, 1), stage("btah_b", 1, 1), stage("nth_b", 1, 1), stage("ethenc", 5, 5)];

/// Transmit stages of RoCE.
pub const ROCE_TX: &[Stage] = &[
    stage("doorbell", 1, 1),
    stage("qptx", 1, 1),
    stage("bth_b", 1, 1),
    stage("dcqcn", 1, 1),
    stage("retrans", 1, 1),
    stage("ethenc", 4, 6),
];

/// Receive stages of UB, from the wire to a decoded and checked header.
pub const UB_RX: &[Stage] =
    &[stage("ethdec", 1, 1), stage("nth_p", 1, 1), stage("dispatch", 1, 1), stage("ord_tgt", 1, 2)];

/// Receive stages of RoCE, likewise.
pub const ROCE_RX: &[Stage] =
    &[stage("ethdec", 1, 1), stage("bthp", 1, 1), stage("dispatch", 1, 1), stage("qprx", 1, 1)];
