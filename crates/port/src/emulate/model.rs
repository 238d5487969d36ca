//! The decisions of one path about packets.

use crate::emulate::random::Random;
use crate::emulate::spec::{Conditions, Spec};

/// A path, as a function from packets to decisions. The same specification, seed, path and offers
/// give the same decisions on every machine.
#[derive(Clone, Debug)]
pub struct PathModel {
    conditions: Conditions,
    random: Random,
    start_ns: u64,
    /// Time at which the link will have sent the packets that wait for it, in nanoseconds …
    busy_until_ns: u64,
    /// … plus this number of fractions of a nanosecond, of which the link's rate make one.
    busy_parts: u64,
    /// The latest delivery so far: order is preserved unless reordering is specified.
    latest_ns: u64,
    counters: ModelCounters,
}

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Number of times it arrives: 0, 1 or 2.
    pub copies: u8,
    /// True if it is to be ECN-marked.
    pub marked: bool,
    /// Time of its arrival, on the clock of the offer, in nanoseconds.
    pub deliver_at_ns: u64,
    /// Minimum number of later packets offered to this path until which it is delayed; the maximum
    /// is [`Conditions::reorder`]. Zero preserves its place.
    pub behind: u32,
}

/// Counters of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCounters {
    /// Packets offered.
    pub offered: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets lost in a blackhole, or because they were too long.
    pub blackholed: u64,
    /// Packets dropped because the link's queue was full.
    pub overflowed: u64,
    /// Packets that arrive twice.
    pub duplicated: u64,
    /// Packets marked.
    pub marked: u64,
    /// Packets delayed for reordering.
    pub displaced: u64,
}

impl ModelCounters {
    /// Adds the counters of another path.
    pub fn add(&mut self, other: &ModelCounters) {
        self.offered += other.offered;
        self.lost += other.lost;
        self.blackholed += other.blackholed;
        self.overflowed += other.overflowed;
        self.duplicated += other.duplicated;
        self.marked += other.marked;
        self.displaced += other.displaced;
    }
}

/// If reordering is specified, one packet in this number is delayed: two in every train of 16, so
/// that hardly any train arrives in order. A larger share would cost more copies, and that cost is
/// the emulator's, not that of the code under test.
const HELD_ONE_IN: u64 = 8;

impl PathModel {
    /// Creates path number `path`. The times of blackholes count from zero of the clock used in
    /// offers.
    pub fn new(spec: &Spec, seed: u64, path: usize) -> Self {
        PathModel {
            conditions: spec.for_path(path),
            random: Random::new(seed, path as u64),
            start_ns: 0,
            busy_until_ns: 0,
            busy_parts: 0,
            latest_ns: 0,
            counters: ModelCounters::default(),
        }
    }

    /// Sets the time from which blackholes count.
    pub fn starting_at(mut self, start_ns: u64) -> Self {
        self.start_ns = start_ns;
        self
    }

    /// Decides about a packet of `bytes` bytes, sent at `now_ns`. Calls must be in order of time.
    #[inline]
    pub fn offer(&mut self, now_ns: u64, bytes: usize) -> Decision {
        self.counters.offered += 1;
        let mut decision = Decision { copies: 0, marked: false, deliver_at_ns: now_ns, behind: 0 };
        let too_long = self.conditions.longest.is_some_and(|longest| bytes as u64 > longest);
        if too_long || self.in_blackhole(now_ns) {
            self.counters.blackholed += 1;
            return decision;
        }
        if self.random.chance(self.conditions.loss) {
            self.counters.lost += 1;
            return decision;
        }
        decision.copies = 1;
        if self.random.chance(self.conditions.duplication) {
            decision.copies = 2;
        }
        if let Some(rate) = self.conditions.rate {
            let load = bytes as u64 * u64::from(decision.copies);
            if !self.enqueue(now_ns, load, rate, &mut decision) {
                decision.copies = 0;
                self.counters.overflowed += 1;
                return decision;
            }
        }
        self.counters.duplicated += u64::from(decision.copies == 2);
        self.counters.marked += u64::from(decision.marked);
        self.delay(&mut decision);
        decision
    }

    /// The conditions of this path.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Counters of this path.
    pub fn counters(&self) -> &ModelCounters {
        &self.counters
    }

    fn in_blackhole(&self, now_ns: u64) -> bool {
        let elapsed = now_ns.saturating_sub(self.start_ns);
        self.conditions.blackholes.iter().any(|w| (w.from_ns..w.until_ns).contains(&elapsed))
    }

    /// Sends `load` bytes over the link, after those that wait already. Returns false if they do
    /// not fit the queue.
    fn enqueue(&mut self, now_ns: u64, load: u64, rate: u64, decision: &mut Decision) -> bool {
        const NS_PER_BYTE_AT_1_BIT: u64 = 8_000_000_000;
        if self.busy_until_ns <= now_ns {
            self.busy_until_ns = now_ns;
            self.busy_parts = 0;
        }
        let ahead_ns = u128::from(self.busy_until_ns - now_ns);
        let waiting = (ahead_ns * u128::from(rate) / u128::from(NS_PER_BYTE_AT_1_BIT)) as u64;
        if waiting + load > self.conditions.queue_bytes {
            return false;
        }
        decision.marked = self.conditions.ecn_bytes.is_some_and(|threshold| waiting >= threshold);
        // The result is exact: the division's remainder is carried to the next packet. A packet has
        // at most 128 KiB and the rate is at most 10^15 bits per second, so the sum stays far below
        // 2^64.
        let parts = load * NS_PER_BYTE_AT_1_BIT + self.busy_parts;
        self.busy_until_ns += parts / rate;
        self.busy_parts = parts % rate;
        decision.deliver_at_ns = self.busy_until_ns;
        true
    }

    fn delay(&mut self, decision: &mut Decision) {
        let conditions = &self.conditions;
        decision.deliver_at_ns += conditions.delay_ns;
        if conditions.jitter_ns > 0 {
            decision.deliver_at_ns += self.random.below(conditions.jitter_ns + 1);
        }
        decision.deliver_at_ns = decision.deliver_at_ns.max(self.latest_ns);
        self.latest_ns = decision.deliver_at_ns;
        if conditions.reorder > 0 && self.random.below(HELD_ONE_IN) == 0 {
            // At most half the bound is used; the other half is left for the sender, which has to
            // find room for the packet in a train.
            let most = u64::from(conditions.reorder.div_ceil(2));
            decision.behind = 1 + self.random.below(most) as u32;
            self.counters.displaced += 1;
        }
    }
}
