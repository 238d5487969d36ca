//! The responder: judges requests of the peer (9.7.4).
//!
//! Packets are accepted in PSN order. Each becomes a [`Pending`] record. The records are kept in
//! that order, and a record finishes only when its packet and all before it have been placed.
//! Acknowledgements, completions, READs and atomics therefore never run ahead of a placement that
//! the caller has yet to do.

use super::api::{
    Completion, CompletionKind, DropReason, Peer, Placement, RemoteAddress, Status, Target,
    TokenSubject, Transport, Verdict,
};
use super::queue_pair::QueuePair;
use super::resources::{ResourceKind, Resources, Stage};
use super::shared::{Granted, Shared};
use super::work::{Pending, Receive};
use fairway_device::list::{Links, List};
use fairway_device::pool::Index;
use fairway_device::{LocalRange, Rights, ScatterList, SegmentId};
use fairway_wire::roce::{Bth, NakCode, Operation, Packet, Reth, RnrTimer, Syndrome, Tail};
use fairway_wire::{Instant, Msn, Psn};

mod judge;
mod messages;
mod reorder_buffer;
mod turn;
mod unconnected;

pub(crate) use reorder_buffer::ReorderBuffer;

/// Old resources are removed every 2^20 PSNs, long before their PSNs recur.
const SWEEP_BITS: u32 = 20;

#[derive(Debug)]
pub(crate) struct Responder {
    /// The next PSN in sequence.
    pub(crate) expected: Psn,
    /// Number of completed messages.
    pub(crate) msn: Msn,
    pub(crate) incoming: Incoming,
    pub(crate) pending: List<Index<Pending>>,
    /// A receive taken by a message that broke off (UC); the next message uses it.
    pub(crate) spare: Option<Index<Receive>>,
    /// True if the peer was sent a refusal for a missing or delayed packet, which is not repeated
    /// until the packet arrives.
    pub(crate) reported_missing: bool,
    /// A refusal that has to be sent.
    pub(crate) nak: Option<(Psn, Syndrome)>,
    /// The status with which the queue pair ends as soon as the refusal has been sent.
    pub(crate) fatal: Option<Status>,
    /// True if packets behind the refused one have been accepted already, and have to be dropped.
    pub(crate) broken: bool,
    /// Everything up to this PSN has been placed.
    pub(crate) finished: Psn,
    /// An acknowledgement of this PSN has to be sent.
    pub(crate) ack_due: Option<Psn>,
    pub(crate) resources: Resources,
    pub(crate) rnr_timer: RnrTimer,
    pub(crate) cnp_due: bool,
    pub(crate) cnp_not_before: Option<Instant>,
    pub(crate) reorder_buffer: ReorderBuffer,
}

/// The message that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    Nothing,
    /// A message into a receive, of which `bytes` have arrived.
    Send {
        receive: Index<Receive>,
        bytes: u32,
    },
    /// A WRITE whose next packet goes to `granted`; `left` of its `length` bytes are still to come.
    Write {
        granted: Granted,
        left: u32,
        length: u32,
    },
}

/// A packet that is accepted.
struct Taken {
    target: ScatterList,
    header: ScatterList,
    psns: u32,
    last: bool,
    receive: Option<Index<Receive>>,
    /// The status with which the receive completes.
    status: Status,
    kind: CompletionKind,
    bytes: u32,
    tail: Tail,
    from: Peer,
    resource: Option<u32>,
}

impl Taken {
    const NOTHING: Taken = Taken {
        target: ScatterList::EMPTY,
        header: ScatterList::EMPTY,
        psns: 1,
        last: false,
        receive: None,
        status: Status::Success,
        kind: CompletionKind::Receive,
        bytes: 0,
        tail: Tail::Nothing,
        from: Peer { address: 0, queue_pair: fairway_wire::Qpn::new(0) },
        resource: None,
    };
}

/// Why a packet is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No receive is posted.
    NotReady,
    /// The peer has to retransmit it: later bytes for the same memory are still being placed.
    Later,
    /// The request is invalid.
    Nak(NakCode),
    /// The message does not fit into the receive, or the receive's memory may not be used: the
    /// local completion reports this, too.
    Receive(Status, NakCode),
}

impl Responder {
    pub(crate) fn new(window: u32) -> Responder {
        Responder {
            expected: Psn::new(0),
            msn: Msn::new(0),
            incoming: Incoming::Nothing,
            pending: List::default(),
            spare: None,
            reported_missing: false,
            nak: None,
            fatal: None,
            broken: false,
            finished: Psn::new(0).minus(1),
            ack_due: None,
            resources: Resources::new(),
            rnr_timer: RnrTimer::from_code(0),
            cnp_due: false,
            cnp_not_before: None,
            reorder_buffer: ReorderBuffer::new(window),
        }
    }

    pub(crate) fn begin(&mut self, expected: Psn, read_depth: u8, rnr_timer: RnrTimer) {
        self.expected = expected;
        self.finished = expected.minus(1);
        self.msn = Msn::new(0);
        self.resources.reset(read_depth);
        self.rnr_timer = rnr_timer;
    }

    /// Discards the state of all messages.
    pub(crate) fn forget(&mut self) {
        (self.reported_missing, self.nak, self.fatal, self.ack_due) = (false, None, None, None);
        (self.cnp_due, self.cnp_not_before, self.broken) = (false, None, false);
        self.incoming = Incoming::Nothing;
        self.resources.reset(0);
    }
}

impl QueuePair {
    /// Handles a request of the peer over RC.
    pub(crate) fn handle_request(
        &mut self,
        shared: &mut Shared,
        packet: &Packet,
        payload: u32,
    ) -> Verdict {
        if self.responder.fatal.is_some() {
            return shared.drop(DropReason::Refused);
        }
        let psn = packet.bth.psn;
        match psn.distance_from(self.responder.expected) {
            0 => {}
            ..0 => return self.handle_duplicate(shared, packet),
            gap @ 1.. => return self.handle_early(shared, packet, payload, gap as u32),
        }
        if shared.pending.is_exhausted() {
            return shared.drop(DropReason::PendingPool);
        }
        if self.must_wait(shared, packet, payload) {
            // The packet is requested from the peer when what it has to wait for has finished.
            self.responder.reported_missing = false;
            return self.handle_gap(shared);
        }
        match self.judge(shared, packet, payload) {
            Ok(taken) => self.take(shared, &packet.bth, &taken),
            Err(Refusal::NotReady) => {
                shared.counters.rnr_naks_sent += 1;
                self.responder.reported_missing = true;
                self.responder.nak = Some((psn, Syndrome::RnrNak(self.responder.rnr_timer)));
                self.mark_ready(shared);
                shared.drop(DropReason::NotReady)
            }
            Err(Refusal::Later) => shared.drop(DropReason::Gap),
            Err(Refusal::Nak(code)) => self.refuse(shared, psn, code, Status::Flushed),
            Err(Refusal::Receive(status, code)) => self.refuse(shared, psn, code, status),
        }
    }

    /// Sends a refusal, and ends the queue pair as soon as it has been sent.
    pub(crate) fn refuse(
        &mut self,
        shared: &mut Shared,
        psn: Psn,
        code: NakCode,
        status: Status,
    ) -> Verdict {
        self.responder.nak = Some((psn, Syndrome::Nak(code)));
        self.responder.fatal = Some(status);
        self.mark_ready(shared);
        shared.drop(DropReason::Refused)
    }

    /// Handles a packet behind a missing one (9.7.5.2.1): the peer is sent one refusal.
    fn handle_gap(&mut self, shared: &mut Shared) -> Verdict {
        shared.counters.out_of_sequence += 1;
        if !self.responder.reported_missing {
            self.responder.reported_missing = true;
            let missing = self.responder.expected;
            self.responder.nak = Some((missing, Syndrome::Nak(NakCode::PsnSequence)));
            self.mark_ready(shared);
        }
        shared.drop(DropReason::Gap)
    }

    /// Handles a request that had arrived before (9.7.5.1): the answer that the peer missed is sent
    /// again.
    fn handle_duplicate(&mut self, shared: &mut Shared, packet: &Packet) -> Verdict {
        shared.counters.duplicate_requests += 1;
        let psn = packet.bth.psn;
        match packet.operation {
            Operation::ReadRequest(reth) => self.repeat_read(shared, psn, &reth),
            Operation::CompareSwap(_) | Operation::FetchAdd(_) => {
                if let Some(resource) = self.responder.resources.find(psn)
                    && matches!(resource.kind, ResourceKind::Atomic { .. })
                    && resource.stage == Stage::Answered
                {
                    resource.repeat(0);
                }
            }
            _ => {
                let finished = self.responder.finished;
                // Packets that have not been placed yet will be acknowledged when they have been.
                if !finished.is_before(psn) {
                    let all = !self.responder.resources.any_after(psn);
                    let acknowledged = if all { finished } else { psn };
                    let due = &mut self.responder.ack_due;
                    if due.is_none_or(|due| due.is_before(acknowledged)) {
                        *due = Some(acknowledged);
                    }
                }
            }
        }
        self.mark_ready(shared);
        shared.drop(DropReason::Duplicate)
    }

    /// Executes a READ, or the rest of one, again.
    fn repeat_read(&mut self, shared: &mut Shared, psn: Psn, reth: &Reth) {
        let remote = RemoteAddress { address: reth.address, r_key: reth.r_key };
        let granted = shared.check(self.domain, &remote, reth.length, Rights::READ);
        let packets = packets(reth.length, self.mtu);
        let Some(resource) = self.responder.resources.find(psn) else { return };
        let from = psn.distance_from(resource.first).max(0) as u32;
        let begun = matches!(resource.stage, Stage::Answered | Stage::Answering { .. });
        let fits = from + packets <= resource.packets;
        if !begun || !fits || !matches!(resource.kind, ResourceKind::Read { .. }) {
            return;
        }
        match granted {
            Ok(granted) => {
                let length = reth.length;
                resource.kind = ResourceKind::Read { granted, length, from };
                resource.repeat(from);
            }
            Err(code) => {
                resource.stage = Stage::Answered;
                let _ = self.refuse(shared, psn, code, Status::Flushed);
            }
        }
    }

    pub(crate) fn next_receive(&mut self, shared: &mut Shared) -> Option<Index<Receive>> {
        if self.responder.spare.is_some() {
            // Late placements of the message that broke off must not fall into the next message.
            let free = self.responder.pending.is_empty();
            return if free { self.responder.spare.take() } else { None };
        }
        shared.take_receive(self.receives)
    }

    /// Accepts the packet.
    fn take(&mut self, shared: &mut Shared, bth: &Bth, taken: &Taken) -> Verdict {
        let responder = &mut self.responder;
        let psn = bth.psn.plus(taken.psns - 1);
        if psn.value() >> SWEEP_BITS != bth.psn.minus(1).value() >> SWEEP_BITS {
            responder.resources.forget_old(psn);
        }
        responder.reorder_buffer.release(shared, bth.psn);
        responder.expected = psn.next();
        responder.reported_missing = false;
        // An unsent refusal was for this packet, which has arrived after all.
        responder.nak = None;
        let placed = taken.target.length() == 0 && taken.header.length() == 0;
        let pending = Pending {
            links: Links::UNLINKED,
            psn,
            placed: placed && !self.is_atomic(taken.resource),
            missing: false,
            ack_request: bth.ack_request,
            first: false,
            last: taken.last,
            receive: taken.receive,
            status: taken.status,
            kind: taken.kind,
            bytes: taken.bytes,
            tail: taken.tail,
            solicited: bth.solicited,
            from: taken.from,
            resource: taken.resource,
        };
        let Some(index) = shared.pending.add(pending) else {
            // Callers have checked for room; if it is missing nevertheless, the peer can retry.
            return shared.drop(DropReason::PendingPool);
        };
        self.responder.pending.push_back(&mut shared.pending, index);
        self.absorb_early(shared);
        self.finish_pending(shared);
        if placed {
            return Verdict::Done;
        }
        let token = self.token(TokenSubject::Request(index));
        let relaxed = self.is_relaxed(shared, &taken.target);
        let target = Target { bytes: taken.target, header: taken.header, relaxed };
        Verdict::Place(Placement { target, token })
    }

    /// True if a change of these bytes may be visible before those of earlier packets.
    fn is_relaxed(&self, shared: &Shared, bytes: &ScatterList) -> bool {
        self.rights.contains(Rights::RELAXED)
            || bytes.ranges().iter().all(|range| shared.is_relaxed(range.segment))
    }

    fn is_atomic(&mut self, resource: Option<u32>) -> bool {
        let kind = self.responder.resources.get(resource).map(|resource| resource.kind);
        matches!(kind, Some(ResourceKind::Atomic { .. }))
    }

    /// Records that a packet of a request has been placed.
    pub(crate) fn request_placed(&mut self, shared: &mut Shared, index: Index<Pending>) {
        if shared.pending.get(index).is_some() {
            shared.pending[index].placed = true;
            self.finish_pending(shared);
        }
    }

    /// Finishes placed packets, in order.
    pub(crate) fn finish_pending(&mut self, shared: &mut Shared) {
        if self.responder.broken {
            return self.drop_broken(shared);
        }
        while let Some(index) = self.responder.pending.head() {
            let pending = shared.pending[index];
            if pending.missing {
                return self.end_missing(shared, index);
            }
            if !pending.placed {
                self.make_due(shared, pending.resource);
                break;
            }
            self.responder.pending.unlink(&mut shared.pending, index);
            shared.pending.remove(index);
            self.finish(shared, &pending);
        }
        self.mark_ready(shared);
    }

    /// Called when everything before this resource has been placed: an atomic becomes due for
    /// execution.
    fn make_due(&mut self, shared: &mut Shared, resource: Option<u32>) {
        let index = self.index;
        if let Some(resource) = self.responder.resources.get(resource)
            && resource.stage == Stage::Waiting
        {
            resource.stage = Stage::Due;
            if !self.in_executing {
                self.in_executing = true;
                shared.executing.push(index);
            }
        }
    }

    fn finish(&mut self, shared: &mut Shared, pending: &Pending) {
        let responder = &mut self.responder;
        responder.finished = pending.psn;
        if pending.last {
            responder.msn = responder.msn.next();
        }
        match responder.resources.get(pending.resource) {
            // The answer acknowledges the request.
            Some(resource) => resource.stage = Stage::Answering { next: 0 },
            None if pending.ack_request && self.transport == Transport::Rc => {
                responder.ack_due = Some(pending.psn);
            }
            None => {}
        }
        if let Some(receive) = pending.receive {
            shared.complete_receive(
                self.receive_queue,
                receive,
                Completion {
                    id: 0,
                    queue_pair: self.number,
                    status: pending.status,
                    kind: pending.kind,
                    bytes: pending.bytes,
                    tail: pending.tail,
                    value: 0,
                    from: pending.from,
                    solicited: pending.solicited,
                },
            );
        }
    }
}

/// Number of packets of a message of `length` bytes.
pub(crate) fn packets(length: u32, mtu: u32) -> u32 {
    length.div_ceil(mtu).max(1)
}

/// The local bytes of a range that was granted to a peer.
pub(crate) fn target(granted: &Granted, length: u32) -> ScatterList {
    match granted.segment.filter(|_| length > 0) {
        None => ScatterList::EMPTY,
        Some(segment) => {
            let segment = SegmentId::new(segment);
            LocalRange { segment, offset: granted.offset, length }.into()
        }
    }
}
