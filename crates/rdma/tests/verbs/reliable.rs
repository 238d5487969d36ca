//! Reliable connections: every operation, with its bytes.

use crate::node::{DOMAIN, Memory, Node, Pair, content, options, own_options, patient};
use fairway_rdma::{ProviderError, ProviderOptions};
use fairway_roce::{
    Change, CompletionKind, Event, MemoryRequest, QueuePairConfig, ReceiveRequest, RemoteAddress,
    ScatterList, Transport, Work,
};
use fairway_ub::wire::roce::Tail;
use fairway_ub::{LocalRange, Rights};
use std::sync::atomic::Ordering;

const SEND: Work = Work::Send { tail: Tail::Nothing };

#[test]
fn a_send_goes_into_a_receive() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let bytes = content(1, 5000);
    here.memory.write(0, &bytes);
    there.receive(pair.pairs[1], 7, 100, 6000);
    pair.post(0, 3, SEND, here.local(0, 5000));
    let completion = there.received(7);
    assert_eq!((completion.bytes, completion.tail), (5000, Tail::Nothing));
    assert_eq!(there.memory.read(100, 5000), bytes);
    here.sent(3);
}

#[test]
fn a_write_is_in_place_when_it_completes() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let bytes = content(2, 300_001);
    here.memory.write(5, &bytes);
    let work = Work::Write { remote: there.remote(777), immediate: None };
    pair.post(0, 1, work, here.local(5, 300_001));
    assert_eq!(here.sent(1).bytes, 300_001);
    assert_eq!(there.memory.read(777, 300_001), bytes);
}

#[test]
fn a_read_brings_what_is_there() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let bytes = content(3, 300_001);
    there.memory.write(5, &bytes);
    pair.post(0, 1, Work::Read { remote: there.remote(5) }, here.local(11, 300_001));
    here.sent(1);
    assert_eq!(here.memory.read(11, 300_001), bytes);
}

#[test]
fn scattered_bytes_are_gathered_and_scattered() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let bytes = content(4, 4000);
    here.memory.write(0, &bytes);
    let list = |segment, parts: [(u64, u32); 3]| {
        let ranges = parts.map(|(offset, length)| LocalRange { segment, offset, length });
        ScatterList::new(&ranges).unwrap()
    };
    // The same bytes in another order, divided at places that are not packet boundaries.
    let from = list(here.region.segment, [(1000, 777), (0, 1000), (1777, 2223)]);
    let to = list(there.region.segment, [(50_000, 3), (9, 2000), (60_000, 1997)]);
    let request = ReceiveRequest { id: 1, local: to };
    assert_eq!(there.provider.post_receive(pair.pairs[1], &[request]), (1, None));
    pair.post(0, 1, SEND, from);
    there.received(1);
    let sent = [&bytes[1000..1777], &bytes[..1000], &bytes[1777..]].concat();
    let memory = &there.memory;
    let got = [memory.read(50_000, 3), memory.read(9, 2000), memory.read(60_000, 1997)].concat();
    assert_eq!(got, sent);
}

#[test]
fn immediate_data_comes_after_what_was_written() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let bytes = content(5, 70_000);
    here.memory.write(0, &bytes);
    there.receive(pair.pairs[1], 9, 0, 0);
    let work = Work::Write { remote: there.remote(100), immediate: Some(0xfeed) };
    pair.post(0, 1, work, here.local(0, 70_000));
    let completion = there.received(9);
    assert_eq!(completion.kind, CompletionKind::ReceiveWrite);
    assert_eq!((completion.bytes, completion.tail), (70_000, Tail::Immediate(0xfeed)));
    assert_eq!(there.memory.read(100, 70_000), bytes);
    here.sent(1);
}

#[test]
fn atomics_change_words_and_bring_their_old_values() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let word = there.memory.word(64);
    word.store(40, Ordering::SeqCst);
    let remote = there.remote(64);
    let swap = |compare, swap| Work::CompareSwap { remote, compare, swap };
    let works = [Work::FetchAdd { remote, add: 2 }, swap(41, 1), swap(42, 7)];
    for (id, (work, old)) in works.into_iter().zip([40, 42, 42]).enumerate() {
        pair.post(0, id as u64, work, here.local(8, 8));
        assert_eq!(here.sent(id as u64).value, old);
        assert_eq!(here.memory.word(8).load(Ordering::SeqCst), old);
    }
    assert_eq!(word.load(Ordering::SeqCst), 7);
}

#[test]
fn the_cpu_and_a_peer_add_to_one_word() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let word = there.memory.word(64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..100_000).for_each(|_| {
                word.fetch_add(1, Ordering::SeqCst);
            })
        });
        for id in 0..500 {
            pair.post(
                0,
                id,
                Work::FetchAdd { remote: there.remote(64), add: 1 << 32 },
                here.local(0, 8),
            );
            here.sent(id);
        }
    });
    assert_eq!(word.load(Ordering::SeqCst), 500 << 32 | 100_000);
}

#[test]
fn messages_of_many_megabytes_arrive_whole() {
    const LENGTH: u32 = 9_000_001;
    let own = own_options();
    let options = ProviderOptions { mtu: 4096, ..own };
    let both = [options.clone(), options];
    let pair = Pair::with(Transport::Rc, both, 20 << 20, patient());
    let [here, there] = &pair.nodes;
    let bytes = content(6, LENGTH as usize);
    here.memory.write(0, &bytes);
    there.receive(pair.pairs[1], 1, 10 << 20, LENGTH);
    pair.post(
        0,
        1,
        Work::Write { remote: there.remote(3), immediate: None },
        here.local(0, LENGTH),
    );
    pair.post(0, 2, SEND, here.local(0, LENGTH));
    pair.post(0, 3, Work::Read { remote: there.remote(3) }, here.local(10 << 20, LENGTH));
    (1..=3).for_each(|id| {
        here.sent(id);
    });
    there.received(1);
    assert!(there.memory.read(3, LENGTH as usize) == bytes);
    assert!(there.memory.read(10 << 20, LENGTH as usize) == bytes);
    assert!(here.memory.read(10 << 20, LENGTH as usize) == bytes);
}

#[test]
fn receives_are_shared() {
    let own = own_options();
    let [here, there] = [Node::new(&own), Node::new(&own)];
    let queue = there.provider.create_receive_queue(DOMAIN, 64).unwrap();
    let config = QueuePairConfig { shared_receives: Some(queue), ..there.config(Transport::Rc) };
    let pairs: Vec<_> = (0..3)
        .map(|_| {
            let pair = here.queue_pair(Transport::Rc);
            let other = there.provider.create_queue_pair(&config).unwrap();
            let gid = there.provider.gids()[0];
            here.connect(pair, here.peer(gid, other), patient());
            there.connect(other, there.peer(gid, pair), patient());
            (pair, other)
        })
        .collect();
    there.provider.limit_receive_queue(queue, 0).unwrap();
    for id in 0..9 {
        there.receive_shared(queue, id, id * 100, 100);
    }
    there.provider.limit_receive_queue(queue, 8).unwrap();
    for id in 0..9_u64 {
        let (pair, other) = pairs[id as usize % 3];
        let bytes = content(id, 77);
        here.memory.write(0, &bytes);
        here.post(pair, id, SEND, here.local(0, 77));
        here.sent(id);
        let completion = there.received(id);
        assert_eq!(completion.queue_pair, other);
        assert_eq!(there.memory.read(id as usize * 100, 77), bytes);
    }
    there.recorder.event(Event::ReceiveLimit { queue });
    let busy = there.provider.destroy_receive_queue(queue);
    assert!(matches!(busy, Err(ProviderError::Busy)));
    let (_, queue_pair) = pairs[0];
    there.provider.modify(queue_pair, &Change::Error).unwrap();
    there.recorder.event(Event::LastReceive { queue_pair });
    // Moving to that state again is allowed, and reports no second last receive: UCX ends if there
    // is one.
    there.provider.modify(queue_pair, &Change::Error).unwrap();
    let (_, queue_pair) = pairs[1];
    there.provider.modify(queue_pair, &Change::Error).unwrap();
    there.recorder.event(Event::LastReceive { queue_pair });
    let last = |event: &&Event| matches!(event, Event::LastReceive { .. });
    let count = there.recorder.until(|calls| Some(calls.events.iter().filter(last).count()));
    assert_eq!(count, 2, "one for each queue pair");
    pairs.iter().for_each(|(_, other)| there.provider.destroy_queue_pair(*other).unwrap());
    there.provider.destroy_receive_queue(queue).unwrap();
}

#[test]
fn two_addresses_of_one_host_reach_each_other() {
    writes_arrive(&Pair::new(Transport::Rc, [own_options(), own_options()]));
}

#[test]
fn reliable_messages_arrive_over_ipv6() {
    writes_arrive(&Pair::new(Transport::Rc, [options("::1"), options("::1")]));
}

fn writes_arrive(pair: &Pair) {
    let [here, there] = &pair.nodes;
    let bytes = content(8, 10_000);
    here.memory.write(0, &bytes);
    let write = Work::Write { remote: there.remote(0), immediate: None };
    pair.post(0, 1, write, here.local(0, 10_000));
    here.sent(1);
    assert_eq!(there.memory.read(0, 10_000), bytes);
}

#[test]
fn one_device_is_reached_at_addresses_of_both_families() {
    let own = own_options();
    let addresses = vec![own.addresses[0], "::1".parse().unwrap()];
    let both = ProviderOptions { addresses, ..own };
    let [here, there] = [Node::new(&both), Node::new(&both)];
    assert_eq!(there.provider.gids().len(), 2);
    let connected = |gid: usize| {
        let pair = here.queue_pair(Transport::Rc);
        let other = there.queue_pair(Transport::Rc);
        here.connect(pair, here.peer(there.provider.gids()[gid], other), patient());
        there.connect(other, there.peer(here.provider.gids()[gid], pair), patient());
        pair
    };
    // Both connections are used at the same time, in both directions.
    let pairs = [connected(0), connected(1)];
    for id in 0..6_u64 {
        let bytes = content(id, 5000);
        here.memory.write(0, &bytes);
        let write = Work::Write { remote: there.remote(0), immediate: None };
        here.post(pairs[id as usize % 2], id, write, here.local(0, 5000));
        here.sent(id);
        assert_eq!(there.memory.read(0, 5000), bytes);
    }
}

/// A program does not wait for its WRITE to itself, and takes the target's memory back: an adapter
/// has executed the WRITE by then.
#[test]
fn memory_that_is_taken_back_has_what_was_sent_to_it_before() {
    let node = Node::new(&own_options());
    let mut written = 0;
    // The first WRITE is waited for: shared memory is attached meanwhile, and until then packets
    // come late.
    for round in 0..=20 {
        let (bytes, target) = (content(round, 64), Memory::new(64));
        let [mine, theirs] = [(), ()].map(|()| node.queue_pair(Transport::Rc));
        let peer = |number| node.peer(node.provider.gids()[0], number);
        node.connect(mine, peer(theirs), patient());
        node.connect(theirs, peer(mine), patient());
        let request = MemoryRequest { domain: DOMAIN, address: 0, length: 64, rights: Rights::ALL };
        let region = node.provider.register(target.foreign(64), &request).unwrap();
        node.memory.write(0, &bytes);
        let remote = RemoteAddress { address: 0, r_key: region.r_key };
        node.post(mine, 1, Work::Write { remote, immediate: None }, node.local(0, 64));
        if round == 0 {
            node.sent(1);
        }
        node.provider.deregister(region.segment).unwrap();
        written += u32::from(round > 0 && target.read(0, 64) == bytes);
    }
    eprintln!("{written} of 20");
    assert!(written >= 18, "{written} of 20");
}

#[test]
fn received_operations_succeed_although_the_peers_queue_pair_ends() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    for round in 0..400 {
        let ends = [here, there].map(|node| node.queue_pair(Transport::Rc));
        here.connect(ends[0], here.peer(there.provider.gids()[0], ends[1]), patient());
        there.connect(ends[1], there.peer(here.provider.gids()[0], ends[0]), patient());
        (0..8).for_each(|id| there.receive(ends[1], id, 8 * id, 8));
        (0..8).for_each(|id| here.post(ends[0], id, SEND, here.local(8 * id, 8)));
        (0..8).for_each(|id| _ = there.received(id));
        // One end is notified of the end of the other, and ends, too.
        match round % 2 {
            0 => there.provider.modify(ends[1], &Change::Error).unwrap(),
            _ => there.provider.destroy_queue_pair(ends[1]).unwrap(),
        }
        here.provider.modify(ends[0], &Change::Error).unwrap();
        (0..8).for_each(|id| _ = here.sent(id));
        here.provider.destroy_queue_pair(ends[0]).unwrap();
        let _ = there.provider.destroy_queue_pair(ends[1]);
    }
}
