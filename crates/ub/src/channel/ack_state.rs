//! The receive side's acknowledgement state of a channel: what its next acknowledgement reports.

mod blocked;
mod carry;
mod path_register;

pub(super) use self::blocked::BlockReason;
pub(crate) use self::blocked::BlockedAck;
use self::blocked::BlockedAcks;
use self::path_register::{PathRegister, in_units};
use super::TpChannel;
use super::path_set::PathSet;
use super::trimmed::Trimmed;
use crate::injected_bug::InjectedBug;
use crate::pool::Pool;
use crate::shared::{Config, Shared};
use fairway_wire::{Ack, AckFlags, Cci, Data, Ecn, Instant, Msn, Nak, Psn, SACK_BITS, Sack};

/// The acknowledgement register: what has arrived since the last acknowledgement, and what else the
/// next one reports.
#[derive(Debug)]
pub(super) struct AckState {
    /// Data packets received since the last acknowledgement.
    unacknowledged: u32,
    is_due: bool,
    /// Path on which the newest data arrived; acknowledgements leave on it.
    path: u8,
    /// Paths by which the peer has requested an acknowledgement without sending data. Each is
    /// answered, because an acknowledgement proves that the path by which it goes works.
    answers: PathSet,
    /// Set while `TpChannel::echo` has not been echoed.
    echo: bool,
    echo_retry: bool,
    echo_at: Instant,
    marks: u8,
    /// Set if the last acknowledgement reported that packets were missing.
    has_reported_gap: bool,
    /// Set if a count, or the newest message, has changed since the last acknowledgement: the next
    /// one has to be a packet of its own.
    has_news: bool,
    /// Set if a packet has arrived whose congestion mark is to be acknowledged at once.
    is_marked: bool,
    duplicates: u8,
    /// What has arrived by each path since the last acknowledgement.
    paths: PathRegister,
    /// The worst congestion information of the data packets since the last acknowledgement.
    cci: Cci,
    /// The newest message whose first packet has arrived.
    start_known: Option<Msn>,
    /// Turn, modulo 4, that decides which part of a large window the next selective acknowledgement
    /// shows.
    map_turn: u8,
    /// PSN at which the next map of the middle of the window begins.
    map_next: Psn,
    /// NAKs due for packets of which only the header arrived.
    trimmed: Trimmed,
    /// Packets that have arrived and must not be acknowledged yet.
    blocked: BlockedAcks,
}

/// What the acknowledgement register of a channel at rest keeps: running counts, and what the next
/// acknowledgement repeats.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRest {
    path: u8,
    marks: u8,
    duplicates: u8,
    map_turn: u8,
    map_next: Psn,
    start_known: Option<Msn>,
}

impl AckState {
    /// What a channel at rest keeps of this; `None` if there is something to acknowledge.
    pub(super) fn rest(&self) -> Option<AckRest> {
        let is_owing = self.is_due || self.unacknowledged > 0 || self.echo || self.is_marked;
        let is_quiet = !is_owing
            && !self.has_reported_gap
            && self.answers.is_empty()
            && self.paths.is_empty()
            && self.cci == Cci::NONE
            && self.trimmed.is_empty()
            && self.blocked.is_empty();
        let AckState { path, marks, duplicates, map_turn, map_next, start_known, .. } = *self;
        is_quiet.then_some(AckRest { path, marks, duplicates, map_turn, map_next, start_known })
    }

    /// Continues where the register was when the channel went to rest.
    pub(super) fn resume(&mut self, rest: &AckRest) {
        (self.path, self.marks, self.duplicates) = (rest.path, rest.marks, rest.duplicates);
        (self.map_turn, self.map_next) = (rest.map_turn, rest.map_next);
        self.start_known = rest.start_known;
    }

    /// Reserves space to withhold `blocked` packets, a number that is never exceeded.
    pub(super) fn new(blocked: u32) -> AckState {
        AckState::with(BlockedAcks::new(blocked))
    }

    fn with(blocked: BlockedAcks) -> AckState {
        AckState {
            unacknowledged: 0,
            is_due: false,
            path: 0,
            answers: PathSet::default(),
            echo: false,
            echo_retry: false,
            echo_at: Instant::ZERO,
            marks: 0,
            has_reported_gap: false,
            has_news: false,
            is_marked: false,
            duplicates: 0,
            paths: PathRegister::new(),
            cci: Cci::NONE,
            start_known: None,
            map_turn: 0,
            map_next: Psn::default(),
            trimmed: Trimmed::default(),
            blocked,
        }
    }

    /// Clears the register when the channel ends: no acknowledgement is due any more.
    pub(super) fn flush(&mut self) {
        let mut blocked = core::mem::replace(&mut self.blocked, BlockedAcks::new(0));
        blocked.clear();
        *self = AckState::with(blocked);
    }

    /// The path on which control packets, which precede data, leave.
    #[inline]
    pub(super) fn path(&self) -> u8 {
        self.path
    }

    /// Sets the path on which control packets, which precede data, leave from now on.
    #[inline]
    pub(super) fn reply_by(&mut self, path: u8) {
        self.path = path;
    }

    /// Counts a received packet if it has a congestion mark, and returns whether it has.
    #[inline]
    pub(super) fn count_mark(&mut self, ecn: Ecn) -> bool {
        let is_marked = ecn == Ecn::Congested;
        self.marks = self.marks.wrapping_add(u8::from(is_marked));
        self.has_news |= is_marked;
        is_marked
    }

    /// Notes that a packet that had not arrived before has arrived by a path, and whether it is
    /// marked and to be acknowledged `at_once`. A marked packet for whose path the reports have no
    /// room always is.
    #[inline]
    pub(super) fn note_arrival(
        &mut self,
        now: Instant,
        path: u8,
        data: &Data,
        (is_marked, at_once): (bool, bool),
    ) {
        let is_noted = self.paths.note(now, path, (data.psn, data.retry), is_marked);
        self.is_marked |= at_once || is_marked && !is_noted;
    }

    /// True if a packet with a congestion mark that is to be acknowledged at once has arrived since
    /// the last call.
    #[inline]
    pub(super) fn take_mark(&mut self) -> bool {
        core::mem::take(&mut self.is_marked)
    }

    /// Notes what switches have written into a data packet.
    #[inline]
    pub(super) fn note_cci(&mut self, cci: Cci) {
        self.cci = self.cci.worst(cci);
    }

    /// Counts a packet that had arrived before.
    pub(super) fn count_duplicate(&mut self) {
        self.duplicates = self.duplicates.wrapping_add(1);
        self.has_news = true;
    }

    /// Notes that the first packet of a message has arrived, so that its other packets need not
    /// repeat it.
    #[inline]
    pub(super) fn note_start_known(&mut self, message: Msn) {
        self.start_known = Some(message);
        self.has_news = true;
    }

    /// Notes that the peer requested an acknowledgement by this path: one has to leave by it.
    pub(super) fn answer_by(&mut self, path: u8) {
        self.path = path;
        self.answers.insert(path);
    }

    /// Makes an acknowledgement leave with the next packets.
    #[inline]
    pub(super) fn hasten(&mut self) {
        self.is_due = true;
    }

    /// Counts a data packet towards the next acknowledgement, which echoes it. Returns the number
    /// of packets counted since the last acknowledgement.
    #[inline]
    pub(super) fn note_received(&mut self, now: Instant, retry: bool) -> u32 {
        self.echo = true;
        self.echo_retry = retry;
        self.echo_at = now;
        self.unacknowledged += 1;
        self.unacknowledged
    }

    /// Makes the next acknowledgement echo no packet.
    pub(super) fn forget_echo(&mut self) {
        self.echo = false;
    }

    /// True if the peer was told that packets are missing.
    #[inline]
    pub(super) fn has_reported_gap(&self) -> bool {
        self.has_reported_gap
    }

    /// True if data has arrived that is not acknowledged.
    pub(super) fn has_unacknowledged(&self) -> bool {
        self.unacknowledged > 0
    }

    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Returns the path by which the acknowledgement that was just taken leaves. Another one is due
    /// at once if the peer has also made requests by other paths, unless `answers_one` (an injected
    /// bug).
    #[inline]
    pub(super) fn take_path(&mut self, answers_one: bool) -> u8 {
        let path = self.answers.pop_first().unwrap_or(self.path);
        if answers_one {
            self.answers.clear();
        }
        self.is_due = !self.answers.is_empty();
        path
    }

    /// Requests a NAK for a packet of which only the header arrived; false if there is no room.
    pub(super) fn note_trimmed(&mut self, data: &Data) -> bool {
        self.trimmed.push(data)
    }

    /// The next NAK for a packet of which only the header arrived.
    #[inline]
    pub(super) fn take_trimmed(&mut self) -> Option<Nak> {
        self.trimmed.pop()
    }

    /// Reads and clears the acknowledgement register.
    pub(super) fn take(&mut self, shared: &mut Shared, now: Instant, tp: &TpChannel) -> Ack {
        let base = tp.receive().base();
        let mut cumulative = base.minus(1);
        if !shared.is_injected(InjectedBug::AcknowledgeBeforePlacement) {
            cumulative = self.blocked.cumulative(cumulative);
        }
        let edge = base.plus(tp.receive().recordable(&shared.bitmap_blocks));
        let (flags, echo_delay) = self.told_echo(now);
        let mut ack = Ack {
            cumulative,
            echo: tp.echo(),
            start_known: self.start_known.unwrap_or_default(),
            echo_delay,
            window: (edge.distance_from(cumulative) - 1).clamp(0, 0xFFFF) as u16,
            marks: self.marks,
            duplicates: self.duplicates,
            cci: core::mem::take(&mut self.cci),
            flags,
            sack: Sack::default(),
            paths: self.paths.take(now, cumulative, self.echo.then_some(tp.echo())),
        };
        if shared.is_injected(InjectedBug::KeepCongestion) {
            self.cci = ack.cci;
        }
        if shared.backpressure.slows_peers() {
            ack.flags = ack.flags.with(AckFlags::PRESSURE);
        }
        if self.start_known.is_some() {
            ack.flags = ack.flags.with(AckFlags::START_KNOWN);
        }
        self.has_reported_gap = tp.receive().end().distance_from(cumulative) > 1;
        if self.has_reported_gap {
            self.add_map(&shared.config, &shared.bitmap_blocks, tp, &mut ack);
            shared.counters.selective_acks_sent += 1;
        }
        shared.counters.acks_sent += 1;
        self.has_news = false;
        self.clear_due();
        ack
    }

    /// The flags by which an acknowledgement that leaves now tells of the packet that arrived last,
    /// and the time since then, in units of the echo's delay.
    fn told_echo(&self, now: Instant) -> (AckFlags, u16) {
        if !self.echo {
            return (AckFlags::none(), 0);
        }
        let retry = if self.echo_retry { AckFlags::ECHO_RETRY } else { AckFlags::none() };
        (AckFlags::ECHO.with(retry), in_units(now.elapsed_since(self.echo_at)))
    }

    /// Notes that everything that has arrived is being acknowledged.
    fn clear_due(&mut self) {
        self.is_due = false;
        self.echo = false;
        self.is_marked = false;
        self.unacknowledged = 0;
    }

    /// Adds the map of what has arrived beyond the first gap.
    fn add_map(
        &mut self,
        config: &Config,
        bitmap_blocks: &Pool<u16>,
        tp: &TpChannel,
        ack: &mut Ack,
    ) {
        let end = tp.receive().end();
        let base = self.map_base(ack.cumulative.next(), end);
        let bitmap = tp.receive().map(base, bitmap_blocks);
        ack.sack = Sack { base, highest: end.minus(1), bitmap };
        self.blocked
            .restrict(&mut ack.sack, !config.is_injected(InjectedBug::AcknowledgeBeforePlacement));
        ack.flags = ack.flags.with(AckFlags::SELECTIVE);
        if end.distance_from(ack.cumulative.next()) > config.profile().reorder_tolerance as i32 {
            ack.flags = ack.flags.with(AckFlags::BEYOND_TOLERANCE);
        }
    }

    /// Returns where the next map begins, if the first gap is at `gap`: at the gap, or, in turn,
    /// where the map shows the newest packets, or at the next stretch between those two. Without
    /// that last turn, the sender would detect packets that were lost twice only after everything
    /// before them has been repaired.
    fn map_base(&mut self, gap: Psn, end: Psn) -> Psn {
        let span = end.distance_from(gap);
        let width = SACK_BITS as i32;
        if span <= width {
            return gap;
        }
        self.map_turn = (self.map_turn + 1) % 4;
        match self.map_turn {
            1 | 3 => end.minus(SACK_BITS),
            2 if span > 2 * width => {
                let next = self.map_next;
                let inside = (width..span - width).contains(&next.distance_from(gap));
                let base = if inside { next } else { gap.plus(SACK_BITS) };
                self.map_next = base.plus(SACK_BITS);
                base
            }
            _ => gap,
        }
    }
}
