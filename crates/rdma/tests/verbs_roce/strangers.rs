//! Packets that no provider has sent.

use crate::node::{Node, Pair, Q_KEY, content, own_options, patient};
use crate::superuser;
use fairway_rdma::{ROCE_PORT, roce_port, slot_of};
use fairway_roce::{Peer, Transport, Work};
use fairway_ub::wire::roce::cm::{
    self, CommunicationId, Datagram, Message, Names, ReadyToUse, Reply,
};
use fairway_ub::wire::roce::{self, Bth, Deth, Icrc, Operation, Outer, Packet};
use fairway_ub::wire::{Psn, Qpn};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as Name, UnixDatagram};

fn ip(node: &Node) -> IpAddr {
    node.provider.gids()[0].ip()
}

/// Returns a datagram of `payload` to a queue pair, as a stranger at `source` would send it.
fn datagram(source: SocketAddr, to: SocketAddr, queue_pair: Qpn, payload: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(at)) = (source.ip(), to.ip()) else { unreachable!() };
    let outer = Outer {
        destination_port: to.port(),
        ..Outer::v4(from.octets(), at.octets(), source.port())
    };
    let deth = Deth { q_key: Q_KEY, source: Qpn::new(99) };
    let packet = Packet {
        bth: Bth { destination: queue_pair, ..Bth::default() },
        operation: Operation::Datagram { deth, immediate: None },
    };
    let mut header = [0; roce::MAX_HEADER];
    let length = roce::encode(&packet, payload.len(), &mut header);
    let total = roce::datagram_len(&packet, payload.len());
    let mut icrc = Icrc::new(&outer, &header[..length], total);
    icrc.update(payload);
    [&header[..length], payload, icrc.trailer(payload.len()).bytes()].concat()
}

fn listening(node: &Node) -> Qpn {
    let pair = node.queue_pair(Transport::Ud);
    node.connect(pair, Peer::default(), patient());
    node.receive(pair, 1, 0, 1040);
    pair
}

#[test]
fn damaged_packets_are_counted_and_ignored() {
    let node = Node::new(&own_options());
    let pair = listening(&node);
    let socket = UdpSocket::bind((ip(&node), 0)).unwrap();
    let from = socket.local_addr().unwrap();
    let mut damaged = 0;
    for port in [ROCE_PORT, roce_port(slot_of(pair))] {
        let to = SocketAddr::new(ip(&node), port);
        let good = datagram(from, to, pair, &content(1, 64));
        // The changed byte is not in the queue pair's number, because that would make it a packet
        // for another queue pair, nor in bits that switches may change, nor where the
        // identification has its place in the CRC.
        for at in [0, 1, 2, 8, 9, 12, 20, 40, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            socket.send_to(&bad, to).unwrap();
            damaged += 1;
        }
    }
    node.until_counted(|counters| counters.damaged == damaged);
    let to = SocketAddr::new(ip(&node), ROCE_PORT);
    socket.send_to(&datagram(from, to, pair, &content(2, 64)), to).unwrap();
    assert_eq!(node.received(1).bytes, 104);
    assert_eq!(node.memory.read(40, 64), content(2, 64));
}

#[test]
fn garbage_does_no_harm() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let socket = UdpSocket::bind((ip(there), 0)).unwrap();
    let ports = [ROCE_PORT, roce_port(here.provider.slot()), roce_port(there.provider.slot())];
    for seed in 0..300 {
        let mut garbage = content(seed, (seed as usize * 7) % 1500);
        if seed % 3 == 0 && garbage.len() > 8 {
            // The garbage appears to be for an existing queue pair; some of it is a forwarded
            // datagram.
            garbage[0] = [0x64, 0xf7, 0xf8, 0x0a][seed as usize / 3 % 4];
            garbage[4..8].copy_from_slice(&pair.pairs[seed as usize % 2].value().to_be_bytes());
        }
        let port = ports[seed as usize % 3];
        socket.send_to(&garbage, (ip(there), port)).unwrap();
    }
    let bytes = content(1, 5000);
    here.memory.write(0, &bytes);
    let work = Work::Write { remote: there.remote(0), immediate: None };
    pair.post(0, 1, work, here.local(0, 5000));
    here.sent(1);
    assert_eq!(there.memory.read(0, 5000), bytes);
    assert_eq!(here.provider.network_counters().send_errors, 0);
}

#[test]
fn a_packet_that_came_to_the_wrong_provider_is_forwarded() {
    let own = own_options();
    let nodes = [Node::new(&own), Node::new(&own)];
    let pairs = nodes.each_ref().map(listening);
    let to = SocketAddr::new(ip(&nodes[0]), ROCE_PORT);
    let socket = UdpSocket::bind((ip(&nodes[0]), 0)).unwrap();
    let from = socket.local_addr().unwrap();
    // The kernel gives packets of one socket to one of the two processes.
    for (n, node) in nodes.iter().enumerate() {
        socket.send_to(&datagram(from, to, pairs[n], &[n as u8; 100]), to).unwrap();
        let completion = node.received(1);
        assert_eq!(node.provider.gid_of(completion.from.address), Some(from.ip().into()));
        assert_eq!(node.memory.read(40, 100), [n as u8; 100]);
        // The header is that of the packet as it was first received.
        let IpAddr::V4(source) = from.ip() else { unreachable!() };
        assert_eq!(node.memory.read(32, 4), source.octets());
    }
    let counted = nodes.each_ref().map(|node| node.provider.network_counters());
    assert_eq!(counted.iter().map(|counters| counters.forwarded).sum::<u64>(), 1);
    assert_eq!(counted.iter().map(|counters| counters.forwarded_here).sum::<u64>(), 1);
}

#[test]
fn only_providers_of_this_host_hand_packets_over() {
    let node = Node::new(&own_options());
    let pair = listening(&node);
    let to = SocketAddr::new(ip(&node), ROCE_PORT);
    let liar = UdpSocket::bind((ip(&node), 0)).unwrap();
    let inner = datagram("10.9.8.7:1".parse().unwrap(), to, pair, &[1; 64]);
    let end = |ip: &str, port: u16| {
        let ip: std::net::Ipv4Addr = ip.parse().unwrap();
        [&ip.to_ipv6_mapped().octets()[..], &port.to_be_bytes()].concat()
    };
    let ends = [end("10.9.8.7", 1), end(&to.ip().to_string(), ROCE_PORT)].concat();
    let forwarded = [&[0xf7, 0][..], &ends, &inner].concat();
    liar.send_to(&forwarded, (ip(&node), roce_port(slot_of(pair)))).unwrap();
    // Any user may bind the port of a slot that no process has claimed.
    let slot = UdpSocket::bind((ip(&node), roce_port(255))).unwrap();
    slot.send_to(&forwarded, (ip(&node), roce_port(slot_of(pair)))).unwrap();
    // The packet is also refused over the socket for management datagrams, to which every user may
    // write.
    let name = format!("fairway-verbs-{}", node.provider.slot());
    let slot = Name::from_abstract_name(name).unwrap();
    UnixDatagram::unbound().unwrap().send_to_addr(&forwarded, &slot).unwrap();
    let real = datagram(liar.local_addr().unwrap(), to, pair, &[2; 64]);
    node.until_counted(|counters| {
        counters.malformed + counters.damaged + counters.not_forwarded + counters.forwarded_here > 2
    });
    liar.send_to(&real, to).unwrap();
    node.received(1);
    assert_eq!(node.memory.read(40, 64), [2; 64]);
    assert_eq!(node.provider.network_counters().forwarded_here, 0);
}

/// Runs `work` on a thread that another user's process would have.
fn as_another_user<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    const NOBODY: libc::c_long = 65_534;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            // SAFETY: no memory is passed. The system call, unlike the library's function, changes
            // the user of this thread alone.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            assert_eq!(changed, 0, "{}", std::io::Error::last_os_error());
            work()
        });
        other.join().unwrap()
    })
}

/// Returns a forwarded management datagram from an address: a RTU, or a REP if there is a queue
/// pair, of the process in `slot`.
fn management(from: IpAddr, slot: u32, queue_pair: Option<Qpn>) -> Vec<u8> {
    let names = Names { local: CommunicationId(slot << 24 | 7), remote: CommunicationId(9) };
    let ready = ReadyToUse { names, private: [0; ReadyToUse::PRIVATE_LEN] };
    let message = match queue_pair {
        None => Message::ReadyToUse(ready),
        Some(queue_pair) => Message::Reply(Reply {
            names,
            q_key: 0,
            queue_pair,
            psn: Psn::new(0),
            responder_resources: 1,
            initiator_depth: 1,
            ack_delay: 0,
            failover: 0,
            flow_control: false,
            rnr_retries: 7,
            shared_receives: false,
            ca_guid: 1,
            private: [0; Reply::PRIVATE_LEN],
        }),
    };
    let IpAddr::V4(from) = from else { unreachable!() };
    let bytes = cm::emit(&Datagram { transaction: 1, message });
    [&[0xf8, 0][..], &from.to_ipv6_mapped().octets(), &[0, 0], &bytes].concat()
}

#[test]
fn process_of_another_user_speaks_for_itself_alone() {
    // SAFETY: the call has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return superuser::skip("another user");
    }
    let node = Node::new(&own_options());
    let (here, elsewhere) = (ip(&node), IpAddr::from([10, 9, 8, 7]));
    let to = Name::from_abstract_name(format!("fairway-verbs-{}", node.provider.slot())).unwrap();
    let own = u32::from(node.provider.slot());
    as_another_user(|| {
        let nobody = UnixDatagram::unbound().unwrap();
        nobody.send_to_addr(&management(here, 255, None), &to).unwrap();
        let claimed = (0..=255_u32).rev().find_map(|number| {
            let name = Name::from_abstract_name(format!("fairway-verbs-{number}")).unwrap();
            UnixDatagram::bind_addr(&name).ok().map(|slot| (number, slot))
        });
        let (number, slot) = claimed.expect("a free slot");
        let refused = [
            management(elsewhere, number, None),
            management(here, own, None),
            management(here, number, Some(Qpn::new(own << 16 | 5))),
            [&[0xf8, 0][..], &[0; 18], &[0; 256]].concat(),
        ];
        for datagram in refused {
            slot.send_to_addr(&datagram, &to).unwrap();
        }
        for queue_pair in [None, Some(Qpn::new(number << 16 | 5)), Some(Qpn::new(0))] {
            slot.send_to_addr(&management(here, number, queue_pair), &to).unwrap();
        }
    });
    // The superuser is trusted, as are processes of the same user.
    UnixDatagram::unbound().unwrap().send_to_addr(&management(elsewhere, 3, None), &to).unwrap();
    let received = node.recorder.until(|calls| {
        (calls.management.len() >= 4).then(|| std::mem::take(&mut calls.management))
    });
    let senders: Vec<IpAddr> = received.into_iter().map(|(from, ..)| from).collect();
    assert_eq!(senders, [here, here, here, elsewhere]);
    let counters = node.provider.network_counters();
    assert_eq!((counters.malformed, counters.forwarded_here), (5, 4));
}
