//! [`RoceDevice`]: all queue pairs of a node, and the methods that callers use. The methods that
//! create, change and remove objects are in `objects`, and those
//! that divide the device among queue pairs in `schedule`.

mod objects;
mod schedule;

use super::api::{
    AtomicExecution, Completion, Counters, DropReason, Event, PlacementToken, PostError,
    ReceiveQueueId, ReceiveRequest, Received, Status, TokenSubject, Transmit, Transport, Verdict,
    Work, WorkRequest,
};
use super::injected_bug::InjectedBug;
use super::keys::Tags;
use super::limits::{Limits, Profile, READ_DEPTH_MAX};
use super::queue_pair::QueuePair;
use super::responder::packets;
use super::shared::Shared;
use super::state::QueuePairState;
use super::work::{Receive, ReceiveQueue, Send};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_device::CompletionQueueId;
use fairway_device::control::Processor;
use fairway_device::list::Links;
use fairway_device::pool::Index;
use fairway_wire::roce::{Operation, Service, Tail};
use fairway_wire::{Ecn, Instant, Qpn};

/// Length of the largest message, in packets and in bytes.
const PACKETS_MAX: u32 = 1 << 22;
const LENGTH_MAX: u32 = 1 << 31;

/// The RoCE side of a NIC.
#[derive(Debug)]
pub struct RoceDevice {
    shared: Shared,
    /// The queue pairs by place; grows to `Limits::queue_pairs`.
    pairs: Vec<Option<Box<QueuePair>>>,
    /// How often each place has been used.
    uses: Vec<u32>,
    /// Places of removed queue pairs, in the order of removal.
    vacant: VecDeque<u32>,
    /// Low bits of a queue pair's number that are its place in the table. The bits above count the
    /// uses of the place, so that a late packet to an earlier queue pair is recognised.
    index_bits: u32,
    limits: Limits,
    tags: Tags,
    /// The queue pair that sends now, and how many bytes it may still send before the next one.
    turn: Option<u32>,
    turn_left: u32,
    /// The scheduler, if there is one.
    scheduler: Option<Box<Processor>>,
}

impl RoceDevice {
    /// Creates a device without objects. Shared memory is allocated here, and that of a queue pair
    /// when it is created. Keys of memory follow from `seed`, which therefore has to be secret.
    ///
    /// # Panics
    ///
    /// If a limit or the profile is out of the range its documentation states, or
    /// `acknowledge_every` is larger than `window_packets`.
    pub fn new(limits: &Limits, profile: &Profile, seed: u64) -> RoceDevice {
        let index_bits = u32::BITS - limits.queue_pairs.saturating_sub(1).leading_zeros();
        let Limits { number_bits, number_base, .. } = *limits;
        assert!(number_bits <= 24 && index_bits < number_bits, "Limits::number_bits");
        assert!(number_base & ((1 << number_bits) - 1) == 0, "Limits::number_base");
        assert!(limits.segments <= 1 << 20, "Limits::segments");
        assert!((1..=READ_DEPTH_MAX).contains(&limits.read_depth), "Limits::read_depth");
        assert!((1..1 << 20).contains(&profile.window_packets), "Profile::window_packets");
        let every = profile.acknowledge_every;
        assert!((1..=profile.window_packets).contains(&every), "Profile::acknowledge_every");
        let window = profile.out_of_order.map_or(1, |option| option.window);
        assert!(window.is_power_of_two() && window <= 1 << 16, "OutOfOrder::window");
        RoceDevice {
            shared: Shared::new(limits, profile),
            pairs: Vec::new(),
            uses: Vec::new(),
            vacant: VecDeque::new(),
            index_bits,
            limits: *limits,
            tags: Tags::new(seed, limits.segments),
            turn: None,
            turn_left: 0,
            scheduler: None,
        }
    }

    /// Injects a bug, in builds that support it.
    pub fn inject(&mut self, bug: InjectedBug) {
        self.shared.bug = Some(bug);
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
        let split = shared.profile.split_writes
            && pair.transport == Transport::Rc
            && pair.requester.splitting.splits(&request.work, packets);
        pair.requester.count(&request.work, packets, split);
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
            split,
            in_flight: 0,
            faulty,
        };
        let Some(index) = shared.sends.add(send) else { return Err(PostError::Full) };
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

    /// Checks that all requests would be accepted if they were posted one after the other.
    ///
    /// # Errors
    /// Why the first request that is not accepted would be refused.
    pub fn check_sends(&mut self, number: Qpn, requests: &[WorkRequest]) -> Result<(), PostError> {
        let (shared, pair) = self.pair(number).ok_or(PostError::Missing)?;
        if !pair.state.takes_sends() {
            return Err(PostError::State);
        }
        let count = requests.len() as u32;
        if pair.requester.posted + count > pair.send_depth
            || shared.sends.capacity() - shared.sends.in_use() < count
        {
            return Err(PostError::Full);
        }
        requests.iter().try_for_each(|request| measure(pair, request).map(drop))
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
        self.append_receive(Index::of(queue.0), request).ok_or(PostError::Full)
    }

    // ---- inputs ----

    /// Handles a packet that has arrived. The caller has verified its ICRC.
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

    /// Reports that a payload or value has been placed as [`Verdict`] required, or that a word has
    /// been changed as [`AtomicExecution`] required. `old` is the word's value before the change,
    /// otherwise 0.
    ///
    /// A caller that defers placements must drop those of a queue pair that has entered the error
    /// or reset state meanwhile: their memory may have been reused.
    pub fn handle_placed(&mut self, _now: Instant, token: PlacementToken, old: u64) {
        let Some((shared, pair)) = self.pair(token.queue_pair) else { return };
        if pair.life != token.life {
            return;
        }
        match token.subject {
            TokenSubject::Request(index) => pair.request_placed(shared, index),
            TokenSubject::Atomic(index) => pair.atomic_executed(shared, index, old),
            TokenSubject::Answer(index) => pair.answer_placed(shared, index),
        }
        self.settle_overruns();
    }

    /// Handles all timers that have expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(index) = self.shared.deadlines.pop_due(now) {
            if let Some(pair) = self.pairs.get_mut(index as usize).and_then(Option::as_mut) {
                pair.handle_timeout(&mut self.shared, now);
            }
        }
        self.run_scheduler(now);
        self.settle_overruns();
    }

    // ---- outputs ----

    /// The next packet to send. One queue pair sends `Profile::turn_bytes` before the next, unless
    /// a scheduler decides ([`Self::set_scheduler`]).
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.finish_unreliable();
        self.follow_raised_rates();
        loop {
            self.settle_overruns();
            let index = self.take_turn()?;
            let pair = self.pairs.get_mut(index as usize).and_then(Option::as_mut);
            if let Some(transmit) = pair.and_then(|pair| pair.next(&mut self.shared, now)) {
                self.turn_left = self.turn_left.saturating_sub(transmit.gather.length() + 64);
                self.shared.counters.sent_packets += 1;
                self.run_scheduler(now);
                return Some(transmit);
            }
            self.end_turn(index);
        }
    }

    /// The next packet of the answers to READs that have to be sent before `received` is handled,
    /// because `received` would change the memory that they read. Call it until it returns `None`,
    /// then call [`Self::handle_packet`]. A caller that has no room to send drops `received`
    /// instead; the peer retransmits it.
    pub fn poll_answer(&mut self, received: &Received) -> Option<Transmit> {
        let (shared, pair) = self.pair(received.packet.bth.destination)?;
        let answer = pair.answer_before(shared, received)?;
        shared.counters.sent_packets += 1;
        Some(answer)
    }

    /// The next atomic operation of a peer to be executed. Call it until it returns `None` after
    /// every [`Self::handle_packet`] and [`Self::handle_placed`].
    pub fn poll_execution(&mut self) -> Option<AtomicExecution> {
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

    /// The place of a buffered packet ([`OwnVerdict::Buffer`](super::OwnVerdict::Buffer)) that is
    /// next in sequence. The caller passes the packet to [`Self::handle_packet`] again, before any
    /// other. Call it until it returns `None` after every [`Self::handle_packet`].
    pub fn poll_replay(&mut self) -> Option<u32> {
        while let Some(index) = self.shared.recalling.pop() {
            let Some(pair) = self.pairs.get_mut(index as usize).and_then(Option::as_mut) else {
                continue;
            };
            pair.in_recalling = false;
            if let Some(place) = pair.next_recall(&mut self.shared) {
                // The packet is counted when the caller passes it in again.
                self.shared.counters.received_packets -= 1;
                return Some(place);
            }
        }
        None
    }

    /// The next completion of a queue.
    pub fn poll_completion(&mut self, queue: CompletionQueueId) -> Option<Completion> {
        self.finish_unreliable();
        self.shared.queues.get_mut(queue.index())?.as_mut()?.pop()
    }

    /// Completes the unreliable packet that was polled last, if there is one: its payload has been
    /// gathered and sent.
    #[inline]
    fn finish_unreliable(&mut self) {
        if let Some(index) = self.shared.leaving.take() {
            self.unreliable_left(index);
        }
    }

    fn unreliable_left(&mut self, index: u32) {
        let pair = self.pairs.get_mut(index as usize).and_then(Option::as_mut);
        if let Some(pair) = pair {
            pair.unreliable_left(&mut self.shared);
        }
        self.settle_overruns();
    }

    /// True if completions of a queue pair wait to be polled. False once it is destroyed.
    pub fn has_completions(&self, number: Qpn) -> bool {
        let pair = self.pairs.get(self.index_of(number)).and_then(|pair| pair.as_deref());
        let Some(pair) = pair.filter(|pair| pair.number == number) else { return false };
        [pair.send_queue, pair.receive_queue].into_iter().any(|queue| {
            let queue = self.shared.queues.get(queue as usize).and_then(Option::as_ref);
            queue.is_some_and(|queue| queue.holds(number))
        })
    }

    /// The next completion queue that was armed and received a completion that was awaited. It is
    /// no longer armed.
    pub fn poll_notification(&mut self) -> Option<CompletionQueueId> {
        self.shared.notifications.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// The latest time for the next call of [`Self::handle_timeout`]; an earlier call is allowed.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.shared.deadlines.earliest()
    }

    // ---- getters ----

    /// Counts since the device was created.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// True if some completion queue is armed.
    pub fn is_armed(&self) -> bool {
        self.shared.armed > 0
    }

    /// The state of a queue pair.
    pub fn state(&self, number: Qpn) -> Option<QueuePairState> {
        let pair = self.pairs.get(self.index_of(number))?.as_ref()?;
        (pair.number == number).then_some(pair.state)
    }

    /// Number of sends of a queue pair that have been posted and have not completed.
    pub fn sends_posted(&self, number: Qpn) -> u32 {
        let pair = self.pairs.get(self.index_of(number)).and_then(Option::as_deref);
        pair.filter(|pair| pair.number == number).map_or(0, |pair| pair.requester.posted)
    }

    /// True if [`Self::poll_notification`] or [`Self::poll_event`] returns something.
    pub fn has_notices(&self) -> bool {
        !self.shared.notifications.is_empty() || !self.shared.events.is_empty()
    }

    /// True if sends that a queue pair began before [`Change::Drain`] have not completed.
    pub fn is_draining(&self, number: Qpn) -> bool {
        let pair = self.pairs.get(self.index_of(number)).and_then(Option::as_deref);
        pair.is_some_and(|pair| pair.number == number && pair.is_draining())
    }

    /// The rate at which a queue pair sends, in bits per second; `None` if it has no rate control.
    pub fn rate(&mut self, now: Instant, number: Qpn) -> Option<u64> {
        let (_, pair) = self.pair(number)?;
        Some(pair.requester.rate.as_mut()?.rate(now))
    }

    /// Records in use for unfinished sends, receives and accepted packets.
    pub fn in_use(&self) -> [u32; 3] {
        let shared = &self.shared;
        [shared.sends.in_use(), shared.receives.in_use(), shared.pending.in_use()]
    }

    /// The network addresses to which queue pairs are connected, as the caller numbers them.
    pub fn peers(&self) -> impl Iterator<Item = u64> {
        self.pairs.iter().flatten().map(|pair| pair.peer.address)
    }

    /// Number of packets that the caller keeps ([`OwnVerdict::Buffer`](super::OwnVerdict::Buffer)).
    pub fn buffered(&self) -> u32 {
        self.shared.buffered.in_use()
    }

    // ---- within ----

    pub(super) fn pair(&mut self, number: Qpn) -> Option<(&mut Shared, &mut QueuePair)> {
        let index = self.index_of(number);
        let pair = self.pairs.get_mut(index)?.as_deref_mut()?;
        (pair.number == number).then_some((&mut self.shared, pair))
    }

    /// The place of the queue pair with this number, if there is one.
    fn index_of(&self, number: Qpn) -> usize {
        (number.value() & ((1 << self.index_bits) - 1)) as usize
    }

    /// Moves the queue pairs of an overrun completion queue to the error state.
    pub(super) fn settle_overruns(&mut self) {
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
        let record = self.shared.receive_queues.get(Index::of(queue.0))?;
        (record.live && !record.owned).then_some(record)
    }

    fn append_receive(
        &mut self,
        queue: Index<ReceiveQueue>,
        request: &ReceiveRequest,
    ) -> Option<()> {
        let shared = &mut self.shared;
        let faulty = !shared.holds(shared.receive_queues[queue].domain, &request.local);
        let (id, local, links) = (request.id, request.local, Links::UNLINKED);
        let index = shared.receives.add(Receive { id, local, links, faulty })?;
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
    /// True if READs and atomics may be in flight, or fail at once.
    fn may_have_answers(&self) -> bool {
        let has_failed = matches!(self.state, QueuePairState::Error | QueuePairState::SendError);
        has_failed || self.requester.reliability.read_depth > 0
    }

    /// The next packet of responder or requester, alternately.
    fn next(&mut self, shared: &mut Shared, now: Instant) -> Option<Transmit> {
        self.request_turn = !self.request_turn;
        match self.request_turn {
            true => self.next_response(shared, now).or_else(|| self.next_request(shared, now)),
            false => self.next_request(shared, now).or_else(|| self.next_response(shared, now)),
        }
    }
}

/// Length of a message and number of its packets, if it may be posted. READs and atomics may not if
/// none may be in flight.
fn measure(pair: &QueuePair, request: &WorkRequest) -> Result<(u32, u32), PostError> {
    let length = request.local.length();
    let offered = match (pair.transport, &request.work) {
        (Transport::Rc, Work::Datagram { .. }) => false,
        (Transport::Rc, work) => !work.is_answered() || pair.may_have_answers(),
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

/// The service of a connection's packet; `None` for a congestion notification, which both services
/// receive.
fn service(operation: &Operation) -> Option<Service> {
    match operation {
        Operation::Send { service, .. } | Operation::Write { service, .. } => Some(*service),
        Operation::Cnp => None,
        _ => Some(Service::Rc),
    }
}

/// True if both keys belong to the same partition, and at least one is a full member (10.9.3).
fn partition_matches(ours: u16, theirs: u16) -> bool {
    const FULL: u16 = 1 << 15;
    (ours ^ theirs) & !FULL == 0 && (ours | theirs) & FULL != 0
}
