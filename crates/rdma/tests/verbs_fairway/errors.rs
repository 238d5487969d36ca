//! Failing operations, their status, and the effect on others.

use crate::node::{Node, Pair, content, options, own_options, patient};
use fairway_roce::{
    Change, Event, QueuePairState, Reliability, RemoteAddress, Status, Transport, Work,
};
use fairway_ub::wire::roce::{RnrTimer, Tail};
use fairway_ub::{LocalRange, Rights};

const SEND: Work = Work::Send { tail: Tail::Nothing };

/// Posts `work` between two WRITEs, and checks the status of its completion.
fn demand_refused(work: impl Fn(&Pair) -> Work, length: u32, status: Status) {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    there.receive(pair.pairs[1], 70, 0, 16);
    let write = Work::Write { remote: there.remote(0), immediate: None };
    pair.post(0, 1, write, here.local(0, 8));
    let work = work(&pair);
    pair.post(0, 2, work, here.local(0, length));
    pair.post(0, 3, write, here.local(0, 8));
    pair.post(0, 4, SEND, here.local(0, 8));
    here.sent(1);
    for (id, status) in [(2, status), (3, Status::Flushed), (4, Status::Flushed)] {
        let done = here.next(here.sends);
        assert_eq!((done.id, done.status), (id, status), "{work:?}");
    }
    assert_eq!(here.provider.state(pair.pairs[0]), Some(QueuePairState::Error));
    here.recorder.event(Event::Fault { queue_pair: pair.pairs[0], status });
    // Operations posted now complete at once.
    pair.post(0, 5, SEND, here.local(0, 8));
    let done = here.next(here.sends);
    assert_eq!((done.id, done.status), (5, Status::Flushed));
    // The queue pair can be used again after a reset.
    here.provider.modify(pair.pairs[0], &Change::Reset).unwrap();
    assert_eq!(here.provider.state(pair.pairs[0]), Some(QueuePairState::Reset));
}

#[test]
fn accesses_without_rights_are_refused() {
    let wrong_key = |pair: &Pair| {
        let remote = pair.nodes[1].remote(0);
        RemoteAddress { r_key: remote.r_key ^ 1, ..remote }
    };
    let beyond = |pair: &Pair| pair.nodes[1].remote((1 << 20) - 7);
    let access = Status::RemoteAccess;
    let write = |remote| Work::Write { remote, immediate: None };
    demand_refused(|pair| write(wrong_key(pair)), 8, access);
    demand_refused(|pair| write(beyond(pair)), 8, access);
    demand_refused(|pair| Work::Read { remote: wrong_key(pair) }, 8, access);
    demand_refused(|pair| Work::FetchAdd { remote: wrong_key(pair), add: 1 }, 8, access);
    let misaligned = |pair: &Pair| pair.nodes[1].remote(4);
    let invalid = Status::RemoteInvalidRequest;
    demand_refused(|pair| Work::FetchAdd { remote: misaligned(pair), add: 1 }, 8, invalid);
    // The message is longer than the receive.
    demand_refused(|_| SEND, 24, invalid);
}

#[test]
fn local_bytes_that_are_not_registered_are_an_error_in_their_turn() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let write = Work::Write { remote: there.remote(0), immediate: None };
    pair.post(0, 1, write, here.local(0, 100_000));
    let beyond = LocalRange { segment: here.region.segment, offset: 1 << 20, length: 1 };
    pair.post(0, 2, write, beyond.into());
    pair.post(0, 3, write, here.local(0, 8));
    here.sent(1);
    for (id, status) in [(2, Status::LocalProtection), (3, Status::Flushed)] {
        let done = here.next(here.sends);
        assert_eq!((done.id, done.status), (id, status));
    }
}

#[test]
fn send_to_a_receiver_not_ready_is_retried_as_often_as_agreed() {
    let patient = Pair::local(Transport::Rc);
    let [here, there] = &patient.nodes;
    patient.post(0, 1, SEND, here.local(0, 8));
    // The refusal is under way; once it has arrived, a receive is posted.
    there.until_not_ready(20);
    there.receive(patient.pairs[1], 2, 0, 8);
    there.received(2);
    here.sent(1);

    let reliability = Reliability { rnr_retries: 2, ..Reliability::default() };
    let local = || options("127.0.0.1");
    let pair = Pair::with(Transport::Rc, [local(), local()], 1 << 20, reliability);
    let [here, _] = &pair.nodes;
    pair.post(0, 1, SEND, here.local(0, 8));
    pair.post(0, 2, SEND, here.local(0, 8));
    for (id, status) in [(1, Status::RnrRetryExceeded), (2, Status::Flushed)] {
        let done = here.next(here.sends);
        assert_eq!((done.id, done.status), (id, status));
    }
}

/// An adapter tries once more after 123 ms here; this provider tries much more often in that time.
#[test]
fn few_retries_last_as_long_as_the_timer_says() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let reliability = Reliability { rnr_retries: 1, ..Reliability::default() };
    for (n, node) in pair.nodes.iter().enumerate() {
        node.provider.modify(pair.pairs[n], &Change::Reset).unwrap();
        let peer = node.peer(pair.nodes[1 - n].provider.gids()[0], pair.pairs[1 - n]);
        let settings = (Rights::ALL, RnrTimer::from_code(27));
        node.connect_with(pair.pairs[n], peer, reliability, settings);
    }
    pair.post(0, 1, SEND, here.local(0, 8));
    there.until_not_ready(100);
    there.receive(pair.pairs[1], 2, 0, 8);
    there.received(2);
    here.sent(1);
}

#[test]
fn a_peer_that_is_gone_is_noticed() {
    let Pair { nodes: [here, there], pairs } = Pair::local(Transport::Rc);
    let write = Work::Write { remote: there.remote(0), immediate: None };
    here.post(pairs[0], 1, write, here.local(0, 100));
    here.sent(1);
    here.receive(pairs[0], 9, 0, 8);
    // The peer sends a close; a peer that dies without one is declared dead later, with the same
    // status.
    drop(there);
    let begun = std::time::Instant::now();
    here.post(pairs[0], 2, SEND, here.local(0, 8));
    here.post(pairs[0], 3, SEND, here.local(0, 8));
    for (id, status) in [(2, Status::RetryExceeded), (3, Status::Flushed)] {
        let done = here.next(here.sends);
        assert_eq!((done.id, done.status), (id, status));
    }
    // The error comes no earlier than an adapter would have given up, because programs end
    // connections in that time.
    let Reliability { timeout, retries, .. } = Reliability::default();
    let given = timeout.as_ns() * (u64::from(retries) + 1);
    assert!(begun.elapsed().as_nanos() >= u128::from(given), "{:?}", begun.elapsed());
    let done = here.next(here.receives);
    assert_eq!((done.id, done.status), (9, Status::Flushed));
}

#[test]
fn the_error_state_flushes_in_order_and_the_reset_state_forgets() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    for id in 0..20 {
        here.receive(pair.pairs[0], id, 0, 8);
        pair.post(0, id, SEND, here.local(0, 20_000));
    }
    here.provider.modify(pair.pairs[0], &Change::Error).unwrap();
    for queue in [here.sends, here.receives] {
        for id in 0..20 {
            let done = here.next(queue);
            assert_eq!((done.id, done.status), (id, Status::Flushed));
        }
    }
    there.receive(pair.pairs[1], 1, 0, 8);
    there.provider.modify(pair.pairs[1], &Change::Reset).unwrap();
    // Both are reset, and no completion from before is reported.
    here.provider.modify(pair.pairs[0], &Change::Reset).unwrap();
    let both = pair.pairs;
    for (n, node) in pair.nodes.iter().enumerate() {
        let peer = node.peer(pair.nodes[1 - n].provider.gids()[0], both[1 - n]);
        node.connect(both[n], peer, Reliability::default());
    }
    let bytes = content(1, 5000);
    here.memory.write(0, &bytes);
    for id in 100..110 {
        there.receive(both[1], id, 1000, 5000);
        pair.post(0, id, SEND, here.local(0, 5000));
        here.sent(id);
        there.received(id);
        assert_eq!(there.memory.read(1000, 5000), bytes);
    }
}

#[test]
fn memory_may_be_deregistered_while_it_is_in_use() {
    for round in 0..20 {
        let pair = Pair::local(Transport::Rc);
        let [here, there] = &pair.nodes;
        for id in 0..11 {
            there.receive(pair.pairs[1], id, 0, 1 << 20);
        }
        let works = [
            Work::Write { remote: there.remote(0), immediate: None },
            Work::Read { remote: there.remote(0) },
            SEND,
        ];
        let work = works[round % 3];
        for id in 0..10 {
            pair.post(0, id, work, here.local(0, 900_000));
        }
        let node = [here, there][round % 2];
        node.provider.deregister(node.region.segment).unwrap();
        // All operations under way may have completed before the end was noticed.
        let done = loop {
            pair.post(0, 10, work, here.local(0, 900_000));
            let done = here.next(here.sends);
            if done.status != Status::Success {
                break done;
            }
        };
        let expected = [Status::LocalProtection, Status::RemoteAccess, Status::RemoteOperation];
        let late = [Status::RetryExceeded, Status::RnrRetryExceeded];
        assert!(expected.contains(&done.status) || late.contains(&done.status), "{done:?}");
    }
}

#[test]
fn a_queue_pair_may_be_destroyed_in_the_middle() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    for round in 0..50_u64 {
        let both = [here.queue_pair(Transport::Rc), there.queue_pair(Transport::Rc)];
        for (n, node) in pair.nodes.iter().enumerate() {
            let peer = node.peer(pair.nodes[1 - n].provider.gids()[0], both[1 - n]);
            node.connect(both[n], peer, Reliability::default());
        }
        for id in 0..10 {
            there.receive(both[1], id, 500_000, 100_000);
            let read = Work::Read { remote: there.remote(0) };
            here.post(both[0], id, read, here.local(200_000, 100_000));
            here.post(both[0], id, SEND, here.local(0, 100_000));
        }
        let destroyed = [here, there][round as usize % 2];
        destroyed.provider.destroy_queue_pair(both[round as usize % 2]).unwrap();
        // No peer writes there now.
        let bytes = content(round, 600_000);
        destroyed.memory.write(0, &bytes);
        let other = [there, here][round as usize % 2];
        other.provider.destroy_queue_pair(both[1 - round as usize % 2]).unwrap();
        assert_eq!(destroyed.memory.read(0, bytes.len()), bytes);
    }
    // The other connections are not affected.
    there.receive(pair.pairs[1], 1, 0, 8);
    pair.post(0, 2, SEND, here.local(0, 8));
    assert_eq!(there.next(there.receives).status, Status::Success);
}

#[test]
fn operations_wait_for_a_peer_that_becomes_ready_later() {
    let own = own_options();
    let nodes = [Node::new(&own), Node::new(&own)];
    let [here, there] = &nodes;
    let pairs = [here.queue_pair(Transport::Rc), there.queue_pair(Transport::Rc)];
    let gid = there.provider.gids()[0];
    here.connect(pairs[0], here.peer(gid, pairs[1]), patient());
    let write = Work::Write { remote: there.remote(64), immediate: None };
    here.memory.write(0, &[7; 8]);
    here.post(pairs[0], 1, write, here.local(0, 8));
    here.post(pairs[0], 2, SEND, here.local(0, 8));
    here.post(pairs[0], 3, Work::Read { remote: there.remote(64) }, here.local(8, 8));
    there.until_not_ready(20);
    there.connect(pairs[1], there.peer(gid, pairs[0]), patient());
    there.receive(pairs[1], 4, 128, 8);
    (1..4).for_each(|id| _ = here.sent(id));
    there.received(4);
    assert_eq!(here.memory.read(8, 8), [7; 8]);
}
