//! Pacing: when the next packet may leave at a given rate.

use fairway_wire::{Duration, Instant};

/// A sender whose turn came late makes up for this part of a round trip, at most.
const LATE_SHARE: u64 = 4;

/// Leaves `burst` bytes back to back and then nothing for as long as those take at the rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// No packet leaves before.
    pub(crate) until: Instant,
    /// When what has left will have done so at the rate.
    out: Instant,
    /// A packet waited for `until`, and since then no other reason has kept packets back.
    has_waited: bool,
}

/// The time that `bytes` take at a rate in bytes per second.
pub(crate) fn time_for(bytes: u64, rate: u64) -> Duration {
    Duration::from_ps(bytes.saturating_mul(1_000_000_000_000) / rate.max(1))
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Pace {
        Pace { until: now, out: now, has_waited: false }
    }

    /// May a packet leave?
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        !now.is_before(self.until)
    }

    /// May a packet that is ready leave? If not, it waits.
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        let is_open = self.is_open(now);
        self.has_waited |= !is_open;
        is_open
    }

    /// A packet leaves although its time has not come: what is still to be waited for is forgotten.
    pub(crate) fn cut_short(&mut self, now: Instant) {
        (self.until, self.out, self.has_waited) = (now, now, false);
    }

    /// No packet leaves, for another reason than the pace.
    pub(crate) fn rest(&mut self) {
        self.has_waited = false;
    }

    /// How much of the time by which the host was late is made up for, if packets that leave now
    /// have waited for the pace alone. Where threads wait for a core they come late by tens of
    /// milliseconds, and one packet each time would be all that leaves. A quarter of a round trip
    /// is a quarter of a window at most, which short queues hold.
    pub(crate) fn grace(&self, round_trip: Duration) -> Duration {
        let share = if self.has_waited { round_trip.as_ps() / LATE_SHARE } else { 0 };
        Duration::from_ps(share)
    }

    /// A packet leaves. What was missed in the last `grace` is made up for, older time is lost.
    pub(crate) fn charge(
        &mut self,
        now: Instant,
        bytes: u32,
        rate: u64,
        burst: u64,
        grace: Duration,
    ) {
        let earliest = now - grace;
        let from = if self.out.is_before(earliest) { earliest } else { self.out };
        self.out = from + time_for(u64::from(bytes), rate);
        if self.out.is_at_or_after(now + time_for(burst, rate)) {
            self.until = self.out;
            self.has_waited = false;
        }
    }

    /// There was nothing to send until now: nothing is made up for.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.out = self.out.max(now);
    }

    /// The rate is another one now: what is still to be waited for takes accordingly.
    pub(crate) fn rescale(&mut self, now: Instant, old: u64, new: u64) {
        let scale = |at: Instant| {
            if !now.is_before(at) {
                return at;
            }
            let left = u128::from(at.since(now).as_ps()) * u128::from(old) / u128::from(new.max(1));
            now + Duration::from_ps(left.min(u128::from(u64::MAX / 4)) as u64)
        };
        (self.until, self.out) = (scale(self.until), scale(self.out));
    }
}

#[cfg(test)]
mod tests;
