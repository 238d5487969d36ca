//! Memory that is missing although it is registered.

use super::{UbDevice, channel_of};
use crate::api::{Status, Transmit};
use crate::injected_bug::InjectedBug;
use crate::message::MessagePlace;
use crate::placement::PlacementToken;
use fairway_wire::{Instant, Packet};

impl UbDevice {
    /// Called instead of [`Self::handle_placed`] if the memory does not exist any more, or cannot
    /// be written. The operation ends in an error, at the peer
    /// ([`Status::RemoteAccess`](crate::Status::RemoteAccess), or for a SEND
    /// [`Status::RemoteOperation`](crate::Status::RemoteOperation)) or here
    /// ([`Status::LocalMemory`](crate::Status::LocalMemory)); a receive that was consumed by a SEND
    /// completes with the latter, too. Any of the bytes may have been written.
    ///
    /// A caller that places late must first finish its other placements into the same segment: the
    /// memory of a receive, or of a READ of this side, may have a new use once that has completed.
    pub fn handle_unplaced(&mut self, now: Instant, token: PlacementToken) {
        if let Some((shared, channel)) = self.open(token.channel) {
            let cause = shared.cause_of(&token);
            shared.deferred.set_cause(cause);
            channel.unplaced(shared, now, &token);
            shared.deferred.set_cause(None);
        }
        self.resume_channels();
    }

    /// Reports that the payload of a packet cannot be gathered, because the memory does not exist
    /// any more, and that the packet was not sent. The operation ends in an error: here
    /// ([`Status::LocalMemory`](crate::Status::LocalMemory)), or at the peer if it is the peer's
    /// READ ([`Status::RemoteAccess`](crate::Status::RemoteAccess)). Loads and stores count as
    /// lost. For an unreliable message, call this before anything else is polled.
    pub fn handle_ungathered(&mut self, transmit: &Transmit) {
        let is_noted = !self.shared.is_injected(InjectedBug::SendNothing);
        if matches!(transmit.packet, Packet::Datagram(_)) && is_noted {
            self.end_datagram(Status::LocalMemory);
        }
        if let (Packet::Data(data), Some((shared, channel))) =
            (&transmit.packet, self.open(transmit.channel))
        {
            channel.ungathered(shared, data);
        }
        self.resume_channels();
    }

    /// Completes the unreliable message that was polled last, if there is one: it has been
    /// gathered.
    #[inline]
    pub(crate) fn finish_datagram(&mut self) {
        if self.shared.schedule.has_leaving() {
            self.end_datagram(Status::Success);
        }
    }

    fn end_datagram(&mut self, status: Status) {
        let Some(index) = self.shared.schedule.take_leaving() else { return };
        let message = &mut self.shared.messages[index];
        // The message's channel may have ended since.
        if message.place != MessagePlace::Leaving {
            return;
        }
        message.place = MessagePlace::Unlisted;
        let channel = message.channel;
        self.shared.complete_message(index, status);
        if let Some(channel) = channel_of(&mut self.entries, channel) {
            channel.release(&mut self.shared, index);
        }
    }
}
