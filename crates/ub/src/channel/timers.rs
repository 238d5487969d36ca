//! A channel's timers.

use super::Channel;
use super::close::Silence;
use crate::injected_bug::InjectedBug;
use crate::shared::{Schedule, Shared};
use fairway_wire::{Duration, Instant};

/// Events for which a channel waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    /// The oldest packet of some path has not been acknowledged.
    Retransmit,
    /// An acknowledgement was delayed so that it may cover more packets.
    Acknowledge,
    /// A refused message is to be tried again.
    NotReady,
    /// A keep-alive is due, to check whether the peer is alive.
    KeepAlive,
    /// A probe is due, to check whether a path that was taken out of use works again.
    PathProbe,
    /// The dequeue rate allows the next packet.
    Pace,
    /// A close is to be repeated, or the channel stops lingering.
    Close,
    /// A load or store was not answered.
    Bypass,
    /// A sender on credit may have to repeat its credit request.
    CreditRequest,
    /// The next path is to be probed.
    Probe,
    /// Nothing was sent or newly acknowledged for some round trips.
    TailLossProbe,
    /// The probe of a path has waited for its answer for long.
    ProbeAnswer,
}

impl Timer {
    pub(crate) const COUNT: usize = 12;
    const ALL: [Timer; Self::COUNT] = [
        Timer::Retransmit,
        Timer::Acknowledge,
        Timer::NotReady,
        Timer::KeepAlive,
        Timer::PathProbe,
        Timer::Pace,
        Timer::Close,
        Timer::Bypass,
        Timer::CreditRequest,
        Timer::Probe,
        Timer::TailLossProbe,
        Timer::ProbeAnswer,
    ];
}

/// Delay before a silent peer is checked again that may not be declared dead yet.
const END_RETRY: Duration = Duration::from_us(100);

/// When each timer of a channel fires, if it is armed.
#[derive(Debug)]
pub(super) struct Timers {
    at: [Instant; Timer::COUNT],
    /// One bit for each timer.
    armed: u16,
}

impl Timers {
    pub(super) fn new() -> Timers {
        Timers { at: [Instant::ZERO; Timer::COUNT], armed: 0 }
    }

    /// Makes a timer fire at `at`, whenever it was to fire before.
    #[inline]
    fn arm(&mut self, timer: Timer, at: Instant) {
        self.at[timer as usize] = at;
        self.armed |= 1 << timer as u16;
    }

    #[inline]
    pub(super) fn disarm(&mut self, timer: Timer) {
        self.armed &= !(1 << timer as u16);
    }

    pub(super) fn disarm_all(&mut self) {
        self.armed = 0;
    }

    #[inline]
    pub(super) fn is_armed(&self, timer: Timer) -> bool {
        self.armed & (1 << timer as u16) != 0
    }

    /// When the keep-alive is due, if no other timer is armed.
    pub(super) fn only_keep_alive(&self) -> Option<Instant> {
        let is_only = self.armed == 1 << Timer::KeepAlive as u16;
        is_only.then_some(self.at[Timer::KeepAlive as usize])
    }

    /// When a timer fires; `None` if it is not armed.
    #[inline]
    pub(super) fn deadline(&self, timer: Timer) -> Option<Instant> {
        self.is_armed(timer).then_some(self.at[timer as usize])
    }

    /// True if a timer is due; it is disarmed in that case.
    fn take_due(&mut self, timer: Timer, now: Instant) -> bool {
        let is_due = self.deadline(timer).is_some_and(|at| now.is_at_or_after(at));
        if is_due {
            self.disarm(timer);
        }
        is_due
    }
}

impl Channel {
    #[inline]
    pub(crate) fn arm(&mut self, schedule: &mut Schedule, timer: Timer, at: Instant) {
        self.timers.arm(timer, at);
        schedule.wake_by(self.index(), at);
    }

    /// Fires the timers that are due, and schedules the next wake-up.
    pub(crate) fn handle_timeout(&mut self, shared: &mut Shared, now: Instant) {
        for timer in Timer::ALL {
            if self.timers.take_due(timer, now) {
                self.fire(shared, timer, now);
            }
        }
        for timer in Timer::ALL {
            if let Some(at) = self.timers.deadline(timer) {
                shared.schedule.wake_by(self.index(), at);
            }
        }
    }

    fn fire(&mut self, shared: &mut Shared, timer: Timer, now: Instant) {
        if timer == Timer::Close {
            return self.close_timer(shared, now);
        }
        if !self.is_open() {
            return;
        }
        match timer {
            Timer::Retransmit => self.retransmit_timer(shared, now),
            Timer::Acknowledge => {
                self.acknowledge_soon(&mut shared.schedule);
            }
            Timer::NotReady => self.not_ready_timer(shared, now),
            Timer::KeepAlive => self.keep_alive_timer(shared, now),
            Timer::PathProbe => self.path_probe_timer(&shared.config, &mut shared.schedule, now),
            Timer::Pace => self.mark_ready(&mut shared.schedule),
            Timer::TailLossProbe => self.handle_tail_timer(shared, now),
            Timer::Bypass => self.bypass_timer(shared, now),
            Timer::CreditRequest if shared.is_injected(InjectedBug::AskOnce) => {}
            Timer::CreditRequest => {
                self.queue_credit_request(&mut shared.schedule, now);
                // The policy may have gained credit from earlier events.
                self.mark_ready(&mut shared.schedule);
            }
            Timer::ProbeAnswer => self.probe_answer_timer(shared, now),
            Timer::Probe => self.probe_timer(&mut shared.schedule, now),
            Timer::Close => {}
        }
    }

    /// How long nothing has been received on the channel.
    pub(crate) fn silence_at(&self, now: Instant) -> Duration {
        now.elapsed_since(self.life.last_received_at())
    }

    /// True once since the peer's last packet: the channel is to be probed once more before it is
    /// retired.
    pub(crate) fn take_last_chance(&mut self) -> bool {
        self.life.take_last_chance()
    }

    /// When the peer's last packet arrived.
    pub(crate) fn last_received_at(&self) -> Instant {
        self.life.last_received_at()
    }

    /// Sends a keep-alive message out of turn.
    pub(crate) fn probe_peer(&mut self, shared: &mut Shared) {
        self.life.keep_alive();
        self.mark_urgent(&mut shared.schedule);
    }

    /// Sends a probe by a path.
    pub(crate) fn probe_path(&mut self, shared: &mut Shared, path: u8) {
        self.paths.probe(path);
        self.mark_urgent(&mut shared.schedule);
    }

    /// Probes a peer again that has been silent for too long.
    pub(crate) fn probe_again(&mut self, shared: &mut Shared, now: Instant) {
        self.life.keep_alive();
        self.mark_urgent(&mut shared.schedule);
        let at = now + shared.config.profile().keep_alive;
        self.arm(&mut shared.schedule, Timer::KeepAlive, at);
    }

    /// Probes a silent peer; one that leaves enough probes unanswered for long enough is declared
    /// dead.
    pub(crate) fn keep_alive_timer(&mut self, shared: &mut Shared, now: Instant) {
        match self.life.silence(now, shared.config.profile()) {
            Silence::Dead if shared.channels.try_end() => {
                // The group may go on without the channel.
                if self.is_dispensable() && shared.channels.has_others(self.group()) {
                    return shared.channels.request_attention(self.index());
                }
                return self.peer_is_dead(shared, now);
            }
            Silence::Dead => {
                return self.arm(&mut shared.schedule, Timer::KeepAlive, now + END_RETRY);
            }
            Silence::Long => {
                self.life.keep_alive();
                self.mark_urgent(&mut shared.schedule);
            }
            Silence::Short => {}
        }
        self.congestion.refresh(now);
        if self.tp.is_idle() {
            self.recovery.forget_newest(now);
        }
        let at = self.life.look_at(now, shared.config.profile());
        self.arm(&mut shared.schedule, Timer::KeepAlive, at);
    }
}
