//! Small operations that a program posts one by one, and that leave together.

mod common;

use std::sync::atomic::Ordering;
use std::time::Instant;

use common::{Pair, Side, TIMEOUT, builder, engines};
use fairway::{CompletionKind, DatapathKind};

#[test]
fn operations_of_a_burst_leave_together_and_arrive_although_the_program_never_polls() {
    const ROUNDS: u64 = 60;
    let over_udp = || builder().datapath(DatapathKind::Udp);
    let pair = Pair::of(over_udp(), over_udp());
    let (client, server) = (&pair.client, &pair.server);
    let local = client.open_segment(8);
    let remote = server.open_segment(8 * 64);
    let mut posted = 0;
    for round in 1..=ROUNDS {
        local.atomic_u64(0).unwrap().store(round, Ordering::Release);
        let count = 1 + round % 50;
        for word in 0..count {
            client.jetty.write(&client.peer, &local, remote.key().at(8 * word), word).unwrap();
        }
        posted += count;
        let (last, start) = (remote.atomic_u64(8 * (count - 1)).unwrap(), Instant::now());
        while last.load(Ordering::Acquire) != round {
            assert!(start.elapsed() < TIMEOUT, "the last of {count} operations has not arrived");
            std::thread::yield_now();
        }
        for _ in 0..count {
            let _ = client.succeed();
        }
    }
    for word in 0..50 {
        assert_ne!(remote.atomic_u64(8 * word).unwrap().load(Ordering::Acquire), 0);
    }
    // Engines send on their own threads, when they are awake.
    if engines() == 1 {
        let port = client.context.counters().port;
        assert!(port.send_calls < posted * 3 / 4, "{} calls, {posted} operations", port.send_calls);
    }
}

#[test]
fn acknowledgement_of_a_message_leaves_with_the_answer() {
    const ROUNDS: u64 = 200;
    let over_udp = || builder().datapath(DatapathKind::Udp);
    let pair = Pair::of(over_udp(), over_udp());
    let (client, server) = (&pair.client, &pair.server);
    let message = client.open_segment(64);
    let inboxes = [client.open_segment(64), server.open_segment(64)];
    // One call per message, and a few more where a thread was late. A thread that waits for a core
    // answers late all the time, so not every round has to succeed.
    let mut fewest = u64::MAX;
    for _ in 0..50 {
        let before = server.context.counters().port.send_calls;
        for id in 0..ROUNDS {
            client.jetty.post_receive(&inboxes[0], id).unwrap();
            server.jetty.post_receive(&inboxes[1], id).unwrap();
            let to = [server.jetty.number(), client.jetty.number()];
            client.jetty.send(&client.peer, to[0], &message, id).unwrap();
            wait_for_receive(server);
            server.jetty.send(&server.peer, to[1], &inboxes[1], id).unwrap();
            wait_for_receive(client);
        }
        fewest = fewest.min(server.context.counters().port.send_calls - before);
        if fewest < ROUNDS * 3 / 2 {
            return;
        }
    }
    assert!(engines() > 1, "at least {fewest} calls for {ROUNDS} answers");
}

/// Takes completions until a message has arrived.
fn wait_for_receive(side: &Side) {
    while side.succeed().kind != CompletionKind::Receive {}
}
