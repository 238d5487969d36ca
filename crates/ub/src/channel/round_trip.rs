//! Round-trip estimation with the usual estimators (RFC 6298).

use fairway_wire::Duration;

/// A smoothed round trip and its deviation; both zero before the first sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Duration,
    deviation: Duration,
}

impl RoundTrip {
    #[inline]
    pub(super) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The smoothed round trip plus four times its deviation; few round trips take longer.
    pub(super) fn usual_most(&self) -> Duration {
        self.smoothed.saturating_add(self.deviation.times(4))
    }

    #[inline]
    pub(super) fn deviation(&self) -> Duration {
        self.deviation
    }

    #[inline]
    pub(super) fn note(&mut self, sample: Duration) {
        (self.smoothed, self.deviation) = smooth(self.smoothed, self.deviation, sample);
    }

    #[cfg(test)]
    pub(super) fn set_smoothed(&mut self, smoothed: Duration) {
        self.smoothed = smoothed;
    }
}

/// Updates both estimates by one sample, with gains 1/8 and 1/4.
pub(super) fn smooth(
    smoothed: Duration,
    deviation: Duration,
    sample: Duration,
) -> (Duration, Duration) {
    if smoothed == Duration::ZERO {
        return (sample, sample.divided_by(2));
    }
    let error = sample.saturating_sub(smoothed).max(smoothed.saturating_sub(sample));
    let deviation = Duration::from_ps(deviation.as_ps() - deviation.as_ps() / 4)
        .saturating_add(error.divided_by(4));
    let smoothed = Duration::from_ps(smoothed.as_ps() - smoothed.as_ps() / 8)
        .saturating_add(sample.divided_by(8));
    (smoothed, deviation)
}
