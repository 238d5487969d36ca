//! Streams of a host: their posts, and the runs of their scheduler.

use super::Partition;
use crate::calendar::Kind;
use crate::endpoint::SLOT_BITS;

/// Bytes of a stream that are in place in a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlacedOfStream {
    pub(crate) bytes: u64,
    /// Bytes placed since measuring began.
    pub(crate) measured_bytes: u64,
    /// Time at which the last of them were placed, in picoseconds; 0 before the first.
    pub(crate) last_ps: u64,
}

impl Partition {
    /// Posts messages of a host's streams that are due, and runs the scheduler.
    pub(super) fn act_streams(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        let Some(streams) = host.streams.as_deref_mut() else { return };
        if streams.wake_at == now {
            streams.wake_at = u64::MAX;
            streams.act(host.nic.fairway(), host.segment, &self.plan, now);
            if let Some(control) = &mut streams.control {
                control.run(now);
            }
            self.turn(now, node);
        }
    }

    /// Handles completed messages and posts the following ones. Returns true if the host has
    /// streams.
    pub(super) fn serve_streams(&mut self, now: u64, node: u32) -> bool {
        let Some(host) = self.hosts[node as usize].as_mut() else { return false };
        let Some(streams) = host.streams.as_deref_mut() else { return false };
        let (before, nic) = (streams.failed, host.nic.fairway());
        while let Some(completion) = nic.poll_completion(host.queue) {
            streams.completed(nic, host.segment, &self.plan, (now, &completion));
        }
        self.totals.failed += streams.failed - before;
        true
    }

    /// Schedules the next wake-up of a host's streams.
    #[inline]
    pub(super) fn arm_streams(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        let Some(streams) = host.streams.as_deref_mut() else { return };
        if let Some(due) = streams.next_due(now).map(|due| due.max(now + 1))
            && due < streams.wake_at
        {
            streams.wake_at = due;
            self.calendar.push(due, node, Kind::Act, 0, 0);
        }
    }

    /// Records that payload of a stream is in place.
    pub(super) fn place_of_stream(&mut self, now: u64, node: u32, offset: u64, length: u32) {
        let number = self.plan.streams_in[node as usize][(offset >> SLOT_BITS) as usize] as usize;
        self.totals.placed_bytes += u64::from(length);
        let placed = &mut self.placed_of_streams[number];
        placed.bytes += u64::from(length);
        placed.last_ps = now;
        if now >= self.plan.scenario.measure_ps {
            placed.measured_bytes += u64::from(length);
        }
    }
}
