//! Loads and stores that bypass the transport (UB §8.3): one packet out, one back. They take no
//! sequence number, no window and no retransmission state: a request without an answer is repeated.
//!
//! A load may be answered any number of times. A store must not be executed again when a copy of it
//! arrives late, because a newer store may have changed the bytes since. So the target records, per
//! channel, which of the last 64 numbers were stores that it has executed, as IPsec does against
//! replays (RFC 4303 §3.4.3): a number in the window is executed once, and one below the window, or
//! below what the initiator still repeats, is late and ignored. 64 is enough because no initiator
//! has more than 64 under way. A store that is given up is reported only when everything before it
//! has ended: so the next load or store of its Jetty reports that nothing so old is repeated, and
//! no copy of the old store can undo it.

mod repeat;

use self::repeat::Repeats;
use super::Channel;
use crate::answer::Answer;
use crate::api::{DropReason, LocalRange, Received, Rights, Status, Transmit};
use crate::injected_bug::InjectedBug;
use crate::list::List;
use crate::message::{Body, Message, MessagePlace};
use crate::placement::{Placement, PlacementToken, Purpose, Verdict};
use crate::pool::{Index, Pool};
use crate::shared::{Config, Schedule, Shared};
use alloc::boxed::Box;
use fairway_wire::{
    Access, BYPASS_BYTES, Bypass, BypassOperation, Instant, Msn, Operation, Packet, Priority, Psn,
    Refusal,
};

/// Most loads and stores under way on a channel.
const WINDOW: u32 = 64;

/// The state of a channel's loads and stores, as initiator and as target.
#[derive(Debug)]
pub(crate) struct BypassState {
    /// Number of the next local load or store.
    next: u32,
    /// The oldest local number that is not done.
    oldest: u32,
    /// The local loads and stores under way, by number mod 64; empty unless they were agreed on.
    pending: Box<[Option<Index<Message>>]>,
    /// When unanswered local loads and stores are repeated.
    repeats: Repeats,
    /// Local loads and stores to be sent, for the first time or again.
    sending: List<Index<Message>>,
    /// Local loads and stores that wait because 64 are under way.
    waiting: List<Index<Message>>,
    /// The highest number of a load or store received from the peer.
    highest: u32,
    /// The peer repeats nothing below this number.
    floor: u32,
    /// Bit masks over the numbers from `highest` down: stores that have arrived, and those in
    /// place.
    seen: u64,
    done: u64,
    /// Stores that could not be executed, because their memory was missing.
    failed: u64,
    /// Answers to the peer, a linked list: the first and the last.
    answers: (Option<Index<Answer>>, Option<Index<Answer>>),
    /// Set if both sides agreed on loads and stores at set-up.
    is_agreed: bool,
}

impl BypassState {
    pub(super) fn new(is_agreed: bool) -> Self {
        BypassState {
            next: 1,
            oldest: 1,
            pending: alloc::vec![None; WINDOW as usize * usize::from(is_agreed)].into_boxed_slice(),
            repeats: Repeats::new(is_agreed),
            sending: List::default(),
            waiting: List::default(),
            highest: 0,
            floor: 0,
            seen: 0,
            done: 0,
            failed: 0,
            answers: (None, None),
            is_agreed,
        }
    }

    /// Position of a store of the peer in the window; `None` if it is late.
    fn place(&mut self, number: u32) -> Option<u32> {
        let ahead = number.wrapping_sub(self.highest) as i32;
        if ahead > 0 {
            let shift = ahead as u32;
            self.seen = self.seen.checked_shl(shift).unwrap_or(0);
            self.done = self.done.checked_shl(shift).unwrap_or(0);
            self.failed = self.failed.checked_shl(shift).unwrap_or(0);
            self.highest = number;
        }
        let below = self.highest.wrapping_sub(number);
        let repeated = number.wrapping_sub(self.floor) as i32 >= 0;
        (below < WINDOW && repeated).then_some(below)
    }
}

impl BypassState {
    /// Bytes of the state of a channel on which loads and stores were agreed.
    pub(crate) const BYTES: usize = size_of::<BypassState>()
        + WINDOW as usize * (size_of::<Option<Index<Message>>>() + Repeats::RECORD_BYTES);

    /// True if nothing was ever sent or received.
    pub(super) fn is_untouched(&self) -> bool {
        self.next == 1 && (self.highest, self.floor) == (0, 0) && self.answers.0.is_none()
    }

    /// Skips numbers, as if so many loads and stores had ended.
    #[cfg(test)]
    pub(super) fn skip(&mut self, numbers: u32) {
        assert_eq!(self.next, self.oldest, "none is under way");
        self.next = self.next.wrapping_add(numbers);
        self.oldest = self.next;
    }

    #[cfg(test)]
    pub(super) fn withhold(&mut self) {
        self.is_agreed = false;
    }

    /// True if a number is free for one more load or store.
    fn has_number(&self) -> bool {
        let slot = (self.next % WINDOW) as usize;
        self.next.wrapping_sub(self.oldest) < WINDOW
            && self.pending.get(slot).is_some_and(|message| message.is_none())
    }
}

impl Channel {
    /// True if both sides agreed on loads and stores at set-up.
    pub(crate) fn may_bypass(&self) -> bool {
        self.bypass.is_agreed
    }

    #[cfg(test)]
    pub(crate) fn skip_bypass_numbers(&mut self, numbers: u32) {
        self.bypass.skip(numbers);
    }

    /// Queues a local load or store for sending.
    pub(crate) fn post_bypass(&mut self, shared: &mut Shared, index: Index<Message>) {
        shared.messages[index].place = MessagePlace::Bypassing;
        self.bypass.sending.push_back(&mut shared.messages, index);
        self.mark_urgent(&mut shared.schedule);
    }

    /// The next packet that bypasses the transport: an answer, or a local request.
    pub(crate) fn next_bypass(&mut self, shared: &mut Shared, now: Instant) -> Option<Transmit> {
        if let Some(answer) = self.pop_answer(shared) {
            return Some(answer);
        }
        loop {
            let first = self.bypass.sending.head();
            let is_repeat = first.is_some_and(|first| shared.messages[first].progress.has_begun());
            // Loads and stores that found no number free have waited longest.
            if !is_repeat
                && self.bypass.has_number()
                && let Some(next) = self.bypass.waiting.pop_front(&mut shared.messages)
            {
                self.take_number(shared, next);
                return Some(self.bypass_packet(shared, now, next));
            }
            let index = first?;
            self.bypass.sending.unlink(&mut shared.messages, index);
            let is_new = !shared.messages[index].progress.has_begun();
            if is_new && !self.take_number(shared, index) {
                shared.messages[index].place = MessagePlace::AwaitingBypass;
                self.bypass.waiting.push_back(&mut shared.messages, index);
                continue;
            }
            return Some(self.bypass_packet(shared, now, index));
        }
    }

    fn take_number(&mut self, shared: &mut Shared, index: Index<Message>) -> bool {
        if !self.bypass.has_number() {
            return false;
        }
        let number = self.bypass.next;
        let slot = (number % WINDOW) as usize;
        self.bypass.next = number.wrapping_add(1);
        self.bypass.pending[slot] = Some(index);
        self.bypass.repeats.begin(number);
        let message = &mut shared.messages[index];
        message.set_unsequenced_number(number);
        message.progress.note_sent_unsequenced();
        true
    }

    /// Ends a local load or store, and those that were waiting only for it.
    fn finish_bypass(&mut self, shared: &mut Shared, index: Index<Message>, status: Status) {
        self.finish_one_bypass(shared, index, status);
        loop {
            let oldest = self.bypass.pending[(self.bypass.oldest % WINDOW) as usize];
            let is_expired =
                |&index: &Index<Message>| shared.messages[index].place == MessagePlace::Expired;
            let Some(oldest) = oldest.filter(is_expired) else { return };
            self.finish_one_bypass(shared, oldest, Status::TimedOut);
        }
    }

    fn finish_one_bypass(&mut self, shared: &mut Shared, index: Index<Message>, status: Status) {
        self.delist_bypass(shared, index);
        let number = shared.messages[index].unsequenced().number;
        self.bypass.pending[(number % WINDOW) as usize] = None;
        while self.bypass.oldest != self.bypass.next
            && self.bypass.pending[(self.bypass.oldest % WINDOW) as usize].is_none()
        {
            self.bypass.oldest = self.bypass.oldest.wrapping_add(1);
        }
        if !self.bypass.waiting.is_empty() {
            self.mark_urgent(&mut shared.schedule);
        }
        shared.complete_message(index, status);
        self.release(shared, index);
    }

    /// Removes a load or store that was sent from the list that it is in.
    fn delist_bypass(&mut self, shared: &mut Shared, index: Index<Message>) {
        let place = &mut shared.messages[index].place;
        let list = match core::mem::replace(place, MessagePlace::Unlisted) {
            MessagePlace::Bypassing => &mut self.bypass.sending,
            MessagePlace::AwaitingAnswer => &mut self.bypass.repeats.flying,
            _ => return,
        };
        list.unlink(&mut shared.messages, index);
    }

    /// Removes a load or store that has not been sent from its list; false if it has been sent.
    pub(crate) fn withdraw_bypass(&mut self, shared: &mut Shared, index: Index<Message>) -> bool {
        let message = &mut shared.messages[index];
        let list = match message.place {
            MessagePlace::Bypassing if !message.progress.has_begun() => &mut self.bypass.sending,
            MessagePlace::AwaitingBypass => &mut self.bypass.waiting,
            MessagePlace::Stranded { .. } => {
                message.place = MessagePlace::Unlisted;
                return true;
            }
            _ => return false,
        };
        message.place = MessagePlace::Unlisted;
        list.unlink(&mut shared.messages, index);
        true
    }

    /// Drops all loads and stores of both sides when the channel ends.
    pub(crate) fn flush_bypass(&mut self, shared: &mut Shared) {
        for index in shared.answers.ever_taken() {
            if shared.answers[index].channel == Some(self.index()) {
                shared.release_answer(index);
            }
        }
        *self.bypass = BypassState::new(self.bypass.is_agreed);
    }

    // ---- packets in ----

    pub(crate) fn handle_bypass(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        bypass: &Bypass,
        received: &Received,
    ) -> Verdict {
        if !self.may_bypass() {
            return shared.counters.drop(DropReason::NotAgreed);
        }
        let path = received.route.path;
        match bypass.operation {
            BypassOperation::Load { access } => self.handle_load(shared, bypass, access, path),
            BypassOperation::Store { access } => {
                self.handle_store(shared, bypass, access, received)
            }
            BypassOperation::LoadResponse { refusal } => {
                self.handle_answer(shared, now, bypass, received, refusal)
            }
            BypassOperation::StoreDone { refusal } => {
                self.handle_answer(shared, now, bypass, received, refusal)
            }
        }
    }

    fn handle_load(
        &mut self,
        shared: &mut Shared,
        bypass: &Bypass,
        access: Access,
        path: u8,
    ) -> Verdict {
        if access.length > BYPASS_BYTES {
            return shared.counters.drop(DropReason::Malformed);
        }
        // Loads and stores share their numbers, so stores may follow after many loads.
        self.raise_floor(&shared.config, bypass.oldest);
        let _ = self.bypass.place(bypass.number);
        let mut answer = self.answer(bypass, true, path);
        match shared.segments.check(&access, Rights::READ) {
            Ok((_, gather)) => answer.gather = gather,
            Err(refusal) => {
                self.note_refused_key(shared, &Operation::Read { access });
                answer.refusal = Some(refusal);
            }
        }
        let holds = answer.refusal.is_none();
        let Some(index) = shared.answers.add(answer) else {
            return shared.counters.drop(DropReason::MessagePool);
        };
        if holds {
            shared.segments.hold(answer.gather.segment.number());
        }
        self.note_answer_due(&mut shared.answers, &mut shared.schedule, index);
        Verdict::Done
    }

    /// Notes that the peer repeats nothing below a number.
    fn raise_floor(&mut self, config: &Config, oldest: u32) {
        let is_ahead = oldest.wrapping_sub(self.bypass.floor) as i32 > 0;
        if is_ahead && !config.is_injected(InjectedBug::StoreLate) {
            self.bypass.floor = oldest;
        }
    }

    fn handle_store(
        &mut self,
        shared: &mut Shared,
        bypass: &Bypass,
        access: Access,
        received: &Received,
    ) -> Verdict {
        if access.length != received.payload || access.length > BYPASS_BYTES {
            return shared.counters.drop(DropReason::Malformed);
        }
        let answer = self.answer(bypass, false, received.route.path);
        let checked = shared.segments.check(&access, Rights::WRITE);
        self.raise_floor(&shared.config, bypass.oldest);
        let Some(place) = self.bypass.place(bypass.number) else {
            return shared.counters.drop(DropReason::Duplicate);
        };
        let bit = 1 << place;
        let again = self.bypass.seen & bit != 0 && !shared.is_injected(InjectedBug::StoreAgain);
        let pending = again && self.bypass.done & bit == 0;
        if pending {
            // The store's answer follows when its payload is in place.
            return shared.counters.drop(DropReason::Duplicate);
        }
        // A copy gets the same answer as the first one, because that answer may have been lost.
        let failed =
            self.bypass.failed & bit != 0 && !shared.is_injected(InjectedBug::ForgetUnplaced);
        let refusal = match again {
            true => failed.then_some(Refusal::Access),
            false => checked.err(),
        };
        if refusal.is_some() && !again {
            self.note_refused_key(shared, &Operation::Read { access });
        }
        let answer = Answer { refusal, ..answer };
        let Some(index) = shared.answers.add(answer) else {
            return shared.counters.drop(DropReason::MessagePool);
        };
        let target = match checked {
            Ok((_, target)) if !again => target,
            _ => {
                self.note_answer_due(&mut shared.answers, &mut shared.schedule, index);
                return Verdict::Done;
            }
        };
        self.bypass.seen |= bit;
        shared.counters.stores_done += 1;
        let token = self.bypass_token(bypass.number, Purpose::Stored(index), received.payload);
        if access.length == 0 {
            self.end_store(&mut shared.answers, &mut shared.schedule, index, token.message, None);
            return Verdict::Done;
        }
        Verdict::Place(Placement { target, token })
    }

    fn handle_answer(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        bypass: &Bypass,
        received: &Received,
        refusal: Option<Refusal>,
    ) -> Verdict {
        let pending = self.bypass.pending.get((bypass.number % WINDOW) as usize);
        let Some(index) = pending.copied().flatten() else {
            return shared.counters.drop(DropReason::NoRead);
        };
        let message = shared.messages[index];
        let is_load = matches!(message.body, Body::Load(_));
        let answers_load = matches!(bypass.operation, BypassOperation::LoadResponse { .. });
        let is_it = is_load == answers_load
            && message.unsequenced().number == bypass.number
            && message.jetty == bypass.jetty
            && message.place != MessagePlace::Placing;
        if !is_it {
            return shared.counters.drop(DropReason::NoRead);
        }
        let wanted = if is_load { message.local.length } else { 0 };
        if refusal.is_none() && received.payload != wanted {
            return shared.counters.drop(DropReason::Malformed);
        }
        if refusal.is_some() || wanted == 0 {
            let status = refusal.map_or(Status::Success, status_of);
            self.finish_bypass(shared, index, status);
            self.bypass_answered(shared, now, bypass.number, received.route.path);
            return Verdict::Done;
        }
        // A second answer must not be placed while, or after, this one is.
        self.delist_bypass(shared, index);
        shared.messages[index].place = MessagePlace::Placing;
        self.bypass_answered(shared, now, bypass.number, received.route.path);
        let token = self.bypass_token(bypass.number, Purpose::Loaded(index), wanted);
        Verdict::Place(Placement { target: message.local, token })
    }

    fn bypass_token(&self, number: u32, purpose: Purpose, bytes: u32) -> PlacementToken {
        PlacementToken {
            channel: self.id,
            psn: Psn::default(),
            message: Msn::new(number),
            purpose,
            bytes,
            ack_request: false,
            retry: false,
        }
    }

    /// Queues the answer to a store of the peer that has been executed or is refused.
    pub(crate) fn end_store(
        &mut self,
        answers: &mut Pool<Answer>,
        schedule: &mut Schedule,
        index: Index<Answer>,
        number: Msn,
        refusal: Option<Refusal>,
    ) {
        let Some(&answer) = answers.get(index) else { return };
        if answer.channel != Some(self.index()) || Msn::new(answer.number) != number {
            return;
        }
        let below = self.bypass.highest.wrapping_sub(answer.number);
        if below < WINDOW {
            self.bypass.done |= 1 << below;
            self.bypass.failed |= u64::from(refusal.is_some()) << below;
        }
        answers[index].refusal = refusal;
        self.note_answer_due(answers, schedule, index);
    }

    /// Ends a local load whose data is in place or could not be placed.
    pub(crate) fn end_load(
        &mut self,
        shared: &mut Shared,
        index: Index<Message>,
        number: Msn,
        status: Status,
    ) {
        if !self.bypass.pending.contains(&Some(index)) {
            return;
        }
        let message = shared.messages[index];
        if message.place == MessagePlace::Placing
            && Msn::new(message.unsequenced().number) == number
        {
            shared.messages[index].place = MessagePlace::Unlisted;
            self.finish_bypass(shared, index, status);
        }
    }

    // ---- answers out ----

    fn answer(&self, bypass: &Bypass, is_load: bool, path: u8) -> Answer {
        Answer {
            number: bypass.number,
            jetty: bypass.jetty,
            is_load,
            refusal: None,
            gather: LocalRange::default(),
            channel: Some(self.index()),
            path,
            next: None,
        }
    }

    fn note_answer_due(
        &mut self,
        answers: &mut Pool<Answer>,
        schedule: &mut Schedule,
        index: Index<Answer>,
    ) {
        match self.bypass.answers.1 {
            None => self.bypass.answers.0 = Some(index),
            Some(last) => answers[last].next = Some(index),
        }
        self.bypass.answers.1 = Some(index);
        self.mark_urgent(schedule);
    }

    fn pop_answer(&mut self, shared: &mut Shared) -> Option<Transmit> {
        let index = self.bypass.answers.0?;
        let answer = shared.answers[index];
        self.bypass.answers.0 = answer.next;
        if answer.next.is_none() {
            self.bypass.answers.1 = None;
        }
        shared.release_answer(index);
        let operation = if answer.is_load {
            BypassOperation::LoadResponse { refusal: answer.refusal }
        } else {
            BypassOperation::StoreDone { refusal: answer.refusal }
        };
        let (number, jetty) = (answer.number, answer.jetty);
        let packet = Packet::Bypass(Bypass { number, oldest: 0, jetty, operation });
        let priority = Priority::of(&packet, answer.gather.length);
        Some(Transmit {
            channel: self.id,
            route: self.route(&shared.config, answer.path, priority),
            packet,
            gather: answer.gather,
        })
    }
}

impl Shared {
    /// Releases an answer that has been sent, or never will be.
    fn release_answer(&mut self, index: Index<Answer>) {
        let answer = self.answers[index];
        self.answers[index].channel = None;
        self.answers.remove(index);
        if answer.is_load && answer.refusal.is_none() {
            self.release(answer.gather.segment.number());
        }
    }
}

/// Completion status of an operation that was refused for good.
pub(crate) fn status_of(refusal: Refusal) -> Status {
    match refusal {
        Refusal::ReceiverNotReady | Refusal::OutOfOrder | Refusal::Trimmed { .. } => {
            Status::ReceiverNotReady
        }
        Refusal::Access => Status::RemoteAccess,
        Refusal::Rights => Status::RemoteRights,
        Refusal::NoJetty => Status::RemoteNoJetty,
        Refusal::Length => Status::RemoteLength,
        Refusal::Operation => Status::RemoteOperation,
        Refusal::Misaligned => Status::RemoteMisaligned,
        Refusal::Resources => Status::RemoteResources,
        Refusal::NoMailbox => Status::RemoteNoMailbox,
        Refusal::Epoch => Status::RemoteEpoch,
    }
}
