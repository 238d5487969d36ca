//! Attributes of queue pairs that change while the queue pairs are ready.

use crate::node::{Node, Pair, Q_KEY, own_options, patient};
use fairway_roce::{
    Attributes, Change, Completion, Event, Reliability, Status, Transport, Work, WorkRequest,
};
use fairway_ub::Rights;
use fairway_ub::wire::roce::{RnrTimer, Tail};
use fairway_ub::wire::{Duration, Qpn};

fn attributes() -> Attributes {
    let (reliability, rnr_timer) = (patient(), RnrTimer::from_code(1));
    Attributes { rights: Rights::ALL, q_key: Q_KEY, reliability, rnr_timer }
}

fn adjust(node: &Node, number: Qpn, attributes: Attributes) {
    node.provider.modify(number, &Change::Adjust(attributes)).unwrap();
}

#[test]
fn rights_that_a_queue_pair_gains_and_loses_count_at_once() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let remote = there.remote(64);
    let (write, read) = (Work::Write { remote, immediate: None }, Work::Read { remote });
    adjust(there, pair.pairs[1], Attributes { rights: Rights::WRITE, ..attributes() });
    pair.post(0, 1, write, here.local(0, 8));
    here.sent(1);
    adjust(there, pair.pairs[1], Attributes { rights: Rights::ALL, ..attributes() });
    pair.post(0, 2, read, here.local(0, 8));
    here.sent(2);
    adjust(there, pair.pairs[1], Attributes { rights: Rights::READ, ..attributes() });
    pair.post(0, 3, read, here.local(0, 8));
    here.sent(3);
    pair.post(0, 4, write, here.local(0, 8));
    let done = here.next(here.sends);
    assert_eq!(done.id, 4);
    assert!(matches!(done.status, Status::RemoteAccess | Status::RemoteInvalidRequest), "{done:?}");
}

#[test]
fn write_under_way_survives_that_its_queue_pair_gains_rights() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let write = Work::Write { remote: there.remote(0), immediate: None };
    for round in 0..50 {
        adjust(there, pair.pairs[1], Attributes { rights: Rights::WRITE, ..attributes() });
        pair.post(0, round, write, here.local(0, 1 << 20));
        adjust(there, pair.pairs[1], attributes());
        here.sent(round);
    }
}

/// Sends a datagram with a Q_Key, then one that arrives.
fn datagram(nodes: &[Node; 2], pairs: [Qpn; 2], (id, q_key): (u64, u32)) {
    let [here, there] = nodes;
    let to = here.peer(there.provider.gids()[0], pairs[1]);
    let work = Work::Datagram { to, q_key, immediate: Some(id as u32) };
    let local = here.local(0, 8);
    let request = WorkRequest { id, work, local, signaled: true, solicited: false, fence: false };
    assert_eq!(here.provider.post_send(pairs[0], &[request]), (1, None));
    here.sent(id);
}

#[test]
fn datagrams_need_the_q_key_that_was_set_last() {
    let own = own_options();
    let nodes = [Node::new(&own), Node::new(&own)];
    let pairs = [nodes[0].queue_pair(Transport::Ud), nodes[1].queue_pair(Transport::Ud)];
    for (node, number) in nodes.iter().zip(pairs) {
        node.connect(number, Default::default(), Reliability::default());
    }
    let there = &nodes[1];
    (0..4).for_each(|id| there.receive(pairs[1], id, 64 * id, 48));
    datagram(&nodes, pairs, (1, Q_KEY));
    assert_eq!(there.received(0).tail, Tail::Immediate(1));
    adjust(there, pairs[1], Attributes { q_key: 0x5555, ..attributes() });
    // That one is dropped, and the next arrives.
    datagram(&nodes, pairs, (2, Q_KEY));
    datagram(&nodes, pairs, (3, 0x5555));
    assert_eq!(there.received(1).tail, Tail::Immediate(3));
    assert_eq!(there.provider.poll(there.receives, &mut [Completion::EMPTY]), 0);
}

#[test]
fn retries_for_lack_of_a_receive_may_change() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let send = Work::Send { tail: Tail::Nothing };
    let reliability = Reliability { rnr_retries: 1, ..patient() };
    there.receive(pair.pairs[1], 1, 0, 8);
    pair.post(0, 1, send, here.local(0, 8));
    here.sent(1);
    adjust(here, pair.pairs[0], Attributes { reliability, ..attributes() });
    pair.post(0, 2, send, here.local(0, 8));
    let done = here.next(here.sends);
    assert_eq!((done.id, done.status), (2, Status::RnrRetryExceeded));
}

#[test]
fn time_outs_may_change() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    // With the first time-outs the error would come long after the test counts as stuck.
    let endless = Reliability { timeout: Duration::from_secs(100), ..patient() };
    let short = Reliability { timeout: Duration::from_us(5_000), retries: 1, ..patient() };
    adjust(here, pair.pairs[0], Attributes { reliability: endless, ..attributes() });
    adjust(here, pair.pairs[0], Attributes { reliability: short, ..attributes() });
    there.provider.modify(pair.pairs[1], &Change::Reset).unwrap();
    let write = Work::Write { remote: there.remote(0), immediate: None };
    pair.post(0, 1, write, here.local(0, 8));
    let done = here.next(here.sends);
    assert_eq!((done.id, done.status), (1, Status::RetryExceeded));
}

#[test]
fn queue_pair_drains_until_what_it_has_begun_has_completed() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let number = pair.pairs[0];
    let send = Work::Send { tail: Tail::Nothing };
    pair.post(0, 1, Work::Write { remote: there.remote(0), immediate: None }, here.local(0, 8));
    here.sent(1);
    assert!(!here.provider.is_draining(number));
    // There is no receive for it yet.
    pair.post(0, 2, send, here.local(0, 8));
    there.until_not_ready(1);
    here.provider.modify(number, &Change::Drain).unwrap();
    assert!(here.provider.is_draining(number));
    there.receive(pair.pairs[1], 3, 0, 8);
    here.sent(2);
    here.recorder.event(Event::Drained { queue_pair: number });
    assert!(!here.provider.is_draining(number));
}
