//! How fast a host takes data out of its NIC, and the queue in which data waits for that.

use crate::scenario::{Drain, ReceiveQueue};
use std::collections::VecDeque;

/// Port number of the event by which a host takes the next packet: no port of a host has it.
pub(crate) const INTAKE_PORT: u32 = crate::calendar::PORTS as u32 - 1;

/// The receive queue of a host that drains at a limited rate in some periods.
pub(crate) struct Intake {
    /// Periods of the host, in the order in which they were set.
    drains: Vec<Drain>,
    spec: ReceiveQueue,
    /// Packets that wait, in order, each with its bytes.
    waiting: VecDeque<(u32, u32)>,
    tally: IntakeTally,
    bytes: u32,
    presses: bool,
}

/// Counts of a receive queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IntakeTally {
    /// Packets dropped because the queue was full.
    pub(crate) drops: u64,
    /// Maximum number of bytes that waited at once.
    pub(crate) longest: u32,
    /// Number of times that the host began to signal pressure.
    pub(crate) pressures: u64,
}

/// What becomes of a packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// It is handled at once.
    Open,
    /// It waits. If it is the first, it is taken at this time, in picoseconds.
    Waits(Option<u64>),
    /// There is no room for it.
    Full,
}

impl Intake {
    /// The receive queue of `host`; `None` if its rate is never limited.
    pub(crate) fn of(drains: &[Drain], spec: ReceiveQueue, host: u32) -> Option<Box<Intake>> {
        let own = drains.iter().filter(|drain| drain.host.is_none_or(|named| named == host));
        let drains: Vec<Drain> = own.copied().collect();
        let tally = IntakeTally::default();
        let waiting = VecDeque::new();
        let intake = Intake { drains, spec, waiting, tally, bytes: 0, presses: false };
        (!intake.drains.is_empty()).then(|| Box::new(intake))
    }

    /// Time that the host takes for a packet of `bytes` that it begins with at `now`, in
    /// picoseconds; 0 outside of all periods. Of several periods the one that was set last counts.
    fn time(&self, now: u64, bytes: u32) -> u64 {
        let is_now = |drain: &&Drain| (drain.from_ps..drain.until_ps).contains(&now);
        let current = self.drains.iter().rev().find(is_now);
        current.map_or(0, |drain| (u64::from(bytes) * 8_000_000).div_ceil(drain.megabits.max(1)))
    }

    /// Handles a packet of `bytes` that has arrived.
    pub(crate) fn offer(&mut self, now: u64, packet: u32, bytes: u32) -> Entrance {
        let time = self.time(now, bytes);
        if self.waiting.is_empty() && time == 0 {
            return Entrance::Open;
        }
        if self.bytes + bytes > self.spec.bytes {
            self.tally.drops += 1;
            return Entrance::Full;
        }
        self.waiting.push_back((packet, bytes));
        self.bytes += bytes;
        self.tally.longest = self.tally.longest.max(self.bytes);
        if !self.presses && self.bytes >= self.spec.press_bytes {
            self.presses = true;
            self.tally.pressures += 1;
        }
        Entrance::Waits((self.waiting.len() == 1).then_some(now + time))
    }

    /// Takes the packet whose time has come, and returns when the next one is to be taken, in
    /// picoseconds.
    pub(crate) fn take(&mut self, now: u64) -> Option<(u32, Option<u64>)> {
        let (packet, bytes) = self.waiting.pop_front()?;
        self.bytes -= bytes;
        self.presses &= self.bytes > self.spec.relieve_bytes;
        // The clock has to advance between two events of a host.
        let next = self.waiting.front().map(|(_, bytes)| now + self.time(now, *bytes).max(1));
        Some((packet, next))
    }

    /// True while the host signals pressure.
    pub(crate) fn presses(&self) -> bool {
        self.presses
    }

    /// What the queue has counted.
    pub(crate) fn tally(&self) -> IntakeTally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::{Entrance, Intake};
    use crate::scenario::{Drain, ReceiveQueue};

    const SPEC: ReceiveQueue = ReceiveQueue { bytes: 4000, press_bytes: 2000, relieve_bytes: 1000 };

    fn drain(host: Option<u32>, megabits: u64, from_ps: u64, until_ps: u64) -> Drain {
        Drain { host, megabits, from_ps, until_ps }
    }

    #[test]
    fn a_queue_drains_at_its_rate_and_signals_pressure() {
        // 8 Gb/s: a nanosecond for each byte.
        let mut intake = Intake::of(&[drain(Some(3), 8_000, 0, u64::MAX)], SPEC, 3).unwrap();
        assert_eq!(intake.offer(0, 1, 1000), Entrance::Waits(Some(1_000_000)));
        assert_eq!(intake.offer(10, 2, 1000), Entrance::Waits(None));
        assert!(intake.presses());
        assert_eq!(intake.offer(20, 3, 1500), Entrance::Waits(None));
        assert_eq!(intake.offer(20, 4, 501), Entrance::Full);
        assert_eq!(intake.take(1_000_000), Some((1, Some(2_000_000))));
        assert!(intake.presses());
        assert_eq!(intake.take(2_000_000), Some((2, Some(3_500_000))));
        assert!(intake.presses(), "1500 bytes are above the lower threshold");
        assert_eq!(intake.take(3_500_000), Some((3, None)));
        assert!(!intake.presses());
        let tally = intake.tally();
        assert_eq!((tally.drops, tally.longest, tally.pressures), (1, 3500, 1));
    }

    #[test]
    fn a_rate_holds_for_its_period_and_its_host() {
        let all = [drain(None, 8_000, 1_000, 2_000), drain(Some(1), 4_000, 1_500, 2_000)];
        let mut other = Intake::of(&all, SPEC, 0).unwrap();
        let mut one = Intake::of(&all, SPEC, 1).unwrap();
        assert_eq!(other.offer(0, 1, 1000), Entrance::Open);
        assert_eq!(other.offer(1_600, 1, 1000), Entrance::Waits(Some(1_001_600)));
        assert_eq!(one.offer(1_600, 1, 1000), Entrance::Waits(Some(2_001_600)));
        // What waits when the period ends keeps its order, and is taken at once.
        assert_eq!(one.offer(2_000_000, 2, 1000), Entrance::Waits(None));
        assert_eq!(one.take(2_001_600), Some((1, Some(2_001_601))));
        assert_eq!(one.take(2_001_601), Some((2, None)));
        assert_eq!(one.offer(2_001_602, 3, 1000), Entrance::Open);
        assert!(Intake::of(&all[1..], SPEC, 0).is_none());
    }
}
