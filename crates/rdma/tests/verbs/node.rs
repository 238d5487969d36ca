//! A provider with memory and queues, and a connection between two of them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use fairway_rdma::{
    ForeignMemory, Gid, Listener, Management, NetworkCounters, Provider, ProviderOptions, Routed,
    open,
};
use fairway_roce::{
    Change, Completion, Event, MemoryRegion, MemoryRequest, Peer, QueuePairConfig, ReceiveQueueId,
    ReceiveRequest, Reliability, RemoteAddress, ScatterList, Status, Transport, Work, WorkRequest,
};
use fairway_ub::wire::Psn;
use fairway_ub::wire::Qpn;
use fairway_ub::wire::roce::{DEFAULT_P_KEY, RnrTimer};
use fairway_ub::{CompletionQueueId, LocalRange, Rights};

/// Time after which a test counts as stuck. No test depends on its duration otherwise.
const STUCK: Duration = Duration::from_secs(100);

pub const DOMAIN: u32 = 3;
pub const Q_KEY: u32 = 0x1111_1111;
/// The address of the memory's first byte in the peers' address space.
pub const BASE: u64 = 0x7000_0000;

/// Memory that a provider uses while a test reads it: only ever accessed byte by byte as atomics.
pub struct Memory {
    bytes: Box<[AtomicU64]>,
}

impl Memory {
    pub fn new(length: usize) -> Memory {
        Memory { bytes: (0..length.div_ceil(8)).map(|_| Default::default()).collect() }
    }

    pub fn foreign(&self, length: usize) -> ForeignMemory {
        // SAFETY: the memory is freed after the provider that it is registered with, or
        // deregistered first; it consists of atomics.
        unsafe { ForeignMemory::new(self.bytes.as_ptr().cast_mut().cast(), length) }
    }

    fn byte(&self, at: usize) -> &AtomicU8 {
        assert!(at < self.bytes.len() * 8);
        // SAFETY: within the allocation, which consists of atomics and is borrowed.
        unsafe { AtomicU8::from_ptr(self.bytes.as_ptr().cast_mut().cast::<u8>().add(at)) }
    }

    pub fn write(&self, at: usize, bytes: &[u8]) {
        for (index, byte) in bytes.iter().enumerate() {
            self.byte(at + index).store(*byte, Ordering::Relaxed);
        }
    }

    pub fn read(&self, at: usize, length: usize) -> Vec<u8> {
        let load = |index| self.byte(at + index).load(Ordering::Relaxed);
        (0..length).map(load).collect()
    }

    pub fn word(&self, at: usize) -> &AtomicU64 {
        &self.bytes[at / 8]
    }
}

/// The calls that the listener received.
#[derive(Default)]
pub struct Calls {
    pub completions: Vec<CompletionQueueId>,
    pub events: Vec<Event>,
    /// Sender, first byte, and the flag `deliverable` of each datagram.
    pub management: Vec<(IpAddr, u8, bool)>,
}

pub struct Recorder {
    calls: Mutex<Calls>,
    news: Condvar,
    pub route: Mutex<Routed>,
}

impl Recorder {
    pub fn new() -> Arc<Recorder> {
        let (calls, news) = (Mutex::default(), Condvar::new());
        Arc::new(Recorder { calls, news, route: Mutex::new(Routed::Here) })
    }

    fn note(&self, note: impl FnOnce(&mut Calls)) {
        note(&mut self.calls.lock().unwrap());
        self.news.notify_all();
    }

    /// Sleeps until the calls received fulfil a condition.
    pub fn until<R>(&self, mut satisfied: impl FnMut(&mut Calls) -> Option<R>) -> R {
        let start = Instant::now();
        let mut calls = self.calls.lock().unwrap();
        loop {
            if let Some(result) = satisfied(&mut calls) {
                return result;
            }
            calls = self.news.wait_timeout(calls, Duration::from_secs(1)).unwrap().0;
            assert!(start.elapsed() < STUCK, "stuck; received {:?}", calls.events);
        }
    }

    pub fn event(&self, wanted: Event) {
        self.until(|calls| calls.events.contains(&wanted).then_some(()));
    }
}

impl Listener for Recorder {
    fn completion(&self, queue: CompletionQueueId) {
        self.note(|calls| calls.completions.push(queue));
    }

    fn event(&self, event: Event) {
        self.note(|calls| calls.events.push(event));
    }

    fn management(&self, datagram: &Management<'_>) -> Routed {
        let Management { from, bytes, deliverable, .. } = *datagram;
        self.note(|calls| calls.management.push((from, bytes[0], deliverable)));
        *self.route.lock().unwrap()
    }
}

/// A provider, a megabyte or more of memory, a completion queue for sends and one for receives.
pub struct Node {
    pub provider: Arc<dyn Provider>,
    pub recorder: Arc<Recorder>,
    pub region: MemoryRegion,
    pub sends: CompletionQueueId,
    pub receives: CompletionQueueId,
    pub memory: Memory,
}

/// Options with an address of this host that no other test uses, so that tests do not receive each
/// other's packets.
pub fn own_options() -> ProviderOptions {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let number = TAKEN.fetch_add(1, Ordering::Relaxed);
    let [.., high, low] = std::process::id().to_be_bytes();
    options(&format!("127.{high}.{low}.{}", number + 1))
}

/// A long time-out: the network loses nothing, and a busy machine may delay this process.
pub fn patient() -> Reliability {
    Reliability { timeout: fairway_ub::wire::Duration::from_us(500_000), ..Reliability::default() }
}

pub fn options(ip: &str) -> ProviderOptions {
    ProviderOptions::new(vec![ip.parse().unwrap()], 1024)
}

impl Node {
    pub fn new(options: &ProviderOptions) -> Node {
        Node::with(options, 1 << 20)
    }

    pub fn with(options: &ProviderOptions, length: usize) -> Node {
        let recorder = Recorder::new();
        let provider = open(crate::KIND, options, recorder.clone()).unwrap();
        let memory = Memory::new(length);
        let request = MemoryRequest {
            domain: DOMAIN,
            address: BASE,
            length: length as u64,
            rights: Rights::ALL,
        };
        let region = provider.register(memory.foreign(length), &request).unwrap();
        let sends = provider.create_completion_queue(256).unwrap();
        let receives = provider.create_completion_queue(256).unwrap();
        Node { provider, recorder, region, sends, receives, memory }
    }

    pub fn config(&self, transport: Transport) -> QueuePairConfig {
        QueuePairConfig {
            transport,
            domain: DOMAIN,
            send_queue: self.sends,
            receive_queue: self.receives,
            shared_receives: None,
            send_depth: 128,
            receive_depth: 128,
        }
    }

    pub fn queue_pair(&self, transport: Transport) -> Qpn {
        self.provider.create_queue_pair(&self.config(transport)).unwrap()
    }

    pub fn peer(&self, gid: Gid, queue_pair: Qpn) -> Peer {
        Peer { address: self.provider.resolve(gid).unwrap(), queue_pair }
    }

    /// Moves a queue pair through its states until it can send.
    pub fn connect(&self, number: Qpn, peer: Peer, reliability: Reliability) {
        self.connect_granting(number, peer, reliability, Rights::ALL);
    }

    /// As [`Node::connect`], but grants peers only `rights`.
    pub fn connect_granting(
        &self,
        number: Qpn,
        peer: Peer,
        reliability: Reliability,
        rights: Rights,
    ) {
        self.connect_with(number, peer, reliability, (rights, RnrTimer::from_code(1)));
    }

    /// As [`Node::connect`], with the rights of peers, and the time that they wait when a SEND
    /// finds no receive.
    pub fn connect_with(
        &self,
        number: Qpn,
        peer: Peer,
        reliability: Reliability,
        (rights, rnr_timer): (Rights, RnrTimer),
    ) {
        let init = Change::Init { rights, p_key: DEFAULT_P_KEY, q_key: Q_KEY };
        let ready = Change::ReadyToReceive {
            peer,
            mtu: self.provider.mtu(),
            expected: Psn::new(0xff_fff0),
            read_depth: 16,
            rnr_timer,
        };
        let send = Change::ReadyToSend { first: Psn::new(0xff_fff0), reliability };
        for change in [init, ready, send] {
            self.provider.modify(number, &change).unwrap();
        }
    }

    pub fn local(&self, offset: u64, length: u32) -> ScatterList {
        LocalRange { segment: self.region.segment, offset, length }.into()
    }

    /// The address of the memory as peers name it.
    pub fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { address: BASE + offset, r_key: self.region.r_key }
    }

    pub fn post(&self, number: Qpn, id: u64, work: Work, local: ScatterList) {
        let request =
            WorkRequest { id, work, local, signaled: true, solicited: false, fence: false };
        assert_eq!(self.provider.post_send(number, &[request]), (1, None));
    }

    pub fn receive(&self, number: Qpn, id: u64, offset: u64, length: u32) {
        let local = self.local(offset, length);
        assert_eq!(self.provider.post_receive(number, &[ReceiveRequest { id, local }]), (1, None));
    }

    pub fn receive_shared(&self, queue: ReceiveQueueId, id: u64, offset: u64, length: u32) {
        let local = self.local(offset, length);
        let request = ReceiveRequest { id, local };
        assert_eq!(self.provider.post_shared_receive(queue, &[request]), (1, None));
    }

    /// Polls until a queue has a completion, and returns it.
    pub fn next(&self, queue: CompletionQueueId) -> Completion {
        let start = Instant::now();
        let mut out = [Completion::EMPTY; 1];
        while self.provider.poll(queue, &mut out) == 0 {
            assert!(start.elapsed() < STUCK, "stuck: {:?}", self.provider.counters());
            std::thread::yield_now();
        }
        out[0]
    }

    /// Returns the next completion of a send, which must be number `id`.
    pub fn sent(&self, id: u64) -> Completion {
        let completion = self.next(self.sends);
        let expected = (id, Status::Success);
        let found = (completion.id, completion.status);
        assert_eq!(found, expected, "{:?}", self.provider.network_counters());
        completion
    }

    /// Waits until this node has refused so many SENDs because it had no receive.
    pub fn until_not_ready(&self, refusals: u64) {
        let start = Instant::now();
        while self.provider.counters().rnr_naks_sent < refusals {
            assert!(start.elapsed() < STUCK, "stuck: {:?}", self.provider.counters());
            std::thread::yield_now();
        }
    }

    /// Waits until the network's counters fulfil a condition.
    #[allow(dead_code)] // One provider's tests need it.
    pub fn until_counted(&self, satisfied: impl Fn(&NetworkCounters) -> bool) {
        let start = Instant::now();
        while !satisfied(&self.provider.network_counters()) {
            assert!(start.elapsed() < STUCK, "stuck: {:?}", self.provider.network_counters());
            std::thread::yield_now();
        }
    }

    pub fn received(&self, id: u64) -> Completion {
        let completion = self.next(self.receives);
        assert_eq!((completion.id, completion.status), (id, Status::Success));
        completion
    }
}

/// Two nodes, and a connection between them.
pub struct Pair {
    pub nodes: [Node; 2],
    pub pairs: [Qpn; 2],
}

impl Pair {
    pub fn new(transport: Transport, options: [ProviderOptions; 2]) -> Pair {
        Pair::with(transport, options, 1 << 20, patient())
    }

    /// Creates a pair on one address of this host.
    pub fn local(transport: Transport) -> Pair {
        let options = own_options();
        Pair::new(transport, [options.clone(), options])
    }

    pub fn with(
        transport: Transport,
        options: [ProviderOptions; 2],
        length: usize,
        reliability: Reliability,
    ) -> Pair {
        let nodes = options.map(|options| Node::with(&options, length));
        let pairs = [0, 1].map(|n: usize| nodes[n].queue_pair(transport));
        for n in 0..2 {
            let peer = nodes[n].peer(nodes[1 - n].provider.gids()[0], pairs[1 - n]);
            nodes[n].connect(pairs[n], peer, reliability);
        }
        Pair { nodes, pairs }
    }

    pub fn post(&self, n: usize, id: u64, work: Work, local: ScatterList) {
        self.nodes[n].post(self.pairs[n], id, work, local);
    }
}

/// Bytes that differ between places and between seeds.
pub fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}
