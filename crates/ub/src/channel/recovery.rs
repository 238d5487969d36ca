//! Conclusions that a sender draws from acknowledgements: round trips, how late packets arrive, and
//! how long it waits before it declares one lost.

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
use fairway_policy::{Evidence, LateArrival, LossDetector};
use fairway_wire::{Ack, Duration, Instant, Msn, Psn};

/// Time for which an idle channel keeps when the newest acknowledged packet was sent.
const NEWEST_KEPT: Duration = Duration::from_secs(3600);

/// The measurements by which the sender declares packets lost, and the policy that decides.
pub(super) struct Recovery {
    round_trip: RoundTrip,
    /// Latest time at which a packet was sent that has been acknowledged.
    newest_acknowledged: Option<Instant>,
    /// The highest PSN that was acknowledged.
    highest_acknowledged: Psn,
    /// Time-outs since a packet was last newly acknowledged.
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

    /// The policy that declares packets lost.
    pub(super) fn detector(&self) -> &dyn LossDetector {
        &*self.detector
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

    /// Notes that a round trip took at least `least`. Its path is not known.
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
            // A queue may double the round trip within one. Losses that later packets prove are
            // found within three; the shortest time-out leaves room for that on short paths, on
            // long ones this factor does (RFC 6298 waits for a second).
            let is_long = smoothed.times(2) > profile.timeout_min;
            let silence = match self.overdue_after() {
                Some(overdue) => overdue,
                None => smoothed.times(if is_long { 4 } else { 2 }),
            };
            silence.saturating_add(self.round_trip.deviation().times(4))
        };
        let base = base.max(profile.timeout_min);
        base.times(1 << self.backoff.min(16)).min(profile.timeout_max)
    }

    /// True if a time-out has fired since a packet was last newly acknowledged.
    #[inline]
    pub(super) fn is_backing_off(&self) -> bool {
        self.backoff > 0
    }

    /// Counts a time-out that has fired.
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Resets the back-off after a new acknowledgement. True if a time-out had fired before.
    #[inline]
    pub(super) fn end_backoff(&mut self) -> bool {
        core::mem::take(&mut self.backoff) > 0
    }

    /// How long the `further`-th copy after the second has before it may be declared lost.
    pub(super) fn time_of_copy(&self, config: &Config, further: u32) -> Duration {
        // This time would also bound the cost of the second of these bugs.
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

    /// Packets with a congestion mark, and duplicates, that an acknowledgement reports for the
    /// first time.
    #[inline]
    pub(super) fn count_reports(&mut self, ack: &Ack) -> (u32, u32) {
        self.reports.count(ack)
    }

    /// Running counts of marks and of duplicates, as the peer has reported them last.
    #[inline]
    pub(super) fn reported_counts(&self) -> (u8, u8) {
        self.reports.counts()
    }

    /// True if the peer has not reported before that it has recorded where this message starts.
    #[inline]
    pub(super) fn is_newly_known(&mut self, message: Msn) -> bool {
        self.reports.note_known(message)
    }

    /// What acknowledgements have reported.
    pub(super) fn reports(&self) -> PeerReports {
        self.reports
    }

    pub(super) fn set_reports(&mut self, reports: PeerReports) {
        self.reports = reports;
    }

    /// Latest time at which a packet was sent that has been acknowledged.
    #[inline]
    pub(super) fn newest_acknowledged(&self) -> Option<Instant> {
        self.newest_acknowledged
    }

    /// Called from time to time while nothing is in flight: forgets a packet that was acknowledged
    /// long ago, which would count as newer than any other once times have wrapped.
    pub(super) fn forget_newest(&mut self, now: Instant) {
        let is_old = |newest: &Instant| now.elapsed_since(*newest) >= NEWEST_KEPT;
        if self.newest_acknowledged.as_ref().is_some_and(is_old) {
            self.newest_acknowledged = None;
        }
    }

    /// Learns from the arrival of a packet about those sent before it on its path. `is_trusting`
    /// injects a bug.
    #[inline]
    pub(super) fn measure_round_trips(
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
        // A path that has not been measured is assumed to be as long as the others.
        let round_trip = match paths.round_trip(sent.path) {
            Duration::ZERO if !is_trusting => self.smoothed(),
            measured => measured,
        };
        let too_soon = now.elapsed_since(sent.sent_at) < round_trip.divided_by(2);
        if sent.is(RESENT) && !sent.is(LOST) && too_soon {
            // The first copy arrived: it was late, and the resend was unnecessary. The second copy
            // is still under way and proves nothing of its path.
            self.detector.on_reordering(&LateArrival {
                path_distance: paths.sent_since(sent.path),
                psn_distance: psn_late,
                was_declared_lost: true,
                overtaken_by: Duration::ZERO,
                smoothed_rtt: round_trip,
            });
            return;
        }
        let ahead = paths.note_acknowledged(sent.path, sent.path_sequence);
        let path_late = ahead.min(0).unsigned_abs();
        let across = psn_late > 0 && !sent.is(RESENT) && self.detector.compares_across_paths();
        let was_lost = sent.is(LOST) && !sent.is(UNCOUNTED);
        if path_late > 0 || across || was_lost {
            let overtaken_by = match sent.is(RESENT) {
                false => self.overtaken_by(sent),
                true => Duration::ZERO,
            };
            self.detector.on_reordering(&LateArrival {
                path_distance: path_late,
                psn_distance: psn_late,
                was_declared_lost: was_lost,
                overtaken_by,
                smoothed_rtt: round_trip,
            });
        }
        let newest = self.newest_acknowledged.unwrap_or(sent.sent_at);
        self.newest_acknowledged = Some(newest.max(sent.sent_at));
    }

    /// Tells the detector that so many packets were acknowledged.
    #[inline]
    pub(super) fn note_progress(&mut self, now: Instant, packets: u32) {
        self.detector.on_ack(now, self.smoothed(), packets);
    }

    /// True if the detector examines packets of other paths than those on which packets were
    /// acknowledged.
    #[inline]
    pub(super) fn compares_across_paths(&self) -> bool {
        self.detector.compares_across_paths()
    }

    /// How long after it was sent a packet is lost that a newer one has overtaken; `None` if the
    /// detector does not judge by time alone.
    #[inline]
    pub(super) fn overdue_after(&self) -> Option<Duration> {
        let overdue = self.detector.overdue_after(self.smoothed())?;
        Some(overdue.max(self.round_trip.usual_most()))
    }

    /// True if a packet in flight was passed by others, on its path or, if the detector looks
    /// across paths, on another one.
    pub(super) fn is_passed(&self, sent: &Sent, overtaken: i32) -> bool {
        // A resent copy is judged by packets that left after it, because the report may be older.
        let older = self.newest_acknowledged.is_none_or(|at| !sent.sent_at.is_before(at));
        overtaken > 0 || (self.detector.compares_across_paths() && !(sent.is(RESENT) && older))
    }

    /// How long before the newest acknowledged packet a packet was sent.
    pub(super) fn overtaken_by(&self, sent: &Sent) -> Duration {
        self.newest_acknowledged.map_or(Duration::ZERO, |newest| newest.since(sent.sent_at))
    }

    /// Whether the detector declares a packet lost.
    pub(super) fn is_lost(&mut self, evidence: &Evidence) -> bool {
        self.detector.is_lost(evidence)
    }

    /// True if a packet was sent at least a round trip before one that has been acknowledged.
    pub(super) fn is_long_passed(&self, sent: &Sent) -> bool {
        self.newest_acknowledged
            .is_some_and(|newest| (sent.sent_at + self.smoothed()).is_before(newest))
    }

    /// True if no packet that was sent within the last `time` was acknowledged.
    pub(super) fn is_silent(&self, now: Instant, time: Duration) -> bool {
        self.newest_acknowledged.is_none_or(|newest| now.elapsed_since(newest) >= time)
    }
}
