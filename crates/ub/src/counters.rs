//! Counters of a NIC. They only grow.

use crate::api::DropReason;
use crate::placement::Verdict;

/// Counts since the NIC was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Data packets sent for the first time.
    pub data_sent: u64,
    /// Data packets sent again.
    pub data_resent: u64,
    /// Payload bytes in data packets, resent ones included.
    pub payload_sent: u64,
    /// Acknowledgements sent as packets of their own.
    pub acks_sent: u64,
    /// Acknowledgements sent within data packets.
    pub acks_carried: u64,
    /// Selective acknowledgements among `acks_sent`.
    pub selective_acks_sent: u64,
    /// Refusals sent.
    pub naks_sent: u64,
    /// Headers of data packets that came without their payload.
    pub trimmed_received: u64,
    /// Void packets sent.
    pub voids_sent: u64,
    /// Number of credits granted to senders.
    pub credits_sent: u64,
    /// Credits of peers that exceeded what had been requested. The excess had no effect.
    pub credits_unrequested: u64,
    /// Requests for credit received.
    pub credit_requests_received: u64,
    /// Probes of paths that were taken out of use, and keep-alives, sent.
    pub probes_sent: u64,
    /// Probes of round trips sent.
    pub round_trip_probes_sent: u64,
    /// Probes among `round_trip_probes_sent` that were answered.
    pub round_trip_probes_answered: u64,
    /// Operations divided into parts, which went by several channels of a group.
    pub divided: u64,
    /// Data packets accepted.
    pub data_received: u64,
    /// Payload bytes in accepted data packets.
    pub payload_received: u64,
    /// Acknowledgements received, within data packets or not.
    pub acks_received: u64,
    /// Acknowledgements among `acks_received` that were reported to congestion controls: they
    /// acknowledged something new, or carried a round trip or marks.
    pub acks_reported: u64,
    /// Acknowledgements among `acks_reported` whose sender requests the peer to slow down.
    pub pressure_received: u64,
    /// Data packets sent without an address, because the receiver knew it.
    pub continuation_packets_sent: u64,
    /// Header bytes that continuation packets left out.
    pub continuation_bytes_saved: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets among `lost` that arrived after all before they were resent.
    pub lost_revoked: u64,
    /// Packets that the peer reports to have received twice.
    pub spurious: u64,
    /// Packets sent again as tail loss probes, and not because they were declared lost.
    pub tail_probes: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// First packets of messages refused because no receive was posted.
    pub not_ready: u64,
    /// Paths taken out of use.
    pub paths_down: u64,
    /// Paths taken back into use.
    pub paths_up: u64,
    /// Channels that were found dead while their group went on.
    pub channels_retired: u64,
    /// Messages moved from such channels to others.
    pub messages_moved: u64,
    /// Notices to peers that such channels have ended here, and answers to theirs, sent.
    pub retirement_notices_sent: u64,
    /// Bitmap blocks returned early because they were full (ORNIC §3.4).
    pub blocks_freed_early: u64,
    /// Operations that waited here for earlier ones before they were issued.
    pub gated: u64,
    /// Transactions that requested order, looked up in the target's tracker.
    pub gates_passed: u64,
    /// Transactions among `gates_passed` that were deferred until what they follow had been
    /// executed.
    pub deferred: u64,
    /// Most packets at a time that waited to be executed.
    pub deferred_max: u64,
    /// Greatest distance, in packets of one channel, from the first packet that was missing to the
    /// last that had arrived.
    pub early_max: u64,
    /// Transactions among `gates_passed` that were sent back because they came too early.
    pub sent_back: u64,
    /// Messages refused after they had been acknowledged, because their memory was missing when
    /// their turn came.
    pub refused_late: u64,
    /// Completions that waited for completions of earlier operations.
    pub completions_awaiting_order: u64,
    /// Completions of receives that waited for completions of earlier receives.
    pub receives_awaiting_order: u64,
    /// Transactions acknowledged by a TAACK, which may be several in a packet: modes ROI and ROT.
    pub transaction_acks_sent: u64,
    /// Atomics executed here.
    pub atomics_executed: u64,
    /// Puts placed completely in a mailbox here.
    pub puts_received: u64,
    /// Epochs of mailboxes that have ended.
    pub epochs_done: u64,
    /// Unreliable packets sent.
    pub datagrams_sent: u64,
    /// Unreliable packets accepted.
    pub datagrams_received: u64,
    /// Unreliable packets that could not be delivered.
    pub datagrams_lost: u64,
    /// Loads and stores sent, repeats included.
    pub bypass_sent: u64,
    /// Repeats among `bypass_sent`.
    pub bypass_repeated: u64,
    /// Stores of peers done here.
    pub stores_done: u64,
    /// Messages of peers refused because they name something that exists here, with a wrong key.
    pub keys_refused: u64,
    /// Packets dropped, by reason (index: `DropReason as usize`).
    pub drops: [u64; DropReason::COUNT],
}

impl Counters {
    /// Counts a dropped packet. Returns the verdict for the caller of the NIC.
    pub(crate) fn drop(&mut self, reason: DropReason) -> Verdict {
        self.drops[reason as usize] += 1;
        Verdict::Drop(reason)
    }

    /// Packets dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }
}
