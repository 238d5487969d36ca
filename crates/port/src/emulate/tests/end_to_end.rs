//! Tests over the loopback interface. The time is an argument to a port, so nothing here waits for
//! a delay.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::emulate::{Datapath, Impaired, Relay, RelayConfig, Spec};
use crate::limits::REORDER_HOLD_NS;
use crate::udp::{Address, ReceiveBuffer, Sent, Train, UdpConfig, UdpPort, Waiter};
use crate::{Ecn, RawSlice};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LEN: usize = 700;

fn bind(sockets: usize) -> UdpPort {
    let config = UdpConfig { bind: LOOPBACK, first_port: 0, sockets, buffer_bytes: 4 << 20 };
    UdpPort::bind(&config).expect("bind")
}

fn spec(text: &str) -> Spec {
    text.parse().expect("specification")
}

/// Returns a packet with a number and bytes that follow from it.
fn packet(number: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..LEN).map(|i| (i as u32 * 13 + number * 7) as u8).collect();
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn load(train: &mut Train, packets: &[Vec<u8>]) {
    train.clear();
    for bytes in packets {
        let (header, payload) = bytes.split_at(20);
        // SAFETY: `packets` outlives the use of the train in these tests.
        let payload = unsafe { RawSlice::new(payload.as_ptr(), payload.len()) };
        train.push(header, payload).expect("fits");
    }
}

/// Receives packets, and checks every byte.
struct Receiver {
    port: UdpPort,
    waiter: Waiter,
    buffer: ReceiveBuffer,
    numbers: Vec<u32>,
    marked: Vec<u32>,
    from: Option<Address>,
}

impl Receiver {
    fn new(port: UdpPort) -> Self {
        let waiter = port.waiter().expect("waiter");
        let (numbers, marked) = (Vec::new(), Vec::new());
        Receiver { port, waiter, buffer: ReceiveBuffer::new(), numbers, marked, from: None }
    }

    fn address(&self) -> Address {
        self.port.local_addrs()[0].into()
    }

    /// Receives everything that has arrived.
    fn drain(&mut self) {
        while let Some(arrival) = self.port.receive(0, &mut self.buffer).expect("receive") {
            self.from = Some(*arrival.from());
            for index in 0..arrival.segments() {
                let bytes = arrival.segment(index);
                let number = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                assert_eq!(bytes, packet(number), "packet {number}");
                self.numbers.push(number);
                if arrival.ecn() == Ecn::Congested {
                    self.marked.push(number);
                }
            }
        }
    }

    /// Waits until `count` packets have arrived.
    fn await_count(&mut self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut ready = Vec::new();
        while self.numbers.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{} of {count} packets came", self.numbers.len());
            self.waiter.wait(Some(left), &mut ready).expect("wait");
            self.drain();
        }
    }
}

struct Bench {
    sender: Impaired,
    receiver: Receiver,
    to: Address,
    train: Train,
}

impl Bench {
    fn new(text: &str) -> Self {
        let receiver = Receiver::new(bind(1));
        let sender = Impaired::new(bind(1), &spec(text), 42, 0);
        let train = sender.port().new_train();
        let to = receiver.address();
        Bench { sender, receiver, to, train }
    }

    /// Receives everything that the port has sent so far.
    fn catch_up(&mut self) {
        let sent = self.sender.port().counters().packets_sent;
        self.receiver.await_count(sent as usize);
    }

    /// Sends packets `first..first + count` in one train.
    fn send(&mut self, now_ns: u64, first: u32, count: u32) {
        let packets: Vec<_> = (first..first + count).map(packet).collect();
        load(&mut self.train, &packets);
        let sent = self.sender.transmit(now_ns, 0, 0, &self.to, &self.train).expect("send");
        assert_eq!(sent, Sent::All);
    }
}

#[test]
fn loss_takes_packets_out_and_leaves_trains_whole() {
    let mut bench = Bench::new("loss=5%");
    for round in 0..50 {
        bench.send(0, round * 40, 40);
        bench.catch_up();
    }
    let lost = bench.sender.counters().model.lost;
    assert!((50..150).contains(&lost), "{lost} lost");
    assert_eq!(bench.receiver.numbers.len() as u64, 2000 - lost);
    assert!(bench.receiver.numbers.is_sorted());
    assert_eq!(bench.sender.port().counters().send_calls, 50);
    assert_eq!(bench.sender.next_release_ns(), None);
}

#[test]
fn reordering_keeps_its_bound_and_every_packet_and_few_calls() {
    let mut bench = Bench::new("reorder=64");
    for round in 0..50 {
        bench.send(u64::from(round), round * 40, 40);
        bench.catch_up();
    }
    // No packet overtakes the last ones, so they are released by time.
    let due = bench.sender.next_release_ns().expect("some are held");
    assert!(due >= REORDER_HOLD_NS);
    bench.sender.release_due(due + 1000).expect("release");
    bench.catch_up();
    assert_eq!(bench.sender.next_release_ns(), None);
    assert_eq!(bench.sender.counters().held_bytes, 0);

    let numbers = &bench.receiver.numbers;
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..2000).collect::<Vec<u32>>());
    // No packet is overtaken by one that was sent more than 64 packets after it.
    let mut newest = 0;
    let mut displaced = 0;
    for &number in numbers {
        newest = newest.max(number);
        assert!(newest - number <= 64, "{number} after {newest}");
        displaced += u32::from(newest > number);
    }
    assert!(displaced > 200, "{displaced} displaced");
    let calls = bench.sender.port().counters().send_calls;
    assert!(calls <= 60, "{calls} calls for 50 trains");
}

#[test]
fn delay_holds_packets_until_their_time() {
    let mut bench = Bench::new("delay=50us");
    bench.send(1000, 0, 10);
    bench.send(2000, 10, 10);
    bench.catch_up();
    assert_eq!(bench.receiver.numbers, [0u32; 0]);
    assert_eq!(bench.sender.next_release_ns(), Some(51_000));
    bench.sender.release_due(50_999).expect("release");
    bench.catch_up();
    assert_eq!(bench.receiver.numbers, [0u32; 0]);
    bench.sender.release_due(51_000).expect("release");
    bench.catch_up();
    assert_eq!(bench.receiver.numbers, (0..10).collect::<Vec<u32>>());
    assert_eq!(bench.sender.next_release_ns(), Some(52_000));
    bench.sender.release_due(60_000).expect("release");
    bench.catch_up();
    assert_eq!(bench.receiver.numbers, (0..20).collect::<Vec<u32>>());
    assert_eq!(bench.sender.port().counters().send_calls, 2);
    assert_eq!(bench.sender.next_release_ns(), None);
}

#[test]
fn copies_arrive_twice_and_marks_are_seen() {
    let mut bench = Bench::new("dup=100%");
    bench.send(0, 0, 3);
    bench.catch_up();
    assert_eq!(bench.receiver.numbers, [0, 0, 1, 1, 2, 2]);

    let mut bench = Bench::new("rate=8G,ecn=2100");
    bench.send(0, 0, 6);
    bench.sender.release_due(1_000_000).expect("release");
    bench.catch_up();
    assert_eq!(bench.receiver.numbers, [0, 1, 2, 3, 4, 5]);
    assert_eq!(bench.receiver.marked, [3, 4, 5]);
}

#[test]
fn everything_at_once_delivers_what_the_model_let_through() {
    let text = "delay=20us,jitter=5us,loss=3%,dup=3%,reorder=16,rate=10G,queue=1M,ecn=20K";
    let mut bench = Bench::new(text);
    let mut now_ns = 0;
    for round in 0..200 {
        bench.send(now_ns, round * 30, 30);
        now_ns += 20_000;
        bench.sender.release_due(now_ns).expect("release");
        bench.catch_up();
    }
    while let Some(due) = bench.sender.next_release_ns() {
        bench.sender.release_due(due).expect("release");
        bench.catch_up();
    }
    let counters = bench.sender.counters();
    let model = counters.model;
    let expected = model.offered - model.lost - model.overflowed + model.duplicated;
    assert_eq!(model.offered, 6000);
    assert_eq!(bench.receiver.numbers.len() as u64, expected);
    assert_eq!((counters.unheld, counters.refused, counters.held_bytes), (0, 0, 0));
    assert_eq!(bench.receiver.numbers.iter().max(), Some(&5999));
}

#[test]
fn a_clean_path_beside_a_bad_one_stays_clean() {
    let mut bench = Bench::new("1:loss=100%");
    bench.send(0, 0, 20);
    bench.catch_up();
    assert_eq!(bench.receiver.numbers, (0..20).collect::<Vec<u32>>());
    let packets: Vec<_> = (0..20).map(packet).collect();
    load(&mut bench.train, &packets);
    bench.sender.transmit(0, 1, 0, &bench.to, &bench.train).expect("send");
    bench.catch_up();
    assert_eq!(bench.receiver.numbers.len(), 20);
    assert_eq!(bench.sender.counters().model.lost, 20);
}

/// A relay on a separate thread, stopped and joined at the end.
struct Running {
    stop: Arc<AtomicBool>,
    bell: crate::Doorbell,
    thread: std::thread::JoinHandle<Relay>,
}

fn start(targets: &[SocketAddr], text: &str, flows_max: usize) -> (Running, Vec<SocketAddr>) {
    let routes = targets.iter().map(|to| (SocketAddr::new(LOOPBACK, 0), *to)).collect();
    let mut relay = Relay::bind(RelayConfig {
        routes,
        spec: spec(text),
        seed: 9,
        flows_max,
        idle_after: Duration::from_secs(600),
        buffer_bytes: 4 << 20,
    })
    .expect("bind");
    let addresses = relay.local_addrs().to_vec();
    let stop = Arc::new(AtomicBool::new(false));
    let bell = relay.doorbell();
    let seen = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        relay.run(&seen).expect("run");
        relay
    });
    (Running { stop, bell, thread }, addresses)
}

impl Running {
    fn stop(self) -> Relay {
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
        self.thread.join().expect("the relay's thread")
    }
}

#[test]
fn a_relay_carries_trains_and_congestion_bits_both_ways() {
    let mut server = Receiver::new(bind(1));
    let mut client = Receiver::new(bind(1));
    let target = server.port.local_addrs()[0];
    let (relay, addresses) = start(&[target], "delay=20us,jitter=10us", 8);
    let mut train = client.port.new_train();
    for (round, ecn) in [Ecn::Capable, Ecn::Congested, Ecn::NotCapable].into_iter().enumerate() {
        let first = 40 * round as u32;
        let packets: Vec<_> = (first..first + 40).map(packet).collect();
        load(&mut train, &packets);
        train.set_ecn(ecn);
        client.port.send(0, &addresses[0].into(), &train).expect("send");
        server.await_count(40 * (round + 1));
        // Sends the packets back to their sender.
        let back = server.from.expect("a sender");
        server.port.send(0, &back, &train).expect("answer");
        client.await_count(40 * (round + 1));
    }
    for side in [&server, &client] {
        assert_eq!(side.numbers, (0..120).collect::<Vec<u32>>());
        assert_eq!(side.marked, (40..80).collect::<Vec<u32>>());
        assert!(side.port.counters().receive_calls < 100, "trains stay together");
    }
    let counters = relay.stop().counters();
    assert_eq!((counters.forward, counters.backward), (120, 120));
    assert_eq!((counters.strays, counters.turned_away, counters.refused), (0, 0, 0));
}

#[test]
fn relay_distinguishes_routes_and_clients() {
    // Path numbers are route + 2 x client. Client 0 loses route 1, client 1 loses route 0.
    let mut servers = [Receiver::new(bind(1)), Receiver::new(bind(1))];
    let targets = [servers[0].port.local_addrs()[0], servers[1].port.local_addrs()[0]];
    let (relay, addresses) = start(&targets, "1:loss=100%;2:loss=100%", 3);
    let mut clients = [bind(1), bind(1)];
    let mut train = clients[0].new_train();
    for (client, route) in [(0, 0), (1, 1)] {
        let packets = [packet(client as u32 * 100 + route as u32)];
        load(&mut train, &packets);
        clients[client].send(0, &addresses[route].into(), &train).expect("send");
        servers[route].await_count(1);
    }
    // Packets of lost paths are sent first, then ones that pass: when those have arrived, the lost
    // ones have been decided. The fourth pair of client and route finds the table full.
    for (client, route) in [(0, 1), (0, 0), (1, 0), (1, 1)] {
        let packets = [packet(1000 + client as u32 * 100 + route as u32)];
        load(&mut train, &packets);
        clients[client].send(0, &addresses[route].into(), &train).expect("send");
    }
    servers[0].await_count(2);
    servers[1].await_count(2);
    let counters = relay.stop().counters();
    assert_eq!(servers[0].numbers, [0, 1000]);
    assert_eq!(servers[1].numbers, [101, 1101]);
    assert!(counters.turned_away <= 1 && counters.paths.model.lost <= 1);
    assert_eq!(counters.strays, 0);
}
