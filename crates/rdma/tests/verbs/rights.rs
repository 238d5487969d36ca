//! Rights that a queue pair of the target grants in addition to a region's, regions that change,
//! and state that a reset queue pair drops.

use crate::node::{BASE, DOMAIN, Node, Pair, own_options, patient};
use fairway_roce::{
    Attributes, Change, Completion, Event, KEY_TAG_BITS, MemoryRequest, PostError, QueuePairConfig,
    Reliability, RemoteAddress, Status, Transport, Work, WorkRequest,
};
use fairway_ub::Rights;
use fairway_ub::wire::roce::{DEFAULT_P_KEY, NakCode, RnrTimer, Tail};
use fairway_ub::wire::{Duration, Psn};
use std::collections::BTreeSet;

/// Two nodes with a connection; the second's queue pair has this domain and grants these rights.
fn granting(domain: u32, rights: Rights) -> Pair {
    let own = own_options();
    let nodes = [Node::new(&own), Node::new(&own)];
    let [here, there] = &nodes;
    let config = QueuePairConfig { domain, ..there.config(Transport::Rc) };
    let pairs =
        [here.queue_pair(Transport::Rc), there.provider.create_queue_pair(&config).unwrap()];
    let gid = there.provider.gids()[0];
    there.connect_granting(pairs[1], there.peer(gid, pairs[0]), patient(), rights);
    here.connect(pairs[0], here.peer(gid, pairs[1]), patient());
    Pair { nodes, pairs }
}

fn works(there: &Node) -> [(Work, Rights); 3] {
    let remote = there.remote(64);
    [
        (Work::Write { remote, immediate: None }, Rights::WRITE),
        (Work::Read { remote }, Rights::READ),
        (Work::FetchAdd { remote, add: 1 }, Rights::ATOMIC),
    ]
}

fn refused(status: Status) -> bool {
    matches!(status, Status::RemoteAccess | Status::RemoteInvalidRequest)
}

#[test]
fn queue_pair_grants_the_accesses_of_its_rights() {
    for granted in [Rights::NONE, Rights::WRITE, Rights::READ, Rights::ATOMIC, Rights::ALL] {
        for kind in 0..3 {
            let pair = granting(DOMAIN, granted);
            let [here, there] = &pair.nodes;
            here.memory.write(0, &[0xa5; 8]);
            let (work, needed) = works(there)[kind];
            pair.post(0, 1, work, here.local(0, 8));
            if granted.contains(needed) {
                here.sent(1);
                continue;
            }
            let done = here.next(here.sends);
            let status = Status::RemoteInvalidRequest;
            assert_eq!((done.id, done.status), (1, status), "{granted:?} {work:?}");
            let code = NakCode::InvalidRequest;
            there.recorder.event(Event::Refused { queue_pair: pair.pairs[1], code });
            assert_eq!(there.memory.read(64, 8), [0; 8], "{granted:?} {work:?}");
            assert_eq!(here.memory.read(0, 8), [0xa5; 8], "{granted:?} {work:?}");
        }
    }
}

/// The rights of a region count beside those of the queue pair, and the refusal differs.
#[test]
fn region_grants_the_accesses_of_its_rights() {
    for kind in 0..3 {
        let pair = Pair::local(Transport::Rc);
        let [here, there] = &pair.nodes;
        let (work, needed) = works(there)[kind];
        let others = works(there).into_iter().map(|work| work.1).filter(|&right| right != needed);
        let rights = others.fold(Rights::NONE, Rights::with);
        there.provider.change_memory(there.region.segment, rights, DOMAIN).unwrap();
        pair.post(0, 1, work, here.local(0, 8));
        let done = here.next(here.sends);
        assert_eq!((done.id, done.status), (1, Status::RemoteAccess), "{work:?}");
        let code = NakCode::RemoteAccess;
        there.recorder.event(Event::Refused { queue_pair: pair.pairs[1], code });
    }
}

/// A connection whose first end may have `asks` READs and atomics in flight, and whose second end
/// answers `answers` of them.
fn with_depths(asks: u8, answers: u8) -> Pair {
    let own = own_options();
    let nodes = [Node::new(&own), Node::new(&own)];
    let pairs = [nodes[0].queue_pair(Transport::Rc), nodes[1].queue_pair(Transport::Rc)];
    let gid = nodes[0].provider.gids()[0];
    let reliability = Reliability { read_depth: asks, ..patient() };
    for (n, node) in nodes.iter().enumerate() {
        let peer = node.peer(gid, pairs[1 - n]);
        let (rights, p_key, q_key) = (Rights::ALL, DEFAULT_P_KEY, 0);
        let (expected, rnr_timer) = (Psn::new(7), RnrTimer::from_code(1));
        let mtu = node.provider.mtu();
        let ready = Change::ReadyToReceive { peer, mtu, expected, read_depth: answers, rnr_timer };
        let send = Change::ReadyToSend { first: expected, reliability };
        for change in [Change::Init { rights, p_key, q_key }, ready, send] {
            node.provider.modify(pairs[n], &change).unwrap();
        }
    }
    Pair { nodes, pairs }
}

#[test]
fn queue_pair_that_may_have_no_reads_in_flight_takes_none() {
    let pair = with_depths(0, 16);
    let [here, there] = &pair.nodes;
    for (work, needed) in works(there) {
        let local = here.local(0, 8);
        let request =
            WorkRequest { id: 1, work, local, signaled: true, solicited: false, fence: false };
        let posted = here.provider.post_send(pair.pairs[0], &[request]);
        match needed == Rights::WRITE {
            true => _ = here.sent(1),
            false => assert_eq!(posted, (0, Some(PostError::Operation)), "{work:?}"),
        }
    }
    // It stays so for a queue pair that is ready, and READs that may be posted cannot be forbidden.
    let attributes = |read_depth| {
        let reliability = Reliability { read_depth, ..patient() };
        let (rights, q_key, rnr_timer) = (Rights::ALL, 0, RnrTimer::from_code(1));
        Change::Adjust(Attributes { rights, q_key, reliability, rnr_timer })
    };
    let adjust = |read_depth| here.provider.modify(pair.pairs[0], &attributes(read_depth));
    adjust(0).unwrap();
    adjust(1).unwrap();
    assert!(adjust(0).is_err());
    pair.post(0, 2, works(there)[1].0, here.local(0, 8));
    here.sent(2);
    // In the error state everything is flushed.
    let pair = with_depths(0, 16);
    let [here, there] = &pair.nodes;
    here.provider.modify(pair.pairs[0], &Change::Error).unwrap();
    pair.post(0, 3, works(there)[1].0, here.local(0, 8));
    assert_eq!(here.next(here.sends).status, Status::Flushed);
}

#[test]
fn queue_pair_that_answers_no_reads_refuses_them() {
    for answers in [0, 1] {
        for kind in 0..3 {
            let pair = with_depths(16, answers);
            let [here, there] = &pair.nodes;
            let (work, needed) = works(there)[kind];
            pair.post(0, 1, work, here.local(0, 8));
            let done = here.next(here.sends);
            let expected = match answers == 0 && needed != Rights::WRITE {
                true => Status::RemoteInvalidRequest,
                false => Status::Success,
            };
            assert_eq!((done.id, done.status), (1, expected), "{answers} {work:?}");
        }
    }
}

#[test]
fn a_queue_pair_of_another_domain_opens_nothing() {
    for kind in 0..3 {
        let pair = granting(DOMAIN + 1, Rights::ALL);
        let [here, there] = &pair.nodes;
        pair.post(0, 1, works(there)[kind].0, here.local(0, 8));
        let done = here.next(here.sends);
        assert!(refused(done.status), "{done:?}");
        assert_eq!(there.memory.read(64, 8), [0; 8]);
    }
}

/// A WRITE and a READ of no bytes, with a key that no region has.
fn of_no_bytes() -> [(Work, Rights); 2] {
    let remote = RemoteAddress { address: 0, r_key: 0xffff_ffff };
    [
        (Work::Write { remote, immediate: None }, Rights::WRITE),
        (Work::Read { remote }, Rights::READ),
    ]
}

#[test]
fn accesses_to_no_bytes_need_no_key_and_end_in_order_with_others() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    for round in 0..20 {
        here.memory.write(0, &[round; 8]);
        let first = round as u64 * 6;
        let write = Work::Write { remote: there.remote(64), immediate: None };
        let read = Work::Read { remote: there.remote(64) };
        pair.post(0, first, write, here.local(0, 100_000));
        pair.post(0, first + 1, of_no_bytes()[0].0, here.local(0, 0));
        pair.post(0, first + 2, write, here.local(0, 8));
        pair.post(0, first + 3, of_no_bytes()[1].0, here.local(0, 0));
        pair.post(0, first + 4, read, here.local(200_000, 100_000));
        pair.post(0, first + 5, of_no_bytes()[0].0, here.local(0, 0));
        for id in first..first + 6 {
            let bytes = here.sent(id).bytes;
            assert_eq!(bytes == 0, matches!(id % 6, 1 | 3 | 5), "{id}");
        }
        assert_eq!(here.memory.read(200_000, 8), [round; 8]);
    }
}

#[test]
fn accesses_to_no_bytes_need_the_rights_of_the_queue_pair() {
    for (work, needed) in of_no_bytes() {
        for granted in [Rights::WRITE, Rights::READ] {
            let pair = granting(DOMAIN, granted);
            let here = &pair.nodes[0];
            pair.post(0, 1, work, here.local(0, 0));
            let done = here.next(here.sends);
            match granted == needed {
                true => assert_eq!(done.status, Status::Success, "{work:?}"),
                false => assert!(refused(done.status), "{granted:?} {work:?}: {done:?}"),
            }
        }
    }
}

#[test]
fn accesses_to_no_bytes_fail_where_the_queue_pair_is_gone() {
    let timeout = Duration::from_us(20_000);
    let impatient = Reliability { timeout, retries: 1, ..Reliability::default() };
    for (work, _) in of_no_bytes() {
        for is_destroyed in [false, true] {
            let own = own_options();
            let pair = Pair::with(Transport::Rc, [own.clone(), own], 1 << 20, impatient);
            let [here, there] = &pair.nodes;
            match is_destroyed {
                true => there.provider.destroy_queue_pair(pair.pairs[1]).unwrap(),
                false => there.provider.modify(pair.pairs[1], &Change::Error).unwrap(),
            }
            pair.post(0, 1, work, here.local(0, 0));
            let done = here.next(here.sends);
            assert_eq!((done.id, done.status), (1, Status::RetryExceeded), "{is_destroyed}");
            // The queue pair that sent the request is in the error state itself.
            pair.post(0, 2, work, here.local(0, 0));
            assert_eq!(here.next(here.sends).status, Status::Flushed);
        }
    }
}

#[test]
fn a_region_may_change_and_keep_its_key() {
    for (rights, domain) in [(Rights::READ, DOMAIN), (Rights::ALL, DOMAIN + 1)] {
        let pair = Pair::local(Transport::Rc);
        let [here, there] = &pair.nodes;
        let segment = there.region.segment;
        let (write, read) = (works(there)[0].0, works(there)[1].0);
        here.memory.write(0, &[1; 8]);
        pair.post(0, 1, write, here.local(0, 8));
        here.sent(1);
        // The previous rights are restored: nothing has changed.
        there.provider.change_memory(segment, Rights::ALL, DOMAIN).unwrap();
        pair.post(0, 2, write, here.local(0, 8));
        here.sent(2);
        there.provider.change_memory(segment, rights, domain).unwrap();
        if domain == DOMAIN {
            pair.post(0, 3, read, here.local(8, 8));
            here.sent(3);
            assert_eq!(here.memory.read(8, 8), [1; 8]);
        }
        here.memory.write(0, &[2; 8]);
        pair.post(0, 4, write, here.local(0, 8));
        let done = here.next(here.sends);
        assert!(done.id == 4 && refused(done.status), "{done:?}");
        assert_eq!(there.memory.read(64, 8), [1; 8]);
    }
}

#[test]
fn key_of_a_registration_does_not_follow_from_the_one_before() {
    let node = Node::new(&own_options());
    let mut keys = Vec::new();
    for _ in 0..64 {
        let request =
            MemoryRequest { domain: DOMAIN, address: BASE, length: 64, rights: Rights::ALL };
        let region = node.provider.register(node.memory.foreign(64), &request).unwrap();
        keys.push(region.r_key);
        node.provider.deregister(region.segment).unwrap();
    }
    // All have the same number of a segment, above the random bits.
    assert!(keys.iter().all(|key| key >> KEY_TAG_BITS == keys[0] >> KEY_TAG_BITS), "{keys:x?}");
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:x?}");
    let steps = keys.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    let steps: BTreeSet<u32> = steps.collect();
    assert!(steps.len() > 32, "{keys:x?}");
}

#[test]
fn queue_pair_that_ends_after_receiving_has_acknowledged() {
    for round in 0..30 {
        let pair = Pair::local(Transport::Rc);
        let [here, there] = &pair.nodes;
        there.receive(pair.pairs[1], 1, 0, 8);
        pair.post(0, 2, Work::Send { tail: Tail::Nothing }, here.local(0, 8));
        there.received(1);
        match round % 3 {
            0 => there.provider.modify(pair.pairs[1], &Change::Error).unwrap(),
            1 => there.provider.modify(pair.pairs[1], &Change::Reset).unwrap(),
            _ => there.provider.destroy_queue_pair(pair.pairs[1]).unwrap(),
        }
        here.sent(2);
    }
}

#[test]
fn unpolled_completions_are_dropped_when_their_queue_pair_is_reset() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let send = Work::Send { tail: Tail::Nothing };
    for id in 0..4 {
        there.receive(pair.pairs[1], id, 0, 8);
        pair.post(0, id, send, here.local(0, 8));
    }
    // After the last receive all completions are in the queues.
    (0..4).for_each(|id| _ = here.sent(id));
    there.received(0);
    there.provider.modify(pair.pairs[1], &Change::Reset).unwrap();
    assert_eq!(there.provider.poll(there.receives, &mut [Completion::EMPTY; 8]), 0);
}
