//! Memory and queue pairs that are removed while packets arrive.

use crate::node::{DOMAIN, Memory, Pair, Recorder, content, own_options, patient};
use fairway_rdma::{DEVICE_ADDRESSES, Gid, ProviderError, ProviderKind, ROCE_PORT, open};
use fairway_roce::{MemoryRequest, Status, Transport, Work};
use fairway_ub::Rights;
use fairway_ub::wire::roce::Tail;

/// A separate region is deregistered while a peer writes to it. From then on its memory does not
/// change, and may be freed.
#[test]
fn deregistered_memory_does_not_change_any_more() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    here.memory.write(0, &content(1, 1 << 16));
    let memory = Memory::new(1 << 16);
    let request =
        MemoryRequest { domain: DOMAIN, address: 0, length: 1 << 16, rights: Rights::ALL };
    let region = there.provider.register(memory.foreign(1 << 16), &request).unwrap();
    let remote = fairway_roce::RemoteAddress { address: 0, r_key: region.r_key };
    for id in 0..100 {
        pair.post(0, id, Work::Write { remote, immediate: None }, here.local(0, 1 << 16));
    }
    here.sent(0);
    there.provider.deregister(region.segment).unwrap();
    memory.write(0, &[0xaa; 1 << 16]);
    let mut refused = 0;
    for _ in 1..100 {
        match here.next(here.sends).status {
            Status::Success if refused == 0 => {}
            Status::RemoteAccess if refused == 0 => refused = 1,
            Status::Flushed if refused == 1 => {}
            other => panic!("{other:?} after {refused}"),
        }
    }
    assert!(memory.read(0, 1 << 16).iter().all(|byte| *byte == 0xaa));
    let missing = there.provider.deregister(region.segment);
    assert!(matches!(missing, Err(ProviderError::Missing)));
}

#[test]
fn memory_goes_although_receives_and_sends_name_it() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    there.receive(pair.pairs[1], 1, 0, 64);
    there.provider.deregister(there.region.segment).unwrap();
    there.memory.write(0, &[0xaa; 64]);
    pair.post(0, 2, Work::Send { tail: Tail::Nothing }, here.local(0, 64));
    assert_eq!(here.next(here.sends).status, Status::RemoteOperation);
    assert_eq!(there.next(there.receives).status, Status::LocalProtection);
    assert_eq!(there.memory.read(0, 64), [0xaa; 64]);
}

#[test]
fn a_destroyed_queue_pairs_memory_is_left_alone() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    here.memory.write(0, &content(1, 1 << 16));
    let send = |id| pair.post(0, id, Work::Send { tail: Tail::Nothing }, here.local(0, 1 << 16));
    for id in 0..63 {
        there.receive(pair.pairs[1], id, 0, 1 << 16);
        send(id);
    }
    there.received(0);
    there.provider.destroy_queue_pair(pair.pairs[1]).unwrap();
    there.memory.write(0, &[0xaa; 1 << 16]);
    // All earlier messages may have arrived by now; this one cannot have.
    send(63);
    // Packets that are on their way find no queue pair.
    while here.next(here.sends).status == Status::Success {}
    assert!(there.memory.read(0, 1 << 16).iter().all(|byte| *byte == 0xaa));
    assert_eq!(there.provider.state(pair.pairs[1]), None);
}

#[test]
fn objects_in_use_are_not_removed() {
    let pair = Pair::local(Transport::Rc);
    let here = &pair.nodes[0];
    let busy = here.provider.destroy_completion_queue(here.sends);
    assert!(matches!(busy, Err(ProviderError::Busy)));
    here.provider.destroy_queue_pair(pair.pairs[0]).unwrap();
    here.provider.destroy_completion_queue(here.sends).unwrap();
    let missing = here.provider.destroy_queue_pair(pair.pairs[0]);
    assert!(matches!(missing, Err(ProviderError::Missing)));
    assert!(matches!(here.provider.arm(here.sends, false), Err(ProviderError::Missing)));
}

#[test]
fn an_address_of_a_family_the_device_has_not_is_unreachable() {
    let node = crate::node::Node::new(&own_options());
    let gid = Gid::from(std::net::IpAddr::from(std::net::Ipv6Addr::LOCALHOST));
    assert!(matches!(node.provider.resolve(gid), Err(ProviderError::Unreachable(_))));
}

#[test]
fn queue_pair_numbers_contain_the_slot() {
    let pair = Pair::local(Transport::Rc);
    for (node, number) in pair.nodes.iter().zip(pair.pairs) {
        assert_eq!(fairway_rdma::slot_of(number), node.provider.slot());
    }
    let [a, b] = &pair.nodes;
    assert_ne!(a.provider.slot(), b.provider.slot());
}

#[test]
fn a_queue_pair_may_be_connected_to_itself_and_to_its_neighbour() {
    let node = crate::node::Node::new(&own_options());
    let pairs = [(); 3].map(|()| node.queue_pair(Transport::Rc));
    let gid = node.provider.gids()[0];
    for (pair, other) in [(0, 0), (1, 2), (2, 1)] {
        node.connect(pairs[pair], node.peer(gid, pairs[other]), patient());
    }
    for (round, pair) in [0, 1].into_iter().enumerate() {
        let bytes = content(round as u64, 9000);
        node.memory.write(0, &bytes);
        let work = Work::Write { remote: node.remote(20_000), immediate: None };
        node.post(pairs[pair], 1, work, node.local(0, 9000));
        node.sent(1);
        assert_eq!(node.memory.read(20_000, 9000), bytes);
    }
}

#[test]
fn without_the_port_of_roce_there_is_still_this_host() {
    let own = own_options();
    let taken = std::net::UdpSocket::bind((own.addresses[0], ROCE_PORT)).unwrap();
    let pair = Pair::new(Transport::Rc, [own.clone(), own]);
    let [here, there] = &pair.nodes;
    let work = Work::Write { remote: there.remote(0), immediate: None };
    pair.post(0, 1, work, here.local(0, 9000));
    here.sent(1);
    let elsewhere = Gid::from(std::net::IpAddr::from([192, 0, 2, 1]));
    let error = here.provider.resolve(elsewhere).unwrap_err().to_string();
    assert!(error.contains("UDP port 4791 is another's"), "{error}");
    drop(taken);
}

#[test]
fn a_device_has_only_so_many_addresses() {
    let own = own_options();
    let std::net::IpAddr::V4(first) = own.addresses[0] else { unreachable!() };
    // The addresses are far from those that other tests use.
    let other = |number: u32| std::net::Ipv4Addr::from(u32::from(first) ^ (number << 16)).into();
    let mut options = own;
    options.addresses = (0..=DEVICE_ADDRESSES as u32).map(other).collect();
    let refused = open(ProviderKind::Roce, &options, Recorder::new());
    assert!(matches!(refused.err(), Some(ProviderError::Parameter("addresses"))));
    options.addresses.pop();
    let last = *options.addresses.last().unwrap();
    let provider = open(ProviderKind::Roce, &options, Recorder::new()).unwrap();
    assert_eq!(provider.gids().len(), DEVICE_ADDRESSES);
    // The last of its sockets receives, too.
    let socket = std::net::UdpSocket::bind((last, 0)).unwrap();
    socket.send_to(&[0; 4], (last, ROCE_PORT)).unwrap();
    let start = std::time::Instant::now();
    while provider.network_counters().malformed == 0 {
        assert!(start.elapsed() < std::time::Duration::from_secs(100), "stuck");
        std::thread::yield_now();
    }
}
