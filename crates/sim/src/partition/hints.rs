//! Hints that switches write into data packets.

use super::Partition;
use crate::packets::{CONTROL, PacketHeaders};
use crate::telemetry::HintSpec;
use fairway_ub::wire::Cci;

impl Partition {
    /// Writes congestion information into a data packet that leaves a switch at `now` whose data
    /// queue held `length` bytes, the packet included; 0 if the packet did not wait. The worst
    /// switch on a packet's way determines the field.
    #[inline]
    pub(super) fn write_hint(&mut self, now: u64, node: u32, port: u32, index: u32, length: u32) {
        let Some(hint) = self.plan.scenario.queue.hint else { return };
        let meta = &self.packets.meta[index as usize];
        if node < self.plan.scenario.network.hosts || meta.class == CONTROL {
            return;
        }
        if let PacketHeaders::Fairway(received) = &mut self.packets.headers[index as usize] {
            let telemetry = &mut self.tallies[port as usize].telemetry;
            let written = match hint {
                HintSpec::Caqm(spec) => spec.write(&mut telemetry.congested, length),
                HintSpec::LinkUse { over_ps } => {
                    let link = &self.ports[port as usize];
                    let (takes, waits) = (link.time(meta.bytes), link.time(length));
                    Cci::of_link_use(telemetry.count(now, over_ps, takes, waits))
                }
            };
            received.route.cci = received.route.cci.worst(written);
        }
    }
}
