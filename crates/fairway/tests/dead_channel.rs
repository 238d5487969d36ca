//! A connection of several channels, one of which dies.

mod common;
#[path = "common/relay.rs"]
mod relay;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use common::{Pair, TIMEOUT, bytes, content, dead_after, side};
use fairway::{Builder, Context, Event};
use relay::relay;

/// Time from the start of the relay until the channel dies.
const BEGIN: Duration = Duration::from_millis(1500);
/// Clients' ports that may appear, those of set-up included.
const PORTS_MAX: usize = 64;

/// The emulated network in which, from [`BEGIN`] on, everything from and to the ports in `dead`, of
/// `ports`, is lost.
fn losses(ports: usize, dead: std::ops::Range<usize>) -> String {
    let paths = (0..PORTS_MAX).flat_map(|client| dead.clone().map(move |port| (client, port)));
    let begin = BEGIN.as_millis();
    let part = |(client, port)| format!("{}:blackhole@{begin}ms..1000s", client * ports + port);
    paths.map(part).collect::<Vec<_>>().join(";")
}

fn spread() -> Builder {
    let profile = dead_after(600).group_slack(0);
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Context::builder().bind(address).buffer_bytes(1 << 20).engines(2).profile(profile)
}

/// True if the context has reported that a channel is dead, which has to be this one.
fn has_lost(context: &Context, channel: u32) -> bool {
    let mut lost = false;
    for event in context.poll_events() {
        match event {
            Event::ChannelDead { channel: dead, .. } => {
                assert_eq!(dead, channel);
                lost = true;
            }
            Event::PathDown { .. } | Event::PathUp { .. } => {}
            event => panic!("{event:?}"),
        }
    }
    lost
}

/// WRITEs and READs go on when either channel dies, and bring the bytes that they have to.
#[test]
fn writes_and_reads_go_on_when_a_channel_dies() {
    for dead in 0..2_u32 {
        let server = spread().build().unwrap();
        let ports = server.local_addrs();
        let each = ports.len() / 2;
        let begun = Instant::now();
        let first = dead as usize * each;
        let _running = relay(&ports, &losses(ports.len(), first..first + each));
        let front = SocketAddr::from(([127, 0, 0, 2], ports[0].port()));
        let client = spread().build().unwrap();
        let peer = client.connect(front, TIMEOUT).unwrap();
        let Event::Connected(back) = server.wait_event(TIMEOUT).unwrap() else {
            panic!("something happened before the connection");
        };
        let pair = Pair { client: side(client, peer), server: side(server, back) };
        assert_eq!(pair.client.peer.stats().channels, 2);
        assert!(begun.elapsed() < BEGIN, "the host is too slow for this test");
        let (mut lost, mut rounds_after) = ([false; 2], 0);
        let mut round = 0;
        while rounds_after < 20 {
            assert!(begun.elapsed() < BEGIN + TIMEOUT, "channel {dead} was not found dead");
            exchange(&pair, round);
            lost[0] |= has_lost(&pair.client.context, dead);
            lost[1] |= has_lost(&pair.server.context, dead);
            rounds_after += u32::from(lost == [true; 2]);
            round += 1;
        }
        assert!(begun.elapsed() >= BEGIN, "nothing was lost before");
        assert!(pair.client.peer.is_alive() && pair.server.peer.is_alive());
    }
}

/// Writes to the peer, in pieces by both channels, and reads from it. All have to succeed.
fn exchange(pair: &Pair, round: u64) {
    const LENGTH: usize = 200_000;
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(LENGTH, round);
    let remote = server.open_segment(LENGTH);
    let theirs = server.filled(LENGTH, round + 1_000_000);
    let back = client.open_segment(LENGTH);
    for piece in 0..10 {
        let range = piece * 20_000..(piece + 1) * 20_000;
        let to = remote.key().at(range.start);
        client.jetty.write(&client.peer, local.slice(range.clone()), to, piece).unwrap();
        let from = theirs.key().at(range.start);
        client.jetty.read(&client.peer, back.slice(range), from, 100 + piece).unwrap();
    }
    for _ in 0..20 {
        let _ = client.succeed();
    }
    assert!(content(&remote) == bytes(LENGTH, round), "round {round}: what was written is wrong");
    assert!(content(&back) == content(&theirs), "round {round}: what was read is wrong");
}
