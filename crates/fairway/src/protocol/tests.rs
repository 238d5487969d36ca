//! Tests with sockets that are full most of the time, and with packets of strangers.

mod forging;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairway_port::{Address, Arrival, Datapath, ReceiveBuffer, Sent, Train, UdpPort};

use crate::{Completion, Context, Event, Jetty, Memory, Peer, Rights, Status, TraceEntry};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A port that sends nothing, or only some packets, of most trains.
struct Stingy {
    port: UdpPort,
    random: u64,
    refused: Arc<AtomicU64>,
}

impl Stingy {
    fn draw(&mut self, choices: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % choices
    }
}

impl Datapath for Stingy {
    fn port(&self) -> &UdpPort {
        &self.port
    }

    fn port_mut(&mut self) -> &mut UdpPort {
        &mut self.port
    }

    fn transmit(
        &mut self,
        _now_ns: u64,
        _path: usize,
        socket: usize,
        to: &Address,
        train: &Train,
    ) -> io::Result<Sent> {
        let taken = match self.draw(3) {
            0 => train.len(),
            1 => self.draw(train.len() as u64) as usize,
            _ => 0,
        };
        let mut part = self.port.new_train();
        for index in 0..taken {
            let pushed = part.push(train.header(index), train.payload(index));
            pushed.expect("a part of a train is a train");
        }
        assert_eq!(self.port.send(socket, to, &part)?, Sent::All);
        if taken == train.len() {
            return Ok(Sent::All);
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Ok(Sent::Blocked { sent: taken })
    }
}

/// A port whose packets arrive while the call that receives them waits: each call begins long
/// before the packets that it returns arrive.
struct Slow(UdpPort);

/// The time between the two, in nanoseconds.
const SLOW_NS: u64 = 300_000;

impl Datapath for Slow {
    fn port(&self) -> &UdpPort {
        &self.0
    }

    fn port_mut(&mut self) -> &mut UdpPort {
        &mut self.0
    }

    fn receive<'b>(
        &mut self,
        socket: usize,
        buffer: &'b mut ReceiveBuffer,
    ) -> io::Result<Option<Arrival<'b>>> {
        let begun = fairway_runtime::clock::now();
        while fairway_runtime::clock::now().since(begun).as_ns() < SLOW_NS {
            std::hint::spin_loop();
        }
        self.0.receive(socket, buffer)
    }
}

/// Measures round trips of one-packet WRITEs. When the time of arrival was that of the poll's
/// begin, the server reported that it had delayed each packet for longer than the packet had been
/// under way.
#[test]
fn a_round_trip_is_never_shorter_than_the_call_that_received_its_echo() {
    let slow = |port| -> std::io::Result<Box<dyn Datapath>> { Ok(Box::new(Slow(port))) };
    let builder = || Context::builder().bind([127, 0, 0, 1].into()).sockets(1).paths(1);
    let (client, server) = (builder().build_on(slow).unwrap(), builder().build_on(slow).unwrap());
    let peer = client.connect(server.local_addrs()[0], TIMEOUT).unwrap();
    let local = client.register(Memory::zeroed(64).unwrap(), Rights::NONE).unwrap();
    let remote = server.register(Memory::zeroed(64).unwrap(), Rights::WRITE).unwrap();
    let jetty = client.create_jetty(Default::default()).unwrap();
    client.set_trace(1 << 12);
    for id in 0..20 {
        jetty.write(&peer, &local, remote.key(), id).unwrap();
        assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
    }
    let mut trace = Vec::new();
    client.take_trace(&mut trace);
    let samples: Vec<u64> = trace
        .iter()
        .filter_map(|record| match record.entry {
            TraceEntry::Ack { rtt, .. } => rtt.map(|rtt| rtt.as_ns()),
            _ => None,
        })
        .collect();
    assert!(!samples.is_empty(), "no round trip was measured");
    assert!(samples.iter().all(|&sample| sample >= SLOW_NS), "{samples:?}");
}

fn stingy(seed: u64, refused: &Arc<AtomicU64>) -> Context {
    let refused = refused.clone();
    let builder = Context::builder().bind([127, 0, 0, 1].into());
    let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let stingy = |port| -> std::io::Result<Box<dyn Datapath>> {
        Ok(Box::new(Stingy { port, random, refused: refused.clone() }))
    };
    builder.build_on(stingy).unwrap()
}

fn pair(seed: u64, refused: &Arc<AtomicU64>) -> (Context, Context, Peer, Jetty) {
    let (client, server) = (stingy(seed, refused), stingy(seed + 1000, refused));
    let peer = client.connect(server.local_addrs()[0], TIMEOUT).unwrap();
    assert!(matches!(server.wait_event(TIMEOUT).unwrap(), Event::Connected(_)));
    let jetty = client.create_jetty(Default::default()).unwrap();
    (client, server, peer, jetty)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect()
}

#[test]
fn full_sockets_lose_nothing() {
    let refused = Arc::new(AtomicU64::new(0));
    for seed in 0..4 {
        let (client, server, peer, jetty) = pair(seed, &refused);
        let local = client.register(Memory::from_vec(pattern(1 << 20)), Rights::NONE).unwrap();
        let back = client.register(Memory::zeroed(1 << 20).unwrap(), Rights::NONE).unwrap();
        let remote = server.register(Memory::zeroed(1 << 20).unwrap(), Rights::READ_WRITE).unwrap();
        jetty.write(&peer, &local, remote.key(), 1).unwrap();
        assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
        jetty.read(&peer, &back, remote.key(), 2).unwrap();
        assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
        assert!(back.compare(0, &pattern(1 << 20)).unwrap(), "seed {seed}");
        assert_eq!(client.counters().nic.unsendable, 0);
    }
    assert!(refused.load(Ordering::Relaxed) > 0);
}

/// Packets that wait to be sent refer to memory. It must stay mapped until they have been sent,
/// whatever else ends.
#[test]
fn memory_stays_while_packets_that_name_it_wait() {
    let refused = Arc::new(AtomicU64::new(0));
    for seed in 0..20 {
        let (client, server, peer, jetty) = pair(seed, &refused);
        let remote = server.register(Memory::zeroed(1 << 20).unwrap(), Rights::READ_WRITE).unwrap();
        let local = client.register(Memory::zeroed(1 << 20).unwrap(), Rights::NONE).unwrap();
        for id in 0..4 {
            jetty.write(&peer, &local, remote.key(), id).unwrap();
        }
        // All operations end at once, and with them the protocol's references to the memory.
        peer.close().unwrap();
        let memory = local.into_memory().unwrap();
        // The memory is unmapped: a packet that is sent from it now would show as EFAULT in the
        // counters.
        drop(memory);
        let mut done: Vec<Completion> = Vec::new();
        while done.len() < 4 {
            jetty.poll(&mut done);
        }
        client.shutdown(TIMEOUT).unwrap();
        assert_eq!(client.counters().nic.io_errors, 0, "{:?}", client.counters().last_error);
    }
}
