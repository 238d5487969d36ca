//! Several processes of one host, and another host.

use crate::namespaces::Namespaces;
use crate::node::{Node, options, patient};
use crate::processes::{Other, write_and_read_back};
use crate::superuser;
use fairway_roce::Transport;
use std::net::{IpAddr, SocketAddr, UdpSocket};

#[test]
fn processes_of_one_host_share_the_port_of_roce() {
    let Some(spaces) = Namespaces::new("share") else {
        return superuser::skip("hosts in network namespaces");
    };
    let mut others = [0, 1].map(|_| spaces.inside(1, || Other::start("10.77.0.2")));
    let here = spaces.inside(0, || Node::new(&options("10.77.0.1")));
    let gid = IpAddr::from([10, 77, 0, 2]).into();
    for (seed, other) in others.iter_mut().enumerate() {
        let pair = here.queue_pair(Transport::Rc);
        let peer = spaces.inside(0, || here.peer(gid, other.queue_pair));
        here.connect(pair, peer, patient());
        other.connect([10, 77, 0, 1].into(), pair);
        // The kernel gives all packets to one process, which forwards those of the other.
        write_and_read_back(&here, pair, other, seed as u64);
    }
    assert_ne!(others[0].queue_pair.value() >> 16, others[1].queue_pair.value() >> 16);
}

/// Packets that arrive at the sockets of a slot are assumed to come from a process of this host.
#[test]
fn other_hosts_reach_no_socket_that_is_for_processes_of_this_host() {
    let Some(spaces) = Namespaces::new("slots") else {
        return superuser::skip("hosts in network namespaces");
    };
    for (server, client) in [("10.77.0.2", "10.77.0.1"), ("fd77::2", "fd77::1")] {
        let node = spaces.inside(1, || Node::new(&options(server)));
        let slot = node.queue_pair(Transport::Rc).value() >> 16;
        let to = SocketAddr::new(server.parse().unwrap(), 24_576 + slot as u16);
        // One datagram is as long as a packet, with a wrong ICRC; the other is too short. A socket
        // is a queue: when the second is counted, the first would have been.
        spaces.inside(0, || {
            let socket = UdpSocket::bind((client, 0)).unwrap();
            // An error would refer to an earlier datagram.
            (0..10).for_each(|_| _ = socket.send_to(&[0; 64], to));
        });
        spaces.inside(1, || {
            let socket = UdpSocket::bind((server, 0)).unwrap();
            socket.send_to(&[0; 4], to).unwrap();
        });
        node.until_counted(|counters| counters.malformed + counters.damaged > 0);
        let counters = node.provider.network_counters();
        assert_eq!((counters.malformed, counters.damaged), (1, 0), "from {client}");
    }
}
