//! The paths of a channel: what is in flight on each, and whether it works.

mod chunk;

use self::chunk::Chunk;
use super::path_set::PathSet;
use super::round_trip::smooth;
use super::{Channel, Timer};
use crate::api::Event;
use crate::counters::Counters;
use crate::flow::Flows;
use crate::list::{Links, List};
use crate::pool::Index;
use crate::random::Random;
use crate::send_window::{Sent, SentLinks};
use crate::shared::{Config, Schedule, Shared};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_policy::{ChunkRequest, LossSample, PathAck, PathChoice, PathView};
use fairway_wire::{Duration, Instant, Psn};

/// What the engine keeps of a path beside what policies see of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// PSNs sent on it and neither acknowledged nor declared lost, in the order of sending.
    flying: List<Index<Sent>>,
    /// Packets sent on it, wrapping.
    sequence: u32,
    /// The highest sequence that was acknowledged, wrapping.
    acknowledged: u32,
    /// Time-outs since something on it was acknowledged.
    timeouts: u32,
    /// When something on it was acknowledged, or that did not happen for too long.
    last_received_at: Instant,
    /// A probe has been asked for.
    probe_due: bool,
    /// A probe is out and its answer has not come.
    probed: bool,
    /// When the first of those time-outs was.
    suspect_since: Instant,
}

impl Path {
    fn new(now: Instant) -> Self {
        Path {
            flying: List::default(),
            sequence: 0,
            acknowledged: 0,
            timeouts: 0,
            last_received_at: now,
            probe_due: false,
            probed: false,
            suspect_since: now,
        }
    }
}

/// All paths of a channel, and the policy that chooses among them.
pub(super) struct Paths {
    /// What policies see of each path.
    views: Vec<PathView>,
    paths: Vec<Path>,
    /// Paths that may have something in flight: with hundreds of paths few do.
    busy: PathSet,
    usable: u32,
    /// Paths that owe a probe.
    probes_due: u32,
    /// The path of small messages.
    small: u8,
    chunk: Chunk,
    choice: Box<dyn PathChoice>,
}

impl Paths {
    /// `count` paths that work, of which small messages take `small`.
    pub(super) fn new(count: u32, small: u8, choice: Box<dyn PathChoice>, now: Instant) -> Paths {
        let view = PathView { usable: true, ..PathView::default() };
        Paths {
            views: alloc::vec![view; count as usize],
            paths: alloc::vec![Path::new(now); count as usize],
            busy: PathSet::default(),
            usable: count,
            probes_due: 0,
            small,
            chunk: Chunk::default(),
            choice,
        }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.views.len()
    }

    pub(super) fn views(&self) -> &[PathView] {
        &self.views
    }

    /// May packets be sent on a path?
    #[inline]
    pub(super) fn is_usable(&self, path: u8) -> bool {
        self.views[usize::from(path)].usable
    }

    /// The path that the policy chooses, or the next one in use that is not `avoid`.
    fn choose(&mut self, request: &ChunkRequest, avoid: Option<u8>) -> u8 {
        let choice = self.choice.choose(&self.views, request);
        let count = self.views.len();
        let usable = |path: &usize| self.views[*path].usable;
        let from_choice = (0..count).map(|step| (choice + step) % count);
        let matched = from_choice
            .clone()
            .find(|path| usable(path) && Some(*path as u8) != avoid)
            .or_else(|| from_choice.clone().find(usable));
        matched.unwrap_or(choice % count) as u8
    }

    /// Has the policy a path on which one more packet may be in flight?
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.choice.has_room(&self.views)
    }

    /// The path that small messages take.
    pub(super) fn small(&self) -> u8 {
        self.small
    }

    // ---- in flight ----

    /// A packet leaves on a path. Bytes that it takes of the window.
    #[inline]
    pub(super) fn launch(
        &mut self,
        path: u8,
        psn: Psn,
        now: Instant,
        links: &mut SentLinks<'_>,
    ) -> u32 {
        self.busy.insert(path);
        let state = &mut self.paths[usize::from(path)];
        state.sequence = state.sequence.wrapping_add(1);
        let record = links.window.record(psn, links.pool);
        record.sent_at = now;
        record.path = path;
        record.path_sequence = state.sequence;
        record.links = Links::UNLINKED;
        let bytes = u32::from(record.bytes);
        let view = &mut self.views[usize::from(path)];
        view.in_flight += 1;
        view.sent += 1;
        state.flying.push_back(links, Sent::at(psn));
        bytes
    }

    /// A packet is not in flight any more.
    #[inline]
    pub(super) fn land(&mut self, path: u8, psn: Psn, links: &mut SentLinks<'_>) {
        self.paths[usize::from(path)].flying.unlink(links, Sent::at(psn));
        self.views[usize::from(path)].in_flight -= 1;
    }

    /// The packet that has been in flight on a path for longest.
    #[inline]
    pub(super) fn oldest(&self, path: u8) -> Option<Psn> {
        self.paths[usize::from(path)].flying.head().map(Sent::psn)
    }

    /// The paths that have something in flight, and perhaps some that have not.
    pub(super) fn busy(&self) -> PathSet {
        self.busy
    }

    /// Nothing is in flight on a path.
    pub(super) fn note_idle(&mut self, path: u8) {
        self.busy.remove(path);
    }

    // ---- what acknowledgements prove ----

    /// A packet that was sent on a path has arrived.
    #[inline]
    pub(super) fn note_alive(&mut self, path: u8, now: Instant) {
        let path = &mut self.paths[usize::from(path)];
        path.timeouts = 0;
        path.last_received_at = now;
    }

    /// How many packets were sent on a path since the one with the highest sequence that was
    /// acknowledged.
    pub(super) fn sent_since(&self, path: u8) -> u32 {
        let path = &self.paths[usize::from(path)];
        path.sequence.wrapping_sub(path.acknowledged)
    }

    /// A packet of a path was acknowledged: by how much its sequence is above the highest one that
    /// was before; negative if it was overtaken.
    #[inline]
    pub(super) fn note_acknowledged(&mut self, path: u8, sequence: u32) -> i32 {
        let path = &mut self.paths[usize::from(path)];
        let ahead = sequence.wrapping_sub(path.acknowledged) as i32;
        if ahead > 0 {
            path.acknowledged = sequence;
        }
        ahead
    }

    /// By how many packets of its path a packet in flight was overtaken; negative, or zero, if it
    /// was not.
    #[inline]
    pub(super) fn overtaken(&self, path: u8, sequence: u32) -> i32 {
        self.paths[usize::from(path)].acknowledged.wrapping_sub(sequence) as i32
    }

    /// Smoothed round trip of a path; zero before the first sample.
    #[inline]
    pub(super) fn round_trip(&self, path: u8) -> Duration {
        self.views[usize::from(path)].smoothed_rtt
    }

    #[inline]
    pub(super) fn note_round_trip(&mut self, path: u8, sample: Duration) {
        let view = &mut self.views[usize::from(path)];
        let (smoothed, deviation) = smooth(view.smoothed_rtt, view.rtt_deviation, sample);
        view.smoothed_rtt = smoothed;
        view.rtt_deviation = deviation;
    }

    /// A probe has measured the round trip of a path.
    pub(super) fn note_probed(&mut self, path: u8, now: Instant, round_trip: Duration) {
        let view = &mut self.views[usize::from(path)];
        view.probed_rtt = round_trip;
        if view.in_flight == 0 {
            // Data says more, where there is any.
            self.note_round_trip(path, round_trip);
        }
        let ready = PathAck { now, rtt: Some(round_trip), ..PathAck::default() };
        self.tell(path, &ready);
    }

    /// Packets of a path came with congestion marks.
    #[inline]
    pub(super) fn note_marked(&mut self, path: u8, packets: u32) {
        self.views[usize::from(path)].marked += u64::from(packets);
    }

    /// Tells the policy what an acknowledgement says of a path.
    #[inline]
    pub(super) fn tell(&mut self, path: u8, ready: &PathAck) {
        self.choice.on_ack(usize::from(path), ready);
    }

    // ---- losses, and paths out of use ----

    /// A packet was declared lost on a path.
    #[inline]
    pub(super) fn note_lost(&mut self, path: u8) {
        self.views[usize::from(path)].lost += 1;
    }

    /// Tells the policy of losses on a path.
    pub(super) fn report_loss(&mut self, path: u8, sample: &LossSample) {
        self.choice.on_loss(usize::from(path), sample);
    }

    /// Was nothing acknowledged on a path for `silence`? True once for each such time.
    pub(super) fn take_silence(&mut self, path: u8, now: Instant, silence: Duration) -> bool {
        let path = &mut self.paths[usize::from(path)];
        let is_silent = now.elapsed_since(path.last_received_at) >= silence;
        if is_silent {
            path.last_received_at = now;
        }
        is_silent
    }

    /// A packet on a path timed out. Takes the path out of use if that has happened `limit` times
    /// while others deliver, of which the last packet that was acknowledged was sent at `newest`.
    /// True if it did.
    fn time_out(&mut self, path: u8, now: Instant, newest: Option<Instant>, limit: u32) -> bool {
        let state = &mut self.paths[usize::from(path)];
        if state.timeouts == 0 {
            state.suspect_since = now;
        }
        state.timeouts += 1;
        let since = state.suspect_since;
        let others_deliver = newest.is_some_and(|newest| newest.is_at_or_after(since));
        let view = &mut self.views[usize::from(path)];
        if state.timeouts < limit || !others_deliver || !view.usable || self.usable == 1 {
            return false;
        }
        view.usable = false;
        self.usable -= 1;
        true
    }

    /// Has every path that is out of use probed; false if there is none.
    fn probe_unusable(&mut self) -> bool {
        let mut any = false;
        for (view, path) in self.views.iter().zip(&mut self.paths) {
            if !view.usable {
                any = true;
                if !path.probe_due {
                    path.probe_due = true;
                    self.probes_due += 1;
                }
            }
        }
        any
    }

    /// The next path that is to be probed.
    #[inline]
    pub(super) fn take_probe(&mut self) -> Option<u8> {
        if self.probes_due == 0 {
            return None;
        }
        self.probes_due -= 1;
        let path = self.paths.iter().position(|path| path.probe_due)?;
        self.paths[path].probe_due = false;
        self.paths[path].probed = true;
        Some(path as u8)
    }

    /// An acknowledgement came by a path. True if that brings it back into use.
    #[inline]
    fn answered(&mut self, path: u8) -> bool {
        let state = &mut self.paths[usize::from(path)];
        let view = &mut self.views[usize::from(path)];
        if !state.probed || view.usable {
            return false;
        }
        state.probed = false;
        state.timeouts = 0;
        debug_assert!(state.flying.is_empty(), "a path out of use has nothing in flight");
        view.usable = true;
        self.usable += 1;
        true
    }

    /// The channel ends: nothing is in flight any more, and no path is probed.
    pub(super) fn flush(&mut self) {
        for (path, view) in self.paths.iter_mut().zip(&mut self.views) {
            path.flying = List::default();
            view.in_flight = 0;
        }
        self.probes_due = 0;
    }

    /// Checks the counts against how many packets of each path were found in flight.
    ///
    /// # Panics
    /// If a count is wrong: our own mistake, never a peer's.
    pub(super) fn audit(&self, in_flight: &[u32]) {
        for (path, (count, view)) in in_flight.iter().zip(&self.views).enumerate() {
            assert_eq!(*count, view.in_flight, "packets in flight on path {path}");
        }
        let usable = self.views.iter().filter(|view| view.usable).count();
        assert_eq!(usable as u32, self.usable, "usable paths");
        assert!(usable > 0, "a channel without a usable path");
    }
}

impl Channel {
    /// The path for a chunk of `bytes`, by the channel's policy, but never one that is out of use
    /// and, if there is another, never `avoid`.
    pub(crate) fn choose_path(
        &mut self,
        flows: &mut Flows,
        random: &mut Random,
        now: Instant,
        bytes: u32,
        avoid: Option<u8>,
    ) -> u8 {
        if self.paths.count() == 1 {
            return 0;
        }
        let random = random.number() as u32;
        let path = self.paths.choose(&ChunkRequest { now, bytes, random }, avoid);
        self.trace_path(flows, now, path);
        path
    }

    /// The path small messages keep to: the same one as long as it works.
    pub(crate) fn path_for_small(
        &mut self,
        flows: &mut Flows,
        random: &mut Random,
        now: Instant,
    ) -> u8 {
        if !self.paths.is_usable(self.paths.small) {
            self.paths.small = self.choose_path(flows, random, now, 0, None);
        }
        self.paths.small
    }

    /// A packet on `path` timed out; takes the path out of use, and has it probed, if that keeps
    /// happening while others deliver. True if it did.
    pub(crate) fn path_timed_out(&mut self, shared: &mut Shared, path: u8, now: Instant) -> bool {
        let limit = shared.config.profile().path_timeouts;
        if !self.paths.time_out(path, now, self.recovery.newest_acknowledged(), limit) {
            return false;
        }
        self.arm(&mut shared.schedule, Timer::PathProbe, now + shared.config.profile().path_probe);
        shared.counters.paths_down += 1;
        shared.events.push_back(Event::PathDown { channel: self.id, path });
        true
    }

    pub(crate) fn path_probe_timer(
        &mut self,
        config: &Config,
        schedule: &mut Schedule,
        now: Instant,
    ) {
        if self.paths.probe_unusable() {
            self.mark_urgent(schedule);
            self.arm(schedule, Timer::PathProbe, now + config.profile().path_probe);
        }
    }

    /// An acknowledgement came by `path`: the peer had received something on it.
    pub(crate) fn path_answered(
        &mut self,
        counters: &mut Counters,
        events: &mut VecDeque<Event>,
        schedule: &mut Schedule,
        path: u8,
    ) {
        if self.paths.answered(path) {
            counters.paths_up += 1;
            events.push_back(Event::PathUp { channel: self.id, path });
            self.mark_ready(schedule);
        }
    }
}
