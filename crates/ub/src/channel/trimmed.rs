//! Packets trimmed by a switch: their headers reveal a loss long before anything else does.
//!
//! The receiver answers with a NAK of that one packet; its sender resends it and reports a loss to
//! the policy. A NAK that is lost, or for which there is no room, costs nothing but time: the
//! packet is then found missing like any other.

use super::Channel;
use super::loss::Lost;
use crate::injected_bug::InjectedBug;
use crate::placement::Verdict;
use crate::send_window::{LOST, RESENT, VOID};
use crate::shared::Shared;
use fairway_wire::{Data, Instant, Msn, Nak, Psn, Refusal};

/// Most NAKs of one channel that may wait to be sent: more headers arrive during the sending of one
/// packet only in proportion as they are shorter.
const WAITING: usize = 8;

/// NAKs that wait to be sent, first in, first out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trimmed {
    waiting: [(Psn, Msn, bool); WAITING],
    first: u8,
    count: u8,
}

impl Trimmed {
    /// Queues a NAK. False if there is no room.
    pub(super) fn push(&mut self, data: &Data) -> bool {
        if usize::from(self.count) == WAITING {
            return false;
        }
        let at = usize::from(self.first + self.count) % WAITING;
        self.waiting[at] = (data.psn, data.message, data.retry);
        self.count += 1;
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn pop(&mut self) -> Option<Nak> {
        if self.count == 0 {
            return None;
        }
        let (psn, message, retry) = self.waiting[usize::from(self.first)];
        self.first = (self.first + 1) % WAITING as u8;
        self.count -= 1;
        Some(Nak { psn, message, reason: Refusal::Trimmed { retry }, retry_after_us: 0 })
    }
}

impl Channel {
    /// Handles a data packet of which only the header arrived.
    pub(crate) fn handle_trimmed(&mut self, shared: &mut Shared, data: &Data, path: u8) -> Verdict {
        shared.counters.trimmed_received += 1;
        self.acks.reply_by(path);
        if self.tp.receive().has_arrived(data.psn, &shared.bitmap_blocks) {
            // Another copy has arrived whole: acknowledge it again.
            self.acknowledge_soon(&mut shared.schedule);
        } else if self.acks.note_trimmed(data) {
            self.mark_urgent(&mut shared.schedule);
        }
        Verdict::Done
    }

    /// Resends a local packet of which a copy has lost its payload, unless it is already declared
    /// lost, or another copy is under way.
    pub(crate) fn resend_trimmed(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        psn: Psn,
        retry: bool,
    ) {
        let sent = *self.send.record(psn, &mut shared.send_blocks);
        let is_stale = sent.is(LOST | VOID) || sent.is(RESENT) != retry;
        if is_stale && !shared.is_injected(InjectedBug::ResendAnyTrimmed) {
            return;
        }
        self.declare_lost(shared, psn, &sent);
        self.report_loss(
            &mut shared.flows,
            &mut shared.schedule,
            now,
            (Lost::packet(&sent), sent.path),
            false,
        );
        self.mark_ready(&mut shared.schedule);
    }
}
