//! What becomes of packets that a full queue has no room for.

use super::Partition;
use crate::packets::{CONTROL, NONE, PacketMeta};
use crate::scenario::Overflow;

impl Partition {
    /// Cuts off the payload of a packet and queues its header as control.
    pub(super) fn trim(&mut self, now: u64, node: u32, port: u32, index: u32) {
        self.packets.trim(index);
        self.offer(now, node, port, index);
    }

    /// Trims or drops a packet that was taken out of a queue for one of a higher class.
    pub(super) fn displace(&mut self, now: u64, node: u32, port: u32, index: u32) {
        let spec = self.plan.scenario.queue;
        let meta = self.packets.meta[index as usize];
        self.uncount(now, node, &meta);
        let tally = &mut self.tallies[port as usize];
        match spec.overflow {
            Overflow::Trim => {
                tally.trims += 1;
                self.trim(now, node, port, index);
            }
            Overflow::Drop => {
                tally.drops += 1;
                self.totals.dropped += 1;
                self.packets.free(index);
            }
        }
    }

    /// Removes a data packet that leaves a queue from the counts of the switch's buffer.
    #[inline]
    pub(super) fn uncount(&mut self, now: u64, node: u32, meta: &PacketMeta) {
        if meta.class != CONTROL && self.buffers.is_counted() && meta.arrived != NONE {
            let spec = &self.plan.scenario.queue;
            if self.buffers.remove(spec, node, meta) {
                self.signal(now, meta.arrived, false);
            }
        }
    }
}
