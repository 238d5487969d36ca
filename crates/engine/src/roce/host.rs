//! [`Host`]: all queue pairs of a node, and what is called from outside.

use super::api::{
    Change, ChangeError, Completion, Counters, DropReason, Event, Execution, MemoryRegion,
    MemoryRequest, PlacementToken, PostError, QueuePairConfig, ReceiveQueueId, ReceiveRequest,
    Received, Status, TokenKind, Transmit, Transport, Verdict, Work, WorkRequest,
};
use super::completions::{Awaited, Completions};
use super::limits::{Limits, Profile};
use super::queue_pair::QueuePair;
use super::responder::packets;
use super::shared::{KEY_TAG_BITS, Shared};
use super::state::QueuePairState;
use super::work::{Receive, ReceiveQueue, Send};
use crate::api::{CompletionQueueId, SegmentId, SegmentRequest, SetupError};
use crate::list::{Links, List};
use crate::random::Random;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_policy::DcqcnRate;
use fairway_wire::roce::{Operation, Service, Tail};
use fairway_wire::{Ecn, Instant, Qpn};

/// The largest message, in packets and in bytes.
const PACKETS_MAX: u32 = 1 << 22;
const LENGTH_MAX: u32 = 1 << 31;

/// The RoCE side of a NIC.
#[derive(Debug)]
pub struct Host {
    shared: Shared,
    /// Grows to `Limits::queue_pairs`.
    pairs: Vec<Option<Box<QueuePair>>>,
    /// Uses of each place so far.
    uses: Vec<u32>,
    /// Places of those that were removed, in that order.
    vacant: VecDeque<u32>,
    /// Bits of a queue pair's number that are its place in the table; those above count its uses, so
    /// that a late packet to an earlier one is recognised.
    index_bits: u32,
    limits: Limits,
    random: Random,
    /// The queue pair whose turn it is to send, and how many bytes of it are left.
    turn: Option<u32>,
    turn_left: u32,
}

impl Host {
    /// A host with nothing in it. Shared memory is taken here, that of a queue pair when it is
    /// made.
    ///
    /// # Panics
    ///
    /// If a limit or the profile is out of the range its documentation states, or
    /// `acknowledge_every` is larger than `window_packets`.
    pub fn new(limits: &Limits, profile: &Profile, seed: u64) -> Host {
        let index_bits = u32::BITS - limits.queue_pairs.saturating_sub(1).leading_zeros();
        let Limits { number_bits, number_base, .. } = *limits;
        assert!(number_bits <= 24 && index_bits < number_bits, "Limits::number_bits");
        assert!(number_base & ((1 << number_bits) - 1) == 0, "Limits::number_base");
        assert!(limits.segments <= 1 << 20, "Limits::segments");
        assert!((1..=128).contains(&limits.read_depth), "Limits::read_depth");
        assert!((1..1 << 20).contains(&profile.window_packets), "Profile::window_packets");
        let every = profile.acknowledge_every;
        assert!((1..=profile.window_packets).contains(&every), "Profile::acknowledge_every");
        let window = profile.out_of_order.map_or(1, |option| option.window);
        assert!(window.is_power_of_two() && window <= 1 << 16, "OutOfOrder::window");
        Host {
            shared: Shared::new(limits, profile),
            pairs: Vec::new(),
            uses: Vec::new(),
            vacant: VecDeque::new(),
            index_bits,
            limits: *limits,
            random: Random::new(seed),
            turn: None,
            turn_left: 0,
        }
    }

    // ---- objects ----

    /// Registers memory. Its R_Key is new: one of an earlier registration opens nothing.
    pub fn register(&mut self, request: &MemoryRequest) -> Result<MemoryRegion, SetupError> {
        let tag = (self.random.next() as u32) & ((1 << KEY_TAG_BITS) - 1);
        let segment = self.shared.segments.register(&SegmentRequest {
            address: request.address,
            length: request.length,
            rights: request.rights,
            token_value: tag,
        })?;
        self.shared.domains[segment.index()] = request.domain;
        Ok(MemoryRegion { segment, r_key: segment.0 << KEY_TAG_BITS | tag })
    }

    /// Refuses accesses from now on. True if nothing that is posted refers to the memory; otherwise
    /// [`Event::SegmentReleased`] says when nothing does any more. Until then, what was posted and
    /// names it fails when its turn comes, and nothing of it is sent or placed: so the memory may be
    /// freed at once, if the caller drops placements that it has put off.
    pub fn deregister(&mut self, segment: SegmentId) -> Result<bool, SetupError> {
        self.shared.segments.deregister(segment)
    }

    /// Makes a completion queue for `depth` completions. More unpolled ones are an overrun
    /// ([`Event::Overrun`]).
    pub fn create_completion_queue(&mut self, depth: u32) -> Result<CompletionQueueId, SetupError> {
        let queues = &mut self.shared.queues;
        let used: u64 = queues.iter().flatten().map(|queue| u64::from(queue.depth())).sum();
        if used + u64::from(depth) > u64::from(self.limits.completions) {
            return Err(SetupError::Limit("completions"));
        }
        let free = queues.iter().position(Option::is_none);
        let index = free.ok_or(SetupError::Limit("completion_queues"))?;
        queues[index] = Some(Completions::new(depth));
        Ok(CompletionQueueId(index as u32))
    }

    /// Changes how many completions a queue is for: not to fewer than wait in it.
    pub fn resize_completion_queue(
        &mut self,
        queue: CompletionQueueId,
        depth: u32,
    ) -> Result<(), SetupError> {
        let queues = &mut self.shared.queues;
        let used: u64 = queues.iter().flatten().map(|queue| u64::from(queue.depth())).sum();
        let record = queues.get_mut(queue.index()).and_then(Option::as_mut);
        let record = record.ok_or(SetupError::Missing)?;
        let others = used - u64::from(record.depth());
        if others + u64::from(depth) > u64::from(self.limits.completions) {
            return Err(SetupError::Limit("completions"));
        }
        if !record.resize(depth) {
            return Err(SetupError::Parameter("depth"));
        }
        Ok(())
    }

    /// [`Self::poll_notification`] is to tell of the next completion that comes to a queue; if
    /// `solicited_only`, of the next that is solicited, or an error.
    pub fn arm(
        &mut self,
        queue: CompletionQueueId,
        solicited_only: bool,
    ) -> Result<(), SetupError> {
        let record = self.shared.queues.get_mut(queue.index()).and_then(Option::as_mut);
        let awaited = if solicited_only { Awaited::Solicited } else { Awaited::Any };
        let first = record.ok_or(SetupError::Missing)?.arm(awaited);
        self.shared.armed += u32::from(first);
        Ok(())
    }

    /// Removes a completion queue that no queue pair uses. Completions in it are lost.
    pub fn destroy_completion_queue(&mut self, queue: CompletionQueueId) -> Result<(), SetupError> {
        let used = |pair: &QueuePair| pair.send_queue == queue.0 || pair.receive_queue == queue.0;
        if self.pairs.iter().flatten().any(|pair| used(pair)) {
            return Err(SetupError::Busy);
        }
        let slot = self.shared.queues.get_mut(queue.index()).ok_or(SetupError::Missing)?;
        let removed = slot.take().ok_or(SetupError::Missing)?;
        self.shared.armed -= u32::from(removed.is_armed());
        self.shared.notifications.retain(|other| *other != queue);
        Ok(())
    }

    /// Makes a shared receive queue.
    pub fn create_receive_queue(
        &mut self,
        domain: u32,
        depth: u32,
    ) -> Result<ReceiveQueueId, SetupError> {
        self.new_receive_queue(domain, depth, false).map(ReceiveQueueId)
    }

    /// [`Event::ReceiveLimit`] is to tell, once, when fewer than `limit` receives are left in a
    /// shared queue.
    pub fn limit_receive_queue(
        &mut self,
        queue: ReceiveQueueId,
        limit: u32,
    ) -> Result<(), SetupError> {
        self.receive_queue(queue).ok_or(SetupError::Missing)?;
        self.shared.receive_queues[queue.0].limit = limit;
        self.shared.note_limit(queue.0);
        Ok(())
    }

    /// Removes a shared receive queue that no queue pair uses. What is posted in it is forgotten.
    pub fn destroy_receive_queue(&mut self, queue: ReceiveQueueId) -> Result<(), SetupError> {
        let record = self.receive_queue(queue).ok_or(SetupError::Missing)?;
        if record.users > 0 {
            return Err(SetupError::Busy);
        }
        self.free_receive_queue(queue.0);
        Ok(())
    }

    /// Makes a queue pair, in the state Reset.
    pub fn create_queue_pair(&mut self, config: &QueuePairConfig) -> Result<Qpn, SetupError> {
        for queue in [config.send_queue, config.receive_queue] {
            let exists = self.shared.queues.get(queue.index()).is_some_and(Option::is_some);
            if !exists {
                return Err(SetupError::Missing);
            }
        }
        if self.vacant.is_empty() && self.pairs.len() == self.limits.queue_pairs as usize {
            return Err(SetupError::Limit("queue_pairs"));
        }
        let receives = match config.shared_receives {
            Some(queue) => {
                let record = self.receive_queue(queue).ok_or(SetupError::Missing)?;
                if record.domain != config.domain {
                    return Err(SetupError::Parameter("domain"));
                }
                queue.0
            }
            None => self.new_receive_queue(config.domain, config.receive_depth, true)?,
        };
        self.shared.receive_queues[receives].users += 1;
        let (index, number) = self.next_number();
        let depth = self.limits.read_depth;
        let window = self.shared.profile.out_of_order.map_or(0, |option| option.window);
        let mut pair = QueuePair::new(number, index, config, receives, depth, window);
        pair.requester.rate = self.shared.profile.dcqcn.as_ref().map(DcqcnRate::new);
        self.pairs[index as usize] = Some(Box::new(pair));
        Ok(number)
    }

    /// A place that is free, which there is, and the number of the queue pair that gets it. A place
    /// was free the longer the better: a number comes again the later.
    fn next_number(&mut self) -> (u32, Qpn) {
        let index = match self.pairs.len() < self.limits.queue_pairs as usize {
            true => {
                self.pairs.push(None);
                self.uses.push(0);
                self.pairs.len() as u32 - 1
            }
            false => self.vacant.pop_front().expect("a vacant place"),
        };
        let Limits { number_bits, number_base, .. } = self.limits;
        loop {
            let uses = &mut self.uses[index as usize];
            let number = number_base | *uses << self.index_bits | index;
            *uses = (*uses + 1) % (1 << (number_bits - self.index_bits));
            // Numbers 0 and 1 belong to management.
            if number > 1 {
                return (index, Qpn::new(number));
            }
        }
    }

    /// Removes a queue pair. What is posted is forgotten, without completions.
    pub fn destroy_queue_pair(&mut self, number: Qpn) -> Result<(), SetupError> {
        let (shared, pair) = self.pair(number).ok_or(SetupError::Missing)?;
        pair.reset(shared);
        let (index, receives, own) = (pair.index, pair.receives, !pair.shares_receives);
        shared.receive_queues[receives].users -= 1;
        shared.ready.purge(index);
        self.pairs[index as usize] = None;
        self.vacant.push_back(index);
        if self.turn == Some(index) {
            self.turn = None;
        }
        if own {
            self.free_receive_queue(receives);
        }
        Ok(())
    }

    /// Takes a step in the life of a queue pair.
    pub fn modify(&mut self, number: Qpn, change: &Change) -> Result<(), ChangeError> {
        let depth_max = self.limits.read_depth;
        let (shared, pair) = self.pair(number).ok_or(ChangeError::Missing)?;
        let state = pair.state.after(pair.transport, change)?;
        match change {
            Change::ReadyToReceive { mtu, read_depth, .. } => {
                if !matches!(mtu, 256 | 512 | 1024 | 2048 | 4096) {
                    return Err(ChangeError::Parameter("mtu"));
                }
                if *read_depth > depth_max {
                    return Err(ChangeError::Parameter("read_depth"));
                }
            }
            Change::ReadyToSend { reliability, .. } => {
                if reliability.read_depth > depth_max {
                    return Err(ChangeError::Parameter("read_depth"));
                }
                if reliability.retries > 7 || reliability.rnr_retries > 7 {
                    return Err(ChangeError::Parameter("retries"));
                }
            }
            Change::Reset
            | Change::Init { .. }
            | Change::Drain
            | Change::Resume
            | Change::Error => {}
        }
        pair.enter(shared, state, change);
        self.settle_overruns();
        Ok(())
    }

    // ---- commands ----

    /// Posts a send. In the error states it completes at once, as flushed.
    pub fn post_send(
        &mut self,
        _now: Instant,
        number: Qpn,
        request: &WorkRequest,
    ) -> Result<(), PostError> {
        let (shared, pair) = self.pair(number).ok_or(PostError::Missing)?;
        if !pair.state.takes_sends() {
            return Err(PostError::State);
        }
        let (length, packets) = measure(pair, request)?;
        if pair.requester.posted >= pair.send_depth || shared.sends.is_exhausted() {
            return Err(PostError::Full);
        }
        let faulty = !shared.holds(pair.domain, &request.local);
        pair.requester.number = pair.requester.number.wrapping_add(1);
        let send = Send {
            id: request.id,
            work: request.work,
            local: request.local,
            links: Links::UNLINKED,
            length,
            packets,
            acknowledged: 0,
            placing: 0,
            number: pair.requester.number,
            value: 0,
            signaled: request.signaled,
            solicited: request.solicited,
            fence: request.fence,
            in_flight: false,
            faulty,
        };
        let Some(index) = shared.sends.take(send) else { return Err(PostError::Full) };
        if !faulty {
            shared.hold(&request.local);
        }
        match pair.state {
            QueuePairState::Error | QueuePairState::SendError => {
                shared.complete_send(pair.number, pair.send_queue, index, Status::Flushed);
            }
            _ => pair.append(shared, index),
        }
        self.settle_overruns();
        Ok(())
    }

    /// Posts a receive to a queue pair's own queue. In the error state it completes at once, as
    /// flushed.
    pub fn post_receive(&mut self, number: Qpn, request: &ReceiveRequest) -> Result<(), PostError> {
        let (shared, pair) = self.pair(number).ok_or(PostError::Missing)?;
        if !pair.state.takes_receives() || pair.shares_receives {
            return Err(PostError::State);
        }
        let queue = shared.receive_queues[pair.receives];
        if queue.posted >= queue.depth || shared.receives.is_exhausted() {
            return Err(PostError::Full);
        }
        let (number, state, completions) = (pair.number, pair.state, pair.receive_queue);
        let receives = pair.receives;
        self.append_receive(receives, request).ok_or(PostError::Full)?;
        if state == QueuePairState::Error
            && let Some(index) = self.shared.take_receive(receives)
        {
            let flushed = Shared::empty_receive(number, Status::Flushed);
            self.shared.complete_receive(completions, index, flushed);
            self.settle_overruns();
        }
        Ok(())
    }

    /// Posts a receive to a shared queue.
    pub fn post_shared_receive(
        &mut self,
        queue: ReceiveQueueId,
        request: &ReceiveRequest,
    ) -> Result<(), PostError> {
        let record = self.receive_queue(queue).ok_or(PostError::Missing)?;
        if record.posted >= record.depth {
            return Err(PostError::Full);
        }
        self.append_receive(queue.0, request).ok_or(PostError::Full)
    }

    // ---- inputs ----

    /// A packet has arrived. Its ICRC is right.
    pub fn handle_packet(&mut self, now: Instant, received: &Received) -> Verdict {
        self.shared.counters.received_packets += 1;
        let packet = &received.packet;
        let bth = &packet.bth;
        let Some((shared, pair)) = self.pair(bth.destination).filter(|(_, p)| p.state.receives())
        else {
            return self.shared.drop(DropReason::NoQueuePair);
        };
        if !partition_matches(pair.p_key, bth.p_key) {
            return shared.drop(DropReason::PartitionKey);
        }
        if let Operation::Datagram { deth, immediate } = packet.operation {
            return match pair.transport {
                Transport::Ud => pair.handle_datagram(shared, received, &deth, immediate),
                Transport::Rc | Transport::Uc => shared.drop(DropReason::Malformed),
            };
        }
        if pair.transport == Transport::Ud {
            return shared.drop(DropReason::Malformed);
        }
        if received.source != pair.peer.address {
            return shared.drop(DropReason::Stranger);
        }
        if pair.state == QueuePairState::ReadyToReceive && !pair.established {
            pair.established = true;
            shared.events.push_back(Event::Established { queue_pair: pair.number });
        }
        if received.ecn == Ecn::Congested && packet.operation.carries_payload() {
            pair.note_congestion(shared, now);
        }
        match (pair.transport, service(&packet.operation)) {
            (_, None) => {
                pair.handle_notification(shared, now);
                Verdict::Done
            }
            (Transport::Rc, Some(Service::Rc)) if packet.operation.is_response() => {
                pair.handle_response(shared, now, packet, received.payload)
            }
            (Transport::Rc, Some(Service::Rc)) => {
                pair.handle_request(shared, packet, received.payload)
            }
            (Transport::Uc, Some(Service::Uc)) => pair.handle_unreliable(shared, received),
            _ => shared.drop(DropReason::Malformed),
        }
    }

    /// A payload or value is where [`Verdict`] said, or a word was changed as [`Execution`] said
    /// and was `old` before; otherwise pass 0.
    ///
    /// A caller that places late must drop placements of a queue pair that has gone to error or
    /// reset meanwhile: their memory may have a new use.
    pub fn handle_placed(&mut self, _now: Instant, token: PlacementToken, old: u64) {
        let Some((shared, pair)) = self.pair(token.queue_pair) else { return };
        if pair.life != token.life {
            return;
        }
        match token.kind {
            TokenKind::Request => pair.request_placed(shared, token.subject),
            TokenKind::Atomic => pair.atomic_executed(shared, token.subject, old),
            TokenKind::Answer => pair.answer_placed(shared, token.subject),
        }
        self.settle_overruns();
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(index) = self.shared.deadlines.pop_due(now) {
            if let Some(pair) = self.pairs.get_mut(index as usize).and_then(Option::as_mut) {
                pair.handle_timeout(&mut self.shared, now);
            }
        }
        self.settle_overruns();
    }

    // ---- outputs ----

    /// The next packet to be sent. One queue pair keeps the turn for `Profile::turn_bytes`.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        loop {
            self.settle_overruns();
            let index = match self.turn {
                Some(index) if self.turn_left > 0 => index,
                other => {
                    if let Some(index) = other {
                        self.shared.ready.push(index);
                    }
                    let index = self.shared.ready.pop()?;
                    self.turn = Some(index);
                    self.turn_left = self.shared.profile.turn_bytes;
                    index
                }
            };
            let pair = self.pairs.get_mut(index as usize).and_then(Option::as_mut);
            if let Some(transmit) = pair.and_then(|pair| pair.next(&mut self.shared, now)) {
                self.turn_left = self.turn_left.saturating_sub(transmit.gather.length() + 64);
                self.shared.counters.sent_packets += 1;
                return Some(transmit);
            }
            if let Some(pair) = self.pairs.get_mut(index as usize).and_then(Option::as_mut) {
                pair.in_ready = false;
            }
            self.turn = None;
        }
    }

    /// The next word that a peer changes. To be asked until it says `None` after every
    /// [`Self::handle_packet`] and [`Self::handle_placed`].
    pub fn poll_execution(&mut self) -> Option<Execution> {
        while let Some(index) = self.shared.executing.pop() {
            let Some(pair) = self.pairs.get_mut(index as usize).and_then(Option::as_mut) else {
                continue;
            };
            pair.in_executing = false;
            if let Some(execution) = pair.next_execution(&mut self.shared) {
                return Some(execution);
            }
        }
        None
    }

    /// The next completion of a queue.
    pub fn poll_completion(&mut self, queue: CompletionQueueId) -> Option<Completion> {
        self.shared.queues.get_mut(queue.index())?.as_mut()?.pop()
    }

    /// The next completion queue that was armed and got what was waited for. It no longer is.
    pub fn poll_notification(&mut self) -> Option<CompletionQueueId> {
        self.shared.notifications.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// When [`Self::handle_timeout`] is to be called at the latest; it may be called earlier.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.shared.deadlines.earliest()
    }

    // ---- getters ----

    /// What was done so far.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// True if some completion queue is armed.
    pub fn is_armed(&self) -> bool {
        self.shared.armed > 0
    }

    /// Where in its life a queue pair is.
    pub fn state(&self, number: Qpn) -> Option<QueuePairState> {
        let pair = self.pairs.get(self.index_of(number))?.as_ref()?;
        (pair.number == number).then_some(pair.state)
    }

    /// The rate a queue pair sends at, in bits per second; `None` if it is not controlled.
    pub fn rate(&mut self, now: Instant, number: Qpn) -> Option<u64> {
        let (_, pair) = self.pair(number)?;
        Some(pair.requester.rate.as_mut()?.rate(now))
    }

    /// Sends, receives and accepted packets that are not finished: their records in use.
    pub fn in_use(&self) -> [u32; 3] {
        let shared = &self.shared;
        [shared.sends.in_use(), shared.receives.in_use(), shared.pending.in_use()]
    }

    // ---- within ----

    fn pair(&mut self, number: Qpn) -> Option<(&mut Shared, &mut QueuePair)> {
        let index = self.index_of(number);
        let pair = self.pairs.get_mut(index)?.as_deref_mut()?;
        (pair.number == number).then_some((&mut self.shared, pair))
    }

    /// Where the queue pair of this number is, if there is one.
    fn index_of(&self, number: Qpn) -> usize {
        (number.value() & ((1 << self.index_bits) - 1)) as usize
    }

    /// Ends the queue pairs whose completion queue has lost something.
    fn settle_overruns(&mut self) {
        while let Some(queue) = self.shared.overruns.pop() {
            for pair in self.pairs.iter_mut().flatten() {
                let uses = pair.send_queue == queue || pair.receive_queue == queue;
                let over = matches!(pair.state, QueuePairState::Reset | QueuePairState::Error);
                if uses && !over {
                    pair.fault(&mut self.shared, Status::Flushed);
                }
            }
        }
    }

    fn receive_queue(&self, queue: ReceiveQueueId) -> Option<&ReceiveQueue> {
        let queues = &self.shared.receive_queues;
        let record = (queue.0 < queues.high_water()).then(|| &queues[queue.0])?;
        (record.live && !record.owned).then_some(record)
    }

    fn new_receive_queue(
        &mut self,
        domain: u32,
        depth: u32,
        owned: bool,
    ) -> Result<u32, SetupError> {
        let list = List::default();
        let (posted, users, limit, live) = (0, 0, 0, true);
        let queue = ReceiveQueue { list, posted, depth, owned, users, domain, limit, live };
        self.shared.receive_queues.take(queue).ok_or(SetupError::Limit("receive_queues"))
    }

    fn free_receive_queue(&mut self, queue: u32) {
        let shared = &mut self.shared;
        let mut list = shared.receive_queues[queue].list;
        while let Some(index) = list.pop_front(&mut shared.receives) {
            shared.forget_receive(index);
        }
        shared.receive_queues[queue].list = list;
        shared.receive_queues[queue].live = false;
        shared.receive_queues.give_back(queue);
    }

    fn append_receive(&mut self, queue: u32, request: &ReceiveRequest) -> Option<()> {
        let shared = &mut self.shared;
        let faulty = !shared.holds(shared.receive_queues[queue].domain, &request.local);
        let (id, local, links) = (request.id, request.local, Links::UNLINKED);
        let index = shared.receives.take(Receive { id, local, links, faulty })?;
        if !faulty {
            shared.hold(&request.local);
        }
        let record = &mut shared.receive_queues[queue];
        record.list.push_back(&mut shared.receives, index);
        record.posted += 1;
        Some(())
    }
}

impl QueuePair {
    /// The next packet of responder or requester, in turns.
    fn next(&mut self, shared: &mut Shared, now: Instant) -> Option<Transmit> {
        self.request_turn = !self.request_turn;
        match self.request_turn {
            true => self.next_response(shared).or_else(|| self.next_request(shared, now)),
            false => self.next_request(shared, now).or_else(|| self.next_response(shared)),
        }
    }
}

/// Length of a message and the packets it takes, if it may be posted.
fn measure(pair: &QueuePair, request: &WorkRequest) -> Result<(u32, u32), PostError> {
    let length = request.local.length();
    let offered = match (pair.transport, &request.work) {
        (Transport::Rc, Work::Datagram { .. }) => false,
        (Transport::Rc, _) => true,
        (Transport::Uc, Work::Send { tail }) => !matches!(tail, Tail::Invalidate(_)),
        (Transport::Uc, Work::Write { .. }) => true,
        (Transport::Ud, Work::Datagram { .. }) => true,
        (Transport::Uc | Transport::Ud, _) => false,
    };
    if !offered {
        return Err(PostError::Operation);
    }
    if let Work::CompareSwap { .. } | Work::FetchAdd { .. } = request.work {
        return if matches!(length, 0 | 8) { Ok((8, 1)) } else { Err(PostError::Length) };
    }
    let packets = packets(length, pair.mtu);
    let datagram = pair.transport == Transport::Ud;
    if length > LENGTH_MAX || packets > PACKETS_MAX || (datagram && packets > 1) {
        return Err(PostError::Length);
    }
    Ok((length, packets))
}

/// The service of a packet of a connection; `None` for a congestion notification, which either may
/// get.
fn service(operation: &Operation) -> Option<Service> {
    match operation {
        Operation::Send { service, .. } | Operation::Write { service, .. } => Some(*service),
        Operation::Cnp => None,
        _ => Some(Service::Rc),
    }
}

/// Same partition, and at least one of the two a full member (10.9.3).
fn partition_matches(ours: u16, theirs: u16) -> bool {
    const FULL: u16 = 1 << 15;
    (ours ^ theirs) & !FULL == 0 && (ours | theirs) & FULL != 0
}
