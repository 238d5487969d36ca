//! A device with memory: the part of a runtime around the protocol.

use crate::model::{Model, Order};
use crate::plan::{Kind, Planned, Random, Relaxed, Traffic};
use fairway_device::drive::{self, AccessOf, Driver, Output};
use fairway_roce::policy::PolicySpec;
use fairway_roce::wire::roce::{self, Icrc, Outer, RnrTimer};
use fairway_roce::wire::{Duration, Ecn, Instant, Psn, Qpn};
use fairway_roce::{
    Change, Completion, Limits, MemoryRequest, OutOfOrder, Peer, PostError, Profile,
    QueuePairConfig, ReceiveRequest, Received, Reliability, RoceDevice, ScatterList, Status,
    Transmit, WorkRequest,
};
use fairway_roce::{CompletionQueueId, LocalRange, Rights, SegmentId};
use std::convert::Infallible;

/// Bytes of each region.
pub const REGION: usize = 1 << 21;
/// Address at which remote memory begins, as the peer uses it.
pub const BASE: u64 = 0x10_0000_0000;
/// Length of a receive in bytes.
pub const RECEIVE: u32 = 64 * 1024;
/// Number of places for receives, which are used in turn.
pub const SLOTS: usize = 24;

pub struct Node {
    pub driver: Driver<RoceDevice, Vec<u8>>,
    pub pair: Qpn,
    /// Memory by segment: for sends and READ results; for operations of the peer; for receives.
    pub memory: Memory,
    pub r_key: u32,
    pub outer: Outer,
    pub plan: Vec<Planned>,
    pub next: usize,
    pub receives_posted: u64,
    pub sent: Vec<Completion>,
    pub received: Vec<Completion>,
    /// Model of the effects of the node's operations on the peer, for reliable transports.
    pub model: Option<Model>,
    /// True if there is no room to send when a packet arrives.
    pub blocked: bool,
    /// Datagrams that have to be sent before a packet that arrived takes effect.
    pub answers: Vec<Vec<u8>>,
    /// How far the peer's operations have been executed in this memory.
    order: Order,
    /// Descriptions of the order violations so far.
    pub violations: Vec<String>,
    send_queue: CompletionQueueId,
    receive_queue: CompletionQueueId,
    segments: [SegmentId; 3],
}

/// An access to memory that has to be carried out.
pub type Access = AccessOf<RoceDevice, Vec<u8>>;

/// The bytes of the segments of a node.
pub struct Memory(pub Vec<Vec<u8>>);

impl drive::Memory for Memory {
    type Error = Infallible;

    fn bytes(&mut self, range: &LocalRange) -> Result<&mut [u8], Infallible> {
        Ok(&mut self.0[range.segment.index()][span(range)])
    }
}

/// The content of operation `id` of node `node`.
pub fn content(node: usize, id: usize, length: u32) -> Vec<u8> {
    let mut random = Random((node as u64) << 32 | id as u64);
    (0..length).map(|_| random.next() as u8).collect()
}

impl Node {
    pub fn new(index: usize, traffic: &Traffic, plan: Vec<Planned>) -> Node {
        let limits = Limits { queue_pairs: 4, sends: 256, receives: 256, ..Limits::default() };
        let profile = Profile {
            window_packets: 96,
            window_adapts: index == 1,
            acknowledge_every: 8,
            out_of_order: traffic.out_of_order.then(OutOfOrder::default),
            split_writes: traffic.split_writes,
            ..Profile::default()
        };
        let mut host = RoceDevice::new(&limits, &profile, index as u64);
        if let Some(policy) = traffic.scheduler {
            let policy: PolicySpec = policy.parse().unwrap();
            let scheduler = policy.build_scheduler(limits.queue_pairs);
            host.set_scheduler(Instant::ZERO, Some(scheduler));
        }
        let relaxed = traffic.relaxed == Relaxed::Both;
        let any_order = if relaxed { Rights::RELAXED } else { Rights::NONE };
        let regions = [0, 1, 2].map(|_| {
            host.register(&MemoryRequest {
                domain: 7,
                address: BASE,
                length: REGION as u64,
                rights: Rights::ALL.with(any_order),
            })
            .unwrap()
        });
        let send_queue = host.create_completion_queue(256).unwrap();
        let receive_queue = host.create_completion_queue(256).unwrap();
        let pair = host
            .create_queue_pair(&QueuePairConfig {
                transport: traffic.transport,
                domain: 7,
                send_queue,
                receive_queue,
                shared_receives: None,
                send_depth: 16,
                receive_depth: 128,
            })
            .unwrap();
        let outer = Outer::v4([10, 0, 0, index as u8], [10, 0, 0, 1 - index as u8], 50_000);
        let mut memory = vec![vec![0; REGION]; 3];
        for (id, planned) in plan.iter().enumerate() {
            let at = planned.local as usize;
            let bytes = content(index, id, planned.length);
            if planned.kind != Kind::Read {
                memory[0][at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        Node {
            driver: Driver::new(host, limits.buffered as usize),
            pair,
            memory: Memory(memory),
            r_key: regions[1].r_key,
            outer,
            plan,
            next: 0,
            receives_posted: 0,
            sent: Vec::new(),
            received: Vec::new(),
            model: None,
            blocked: false,
            answers: Vec::new(),
            order: Order::default(),
            violations: Vec::new(),
            send_queue,
            receive_queue,
            segments: regions.map(|region| region.segment),
        }
    }

    pub fn host(&self) -> &RoceDevice {
        self.driver.device()
    }

    pub fn host_mut(&mut self) -> &mut RoceDevice {
        self.driver.device_mut()
    }

    /// Connects the queue pair, with these first PSNs of the two directions; `relaxed` allows any
    /// order.
    pub fn connect(
        &mut self,
        peer: Qpn,
        first: [Psn; 2],
        mtu: u32,
        (traffic, relaxed): (&Traffic, bool),
    ) {
        let reliability = Reliability {
            timeout: Duration::from_us(if traffic.patient { 100_000 } else { 500 }),
            retries: 7,
            rnr_retries: 7,
            read_depth: 4,
        };
        let any_order = if relaxed { Rights::RELAXED } else { Rights::NONE };
        let rights = Rights::ALL.with(any_order);
        let init = Change::Init { rights, p_key: roce::DEFAULT_P_KEY, q_key: 0 };
        let (pair, host) = (self.pair, self.host_mut());
        host.modify(pair, &init).unwrap();
        let receive = Change::ReadyToReceive {
            peer: Peer { address: 1, queue_pair: peer },
            mtu,
            expected: first[1],
            read_depth: 4,
            rnr_timer: RnrTimer::from_code(6),
        };
        host.modify(pair, &receive).unwrap();
        let send = Change::ReadyToSend { first: first[0], reliability };
        host.modify(pair, &send).unwrap();
    }

    /// Posts receives up to the number in `traffic`.
    pub fn post_receives(&mut self, traffic: &Traffic) {
        while (self.receives_posted - self.received.len() as u64) < traffic.receives as u64 {
            let slot = self.receives_posted % SLOTS as u64;
            let offset = slot * u64::from(RECEIVE);
            // The receive has two pieces, whose border does not match any packet boundary.
            let first = 777;
            let segment = self.segments[2];
            let ranges = [
                LocalRange { segment, offset, length: first },
                LocalRange { segment, offset: offset + u64::from(first), length: RECEIVE - first },
            ];
            let local = ScatterList::new(&ranges).unwrap();
            let request = ReceiveRequest { id: self.receives_posted, local };
            if self.received.len() + SLOTS <= self.receives_posted as usize
                || self.driver.device_mut().post_receive(self.pair, &request).is_err()
            {
                break;
            }
            self.receives_posted += 1;
        }
    }

    /// Posts the operations of the plan, as far as there is room.
    pub fn post(&mut self, now: Instant, r_key: u32) {
        while let Some(planned) = self.plan.get(self.next) {
            let segment = self.segments[0];
            let range = LocalRange { segment, offset: planned.local, length: planned.length };
            let id = self.next as u32;
            let request = WorkRequest {
                id: u64::from(id),
                work: planned.work(id, r_key, BASE, BASE),
                local: range.into(),
                signaled: planned.signaled,
                solicited: false,
                fence: planned.fence,
            };
            match self.driver.device_mut().post_send(now, self.pair, &request) {
                Ok(()) => self.next += 1,
                Err(PostError::Full) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// The bytes of a packet on the wire.
    pub fn datagram(&self, transmit: &Transmit) -> Vec<u8> {
        datagram(&self.memory, &self.outer, transmit)
    }

    /// Handles a datagram from `from`. Returns the access to memory that it requires.
    pub fn receive(&mut self, now: Instant, from: &Outer, bytes: &[u8]) -> Option<Access> {
        if !Icrc::verify(from, bytes) {
            return None;
        }
        let decoded = roce::decode(bytes, bytes.len()).expect("what we sent decodes");
        let payload = &bytes[decoded.header_len..decoded.header_len + decoded.payload_len];
        let received = Received {
            source: 1,
            packet: decoded.packet,
            payload: payload.len() as u32,
            ecn: Ecn::NotCapable,
        };
        let own = || payload.to_vec();
        if self.blocked {
            return self.driver.handle_packet(now, &received, own).access();
        }
        let (memory, outer, answers) = (&self.memory, &self.outer, &mut self.answers);
        let send = |answer| answers.push(datagram(memory, outer, &answer));
        self.driver.handle_packet_after_answers(now, &received, own, send).access()
    }

    /// The next access that had to wait and is now due.
    pub fn due(&mut self, now: Instant) -> Option<Access> {
        if self.blocked {
            return self.driver.poll_access(now);
        }
        let (memory, outer, answers) = (&self.memory, &self.outer, &mut self.answers);
        let send = |answer| answers.push(datagram(memory, outer, &answer));
        self.driver.poll_access_after_answers(now, send)
    }

    /// Places bytes, or changes a word. `peer` is the model of the peer's operations.
    pub fn place(&mut self, now: Instant, access: &Access, peer: Option<&Model>) {
        let Ok(old) = access.carry_out(&mut self.memory);
        for range in access.ranges() {
            self.note(peer, range);
        }
        self.driver.handle_placed(now, access.token(), old);
    }

    /// Records whether a change by the peer is out of order.
    fn note(&mut self, peer: Option<&Model>, range: &LocalRange) {
        let segment = range.segment.index();
        let bytes = &self.memory.0[segment][span(range)];
        if let Some(model) = peer.filter(|_| segment > 0)
            && let Err(error) = self.order.note(model, segment, range.offset as usize, bytes)
        {
            self.violations.push(error);
        }
    }

    /// Polls completions of sends, and checks at this very moment what they promise, which is the
    /// result of READs. If `receives`, it also polls those of receives, and checks their content.
    pub fn poll(&mut self, index: usize, peer_plan: &[Planned], receives: bool) {
        for completion in self.completions(self.send_queue) {
            if completion.status == Status::Success {
                self.check_sent(&completion);
            }
            self.sent.push(completion);
        }
        if !receives {
            return;
        }
        for completion in self.completions(self.receive_queue) {
            if completion.status == Status::Success {
                self.check_received(1 - index, &completion, peer_plan);
            }
            self.received.push(completion);
        }
    }

    fn completions(&mut self, queue: CompletionQueueId) -> Vec<Completion> {
        let completion = |output| match output {
            Output::Completion(completion) => Some(completion),
            Output::Event(_) => None,
        };
        self.driver.outputs(&[queue]).filter_map(completion).collect()
    }

    fn check_sent(&mut self, completion: &Completion) {
        let id = completion.id as usize;
        let planned = self.plan[id];
        let at = planned.local as usize;
        assert_eq!(completion.bytes, planned.length);
        let local = &self.memory.0[0][at..at + planned.length as usize];
        let answered = planned.kind == Kind::Read || planned.is_atomic();
        if let Some(model) = self.model.as_ref().filter(|_| answered)
            && local != model.result(id)
        {
            self.violations.push(format!("{:?} {id} has the bytes of another time", planned.kind));
        }
        if planned.is_atomic() {
            let stored = u64::from_le_bytes(self.memory.0[0][at..at + 8].try_into().unwrap());
            assert_eq!(stored, completion.value, "the old value is in place");
        }
    }

    fn check_received(&self, from: usize, completion: &Completion, plan: &[Planned]) {
        // Reliable receives are consumed in the order in which the operations were posted. Over UC
        // some operations are missing, and the immediate data identifies the rest.
        let order =
            self.received.iter().filter(|earlier| earlier.status == Status::Success).count();
        let takers = plan.iter().enumerate().filter(|(_, planned)| planned.takes_receive());
        let offset = (completion.id % SLOTS as u64 * u64::from(RECEIVE)) as usize;
        let bytes = &self.memory.0[2][offset..offset + completion.bytes as usize];
        let is = |id: usize| match plan[id].kind {
            Kind::WriteImmediate => {
                completion.tail == roce::Tail::Immediate(id as u32)
                    && completion.bytes == plan[id].length
            }
            Kind::SendImmediate => {
                completion.tail == roce::Tail::Immediate(id as u32)
                    && bytes == content(from, id, plan[id].length)
            }
            Kind::Send => {
                completion.tail == roce::Tail::Nothing
                    && bytes == content(from, id, plan[id].length)
            }
            _ => false,
        };
        let reliable = self.plan.iter().chain(plan).any(|planned| planned.kind == Kind::Read);
        if reliable {
            let (id, _) = takers.clone().nth(order).expect("no more receives than senders");
            assert!(is(id), "receive {order} is operation {id}: {completion:?}");
        } else {
            assert!(takers.clone().any(|(id, _)| is(id)), "{completion:?}");
        }
    }

    pub fn posted(&self) -> usize {
        self.next
    }

    /// Number of completions, including successful operations that requested none.
    pub fn completed(&self) -> usize {
        let silent = self.plan[..self.next].iter().enumerate().filter(|(id, planned)| {
            !planned.signaled && !self.sent.iter().any(|sent| sent.id == *id as u64)
        });
        self.sent.len() + silent.count()
    }

    pub fn statuses(&self) -> impl Iterator<Item = Status> {
        self.sent.iter().map(|completion| completion.status)
    }
}

/// The bytes of a packet on the wire, with a payload from `memory`.
fn datagram(memory: &Memory, outer: &Outer, transmit: &Transmit) -> Vec<u8> {
    let mut payload = Vec::new();
    for range in transmit.gather.ranges() {
        payload.extend_from_slice(&memory.0[range.segment.index()][span(range)]);
    }
    let mut header = [0; roce::MAX_HEADER];
    let length = roce::encode(&transmit.packet, payload.len(), &mut header);
    let total = roce::datagram_len(&transmit.packet, payload.len());
    let mut icrc = Icrc::new(outer, &header[..length], total);
    icrc.update(&payload);
    [&header[..length], &payload, icrc.trailer(payload.len()).bytes()].concat()
}

fn span(range: &LocalRange) -> std::ops::Range<usize> {
    range.offset as usize..range.offset as usize + range.length as usize
}
