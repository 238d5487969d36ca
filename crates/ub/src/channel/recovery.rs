//! Conclusions of a sender from acknowledgements: round trips, how late packets arrive, and how
//! long it waits before it calls one lost.

mod tail_loss_probe;

use self::tail_loss_probe::TailLossProbe;
use super::paths::Paths;
use super::peer_reports::PeerReports;
use super::round_trip::RoundTrip;
use crate::injected_bug::InjectedBug;
use crate::limits::Profile;
use crate::send_window::{LOST, RESENT, Sent, UNCOUNTED};
use crate::shared::Config;
use alloc::boxed::Box;
use fairway_policy::{Evidence, LossDetector};
use fairway_wire::{Ack, Duration, Instant, Msn, Psn};

/// The sender's knowledge by which it calls packets lost, and the policy that decides.
pub(super) struct Recovery {
    round_trip: RoundTrip,
    /// When the packet that was acknowledged last, by time of sending, had been sent.
    newest_acknowledged: Option<Instant>,
    /// The highest PSN that was acknowledged.
    highest_acknowledged: Psn,
    /// Time-outs since the last acknowledgement of anything new.
    backoff: u32,
    tail: TailLossProbe,
    reports: PeerReports,
    detector: Box<dyn LossDetector>,
}

impl Recovery {
    pub(super) fn new(first: Psn, detector: Box<dyn LossDetector>, now: Instant) -> Recovery {
        Recovery {
            round_trip: RoundTrip::default(),
            newest_acknowledged: None,
            highest_acknowledged: first.minus(1),
            backoff: 0,
            tail: TailLossProbe::new(now),
            reports: PeerReports::default(),
            detector,
        }
    }

    // ---- round trips and time-outs ----

    /// Round trips of the channel as a whole.
    #[inline]
    pub(super) fn round_trip(&self) -> RoundTrip {
        self.round_trip
    }

    /// Smoothed round trip of the channel as a whole; zero before the first sample.
    #[inline]
    pub(super) fn smoothed(&self) -> Duration {
        self.round_trip.smoothed()
    }

    #[inline]
    pub(super) fn note_round_trip(&mut self, sample: Duration) {
        self.round_trip.note(sample);
    }

    /// A round trip took as long as `least`, or longer. Which path it took is not known.
    pub(super) fn note_round_trip_of_at_least(&mut self, least: Duration) {
        if least > self.round_trip.smoothed() {
            self.round_trip.note(least);
        }
    }

    #[cfg(test)]
    pub(super) fn set_smoothed(&mut self, smoothed: Duration) {
        self.round_trip.set_smoothed(smoothed);
    }

    /// The retransmission time-out (RFC 6298, without its one-second floor), doubled for every
    /// time-out in a row.
    #[inline]
    pub(super) fn timeout(&self, profile: &Profile) -> Duration {
        let smoothed = self.round_trip.smoothed();
        let base = if smoothed == Duration::ZERO {
            profile.timeout_initial
        } else {
            // A queue may double the round trip within one. What later packets prove lost is found
            // within three; the shortest time-out leaves room for that on short ways, on long ones
            // this does (RFC 6298 waits for a second).
            let long = smoothed.times(2) > profile.timeout_min;
            let silence = smoothed.times(if long { 4 } else { 2 });
            silence.saturating_add(self.round_trip.deviation().times(4))
        };
        let base = base.max(profile.timeout_min);
        base.times(1 << self.backoff.min(16)).min(profile.timeout_max)
    }

    /// Has a time-out fired since anything new was acknowledged?
    #[inline]
    pub(super) fn is_backing_off(&self) -> bool {
        self.backoff > 0
    }

    /// A time-out has fired.
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Something new was acknowledged. True if a time-out had fired before.
    #[inline]
    pub(super) fn end_backoff(&mut self) -> bool {
        core::mem::take(&mut self.backoff) > 0
    }

    /// How long the copy after the second that is the `further`-th has before it may be lost.
    pub(super) fn time_of_copy(&self, config: &Config, further: u32) -> Duration {
        // The time would bound what the second of these bugs costs, too.
        if config.is_injected(InjectedBug::HastyCopies)
            || config.is_injected(InjectedBug::TrustNewPath)
        {
            return Duration::ZERO;
        }
        let round_trip = match self.smoothed() {
            Duration::ZERO if !config.is_injected(InjectedBug::NeverMeasured) => {
                config.profile().timeout_initial
            }
            smoothed => smoothed,
        };
        round_trip.times(1 << further)
    }

    // ---- what was acknowledged, and what that proves ----

    /// Packets with a congestion mark, and duplicates, that an acknowledgement reports anew.
    #[inline]
    pub(super) fn count_reports(&mut self, ack: &Ack) -> (u32, u32) {
        self.reports.count(ack)
    }

    /// True if the peer has not reported before that it knows where this message starts.
    #[inline]
    pub(super) fn is_newly_known(&mut self, message: Msn) -> bool {
        self.reports.note_known(message)
    }

    /// When the packet that was acknowledged last, by time of sending, had been sent.
    #[inline]
    pub(super) fn newest_acknowledged(&self) -> Option<Instant> {
        self.newest_acknowledged
    }

    /// What the arrival of a packet proves of those sent before it on its path. `is_trusting`
    /// injects a bug.
    #[inline]
    pub(super) fn learn_from(
        &mut self,
        paths: &mut Paths,
        now: Instant,
        psn: Psn,
        sent: &Sent,
        is_trusting: bool,
    ) {
        paths.note_alive(sent.path, now);
        let psn_late = self.highest_acknowledged.distance_from(psn).max(0) as u32;
        if psn_late == 0 {
            self.highest_acknowledged = psn;
        }
        // A path that has not been measured is thought to be as long as the others.
        let round_trip = match paths.round_trip(sent.path) {
            Duration::ZERO if !is_trusting => self.smoothed(),
            measured => measured,
        };
        let too_soon = now.elapsed_since(sent.sent_at) < round_trip.divided_by(2);
        if sent.is(RESENT) && !sent.is(LOST) && too_soon {
            // It was the first copy that arrived: late, and resent for nothing. The second copy
            // is still under way and proves nothing of its path.
            let distance = paths.sent_since(sent.path);
            self.detector.on_reordering(distance, psn_late, true);
            return;
        }
        let ahead = paths.note_acknowledged(sent.path, sent.path_sequence);
        let path_late = ahead.min(0).unsigned_abs();
        let across = psn_late > 0 && !sent.is(RESENT) && self.detector.looks_across_paths();
        let was_lost = sent.is(LOST) && !sent.is(UNCOUNTED);
        if path_late > 0 || across || was_lost {
            self.detector.on_reordering(path_late, psn_late, was_lost);
        }
        let newest = self.newest_acknowledged.unwrap_or(sent.sent_at);
        self.newest_acknowledged = Some(newest.max(sent.sent_at));
    }

    /// Does the detector look at packets of other paths than those on which news came?
    #[inline]
    pub(super) fn looks_across_paths(&self) -> bool {
        self.detector.looks_across_paths()
    }

    /// Was a packet in flight passed by others, on its path or, if the detector looks at those, on
    /// another one?
    pub(super) fn is_passed(&self, sent: &Sent, overtaken: i32) -> bool {
        // A copy that was resent is judged by what left after it: the report may be older.
        let older = self.newest_acknowledged.is_none_or(|at| !sent.sent_at.is_before(at));
        overtaken > 0 || (self.detector.looks_across_paths() && !(sent.is(RESENT) && older))
    }

    /// How long before the newest packet that was acknowledged a packet was sent.
    pub(super) fn overtaken_by(&self, sent: &Sent) -> Duration {
        self.newest_acknowledged.map_or(Duration::ZERO, |newest| newest.since(sent.sent_at))
    }

    /// Asks the detector whether a packet is lost.
    pub(super) fn is_lost(&mut self, evidence: &Evidence) -> bool {
        self.detector.is_lost(evidence)
    }

    /// Was a packet sent a round trip before one that has been acknowledged, or longer?
    pub(super) fn is_long_passed(&self, sent: &Sent) -> bool {
        self.newest_acknowledged
            .is_some_and(|newest| (sent.sent_at + self.smoothed()).is_before(newest))
    }

    /// Was nothing acknowledged that was sent in the last `time`?
    pub(super) fn is_silent(&self, now: Instant, time: Duration) -> bool {
        self.newest_acknowledged.is_none_or(|newest| now.elapsed_since(newest) >= time)
    }
}
