//! What the NIC has done, in numbers that only grow.

use crate::api::DropReason;
use crate::placement::Verdict;

/// Counts since the NIC was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Data packets sent for the first time.
    pub data_sent: u64,
    /// Data packets sent again.
    pub data_resent: u64,
    /// Payload bytes in data packets, resent ones included.
    pub payload_sent: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Of those, selective ones.
    pub selective_acks_sent: u64,
    /// Refusals sent.
    pub naks_sent: u64,
    /// Headers of data packets that came without their payload.
    pub trimmed_received: u64,
    /// Void packets sent.
    pub voids_sent: u64,
    /// How often credit was granted to a sender.
    pub credits_sent: u64,
    /// Credits of peers that exceeded what had been requested. The excess had no effect.
    pub credits_unasked: u64,
    /// Requests for credit that came.
    pub credit_requests_received: u64,
    /// Probes of paths that were given up, and keep-alives, sent.
    pub probes_sent: u64,
    /// Probes of round trips sent.
    pub round_trip_probes_sent: u64,
    /// Of those, answered.
    pub round_trip_probes_answered: u64,
    /// Data packets accepted.
    pub data_received: u64,
    /// Payload bytes in them.
    pub payload_received: u64,
    /// Acknowledgements received.
    pub acks_received: u64,
    /// Of those, such as congestion controls were told of: they acknowledged something new, told a
    /// round trip, or marks.
    pub acks_reported: u64,
    /// Of those told of, those whose sender asks to slow down.
    pub pressure_received: u64,
    /// Data packets sent without an address, because the receiver knew it.
    pub continuation_packets_sent: u64,
    /// Header bytes those did without.
    pub continuation_bytes_saved: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Of those, packets that arrived after all before they were resent.
    pub lost_revoked: u64,
    /// Packets that the peer says it got twice.
    pub spurious: u64,
    /// Packets that were sent again to ask what is missing at the end, and not because they were.
    pub tail_probes: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// First packets of messages refused because no receive was posted.
    pub not_ready: u64,
    /// Paths taken out of use.
    pub paths_down: u64,
    /// Paths taken back into use.
    pub paths_up: u64,
    /// Bitmap blocks returned early because they were full (ORNIC §3.4).
    pub blocks_freed_early: u64,
    /// Operations that waited here for earlier ones before they were issued.
    pub gated: u64,
    /// Transactions that asked for order, looked up in the target's tracker.
    pub gates_passed: u64,
    /// Of those, held until what they follow had been executed.
    pub deferred: u64,
    /// Of those, sent back because they came too early.
    pub sent_back: u64,
    /// Messages refused that had been acknowledged, because their memory was missing at their turn.
    pub refused_late: u64,
    /// Completions that waited for those of earlier operations.
    pub completions_awaiting_order: u64,
    /// Completions of receives that waited for those of earlier ones.
    pub receives_awaiting_order: u64,
    /// Transaction acknowledgements (TAACK) sent: modes ROI and ROT.
    pub transaction_acks_sent: u64,
    /// Atomics executed here.
    pub atomics_executed: u64,
    /// Puts that are whole in a mailbox here.
    pub puts_received: u64,
    /// Epochs of mailboxes that were done.
    pub epochs_done: u64,
    /// Unreliable packets sent.
    pub datagrams_sent: u64,
    /// Unreliable packets accepted.
    pub datagrams_received: u64,
    /// Unreliable packets that could not be delivered.
    pub datagrams_lost: u64,
    /// Loads and stores sent, repeats included.
    pub bypass_sent: u64,
    /// Of those, repeats.
    pub bypass_repeated: u64,
    /// Stores of peers done here.
    pub stores_done: u64,
    /// Messages of peers refused that name something that is here, with a wrong key.
    pub keys_refused: u64,
    /// Packets ignored, by reason (index: `DropReason as usize`).
    pub drops: [u64; DropReason::COUNT],
}

impl Counters {
    /// Counts a packet that is dropped. Returns what the caller of the NIC is to do with it.
    pub(crate) fn drop(&mut self, reason: DropReason) -> Verdict {
        self.drops[reason as usize] += 1;
        Verdict::Drop(reason)
    }

    /// Packets ignored for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }
}
