//! Datagrams that wait until the link to their process has been made.

use std::net::UdpSocket;

use fairway_rdma::{LOCAL_BITS, fairway_port};
use fairway_roce::{Change, Completion, Peer, Reliability, Transport, Work, WorkRequest};
use fairway_ub::wire::Qpn;

use crate::node::{Node, Q_KEY, content, own_options};

/// Two nodes on one address, with a queue pair of datagrams each, that have no link yet.
fn unlinked() -> ([Node; 2], [Qpn; 2]) {
    let options = own_options();
    let nodes = [0, 1].map(|_| Node::new(&options));
    let numbers = [0, 1].map(|n: usize| nodes[n].queue_pair(Transport::Ud));
    for (node, number) in nodes.iter().zip(numbers) {
        node.connect(number, Peer::default(), Reliability::default());
    }
    (nodes, numbers)
}

fn datagram(to: Peer) -> Work {
    Work::Datagram { to, q_key: Q_KEY, immediate: None }
}

/// UCX uses the memory again when the peer has requested a connection, too.
#[test]
fn datagrams_that_wait_keep_the_bytes_that_they_were_posted_with() {
    let (nodes, numbers) = unlinked();
    let [here, there] = &nodes;
    let to = here.peer(there.provider.gids()[0], numbers[1]);
    let bytes = content(11, 8000);
    here.memory.write(0, &bytes);
    for id in 0..40 {
        there.receive(numbers[1], id, 300 * id, 240);
    }
    // In one call, so that the link is not made meanwhile.
    let requests: Vec<_> = (0..40)
        .map(|id| WorkRequest {
            id,
            work: datagram(to),
            local: here.local(200 * id, 200),
            signaled: true,
            solicited: false,
            fence: false,
        })
        .collect();
    assert_eq!(here.provider.post_send(numbers[0], &requests), (40, None));
    here.memory.write(0, &[0; 8000]);
    for id in 0..40 {
        here.sent(id);
        there.received(id);
        let at = 300 * id as usize + 40;
        let posted = 200 * id as usize;
        assert_eq!(there.memory.read(at, 200), bytes[posted..posted + 200], "datagram {id}");
    }
}

#[test]
fn datagram_that_waits_arrives_although_its_memory_is_deregistered() {
    let (nodes, numbers) = unlinked();
    let [here, there] = &nodes;
    let to = here.peer(there.provider.gids()[0], numbers[1]);
    let bytes = content(12, 100);
    here.memory.write(0, &bytes);
    there.receive(numbers[1], 1, 0, 140);
    here.post(numbers[0], 1, datagram(to), here.local(0, 100));
    here.provider.deregister(here.region.segment).unwrap();
    here.sent(1);
    there.received(1);
    assert_eq!(there.memory.read(40, 100), bytes);
}

/// Returns false if the attempt to reach the silent process has ended before the others' datagrams
/// arrived, as on a host that is busy for a second.
fn overtakes() -> bool {
    let (nodes, numbers) = unlinked();
    let [here, there] = &nodes;
    // A process that never answers: the attempt to reach it lasts until its time-out.
    let gid = there.provider.gids()[0];
    let _silent = UdpSocket::bind((gid.ip(), fairway_port(200))).unwrap();
    let silent = here.peer(gid, Qpn::new(200 << LOCAL_BITS | 7));
    let to = here.peer(gid, numbers[1]);
    for id in 0..10 {
        there.receive(numbers[1], id, 0, 48);
    }
    for id in 0..10 {
        here.post(numbers[0], 2 * id, datagram(silent), here.local(0, 8));
        here.post(numbers[0], 2 * id + 1, datagram(to), here.local(0, 8));
    }
    for id in 0..10 {
        there.received(id);
    }
    let overtaken = here.provider.poll(here.sends, &mut [Completion::EMPTY; 1]) == 0;
    // Completions are in the order of posting.
    if overtaken {
        for id in 0..20 {
            here.sent(id);
        }
    }
    overtaken
}

#[test]
fn datagrams_overtake_those_to_a_process_that_does_not_answer() {
    assert!((0..5).any(|_| overtakes()));
}

#[test]
fn reset_drops_datagrams_that_wait() {
    let (nodes, numbers) = unlinked();
    let [here, there] = &nodes;
    let gid = there.provider.gids()[0];
    let _silent = UdpSocket::bind((gid.ip(), fairway_port(200))).unwrap();
    let silent = here.peer(gid, Qpn::new(200 << LOCAL_BITS | 7));
    here.post(numbers[0], 1, datagram(silent), here.local(0, 8));
    here.provider.modify(numbers[0], &Change::Reset).unwrap();
    here.connect(numbers[0], Peer::default(), Reliability::default());
    there.receive(numbers[1], 1, 0, 48);
    here.post(numbers[0], 2, datagram(here.peer(gid, numbers[1])), here.local(0, 8));
    here.sent(2);
    there.received(1);
}
