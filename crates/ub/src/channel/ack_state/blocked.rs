//! Packets that have arrived and must not be acknowledged yet.

use super::AckState;
use crate::message::Message;
use crate::pool::Index;
use alloc::vec::Vec;
use fairway_wire::{JettyId, Msn, Order, Psn, Refusal, SACK_BITS, Sack, Void};

/// A packet that has arrived but must not be acknowledged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockedAck {
    psn: Psn,
    why: BlockReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::channel) enum BlockReason {
    /// Its payload is being placed.
    Placing,
    /// As `Placing`; the packet is a part of the answer to the local message `request`.
    PlacingAnswer { request: Index<Message> },
    /// Its message was refused, and the sender has not confirmed that it received the refusal. The
    /// refusal is final: a repeat of the packet only repeats the NAK.
    Refused { message: Msn, reason: Refusal, nak_due: bool },
    /// An earlier message, all of which has arrived and may have been acknowledged, could not be
    /// executed when this packet made it the next in order. Its sequence numbers are skipped once
    /// the sender has confirmed that it received the refusal.
    Late { message: Msn, reason: Refusal, nak_due: bool, jetty: JettyId, order: Order },
}

impl BlockReason {
    fn is_placing(&self) -> bool {
        matches!(self, BlockReason::Placing | BlockReason::PlacingAnswer { .. })
    }

    /// The refused message and the reason, if one is refused.
    fn refused(&self) -> Option<(Msn, Refusal)> {
        match *self {
            BlockReason::Refused { message, reason, .. }
            | BlockReason::Late { message, reason, .. } => Some((message, reason)),
            BlockReason::Placing | BlockReason::PlacingAnswer { .. } => None,
        }
    }

    /// The flag that says whether the NAK is still to be sent; `None` if there is no NAK.
    fn nak_due(&mut self) -> Option<&mut bool> {
        match self {
            BlockReason::Refused { nak_due, .. } | BlockReason::Late { nak_due, .. } => {
                Some(nak_due)
            }
            BlockReason::Placing | BlockReason::PlacingAnswer { .. } => None,
        }
    }
}

/// The packets that a channel withholds, and the number of NAKs still to be sent for them.
#[derive(Debug)]
pub(super) struct BlockedAcks {
    packets: Vec<BlockedAck>,
    naks: u32,
}

impl BlockedAcks {
    /// Reserves space for `capacity` packets, a number that is never exceeded.
    pub(super) fn new(capacity: u32) -> BlockedAcks {
        BlockedAcks { packets: Vec::with_capacity(capacity as usize), naks: 0 }
    }

    /// True if no packet is withheld.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Index of the entry of a packet whose payload is being placed.
    #[inline]
    fn placing(&self, psn: Psn) -> Option<usize> {
        self.packets.iter().rposition(|entry| entry.psn == psn && entry.why.is_placing())
    }

    /// The last PSN up to `arrived` such that neither it nor any earlier PSN is withheld.
    #[inline]
    pub(super) fn cumulative(&self, arrived: Psn) -> Psn {
        let mut cumulative = arrived;
        for entry in &self.packets {
            if entry.psn.is_before(cumulative.next()) {
                cumulative = entry.psn.minus(1);
            }
        }
        cumulative
    }

    /// Removes what is withheld from a map of what has arrived (if `hides`). The map reports gaps
    /// only before the first packet that is being placed, because that packet is neither there nor
    /// missing.
    pub(super) fn restrict(&self, sack: &mut Sack, hides: bool) {
        for entry in &self.packets {
            if entry.why.is_placing() && entry.psn.distance_from(sack.highest) <= 0 {
                sack.highest = entry.psn.minus(1);
            }
            let bit = entry.psn.distance_from(sack.base);
            if (0..SACK_BITS as i32).contains(&bit) && hides {
                sack.bitmap[(bit / 32) as usize] &= !(1 << (bit % 32));
            }
        }
    }

    /// Drops all withheld packets when the channel ends.
    pub(super) fn clear(&mut self) {
        self.packets.clear();
        self.naks = 0;
    }
}

impl AckState {
    /// True if there is room to withhold one more packet.
    pub(in crate::channel) fn has_room_to_withhold(&self) -> bool {
        self.blocked.packets.len() < self.blocked.packets.capacity()
    }

    /// True if there is room for a packet that has arrived. The last place is reserved for the
    /// packet at the base of the window, for which all others wait.
    #[inline]
    pub(in crate::channel) fn has_room_for(&self, is_base: bool) -> bool {
        let room = self.blocked.packets.capacity() - self.blocked.packets.len();
        room > 1 || (room == 1 && is_base)
    }

    /// Withholds a packet. A NAK becomes due if the packet is refused.
    #[inline]
    pub(in crate::channel) fn block(&mut self, psn: Psn, mut why: BlockReason) {
        self.blocked.naks += u32::from(why.nak_due().is_some());
        self.blocked.packets.push(BlockedAck { psn, why });
    }

    /// Number of packets whose payload is being placed.
    pub(in crate::channel) fn count_placing(&self) -> u32 {
        self.blocked.packets.iter().filter(|entry| entry.why.is_placing()).count() as u32
    }

    /// True if a packet is withheld because it refused an earlier message.
    pub(in crate::channel) fn withholds_late_refusal(&self) -> bool {
        let is_late = |entry: &BlockedAck| matches!(entry.why, BlockReason::Late { .. });
        self.blocked.packets.iter().any(is_late)
    }

    /// True if the payload of a packet is being placed.
    pub(in crate::channel) fn is_placing(&self, psn: Psn) -> bool {
        self.blocked.placing(psn).is_some()
    }

    /// True if a part of the answer to this local message is being placed.
    pub(in crate::channel) fn is_placing_answer(&self, request: Index<Message>) -> bool {
        self.blocked.packets.iter().any(|entry| entry.why == BlockReason::PlacingAnswer { request })
    }

    /// Notes that the payload of a packet is in place, so that the packet may be acknowledged.
    /// False if none was being placed.
    #[inline]
    pub(in crate::channel) fn placed(&mut self, psn: Psn) -> bool {
        let found = self.blocked.placing(psn);
        if let Some(at) = found {
            self.blocked.packets.swap_remove(at);
        }
        found.is_some()
    }

    /// Refuses the message of a packet whose payload could not be placed. False if none was being
    /// placed.
    pub(in crate::channel) fn refuse_placing(
        &mut self,
        psn: Psn,
        message: Msn,
        reason: Refusal,
    ) -> bool {
        let Some(at) = self.blocked.placing(psn) else { return false };
        self.blocked.packets[at].why = BlockReason::Refused { message, reason, nak_due: true };
        self.blocked.naks += 1;
        true
    }

    /// True if `psn` is withheld because it was refused.
    pub(in crate::channel) fn is_refused(&self, psn: Psn) -> bool {
        self.blocked.packets.iter().any(|entry| entry.psn == psn && entry.why.refused().is_some())
    }

    /// Makes the NAKs of a refused packet that arrived again due again. True if any was not due
    /// already.
    pub(in crate::channel) fn repeat_naks(&mut self, psn: Psn) -> bool {
        let mut naks = 0;
        for entry in self.blocked.packets.iter_mut().filter(|entry| entry.psn == psn) {
            if let Some(nak_due) = entry.why.nak_due() {
                naks += u32::from(!core::mem::replace(nak_due, true));
            }
        }
        self.blocked.naks += naks;
        naks > 0
    }

    /// Injects a bug: forgets that a packet was refused because its receiver was not ready. False
    /// if the packet was not refused for that reason.
    pub(in crate::channel) fn revive_not_ready(&mut self, psn: Psn) -> bool {
        let is_it = |entry: &BlockedAck| {
            entry.psn == psn
                && matches!(
                    entry.why,
                    BlockReason::Refused { reason: Refusal::ReceiverNotReady, .. }
                )
        };
        let Some(at) = self.blocked.packets.iter().position(is_it) else { return false };
        self.blocked.packets.swap_remove(at);
        true
    }

    /// The next NAK to be sent: the packet's PSN, the refused message and the reason.
    pub(in crate::channel) fn take_nak(&mut self) -> Option<(Psn, Msn, Refusal)> {
        if self.blocked.naks == 0 {
            return None;
        }
        self.blocked.naks -= 1;
        for entry in &mut self.blocked.packets {
            if let Some((message, reason)) = entry.why.refused()
                && entry.why.nak_due().is_some_and(core::mem::take)
            {
                return Some((entry.psn, message, reason));
            }
        }
        None
    }

    /// Ends the withholding of a packet after the sender has confirmed the refusal of its message.
    /// Returns the reason for which it was withheld; `None` if it was not.
    pub(in crate::channel) fn confirm_refusal(&mut self, void: &Void) -> Option<BlockReason> {
        let is_it = |entry: &BlockedAck| {
            entry.psn == void.psn
                && entry.why.refused().is_some_and(|(message, _)| message == void.message)
        };
        let at = self.blocked.packets.iter().position(is_it)?;
        let mut entry = self.blocked.packets.swap_remove(at);
        if entry.why.nak_due().is_some_and(core::mem::take) {
            self.blocked.naks -= 1;
        }
        Some(entry.why)
    }
}
