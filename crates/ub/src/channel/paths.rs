//! The paths of a channel: the packets in flight on each, and whether it works.

mod choosing;
mod chunk;

pub(super) use self::choosing::PathTurn;
use self::choosing::PathTurns;
use self::chunk::Chunk;
use super::path_set::PathSet;
use super::round_trip::smooth;
use super::{Channel, Timer};
use crate::api::Event;
use crate::counters::Counters;
use crate::flow::Flows;
use crate::injected_bug::InjectedBug;
use crate::list::List;
use crate::pool::Index;
use crate::random::Random;
use crate::send_window::{Sent, SentLinks};
use crate::shared::{Config, Schedule, Shared};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_policy::{ChunkRequest, LossSample, MemoryVisitor, PathAck, PathChoice, PathView};
use fairway_wire::{Duration, Instant, Psn};

/// The protocol's own record of a path, beside the view that policies are given: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Path {
    /// PSNs sent on the path and neither acknowledged nor declared lost, in the order of sending.
    flying: List<Index<Sent>>,
    /// Number of packets sent on the path, wrapping.
    sequence: u32,
    /// The highest sequence that was acknowledged, wrapping.
    acknowledged: u32,
    /// Time-outs since a packet on the path was acknowledged.
    timeouts: u32,
    /// When a packet on it was last acknowledged, or a missing acknowledgement was last reported.
    last_received_at: Instant,
    /// Set if a probe is to be sent.
    probe_due: bool,
    /// Set while a probe is under way without an answer.
    probed: bool,
}

const _: () = assert!(size_of::<Path>() == 32);

impl Path {
    /// Bytes of the record and of what is kept apart from it.
    pub(crate) const BYTES: usize = size_of::<Path>() + size_of::<Instant>();

    fn new(now: Instant) -> Self {
        Path {
            flying: List::default(),
            sequence: 0,
            acknowledged: 0,
            timeouts: 0,
            last_received_at: now,
            probe_due: false,
            probed: false,
        }
    }
}

/// All paths of a channel, and the policy that chooses among them.
pub(super) struct Paths {
    /// The view of each path that policies are given. Here and in `paths`, paths behind the last
    /// record are as they were when the channel was opened (`Limits::allocates_on_use`).
    views: Vec<PathView>,
    paths: Vec<Path>,
    /// By path: when the first of the time-outs in [`Path::timeouts`] happened.
    suspect_since: Vec<Instant>,
    count: u16,
    /// When the channel was opened.
    opened_at: Instant,
    /// Paths that may have packets in flight: with hundreds of paths few do.
    busy: PathSet,
    usable: u32,
    /// Number of paths on which a probe is due.
    probes_due: u32,
    /// The path of small messages.
    small: u8,
    turns: PathTurns,
    chunk: Chunk,
    choice: Box<dyn PathChoice>,
}

impl Paths {
    /// Creates `count` usable paths. Small messages take the first one, at both ends of the
    /// channel: an acknowledgement leaves by the path of the packet that it answers, so it can
    /// leave in one run with a small message that answers, too.
    ///
    /// With `on_use`, the record of a path is allocated when the path is first used.
    pub(super) fn new(
        count: u32,
        choice: Box<dyn PathChoice>,
        now: Instant,
        on_use: bool,
    ) -> Paths {
        let mut paths = Paths {
            views: Vec::new(),
            paths: Vec::new(),
            suspect_since: Vec::new(),
            count: count as u16,
            opened_at: now,
            busy: PathSet::default(),
            usable: count,
            probes_due: 0,
            small: 0,
            turns: PathTurns::default(),
            chunk: Chunk::default(),
            choice,
        };
        if !on_use {
            paths.choice.prepare();
            paths.grow(count as usize);
        }
        paths
    }

    /// The policy that chooses among the paths.
    pub(super) fn choice(&self) -> &dyn PathChoice {
        &*self.choice
    }

    /// Names the memory of a path.
    #[inline]
    pub(super) fn visit_path(&self, path: usize, visitor: &mut MemoryVisitor<'_>) {
        visitor.element(&self.views, path);
        visitor.element(&self.paths, path);
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The views of paths, without those at the end that have no record because they were never
    /// used.
    pub(super) fn views(&self) -> &[PathView] {
        &self.views
    }

    /// Allocates the records of the first `count` paths.
    #[cold]
    fn grow(&mut self, count: usize) {
        assert!(count <= self.count(), "a path below {}", self.count);
        self.views.reserve_exact(count - self.views.len());
        self.paths.reserve_exact(count - self.paths.len());
        self.suspect_since.reserve_exact(count - self.suspect_since.len());
        self.views.resize(count, PathView { usable: true, ..PathView::default() });
        self.paths.resize(count, Path::new(self.opened_at));
        self.suspect_since.resize(count, self.opened_at);
    }

    /// Allocates the records of all paths, for a policy that may look at each of them.
    #[inline]
    fn grow_whole(&mut self) {
        if self.views.len() < self.count() {
            self.grow(self.count());
        }
    }

    /// The record of a path and its view, which are allocated if they are not there.
    #[inline]
    fn record(&mut self, path: u8) -> (&mut Path, &mut PathView) {
        let path = usize::from(path);
        if path >= self.views.len() {
            self.grow(path + 1);
        }
        (&mut self.paths[path], &mut self.views[path])
    }

    /// True if no path was ever used, so that everything is as when the channel was opened.
    pub(super) fn is_untouched(&self) -> bool {
        let is_new = |view: &PathView| view.sent == 0 && view.marked == 0 && view.usable;
        self.views.iter().all(is_new) && self.is_chunk_over() && self.turns.are_untaken()
    }

    /// True if every path is in use, and nothing is due on any.
    pub(super) fn are_at_rest(&self) -> bool {
        usize::from(self.count) == self.usable as usize && self.probes_due == 0 && self.small == 0
    }

    /// True if packets may be sent on a path.
    #[inline]
    pub(super) fn is_usable(&self, path: u8) -> bool {
        self.views.get(usize::from(path)).is_none_or(|view| view.usable)
    }

    /// True if the policy has a path on which one more packet may be in flight.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.grow_whole();
        self.choice.has_room(&self.views)
    }

    // ---- in flight ----

    /// Adds a packet that leaves on a path. Returns the bytes that it takes of the window.
    #[inline(always)]
    pub(super) fn launch(
        &mut self,
        path: u8,
        psn: Psn,
        now: Instant,
        links: &mut SentLinks<'_>,
    ) -> u32 {
        self.busy.insert(path);
        let (state, view) = self.record(path);
        state.sequence = state.sequence.wrapping_add(1);
        let record = links.window.record(psn, links.pool);
        record.sent_at = now;
        record.path = path;
        record.path_sequence = state.sequence;
        let bytes = u32::from(record.bytes);
        view.in_flight += 1;
        view.sent += 1;
        state.flying.push_back(links, Sent::at(psn));
        bytes
    }

    /// Removes a packet that is not in flight any more.
    #[inline(always)]
    pub(super) fn land(&mut self, path: u8, psn: Psn, links: &mut SentLinks<'_>) {
        self.paths[usize::from(path)].flying.unlink(links, Sent::at(psn));
        self.views[usize::from(path)].in_flight -= 1;
    }

    /// The packet that has been in flight on a path for longest.
    #[inline]
    pub(super) fn oldest(&self, path: u8) -> Option<Psn> {
        self.paths.get(usize::from(path))?.flying.head().map(Sent::psn)
    }

    /// The paths that have packets in flight, and perhaps some that have none.
    pub(super) fn busy(&self) -> PathSet {
        self.busy
    }

    /// Notes that nothing is in flight on a path.
    pub(super) fn note_idle(&mut self, path: u8) {
        self.busy.remove(path);
    }

    // ---- what acknowledgements prove ----

    /// Notes that a packet that was sent on a path has arrived.
    #[inline]
    pub(super) fn note_alive(&mut self, path: u8, now: Instant) {
        let (path, _) = self.record(path);
        path.timeouts = 0;
        path.last_received_at = now;
    }

    /// Number of packets sent on a path since the acknowledged one with the highest sequence.
    pub(super) fn sent_since(&self, path: u8) -> u32 {
        let path = self.paths.get(usize::from(path));
        path.map_or(0, |path| path.sequence.wrapping_sub(path.acknowledged))
    }

    /// Notes that a packet of a path was acknowledged. Returns by how much its sequence exceeds the
    /// highest one acknowledged before; negative if the packet was overtaken.
    #[inline]
    pub(super) fn note_acknowledged(&mut self, path: u8, sequence: u32) -> i32 {
        let (path, _) = self.record(path);
        let ahead = sequence.wrapping_sub(path.acknowledged) as i32;
        if ahead > 0 {
            path.acknowledged = sequence;
        }
        ahead
    }

    /// Number of packets of its path that have overtaken a packet in flight; negative, or zero, if
    /// none has.
    #[inline]
    pub(super) fn overtaken(&self, path: u8, sequence: u32) -> i32 {
        self.paths[usize::from(path)].acknowledged.wrapping_sub(sequence) as i32
    }

    /// Smoothed round trip of a path; zero before the first sample.
    #[inline]
    pub(super) fn round_trip(&self, path: u8) -> Duration {
        self.views.get(usize::from(path)).map_or(Duration::ZERO, |view| view.smoothed_rtt)
    }

    #[inline]
    pub(super) fn note_round_trip(&mut self, path: u8, sample: Duration) {
        let (_, view) = self.record(path);
        let (smoothed, deviation) = smooth(view.smoothed_rtt, view.rtt_deviation, sample);
        view.smoothed_rtt = smoothed;
        view.rtt_deviation = deviation;
    }

    /// Notes the round trip of a path that a probe has measured.
    pub(super) fn note_probed(&mut self, path: u8, now: Instant, round_trip: Duration) {
        let (_, view) = self.record(path);
        view.probed_rtt = round_trip;
        if view.in_flight == 0 {
            // Round trips of data are more accurate, where there are any.
            self.note_round_trip(path, round_trip);
        }
        let ready = PathAck { now, rtt: Some(round_trip), ..PathAck::default() };
        self.report_ack(path, &ready);
    }

    /// Counts packets of a path that arrived with congestion marks.
    #[inline]
    pub(super) fn note_marked(&mut self, path: u8, packets: u32) {
        if packets > 0 {
            self.record(path).1.marked += u64::from(packets);
        }
    }

    /// Reports the result of an acknowledgement for a path to the policy.
    #[inline]
    pub(super) fn report_ack(&mut self, path: u8, ready: &PathAck) {
        self.choice.on_ack(usize::from(path), ready);
    }

    // ---- losses, and paths out of use ----

    /// Counts a packet that was declared lost on a path.
    #[inline]
    pub(super) fn note_lost(&mut self, path: u8) {
        self.record(path).1.lost += 1;
    }

    /// Reports losses on a path to the policy.
    pub(super) fn report_loss(&mut self, path: u8, sample: &LossSample) {
        self.choice.on_loss(usize::from(path), sample);
    }

    /// True if nothing was acknowledged on a path for `silence`, once for each such period.
    pub(super) fn take_silence(&mut self, path: u8, now: Instant, silence: Duration) -> bool {
        let (path, _) = self.record(path);
        let is_silent = now.elapsed_since(path.last_received_at) >= silence;
        if is_silent {
            path.last_received_at = now;
        }
        is_silent
    }

    /// Counts a packet that timed out on a path. Takes the path out of use if that has happened
    /// `limit` times while other paths deliver; of the packets acknowledged, the last one sent was
    /// sent at `newest`. True if the path was taken out of use.
    fn time_out(&mut self, path: u8, now: Instant, newest: Option<Instant>, limit: u32) -> bool {
        let (state, _) = self.record(path);
        state.timeouts += 1;
        let timeouts = state.timeouts;
        let since = &mut self.suspect_since[usize::from(path)];
        if timeouts == 1 {
            *since = now;
        }
        let since = *since;
        timeouts >= limit && self.take_out(path, since, newest)
    }

    /// Takes a path out of use on which nothing arrives, if others deliver what was sent after
    /// `since`: of the packets acknowledged, the last one sent was sent at `newest`. True if the
    /// path was taken out of use.
    fn take_out(&mut self, path: u8, since: Instant, newest: Option<Instant>) -> bool {
        let others_deliver = newest.is_some_and(|newest| newest.is_at_or_after(since));
        if !others_deliver || !self.is_usable(path) || self.usable == 1 {
            return false;
        }
        self.record(path).1.usable = false;
        self.usable -= 1;
        true
    }

    /// Makes a probe due on every path that is out of use; false if there is none.
    fn probe_unusable(&mut self) -> bool {
        let mut any = false;
        for path in (0..self.paths.len()).map(|path| path as u8) {
            if !self.is_usable(path) {
                any = true;
                self.probe(path);
            }
        }
        any
    }

    /// Makes a probe due on a path.
    pub(super) fn probe(&mut self, path: u8) {
        let is_due = core::mem::replace(&mut self.record(path).0.probe_due, true);
        self.probes_due += u32::from(!is_due);
    }

    /// The next path on which a probe is due.
    #[inline]
    pub(super) fn take_probe(&mut self) -> Option<u8> {
        if self.probes_due == 0 {
            return None;
        }
        self.probes_due -= 1;
        let path = self.paths.iter().position(|path| path.probe_due)?;
        self.paths[path].probe_due = false;
        self.paths[path].probed = !self.views[path].usable;
        Some(path as u8)
    }

    /// Notes an acknowledgement that arrived by a path. True if that brings the path back into use.
    #[inline]
    fn answered(&mut self, path: u8) -> bool {
        self.paths.get(usize::from(path)).is_some_and(|path| path.probed) && self.bring_back(path)
    }

    /// Brings a path back into use. False if it is in use.
    fn bring_back(&mut self, path: u8) -> bool {
        if self.is_usable(path) {
            return false;
        }
        let (state, view) = self.record(path);
        state.probed = false;
        state.timeouts = 0;
        debug_assert!(state.flying.is_empty(), "a path out of use has nothing in flight");
        view.usable = true;
        self.usable += 1;
        true
    }

    /// Forgets packets in flight and probes when the channel ends.
    pub(super) fn flush(&mut self) {
        for (path, view) in self.paths.iter_mut().zip(&mut self.views) {
            path.flying = List::default();
            view.in_flight = 0;
        }
        self.probes_due = 0;
    }

    /// Checks the counts against the packets found in flight on each path.
    ///
    /// # Panics
    /// If a count is wrong, which is always a bug of this implementation, never the peer's fault.
    pub(super) fn audit(&self, in_flight: &[u32]) {
        for (path, count) in in_flight.iter().enumerate() {
            let view = self.views.get(path).copied();
            let view = view.unwrap_or(PathView { usable: true, ..PathView::default() });
            assert_eq!(*count, view.in_flight, "packets in flight on path {path}");
            assert!(view.usable || *count == 0, "packets in flight on path {path}, out of use");
        }
        let unused = self.count() - self.views.len();
        let usable = unused + self.views.iter().filter(|view| view.usable).count();
        assert_eq!(usable as u32, self.usable, "usable paths");
        assert!(usable > 0, "a channel without a usable path");
    }
}

impl Channel {
    /// The path for a chunk of `bytes`, chosen by the channel's policy, but never one that is out
    /// of use and, if there is another, never `avoid`.
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

    /// The path that small messages take: the same one as long as it works.
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

    /// Handles a time-out of a packet on `path`; takes the path out of use, and makes a probe due,
    /// if that keeps happening while other paths deliver. True if the path was taken out of use.
    pub(crate) fn path_timed_out(&mut self, shared: &mut Shared, path: u8, now: Instant) -> bool {
        let limit = shared.config.profile().path_timeouts;
        let down = self.paths.time_out(path, now, self.recovery.newest_acknowledged(), limit);
        if shared.is_injected(InjectedBug::TrustTimedOut) {
            self.paths.note_alive(path, now);
        }
        if down {
            self.note_path_down(shared, path, now);
        }
        down
    }

    /// Takes a path out of use that left probes unanswered since `since`, if other paths deliver.
    /// What is in flight on it is resent by others.
    pub(crate) fn path_unanswered(
        &mut self,
        shared: &mut Shared,
        path: u8,
        (since, now): (Instant, Instant),
    ) {
        if !self.paths.take_out(path, since, self.recovery.newest_acknowledged()) {
            return;
        }
        self.note_path_down(shared, path, now);
        if shared.is_injected(InjectedBug::LeaveInFlight) {
            return;
        }
        let lost = (self.lose_all_on_path(shared, path), path);
        if lost.0.bytes > 0 {
            self.report_loss(&mut shared.flows, &mut shared.schedule, now, lost, false);
            self.mark_ready(&mut shared.schedule);
        }
    }

    fn note_path_down(&mut self, shared: &mut Shared, path: u8, now: Instant) {
        self.arm(&mut shared.schedule, Timer::PathProbe, now + shared.config.profile().path_probe);
        shared.counters.paths_down += 1;
        shared.events.push_back(Event::PathDown { channel: self.id, path });
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

    /// Handles an acknowledgement that arrived by `path`, which proves that the peer received a
    /// packet on it.
    pub(crate) fn path_answered(
        &mut self,
        counters: &mut Counters,
        events: &mut VecDeque<Event>,
        schedule: &mut Schedule,
        path: u8,
    ) {
        if self.paths.answered(path) {
            self.note_path_up(counters, events, schedule, path);
        }
    }

    /// Handles the answer to a round-trip probe, which proves the same.
    pub(crate) fn path_measured(&mut self, shared: &mut Shared, path: u8) {
        if self.paths.bring_back(path) {
            let Shared { counters, events, schedule, .. } = shared;
            self.note_path_up(counters, events, schedule, path);
        }
    }

    fn note_path_up(
        &mut self,
        counters: &mut Counters,
        events: &mut VecDeque<Event>,
        schedule: &mut Schedule,
        path: u8,
    ) {
        counters.paths_up += 1;
        events.push_back(Event::PathUp { channel: self.id, path });
        self.mark_ready(schedule);
    }
}
