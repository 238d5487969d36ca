//! Losses at the end of what is sent: nothing follows on their path that would prove them.
//!
//! A retransmission time-out would find them, late: it must not fire for a peer that is only slow.
//! Long before that, when nothing was sent and nothing new acknowledged for a while, this looks
//! twice. First, after a round trip: what was sent before something that has been acknowledged, on
//! whatever path, and is later than round trips vary, is lost (as RACK has it, RFC 8985 §6.2).
//! Second, after two, if there is no such thing: the newest packet goes again as a probe (RFC 8985
//! §7.3). Its acknowledgement tells what is missing, and is something that others were sent before.
//! Neither of them is a time-out, and doubles one.

use super::Recovery;
use crate::channel::{Channel, Timer};
use crate::injected_bug::InjectedBug;
use crate::limits::Profile;
use crate::send_window::{ACKNOWLEDGED, LOST, UNCOUNTED};
use crate::shared::{Config, Schedule, Shared};
use fairway_wire::{Duration, Instant};

/// Probes before it is the retransmission timer's turn.
const PROBES: u8 = 2;
/// The wait is doubled at most so often.
const BACKOFF_MAX: u8 = 6;
/// A probe does not look for the newest packet farther back.
const LOOK_BACK: u32 = 64;

/// What is remembered of a quiet spell.
#[derive(Clone, Copy, Debug)]
pub(super) struct TailLossProbe {
    /// When something was sent, or something new acknowledged.
    quiet_since: Instant,
    /// Probes since something new was acknowledged.
    probes: u8,
    /// One was answered, and what that proves has not been looked at.
    is_answered: bool,
    /// How often the wait was doubled, because something was sent again for nothing. A packet that
    /// was sent twice tells no round trip, so too short a wait would never be found out.
    backoff: u8,
    /// Something was, since others were found lost.
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
    /// May one packet leave as a probe? True once for each probe that is due.
    pub(in crate::channel) fn take_tail_probe(&mut self) -> bool {
        core::mem::take(&mut self.tail.probe_due)
    }

    /// A round trip, or what counts as one for a peer that is a process.
    fn tail_round(&self, profile: &Profile) -> Duration {
        let floor = profile.timeout_min.divided_by(8).max(profile.acknowledge_delay);
        self.smoothed().max(floor).times(1 << self.tail.backoff)
    }

    /// How long nothing has to happen; `None` before the first round trip, or if the time-out is no
    /// longer than that.
    fn tail_delay(&self, profile: &Profile) -> Option<Duration> {
        let delay = self.tail_round(profile).times(2);
        let is_known = self.smoothed() > Duration::ZERO;
        (is_known && delay < self.timeout(profile)).then_some(delay)
    }

    /// Something was sent again for nothing.
    pub(in crate::channel) fn note_hasty(&mut self) {
        self.tail.backoff = (self.tail.backoff + 1).min(BACKOFF_MAX);
        self.tail.spurious = true;
    }

    /// A time-out has found what this did not.
    pub(in crate::channel) fn note_late(&mut self) {
        self.tail.backoff = 0;
    }
}

impl Channel {
    /// Something was sent.
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

    /// Something new was acknowledged.
    #[inline]
    pub(crate) fn note_tail_acknowledged(&mut self, schedule: &mut Schedule, now: Instant) {
        self.recovery.tail.quiet_since = now;
        self.recovery.tail.probe_due = false;
        let probed = core::mem::take(&mut self.recovery.tail.probes) > 0;
        if self.tp.is_idle() {
            self.timers.disarm(Timer::TailLossProbe);
        } else if probed {
            // The probe came through: look at once what it proves lost.
            self.recovery.tail.is_answered = true;
            self.arm(schedule, Timer::TailLossProbe, now);
        }
    }

    pub(crate) fn handle_tail_timer(&mut self, shared: &mut Shared, now: Instant) {
        if self.tp.is_idle() {
            return;
        }
        let Some(delay) = self.recovery.tail_delay(shared.config.profile()) else { return };
        // While news comes, what is late may only have waited longer than others.
        let lull =
            self.recovery.tail.quiet_since + self.recovery.tail_round(shared.config.profile());
        if now.is_before(lull) && !self.recovery.tail.is_answered {
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

    /// Declares lost what was sent before something that has been acknowledged, and is later than
    /// round trips vary; tells whether there was any, and when the next will be.
    fn expire_overtaken(&mut self, shared: &mut Shared, now: Instant) -> (bool, Option<Instant>) {
        let Some(newest) = self.recovery.newest_acknowledged() else { return (false, None) };
        let late = self.recovery.round_trip().usual_most();
        let (mut any, mut next) = (false, None::<Instant>);
        for path in self.paths.busy() {
            let (bytes, due) = self.expire_on_path(shared, now, path, newest, late);
            if bytes > 0 {
                any = true;
                self.report_loss(
                    &mut shared.flows,
                    &mut shared.schedule,
                    now,
                    (bytes, path),
                    false,
                );
            }
            next = next.into_iter().chain(due).reduce(Instant::min);
        }
        (any, next)
    }

    /// Bytes that were lost on a path, and when the next packet there will be.
    fn expire_on_path(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        path: u8,
        newest: Instant,
        late: Duration,
    ) -> (u32, Option<Instant>) {
        let mut bytes = 0;
        let mut down = false;
        while let Some(psn) = self.paths.oldest(path) {
            let sent = *self.send.record(psn, &mut shared.send_blocks);
            if !down && !sent.sent_at.is_before(newest) {
                return (bytes, None);
            }
            let due = sent.sent_at + late;
            if !down && now.is_before(due) {
                return (bytes, Some(due));
            }
            if bytes == 0 {
                // A path out of use has nothing in flight: all that is on it goes elsewhere.
                down = self.path_timed_out(shared, path, now);
            }
            bytes += u32::from(sent.bytes);
            self.declare_lost(shared, psn, &sent);
        }
        (bytes, None)
    }

    /// Has the newest packet that is under way sent again, without calling it lost.
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
