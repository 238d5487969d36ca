//! Time as the protocol uses it: integer picoseconds, passed in by the caller.

/// A point in time, in picoseconds since an origin that the caller chooses.
///
/// Instants are compared by wrapping difference, so uptime has no limit; two instants that are
/// compared must lie within 2^63 ps (106 days) of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Instant(u64);

/// A span of time in picoseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration(u64);

impl Instant {
    /// The origin of the clock.
    pub const ZERO: Instant = Instant(0);

    /// An instant from picoseconds since the origin (wrapping).
    pub const fn from_ps(ps: u64) -> Self {
        Instant(ps)
    }

    /// An instant from nanoseconds since the origin (wrapping).
    pub const fn from_ns(ns: u64) -> Self {
        Instant(ns.wrapping_mul(1000))
    }

    /// Picoseconds since the origin (wrapped).
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// True if `self` is strictly before `other`.
    pub const fn is_before(self, other: Instant) -> bool {
        (self.0.wrapping_sub(other.0) as i64) < 0
    }

    /// True if `self` is at or after `other`.
    pub const fn is_at_or_after(self, other: Instant) -> bool {
        !self.is_before(other)
    }

    /// Time from `earlier` to `self`; zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Instant) -> Duration {
        let difference = self.0.wrapping_sub(earlier.0);
        if (difference as i64) < 0 { Duration(0) } else { Duration(difference) }
    }

    /// Time from `past` to `self`, where `self` is the present. Zero if `past` is up to a minute in
    /// the future. Right for 213 days, whereas [`Instant::since`] takes anything older than 106
    /// days as the future. Use it for moments that are no deadlines and may be arbitrarily old,
    /// such as a window's last decrease.
    pub const fn elapsed_since(self, past: Instant) -> Duration {
        const MINUTE_PS: u64 = 60_000_000_000_000;
        let difference = self.0.wrapping_sub(past.0);
        if difference > u64::MAX - MINUTE_PS { Duration(0) } else { Duration(difference) }
    }

    /// The earlier of `self` and `other`.
    pub const fn min(self, other: Instant) -> Instant {
        if other.is_before(self) { other } else { self }
    }

    /// The later of `self` and `other`.
    pub const fn max(self, other: Instant) -> Instant {
        if self.is_before(other) { other } else { self }
    }
}

impl core::ops::Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant(self.0.wrapping_add(span.0))
    }
}

impl core::ops::Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, span: Duration) -> Instant {
        Instant(self.0.wrapping_sub(span.0))
    }
}

impl Duration {
    /// A span of no time.
    pub const ZERO: Duration = Duration(0);
    /// The longest span.
    pub const MAX: Duration = Duration(u64::MAX);

    /// A span of picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Duration(ps)
    }
    /// A span of nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Duration(ns.saturating_mul(1000))
    }
    /// A span of microseconds.
    pub const fn from_us(us: u64) -> Self {
        Duration(us.saturating_mul(1_000_000))
    }
    /// A span of milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Duration(ms.saturating_mul(1_000_000_000))
    }
    /// A span of seconds.
    pub const fn from_secs(s: u64) -> Self {
        Duration(s.saturating_mul(1_000_000_000_000))
    }
    /// The span in picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// The span in whole nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1000
    }
    /// The span in whole microseconds.
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000_000
    }
    /// The sum, saturating.
    pub const fn saturating_add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
    /// The difference, saturating at zero.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
    /// The span times `factor`, saturating.
    pub const fn times(self, factor: u64) -> Duration {
        Duration(self.0.saturating_mul(factor))
    }
    /// The span divided by `divisor` (which must not be zero).
    pub const fn divided_by(self, divisor: u64) -> Duration {
        Duration(self.0 / divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_a_past_moment_is_right_for_212_days() {
        const DAY: u64 = 86_400;
        let past = Instant::from_ps(u64::MAX - 5);
        for seconds in [0, 1, DAY, 106 * DAY, 107 * DAY, 150 * DAY, 212 * DAY] {
            let span = Duration::from_secs(seconds);
            assert_eq!((past + span).elapsed_since(past), span, "{seconds} s");
        }
        let ahead = past + Duration::from_secs(59);
        assert_eq!(past.elapsed_since(ahead), Duration::ZERO, "two threads read the clock");
    }
}
