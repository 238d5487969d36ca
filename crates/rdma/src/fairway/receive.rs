//! Receives of a queue pair or of a shared queue.

use std::collections::VecDeque;

use fairway::embed::Core;
use fairway_roce::{
    Completion, CompletionKind, Event, Peer, PostError, QueuePairState, ReceiveRequest,
    ScatterList, Status, Transport,
};
use fairway_runtime::Gone;
use fairway_ub::wire::roce::Tail;
use fairway_ub::wire::{JettyId, Qpn};
use fairway_ub::{LocalRange, PostError as Refused, ReceiveRequest as EngineRequest, SegmentId};

use super::header::{HEADER_BYTES, header};
use super::immediate_tag::ImmediateTag;
use super::shared::jetty_of;
use super::tables::{PAIRS_MAX, Verbs};
use crate::{LOCAL_BITS, fairway_port};

/// A posted receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    id: u64,
    local: ScatterList,
    /// A bounce buffer in place of the receive's memory, if that has several ranges or may not be
    /// used. Bytes that the protocol places there go to the ranges ([`Memories::redirect`]).
    ///
    /// [`Memories::redirect`]: fairway_runtime::Memories::redirect
    bounce_buffer: Option<LocalRange>,
    /// The range where the protocol places the message; the protocol keeps its segment.
    range: LocalRange,
    /// The shared queue to which it was posted, or `ALONE`.
    shared: u32,
    /// The life of the queue pair (or shared queue) to which it was posted.
    life: u32,
}

impl Receive {
    /// Assigns the receive to a shared queue.
    pub(super) fn share(&mut self, queue: u32) {
        self.shared = queue;
    }
}

/// Capacity of a receive whose memory may not be used, in bytes. A longer message is refused.
const UNUSABLE_MAX: u32 = 1 << 20;

/// The value that stands for no shared receive queue.
pub(super) const ALONE: u32 = u32::MAX;

impl Verbs {
    pub(super) fn post_receive(
        &mut self,
        core: &mut Core,
        number: Qpn,
        requests: &[ReceiveRequest],
    ) -> (usize, Option<PostError>) {
        for (count, request) in requests.iter().enumerate() {
            if let Err(error) = self.post_one_receive(core, number, request) {
                return (count, Some(error));
            }
        }
        (requests.len(), None)
    }

    fn post_one_receive(
        &mut self,
        core: &mut Core,
        number: Qpn,
        request: &ReceiveRequest,
    ) -> Result<(), PostError> {
        let pair = self.pair(number).ok_or(PostError::Missing)?;
        if !pair.state.takes_receives() || pair.config.shared_receives.is_some() {
            return Err(PostError::State);
        }
        if pair.receives.len() >= pair.config.receive_depth as usize {
            return Err(PostError::Full);
        }
        let (local, life, config) = (pair.local, pair.life, pair.config);
        if pair.state == QueuePairState::Error {
            let flushed = empty(number, request.id, Status::Flushed);
            self.report(core, config.receive_queue, flushed);
            return Ok(());
        }
        let datagrams = config.transport == Transport::Ud;
        let (index, range) = match self.regions.holds(config.domain, &request.local) {
            true => self.take_receive(core, request, life, datagrams)?,
            // The queue pair fails when a message arrives for this receive, and not before.
            false => self.take_unusable(core, request, life)?,
        };
        let posting = EngineRequest { id: u64::from(life) << 32 | u64::from(index), local: range };
        match core.nic.post_receive(JettyId::new(local), &posting) {
            Ok(()) => {
                self.set(local, |pair| pair.receives.push_back(index));
                Ok(())
            }
            Err(error) => {
                self.free_receive(core, index);
                Err(match error {
                    Refused::CompletionQueueFull | Refused::TooManyReceives => PostError::Full,
                    _ => PostError::State,
                })
            }
        }
    }

    /// Returns a new record for a receive, and the range where the protocol is to place the
    /// message.
    pub(super) fn take_receive(
        &mut self,
        core: &mut Core,
        request: &ReceiveRequest,
        life: u32,
        datagrams: bool,
    ) -> Result<(u32, LocalRange), PostError> {
        let length = request.local.length();
        let body = match datagrams {
            true => request.local.slice(HEADER_BYTES, length),
            false => request.local.slice(0, length),
        };
        let (range, bounce_buffer) = match *body.ranges() {
            [] => (self.nothing, None),
            [one] => (one, None),
            _ => {
                let lent = self.regions.lend(core, body.length());
                let bounce_buffer = lent.map_err(|_| PostError::Full)?;
                core.memories.redirect(bounce_buffer.segment, Some(body));
                (bounce_buffer, Some(bounce_buffer))
            }
        };
        Ok(self.add_receive(request, life, (range, bounce_buffer)))
    }

    /// Returns a record for a receive whose memory may not be used: the bytes of its message are
    /// placed nowhere, and the message is refused.
    pub(super) fn take_unusable(
        &mut self,
        core: &mut Core,
        request: &ReceiveRequest,
        life: u32,
    ) -> Result<(u32, LocalRange), PostError> {
        let length = request.local.length().min(UNUSABLE_MAX);
        let bounce_buffer = self.regions.lend(core, length).map_err(|_| PostError::Full)?;
        core.memories.redirect(bounce_buffer.segment, Some(ScatterList::EMPTY));
        Ok(self.add_receive(request, life, (bounce_buffer, Some(bounce_buffer))))
    }

    fn add_receive(
        &mut self,
        request: &ReceiveRequest,
        life: u32,
        (range, bounce_buffer): (LocalRange, Option<LocalRange>),
    ) -> (u32, LocalRange) {
        let (id, local) = (request.id, request.local);
        let receive = Receive { id, local, bounce_buffer, range, shared: ALONE, life };
        let index = match self.spare_receives.pop() {
            Some(index) => {
                self.receives[index as usize] = receive;
                index
            }
            None => {
                self.receives.push(receive);
                self.receives.len() as u32 - 1
            }
        };
        (index, range)
    }

    pub(super) fn free_receive(&mut self, core: &mut Core, index: u32) -> Receive {
        let receive = self.receives[index as usize];
        // A late completion must not be mistaken for one of the receive that uses the record next.
        self.receives[index as usize].life = 0;
        if let Some(bounce_buffer) = &receive.bounce_buffer {
            core.memories.redirect(bounce_buffer.segment, None);
            self.regions.take_back(core, bounce_buffer);
        }
        self.spare_receives.push(index);
        receive
    }

    /// Handles a received message, which has been placed.
    pub(super) fn received(&mut self, core: &mut Core, ended: &fairway_ub::Completion) {
        let (life, index) = ((ended.id >> 32) as u32, ended.id as u32);
        let Some(record) = self.receives.get(index as usize).filter(|it| it.life == life) else {
            return;
        };
        let record = *record;
        let local = ended.jetty.value();
        if record.shared != ALONE {
            self.take_from_shared(record.shared, index);
        }
        let Some(pair) = self.pairs.get_mut(local as usize).and_then(Option::as_deref_mut) else {
            // The receive was taken for a queue pair that has been removed.
            self.free_receive(core, index);
            return;
        };
        let (config, number) = (pair.config, pair.number);
        if record.shared == ALONE {
            remove(&mut pair.receives, index);
        }
        if ended.status == fairway_ub::Status::LocalMemory {
            return self.fail_receive(core, local, index);
        }
        let fits = self.fits(local, &record, ended);
        if ended.status != fairway_ub::Status::Success || !fits {
            self.free_receive(core, index);
            let status = if fits { Status::Flushed } else { Status::LocalLength };
            return self.report(core, config.receive_queue, empty(number, record.id, status));
        }
        let datagrams = config.transport == Transport::Ud;
        let before = if datagrams { HEADER_BYTES } else { 0 };
        let (tag, solicited) = ImmediateTag::decode(ended.immediate.unwrap_or_default());
        // A WRITE with immediate data leaves the memory of the receive that it consumes unchanged.
        let placed = if matches!(tag, ImmediateTag::Write(_)) { 0 } else { ended.bytes };
        // Memory to which no byte is written is not checked, as with adapters.
        if before + placed > 0 && !self.regions.holds(config.domain, &record.local) {
            // The memory was deregistered after the receive was posted: the bytes were placed
            // nowhere.
            return self.fail_receive(core, local, index);
        }
        let Ok(from) = self.arrange(core, (local, &record), ended) else {
            return self.fail_receive(core, local, index);
        };
        self.free_receive(core, index);
        let completion = Completion {
            id: record.id,
            queue_pair: number,
            status: Status::Success,
            kind: tag.kind(),
            bytes: ended.bytes + before,
            tail: tag.tail(),
            value: 0,
            from,
            solicited,
        };
        self.note_established(local);
        self.report(core, config.receive_queue, completion);
    }

    /// Writes the header of a datagram in front of it. Returns the sender of the message.
    fn arrange(
        &mut self,
        core: &Core,
        (local, record): (u32, &Receive),
        ended: &fairway_ub::Completion,
    ) -> Result<Peer, Gone> {
        let pair = self.pairs[local as usize].as_deref();
        if !pair.is_some_and(|pair| pair.config.transport == Transport::Ud) {
            return Ok(pair.map_or(Peer::default(), |pair| pair.peer));
        }
        if record.shared != ALONE {
            make_room(core, &record.local, ended.bytes)?;
        }
        let from = self.sender(core, ended);
        self.fill_header(core, &record.local, from, ended.bytes)?;
        Ok(from)
    }

    /// Fails a receive with a message whose memory may not be used, or is gone.
    fn fail_receive(&mut self, core: &mut Core, local: u32, index: u32) {
        let receive = self.free_receive(core, index);
        let Some(pair) = self.pairs[local as usize].as_deref() else { return };
        let (number, queue) = (pair.number, pair.config.receive_queue);
        let status = Status::LocalProtection;
        self.report(core, queue, empty(number, receive.id, status));
        self.fail(core, local, status);
    }

    /// True unless a message was too long for the receive. Until a datagram arrives, it is unknown
    /// that a shared receive needs room for its header in front.
    fn fits(&self, local: u32, record: &Receive, ended: &fairway_ub::Completion) -> bool {
        let pair = self.pairs.get(local as usize).and_then(Option::as_deref);
        let datagrams = pair.is_some_and(|pair| pair.config.transport == Transport::Ud);
        let length = u64::from(ended.bytes) + u64::from(HEADER_BYTES);
        match ended.status {
            fairway_ub::Status::Success => !datagrams || length <= u64::from(record.local.length()),
            status => status != fairway_ub::Status::RemoteLength,
        }
    }

    /// Looks for queue pairs that a WRITE, READ or atomic has reached before they could send.
    pub(super) fn note_accesses(&mut self, core: &mut Core) {
        if !core.nic.take_first_accesses() {
            return;
        }
        let accessed = |&mut local: &mut u32| core.nic.is_accessed(JettyId::new(local));
        let accessed: Vec<u32> = self.unaccessed.extract_if(.., accessed).collect();
        accessed.into_iter().for_each(|local| self.note_established(local));
    }

    /// Records that the first request arrived before the queue pair could send.
    fn note_established(&mut self, local: u32) {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
        if pair.state == QueuePairState::ReadyToReceive && !pair.established {
            pair.established = true;
            let queue_pair = pair.number;
            self.event(Event::Established { queue_pair });
        }
    }

    /// Returns the sender of a datagram.
    fn sender(&mut self, core: &Core, ended: &fairway_ub::Completion) -> Peer {
        let Some(peer) = core.peer_of(ended.channel) else { return Peer::default() };
        let address = peer.address();
        let slot = u32::from(address.port().wrapping_sub(fairway_port(0)) & 0xff);
        let number = slot << LOCAL_BITS | ended.remote_jetty.value() & (PAIRS_MAX - 1);
        self.addresses.keep_sender(address.ip());
        Peer { address: self.addresses.number_of(address.ip()), queue_pair: Qpn::new(number) }
    }

    /// Fills the 40 bytes in front of a datagram.
    fn fill_header(
        &self,
        core: &Core,
        list: &ScatterList,
        from: Peer,
        length: u32,
    ) -> Result<(), Gone> {
        let Some(source) = self.addresses.address(from.address) else { return Ok(()) };
        let bytes = header(source, self.own_for(source), length);
        let mut at = 0;
        for range in list.slice(0, HEADER_BYTES).ranges() {
            let next = at + range.length as usize;
            if let Some(target) = core.memories.target(range) {
                target.write(&bytes[at..next])?;
            }
            at = next;
        }
        Ok(())
    }

    /// The Jetty to which the receives of a queue pair are posted.
    fn receiver(&self, local: u32) -> Option<JettyId> {
        let pair = self.pairs[local as usize].as_deref()?;
        let shared = pair.config.shared_receives.map(|queue| jetty_of(queue.index() as u32));
        Some(shared.unwrap_or(pair.jetty()))
    }

    /// Completes the receive that the next message to a queue pair would take, with `status`.
    /// Returns false if there is none.
    pub(super) fn fail_next_receive(
        &mut self,
        core: &mut Core,
        local: u32,
        status: Status,
    ) -> bool {
        let Some(id) = self.receiver(local).and_then(|jetty| core.nic.withdraw_receive(jetty))
        else {
            return false;
        };
        let receive = self.free_receive(core, id as u32);
        if receive.shared != ALONE {
            self.take_from_shared(receive.shared, id as u32);
        }
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return false };
        remove(&mut pair.receives, id as u32);
        let (number, queue) = (pair.number, pair.config.receive_queue);
        self.report(core, queue, empty(number, receive.id, status));
        true
    }

    /// Completes the receives of a queue pair's own queue as flushed, but the first with `first`.
    pub(super) fn flush_receives(&mut self, core: &mut Core, local: u32, first: Status) {
        let mut status = first;
        while let Some(pair) = self.pairs[local as usize].as_deref_mut()
            && let Some(index) = pair.receives.pop_front()
        {
            let (number, queue) = (pair.number, pair.config.receive_queue);
            let receive = self.free_receive(core, index);
            self.report(core, queue, empty(number, receive.id, status));
            status = Status::Flushed;
        }
    }

    /// Number of receives for which the protocol keeps this segment.
    pub(super) fn receives_into(&self, segment: SegmentId) -> u32 {
        let pairs = self.pairs.iter().flatten().flat_map(|pair| &pair.receives);
        let shared = self.shared.iter().flatten().flat_map(|shared| shared.receives());
        let all = pairs.chain(shared).map(|&index| &self.receives[index as usize]);
        all.filter(|receive| receive.range.segment == segment && receive.bounce_buffer.is_none())
            .count() as u32
    }

    /// Stops placement into receives of several ranges one of which is in this segment.
    pub(super) fn lose_receives_into(&mut self, core: &mut Core, segment: SegmentId) {
        for receive in self.receives.iter().filter(|receive| receive.life != 0) {
            let names_it = receive.local.ranges().iter().any(|range| range.segment == segment);
            if let Some(bounce_buffer) = receive.bounce_buffer.filter(|_| names_it) {
                core.memories.redirect(bounce_buffer.segment, Some(ScatterList::EMPTY));
            }
        }
    }

    /// Drops the receives of a queue pair.
    pub(super) fn forget_receives(&mut self, core: &mut Core, local: u32) {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
        for index in std::mem::take(&mut pair.receives) {
            self.free_receive(core, index);
        }
    }
}

/// Moves a datagram that was placed where its header belongs behind that header. A receive in a
/// shared queue is posted before it is known that a datagram will consume it.
fn make_room(core: &Core, list: &ScatterList, length: u32) -> Result<(), Gone> {
    let mut bytes = vec![0; length as usize];
    let (from, to) = (list.slice(0, length), list.slice(HEADER_BYTES, length));
    let mut rest = &mut bytes[..];
    for range in from.ranges() {
        let (now, later) = rest.split_at_mut(range.length as usize);
        if let Some(source) = core.memories.source(range) {
            source.read(now)?;
        }
        rest = later;
    }
    let mut rest = &bytes[..];
    for range in to.ranges() {
        let (now, later) = rest.split_at(range.length as usize);
        if let Some(target) = core.memories.target(range) {
            target.write(now)?;
        }
        rest = later;
    }
    Ok(())
}

/// Removes a receive from a queue, in which it is most likely the first.
pub(super) fn remove(receives: &mut VecDeque<u32>, index: u32) {
    if let Some(at) = receives.iter().position(|&other| other == index) {
        receives.remove(at);
    }
}

/// Returns the completion of a receive without a message.
fn empty(queue_pair: Qpn, id: u64, status: Status) -> Completion {
    Completion {
        id,
        queue_pair,
        status,
        kind: CompletionKind::Receive,
        bytes: 0,
        tail: Tail::Nothing,
        value: 0,
        from: Peer::default(),
        solicited: false,
    }
}
