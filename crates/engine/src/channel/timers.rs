//! A channel's timers.

use super::{Channel, ChannelState};
use crate::canary::Canary;
use crate::shared::Shared;
use fairway_wire::{Duration, Instant};

/// What a channel waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    /// The oldest packet of some path has not been acknowledged.
    Retransmit,
    /// An acknowledgement was held back in the hope of covering more.
    Acknowledge,
    /// A refused message is to be tried again.
    NotReady,
    /// Ask whether the peer is alive.
    KeepAlive,
    /// Ask whether a path that was taken out works again.
    PathProbe,
    /// The dequeue rate allows the next packet.
    Pace,
    /// Repeat the close, or stop lingering.
    Close,
    /// A load or store was not answered.
    Bypass,
    /// A sender on credit may want to say again what it wants.
    Demand,
    /// It is a path's turn to be probed.
    Probe,
    /// Nothing was sent or acknowledged for some round trips.
    Tail,
}

impl Timer {
    pub(crate) const COUNT: usize = 11;
    const ALL: [Timer; Self::COUNT] = [
        Timer::Retransmit,
        Timer::Acknowledge,
        Timer::NotReady,
        Timer::KeepAlive,
        Timer::PathProbe,
        Timer::Pace,
        Timer::Close,
        Timer::Bypass,
        Timer::Demand,
        Timer::Probe,
        Timer::Tail,
    ];
}

/// A peer that may not be called dead yet is looked at again after this long.
const END_RETRY: Duration = Duration::from_us(100);

/// How long the peer has been silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    /// When the last packet of the peer arrived.
    since: Instant,
    /// Keep-alives sent since.
    probes: u32,
}

impl Silence {
    /// A packet of the peer has arrived.
    pub(crate) fn new(now: Instant) -> Silence {
        Silence { since: now, probes: 0 }
    }
}

impl Channel {
    #[inline]
    pub(crate) fn arm(&mut self, shared: &mut Shared, timer: Timer, at: Instant) {
        self.timers[timer as usize] = at;
        self.armed |= 1 << timer as u16;
        shared.deadlines.wake_by(self.index().number(), at);
    }

    pub(crate) fn disarm(&mut self, timer: Timer) {
        self.armed &= !(1 << timer as u16);
    }

    pub(crate) fn is_armed(&self, timer: Timer) -> bool {
        self.armed & (1 << timer as u16) != 0
    }

    /// Does what is due, and asks to be woken for the rest.
    pub(crate) fn handle_timeout(&mut self, shared: &mut Shared, now: Instant) {
        for timer in Timer::ALL {
            if self.is_armed(timer) && now.is_at_or_after(self.timers[timer as usize]) {
                self.disarm(timer);
                self.fire(shared, timer, now);
            }
        }
        for timer in Timer::ALL {
            if self.is_armed(timer) {
                shared.deadlines.wake_by(self.index().number(), self.timers[timer as usize]);
            }
        }
    }

    fn fire(&mut self, shared: &mut Shared, timer: Timer, now: Instant) {
        if timer == Timer::Close {
            return self.close_timer(shared, now);
        }
        if self.state != ChannelState::Open {
            return;
        }
        match timer {
            Timer::Retransmit => self.retransmit_timer(shared, now),
            Timer::Acknowledge => {
                self.owed.due = true;
                self.mark_urgent(shared);
            }
            Timer::NotReady => self.not_ready_timer(shared, now),
            Timer::KeepAlive => self.keep_alive_timer(shared, now),
            Timer::PathProbe => self.path_probe_timer(shared, now),
            Timer::Pace => self.mark_ready(shared),
            Timer::Tail => self.tail_timer(shared, now),
            Timer::Bypass => self.bypass_timer(shared, now),
            Timer::Demand if shared.is_planted(Canary::AskOnce) => {}
            Timer::Demand => {
                self.ask_for_credit(shared, now);
                // Credit may have come of what the policy was told before.
                self.mark_ready(shared);
            }
            Timer::Probe => self.probe_timer(shared, now),
            Timer::Close => {}
        }
    }

    /// A silent peer is probed; one that leaves enough probes unanswered for long enough is dead.
    ///
    /// Silence alone proves nothing: when this side was stopped for a while (a debugger, a paused
    /// virtual machine), what the peer has sent meanwhile is still waiting to be read.
    pub(crate) fn keep_alive_timer(&mut self, shared: &mut Shared, now: Instant) {
        let profile = shared.profile;
        let silence = now.elapsed_since(self.silence.since);
        let probes_needed =
            (profile.peer_dead.as_ps() / profile.keep_alive.as_ps().max(1)).clamp(2, 16) - 1;
        if silence >= profile.peer_dead && u64::from(self.silence.probes) >= probes_needed {
            if !shared.ends_held {
                return self.peer_is_dead(shared, now);
            }
            shared.end_wanted = true;
            return self.arm(shared, Timer::KeepAlive, now + END_RETRY);
        }
        if silence >= profile.keep_alive {
            self.silence.probes += 1;
            self.owed.keep_alive = true;
            self.mark_urgent(shared);
        }
        let at = (now + profile.keep_alive).min(self.silence.since + profile.peer_dead);
        // A deadline that has passed must still lie ahead, or the timer would spin.
        let at = if now.is_before(at) { at } else { now + profile.keep_alive };
        self.arm(shared, Timer::KeepAlive, at);
    }
}
