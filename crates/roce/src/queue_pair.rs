//! A queue pair and its end.

use super::api::{
    Change, Event, Peer, PlacementToken, QueuePairConfig, Status, TokenSubject, Transport,
};
use super::flow::Flow;
use super::requester::Requester;
use super::responder::{Incoming, Responder};
use super::shared::Shared;
use super::state::QueuePairState;
use crate::work::{Receive, ReceiveQueue};
use fairway_device::Rights;
use fairway_device::pool::Index;
use fairway_wire::roce::{Bth, DEFAULT_P_KEY, Service};
use fairway_wire::{Psn, Qpn};

#[derive(Debug)]
pub(crate) struct QueuePair {
    pub(crate) number: Qpn,
    /// Its place in the device's table.
    pub(crate) index: u32,
    pub(crate) transport: Transport,
    pub(crate) domain: u32,
    pub(crate) send_queue: u32,
    pub(crate) receive_queue: u32,
    /// The receive queue, shared or the queue pair's own.
    pub(crate) receives: Index<ReceiveQueue>,
    pub(crate) shares_receives: bool,
    pub(crate) send_depth: u32,
    pub(crate) state: QueuePairState,
    /// Counts errors and resets, so that placements begun before one are recognised.
    pub(crate) life: u32,
    pub(crate) rights: Rights,
    pub(crate) p_key: u16,
    pub(crate) q_key: u32,
    pub(crate) peer: Peer,
    pub(crate) mtu: u32,
    pub(crate) established: bool,
    pub(crate) in_ready: bool,
    pub(crate) in_executing: bool,
    pub(crate) in_recalling: bool,
    /// Whether the requester, and not the responder, is first to send the next packet.
    pub(crate) request_turn: bool,
    pub(crate) flow: Flow,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
}

impl QueuePair {
    pub(crate) fn new(
        number: Qpn,
        index: u32,
        config: &QueuePairConfig,
        receives: Index<ReceiveQueue>,
        window: u32,
    ) -> QueuePair {
        QueuePair {
            number,
            index,
            transport: config.transport,
            domain: config.domain,
            send_queue: config.send_queue.number(),
            receive_queue: config.receive_queue.number(),
            receives,
            shares_receives: config.shared_receives.is_some(),
            send_depth: config.send_depth,
            state: QueuePairState::Reset,
            life: 0,
            rights: Rights::NONE,
            p_key: DEFAULT_P_KEY,
            q_key: 0,
            peer: Peer::default(),
            mtu: 1024,
            established: false,
            in_ready: false,
            in_executing: false,
            in_recalling: false,
            request_turn: false,
            flow: Flow::new(),
            requester: Requester::new(),
            responder: Responder::new(window),
        }
    }

    /// Carries out a change to `state` that has been checked, except for setting the state.
    pub(crate) fn enter(&mut self, shared: &mut Shared, state: QueuePairState, change: &Change) {
        match *change {
            Change::Reset => self.reset(shared),
            Change::Error => self.enter_error(shared),
            Change::Init { rights, p_key, q_key } => {
                (self.rights, self.p_key, self.q_key) = (rights, p_key, q_key);
            }
            Change::ReadyToReceive { peer, mtu, expected, read_depth, rnr_timer } => {
                (self.peer, self.mtu) = (peer, mtu);
                self.responder.begin(expected, read_depth, rnr_timer);
            }
            Change::ReadyToSend { first, reliability } => {
                self.requester.begin(first, &reliability);
            }
            Change::Adjust(attributes) => {
                (self.rights, self.q_key) = (attributes.rights, attributes.q_key);
                self.requester.adjust(&attributes.reliability);
                self.responder.rnr_timer = attributes.rnr_timer;
            }
            Change::Drain | Change::Resume => {}
        }
        self.state = state;
        self.note_drained(shared);
        self.mark_ready(shared);
    }

    /// Reports the end of a drain.
    pub(crate) fn note_drained(&mut self, shared: &mut Shared) {
        let requester = &mut self.requester;
        if self.state != QueuePairState::SendDrained {
            requester.draining = true;
            return;
        }
        let idle = requester.queue.head() == requester.cursor && !requester.has_begun();
        if requester.draining && idle {
            requester.draining = false;
            shared.events.push_back(Event::Drained { queue_pair: self.number });
        }
    }

    /// True until the end of a drain has been reported.
    pub(crate) fn is_draining(&self) -> bool {
        self.state == QueuePairState::SendDrained && self.requester.draining
    }

    /// Marks the queue pair as one that may have something to send.
    pub(crate) fn mark_ready(&mut self, shared: &mut Shared) {
        if !self.in_ready {
            self.in_ready = true;
            shared.ready.push(self.index);
        }
    }

    pub(crate) fn token(&self, subject: TokenSubject) -> PlacementToken {
        PlacementToken { queue_pair: self.number, life: self.life, subject }
    }

    /// The BTH of a packet to the peer.
    pub(crate) fn bth(&self, psn: Psn) -> Bth {
        Bth { destination: self.peer.queue_pair, psn, p_key: self.p_key, ..Bth::default() }
    }

    pub(crate) fn service(&self) -> Service {
        match self.transport {
            Transport::Uc => Service::Uc,
            Transport::Rc | Transport::Ud => Service::Rc,
        }
    }

    /// Reports a failure that ends the queue pair.
    pub(crate) fn fault(&mut self, shared: &mut Shared, status: Status) {
        shared.events.push_back(Event::Fault { queue_pair: self.number, status });
        self.enter_error(shared);
    }

    /// Enters the error state and flushes everything.
    pub(crate) fn enter_error(&mut self, shared: &mut Shared) {
        let entered = self.state != QueuePairState::Error;
        self.state = QueuePairState::Error;
        self.life = self.life.wrapping_add(1);
        self.flush_sends(shared, None, Status::Flushed);
        let flushed = Shared::empty_receive(self.number, Status::Flushed);
        while let Some(index) = self.unfinished_receive(shared) {
            shared.complete_receive(self.receive_queue, index, flushed);
        }
        if !self.shares_receives {
            while let Some(index) = shared.take_receive(self.receives) {
                shared.complete_receive(self.receive_queue, index, flushed);
            }
        } else if entered {
            shared.events.push_back(Event::LastReceive { queue_pair: self.number });
        }
        self.stop(shared);
    }

    /// Enters the reset state and discards everything.
    pub(crate) fn reset(&mut self, shared: &mut Shared) {
        self.state = QueuePairState::Reset;
        self.life = self.life.wrapping_add(1);
        while let Some(index) = self.requester.queue.pop_front(&mut shared.sends) {
            shared.forget_send(index);
        }
        self.requester.forget();
        while let Some(index) = self.unfinished_receive(shared) {
            shared.forget_receive(index);
        }
        if !self.shares_receives {
            while let Some(index) = shared.take_receive(self.receives) {
                shared.forget_receive(index);
            }
        }
        for queue in [self.send_queue, self.receive_queue] {
            shared.forget_completions(self.number, queue);
        }
        self.established = false;
        self.stop(shared);
    }

    /// Removes the next receive that a message has taken and not finished, in the order they were
    /// taken.
    fn unfinished_receive(&mut self, shared: &mut Shared) -> Option<Index<Receive>> {
        while let Some(index) = self.responder.pending.pop_front(&mut shared.pending) {
            let receive = shared.pending[index].receive;
            shared.pending.remove(index);
            if receive.is_some() {
                return receive;
            }
        }
        if let Incoming::Send { receive, .. } = self.responder.incoming {
            self.responder.incoming = Incoming::Nothing;
            return Some(receive);
        }
        self.responder.spare.take()
    }

    fn stop(&mut self, shared: &mut Shared) {
        self.responder.forget();
        self.responder.reorder_buffer.forget(shared);
        if self.in_executing {
            self.in_executing = false;
            shared.executing.purge(self.index);
        }
        if self.in_recalling {
            self.in_recalling = false;
            shared.recalling.purge(self.index);
        }
        self.end_flow(shared);
        shared.deadlines.remove(self.index);
    }
}
