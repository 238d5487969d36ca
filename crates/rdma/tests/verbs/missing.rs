//! Registered memory that the program unmaps, or whose file is truncated: a completion with an
//! error at both ends, no signal, and other connections and regions continue.

use crate::node::{BASE, DOMAIN, Node, Pair};
use crate::pages::{Pages, in_child};
use fairway_rdma::ForeignMemory;
use fairway_roce::{
    MemoryRegion, MemoryRequest, QueuePairState, RemoteAddress, ScatterList, Status, Transport,
    Work,
};
use fairway_ub::wire::roce::Tail;
use fairway_ub::{LocalRange, Rights};

const LENGTH: usize = 1 << 20;
/// Lengths of a word, of less than a packet, and of many packets.
const LENGTHS: [u32; 3] = [8, 100, 200_000];
const SEND: Work = Work::Send { tail: Tail::Nothing };

fn register(node: &Node, pages: &Pages) -> MemoryRegion {
    // SAFETY: the test has no references to the pages, and nothing else is mapped there.
    let memory = unsafe { ForeignMemory::new(pages.start.as_ptr(), pages.length) };
    let length = pages.length as u64;
    let request = MemoryRequest { domain: DOMAIN, address: BASE, length, rights: Rights::ALL };
    node.provider.register(memory, &request).unwrap()
}

fn local(region: &MemoryRegion, offset: u64, length: u32) -> ScatterList {
    LocalRange { segment: region.segment, offset, length }.into()
}

/// Checks that another connection between the same nodes still works, with other regions.
fn demand_others_continue(pair: &Pair) {
    let [here, there] = &pair.nodes;
    let pairs = [here.queue_pair(Transport::Rc), there.queue_pair(Transport::Rc)];
    let gid = there.provider.gids()[0];
    here.connect(pairs[0], here.peer(gid, pairs[1]), crate::node::patient());
    there.connect(pairs[1], there.peer(gid, pairs[0]), crate::node::patient());
    here.memory.write(0, &crate::node::content(5, 100_000));
    let work = Work::Write { remote: there.remote(200_000), immediate: None };
    here.post(pairs[0], 90, work, here.local(0, 100_000));
    here.sent(90);
    here.post(
        pairs[0],
        91,
        Work::Read { remote: there.remote(200_000) },
        here.local(500_000, 100_000),
    );
    here.sent(91);
    assert_eq!(here.memory.read(500_000, 100_000), crate::node::content(5, 100_000));
}

/// Checks that a request is refused by a node whose memory is gone from offset 8192 on, over a new
/// connection.
fn demand_refused(kind: fn(usize) -> Pages, work: fn(RemoteAddress) -> Work, length: u32) {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let pages = kind(LENGTH);
    let region = register(there, &pages);
    let remote = |offset| RemoteAddress { address: BASE + offset, r_key: region.r_key };
    let write = Work::Write { remote: remote(8192), immediate: None };
    pair.post(0, 1, write, here.local(0, 200_000));
    here.sent(1);
    pages.take_away(8192);
    pair.post(0, 2, Work::Write { remote: remote(0), immediate: None }, here.local(0, 8192));
    here.sent(2);
    let work = work(remote(8192));
    pair.post(0, 3, work, here.local(0, length));
    pair.post(0, 4, work, here.local(0, length));
    for (id, status) in [(3, Status::RemoteAccess), (4, Status::Flushed)] {
        let done = here.next(here.sends);
        assert_eq!((done.id, done.status), (id, status), "{work:?} {length}");
    }
    assert_eq!(here.provider.state(pair.pairs[0]), Some(QueuePairState::Error));
    demand_others_continue(&pair);
}

#[test]
fn operations_on_missing_memory_of_a_peer_end_with_remote_access() {
    in_child("missing::operations_on_missing_memory_of_a_peer_end_with_remote_access", || {
        for kind in [Pages::new, Pages::of_file] {
            for length in LENGTHS {
                demand_refused(kind, |remote| Work::Write { remote, immediate: None }, length);
                demand_refused(kind, |remote| Work::Read { remote }, length);
            }
            demand_refused(kind, |remote| Work::FetchAdd { remote, add: 1 }, 8);
        }
    });
}

/// Checks that a request fails if its own memory is gone, over a new connection.
fn demand_failed(kind: fn(usize) -> Pages, work: fn(&Node) -> Work, length: u32) {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    for id in 70..74 {
        there.receive(pair.pairs[1], id, 600_000, 300_000);
    }
    let pages = kind(LENGTH);
    let region = register(here, &pages);
    let write = Work::Write { remote: there.remote(0), immediate: None };
    pair.post(0, 1, write, local(&region, 8192, 200_000));
    here.sent(1);
    pages.take_away(8192);
    let work = work(there);
    pair.post(0, 2, write, here.local(0, 100_000));
    pair.post(0, 3, work, local(&region, 8192, length));
    pair.post(0, 4, work, local(&region, 0, 8));
    here.sent(2);
    for (id, status) in [(3, Status::LocalProtection), (4, Status::Flushed)] {
        let done = here.next(here.sends);
        assert_eq!((done.id, done.status), (id, status), "{work:?} {length}");
    }
    demand_others_continue(&pair);
}

#[test]
fn operations_with_missing_memory_of_their_own_end_with_local_protection() {
    in_child(
        "missing::operations_with_missing_memory_of_their_own_end_with_local_protection",
        || {
            for kind in [Pages::new, Pages::of_file] {
                for length in LENGTHS {
                    let write =
                        |there: &Node| Work::Write { remote: there.remote(64), immediate: None };
                    demand_failed(kind, write, length);
                    demand_failed(kind, |there| Work::Read { remote: there.remote(64) }, length);
                    demand_failed(kind, |_| SEND, length);
                }
                demand_failed(kind, |there| Work::FetchAdd { remote: there.remote(64), add: 1 }, 8);
            }
        },
    );
}

/// Checks a receive of `ranges` ranges whose memory is gone; with two ranges, that of the first is
/// still there.
fn demand_no_receive(ranges: usize, length: u32) {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let pages = Pages::new(LENGTH);
    let region = register(there, &pages);
    there.receive(pair.pairs[1], 70, 600_000, 300_000);
    let gone = LocalRange { segment: region.segment, offset: 0, length: 300_000 };
    let there_is = LocalRange { segment: there.region.segment, offset: 0, length: 5 };
    let list = ScatterList::new(&[there_is, gone][2 - ranges..]).unwrap();
    let request = fairway_roce::ReceiveRequest { id: 71, local: list };
    let posted = there.provider.post_receive(pair.pairs[1], &[request]);
    assert_eq!(posted, (1, None));
    pages.take_away(0);
    pair.post(0, 1, SEND, here.local(0, length));
    here.sent(1);
    there.received(70);
    pair.post(0, 2, SEND, here.local(0, length));
    let done = here.next(here.sends);
    assert_eq!((done.id, done.status), (2, Status::RemoteOperation), "{ranges} {length}");
    let done = there.next(there.receives);
    assert_eq!((done.id, done.status), (71, Status::LocalProtection), "{ranges} {length}");
    demand_others_continue(&pair);
}

#[test]
fn a_receive_without_memory_fails_at_both_ends() {
    in_child("missing::a_receive_without_memory_fails_at_both_ends", || {
        for length in LENGTHS {
            demand_no_receive(1, length);
            demand_no_receive(2, length);
        }
    });
}

/// Checks an operation of an unreliable queue pair whose own memory is gone.
fn demand_failed_unreliable(transport: Transport, length: u32) {
    let pair = Pair::local(transport);
    let [here, there] = &pair.nodes;
    let to = here.peer(there.provider.gids()[0], pair.pairs[1]);
    let work = match transport {
        Transport::Ud => Work::Datagram { to, q_key: crate::node::Q_KEY, immediate: None },
        _ => SEND,
    };
    let pages = Pages::new(LENGTH);
    let region = register(here, &pages);
    there.receive(pair.pairs[1], 70, 0, 10_000);
    pair.post(0, 1, work, local(&region, 8192, length));
    here.sent(1);
    there.received(70);
    pages.take_away(8192);
    pair.post(0, 2, work, local(&region, 8192, length));
    let done = here.next(here.sends);
    assert_eq!((done.id, done.status), (2, Status::LocalProtection), "{transport:?} {length}");
    pair.post(0, 3, work, here.local(0, length));
    let done = here.next(here.sends);
    assert_eq!((done.id, done.status), (3, Status::Flushed), "{transport:?} {length}");
}

#[test]
fn unreliable_operations_with_missing_memory_of_their_own_end_with_local_protection() {
    let name =
        "missing::unreliable_operations_with_missing_memory_of_their_own_end_with_local_protection";
    in_child(name, || {
        for length in [8, 100, 1000] {
            demand_failed_unreliable(Transport::Ud, length);
            demand_failed_unreliable(Transport::Uc, length);
        }
    });
}
