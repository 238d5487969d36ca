//! Both ends of a connection on which a request is refused.

use crate::node::{BASE, DOMAIN, Memory, Node, Pair, Q_KEY, own_options, patient};
use fairway_roce::{
    Event, MemoryRequest, Peer, QueuePairConfig, QueuePairState, ReceiveRequest, RemoteAddress,
    Status, Transport, Work,
};
use fairway_ub::wire::roce::{NakCode, Tail};
use fairway_ub::{LocalRange, Rights};

const SEND: Work = Work::Send { tail: Tail::Nothing };

/// The next completions of the receives of a node.
fn next_receives<const N: usize>(node: &Node) -> [(u64, Status); N] {
    [(); N].map(|()| {
        let completion = node.next(node.receives);
        (completion.id, completion.status)
    })
}

/// A pair whose second end has receives 1 and 2, and the events of a refused access.
fn is_refused(pair: &Pair, work: Work, code: NakCode) {
    let [here, there] = &pair.nodes;
    there.receive(pair.pairs[1], 1, 0, 64);
    there.receive(pair.pairs[1], 2, 64, 64);
    pair.post(0, 1, work, here.local(0, 64));
    let done = here.next(here.sends);
    assert_eq!((done.id, done.status), (1, Status::RemoteAccess));
    here.recorder.event(Event::Fault { queue_pair: pair.pairs[0], status: Status::RemoteAccess });
    there.recorder.event(Event::Refused { queue_pair: pair.pairs[1], code });
    for n in 0..2 {
        assert_eq!(pair.nodes[n].provider.state(pair.pairs[n]), Some(QueuePairState::Error));
    }
    assert_eq!(next_receives(there), [(1, Status::Flushed), (2, Status::Flushed)]);
    // Operations posted after that are flushed.
    for n in 0..2 {
        let node = &pair.nodes[n];
        pair.post(n, 2, SEND, node.local(0, 64));
        assert_eq!(node.next(node.sends).status, Status::Flushed);
    }
}

#[test]
fn a_wrong_key_is_refused_and_nothing_is_touched() {
    for is_key_right in [false, true] {
        let pair = Pair::local(Transport::Rc);
        let [here, there] = &pair.nodes;
        here.memory.write(0, &[1; 64]);
        let remote = match is_key_right {
            false => RemoteAddress { address: BASE, r_key: there.region.r_key ^ 1 },
            // The range has one byte too many.
            true => there.remote((1 << 20) - 63),
        };
        is_refused(&pair, Work::Write { remote, immediate: None }, NakCode::RemoteAccess);
        assert_eq!(there.memory.read(0, 64), [0; 64]);
        assert_eq!(there.memory.read((1 << 20) - 63, 63), [0; 63]);
    }
}

#[test]
fn a_read_with_a_wrong_key_is_refused() {
    let pair = Pair::local(Transport::Rc);
    let r_key = pair.nodes[1].region.r_key ^ 1;
    let remote = RemoteAddress { address: BASE, r_key };
    is_refused(&pair, Work::Read { remote }, NakCode::RemoteAccess);
}

/// Messages before the one that is too long are received, and its receive says so.
#[test]
fn a_message_that_is_too_long_fails_its_receive() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    for id in 0..4 {
        there.receive(pair.pairs[1], id, 64 * id, 64);
    }
    for (id, length) in [(0, 64), (1, 64), (2, 65)] {
        pair.post(0, id, SEND, here.local(0, length));
    }
    let sent = [(); 3].map(|()| here.next(here.sends)).map(|it| (it.id, it.status));
    let done = [(0, Status::Success), (1, Status::Success)];
    assert_eq!(sent, [done[0], done[1], (2, Status::RemoteInvalidRequest)]);
    let failed = [(2, Status::LocalLength), (3, Status::Flushed)];
    assert_eq!(next_receives(there), [done[0], done[1], failed[0], failed[1]]);
    assert_eq!(there.provider.state(pair.pairs[1]), Some(QueuePairState::Error));
}

#[test]
fn message_that_is_too_long_fails_a_shared_receive() {
    let own = own_options();
    let nodes = [Node::new(&own), Node::new(&own)];
    let [here, there] = &nodes;
    let queue = there.provider.create_receive_queue(DOMAIN, 8).unwrap();
    let config = QueuePairConfig { shared_receives: Some(queue), ..there.config(Transport::Rc) };
    let gid = there.provider.gids()[0];
    let connections = [(); 2].map(|()| {
        let from = here.queue_pair(Transport::Rc);
        let to = there.provider.create_queue_pair(&config).unwrap();
        here.connect(from, here.peer(gid, to), patient());
        there.connect(to, there.peer(gid, from), patient());
        (from, to)
    });
    (1..4).for_each(|id| there.receive_shared(queue, id, 64 * id, 64));
    let [(from, to), other] = connections;
    here.post(from, 1, SEND, here.local(0, 65));
    let done = here.next(here.sends);
    assert_eq!((done.id, done.status), (1, Status::RemoteInvalidRequest));
    let failed = there.next(there.receives);
    assert_eq!((failed.id, failed.status), (1, Status::LocalLength));
    assert_eq!(failed.queue_pair, to);
    there.recorder.event(Event::LastReceive { queue_pair: to });
    assert_eq!(there.provider.state(to), Some(QueuePairState::Error));
    let refused = |event: &Event| matches!(event, Event::Refused { .. });
    let events = there.recorder.until(|calls| Some(calls.events.clone()));
    assert!(!events.iter().any(refused), "{events:?}");
    // The others stay in the queue.
    for id in 2..4 {
        here.post(other.0, id, SEND, here.local(0, 64));
        here.sent(id);
        assert_eq!(there.received(id).queue_pair, other.1);
    }
    there.provider.destroy_queue_pair(to).unwrap();
    there.provider.destroy_queue_pair(other.1).unwrap();
    there.provider.destroy_receive_queue(queue).unwrap();
}

/// A datagram of 64 bytes needs a receive of 104.
#[test]
fn datagram_that_is_too_long_fails_its_receive_and_the_queue_pair_goes_on() {
    for is_shared in [false, true] {
        let own = own_options();
        let nodes = [Node::new(&own), Node::new(&own)];
        let [here, there] = &nodes;
        let queue = there.provider.create_receive_queue(DOMAIN, 8).unwrap();
        let shared_receives = is_shared.then_some(queue);
        let config = QueuePairConfig { shared_receives, ..there.config(Transport::Ud) };
        let from = here.queue_pair(Transport::Ud);
        let number = there.provider.create_queue_pair(&config).unwrap();
        here.connect(from, Peer::default(), patient());
        there.connect(number, Peer::default(), patient());
        let receive = |id, length| match is_shared {
            true => there.receive_shared(queue, id, 0, length),
            false => there.receive(number, id, 0, length),
        };
        let to = here.peer(there.provider.gids()[0], number);
        let work = Work::Datagram { to, q_key: Q_KEY, immediate: None };
        for (id, length) in (1..).zip([103, 64, 63, 40, 39, 0]) {
            receive(id, length);
            here.post(from, id, work, here.local(0, 64));
            here.sent(id);
            let failed = there.next(there.receives);
            assert_eq!((failed.id, failed.status), (id, Status::LocalLength), "{length}");
            assert_eq!((failed.queue_pair, failed.bytes), (number, 0), "{length}");
        }
        assert_eq!(there.provider.state(number), Some(QueuePairState::ReadyToSend));
        receive(9, 104);
        here.post(from, 9, work, here.local(0, 64));
        here.sent(9);
        assert_eq!(there.received(9).bytes, 104);
    }
}

/// Receives complete in the order of posting, and their memory is checked when a message arrives.
#[test]
fn receive_into_memory_that_is_not_registered_fails_in_its_turn() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    (1..4).for_each(|id| there.receive(pair.pairs[1], id, 64 * id, 64));
    // This one is behind the end of the region.
    there.receive(pair.pairs[1], 4, 1 << 20, 64);
    assert_eq!(there.provider.state(pair.pairs[1]), Some(QueuePairState::ReadyToSend));
    here.memory.write(0, &[9; 64]);
    for id in 1..4 {
        pair.post(0, id, SEND, here.local(0, 64));
        here.sent(id);
        there.received(id);
        assert_eq!(there.memory.read(64 * id as usize, 64), [9; 64]);
    }
    pair.post(0, 4, SEND, here.local(0, 64));
    let done = here.next(here.sends);
    assert_eq!((done.id, done.status), (4, Status::RemoteOperation));
    assert_eq!(next_receives(there), [(4, Status::LocalProtection)]);
    for n in 0..2 {
        assert_eq!(pair.nodes[n].provider.state(pair.pairs[n]), Some(QueuePairState::Error));
    }
}

#[test]
fn datagram_for_a_receive_into_memory_that_is_not_registered_ends_the_receiver() {
    let pair = Pair::local(Transport::Ud);
    let [here, there] = &pair.nodes;
    there.receive(pair.pairs[1], 1, 0, 104);
    there.receive(pair.pairs[1], 2, 1 << 20, 104);
    let to = here.peer(there.provider.gids()[0], pair.pairs[1]);
    let work = Work::Datagram { to, q_key: Q_KEY, immediate: None };
    pair.post(0, 1, work, here.local(0, 64));
    here.sent(1);
    there.received(1);
    pair.post(0, 2, work, here.local(0, 64));
    here.sent(2);
    assert_eq!(next_receives(there), [(2, Status::LocalProtection)]);
    assert_eq!(there.provider.state(pair.pairs[1]), Some(QueuePairState::Error));
}

#[test]
fn message_for_a_receive_into_deregistered_memory_is_refused() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let request = MemoryRequest { domain: DOMAIN, address: BASE, length: 64, rights: Rights::ALL };
    let memory = Memory::new(64);
    let region = there.provider.register(memory.foreign(64), &request).unwrap();
    let local = LocalRange { segment: region.segment, offset: 0, length: 64 }.into();
    let receive = |number, id| {
        let request = ReceiveRequest { id, local };
        assert_eq!(there.provider.post_receive(number, &[request]), (1, None));
    };
    receive(pair.pairs[1], 1);
    there.provider.deregister(region.segment).unwrap();
    pair.post(0, 1, SEND, here.local(0, 64));
    let done = here.next(here.sends);
    assert_eq!((done.id, done.status), (1, Status::RemoteOperation));
    assert_eq!(next_receives(there), [(1, Status::LocalProtection)]);
    // The region that gets the number next is not affected.
    let again = there.provider.register(memory.foreign(64), &request).unwrap();
    assert_eq!(again.segment, region.segment);
    let pairs = [here.queue_pair(Transport::Rc), there.queue_pair(Transport::Rc)];
    let gid = there.provider.gids()[0];
    here.connect(pairs[0], here.peer(gid, pairs[1]), patient());
    there.connect(pairs[1], there.peer(gid, pairs[0]), patient());
    here.memory.write(0, &[5; 64]);
    receive(pairs[1], 2);
    here.post(pairs[0], 2, SEND, here.local(0, 64));
    here.sent(2);
    there.received(2);
    assert_eq!(memory.read(0, 64), [5; 64]);
}
