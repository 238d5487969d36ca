//! Networks that lose, duplicate and reorder; peers that refuse, are not ready, or are gone.

use crate::node::{Pair, content, own_options, patient};
use fairway_rdma::ProviderOptions;
use fairway_roce::{
    Change, Event, QueuePairState, Reliability, Status, Transport, Work, WorkRequest,
};
use fairway_ub::wire::Duration;
use fairway_ub::wire::roce::Tail;

const SEND: Work = Work::Send { tail: Tail::Nothing };

/// A short time-out.
fn quick() -> Reliability {
    Reliability { timeout: Duration::from_us(4000), ..Reliability::default() }
}

/// Checks that everything arrives once and in order over a network of `spec`.
fn survives(spec: &str, out_of_order: bool) {
    let spec: fairway::Spec = spec.parse().unwrap();
    let own = own_options();
    let options = [11, 12].map(|seed| {
        let emulate = Some((spec.clone(), seed));
        ProviderOptions { emulate, out_of_order, ..own.clone() }
    });
    let timeout = Reliability { timeout: Duration::from_us(40_000), ..quick() };
    let pair = Pair::with(Transport::Rc, options, 1 << 20, timeout);
    let [here, there] = &pair.nodes;
    for round in 0..12 {
        let bytes = content(round, 60_000);
        here.memory.write(0, &bytes);
        there.receive(pair.pairs[1], round, 100_000, 10_000);
        let (remote, immediate) = (there.remote(0), None);
        pair.post(0, 1, Work::Write { remote, immediate }, here.local(0, 60_000));
        pair.post(0, 2, SEND, here.local(0, 10_000));
        pair.post(0, 3, Work::Read { remote }, here.local(200_000, 60_000));
        pair.post(
            0,
            4,
            Work::FetchAdd { remote: there.remote(800_000), add: 1 },
            here.local(900_000, 8),
        );
        (1..=3).for_each(|id| {
            here.sent(id);
        });
        assert_eq!(here.sent(4).value, round, "executed once");
        there.received(round);
        assert_eq!(there.memory.read(0, 60_000), bytes);
        assert_eq!(there.memory.read(100_000, 10_000), bytes[..10_000]);
        assert_eq!(here.memory.read(200_000, 60_000), bytes);
    }
    let counters = here.provider.counters();
    assert!(counters.resent_packets > 0, "nothing went wrong: {counters:?}");
}

#[test]
fn lost_packets_lose_no_message() {
    survives("loss=2%", false);
}

#[test]
fn duplicated_packets_execute_nothing_twice() {
    survives("dup=5%,loss=1%", false);
}

#[test]
fn order_is_kept_where_packets_lose_it() {
    survives("reorder=3,loss=0.5%", false);
}

#[test]
fn packets_are_accepted_out_of_order_if_configured() {
    survives("reorder=64,loss=1%", true);
}

#[test]
fn a_receiver_that_is_not_ready_is_waited_for() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    pair.post(0, 1, SEND, here.local(0, 64));
    there.until_not_ready(3);
    there.receive(pair.pairs[1], 1, 0, 64);
    here.sent(1);
    there.received(1);

    let timeout = Reliability { rnr_retries: 2, ..patient() };
    let own = own_options();
    let pair = Pair::with(Transport::Rc, [own.clone(), own], 4096, timeout);
    pair.post(0, 1, SEND, pair.nodes[0].local(0, 64));
    assert_eq!(pair.nodes[0].next(pair.nodes[0].sends).status, Status::RnrRetryExceeded);
}

#[test]
fn a_peer_that_is_gone_is_given_up() {
    let own = own_options();
    let pair = Pair::with(Transport::Rc, [own.clone(), own], 4096, quick());
    let Pair { nodes: [here, there], pairs } = pair;
    drop(there);
    let work = Work::Write { remote: here.remote(0), immediate: None };
    here.post(pairs[0], 1, work, here.local(0, 64));
    here.post(pairs[0], 2, work, here.local(0, 64));
    assert_eq!(here.next(here.sends).status, Status::RetryExceeded);
    assert_eq!(here.next(here.sends).status, Status::Flushed);
    assert_eq!(here.provider.counters().timeouts, 8, "seven retries");
}

#[test]
fn a_queue_that_is_not_polled_runs_over() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    here.provider.resize_completion_queue(here.sends, 4).unwrap();
    let request = WorkRequest {
        id: 0,
        work: Work::Write { remote: there.remote(0), immediate: None },
        local: here.local(0, 8),
        signaled: false,
        solicited: false,
        fence: false,
    };
    // Unsignaled operations need no room.
    assert_eq!(here.provider.post_send(pair.pairs[0], &[request; 100]), (100, None));
    let loud = WorkRequest { signaled: true, ..request };
    assert_eq!(here.provider.post_send(pair.pairs[0], &[loud; 4]), (4, None));
    (0..4).for_each(|_| {
        here.sent(0);
    });
    assert_eq!(here.provider.post_send(pair.pairs[0], &[loud; 5]), (5, None));
    here.recorder.event(Event::Overrun { queue: here.sends });
    here.recorder.event(Event::Fault { queue_pair: pair.pairs[0], status: Status::Flushed });
    assert_eq!(here.provider.state(pair.pairs[0]), Some(QueuePairState::Error));
}

#[test]
fn a_queue_pair_begins_a_new_life_after_an_error() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    for _ in 0..3 {
        for (node, number) in pair.nodes.iter().zip(pair.pairs) {
            node.provider.modify(number, &Change::Error).unwrap();
            node.provider.modify(number, &Change::Reset).unwrap();
        }
        for n in 0..2 {
            let [node, other] = [&pair.nodes[n], &pair.nodes[1 - n]];
            let peer = node.peer(other.provider.gids()[0], pair.pairs[1 - n]);
            node.connect(pair.pairs[n], peer, patient());
        }
        there.receive(pair.pairs[1], 1, 0, 64);
        pair.post(0, 1, SEND, here.local(0, 64));
        here.sent(1);
        there.received(1);
    }
}
