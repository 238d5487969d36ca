//! Code that the live tests share.
#![allow(dead_code)] // Every test file uses some of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use fairway::{
    Builder, Completion, Context, Event, Jetty, JettyOptions, Memory, Peer, Profile, Rights,
    Segment, Status,
};
use fairway_wire as wire;

/// A time-out far longer than any step takes: a test that reaches it has hung.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Payload bytes of a packet on loopback by default.
pub const MTU: u32 = 8856;

/// A builder on loopback with small buffers.
pub fn builder() -> Builder {
    builder_on(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// A builder on IPv6 loopback with small buffers.
pub fn builder_v6() -> Builder {
    builder_on(IpAddr::V6(Ipv6Addr::LOCALHOST))
}

/// Number of engines that the environment requests for contexts. All guarantees hold for any
/// number; tests that check how a single engine is driven query it first.
pub fn engines() -> usize {
    std::env::var("FAIRWAY_TEST_ENGINES").map_or(1, |text| text.parse().unwrap())
}

/// Builds with that many engines. Operations use every channel of a group in turn.
fn builder_on(address: IpAddr) -> Builder {
    let profile = Profile::new().group_slack(0);
    Context::builder().bind(address).buffer_bytes(1 << 20).engines(engines()).profile(profile)
}

/// A profile under which a peer that is silent for `ms` milliseconds is declared dead.
pub fn dead_after(ms: u64) -> Profile {
    Profile::new()
        .keep_alive(wire::Duration::from_ms(ms / 6))
        .peer_dead(wire::Duration::from_ms(ms))
}

/// One side of a connection.
pub struct Side {
    pub context: Context,
    pub peer: Peer,
    pub jetty: Jetty,
}

/// Two contexts, connected.
pub struct Pair {
    pub client: Side,
    pub server: Side,
}

impl Pair {
    /// Neither side's threads poll while nothing happens: keep-alive messages and coarse timers are
    /// some polls in the second that this waits, and a thread that spins makes half a million.
    pub fn assert_idle(&self) {
        let polls = |side: &Side| side.context.counters().nic.polls;
        let before = (polls(&self.client), polls(&self.server));
        std::thread::sleep(Duration::from_secs(1));
        let since = (polls(&self.client) - before.0, polls(&self.server) - before.1);
        assert!(since.0 < 2000 && since.1 < 2000, "{since:?} polls in a second");
    }

    pub fn new() -> Pair {
        Pair::of(builder(), builder())
    }

    pub fn of(client: Builder, server: Builder) -> Pair {
        let server = server.build().unwrap();
        let client = client.build().unwrap();
        let peer = client.connect(server.local_addrs()[0], TIMEOUT).unwrap();
        let Event::Connected(back) = server.wait_event(TIMEOUT).unwrap() else {
            panic!("something happened before the connection");
        };
        Pair { client: side(client, peer), server: side(server, back) }
    }
}

pub fn side(context: Context, peer: Peer) -> Side {
    let jetty = context.create_jetty(JettyOptions::default()).unwrap();
    Side { context, peer, jetty }
}

impl Side {
    /// A segment that peers may read and write.
    pub fn open_segment(&self, length: usize) -> Segment {
        self.segment(length, Rights::READ_WRITE)
    }

    pub fn segment(&self, length: usize, rights: Rights) -> Segment {
        self.context.register(Memory::zeroed(length).unwrap(), rights).unwrap()
    }

    /// A segment of pseudo-random bytes.
    pub fn filled(&self, length: usize, seed: u64) -> Segment {
        let memory = Memory::from_vec(bytes(length, seed));
        self.context.register(memory, Rights::READ_WRITE).unwrap()
    }

    pub fn wait(&self) -> Completion {
        self.jetty.wait(TIMEOUT).unwrap()
    }

    /// Waits for the next completion, which must be a success.
    pub fn succeed(&self) -> Completion {
        let completion = self.wait();
        assert_eq!(completion.status, Status::Success, "{completion:?}");
        completion
    }
}

/// The next event of a context that is not about a path: on a busy host, a path may go out of use
/// and come back at any time.
pub fn event_of_peer(context: &Context) -> Event {
    loop {
        match context.wait_event(TIMEOUT).unwrap() {
            Event::PathDown { .. } | Event::PathUp { .. } => {}
            event => return event,
        }
    }
}

/// Pseudo-random bytes.
pub fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// The whole content of a segment.
pub fn content(segment: &Segment) -> Vec<u8> {
    let mut bytes = vec![0; segment.len() as usize];
    segment.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Executes each kind of operation and compares all bytes.
pub fn exercise(pair: &Pair) {
    let (client, server) = (&pair.client, &pair.server);
    let length = (1 << 20) + 17;
    let local = client.filled(length, 1);
    let remote = server.open_segment(length);
    client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
    let _ = client.succeed();
    assert!(remote.compare(0, &content(&local)).unwrap());
    let back = client.open_segment(length);
    client.jetty.read(&client.peer, &back, remote.key(), 2).unwrap();
    let _ = client.succeed();
    assert!(back.compare(0, &content(&local)).unwrap());

    let inbox = server.open_segment(5000);
    server.jetty.post_receive(&inbox, 3).unwrap();
    let to = server.jetty.number();
    client.jetty.send(&client.peer, to, local.slice(0..5000), 4).unwrap();
    let _ = client.succeed();
    assert_eq!(server.succeed().bytes, 5000);
    assert!(inbox.compare(0, &bytes(length, 1)[..5000]).unwrap());

    let words = server.segment(64, Rights::ALL);
    let word = words.key().at(8).word64();
    for round in 0..100 {
        client.jetty.fetch_add(&client.peer, word, 1, round).unwrap();
        assert_eq!(client.succeed().value, round);
    }
}
