//! What all channels of a NIC share: pools, Jetties, segments, queues.

use crate::api::{Completion, CompletionKind, DropReason, Event, SegmentId, Status, Verdict};
use crate::arrival::Arrival;
use crate::canary::Canary;
use crate::completion::CompletionQueue;
use crate::counters::Counters;
use crate::deadlines::Deadlines;
use crate::jetty::{Jetty, JettyState, Receive};
use crate::limits::{Limits, Profile};
use crate::list::Ring;
use crate::message::{Message, MessageKind};
use crate::pool::{NONE, Pool};
use crate::random::Random;
use crate::segment::Segments;
use crate::send_window::SendBlocks;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_wire::{Cna, JettyId};

pub(crate) struct Shared {
    pub(crate) cna: Cna,
    pub(crate) limits: Limits,
    pub(crate) profile: Profile,
    pub(crate) random: Random,
    pub(crate) counters: Counters,
    pub(crate) segments: Segments,
    pub(crate) jetties: Vec<Jetty>,
    pub(crate) receives: Pool<Receive>,
    pub(crate) queues: Vec<Option<CompletionQueue>>,
    pub(crate) messages: Pool<Message>,
    pub(crate) arrivals: Pool<Arrival>,
    pub(crate) send_blocks: SendBlocks,
    pub(crate) bitmap_blocks: Pool<u16>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) deadlines: Deadlines,
    /// Channels that have data to send.
    pub(crate) ready: Ring,
    /// Channels that owe an acknowledgement, a refusal, a probe or a close.
    pub(crate) urgent: Ring,
    /// Channels that could not send because a pool was exhausted.
    pub(crate) starved: Ring,
    /// Channels that were starved and may try again.
    pub(crate) fed: Ring,
    pub(crate) canary: Option<Canary>,
}

impl Shared {
    #[inline]
    pub(crate) fn is_planted(&self, canary: Canary) -> bool {
        cfg!(feature = "canary") && self.canary == Some(canary)
    }

    pub(crate) fn drop(&mut self, reason: DropReason) -> Verdict {
        self.counters.drops[reason as usize] += 1;
        Verdict::Drop(reason)
    }

    /// The Jetty of this number, if it is ready.
    pub(crate) fn ready_jetty(&mut self, id: JettyId) -> Option<&mut Jetty> {
        self.jetties.get_mut(id.value() as usize).filter(|jetty| jetty.state == JettyState::Ready)
    }

    /// Takes the next posted receive of a Jetty.
    pub(crate) fn take_receive(&mut self, id: JettyId) -> Option<u32> {
        let jetty = &mut self.jetties[id.value() as usize];
        let receive = jetty.receive_head;
        if receive == NONE {
            return None;
        }
        jetty.receive_head = self.receives[receive].next;
        if jetty.receive_head == NONE {
            jetty.receive_tail = NONE;
        }
        Some(receive)
    }

    /// Puts a receive that was taken but not used back in front.
    pub(crate) fn return_receive(&mut self, id: JettyId, receive: u32) {
        let jetty = &mut self.jetties[id.value() as usize];
        self.receives[receive].next = jetty.receive_head;
        jetty.receive_head = receive;
        if jetty.receive_tail == NONE {
            jetty.receive_tail = receive;
        }
    }

    /// Reports a receive and frees it.
    pub(crate) fn complete_receive(&mut self, arrival: &Arrival, completion: Completion) {
        let receive = self.receives[arrival.receive];
        self.receives.give_back(arrival.receive);
        let queue = self.jetties[arrival.jetty.value() as usize].receive_queue;
        self.queue(queue).push(Completion { id: receive.id, ..completion });
        self.let_go(receive.segment);
    }

    /// Reports an operation of ours and drops its hold on its Jetty and memory.
    pub(crate) fn complete_message(
        &mut self,
        index: u32,
        status: Status,
        channel: crate::ChannelId,
    ) {
        let message = self.messages[index];
        let jetty = &mut self.jetties[message.jetty.value() as usize];
        jetty.outstanding -= 1;
        let queue = jetty.send_queue;
        if status == Status::Success && !message.signaled {
            self.queue(queue).unreserve();
        } else {
            let kind = match message.kind {
                MessageKind::Read => CompletionKind::Read,
                MessageKind::Send | MessageKind::SendImmediate => CompletionKind::Send,
                _ => CompletionKind::Write,
            };
            self.queue(queue).push(Completion {
                id: message.id,
                jetty: message.jetty,
                status,
                kind,
                bytes: if status == Status::Success { message.local.length } else { 0 },
                immediate: None,
                channel,
                remote_jetty: message.target,
            });
        }
        self.let_go(message.local.segment.0);
    }

    /// Drops a reference to a segment, and says so if that released it.
    pub(crate) fn let_go(&mut self, segment: u32) {
        if self.segments.let_go(segment) {
            self.events.push_back(Event::SegmentReleased { segment: SegmentId(segment) });
        }
    }

    pub(crate) fn queue(&mut self, index: u16) -> &mut CompletionQueue {
        // Jetties hold their queues: a queue cannot be destroyed before them.
        self.queues[usize::from(index)].as_mut().expect("a Jetty's completion queue exists")
    }
}
