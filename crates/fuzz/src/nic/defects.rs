//! Defects that this target has found and that are not mended yet. Inputs that would show one of
//! them leave out that packet, because otherwise the target finds nothing else. A change that mends
//! a defect deletes its part here.
//!
//! 1. *The packet called missing was claimed.* An acknowledgement whose cumulative number stops
//!    before a packet that its map, or an earlier one, claims, which no `Nic` sends. If that packet
//!    counted as lost it is out of the list of lost packets, and still marked. After a time-out
//!    `Channel::next_lost` takes it out of the list once more, and all others with it.
//! 2. *A refusal, then an acknowledgement.* A packet that was refused and is acknowledged before
//!    its void has left counts as revoked from the lost ones, though it was never counted as lost:
//!    `Nic::audit` fails.
//! 3. *An answer, then its refusal.* While the payload of an answer to a READ is being put in
//!    place, a refusal that asks to try again puts the READ back into a list; when the payload is
//!    in place the READ is released in spite of that (`Channel::release`). A caller that places at
//!    once never sees it.

use fairway_engine::wire::{Ack, AckFlags, Operation, Packet, Psn, Refusal};
use fairway_engine::{Nic, Received};

/// What is known of the packets that the attacked side has sent.
pub(super) struct Sent {
    oldest: Psn,
    next: Psn,
    /// Those that a map has claimed.
    claimed: Vec<Psn>,
}

impl Sent {
    pub(super) fn new(first: Psn) -> Sent {
        Sent { oldest: first, next: first, claimed: Vec::new() }
    }

    pub(super) fn note(&mut self, psn: Psn) {
        if !psn.is_before(self.next) {
            self.next = psn.next();
        }
    }

    /// Would the packet show the first or the third defect? Notes what it acknowledges.
    pub(super) fn shows_defect(&mut self, received: &Received, is_placing: bool) -> bool {
        match &received.packet {
            Packet::Data(data) => {
                let refusal = match data.operation {
                    Operation::Done { refusal, .. } => refusal,
                    _ => None,
                };
                is_placing
                    && matches!(refusal, Some(Refusal::ReceiverNotReady | Refusal::OutOfOrder))
            }
            Packet::Ack(ack) => self.contradicts(ack),
            _ => false,
        }
    }

    /// Does the acknowledgement call a packet missing that it, or an earlier one, claims?
    fn contradicts(&mut self, ack: &Ack) -> bool {
        let selective = ack.flags.contains(AckFlags::SELECTIVE);
        let is_sent = |psn: Psn| psn.is_before(self.next);
        if !is_sent(ack.cumulative) || (selective && !is_sent(ack.sack.highest)) {
            return false;
        }
        let old = ack.cumulative.is_before(self.oldest);
        let oldest = if old { self.oldest } else { ack.cumulative.next() };
        let claims = |psn: Psn| {
            let bit = psn.distance_from(ack.sack.base);
            let word = usize::try_from(bit / 32).ok().and_then(|word| ack.sack.bitmap.get(word));
            selective && bit >= 0 && word.is_some_and(|word| word >> (bit % 32) & 1 != 0)
        };
        if claims(oldest) || self.claimed.contains(&oldest) {
            return true;
        }
        self.oldest = oldest;
        let in_flight = self.next.distance_from(oldest).max(0) as u32;
        self.claimed.retain(|psn| oldest.is_before(*psn));
        self.claimed
            .extend((0..in_flight).map(|ahead| oldest.plus(ahead)).filter(|&psn| claims(psn)));
        false
    }
}

/// Checks the accounts, but for the second defect.
pub(super) fn audit(nic: &mut Nic) {
    if nic.counters().lost_revoked <= nic.counters().lost {
        nic.audit();
    }
}
