//! Reaction times of a side to incoming packets, measured on live traffic.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use common::{Pair, TIMEOUT, builder};
use fairway::{Context, ControlLatency, LatencySample, Memory, Profile, Rights, Spec};

const ROOM: usize = 1 << 16;
const SIZE: usize = 300_000;
const WRITES: u64 = 40;

/// Returns the measurements once there are enough: acknowledgements are sent before they are
/// recorded.
fn taken(context: &Context, is_enough: impl Fn(&ControlLatency) -> bool) -> ControlLatency {
    let (mut found, begun) = (ControlLatency::default(), Instant::now());
    loop {
        context.take_control_latency(&mut found);
        if is_enough(&found) {
            return found;
        }
        assert!(begun.elapsed() < TIMEOUT, "never enough: {found:?}");
    }
}

/// Executes WRITEs one after the other, each of which its receiver acknowledges at least once.
fn exercise(pair: &Pair) {
    let (from, to) = (pair.client.filled(SIZE, 1), pair.server.open_segment(SIZE));
    for id in 0..WRITES {
        pair.client.jetty.write(&pair.client.peer, &from, to.key(), id).unwrap();
        let _ = pair.client.succeed();
    }
}

/// Returns the measurements of both sides, and the nanoseconds that they took. Waits for the
/// client's until there are enough.
fn measured(pair: &Pair, is_enough: impl Fn(u64, u64) -> bool) -> ([ControlLatency; 2], u64) {
    let start = Instant::now();
    exercise(pair);
    let client = taken(&pair.client.context, |found| {
        is_enough(found.decisions.len() as u64, pair.client.context.counters().engine.acks_reported)
    });
    let server = taken(&pair.server.context, |found| found.turn_rounds.len() as u64 >= WRITES);
    ([client, server], start.elapsed().as_nanos() as u64)
}

/// Checks that each delay begins in the kernel, continues in the receiving call, and ends within
/// the test.
fn check(delays: &[LatencySample], took: u64) {
    for delay in delays {
        assert!(delay.since_kernel_ns >= delay.since_call_ns, "{delay:?}");
        assert!(delay.since_call_ns > 0, "{delay:?}");
        assert!(u64::from(delay.since_kernel_ns) < took, "{delay:?} of {took}");
    }
}

#[test]
fn inline_controllers_decide_about_every_acknowledgement() {
    let pair =
        Pair::of(builder().measure_control_latency(ROOM), builder().measure_control_latency(ROOM));
    let every = |decided, reported| decided > 0 && decided == reported;
    let ([client, server], took) = measured(&pair, every);
    let counters = pair.client.context.counters().engine;
    assert!(counters.acks_reported <= counters.acks_received);
    check(&client.decisions, took);
    // There is one sample per run of packets: at least one per WRITE, and at most one per packet.
    let runs = server.turn_rounds.len() as u64;
    let packets = pair.server.context.counters().engine.data_received;
    assert!((WRITES..=packets).contains(&runs), "{runs} runs of {packets} packets");
    check(&server.turn_rounds, took);
    for side in [client, server] {
        assert_eq!((side.dropped, side.unstamped), (0, 0));
    }
}

#[test]
fn controllers_on_their_own_thread_decide_later() {
    let both = || builder().measure_control_latency(ROOM).control_threads(1);
    let pair = Pair::of(both(), both());
    let ([client, server], took) = measured(&pair, |decided, _| decided > 0);
    let reported = pair.client.context.counters().engine.acks_reported;
    let decided = client.decisions.len() as u64;
    assert!(decided <= reported, "{decided} of {reported}");
    check(&client.decisions, took);
    check(&server.turn_rounds, took);
}

#[test]
fn control_latency_is_measured_despite_loss_and_reordering() {
    let spec: Spec = "loss=2%,reorder=8".parse().unwrap();
    let both = |seed| builder().measure_control_latency(ROOM).emulate(spec.clone(), seed);
    let pair = Pair::of(both(3), both(4));
    let ([client, server], took) = measured(&pair, |decided, reported| decided == reported);
    check(&client.decisions, took);
    check(&server.turn_rounds, took);
}

/// Acknowledgements that a server sends per poll that receives data, if one covers at most `every`
/// packets. No thread drives but this one.
fn acknowledged_per_poll(every: u32) -> f64 {
    let make = || {
        let profile = Profile::new().acknowledge_every(every);
        builder().engines(1).paths(1).progress_thread(false).profile(profile).build().unwrap()
    };
    let (server, client) = (make(), make());
    let is_connected = AtomicBool::new(false);
    let peer = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_connected.load(Ordering::Acquire) {
                server.poll();
            }
        });
        let peer = client.connect(server.local_addrs()[0], TIMEOUT);
        is_connected.store(true, Ordering::Release);
        peer.unwrap()
    });
    let client = common::side(client, peer);
    let from = client.filled(SIZE, 1);
    let to = server.register(Memory::zeroed(SIZE).unwrap(), Rights::ALL).unwrap();
    let before = server.counters().engine.acks_sent;
    let (mut polls, mut received, mut completions) = (0_u32, 0, Vec::new());
    for id in 0..WRITES {
        client.jetty.write(&client.peer, &from, to.key(), id).unwrap();
        while completions.is_empty() {
            server.poll();
            let data = server.counters().engine.data_received;
            polls += u32::from(std::mem::replace(&mut received, data) < data);
            client.jetty.poll(&mut completions);
        }
        completions.drain(..).for_each(|done| assert!(done.result().is_ok()));
    }
    (server.counters().engine.acks_sent - before) as f64 / f64::from(polls)
}

/// A poll receives by several calls, and each may bring packets enough for an acknowledgement.
#[test]
fn an_acknowledgement_of_enough_packets_does_not_wait_for_the_end_of_a_poll() {
    // A WRITE has 34 packets, so one path has about one acknowledgement a poll.
    let (rarely, often) = (acknowledged_per_poll(64), acknowledged_per_poll(4));
    assert!(often > 1.5 * rarely, "{rarely} and {often} acknowledgements a poll");
}

#[test]
fn nothing_is_measured_unless_requested() {
    let pair = Pair::of(builder(), builder().measure_control_latency(3));
    exercise(&pair);
    let client = taken(&pair.client.context, |_| true);
    assert!(client.decisions.is_empty() && client.turn_rounds.is_empty());
    // The server has room for three samples only.
    let server = taken(&pair.server.context, |_| true);
    assert_eq!(server.turn_rounds.len(), 3);
    assert!(server.dropped > 0);
}
