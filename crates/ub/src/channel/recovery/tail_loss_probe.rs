//! Detection of losses at the end of what is sent, where nothing follows on their path to prove
//! them.
//!
//! A retransmission time-out would find them, but late: it must not fire for a peer that is only
//! slow. Long before that, when nothing was sent and nothing new acknowledged for a while, this
//! module checks twice. First, after one round trip: a packet that was sent before an acknowledged
//! one, on whatever path, and is later than round trips vary, is lost (as in RACK, RFC 8985 §6.2).
//! Second, after two round trips, if there is no such packet: the newest packet is resent as a
//! probe (RFC 8985 §7.3). Its acknowledgement reports what is missing, and all other packets were
//! sent before it. Neither check is a time-out, and neither doubles one.
//!
//! A detector that judges by time (`rack`) knows by how much packets may be late. With such a one,
//! the first check does not wait for silence but for the time at which the oldest overtaken packet
//! is overdue, and the second for that at which the acknowledgement of the last packet is.

use super::Recovery;
use crate::channel::loss::Lost;
use crate::channel::{Channel, Timer};
use crate::injected_bug::InjectedBug;
use crate::limits::Profile;
use crate::send_window::{ACKNOWLEDGED, LOST, UNCOUNTED};
use crate::shared::{Config, Schedule, Shared};
use fairway_wire::{Duration, Instant};

/// Probes before the retransmission timer takes over.
const PROBES: u8 = 2;
/// Most times that the wait is doubled.
const BACKOFF_MAX: u8 = 6;
/// Packets, counted back from the newest, among which a probe is chosen.
const LOOK_BACK: u32 = 64;

/// State of a period in which nothing is sent or newly acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct TailLossProbe {
    /// When a packet was last sent or newly acknowledged.
    quiet_since: Instant,
    /// Probes since a packet was last newly acknowledged.
    probes: u8,
    /// Set if a probe was answered, and what that proves has not been evaluated.
    is_answered: bool,
    /// Number of times the wait was doubled because a packet was resent unnecessarily. A packet
    /// that was sent twice gives no round trip, so too short a wait would never be detected
    /// otherwise.
    backoff: u8,
    /// Set if a packet was resent unnecessarily since others were found lost.
    spurious: bool,
    /// A probe is due that needs no room in the window (RFC 8985 §7.3).
    probe_due: bool,
}

impl TailLossProbe {
    pub(super) fn new(now: Instant) -> TailLossProbe {
        TailLossProbe {
            quiet_since: now,
            probes: 0,
            is_answered: false,
            backoff: 0,
            spurious: false,
            probe_due: false,
        }
    }
}

impl Recovery {
    /// True if one packet may leave as a probe, once for each probe that is due.
    pub(in crate::channel) fn take_tail_probe(&mut self) -> bool {
        core::mem::take(&mut self.tail.probe_due)
    }

    /// A round trip, or the minimum assumed for a peer that is a process.
    fn tail_round(&self, profile: &Profile) -> Duration {
        self.smoothed().max(self.tail_floor(profile)).times(1 << self.tail.backoff)
    }

    /// The least time in which a peer that is a process answers.
    fn tail_floor(&self, profile: &Profile) -> Duration {
        profile.timeout_min.divided_by(8).max(profile.acknowledge_delay)
    }

    /// The quiet period after which a probe is sent; `None` before the first round trip, or if the
    /// time-out is no longer than that.
    fn tail_delay(&self, profile: &Profile) -> Option<Duration> {
        let delay = match self.overdue_after() {
            // The last packet requested an acknowledgement. Such a detector learns by itself from
            // packets that were resent unnecessarily, so the wait is not doubled.
            Some(overdue) => {
                let slack = self.smoothed().divided_by(4);
                let answered = self.smoothed().saturating_add(slack);
                overdue.max(answered).max(self.tail_floor(profile))
            }
            None => self.tail_round(profile).times(2),
        };
        let is_known = self.smoothed() > Duration::ZERO;
        (is_known && delay < self.timeout(profile)).then_some(delay)
    }

    /// Doubles the wait after a packet was resent unnecessarily.
    pub(in crate::channel) fn note_spurious(&mut self) {
        self.tail.backoff = (self.tail.backoff + 1).min(BACKOFF_MAX);
        self.tail.spurious = true;
    }

    /// Resets the wait after a time-out found a loss that this module had not found.
    pub(in crate::channel) fn note_late(&mut self) {
        self.tail.backoff = 0;
    }
}

impl Channel {
    /// Restarts the quiet period when a packet is sent.
    #[inline]
    pub(crate) fn note_tail_sent(
        &mut self,
        config: &Config,
        schedule: &mut Schedule,
        now: Instant,
    ) {
        self.recovery.tail.quiet_since = now;
        if !self.timers.is_armed(Timer::TailLossProbe)
            && !config.is_injected(InjectedBug::ForgetTimer)
            && let Some(delay) = self.recovery.tail_delay(config.profile())
        {
            self.arm(schedule, Timer::TailLossProbe, now + delay);
        }
    }

    /// Restarts the quiet period when a packet is newly acknowledged.
    #[inline]
    pub(crate) fn note_tail_acknowledged(&mut self, schedule: &mut Schedule, now: Instant) {
        if self.recovery.overdue_after().is_none() {
            self.recovery.tail.quiet_since = now;
        }
        self.recovery.tail.probe_due = false;
        let probed = core::mem::take(&mut self.recovery.tail.probes) > 0;
        if self.tp.is_idle() {
            self.timers.disarm(Timer::TailLossProbe);
        } else if probed {
            // The probe was acknowledged: check at once what it proves lost.
            self.recovery.tail.is_answered = true;
            self.arm(schedule, Timer::TailLossProbe, now);
        }
    }

    /// Checks at `due` whether a packet that was overtaken has arrived, if the detector judges by
    /// time alone.
    pub(in crate::channel) fn check_overtaken_at(&mut self, schedule: &mut Schedule, due: Instant) {
        let armed = self.timers.deadline(Timer::TailLossProbe);
        if armed.is_none_or(|armed| due.is_before(armed)) {
            self.arm(schedule, Timer::TailLossProbe, due);
        }
    }

    pub(crate) fn handle_tail_timer(&mut self, shared: &mut Shared, now: Instant) {
        if self.tp.is_idle() {
            return;
        }
        let Some(delay) = self.recovery.tail_delay(shared.config.profile()) else { return };
        // While acknowledgements arrive, a late packet may only have been delayed more than others.
        let lull =
            self.recovery.tail.quiet_since + self.recovery.tail_round(shared.config.profile());
        let waits = self.recovery.overdue_after().is_none() && !self.recovery.tail.is_answered;
        if now.is_before(lull) && waits {
            return self.arm(&mut shared.schedule, Timer::TailLossProbe, lull);
        }
        self.recovery.tail.is_answered = false;
        let quiet = self.recovery.tail.quiet_since + delay;
        let (any, next) = self.expire_overtaken(shared, now);
        let mut at = now + delay;
        if any {
            if !core::mem::take(&mut self.recovery.tail.spurious) {
                self.recovery.tail.backoff = self.recovery.tail.backoff.saturating_sub(1);
            }
            self.mark_ready(&mut shared.schedule);
        } else if now.is_before(quiet) {
            at = quiet;
        } else if self.recovery.tail.probes < PROBES {
            self.recovery.tail.probes += 1;
            self.probe_tail(shared);
        } else if next.is_none() {
            return;
        }
        self.arm(&mut shared.schedule, Timer::TailLossProbe, next.map_or(at, |next| next.min(at)));
    }

    /// Declares lost the packets that were sent before an acknowledged one and are later than round
    /// trips vary. Returns whether there was any, and when the next will be.
    fn expire_overtaken(&mut self, shared: &mut Shared, now: Instant) -> (bool, Option<Instant>) {
        let Some(newest) = self.recovery.newest_acknowledged() else { return (false, None) };
        let late = self.recovery.overdue_after();
        let late = late.unwrap_or_else(|| self.recovery.round_trip().usual_most());
        let (mut any, mut next) = (false, None::<Instant>);
        for path in self.paths.busy() {
            let (lost, due) = self.expire_on_path(shared, now, path, newest, late);
            if lost.bytes > 0 {
                any = true;
                self.report_loss(&mut shared.flows, &mut shared.schedule, now, (lost, path), false);
            }
            next = next.into_iter().chain(due).reduce(Instant::min);
        }
        (any, next)
    }

    /// Returns what is lost on a path, and when the next packet there will be lost.
    fn expire_on_path(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        path: u8,
        newest: Instant,
        late: Duration,
    ) -> (Lost, Option<Instant>) {
        let mut lost = Lost::default();
        let mut down = false;
        while let Some(psn) = self.paths.oldest(path) {
            let sent = *self.send.record(psn, &mut shared.send_blocks);
            if !down && !sent.sent_at.is_before(newest) {
                return (lost, None);
            }
            let due = sent.sent_at + late;
            if !down && now.is_before(due) {
                return (lost, Some(due));
            }
            if lost.bytes == 0 {
                // All packets of a path that goes out of use are resent elsewhere.
                down = self.path_timed_out(shared, path, now);
            }
            lost.add(Lost::packet(&sent));
            self.declare_lost(shared, psn, &sent);
        }
        (lost, None)
    }

    /// Schedules the newest packet under way for resending, without declaring it lost.
    fn probe_tail(&mut self, shared: &mut Shared) {
        let mut psn = self.tp.next();
        for _ in 0..LOOK_BACK {
            if psn == self.tp.oldest() {
                return;
            }
            psn = psn.minus(1);
            let sent = *self.send.record(psn, &mut shared.send_blocks);
            if !sent.is(LOST | ACKNOWLEDGED) {
                shared.counters.tail_probes += 1;
                self.recovery.tail.probe_due = true;
                self.take_from_path(
                    &shared.flows,
                    &mut shared.schedule,
                    &mut shared.send_blocks,
                    psn,
                    &sent,
                );
                self.send.record(psn, &mut shared.send_blocks).flags |= UNCOUNTED;
                if shared.is_injected(InjectedBug::ForgetProbed) {
                    self.send.stop_waiting(psn, sent.bytes, &mut shared.send_blocks);
                }
                return self.mark_ready(&mut shared.schedule);
            }
        }
    }
}
