//! Shared receive queues, unreliable connections, datagrams.

use crate::node::{BASE, Node, Pair, Q_KEY, content, options};
use fairway_rdma::slot_of;
use fairway_roce::{
    Change, CompletionKind, Event, Peer, QueuePairConfig, ReceiveQueueId, ReceiveRequest,
    Reliability, RemoteAddress, ScatterList, Status, Transport, Work,
};
use fairway_ub::LocalRange;
use fairway_ub::wire::Qpn;
use fairway_ub::wire::roce::Tail;

const SEND: Work = Work::Send { tail: Tail::Nothing };

#[test]
fn queue_pairs_take_receives_from_a_shared_queue() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let queue = there.provider.create_receive_queue(crate::node::DOMAIN, 64).unwrap();
    let config = fairway_roce::QueuePairConfig {
        shared_receives: Some(queue),
        ..there.config(Transport::Rc)
    };
    let pairs: Vec<_> = (0..4)
        .map(|_| {
            let from = here.queue_pair(Transport::Rc);
            let to = there.provider.create_queue_pair(&config).unwrap();
            let peer = here.peer(there.provider.gids()[0], to);
            here.connect(from, peer, Reliability::default());
            let peer = there.peer(here.provider.gids()[0], from);
            there.connect(to, peer, Reliability::default());
            (from, to)
        })
        .collect();
    assert!(there.provider.destroy_receive_queue(queue).is_err(), "it is in use");
    for id in 0..32 {
        there.receive_shared(queue, id, 20_000 * id, 20_000);
    }
    there.provider.limit_receive_queue(queue, 10).unwrap();
    let bytes = content(1, 40_000);
    here.memory.write(0, &bytes);
    for id in 0..24_u64 {
        let (from, to) = pairs[id as usize % 4];
        let length = 500 * id as u32 + 1;
        here.post(from, id, SEND, here.local(id, length));
        let done = there.next(there.receives);
        assert_eq!((done.queue_pair, done.bytes, done.status), (to, length, Status::Success));
        let got = there.memory.read(20_000 * done.id as usize, length as usize);
        assert_eq!(got, bytes[id as usize..][..length as usize]);
        here.sent(id);
    }
    there.recorder.event(Event::ReceiveLimit { queue });
    // The end of one queue pair leaves the receives to the others.
    let (from, to) = pairs[0];
    there.provider.modify(to, &Change::Error).unwrap();
    there.recorder.event(Event::LastReceive { queue_pair: to });
    here.post(from, 1, SEND, here.local(0, 8));
    assert_eq!(here.next(here.sends).status, Status::RetryExceeded);
    here.post(pairs[1].0, 2, SEND, here.local(0, 8));
    here.sent(2);
    assert_eq!(there.next(there.receives).queue_pair, pairs[1].1);
    for (_, to) in pairs {
        there.provider.destroy_queue_pair(to).unwrap();
    }
    there.provider.destroy_receive_queue(queue).unwrap();
}

/// Returns a shared receive queue of the second node, and a queue pair of the first that sends to a
/// queue pair with it.
fn sharing(pair: &Pair) -> (ReceiveQueueId, Qpn) {
    let [here, there] = &pair.nodes;
    let queue = there.provider.create_receive_queue(crate::node::DOMAIN, 64).unwrap();
    let config = QueuePairConfig { shared_receives: Some(queue), ..there.config(Transport::Rc) };
    let from = here.queue_pair(Transport::Rc);
    let to = there.provider.create_queue_pair(&config).unwrap();
    here.connect(from, here.peer(there.provider.gids()[0], to), Reliability::default());
    there.connect(to, there.peer(here.provider.gids()[0], from), Reliability::default());
    (queue, from)
}

#[test]
fn memory_of_a_receive_is_checked_when_bytes_go_there() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let (queue, from) = sharing(&pair);
    for id in 0..3 {
        // The receive is behind the end of the region.
        there.receive_shared(queue, id, 1 << 20, 256);
    }
    here.post(from, 10, SEND, here.local(0, 0));
    here.sent(10);
    assert_eq!(there.received(0).bytes, 0);
    let bytes = content(5, 8);
    here.memory.write(0, &bytes);
    let write = Work::Write { remote: there.remote(64), immediate: Some(9) };
    here.post(from, 11, write, here.local(0, 8));
    here.sent(11);
    assert_eq!(there.received(1).kind, CompletionKind::ReceiveWrite);
    assert_eq!(there.memory.read(64, 8), bytes);
    here.post(from, 12, SEND, here.local(0, 8));
    let done = there.next(there.receives);
    assert_eq!((done.id, done.status), (2, Status::LocalProtection));
}

#[test]
fn a_write_leaves_the_memory_of_the_receive_that_it_takes_alone() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let (queue, from) = sharing(&pair);
    let (old, new) = (content(6, 2000), content(7, 2000));
    let receive = |id, offset| {
        let range = |offset| LocalRange { segment: there.region.segment, offset, length: 1000 };
        let local = ScatterList::new(&[range(offset), range(offset + 1000)]).unwrap();
        let request = ReceiveRequest { id, local };
        assert_eq!(there.provider.post_shared_receive(queue, &[request]), (1, None));
    };
    // Bytes that the first receive leaves in memory of the provider must not appear in the second
    // one.
    here.memory.write(0, &old);
    receive(0, 0);
    here.post(from, 10, SEND, here.local(0, 2000));
    here.sent(10);
    there.received(0);
    assert_eq!(there.memory.read(0, 2000), old);
    receive(1, 4000);
    there.memory.write(4000, &new);
    let write = Work::Write { remote: there.remote(8000), immediate: Some(9) };
    here.post(from, 11, write, here.local(0, 2000));
    here.sent(11);
    let done = there.received(1);
    assert_eq!((done.kind, done.bytes), (CompletionKind::ReceiveWrite, 2000));
    assert_eq!(there.memory.read(8000, 2000), old);
    assert_eq!(there.memory.read(4000, 2000), new);
}

#[test]
fn undeliverable_messages_of_an_unreliable_connection_are_dropped_silently() {
    let pair = Pair::local(Transport::Uc);
    let [here, there] = &pair.nodes;
    let bytes = content(3, 30_000);
    here.memory.write(0, &bytes);
    let nowhere = RemoteAddress { address: BASE, r_key: there.region.r_key ^ 1 };
    for id in 0..10 {
        // No receive is posted, and the memory does not exist.
        pair.post(0, id, SEND, here.local(0, 5000));
        here.sent(id);
        pair.post(0, id, Work::Write { remote: nowhere, immediate: None }, here.local(0, 8));
        here.sent(id);
    }
    there.receive(pair.pairs[1], 1, 100, 30_000);
    there.receive(pair.pairs[1], 2, 0, 0);
    let tail = Tail::Immediate(77);
    pair.post(0, 20, Work::Send { tail }, here.local(0, 30_000));
    here.sent(20);
    let done = there.received(1);
    assert_eq!((done.bytes, done.tail), (30_000, tail));
    assert_eq!(there.memory.read(100, 30_000), bytes);
    let write = Work::Write { remote: there.remote(50_000), immediate: Some(5) };
    pair.post(0, 21, write, here.local(0, 30_000));
    let done = there.received(2);
    assert_eq!((done.kind, done.tail), (CompletionKind::ReceiveWrite, Tail::Immediate(5)));
    assert_eq!(there.memory.read(50_000, 30_000), bytes);
    here.sent(21);
}

#[test]
fn datagrams_name_their_sender_and_need_the_key() {
    let nodes = [0, 1].map(|_| Node::new(&options("127.0.0.1")));
    let [here, there] = &nodes;
    let numbers = [0, 1].map(|n: usize| nodes[n].queue_pair(Transport::Ud));
    for (node, number) in nodes.iter().zip(numbers) {
        node.connect(number, Peer::default(), Reliability::default());
    }
    let to = here.peer(there.provider.gids()[0], numbers[1]);
    let bytes = content(4, 1024);
    here.memory.write(0, &bytes);
    for id in 0..20 {
        there.receive(numbers[1], id, 2000 * id, 1064);
    }
    let send = |id, q_key, length| {
        let work = Work::Datagram { to, q_key, immediate: Some(id as u32) };
        here.post(numbers[0], id, work, here.local(0, length));
        here.sent(id);
    };
    for id in 0..20 {
        send(100, Q_KEY + 1, 8);
        let length = 51 * id as u32;
        send(id, Q_KEY, length);
        let done = there.received(id);
        assert_eq!((done.bytes, done.tail), (length + 40, Tail::Immediate(id as u32)));
        assert_eq!(done.from.queue_pair, numbers[0]);
        assert_eq!(slot_of(done.from.queue_pair), here.provider.slot());
        assert_eq!(there.provider.gid_of(done.from.address), Some(here.provider.gids()[0]));
        let at = 2000 * id as usize;
        assert_eq!(there.memory.read(at + 40, length as usize), bytes[..length as usize]);
        let header = there.memory.read(at + 20, 20);
        assert_eq!((header[0], &header[12..]), (0x45, &[127, 0, 0, 1, 127, 0, 0, 1][..]));
    }
    // One message is too long, and one is for a queue pair that does not exist.
    let request = |length| fairway_roce::WorkRequest {
        id: 1,
        work: Work::Datagram { to, q_key: Q_KEY, immediate: None },
        local: here.local(0, length),
        signaled: true,
        solicited: false,
        fence: false,
    };
    let refused = here.provider.post_send(numbers[0], &[request(1025)]);
    assert_eq!(refused.1, Some(fairway_roce::PostError::Length));
    there.provider.destroy_queue_pair(numbers[1]).unwrap();
    assert_eq!(here.provider.post_send(numbers[0], &[request(8)]), (1, None));
    here.sent(1);
}

#[test]
fn datagrams_go_into_shared_queues_too() {
    let nodes = [0, 1].map(|_| Node::new(&options("127.0.0.1")));
    let [here, there] = &nodes;
    let from = here.queue_pair(Transport::Ud);
    let queue = there.provider.create_receive_queue(crate::node::DOMAIN, 8).unwrap();
    let config = fairway_roce::QueuePairConfig {
        shared_receives: Some(queue),
        ..there.config(Transport::Ud)
    };
    let number = there.provider.create_queue_pair(&config).unwrap();
    here.connect(from, Peer::default(), Reliability::default());
    there.connect(number, Peer::default(), Reliability::default());
    let to = here.peer(there.provider.gids()[0], number);
    let bytes = content(6, 1000);
    here.memory.write(0, &bytes);
    there.receive_shared(queue, 5, 100, 1040);
    let work = Work::Datagram { to, q_key: Q_KEY, immediate: None };
    here.post(from, 1, work, here.local(0, 1000));
    assert_eq!(there.received(5).bytes, 1040);
    assert_eq!(there.memory.read(140, 1000), bytes);
    assert_eq!(there.memory.read(120, 1), [0x45]);
}
