//! The paths of a channel: what is in flight on each, and whether it works.

use super::{Channel, Timer};
use crate::api::Event;
use crate::list::List;
use crate::pool::NONE;
use crate::shared::Shared;
use fairway_policy::ChunkRequest;
use fairway_wire::{Duration, Instant};

/// What the engine keeps of a path beside what policies see of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// PSNs sent on it and neither acknowledged nor declared lost, in the order of sending.
    pub(crate) flying: List,
    /// Packets sent on it, wrapping.
    pub(crate) sequence: u32,
    /// The highest sequence that was acknowledged, wrapping.
    pub(crate) acknowledged: u32,
    /// Time-outs since something on it was acknowledged.
    pub(crate) timeouts: u32,
    /// When something on it was acknowledged, or that did not happen for too long.
    pub(crate) heard_at: Instant,
    /// A probe has been asked for.
    pub(crate) probe_due: bool,
    /// A probe is out and its answer has not come.
    pub(crate) probed: bool,
    /// When the first of those time-outs was.
    pub(crate) suspect_since: Instant,
}

/// A set of a channel's paths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathSet([u64; 4]);

impl PathSet {
    pub(crate) fn insert(&mut self, path: u8) {
        self.0[usize::from(path) / 64] |= 1 << (path % 64);
    }

    pub(crate) fn clear(&mut self) {
        self.0 = [0; 4];
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// Removes the path with the lowest number and returns it.
    pub(crate) fn pop_first(&mut self) -> Option<u8> {
        let word = self.0.iter().position(|bits| *bits != 0)?;
        let bit = self.0[word].trailing_zeros();
        self.0[word] &= self.0[word] - 1;
        Some(word as u8 * 64 + bit as u8)
    }
}

impl Path {
    pub(crate) fn new(now: Instant) -> Self {
        Path {
            flying: List::default(),
            sequence: 0,
            acknowledged: 0,
            timeouts: 0,
            heard_at: now,
            probe_due: false,
            probed: false,
            suspect_since: now,
        }
    }
}

impl Channel {
    /// The path for a chunk of `bytes`, by the channel's policy, but never one that is out of use
    /// and, if there is another, never `avoid`.
    pub(crate) fn choose_path(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        bytes: u32,
        avoid: Option<u8>,
    ) -> u8 {
        if self.views.len() == 1 {
            return 0;
        }
        let random = shared.random.number() as u32;
        let choice = self.policy.path.choose(&self.views, &ChunkRequest { now, bytes, random });
        let count = self.views.len();
        let usable = |path: &usize| self.views[*path].usable;
        let from_choice = (0..count).map(|step| (choice + step) % count);
        let chosen = from_choice
            .clone()
            .find(|path| usable(path) && Some(*path as u8) != avoid)
            .or_else(|| from_choice.clone().find(usable));
        let path = chosen.unwrap_or(choice % count) as u8;
        self.trace_path(shared, now, path);
        path
    }

    /// The path small messages keep to: the same one as long as it works.
    pub(crate) fn path_for_small(&mut self, shared: &mut Shared, now: Instant) -> u8 {
        if !self.views[usize::from(self.small_path)].usable {
            self.small_path = self.choose_path(shared, now, 0, None);
        }
        self.small_path
    }

    pub(crate) fn note_path_round_trip(&mut self, path: u8, sample: Duration) {
        let view = &mut self.views[usize::from(path)];
        let (smoothed, deviation) = smooth(view.smoothed_rtt, view.rtt_deviation, sample);
        view.smoothed_rtt = smoothed;
        view.rtt_deviation = deviation;
    }

    pub(crate) fn note_round_trip(&mut self, path: u8, sample: Duration) {
        self.note_path_round_trip(path, sample);
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

    /// A packet on `path` timed out; takes the path out of use, and has it probed, if that keeps
    /// happening while others deliver. True if it did.
    pub(crate) fn path_timed_out(&mut self, shared: &mut Shared, path: u8, now: Instant) -> bool {
        let state = &mut self.paths[usize::from(path)];
        if state.timeouts == 0 {
            state.suspect_since = now;
        }
        state.timeouts += 1;
        let since = state.suspect_since;
        let others_deliver =
            self.newest_acknowledged.is_some_and(|newest| newest.is_at_or_after(since));
        if state.timeouts < shared.profile.path_timeouts
            || !others_deliver
            || !self.views[usize::from(path)].usable
            || self.usable_paths == 1
        {
            return false;
        }
        self.views[usize::from(path)].usable = false;
        self.usable_paths -= 1;
        self.arm(shared, Timer::PathProbe, now + shared.profile.path_probe);
        shared.counters.paths_down += 1;
        shared.events.push_back(Event::PathDown { channel: self.id, path });
        true
    }

    pub(crate) fn path_probe_timer(&mut self, shared: &mut Shared, now: Instant) {
        let mut down = false;
        for (view, path) in self.views.iter().zip(&mut self.paths) {
            if !view.usable {
                down = true;
                if !path.probe_due {
                    path.probe_due = true;
                    self.probes_due += 1;
                }
            }
        }
        if down {
            self.mark_urgent(shared);
            self.arm(shared, Timer::PathProbe, now + shared.profile.path_probe);
        }
    }

    /// An acknowledgement came by `path`: the peer had received something on it.
    pub(crate) fn path_answered(&mut self, shared: &mut Shared, path: u8) {
        let state = &mut self.paths[usize::from(path)];
        if !state.probed || self.views[usize::from(path)].usable {
            return;
        }
        state.probed = false;
        state.timeouts = 0;
        debug_assert!(state.flying.head() == NONE, "a path out of use has nothing in flight");
        self.views[usize::from(path)].usable = true;
        self.usable_paths += 1;
        shared.counters.paths_up += 1;
        shared.events.push_back(Event::PathUp { channel: self.id, path });
        self.mark_ready(shared);
    }
}

/// One step of the usual estimators: gains 1/8 and 1/4.
pub(crate) fn smooth(
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
