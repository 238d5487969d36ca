//! Operations to a queue pair that is not ready to receive.

use crate::node::{Node, Q_KEY, own_options, patient};
use fairway_roce::{Change, QueuePairState, Reliability, Status, Transport, Work};
use fairway_ub::Rights;
use fairway_ub::wire::roce::{DEFAULT_P_KEY, Tail};
use fairway_ub::wire::{Duration, Qpn};

/// Two nodes with a queue pair each, of which the first is connected to the second.
fn half(reliability: Reliability, enter: impl Fn(&Node, Qpn, Qpn)) -> ([Node; 2], [Qpn; 2]) {
    let own = own_options();
    let nodes = [Node::new(&own), Node::new(&own)];
    let pairs = [nodes[0].queue_pair(Transport::Rc), nodes[1].queue_pair(Transport::Rc)];
    enter(&nodes[1], pairs[1], pairs[0]);
    let gid = nodes[1].provider.gids()[0];
    nodes[0].connect(pairs[0], nodes[0].peer(gid, pairs[1]), reliability);
    (nodes, pairs)
}

fn leave_in_reset(_: &Node, _: Qpn, _: Qpn) {}

fn to_init(node: &Node, number: Qpn, _: Qpn) {
    let init = Change::Init { rights: Rights::ALL, p_key: DEFAULT_P_KEY, q_key: Q_KEY };
    node.provider.modify(number, &init).unwrap();
}

fn connect_and_reset(node: &Node, number: Qpn, peer: Qpn) {
    let gid = node.provider.gids()[0];
    node.connect(number, node.peer(gid, peer), patient());
    node.provider.modify(number, &Change::Reset).unwrap();
}

fn works(there: &Node) -> [Work; 5] {
    let remote = there.remote(0);
    [
        Work::Send { tail: Tail::Nothing },
        Work::Write { remote, immediate: Some(1) },
        Work::Write { remote, immediate: None },
        Work::Read { remote },
        Work::FetchAdd { remote, add: 1 },
    ]
}

#[test]
fn operation_to_a_queue_pair_that_is_not_ready_exceeds_its_retries() {
    let timeout = Duration::from_us(5_000);
    for rnr_retries in [7, 2] {
        let impatient = Reliability { timeout, retries: 1, rnr_retries, ..Reliability::default() };
        for enter in [leave_in_reset, to_init, connect_and_reset] {
            for kind in 0..5 {
                let ([here, there], pairs) = half(impatient, enter);
                let work = works(&there)[kind];
                here.post(pairs[0], 1, work, here.local(0, 8));
                here.post(pairs[0], 2, work, here.local(0, 8));
                for (id, status) in [(1, Status::RetryExceeded), (2, Status::Flushed)] {
                    let done = here.next(here.sends);
                    assert_eq!((done.id, done.status), (id, status), "{rnr_retries} {work:?}");
                }
                assert_eq!(here.provider.state(pairs[0]), Some(QueuePairState::Error));
            }
        }
    }
}

#[test]
fn message_without_a_receive_waits_longer_than_the_retries() {
    let timeout = Duration::from_us(5_000);
    let impatient = Reliability { timeout, retries: 1, ..Reliability::default() };
    let ([here, there], pairs) = half(impatient, |node, number, peer| {
        let gid = node.provider.gids()[0];
        node.connect(number, node.peer(gid, peer), patient());
    });
    let [_, with_immediate, ..] = works(&there);
    here.post(pairs[0], 1, works(&there)[0], here.local(0, 8));
    here.post(pairs[0], 2, with_immediate, here.local(0, 8));
    // An adapter would have used up its retries by now, if they counted here.
    there.until_not_ready(WAITS);
    there.receive(pairs[1], 3, 0, 8);
    there.receive(pairs[1], 4, 0, 8);
    there.received(3);
    there.received(4);
    here.sent(1);
    here.sent(2);
}

/// Refusals for lack of a receive that take longer than the retries and the examination of the
/// operation that follows.
const WAITS: u64 = 1000;

#[test]
fn operations_under_way_exceed_their_retries_if_the_target_enters_the_error_state() {
    let timeout = Duration::from_us(5_000);
    let impatient = Reliability { timeout, retries: 1, ..Reliability::default() };
    for round in 0..15 {
        let ([here, there], pairs) = half(impatient, |node, number, peer| {
            let gid = node.provider.gids()[0];
            node.connect(number, node.peer(gid, peer), patient());
        });
        let work = works(&there)[2 + round % 3];
        let length = if matches!(work, Work::FetchAdd { .. }) { 8 } else { 1 << 20 };
        here.post(pairs[0], 0, work, here.local(0, 8));
        here.sent(0);
        (1..32).for_each(|id| here.post(pairs[0], id, work, here.local(0, length)));
        there.provider.modify(pairs[1], &Change::Error).unwrap();
        // Those before may have succeeded.
        here.post(pairs[0], 32, work, here.local(0, 8));
        let failed = loop {
            let done = here.next(here.sends);
            if done.status != Status::Success {
                break done;
            }
        };
        assert_eq!(failed.status, Status::RetryExceeded, "{work:?}");
    }
}
