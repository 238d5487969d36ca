//! The receives that messages of the peer take.

use super::Channel;
use crate::arrival::{Arrival, ArrivalKind};
use crate::injected_bug::InjectedBug;
use crate::order::{Key, KeyedIndex, SequenceStatus, Tracker, Trackers};
use crate::shared::{Config, Jetties, MatchedReceive, Shared};
use fairway_wire::{Data, Refusal, Tag, Target};

impl Channel {
    /// Takes the receive for a message that needs one, if it is long enough.
    pub(super) fn take_receive(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        target: &Target,
        arrival: &mut Arrival,
    ) -> Result<(), Refusal> {
        let sequence = data.order.receive_sequence;
        let tracker =
            self.sequenced(&shared.config, &shared.jetties, &shared.trackers, data, target);
        let (jetty, matched) = match tracker {
            Some(tracker) => {
                shared.jetties.addressed(target)?;
                let takes_last = shared.is_injected(InjectedBug::TakeLast);
                let jetty = target.jetty;
                let (jetties, trackers) = (&mut shared.jetties, &mut shared.trackers);
                (jetty, jetties.match_receive(trackers, tracker, jetty, sequence, takes_last)?)
            }
            None => {
                let early = self.is_early_receive(&shared.config, &shared.trackers, data);
                let (jetty, next) = shared.jetties.receiver(target, early)?;
                (jetty, MatchedReceive::First(next))
            }
        };
        if arrival.kind != ArrivalKind::WriteImmediate {
            let receive = *shared.jetties.receive(matched.index());
            if arrival.length > receive.length {
                return Err(Refusal::Length);
            }
            arrival.segment = receive.segment;
            arrival.offset = receive.offset;
        }
        arrival.jetty = jetty;
        let taken = match tracker {
            Some(tracker) => {
                shared.jetties.take_matched(&mut shared.trackers, tracker, jetty, sequence, matched)
            }
            None => shared.jetties.take_receive(jetty),
        };
        arrival.receive = taken;
        Ok(())
    }

    /// The tracker by which a message is matched with its receive, if it is matched in order.
    fn sequenced(
        &self,
        config: &Config,
        jetties: &Jetties,
        trackers: &Trackers,
        data: &Data,
        target: &Target,
    ) -> Option<KeyedIndex<Tracker>> {
        let matched = data.order.in_order
            && jetties.is_in_sequence(target.jetty)
            && !config.is_injected(InjectedBug::MatchByArrival);
        let key = Key::of(self.group(), data.jetty);
        if matched { trackers.find(&key) } else { None }
    }

    /// True if the receive that the message takes would have to wait for an earlier one, or for the
    /// message's turn in memory order.
    fn is_early_receive(&self, config: &Config, trackers: &Trackers, data: &Data) -> bool {
        let order = &data.order;
        let Some(tracker) = trackers.find(&Key::of(self.group(), data.jetty)) else {
            return false;
        };
        let tracker = &trackers[tracker];
        let waits_for_turn = order.tag == Tag::Mo && !config.is_injected(InjectedBug::TakeAhead);
        (order.in_order && tracker.receive_status(order.receive_sequence) != SequenceStatus::Next)
            || (waits_for_turn && tracker.status(order.sequence) != SequenceStatus::Next)
    }
}
