//! Memory that is not there although it is registered.

use super::{UbDevice, channel_of};
use crate::api::{Status, Transmit};
use crate::injected_bug::InjectedBug;
use crate::message::MessagePlace;
use crate::placement::PlacementToken;
use fairway_wire::{Instant, Packet};

impl UbDevice {
    /// Instead of [`Self::handle_placed`]: the memory is not there any more, or cannot be written.
    /// The operation ends in an error, at the peer
    /// ([`Status::RemoteAccess`](crate::Status::RemoteAccess), or for a SEND
    /// [`Status::RemoteOperation`](crate::Status::RemoteOperation)) or here
    /// ([`Status::LocalMemory`](crate::Status::LocalMemory)); a receive that took a SEND completes
    /// with the latter, too. Any of the bytes may have been written.
    ///
    /// A caller that places late must finish what it is placing into the same segment first: the
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

    /// The payload of a packet cannot be gathered, because the memory is not there any more; the
    /// packet was not sent. The operation ends in an error: here
    /// ([`Status::LocalMemory`](crate::Status::LocalMemory)), or if it is a READ of the peer's,
    /// there ([`Status::RemoteAccess`](crate::Status::RemoteAccess)). Loads and stores count as
    /// lost. Of an unreliable message this is to be called before anything else is polled.
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

    /// The unreliable message that was polled last, if there is one, has been gathered, and is
    /// over.
    #[inline]
    pub(crate) fn finish_datagram(&mut self) {
        if self.shared.schedule.has_leaving() {
            self.end_datagram(Status::Success);
        }
    }

    fn end_datagram(&mut self, status: Status) {
        let Some(index) = self.shared.schedule.take_leaving() else { return };
        let message = &mut self.shared.messages[index];
        // Its channel may have ended since.
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
