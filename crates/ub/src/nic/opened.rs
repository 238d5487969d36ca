//! Operations that waited for others and may now be sent.

use super::{UbDevice, channel_of};

impl UbDevice {
    /// Queues operations whose gate has opened at their channels.
    pub(super) fn enqueue_opened(&mut self) {
        while let Some(index) = self.shared.initiator.promoted.pop() {
            let shared = &mut self.shared;
            let channel = shared.messages[index].channel;
            if let Some(channel) = channel_of(&mut self.entries, channel) {
                channel.grant_slot(shared, index);
            }
        }
        loop {
            let shared = &mut self.shared;
            let Some(index) = shared.initiator.opened.pop_front(&mut shared.messages) else {
                return;
            };
            self.issue(index);
        }
    }
}
