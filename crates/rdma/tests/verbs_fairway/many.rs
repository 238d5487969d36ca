//! Many queue pairs, few channels.

use crate::node::{Node, Pair, content, options};
use fairway_roce::{Reliability, Status, Transport, Work, WorkRequest};
use fairway_ub::wire::roce::Tail;

const SEND: Work = Work::Send { tail: Tail::Nothing };

#[test]
fn a_thousand_queue_pairs_share_one_channel() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let mut numbers = vec![pair.pairs];
    for _ in 1..1000 {
        let both = [here.queue_pair(Transport::Rc), there.queue_pair(Transport::Rc)];
        for (n, node) in pair.nodes.iter().enumerate() {
            let other = &pair.nodes[1 - n];
            let peer = node.peer(other.provider.gids()[0], both[1 - n]);
            node.connect(both[n], peer, Reliability::default());
        }
        numbers.push(both);
    }
    let bytes = content(1, 1000);
    here.memory.write(0, &bytes);
    for (id, [from, to]) in numbers.iter().enumerate() {
        there.receive(*to, id as u64, 8 * id as u64, 1);
        let local = here.local(id as u64, 1);
        here.post(*from, id as u64, SEND, local);
        if id % 100 == 99 {
            for _ in 0..100 {
                let done = here.next(here.sends);
                assert_eq!(done.status, Status::Success);
                let got = there.next(there.receives);
                assert_eq!(got.queue_pair, numbers[got.id as usize][1]);
                let at = got.id as usize;
                assert_eq!(there.memory.read(8 * at, 1), bytes[at..=at]);
            }
        }
    }
    assert_eq!(here.provider.channels(), Some(1));
    assert_eq!(there.provider.channels(), Some(1));
    for both in numbers {
        here.provider.destroy_queue_pair(both[0]).unwrap();
        there.provider.destroy_queue_pair(both[1]).unwrap();
    }
}

#[test]
fn a_process_connects_to_itself() {
    let node = Node::new(&options("127.0.0.1"));
    let pairs = [node.queue_pair(Transport::Rc), node.queue_pair(Transport::Rc)];
    for n in 0..2 {
        let peer = node.peer(node.provider.gids()[0], pairs[1 - n]);
        node.connect(pairs[n], peer, Reliability::default());
    }
    let bytes = content(2, 50_000);
    node.memory.write(0, &bytes);
    for n in 0..2 {
        let at = 100_000 * (n as u64 + 1);
        node.receive(pairs[1 - n], 1, at, 50_000);
        node.post(pairs[n], 2, SEND, node.local(0, 50_000));
        node.received(1);
        node.sent(2);
        assert_eq!(node.memory.read(at as usize, 50_000), bytes);
    }
}

#[test]
fn both_sides_may_connect_at_the_same_time() {
    for _ in 0..20 {
        let nodes = [0, 1].map(|_| Node::new(&options("127.0.0.1")));
        let pairs = [0, 1].map(|n: usize| nodes[n].queue_pair(Transport::Rc));
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for n in 0..2 {
                let (nodes, barrier) = (&nodes, &barrier);
                scope.spawn(move || {
                    let peer = nodes[n].peer(nodes[1 - n].provider.gids()[0], pairs[1 - n]);
                    barrier.wait();
                    nodes[n].connect(pairs[n], peer, Reliability::default());
                    nodes[n].receive(pairs[n], 1, 1000, 64);
                    let local = nodes[n].local(0, 64);
                    let request = WorkRequest {
                        id: 2,
                        work: SEND,
                        local,
                        signaled: true,
                        solicited: false,
                        fence: false,
                    };
                    let posted = nodes[n].provider.post_send(pairs[n], &[request]);
                    assert_eq!(posted, (1, None));
                    nodes[n].sent(2);
                    nodes[n].received(1);
                });
            }
        });
        for node in &nodes {
            assert_eq!(node.provider.channels(), Some(1));
        }
    }
}
