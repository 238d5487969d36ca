//! Several processes of one host, and another host.

use crate::namespaces::Namespaces;
use crate::node::{Node, options, patient};
use crate::processes::{Other, write_and_read_back};
use fairway_softnic::roce::Transport;
use std::net::IpAddr;

#[test]
fn processes_of_one_host_share_the_port_of_roce() {
    let Some(spaces) = Namespaces::new("share") else {
        println!("SKIPPED: network namespaces need the superuser and the ip tool");
        return;
    };
    let mut others = [0, 1].map(|_| spaces.inside(1, || Other::start("10.77.0.2")));
    let here = spaces.inside(0, || Node::new(&options("10.77.0.1")));
    let gid = IpAddr::from([10, 77, 0, 2]).into();
    for (seed, other) in others.iter_mut().enumerate() {
        let pair = here.queue_pair(Transport::Rc);
        let peer = spaces.inside(0, || here.peer(gid, other.queue_pair));
        here.connect(pair, peer, patient());
        other.connect([10, 77, 0, 1].into(), pair);
        // The kernel gives all our packets to one of them, who hands the other's on.
        write_and_read_back(&here, pair, other, seed as u64);
    }
    assert_ne!(others[0].queue_pair.value() >> 16, others[1].queue_pair.value() >> 16);
}
