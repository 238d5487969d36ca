//! The end of messages: reported, tried again, released.

use super::{Channel, Timer};
use crate::api::Status;
use crate::message::{MessageKind, MessagePlace, Outcome, Progress};
use crate::pool::NONE;
use crate::shared::Shared;

impl Channel {
    /// Nothing of the message is in flight any more: is it over?
    pub(crate) fn settle(&mut self, shared: &mut Shared, index: u32) {
        let message = shared.messages[index];
        match message.outcome {
            Outcome::Open if message.next_index < message.packets => {}
            Outcome::Open => match message.kind {
                // The request has arrived; the answer ends it.
                MessageKind::Read => {}
                MessageKind::ReadResponse => self.release(shared, index),
                _ => {
                    shared.complete_message(index, Status::Success, self.id);
                    self.release(shared, index);
                }
            },
            Outcome::Reported => self.release(shared, index),
            Outcome::Failed(status) => {
                self.end(shared, index, status);
            }
            Outcome::NotReady => self.try_again(shared, index),
        }
    }

    /// All of the answer to a read is in place.
    pub(crate) fn finish_read(&mut self, shared: &mut Shared, index: u32) {
        shared.complete_message(index, Status::Success, self.id);
        let message = &mut shared.messages[index];
        message.outcome = Outcome::Reported;
        self.release_slot(shared, index);
        if shared.messages[index].outstanding == 0 {
            self.release(shared, index);
        }
    }

    /// Reports a message as failed and releases it.
    pub(crate) fn end(&mut self, shared: &mut Shared, index: u32, status: Status) {
        if shared.messages[index].kind != MessageKind::ReadResponse {
            shared.complete_message(index, status, self.id);
        }
        self.release(shared, index);
    }

    fn try_again(&mut self, shared: &mut Shared, index: u32) {
        self.release_slot(shared, index);
        let message = &mut shared.messages[index];
        message.retries = message.retries.saturating_add(1);
        message.outcome = Outcome::Open;
        message.next_index = 0;
        message.learned = false;
        message.placed = 0;
        message.answer = Progress::default();
        message.place = MessagePlace::AwaitingReceiver;
        let at = message.retry_at;
        self.awaiting_receiver.push_back(&mut shared.messages, index);
        let at = if self.is_armed(Timer::NotReady) {
            at.min(self.timers[Timer::NotReady as usize])
        } else {
            at
        };
        self.arm(shared, Timer::NotReady, at);
    }

    /// Frees a message that is in no list and has nothing in flight.
    fn release(&mut self, shared: &mut Shared, index: u32) {
        self.release_slot(shared, index);
        let message = shared.messages[index];
        debug_assert!(message.place == MessagePlace::Unlisted, "a listed message was released");
        if message.kind == MessageKind::ReadResponse {
            self.responses -= 1;
            shared.let_go(message.local.segment.0);
        }
        shared.messages[index].channel = NONE;
        shared.messages.give_back(index);
    }

    /// Frees the slot a message holds, and lets the next one that waits for such a slot in.
    fn release_slot(&mut self, shared: &mut Shared, index: u32) {
        let message = &mut shared.messages[index];
        if !core::mem::take(&mut message.has_slot) {
            return;
        }
        let slot = message.slot;
        let (slots, owners, waiting) = if message.kind == MessageKind::Read {
            (&mut self.read_slots, &mut self.reads, &mut self.awaiting_read_slot)
        } else {
            (&mut self.message_slots, &mut self.slotted, &mut self.awaiting_slot)
        };
        owners[usize::from(slot)] = NONE;
        slots.give_back(slot);
        if let Some(next) = waiting.pop_front(&mut shared.messages) {
            shared.messages[next].place = MessagePlace::Sending;
            self.sending.push_back(&mut shared.messages, next);
            self.mark_ready(shared);
        }
    }

    /// Send-window blocks have come free: channels that lacked them may try again.
    pub(crate) fn feed_starved(&mut self, shared: &mut Shared) {
        while let Some(channel) = shared.starved.pop() {
            if channel == self.index() {
                self.in_starved = false;
                self.mark_ready(shared);
            } else {
                shared.fed.push(channel);
            }
        }
    }
}
