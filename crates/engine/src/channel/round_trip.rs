//! Round trips: the estimators, and the time-out that follows from them.

use super::Channel;
use crate::shared::Shared;
use fairway_wire::Duration;

/// Round trips of the channel as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    pub(crate) smoothed: Duration,
    pub(crate) deviation: Duration,
}

impl Channel {
    pub(crate) fn note_round_trip(&mut self, path: u8, sample: Duration) {
        self.paths.note_round_trip(path, sample);
        let all = &mut self.round_trip;
        (all.smoothed, all.deviation) = smooth(all.smoothed, all.deviation, sample);
    }

    /// A round trip took as long as `least`, or longer. Which path it took is not known.
    pub(crate) fn note_round_trip_of_at_least(&mut self, least: Duration) {
        let all = &mut self.round_trip;
        if least > all.smoothed {
            (all.smoothed, all.deviation) = smooth(all.smoothed, all.deviation, least);
        }
    }

    /// The retransmission time-out (RFC 6298, without its one-second floor), doubled for every
    /// time-out in a row.
    pub(crate) fn timeout(&self, shared: &Shared) -> Duration {
        let profile = &shared.profile;
        let base = if self.round_trip.smoothed == Duration::ZERO {
            profile.timeout_initial
        } else {
            // A queue may double the round trip within one. What later packets prove lost is found
            // within three; the shortest time-out leaves room for that on short ways, on long ones
            // this does (RFC 6298 waits for a second).
            let smoothed = self.round_trip.smoothed;
            let long = smoothed.times(2) > profile.timeout_min;
            let patience = smoothed.times(if long { 4 } else { 2 });
            patience.saturating_add(self.round_trip.deviation.times(4))
        };
        let base = base.max(profile.timeout_min);
        base.times(1 << self.backoff.min(16)).min(profile.timeout_max)
    }
}

/// One step of the usual estimators: gains 1/8 and 1/4.
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
