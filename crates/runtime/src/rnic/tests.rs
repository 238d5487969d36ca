//! Introductions, and what peers learn from them.

use std::net::SocketAddr;

use fairway_port::Address;

use super::connections::{Connections, Due, Ends};
use super::introduction::{BYTES, Introduction, Kind, PAIRS_MAX, Pair, is_introduction};
use super::peers::{Ask, Peers};

const SECOND: u64 = 1_000_000_000;

fn address(text: &str) -> Address {
    text.parse::<SocketAddr>().unwrap().into()
}

fn message(kind: Kind, nonce: u64, echo: u64) -> Introduction {
    let pairs = vec![Pair { port: 4000, number: 17 }, Pair { port: 4001, number: 0xAB_CDEF }];
    let mut gid = [0; 16];
    gid[10..].copy_from_slice(&[0xFF, 0xFF, 10, 0, 0, 2]);
    let seen = "10.0.0.1".parse().unwrap();
    Introduction { kind, nonce, echo, seen, gid, qkey: 0x1122, lid: 3, packet_max: 4096, pairs }
}

#[test]
fn messages_are_read_as_they_were_written_and_others_are_refused() {
    use Kind::{Answer, Check, Connect, Connected, Passed, Probe, Proof, Request};
    for kind in [Request, Answer, Probe, Proof, Connect, Connected, Check, Passed] {
        let written = message(kind, 0x0102_0304_0506_0708, 9);
        let bytes = written.to_bytes();
        assert!(is_introduction(&bytes));
        assert_eq!(Introduction::from_bytes(&bytes).as_ref(), Some(&written));
    }
    let bytes = message(Kind::Probe, 1, 2).to_bytes();
    assert!(!is_introduction(&bytes[..BYTES - 1]));
    assert_eq!(Introduction::from_bytes(&bytes[..BYTES - 1]), None);
    for (at, value) in [(0, b'f'), (4, 0x01), (4, 0xC2), (5, 0), (5, 9), (6, PAIRS_MAX as u8 + 1)] {
        let mut other = bytes;
        other[at] = value;
        assert_eq!(Introduction::from_bytes(&other), None, "byte {at} is {value}");
    }
}

#[test]
fn no_packet_of_the_protocol_is_an_introduction() {
    // The two most significant bits of byte 4 are 0 in each packet (RT of NTH, docs/wire.md).
    assert_eq!(message(Kind::Request, 1, 2).to_bytes()[4] >> 6, 3);
}

#[test]
fn packets_take_the_nic_once_a_probe_is_confirmed_and_until_none_is() {
    let (mut peers, to) = (Peers::new(), address("10.0.0.2:4000"));
    let own = peers.nonce("10.0.0.2".parse().unwrap());
    assert_eq!(peers.towards(0, &to).unwrap().ask(0, 4000), Ask::Request);
    assert_eq!(peers.towards(1, &to).unwrap().ask(1, 4000), Ask::Nothing);
    assert!(peers.answered(&to, &message(Kind::Answer, 77, own)));
    let peer = peers.towards(2, &to).unwrap();
    assert!(!peer.is_proven(2), "no probe was confirmed");
    assert_eq!((peer.echo, peer.number(4001), peer.number(9)), (77, Some(0xAB_CDEF), None));
    peers.proven(3, &to, &message(Kind::Proof, 77, own));
    let peer = peers.towards(4, &to).unwrap();
    assert!(peer.is_proven(4));
    assert_eq!(peer.ask(SECOND, 4000), Ask::Probe);
    assert_eq!(peer.ask(SECOND + SECOND / 10, 4000), Ask::Probe);
    assert_eq!(peer.ask(SECOND + SECOND / 5, 4000), Ask::Request, "the peer may be another one");
    assert!(peer.is_proven(2 * SECOND) && !peer.is_proven(4 * SECOND));
    // Another socket of the peer is known with it, and shares later proofs.
    assert!(peers.towards(5, &address("10.0.0.2:4001")).unwrap().is_proven(5));
    assert!(!peers.towards(5, &address("10.0.0.3:4001")).unwrap().is_proven(5));
    peers.proven(4 * SECOND, &to, &message(Kind::Proof, 77, own));
    let other = peers.towards(5 * SECOND, &address("10.0.0.2:4001")).unwrap();
    assert!(other.is_proven(5 * SECOND));
}

#[test]
fn the_way_to_another_program_at_an_address_is_not_proven() {
    let (mut peers, to) = (Peers::new(), address("10.0.0.2:4000"));
    let own = peers.nonce("10.0.0.2".parse().unwrap());
    let _ = peers.towards(0, &to).unwrap();
    peers.proven(1, &to, &message(Kind::Proof, 77, own));
    assert!(peers.answered(&to, &message(Kind::Answer, 77, own)));
    assert!(peers.towards(2, &to).unwrap().is_proven(2), "the same program");
    let other = Introduction { qkey: 0x3344, ..message(Kind::Answer, 78, own) };
    assert!(peers.answered(&to, &other));
    assert!(!peers.towards(2, &to).unwrap().is_proven(2));
}

#[test]
fn messages_without_the_number_that_was_sent_change_nothing() {
    let (mut peers, to) = (Peers::new(), address("10.0.0.2:4000"));
    let own = peers.nonce("10.0.0.2".parse().unwrap());
    let _ = peers.towards(0, &to).unwrap();
    assert!(!peers.answered(&to, &message(Kind::Answer, 77, own ^ 1)));
    peers.proven(1, &to, &message(Kind::Proof, 77, 0));
    let peer = peers.towards(2, &to).unwrap();
    assert!(!peer.is_proven(2) && peer.number(4000).is_none());
    // The number of another address is none of this one.
    let other = peers.nonce("10.0.0.3".parse().unwrap());
    assert!(!peers.answered(&to, &message(Kind::Answer, 77, other)));
    // An answer of an address to which nothing was sent is ignored.
    assert!(!peers.answered(&address("10.0.0.3:1"), &message(Kind::Answer, 77, other)));
}

#[test]
fn packets_are_accepted_from_queue_pairs_that_were_probed() {
    let mut peers = Peers::new();
    let own = peers.nonce("10.0.0.1".parse().unwrap());
    let probe = message(Kind::Probe, 5, own);
    let gid = probe.gid;
    assert_eq!(peers.source(gid, 17), None);
    assert_eq!(peers.probed((gid, 99), &probe, 0), None, "a queue pair that it does not list");
    assert_eq!(peers.probed(([1; 16], 17), &probe, 0), None, "from another NIC");
    let stranger = Introduction { echo: own ^ 1, ..probe.clone() };
    assert_eq!(peers.probed((gid, 17), &stranger, 0), None, "not the number that was sent");
    let liar = Introduction { seen: "10.0.0.9".parse().unwrap(), ..probe.clone() };
    assert_eq!(peers.probed((gid, 17), &liar, 0), None, "in the name of another address");
    assert_eq!(peers.source(gid, 17), None);
    assert_eq!(peers.probed((gid, 17), &probe, 0), Some(address("10.0.0.1:4000")));
    assert_eq!(peers.source(gid, 17), Some(address("10.0.0.1:4000")));
    assert_eq!(peers.source(gid, 0xAB_CDEF), Some(address("10.0.0.1:4001")));
    assert_eq!(peers.source([1; 16], 17), None);
}

#[test]
fn a_stranger_causes_few_requests() {
    let mut peers = Peers::new();
    let new = (0..200).filter(|number| {
        let to = Address::from(SocketAddr::from(([10, 0, 0, *number], 1)));
        peers.towards(0, &to).is_some()
    });
    assert_eq!(new.count(), 32);
    assert!(peers.towards(SECOND, &address("10.1.0.1:1")).is_some(), "in the next period");
}

/// Handles probes from the host 10.0.0.9, which list so many queue pairs of the NIC `gid` that none
/// of them has a number twice.
fn probe_from_a_stranger(peers: &mut Peers, gid: [u8; 16], probes: u32) {
    let seen = "10.0.0.9".parse().unwrap();
    let echo = peers.nonce(seen);
    for probe in 0..probes {
        let number = |at| 16 * probe + at;
        let pairs = (0..16).map(|at| Pair { port: 1, number: number(at) }).collect();
        let message = Introduction { seen, gid, pairs, ..message(Kind::Probe, 6, echo) };
        assert!(peers.probed((gid, number(0)), &message, 0).is_some());
    }
}

#[test]
fn host_with_very_many_queue_pairs_displaces_its_own_only() {
    let mut peers = Peers::new();
    let honest = message(Kind::Probe, 5, peers.nonce("10.0.0.1".parse().unwrap()));
    let gid = honest.gid;
    assert!(peers.probed((gid, 17), &honest, 0).is_some());
    let probes = 5_000;
    probe_from_a_stranger(&mut peers, [9; 16], probes);
    assert_eq!(peers.source(gid, 17), Some(address("10.0.0.1:4000")));
    assert_eq!(peers.source(gid, 0xAB_CDEF), Some(address("10.0.0.1:4001")));
    let known = (0..16 * probes).filter(|number| peers.source([9; 16], *number).is_some());
    let numbers: Vec<_> = known.collect();
    assert!((8_000..16_384).contains(&numbers.len()), "{}", numbers.len());
    assert_eq!(numbers.last(), Some(&(16 * probes - 1)), "the oldest are forgotten");
    // A queue pair that is probed again becomes the newest of its host.
    let again = Introduction { seen: "10.0.0.1".parse().unwrap(), gid: [9; 16], ..honest };
    assert!(peers.probed(([9; 16], 17), &again, 0).is_some());
    assert_eq!(peers.source([9; 16], 17), Some(address("10.0.0.1:4000")), "its new owner");
    probe_from_a_stranger(&mut peers, [8; 16], probes);
    assert_eq!(peers.source([9; 16], 17), Some(address("10.0.0.1:4000")));
}

#[test]
fn new_destinations_displace_none_that_is_proven() {
    // Few enough in a period that none is refused.
    const STEP: u64 = 400_000;
    let (mut peers, to) = (Peers::new(), address("10.0.0.2:4000"));
    let own = peers.nonce("10.0.0.2".parse().unwrap());
    let _ = peers.towards(0, &to).unwrap();
    peers.proven(0, &to, &message(Kind::Proof, 77, own));
    let other = |number: u16| address(&format!("10.1.{}.{}:1", number / 250, number % 250));
    for number in 0..5_000 {
        assert!(peers.towards(u64::from(number) * STEP, &other(number)).is_some());
    }
    assert!(peers.known(&to).is_some_and(|peer| peer.is_proven(2 * SECOND)));
    assert!(peers.known(&other(4_999)).is_some() && peers.known(&other(0)).is_none());

    // A host all of whose destinations are proven loses its own.
    let stranger = "10.0.0.9".parse().unwrap();
    let echo = peers.nonce(stranger);
    for port in 1..=5_000 {
        let now = 2 * SECOND + u64::from(port) * STEP;
        if port % 1_000 == 0 {
            peers.proven(now, &to, &message(Kind::Proof, 77, own));
        }
        let from = Address::from(SocketAddr::from((stranger, port)));
        assert!(peers.towards(now, &from).is_some());
        let pairs = vec![Pair { port, number: u32::from(port) }];
        peers.proven(now, &from, &Introduction { pairs, ..message(Kind::Proof, 6, echo) });
    }
    assert!(peers.known(&to).is_some_and(|peer| peer.is_proven(4 * SECOND)));
    let is_known = |port: u16| peers.known(&Address::from(SocketAddr::from((stranger, port))));
    assert!(is_known(1).is_none() && is_known(5_000).is_some());
}

fn ends(text: &str) -> Ends {
    (0, address(text))
}

/// A connection of the first ends, that the other side has answered, and whose first check passed
/// at 3 ns.
fn checked() -> (Connections, Ends) {
    let (mut connections, ends) = (Connections::default(), ends("10.0.0.2:4000"));
    connections.add(0, ends, (5, 17));
    let connection = connections.get(&ends).unwrap();
    assert_eq!(connection.due(0, 77), Due::Connect);
    assert_eq!(connection.due(1, 77), Due::Nothing);
    connection.connected(99, 77);
    connection.answered();
    assert!(!connection.passes(2, 77), "no check has passed");
    assert_eq!(connection.due(2, 77), Due::Check);
    connection.passed(3);
    (connections, ends)
}

#[test]
fn packets_take_a_connection_once_a_check_has_passed_and_until_none_does() {
    let (mut connections, ends) = checked();
    let connection = connections.get(&ends).unwrap();
    assert!(connection.passes(4, 77));
    assert_eq!(connection.due(SECOND / 4, 77), Due::Nothing);
    assert_eq!(connection.due(SECOND, 77), Due::Check);
    assert_eq!(connection.due(SECOND + SECOND / 10, 77), Due::Check);
    assert_eq!(connection.due(SECOND + SECOND / 5, 77), Due::Connect, "it may be closed there");
    assert!(connection.passes(2 * SECOND, 77) && !connection.passes(4 * SECOND, 77));
    assert_eq!(connections.ends(5), Some(ends));
    assert_eq!((connections.ends(4), connections.ends(6)), (None, None));
}

#[test]
fn a_connection_is_requested_anew_from_another_program_at_the_address() {
    let (mut connections, ends) = checked();
    let connection = connections.get(&ends).unwrap();
    assert!(!connection.passes(4, 78));
    assert_eq!(connection.due(4, 78), Due::Connect);
    connection.connected(100, 78);
    assert!(!connection.passes(5, 78), "the check was of another queue pair");
}

#[test]
fn connections_that_no_side_uses_are_closed_for_others() {
    let (mut connections, first) = checked();
    let second = ends("10.0.0.2:4001");
    connections.add(SECOND, second, (0, 18));
    assert_eq!(connections.idle(5 * SECOND), None);
    assert_eq!(connections.idle(10 * SECOND + 2), Some(first));
    connections.used(9 * SECOND, &first);
    assert_eq!(connections.idle(11 * SECOND), Some(second));
    assert_eq!(connections.remove(&second), Some(0));
    assert_eq!((connections.remove(&second), connections.ends(0)), (None, None));
}
