//! Limits of a provider of RoCEv2, and the profile of its protocol.

use fairway_roce::{Limits, OutOfOrder, Profile, READ_DEPTH_MAX};
use fairway_ub::policy;

use crate::{LOCAL_BITS, ProviderLimits, ProviderOptions};

/// Maximum number of queue pairs of a provider: two bits of their numbers distinguish their uses.
const QUEUE_PAIRS: u32 = 1 << (LOCAL_BITS - 2);

/// The link's rate that DCQCN assumes, in bits per second. It is only the initial rate.
const LINE_BITS: u64 = 100_000_000_000;

/// Limits for programs.
pub(crate) const LIMITS: ProviderLimits = ProviderLimits {
    queue_pairs: QUEUE_PAIRS,
    completion_queues: 1 << 14,
    regions: 1 << 16,
    receive_queues: 1 << 12,
};

/// Returns the limits of the device in a slot.
pub(super) fn limits(slot: u8) -> Limits {
    Limits {
        queue_pairs: LIMITS.queue_pairs,
        number_bits: LOCAL_BITS,
        number_base: u32::from(slot) << LOCAL_BITS,
        segments: LIMITS.regions,
        completion_queues: LIMITS.completion_queues,
        completions: 1 << 24,
        receive_queues: QUEUE_PAIRS + LIMITS.receive_queues,
        sends: 1 << 19,
        // A record takes memory once it is used; until then it takes address space only.
        receives: 1 << 21,
        pending: 1 << 14,
        buffered: 1 << 10,
        read_depth: READ_DEPTH_MAX,
    }
}

/// Returns the profile. `received` is the size of a socket's receive buffer in bytes, as the kernel
/// counts them.
pub(super) fn profile(options: &ProviderOptions, received: usize) -> Profile {
    // The kernel charges up to twice a packet's bytes. The packets under way from one peer should
    // fit even if packets of others fill half of the buffer.
    let window = received / 4 / (options.mtu as usize + 512);
    // A peer with out-of-order reception accepts no packet that is early by more than its window.
    let most = OutOfOrder::default().window as usize;
    let window_packets = window.clamp(16, most) as u32;
    // The evidence of a loss has to fit into the window.
    let tolerance = OutOfOrder::default().tolerance.min(window_packets / 2);
    let selective = OutOfOrder { tolerance, ..OutOfOrder::default() };
    let out_of_order = options.out_of_order.then_some(selective);
    Profile {
        window_packets,
        // A socket's buffer overflows, above all if many peers send to it. If only missing packets
        // are retransmitted, that does not fill the buffer again.
        window_adapts: !options.out_of_order,
        acknowledge_every: (window_packets / 4).clamp(1, 64),
        out_of_order,
        // Where packets are expected out of order, a receiver places early packets of one WRITE,
        // and has to buffer those of later ones.
        split_writes: !options.out_of_order,
        dcqcn: options.dcqcn.then(|| policy::DcqcnRateParameters::new(LINE_BITS)),
        ..Profile::default()
    }
}
