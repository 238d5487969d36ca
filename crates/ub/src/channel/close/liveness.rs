//! Whether the peer is alive, and when the channel was last used.

use super::Lifecycle;
use crate::limits::Profile;
use fairway_wire::Instant;

/// Set in the number of keep-alives once a silent channel has had one more before it is retired.
const LAST_CHANCE: u32 = 1 << 31;

/// How long the peer has been silent, and how many keep-alives were sent since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Liveness {
    /// When the peer's last packet arrived.
    last_received_at: Instant,
    /// Keep-alives sent since then, and whether that before the channel is retired is one of them.
    probes: u32,
    /// Set when a keep-alive is to be sent.
    is_probe_due: bool,
    /// When an operation was last posted to the channel, or a packet of a peer's operation arrived.
    used_at: Instant,
}

/// Reaction that a peer's silence requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::channel) enum Silence {
    /// The peer has sent a packet lately.
    Short,
    /// A keep-alive is to be sent to the peer.
    Long,
    /// The peer has been silent for longer than a live peer may be.
    Dead,
}

impl Liveness {
    /// True if the peer has been probed since its last packet, or is about to be.
    pub(super) fn is_probing(&self) -> bool {
        self.is_probe_due || self.probes > 0
    }

    pub(super) fn new(now: Instant) -> Liveness {
        Liveness { last_received_at: now, probes: 0, is_probe_due: false, used_at: now }
    }
}

impl Lifecycle {
    /// When the peer's last packet arrived.
    pub(in crate::channel) fn last_received_at(&self) -> Instant {
        self.liveness.last_received_at
    }

    /// Notes that a packet of the peer has arrived.
    #[inline]
    pub(in crate::channel) fn note_packet_received(&mut self, now: Instant) {
        (self.liveness.last_received_at, self.liveness.probes) = (now, 0);
    }

    /// Notes that an operation was posted to the channel, or a packet of a peer's operation
    /// arrived.
    #[inline]
    pub(in crate::channel) fn note_used(&mut self, now: Instant) {
        self.liveness.used_at = now;
    }

    pub(in crate::channel) fn used_at(&self) -> Instant {
        self.liveness.used_at
    }

    /// Classifies the silence. Silence alone proves nothing: when this side was stopped for a while
    /// (a debugger, a paused virtual machine), packets of the peer may still wait to be read. So
    /// enough keep-alives must also have been left unanswered.
    pub(in crate::channel) fn silence(&self, now: Instant, profile: &Profile) -> Silence {
        let silence = now.elapsed_since(self.liveness.last_received_at);
        let probes_needed =
            (profile.peer_dead.as_ps() / profile.keep_alive.as_ps().max(1)).clamp(2, 16) - 1;
        if silence >= profile.peer_dead && u64::from(self.liveness.probes) >= probes_needed {
            Silence::Dead
        } else if silence >= profile.keep_alive {
            Silence::Long
        } else {
            Silence::Short
        }
    }

    /// Makes a keep-alive due.
    pub(in crate::channel) fn keep_alive(&mut self) {
        self.liveness.probes += 1;
        self.liveness.is_probe_due = true;
    }

    /// True once for each keep-alive that is to be sent.
    #[inline]
    pub(in crate::channel) fn take_keep_alive(&mut self) -> bool {
        core::mem::take(&mut self.liveness.is_probe_due)
    }

    /// True if a keep-alive before the last one was left unanswered.
    pub(in crate::channel) fn is_unanswered(&self) -> bool {
        self.liveness.probes & !LAST_CHANCE > 1
    }

    /// True once since the peer's last packet: the channel is to have one more keep-alive before it
    /// is retired.
    pub(in crate::channel) fn take_last_chance(&mut self) -> bool {
        let is_first = self.liveness.probes & LAST_CHANCE == 0;
        self.liveness.probes |= LAST_CHANCE;
        is_first
    }

    /// When the silence is to be checked again.
    pub(in crate::channel) fn look_at(&self, now: Instant, profile: &Profile) -> Instant {
        let at = (now + profile.keep_alive).min(self.liveness.last_received_at + profile.peer_dead);
        // A deadline in the past is replaced by a later one, or the timer would spin.
        if now.is_before(at) { at } else { now + profile.keep_alive }
    }

    /// Cancels a keep-alive that is due, when the channel ends.
    pub(in crate::channel) fn flush(&mut self) {
        self.liveness.is_probe_due = false;
    }
}
