//! Hints that switches write into data packets.

use super::Partition;
use crate::packets::{CONTROL, PacketHeaders};

impl Partition {
    /// Writes C-AQM's hint into a data packet that leaves a switch whose data queue held `length`
    /// bytes, the packet included; 0 if the packet did not wait. The worst switch on a packet's way
    /// determines the field.
    #[inline]
    pub(super) fn write_hint(&mut self, node: u32, port: u32, index: u32, length: u32) {
        let Some(hint) = self.plan.scenario.queue.hint else { return };
        let is_data = self.packets.meta[index as usize].class != CONTROL;
        if node < self.plan.scenario.network.hosts || !is_data {
            return;
        }
        if let PacketHeaders::Fairway(received) = &mut self.packets.headers[index as usize] {
            let written = hint.write(&mut self.tallies[port as usize].congested, length);
            received.route.cci = received.route.cci.worst(written);
        }
    }
}
