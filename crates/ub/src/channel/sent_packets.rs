//! Packets of a channel that have been sent and not acknowledged, and those that wait to be resent.

use super::late_refusal::LateRefusals;
use crate::list::List;
use crate::pool::Index;
use crate::send_window::{SendBlocks, SendWindow, Sent, SentLinks};
use fairway_policy::MemoryVisitor;
use fairway_wire::{Msn, Psn};

/// The records of packets that have been sent and not acknowledged. Each packet is in flight on a
/// path, or in the list of those that wait to be resent.
#[derive(Debug)]
pub(super) struct SentPackets {
    window: SendWindow,
    /// PSNs to be resent.
    lost: List<Index<Sent>>,
    /// Bytes that are to be resent.
    lost_bytes: u64,
    /// Late refusals that the peer attached to one of these packets.
    late_refusals: LateRefusals,
}

impl SentPackets {
    pub(super) fn new(window_packets: u32) -> SentPackets {
        SentPackets {
            window: SendWindow::new(window_packets),
            lost: List::default(),
            lost_bytes: 0,
            late_refusals: LateRefusals::default(),
        }
    }

    /// Number of PSNs that can be tracked at once.
    #[inline]
    pub(super) fn capacity(&self) -> u32 {
        self.window.capacity()
    }

    /// Makes sure there is a record for `psn`; false if the pool is exhausted.
    #[inline]
    pub(super) fn admit(&mut self, psn: Psn, pool: &mut SendBlocks) -> bool {
        self.window.admit(psn, pool)
    }

    #[inline]
    pub(super) fn record<'p>(&self, psn: Psn, pool: &'p mut SendBlocks) -> &'p mut Sent {
        self.window.record(psn, pool)
    }

    /// The record of a packet, if there is one.
    #[inline]
    pub(super) fn peek<'p>(&self, psn: Psn, pool: &'p SendBlocks) -> Option<&'p Sent> {
        self.window.peek(psn, pool)
    }

    /// Names the memory by which the records of packets from `oldest` on, and of `next`, are found.
    pub(super) fn visit_window(&self, oldest: Psn, next: Psn, visitor: &mut MemoryVisitor<'_>) {
        self.window.visit_memory(oldest, visitor);
        self.window.visit_memory(next, visitor);
    }

    /// Access to the records, in which the lists of paths keep their links.
    #[inline]
    pub(super) fn links<'a>(&'a self, pool: &'a mut SendBlocks) -> SentLinks<'a> {
        SentLinks { window: &self.window, pool }
    }

    /// Frees the blocks between `from` and `to`, the old and the new oldest packet; true if any was
    /// freed.
    #[inline]
    pub(super) fn retire(&mut self, from: Psn, to: Psn, pool: &mut SendBlocks) -> bool {
        self.window.retire(from, to, pool)
    }

    // ---- packets that wait to be resent ----

    /// Appends a packet that is in no list to those to be resent.
    pub(super) fn await_resend(&mut self, psn: Psn, bytes: u16, pool: &mut SendBlocks) {
        let mut links = SentLinks { window: &self.window, pool };
        self.lost.push_back(&mut links, Sent::at(psn));
        self.lost_bytes += u64::from(bytes);
    }

    /// Removes a packet that leaves, or need not be resent, from those that wait.
    pub(super) fn stop_waiting(&mut self, psn: Psn, bytes: u16, pool: &mut SendBlocks) {
        let mut links = SentLinks { window: &self.window, pool };
        self.lost.unlink(&mut links, Sent::at(psn));
        self.lost_bytes -= u64::from(bytes);
    }

    /// The packet that has waited for longest to be resent.
    #[inline]
    pub(super) fn first_lost(&self) -> Option<Psn> {
        self.lost.head().map(Sent::psn)
    }

    /// Bytes that are to be resent.
    #[inline]
    pub(super) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    // ---- packets with which the peer has refused another message ----

    /// The message that the void in place of a packet has to name, if it is not the packet's own.
    pub(super) fn late_refusal(&self, psn: Psn) -> Option<Msn> {
        self.late_refusals.message_of(psn)
    }

    /// Records that the peer refused a message, which it has acknowledged, with a packet of another
    /// one. False if there is no room for the record.
    pub(super) fn note_late_refusal(&mut self, psn: Psn, message: Msn) -> bool {
        self.late_refusals.note(psn, message)
    }

    /// Removes the entry of a packet that was acknowledged, or whose void is to name its own
    /// message.
    #[inline]
    pub(super) fn end_late_refusal(&mut self, psn: Psn) {
        self.late_refusals.confirmed(psn);
    }

    /// True if the peer has refused no message with a packet of another one.
    pub(super) fn has_no_late_refusal(&self) -> bool {
        self.late_refusals.is_empty()
    }

    /// True if no packet waits to be resent, and none has refused another message.
    pub(super) fn is_at_rest(&self) -> bool {
        self.lost.is_empty() && self.late_refusals.is_empty()
    }

    /// True if blocks of records are held, as an idle channel holds one that is partly used.
    pub(super) fn holds_blocks(&self) -> bool {
        self.window.holds_blocks()
    }

    /// Forgets packets in flight and waiting when the channel ends.
    pub(super) fn flush(&mut self, pool: &mut SendBlocks) {
        self.lost = List::default();
        self.lost_bytes = 0;
        self.window.clear(pool);
    }

    /// Checks the packets that wait to be resent against the counts.
    ///
    /// # Panics
    /// If they disagree, which is always a bug of this implementation, never the peer's fault.
    pub(super) fn audit(&self, lost: u32, lost_bytes: u64, pool: &mut SendBlocks) {
        assert_eq!(lost_bytes, self.lost_bytes, "bytes to be resent");
        let mut listed = 0;
        let mut next = self.lost.head();
        while let Some(at) = next {
            listed += 1;
            next = self.record(Sent::psn(at), pool).links.next();
        }
        assert_eq!(lost, listed, "packets waiting to be resent");
    }
}
