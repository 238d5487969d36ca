//! How fast the RoCEv2 carrier is on the loopback interface, next to bare UDP sockets: the round
//! trip of a WRITE of 8 bytes, and the rate of WRITEs of 64 KiB. Each side has a thread that polls.
//!
//! `cargo run --release -p fairway-softnic --example roce_speed`

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use fairway_softnic::engine::roce::{
    Change, Completion, CompletionKind, Event, MemoryRegion, MemoryRequest, Peer, QueuePairConfig,
    Reliability, RemoteAddress, Status, Transport, Work, WorkRequest,
};
use fairway_softnic::engine::wire::roce::{DEFAULT_P_KEY, RnrTimer, Tail};
use fairway_softnic::engine::wire::{Psn, Qpn};
use fairway_softnic::engine::{CompletionQueueId, LocalRange, Rights};
use fairway_softnic::verbs::{
    Carrier, CarrierKind, CarrierOptions, ForeignMemory, Listener, Management, Routed, open,
};

const ROUNDS: u64 = 100_000;
const LARGE: usize = 64 * 1024;
const LARGE_COUNT: u64 = 40_000;
const DEPTH: u64 = 32;
/// Of a packet.
const MTU: u32 = 4096;

struct Deaf;

impl Listener for Deaf {
    fn completion(&self, _: CompletionQueueId) {}
    fn event(&self, event: Event) {
        println!("{event:?}");
    }
    fn management(&self, _: &Management<'_>) -> Routed {
        Routed::Here
    }
}

struct Side {
    carrier: Arc<dyn Carrier>,
    memory: &'static [AtomicU64],
    region: MemoryRegion,
    queue: CompletionQueueId,
    pair: Qpn,
}

impl Side {
    fn new() -> Side {
        let options = CarrierOptions::new(vec!["127.0.0.1".parse().unwrap()], MTU);
        let carrier = open(CarrierKind::Roce, &options, Arc::new(Deaf)).unwrap();
        let words: Vec<AtomicU64> = (0..LARGE / 8).map(|_| AtomicU64::new(0)).collect();
        let memory: &'static [AtomicU64] = words.leak();
        // SAFETY: leaked, and only used as atomics.
        let foreign = unsafe { ForeignMemory::new(memory.as_ptr().cast_mut().cast(), LARGE) };
        let request =
            MemoryRequest { domain: 1, address: 0, length: LARGE as u64, rights: Rights::ALL };
        let region = carrier.register(foreign, &request).unwrap();
        let queue = carrier.create_completion_queue(256).unwrap();
        let config = QueuePairConfig {
            transport: Transport::Rc,
            domain: 1,
            send_queue: queue,
            receive_queue: queue,
            shared_receives: None,
            send_depth: 128,
            receive_depth: 1,
        };
        let pair = carrier.create_queue_pair(&config).unwrap();
        Side { carrier, memory, region, queue, pair }
    }

    fn connect(&self, other: &Side) {
        let address = self.carrier.resolve(other.carrier.gids()[0]).unwrap();
        let peer = Peer { address, queue_pair: other.pair };
        let (expected, rnr_timer) = (Psn::new(0), RnrTimer::from_code(1));
        for change in [
            Change::Init { rights: Rights::ALL, p_key: DEFAULT_P_KEY, q_key: 0 },
            Change::ReadyToReceive { peer, mtu: MTU, expected, read_depth: 16, rnr_timer },
            Change::ReadyToSend { first: expected, reliability: Reliability::default() },
        ] {
            self.carrier.modify(self.pair, &change).unwrap();
        }
    }

    fn write(&self, r_key: u32, length: u32, signaled: bool) {
        let request = WorkRequest {
            id: 0,
            work: Work::Write { remote: RemoteAddress { address: 0, r_key }, immediate: None },
            local: LocalRange { segment: self.region.segment, offset: 0, length }.into(),
            signaled,
            solicited: false,
            fence: false,
        };
        while self.carrier.post_send(self.pair, &[request]).0 == 0 {
            self.poll();
        }
    }

    fn poll(&self) -> u64 {
        let empty = Completion {
            id: 0,
            queue_pair: self.pair,
            status: Status::Success,
            kind: CompletionKind::Send,
            bytes: 0,
            tail: Tail::Nothing,
            value: 0,
            from: Peer { address: 0, queue_pair: self.pair },
            solicited: false,
        };
        let mut out = [empty; 16];
        let count = self.carrier.poll(self.queue, &mut out);
        assert!(out[..count].iter().all(|one| one.status == Status::Success), "{out:?}");
        count as u64
    }

    /// Adds one, and waits until the other side has, too.
    fn rounds(&self, r_key: u32, first: bool) {
        for round in 0..ROUNDS {
            let wait = |value| {
                while self.memory[0].load(Ordering::Acquire) != value {
                    self.poll();
                }
            };
            if !first {
                wait(2 * round + 1);
            }
            self.memory[0].store(2 * round + 1 + u64::from(!first), Ordering::Release);
            self.write(r_key, 8, true);
            if first {
                wait(2 * round + 2);
            }
        }
    }
}

fn main() {
    let sides = [Side::new(), Side::new()];
    sides[0].connect(&sides[1]);
    sides[1].connect(&sides[0]);
    let keys = [sides[1].region.r_key, sides[0].region.r_key];

    let bare = bare_round_trip();
    println!("round trip of 8 bytes, bare UDP: {bare:.2} us");
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| sides[1].rounds(keys[1], false));
        sides[0].rounds(keys[0], true);
    });
    let taken = start.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64;
    println!("round trip of 8 bytes, WRITE: {taken:.2} us ({:.2} of bare)", taken / bare);
    while sides.iter().map(Side::poll).sum::<u64>() > 0 {}

    let bare = bare_rate();
    println!("64 KiB, bare UDP: {bare:.2} GB/s");
    let done = AtomicBool::new(false);
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                sides[1].poll();
            }
        });
        let mut completed = 0;
        for count in 0..LARGE_COUNT {
            sides[0].write(keys[0], LARGE as u32, true);
            while count + 1 - completed >= DEPTH {
                completed += sides[0].poll();
            }
        }
        while completed < LARGE_COUNT {
            completed += sides[0].poll();
        }
        done.store(true, Ordering::Relaxed);
    });
    let rate = (LARGE_COUNT * LARGE as u64) as f64 / start.elapsed().as_secs_f64() / 1e9;
    println!("64 KiB, WRITE: {rate:.2} GB/s ({:.2} of bare)", rate / bare);
    for side in &sides {
        println!("{:?}\n{:?}", side.carrier.counters(), side.carrier.network_counters());
    }
}

fn bare_round_trip() -> f64 {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let addresses = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
    for socket in &sockets {
        socket.set_nonblocking(true).unwrap();
    }
    let receive = |socket: &UdpSocket| {
        let mut bytes = [0; 64];
        while socket.recv_from(&mut bytes).is_err() {}
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                receive(&sockets[1]);
                sockets[1].send_to(&[0; 40], addresses[0]).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            sockets[0].send_to(&[0; 40], addresses[1]).unwrap();
            receive(&sockets[0]);
        }
    });
    start.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64
}

/// Datagrams of nearly 64 KiB as fast as one thread takes them: what is lost does not count.
fn bare_rate() -> f64 {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let to = sockets[1].local_addr().unwrap();
    let done = AtomicBool::new(false);
    let received = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = vec![0; 65_536];
            sockets[1].set_nonblocking(true).unwrap();
            while !done.load(Ordering::Relaxed) {
                if let Ok(length) = sockets[1].recv(&mut bytes) {
                    received.fetch_add(length as u64, Ordering::Relaxed);
                }
            }
        });
        for _ in 0..LARGE_COUNT {
            sockets[0].send_to(&vec![0; 65_000], to).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    received.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64() / 1e9
}
