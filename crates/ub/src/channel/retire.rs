//! The end of messages: they are reported, tried again, or released.

use super::{Channel, Timer};
use crate::api::Status;
use crate::injected_bug::InjectedBug;
use crate::message::{Body, Message, MessagePlace, Notice, Outcome};
use crate::pool::Index;
use crate::shared::Shared;
use fairway_wire::Tag;

impl Channel {
    /// Ends or retries a message of which nothing is in flight any more, if nothing else is
    /// pending.
    pub(crate) fn retire(&mut self, shared: &mut Shared, index: Index<Message>) {
        let message = &shared.messages[index];
        let lasts =
            || self.is_being_answered(index) && !shared.is_injected(InjectedBug::EndUnplaced);
        match message.attempts.outcome() {
            Outcome::Open if !message.progress.is_all_sent() => {}
            // The request has arrived; the answer ends it.
            Outcome::Open if message.awaits_answer() => self.release_message_slot(shared, index),
            Outcome::Open => {
                let (jetty, sequence) = (message.jetty, message.order.sequence());
                let is_pending = message.report.is_pending();
                if shared.messages[index].take_marks() {
                    // The answer to an ordered READ has arrived: operations that follow it may
                    // continue.
                    self.mark_executed(shared, jetty, sequence);
                }
                if is_pending {
                    shared.complete_message(index, Status::Success);
                }
                self.release(shared, index);
            }
            Outcome::Reported => self.release(shared, index),
            outcome if outcome.is_refused() && lasts() => {}
            Outcome::Failed(_) if message.is_refused_next() => {
                self.turn_into_refusal(shared, index);
            }
            Outcome::Failed(status) => self.end(shared, index, status),
            Outcome::NotReady | Outcome::TooEarly
                if shared.jetties.has_failed(message.jetty) && !message.is_notice() =>
            {
                self.end(shared, index, Status::Flushed);
            }
            Outcome::NotReady | Outcome::TooEarly => self.try_again(shared, index),
        }
    }

    /// Reports a message as failed and releases it.
    pub(crate) fn end(&mut self, shared: &mut Shared, index: Index<Message>, status: Status) {
        let message = shared.messages[index];
        if message.report.is_pending() {
            shared.complete_message(index, status);
        }
        // A target that refused the operation for good does not wait for it. It has to be notified
        // of other failures.
        let needs_notice = matches!(status, Status::ReceiverNotReady | Status::Flushed);
        if let Some(put) = shared.messages[index].open_put() {
            put.is_unnoted =
                needs_notice || matches!(status, Status::RemoteNoMailbox | Status::RemoteResources);
        }
        let is_cut_short = message.attempts.outcome() == Outcome::Failed(Status::Flushed)
            && message.is_cut_short();
        shared.messages[index].progress.set_keeps_number(is_cut_short);
        if (needs_notice && message.order.is_awaited() || is_cut_short) && self.is_open() {
            self.abandon(shared, index);
        } else {
            self.release(shared, index);
        }
    }

    /// Flushes a message of a failed Jetty of which nothing has been sent.
    pub(crate) fn cancel_unsent(&mut self, shared: &mut Shared, index: Index<Message>) {
        let message = shared.messages[index];
        if !message.report.is_pending() || message.progress.has_begun() {
            return;
        }
        if message.bypasses() {
            if self.withdraw_bypass(shared, index) {
                self.end(shared, index, Status::Flushed);
            }
            return;
        }
        match message.place {
            MessagePlace::Sending | MessagePlace::WithFlow => {
                self.delist(shared, index);
                if !shared.is_injected(InjectedBug::LoseFlushed) {
                    self.end(shared, index, Status::Flushed);
                }
                return;
            }
            MessagePlace::AwaitingSlot | MessagePlace::AwaitingReadSlot => {
                self.slots.withdraw(&mut shared.messages, index);
            }
            MessagePlace::AwaitingReceiver => self.retries.withdraw(&mut shared.messages, index),
            MessagePlace::AwaitingTurn => {
                shared.puts.stop_waiting(&mut shared.messages, index);
                return self.end(shared, index, Status::Flushed);
            }
            MessagePlace::Gated | MessagePlace::Opened => {
                shared.initiator.withdraw(&mut shared.messages, index);
                return self.end(shared, index, Status::Flushed);
            }
            _ => return,
        }
        shared.messages[index].place = MessagePlace::Unlisted;
        if !shared.is_injected(InjectedBug::LoseFlushed) {
            self.end(shared, index, Status::Flushed);
        }
    }

    /// Notifies the target, by the record of an abandoned message, not to wait for the message.
    fn abandon(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.release_slots(shared, index);
        let message = &mut shared.messages[index];
        message.give_notice(Notice::Abandoned);
        message.order.give_up();
        self.send_notice(shared, index);
    }

    /// Notifies the receiver, by the record of a put that has ended, up to which number all have
    /// ended.
    fn report_over(&mut self, shared: &mut Shared, index: Index<Message>, through: u32) {
        let message = &mut shared.messages[index];
        message.give_notice(Notice::PutsOver { through });
        message.order.clear_request();
        self.send_notice(shared, index);
    }

    fn send_notice(&mut self, shared: &mut Shared, index: Index<Message>) {
        shared.messages[index].attempts.begin_notice();
        self.enlist(shared, index);
    }

    fn try_again(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.release_slots(shared, index);
        let message = &mut shared.messages[index];
        message.restart();
        let is_early = message.attempts.reopen() == Outcome::TooEarly;
        // A put that requests order may have been sent back for that, before its mailbox was found.
        if message.is_open_put() && !(is_early && message.order.tag() != Tag::No) {
            shared.puts.judged(&shared.messages, index);
            self.call_puts(shared, index);
        }
        let message = &mut shared.messages[index];
        // A notice waits for time alone: its operation may not be listed any more.
        if is_early && !message.is_notice() {
            let (is_put, is_free) = (message.is_open_put(), message.order.tag() == Tag::No);
            let waits = is_put && shared.puts.sent_back(&mut shared.messages, index);
            if waits && is_free {
                shared.puts.wait(&mut shared.messages, index);
                return self.call_puts(shared, index);
            }
            if !shared.initiator.wait_for_order(&mut shared.messages, index) {
                return;
            }
        }
        let at = self.retries.wait(&mut shared.messages, index);
        let at = self.timers.deadline(Timer::NotReady).map_or(at, |armed| at.min(armed));
        self.arm(&mut shared.schedule, Timer::NotReady, at);
    }

    /// Releases a message that is in no list and has nothing in flight. Its record is freed as soon
    /// as it has also completed.
    pub(crate) fn release(&mut self, shared: &mut Shared, index: Index<Message>) {
        if shared.messages[index].slots.has_any() {
            self.release_slots(shared, index);
        }
        let message = &shared.messages[index];
        debug_assert!(message.place == MessagePlace::Unlisted, "a listed message was released");
        if message.attempts.was_not_ready() {
            self.retries.note_end();
        }
        if message.is_answer() {
            let (has_bytes, segment) = (message.is_read_response(), message.local.segment.number());
            self.read_ends(shared, index);
            self.inbound.end_answer();
            if has_bytes {
                shared.release(segment);
            }
        } else if let Body::Put(put) = &message.body {
            let unnoted = put.is_unnoted;
            let was_notice = message.ends_puts();
            if !was_notice && !unnoted && !shared.is_injected(InjectedBug::ForgetNoted) {
                shared.puts.note(&shared.messages, index);
            }
            let number = match was_notice {
                true => shared.puts.report_confirmed(&shared.messages, index),
                false => shared.puts.over(&mut shared.messages, index, unnoted),
            };
            self.call_puts(shared, index);
            if let Some(number) = number.filter(|_| self.is_open()) {
                return self.report_over(shared, index, number);
            }
        }
        shared.lift_bar(index);
        if shared.messages[index].report.release() {
            shared.free_message(index);
        }
    }

    /// Sends the puts of a stream that may leave now.
    fn call_puts(&mut self, shared: &mut Shared, index: Index<Message>) {
        while self.is_open()
            && let Some(next) = shared.puts.next_turn(&shared.messages, index)
        {
            // A put counts as issued at once, so that this loop ends.
            shared.puts.issue(&mut shared.messages, next);
            if shared.messages[next].channel == Some(self.index()) {
                self.enlist(shared, next);
            } else {
                shared.initiator.open(&mut shared.messages, next);
            }
        }
    }

    /// Passes the slots of a message on to messages that wait for such slots. They receive them at
    /// once: if they were only queued, others could repeatedly take the slots first.
    pub(crate) fn release_slots(&mut self, shared: &mut Shared, index: Index<Message>) {
        let message = &mut shared.messages[index];
        if let Some(slot) = message.slots.release_request() {
            self.pass_read_slot(shared, slot);
        }
        let message = &mut shared.messages[index];
        let Some(slot) = message.slots.release() else { return };
        if message.is_fetch() {
            return self.pass_read_slot(shared, slot);
        }
        self.pass_message_slot(shared, slot);
    }

    /// Passes on the slot of a message in memory order that has arrived, but waits for its answer
    /// and perhaps for its turn: the operation that it waits for may need the slot.
    fn release_message_slot(&mut self, shared: &mut Shared, index: Index<Message>) {
        let message = &mut shared.messages[index];
        if message.order.tag() == Tag::Mo
            && !message.is_fetch()
            && let Some(slot) = message.slots.release()
        {
            self.pass_message_slot(shared, slot);
        }
    }

    fn pass_message_slot(&mut self, shared: &mut Shared, slot: u8) {
        if let Some(next) = self.slots.pass(&mut shared.messages, slot) {
            self.enlist(shared, next);
        }
    }

    fn pass_read_slot(&mut self, shared: &mut Shared, slot: u8) {
        let next = self.slots.pass_read(&mut shared.messages, &shared.initiator, slot);
        if let Some(next) = next {
            self.enlist(shared, next);
        }
    }

    /// Gives one of the last slots to a waiting message that may now have one.
    pub(crate) fn grant_slot(&mut self, shared: &mut Shared, index: Index<Message>) {
        if self.slots.grant_slot(&mut shared.messages, index) {
            self.enlist(shared, index);
        }
    }
}
