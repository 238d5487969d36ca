//! The end of a channel: closed from this side, closed by the peer, or the peer is dead.

mod liveness;

use self::liveness::Liveness;
pub(super) use self::liveness::Silence;
use super::paths::PathTurn;
use super::retirement::Retirement;
use super::{Channel, Timer};
use crate::api::{DropReason, Event, Status};
use crate::injected_bug::InjectedBug;
use crate::message::{MessagePlace, Outcome};
use crate::placement::Verdict;
use crate::shared::{Schedule, Shared};
use crate::tpg::ChannelGroups;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use fairway_wire::{Ack, Close, Duration, Instant, Retire, Tag};

/// Number of times a close is sent before the channel is removed without an answer.
const CLOSES: u32 = 5;
/// Time between two closes.
const CLOSE_INTERVAL: Duration = Duration::from_ms(20);
/// How long the answer to a peer's close is repeated: longer than the peer repeats its close.
const LINGER: Duration = Duration::from_ms(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Data may flow.
    Open,
    /// The channel is dead, and its group goes on without it.
    Retired,
    /// This side has sent a close and waits for the answer.
    Closing,
    /// The peer has closed; this side only repeats its answer.
    Lingering,
    /// To be removed by the device.
    Gone,
}

/// How far a channel's shutdown has progressed, and which closes are still to be sent.
#[derive(Debug)]
pub(super) struct Lifecycle {
    state: State,
    /// Number of times the close is still to be sent.
    repeats: u32,
    /// A close, or the answer to one, is to be sent.
    is_close_due: bool,
    /// Acknowledges what arrived before the close; leaves before the close, by this path.
    last_word: Option<Box<(Ack, u8)>>,
    liveness: Liveness,
    /// Meaningful while the channel is retired.
    retirement: Retirement,
    /// A notice about another channel of the group that is to be sent.
    retire_due: Option<Retire>,
}

impl Lifecycle {
    pub(super) fn new(now: Instant) -> Lifecycle {
        Lifecycle {
            state: State::Open,
            repeats: 0,
            is_close_due: false,
            last_word: None,
            liveness: Liveness::new(now),
            retirement: Retirement::default(),
            retire_due: None,
        }
    }

    /// True if the channel is open and nothing is to be said about its end.
    pub(super) fn is_quiet(&self) -> bool {
        let says_nothing =
            !self.is_close_due && self.last_word.is_none() && self.retire_due.is_none();
        self.is_open() && says_nothing && !self.liveness.is_probing()
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Takes the close that is due, if any: `true` if it answers the peer's close.
    #[inline]
    pub(super) fn take_close(&mut self) -> Option<bool> {
        core::mem::take(&mut self.is_close_due).then_some(self.state == State::Lingering)
    }

    /// How far the channel's retirement is, if it is retired.
    pub(super) fn retirement(&self) -> Option<&Retirement> {
        (self.state == State::Retired).then_some(&self.retirement)
    }

    pub(super) fn retirement_mut(&mut self) -> Option<&mut Retirement> {
        (self.state == State::Retired).then_some(&mut self.retirement)
    }

    /// Retires the channel.
    pub(super) fn retire(&mut self, retirement: Retirement) {
        (self.state, self.retirement) = (State::Retired, retirement);
    }

    /// Ends the channel: it is to be removed by the device.
    pub(super) fn gone(&mut self) {
        self.state = State::Gone;
    }

    /// Makes a notice about another channel due.
    pub(super) fn set_retire_due(&mut self, retire: Retire) {
        self.retire_due = Some(retire);
    }

    /// Takes the notice about another channel that is due.
    #[inline]
    pub(super) fn take_retire_due(&mut self) -> Option<Retire> {
        self.retire_due.take()
    }

    /// Takes the acknowledgement that leaves before the close, and its path.
    pub(super) fn take_last_word(&mut self) -> Option<(Ack, u8)> {
        self.last_word.take().map(|last_word| *last_word)
    }
}

impl Channel {
    /// True if data may flow.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.life.is_open()
    }

    /// True if the device is to remove the channel.
    pub(crate) fn is_gone(&self) -> bool {
        self.life.state == State::Gone
    }

    /// Closes the channel from this side: pending operations are flushed.
    pub(crate) fn close(&mut self, shared: &mut Shared, now: Instant) {
        self.life.state = State::Closing;
        // Everything that an acknowledgement lets the peer report has to be in place, whichever
        // channel of the group received it.
        let draining = self.is_draining(&shared.config, &mut shared.channels);
        if draining && !shared.is_injected(InjectedBug::CloseApart) {
            shared.channels.get_mut(self.group()).is_cut_off = true;
        }
        let owes = self.acks.is_due() || self.acks.has_unacknowledged();
        if owes && !draining {
            let path = self.acks.path();
            let ack = self.take_ack(shared, now, false);
            self.life.last_word = Some(Box::new((ack, path)));
        }
        self.flush(shared, Status::Flushed);
        self.life.repeats = CLOSES;
        let path = self.choose_path(&mut shared.flows, &mut shared.random, now, 0, None);
        self.send_close(&mut shared.schedule, now, path);
        if let Some(last_word) = &self.life.last_word {
            // The close follows the acknowledgement, if the path keeps order.
            self.acks.reply_by(last_word.1);
        }
    }

    fn send_close(&mut self, schedule: &mut Schedule, now: Instant, path: u8) {
        self.life.repeats -= 1;
        self.life.is_close_due = true;
        self.acks.reply_by(path);
        self.mark_urgent(schedule);
        self.arm(schedule, Timer::Close, now + CLOSE_INTERVAL);
    }

    pub(crate) fn close_timer(&mut self, shared: &mut Shared, now: Instant) {
        match self.life.state {
            State::Closing if self.life.repeats > 0 => {
                // Successive attempts take different paths, in case one is dead.
                let path = self.paths.take_turn(PathTurn::Close);
                self.send_close(&mut shared.schedule, now, path)
            }
            State::Closing => self.closed(&mut shared.channels, &mut shared.events),
            State::Lingering => self.life.state = State::Gone,
            State::Retired => {
                self.repeat_notice();
                shared.channels.request_attention(self.index());
            }
            State::Open | State::Gone => {}
        }
    }

    /// When the channel will be freed, if it has answered its peer's close and has nothing else to
    /// do than to repeat that.
    pub(crate) fn lingers_until(&self) -> Option<Instant> {
        let has_answered = self.life.state == State::Lingering && !self.life.is_close_due;
        has_answered.then(|| self.timers.deadline(Timer::Close)).flatten()
    }

    fn closed(&mut self, channels: &mut ChannelGroups, events: &mut VecDeque<Event>) {
        self.life.state = State::Gone;
        if channels.close_one(self.group()) {
            events.push_back(Event::Closed { channel: self.leader });
        }
    }

    pub(crate) fn handle_close(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        close: &Close,
        path: u8,
    ) -> Verdict {
        // The peer never uses more than the window that it was shown.
        let ahead = close.next.distance_from(self.tp.receive().base());
        let is_outside = ahead < 0 || ahead > shared.config.limits().window_packets as i32;
        if is_outside && !shared.is_injected(InjectedBug::TrustCloses) {
            return shared.counters.drop(DropReason::BadClose);
        }
        match self.life.state {
            State::Closing if close.answer => {
                self.closed(&mut shared.channels, &mut shared.events);
                return Verdict::Done;
            }
            // Both sides closed at once: each takes the other's close as the answer.
            State::Closing => {
                self.closed(&mut shared.channels, &mut shared.events);
                self.life.state = State::Lingering;
            }
            State::Open if !close.answer => {
                self.end_by_peer(shared, now, Status::PeerClosed);
                shared.channels.end(self.leader, Status::PeerClosed);
            }
            State::Lingering if !close.answer => {}
            _ => return Verdict::Done,
        }
        self.life.is_close_due = true;
        self.acks.reply_by(path);
        self.mark_urgent(&mut shared.schedule);
        self.arm(&mut shared.schedule, Timer::Close, now + LINGER);
        Verdict::Done
    }

    pub(crate) fn peer_is_dead(&mut self, shared: &mut Shared, now: Instant) {
        self.end_by_peer(shared, now, Status::PeerDead);
        shared.channels.end(self.leader, Status::PeerDead);
    }

    /// Ends the channel because the peer closed it or another one of its group, or is dead.
    pub(crate) fn end_by_peer(&mut self, shared: &mut Shared, now: Instant, status: Status) {
        let dead = status == Status::PeerDead;
        self.life.state = if dead { State::Gone } else { State::Lingering };
        self.flush(shared, status);
        if dead {
            return;
        }
        self.life.is_close_due = true;
        let path = self.choose_path(&mut shared.flows, &mut shared.random, now, 0, None);
        self.acks.reply_by(path);
        self.mark_urgent(&mut shared.schedule);
        self.arm(&mut shared.schedule, Timer::Close, now + LINGER);
    }

    /// Ends every operation with `status` and returns everything taken from shared pools. What is
    /// kept for the group is freed when the whole group has ended ([`Shared::forget_group`]).
    pub(crate) fn flush(&mut self, shared: &mut Shared, status: Status) {
        self.release_transport(shared);
        self.forget_all_arrivals(shared);
        self.flush_bypass(shared);
        // Messages in memory order that have arrived and wait to be reported may never be executed.
        for index in shared.messages.ever_taken() {
            let message = &mut shared.messages[index];
            let ours = message.channel.is_some() && message.group() == self.group();
            let ordered = message.order.tag() == Tag::Mo && !message.is_answer();
            if ours && ordered {
                message.report.fail_unreported(status);
            }
        }
        for index in shared.messages.ever_taken() {
            // An operation that was divided ends with its parts.
            if shared.messages[index].channel != Some(self.index())
                || shared.messages[index].report.is_released()
                || shared.messages[index].place == MessagePlace::Divided
            {
                continue;
            }
            shared.initiator.withdraw(&mut shared.messages, index);
            let message = &mut shared.messages[index];
            message.place = MessagePlace::Unlisted;
            message.flow = None;
            message.progress.forget_outstanding();
            if message.attempts.outcome() == Outcome::Reported {
                self.retire(shared, index);
            } else {
                self.end(shared, index, status);
            }
        }
        shared.schedule.retry_blocked();
    }

    /// Returns what the transport of the channel has taken, and empties its lists of messages,
    /// which only order what the caller handles as a whole.
    pub(super) fn release_transport(&mut self, shared: &mut Shared) {
        self.congestion.flush();
        self.paths.flush();
        self.send.flush(&mut shared.send_blocks);
        self.tp.flush(&mut shared.bitmap_blocks);
        self.acks.flush();
        self.timers.disarm_all();
        self.life.flush();
        self.forget_flows(&mut shared.flows);
        self.slots.flush();
        self.retries.flush();
    }

    /// Drops everything that the peer had under way.
    pub(super) fn forget_all_arrivals(&mut self, shared: &mut Shared) {
        for index in shared.arrivals.ever_taken() {
            if shared.arrivals[index].channel == Some(self.index()) {
                self.forget_arrival(shared, index);
            }
        }
        for index in shared.deferred.ever_taken() {
            if shared.deferred[index].channel == Some(self.index()) {
                shared.withdraw_deferred(index);
            }
        }
    }
}
