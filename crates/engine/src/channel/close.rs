//! The end of a channel: closed from here, closed by the peer, or the peer is gone.

use super::{Channel, ChannelState, Timer};
use crate::api::{DropReason, Event, Status};
use crate::canary::Canary;
use crate::message::{MessagePlace, Outcome};
use crate::placement::Verdict;
use crate::pool::NONE;
use crate::shared::Shared;
use alloc::boxed::Box;
use fairway_wire::{Ack, Close, Duration, Instant, Tag};

/// A close is said this often before the channel goes without an answer.
const CLOSES: u32 = 5;
/// Time between two closes.
const CLOSE_INTERVAL: Duration = Duration::from_ms(20);
/// How long we repeat our answer to a peer's close: longer than it keeps asking.
const LINGER: Duration = Duration::from_ms(200);

/// What is left to be said while a channel is closed from here.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// How often the close is still to be sent.
    repeats: u32,
    /// Acknowledges what came before the close, and leaves before it by this path.
    last_word: Option<Box<(Ack, u8)>>,
}

impl Closing {
    /// The acknowledgement that leaves before the close, once, and its path.
    pub(super) fn take_last_word(&mut self) -> Option<(Ack, u8)> {
        self.last_word.take().map(|last_word| *last_word)
    }
}

impl Channel {
    /// Closes from this side: what is pending is flushed.
    pub(crate) fn close(&mut self, shared: &mut Shared, now: Instant) {
        self.state = ChannelState::Closing;
        // What an acknowledgement lets the peer report has to be in place, whichever channel of the
        // group brought it.
        let draining = self.is_draining(shared);
        if draining && !shared.is_planted(Canary::CloseApart) {
            shared.channels.get_mut(self.group()).is_cut_off = true;
        }
        let owes = self.owed.due || self.owed.unacknowledged > 0;
        if owes && !draining {
            let path = self.owed.path;
            let ack = self.take_ack(shared, now, false);
            self.closing.last_word = Some(Box::new((ack, path)));
        }
        self.flush(shared, Status::Flushed);
        self.closing.repeats = CLOSES;
        self.say_close(shared, now);
        if let Some(last_word) = &self.closing.last_word {
            // Behind it, if the path keeps order.
            self.owed.path = last_word.1;
        }
    }

    fn say_close(&mut self, shared: &mut Shared, now: Instant) {
        self.closing.repeats -= 1;
        self.owed.close = true;
        // Successive tries take different paths, in case one is dead.
        self.owed.path = self.choose_path(shared, now, 0, None);
        self.mark_urgent(shared);
        self.arm(shared, Timer::Close, now + CLOSE_INTERVAL);
    }

    pub(crate) fn close_timer(&mut self, shared: &mut Shared, now: Instant) {
        match self.state {
            ChannelState::Closing if self.closing.repeats > 0 => self.say_close(shared, now),
            ChannelState::Closing => self.closed(shared),
            ChannelState::Lingering => self.state = ChannelState::Gone,
            ChannelState::Open | ChannelState::Gone => {}
        }
    }

    fn closed(&mut self, shared: &mut Shared) {
        self.state = ChannelState::Gone;
        if shared.channels.close_one(self.group()) {
            shared.events.push_back(Event::Closed { channel: self.leader });
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
        let ahead = close.next.distance_from(self.tp.receive.base());
        let is_outside = ahead < 0 || ahead > shared.limits.window_packets as i32;
        if is_outside && !shared.is_planted(Canary::TrustCloses) {
            return shared.drop(DropReason::BadClose);
        }
        match self.state {
            ChannelState::Closing if close.answer => {
                self.closed(shared);
                return Verdict::Done;
            }
            // Both closed at once: each takes the other's close as the answer.
            ChannelState::Closing => {
                self.closed(shared);
                self.state = ChannelState::Lingering;
            }
            ChannelState::Open if !close.answer => {
                self.end_by_peer(shared, now, Status::PeerClosed);
                shared.channels.ended.push((self.leader, Status::PeerClosed));
            }
            ChannelState::Lingering if !close.answer => {}
            _ => return Verdict::Done,
        }
        self.owed.close = true;
        self.owed.path = path;
        self.mark_urgent(shared);
        self.arm(shared, Timer::Close, now + LINGER);
        Verdict::Done
    }

    pub(crate) fn peer_is_dead(&mut self, shared: &mut Shared, now: Instant) {
        self.end_by_peer(shared, now, Status::PeerDead);
        shared.channels.ended.push((self.leader, Status::PeerDead));
    }

    /// This channel, or another of its group, was closed by the peer, or the peer is dead.
    pub(crate) fn end_by_peer(&mut self, shared: &mut Shared, now: Instant, status: Status) {
        let dead = status == Status::PeerDead;
        self.state = if dead { ChannelState::Gone } else { ChannelState::Lingering };
        self.flush(shared, status);
        if dead {
            return;
        }
        self.owed.close = true;
        self.owed.path = self.choose_path(shared, now, 0, None);
        self.mark_urgent(shared);
        self.arm(shared, Timer::Close, now + LINGER);
    }

    /// Ends every operation with `status` and returns everything taken from shared pools. What is
    /// kept for the group goes when the whole of it has ended ([`Shared::forget_group`]).
    pub(crate) fn flush(&mut self, shared: &mut Shared, status: Status) {
        self.lost = Default::default();
        self.lost_bytes = 0;
        self.credit.backlog = 0;
        for (path, view) in self.paths.iter_mut().zip(&mut self.views) {
            path.flying = Default::default();
            view.in_flight = 0;
        }
        self.tp.oldest = self.tp.next;
        self.tp.flight = 0;
        self.send.clear(&mut shared.send_blocks);
        self.tp.receive.clear(&mut shared.bitmap_blocks);
        self.withheld.clear();
        self.owed = Default::default();
        self.timers.disarm_all();
        self.liveness.flush();
        // The lists only order what is now flushed as a whole.
        self.sending = Default::default();
        self.forget_flows(shared);
        self.awaiting_slot = Default::default();
        self.awaiting_read_slot = Default::default();
        self.awaiting_receiver = Default::default();
        self.forget_all_arrivals(shared);
        self.flush_bypass(shared);
        // What has arrived in memory order and waits to be reported may never be executed.
        for index in 0..shared.messages.high_water() {
            let message = &mut shared.messages[index];
            let ours = message.channel != NONE && message.group() == self.group();
            let ordered = message.order.tag == Tag::Mo && !message.is_answer();
            if ours && ordered && message.parked == Some(Status::Success) {
                message.parked = Some(status);
            }
        }
        for index in 0..shared.messages.high_water() {
            if shared.messages[index].channel != self.index() || shared.messages[index].released {
                continue;
            }
            shared.initiator.withdraw(&mut shared.messages, index);
            let message = &mut shared.messages[index];
            message.place = MessagePlace::Unlisted;
            message.flow = crate::pool::NONE;
            message.outstanding = 0;
            if message.outcome == Outcome::Reported {
                self.settle(shared, index);
            } else {
                self.end(shared, index, status);
            }
        }
        self.feed_starved(shared);
    }

    /// Drops everything the peer had under way.
    fn forget_all_arrivals(&mut self, shared: &mut Shared) {
        for index in shared.arrivals.ever_taken() {
            if shared.arrivals[index].channel == self.index() {
                self.forget_arrival(shared, index);
            }
        }
        for index in shared.held.ever_taken() {
            if shared.held[index].channel == self.index() {
                shared.withdraw_held(index);
            }
        }
    }
}
