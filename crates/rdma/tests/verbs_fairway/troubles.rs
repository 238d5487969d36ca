//! Missing peers, missing memory and forged packets: other queue pairs continue.

use std::net::{IpAddr, Ipv4Addr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::node::{BASE, DOMAIN, Memory, Node, Pair, Q_KEY, options};
use fairway_rdma::{Gid, LOCAL_BITS, ProviderOptions};
use fairway_roce::{
    Change, Completion, MemoryRequest, Peer, QueuePairConfig, QueuePairState, Reliability,
    RemoteAddress, Status, Transport, Work, WorkRequest,
};
use fairway_ub::wire::Qpn;
use fairway_ub::wire::roce::Tail;
use fairway_ub::{LocalRange, Rights};

const SEND: Work = Work::Send { tail: Tail::Nothing };

/// A queue pair of a slot that no process has.
const UNUSED_QPN: Qpn = Qpn::new(255 << LOCAL_BITS | 7);

/// All sends that wait for a connection are lost together, however many there are.
#[test]
fn sends_without_a_route_are_lost() {
    const POSTED: u64 = 8000;
    let node = Node::new(&options("127.0.0.1"));
    let config = QueuePairConfig { send_depth: POSTED as u32, ..node.config(Transport::Uc) };
    let number = node.provider.create_queue_pair(&config).unwrap();
    // A packet from a loopback address can't leave the host.
    let gid = Gid::from(IpAddr::from([192, 0, 2, 1]));
    node.connect(number, node.peer(gid, UNUSED_QPN), Reliability::default());
    let (work, solicited, fence) = (SEND, false, false);
    let local = node.local(0, 8);
    let request = |id| {
        let signaled = id + 1 == POSTED;
        WorkRequest { id, work, local, signaled, solicited, fence }
    };
    let requests: Vec<_> = (0..POSTED).map(request).collect();
    assert_eq!(node.provider.post_send(number, &requests), (requests.len(), None));
    node.sent(POSTED - 1);
}

#[test]
fn datagrams_to_a_process_that_is_not_there_are_lost_at_once_after_the_first() {
    let node = Node::new(&options("127.0.0.1"));
    let number = node.queue_pair(Transport::Ud);
    node.connect(number, Peer::default(), Reliability::default());
    let to = node.peer(node.provider.gids()[0], UNUSED_QPN);
    let work = Work::Datagram { to, q_key: Q_KEY, immediate: None };
    let request = |id| WorkRequest {
        id,
        work,
        local: node.local(0, 8),
        signaled: true,
        solicited: false,
        fence: false,
    };
    let requests: Vec<_> = (0..20).map(request).collect();
    assert_eq!(node.provider.post_send(number, &requests), (20, None));
    // Once the provider has found that no process is there, all of them complete.
    node.sent(0);
    let mut rest = [Completion::EMPTY; 20];
    assert_eq!(node.provider.poll(node.sends, &mut rest), 19);
}

#[test]
fn queue_pair_without_operations_gets_no_error_when_its_peer_is_gone() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let [number, _] = pair.pairs;
    // The queue pair waits for a missing process, and so does another one.
    here.provider.modify(number, &Change::Reset).unwrap();
    let unused = here.peer(here.provider.gids()[0], UNUSED_QPN);
    let other = here.queue_pair(Transport::Rc);
    for waiting in [number, other] {
        here.connect(waiting, unused, Reliability::default());
        here.post(waiting, 1000, SEND, here.local(0, 8));
    }
    // Then it is reset, connects to an existing peer, and has the maximum number of operations
    // under way.
    here.provider.modify(number, &Change::Reset).unwrap();
    let peer = here.peer(there.provider.gids()[0], pair.pairs[1]);
    here.connect(number, peer, Reliability::default());
    for id in 0..120 {
        here.post(number, id, SEND, here.local(0, 8));
    }
    let done = here.next(here.sends);
    let found = (done.queue_pair, done.id, done.status);
    assert_eq!(found, (other, 1000, Status::RetryExceeded));
    for id in 0..120 {
        there.receive(pair.pairs[1], id, 0, 8);
    }
    for id in 0..120 {
        here.sent(id);
    }
}

#[test]
fn operation_on_deregistered_memory_does_not_use_the_region_that_reuses_its_number() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let memory = Memory::new(64);
    let request = MemoryRequest { domain: DOMAIN, address: 0, length: 64, rights: Rights::NONE };
    let first = here.provider.register(memory.foreign(64), &request).unwrap();
    // More operations than may be under way, which wait for a receive: the last two are not begun.
    for id in 0..96 {
        pair.post(0, id, SEND, here.local(0, 8));
    }
    let write = Work::Write { remote: there.remote(512), immediate: None };
    let local = LocalRange { segment: first.segment, offset: 0, length: 64 };
    pair.post(0, 96, write, local.into());
    pair.post(0, 97, SEND, here.local(0, 8));
    here.provider.deregister(first.segment).unwrap();
    memory.write(0, &[0xa5; 64]);
    let second = here.provider.register(memory.foreign(64), &request).unwrap();
    assert_eq!(second.segment, first.segment, "the number is used again");
    for id in 0..100 {
        there.receive(pair.pairs[1], id, 0, 8);
    }
    for id in 0..96 {
        here.sent(id);
    }
    for (id, status) in [(96, Status::LocalProtection), (97, Status::Flushed)] {
        let done = here.next(here.sends);
        assert_eq!((done.id, done.status), (id, status));
    }
    assert_eq!(there.memory.read(512, 64), [0; 64]);
}

#[test]
fn addresses_that_a_stranger_invents_do_not_push_out_real_ones() {
    let node = Node::new(&options("127.0.0.1"));
    let liar = UnixDatagram::unbound().unwrap();
    let name = format!("fairway-verbs-{}", node.provider.slot());
    let to = SocketAddr::from_abstract_name(name).unwrap();
    for number in 0..2000_u32 {
        let from = Ipv4Addr::from(0x0a00_0000 + number).to_ipv6_mapped().octets();
        let forwarded = [&[0xf8, 0][..], &from, &[0; 2], &[1; 256]].concat();
        liar.send_to_addr(&forwarded, &to).unwrap();
    }
    node.recorder.until(|calls| (calls.management.len() == 2000).then_some(()));
    // No state is stored for an address that can be its own number.
    let address: Ipv4Addr = "10.0.7.7".parse().unwrap();
    let number = node.provider.resolve(Gid::from(std::net::IpAddr::V4(address))).unwrap();
    assert_eq!(number, u64::from(u32::from(address)));
    assert_eq!(node.provider.gid_of(number).unwrap().ip(), address);
}

#[test]
fn queue_pairs_come_and_go_without_an_end() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    // Every number is used more than once.
    let mut config = here.config(Transport::Rc);
    (config.send_depth, config.receive_depth) = (4, 4);
    for round in 0..66_000_u32 {
        let number = here.provider.create_queue_pair(&config).unwrap();
        if round % 1000 == 0 {
            let peer = here.peer(there.provider.gids()[0], UNUSED_QPN);
            here.connect(
                number,
                Peer { queue_pair: pair.pairs[1], ..peer },
                Reliability::default(),
            );
            here.receive(number, 1, 0, 8);
            here.post(number, 1, SEND, here.local(0, 8));
        }
        here.provider.destroy_queue_pair(number).unwrap();
    }
    there.receive(pair.pairs[1], 1, 0, 8);
    pair.post(0, 2, SEND, here.local(0, 8));
    here.sent(2);
    for _ in 0..10_000 {
        let queue = here.provider.create_completion_queue(4).unwrap();
        here.provider.destroy_completion_queue(queue).unwrap();
        let queue = here.provider.create_receive_queue(DOMAIN, 4).unwrap();
        here.provider.destroy_receive_queue(queue).unwrap();
    }
}

#[test]
fn a_queue_pair_in_error_still_takes_what_is_posted_and_flushes_it() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let [number, _] = pair.pairs;
    // An error of an unsignaled operation.
    let wrong = RemoteAddress { address: BASE, r_key: there.region.r_key ^ 1 };
    let request = WorkRequest {
        id: 1,
        work: Work::Write { remote: wrong, immediate: None },
        local: here.local(0, 8),
        signaled: false,
        solicited: false,
        fence: false,
    };
    assert_eq!(here.provider.post_send(number, &[request]), (1, None));
    let done = here.next(here.sends);
    assert_eq!((done.id, done.status), (1, Status::RemoteAccess));
    assert_eq!(here.provider.state(number), Some(QueuePairState::Error));
    here.receive(number, 2, 0, 8);
    assert_eq!(here.provider.post_send(number, &[request; 5]), (5, None));
    for queue in [here.sends, here.sends, here.sends, here.sends, here.sends, here.receives] {
        assert_eq!(here.next(queue).status, Status::Flushed);
    }
}

#[test]
fn a_shared_queue_is_free_again_although_messages_were_in_the_middle() {
    let lossy = |seed| ProviderOptions {
        emulate: Some(("loss=10%".parse().unwrap(), seed)),
        ..options("127.0.0.1")
    };
    let nodes = [1, 2].map(|seed| Node::new(&lossy(seed)));
    let [here, there] = &nodes;
    for round in 0..60 {
        let queue = there.provider.create_receive_queue(DOMAIN, 64);
        let queue = queue.unwrap_or_else(|error| panic!("round {round}: {error}"));
        let config =
            QueuePairConfig { shared_receives: Some(queue), ..there.config(Transport::Rc) };
        let to = there.provider.create_queue_pair(&config).unwrap();
        let from = here.queue_pair(Transport::Rc);
        let peer = here.peer(there.provider.gids()[0], to);
        here.connect(from, peer, Reliability::default());
        there.connect(to, there.peer(here.provider.gids()[0], from), Reliability::default());
        for id in 0..40 {
            there.receive_shared(queue, id, 0, 8);
        }
        let write = Work::Write { remote: there.remote(4096), immediate: None };
        for id in 0..40 {
            here.post(from, id, write, here.local(0, 20_000));
            here.post(from, id, SEND, here.local(0, 8));
        }
        // Some messages have arrived, and others that arrived wait for lost ones.
        for id in 0..=round % 24 {
            there.received(id);
        }
        there.provider.destroy_queue_pair(to).unwrap();
        there.provider.destroy_receive_queue(queue).unwrap();
        here.provider.destroy_queue_pair(from).unwrap();
        let mut out = [Completion::EMPTY; 256];
        while there.provider.poll(there.receives, &mut out) > 0 {}
        while here.provider.poll(here.sends, &mut out) > 0 {}
    }
}
