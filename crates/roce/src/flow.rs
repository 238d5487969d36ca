//! Flows, for a scheduler: all packets with payload that a queue pair sends, its requests as well
//! as its answers to READs.
//!
//! A flow begins with the first such packet, and ends when the queue pair has had nothing to send
//! for [`Profile::flow_idle`](super::Profile::flow_idle). Packets without payload pass a shut gate,
//! unless the order of packets makes them wait for one with payload. So do retransmissions of
//! single packets, and answers that have to be created before a packet can be accepted; their bytes
//! are charged all the same.

use super::queue_pair::QueuePair;
use super::requester::PACKET_OVERHEAD;
use super::shared::Shared;
use fairway_device::flow::{FlowGate, Gate};
use fairway_policy::{FlowId, Share};
use fairway_wire::Instant;

#[derive(Debug)]
pub(crate) struct Flow {
    /// The queue pair's tenant, and its weight.
    pub(crate) share: Share,
    /// The application's hint for the scheduler.
    pub(crate) hint: u64,
    gate: FlowGate,
    /// True if the scheduler knows the flow.
    exists: bool,
    /// True if the flow has had something to send since the scheduler was last notified that it had
    /// nothing.
    is_busy: bool,
    /// True if the gate has been found shut because the flow has had its turn.
    is_spent: bool,
    /// Time at which a flow that is ahead of its dequeue rate tries again.
    paced_until: Option<Instant>,
    /// When the flow last sent something, or began.
    last_sent: Instant,
}

impl Flow {
    pub(crate) fn new() -> Flow {
        Flow {
            share: Share::default(),
            hint: 0,
            gate: FlowGate::new(Instant::ZERO),
            exists: false,
            is_busy: false,
            is_spent: false,
            paced_until: None,
            last_sent: Instant::ZERO,
        }
    }
}

impl QueuePair {
    fn flow_id(&self) -> FlowId {
        FlowId(self.index)
    }

    /// True if the scheduler lets the queue pair send a packet with payload. Otherwise the queue
    /// pair is woken in time, or has its next turn after the others.
    #[inline]
    pub(crate) fn passes_gate(&mut self, shared: &mut Shared, now: Instant) -> bool {
        !shared.schedule.has_scheduler() || self.check_gate(shared, now)
    }

    fn check_gate(&mut self, shared: &mut Shared, now: Instant) -> bool {
        if !self.flow.exists {
            self.begin_flow(shared, now);
        }
        if !self.flow.is_busy {
            self.flow.is_busy = true;
            self.flow.gate.begin(now);
            self.flow.last_sent = self.flow.last_sent.max(now);
        }
        match shared.schedule.check(&mut self.flow.gate, FlowId(self.index), now) {
            Gate::Open => return true,
            Gate::Spent => self.flow.is_spent = true,
            Gate::Paced(at) => {
                self.flow.paced_until = Some(at);
                shared.deadlines.wake_by(self.index, at);
            }
        }
        false
    }

    fn begin_flow(&mut self, shared: &mut Shared, now: Instant) {
        let id = self.flow_id();
        self.flow.gate = FlowGate::new(now);
        (self.flow.exists, self.flow.last_sent) = (true, now);
        shared.schedule.begin(id, self.flow.share);
        if self.flow.hint != 0 {
            shared.schedule.set_hint(id, self.flow.hint);
        }
        shared.deadlines.wake_by(self.index, now + shared.profile.flow_idle);
    }

    /// Charges the flow for a packet with `payload` bytes; one without is free.
    #[inline]
    pub(crate) fn charge_flow(&mut self, shared: &mut Shared, now: Instant, payload: u32) {
        if payload > 0 && self.flow.exists {
            self.flow.last_sent = now;
            let bytes = payload + PACKET_OVERHEAD;
            shared.schedule.charge(&mut self.flow.gate, FlowId(self.index), now, bytes);
        }
    }

    /// Begins a turn. Returns the number of bytes that the queue pair may send in it, if the
    /// scheduler counts turns.
    pub(crate) fn begin_turn(&mut self, shared: &Shared) -> Option<u32> {
        let quantum = shared.schedule.quantum(self.flow_id()).filter(|_| self.flow.exists)?;
        shared.schedule.refill(&mut self.flow.gate, FlowId(self.index));
        Some(quantum.unsigned_abs())
    }

    /// Called when the queue pair has no packet to send now. Returns true if it has one, but has
    /// had its turn. Notifies the scheduler of a flow that has nothing left to send.
    pub(crate) fn pause_flow(&mut self, shared: &Shared) -> bool {
        if core::mem::take(&mut self.flow.is_spent) {
            return true;
        }
        if self.flow.is_busy && !self.has_payload_to_send(shared) {
            self.flow.is_busy = false;
            shared.schedule.drained(self.flow_id());
        }
        false
    }

    fn has_payload_to_send(&self, shared: &Shared) -> bool {
        self.next_has_payload(shared) || self.responder.resources.unanswered().next().is_some()
    }

    /// Tries again, if the queue pair waits for its dequeue rate, because that was raised.
    pub(crate) fn retry_gate(&mut self, shared: &mut Shared) {
        if self.flow.paced_until.take().is_some() {
            self.mark_ready(shared);
        }
    }

    /// Tries again after a wait for the dequeue rate, and ends a flow that has been without
    /// anything to send for long enough. Returns the time of the next call, if there is to be one.
    pub(crate) fn wake_flow(&mut self, shared: &mut Shared, now: Instant) -> Option<Instant> {
        if self.flow.paced_until.is_some_and(|at| now.is_at_or_after(at)) {
            self.flow.paced_until = None;
            self.mark_ready(shared);
        }
        if !self.flow.exists {
            return None;
        }
        let idle = shared.profile.flow_idle;
        let mut end = self.flow.last_sent + idle;
        if now.is_at_or_after(end) {
            if !self.flow.is_busy {
                self.end_flow(shared);
                return None;
            }
            end = now + idle;
        }
        Some(self.flow.paced_until.map_or(end, |at| at.min(end)))
    }

    /// Ends the flow, if there is one.
    pub(crate) fn end_flow(&mut self, shared: &mut Shared) {
        if self.flow.exists {
            shared.schedule.end(self.flow_id());
        }
        self.flow = Flow { share: self.flow.share, hint: self.flow.hint, ..Flow::new() };
    }

    /// Begins the present flow again, for another scheduler or none.
    pub(crate) fn reintroduce_flow(&mut self, shared: &mut Shared, now: Instant) {
        let existed = self.flow.exists && shared.schedule.has_scheduler();
        self.flow = Flow { share: self.flow.share, hint: self.flow.hint, ..Flow::new() };
        if existed {
            self.begin_flow(shared, now);
        }
        self.mark_ready(shared);
    }

    /// Sets the flow's share, now and for flows that begin later.
    pub(crate) fn set_share(&mut self, shared: &Shared, share: Share) {
        self.flow.share = share;
        if self.flow.exists {
            shared.schedule.set_share(self.flow_id(), share);
        }
    }

    /// Passes the application's hint to the scheduler, now and for flows that begin later.
    pub(crate) fn set_hint(&mut self, shared: &Shared, hint: u64) {
        self.flow.hint = hint;
        if self.flow.exists {
            shared.schedule.set_hint(self.flow_id(), hint);
        }
    }
}
