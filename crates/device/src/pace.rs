//! Pacing: when the next packet may be sent at a given rate.

use fairway_wire::{Duration, Instant};

/// Divisor of the round trip that gives the largest delay for which a late sender makes up.
const LATE_SHARE: u64 = 4;

/// Longest time between the present and a later time of a pace. Whatever is further ahead was long
/// ago, because times wrap: so a pace that nothing changes is right for 212 days.
const AHEAD_MAX: Duration = Duration::from_secs(86_400);

/// True if `at` is later than `than`, and not long ago.
fn is_later(at: Instant, than: Instant) -> bool {
    at.as_ps().wrapping_sub(than.as_ps()).wrapping_sub(1) < AHEAD_MAX.as_ps()
}

/// Lets `burst` bytes be sent back to back and then nothing for as long as those take at the rate.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// No packet is sent before this time.
    pub until: Instant,
    /// When the bytes sent so far would have been sent at the rate.
    out: Instant,
    /// True if a packet waited for `until`, and since then nothing else has kept packets from
    /// leaving.
    has_waited: bool,
}

/// The time that `bytes` take at a rate in bytes per second.
pub(crate) fn time_for(bytes: u64, rate: u64) -> Duration {
    Duration::from_ps(bytes.saturating_mul(1_000_000_000_000) / rate.max(1))
}

impl Pace {
    /// A pace that permits a packet now.
    pub fn new(now: Instant) -> Pace {
        Pace { until: now, out: now, has_waited: false }
    }

    /// True if a packet may be sent.
    pub fn is_open(&self, now: Instant) -> bool {
        !is_later(self.until, now)
    }

    /// Replaces times that have passed, which must not grow so old that they count as later. Called
    /// from time to time while nothing is charged.
    pub fn refresh(&mut self, now: Instant) {
        if self.is_open(now) {
            self.until = now;
        }
        if !is_later(self.out, now - AHEAD_MAX) {
            self.out = now - AHEAD_MAX;
        }
    }

    /// True if a packet that is ready may be sent. Otherwise it waits.
    pub fn admit(&mut self, now: Instant) -> bool {
        let is_open = self.is_open(now);
        self.has_waited |= !is_open;
        is_open
    }

    /// Called when a packet is sent before its time: the remaining wait is dropped.
    pub fn cut_short(&mut self, now: Instant) {
        (self.until, self.out, self.has_waited) = (now, now, false);
    }

    /// Called when packets are held back for another reason than the pace.
    pub fn rest(&mut self) {
        self.has_waited = false;
    }

    /// Time by which the host may have been late and that is made up for, if packets that are sent
    /// now have waited for the pace alone. Where threads wait for a core they are late by tens of
    /// milliseconds, and otherwise only one packet would be sent each time. A quarter of a round
    /// trip is at most a quarter of a window, which short queues hold.
    pub fn grace(&self, round_trip: Duration) -> Duration {
        let share = if self.has_waited { round_trip.as_ps() / LATE_SHARE } else { 0 };
        Duration::from_ps(share)
    }

    /// Charges a sent packet. Time missed within the last `grace` is made up for; older time is
    /// lost.
    pub fn charge(&mut self, now: Instant, bytes: u32, rate: u64, burst: u64, grace: Duration) {
        self.charge_within(now, bytes, rate, (time_for(burst, rate), grace));
    }

    /// Like [`Self::charge`], with the time that a burst takes at the rate in place of its bytes.
    pub fn charge_within(
        &mut self,
        now: Instant,
        bytes: u32,
        rate: u64,
        (burst, grace): (Duration, Duration),
    ) {
        let earliest = now - grace;
        let from = if is_later(self.out, earliest) { self.out } else { earliest };
        self.out = from + time_for(u64::from(bytes), rate).min(AHEAD_MAX);
        if self.out.is_at_or_after(now + burst) {
            self.out = self.out.min(now + AHEAD_MAX);
            self.until = self.out;
            self.has_waited = false;
        } else if self.is_open(now) {
            self.until = now;
        }
    }

    /// True if more bytes have been sent than the rate permits until now.
    pub fn is_ahead(&self, now: Instant) -> bool {
        is_later(self.out, now)
    }

    /// Called when there was nothing to send until now: no time is made up for.
    pub fn begin(&mut self, now: Instant) {
        self.refresh(now);
        self.out = self.out.max(now);
    }

    /// Called when the rate changes: the remaining wait is scaled accordingly.
    pub fn rescale(&mut self, now: Instant, old: u64, new: u64) {
        let scale = |at: Instant| {
            if !is_later(at, now) {
                return at;
            }
            let left = u128::from(at.since(now).as_ps()) * u128::from(old) / u128::from(new.max(1));
            now + Duration::from_ps(left.min(u128::from(AHEAD_MAX.as_ps())) as u64)
        };
        (self.until, self.out) = (scale(self.until), scale(self.out));
    }
}

#[cfg(test)]
mod tests;
