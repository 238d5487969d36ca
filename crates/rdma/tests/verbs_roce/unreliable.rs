//! Unreliable connections and datagrams.

use crate::node::{Node, Pair, Q_KEY, content, options, own_options, patient};
use fairway_roce::{Completion, Peer, ScatterList, Transport, Work};
use fairway_ub::wire::Qpn;
use fairway_ub::wire::roce::Tail;
use std::net::IpAddr;

#[test]
fn sends_and_writes_go_over_unreliable_connections() {
    let pair = Pair::local(Transport::Uc);
    let [here, there] = &pair.nodes;
    let bytes = content(1, 20_000);
    here.memory.write(0, &bytes);
    there.receive(pair.pairs[1], 1, 0, 20_000);
    there.receive(pair.pairs[1], 2, 0, 0);
    pair.post(0, 1, Work::Send { tail: Tail::Nothing }, here.local(0, 20_000));
    let (remote, immediate) = (there.remote(100_000), Some(5));
    pair.post(0, 2, Work::Write { remote, immediate }, here.local(0, 20_000));
    there.received(1);
    assert_eq!(there.received(2).tail, Tail::Immediate(5));
    assert_eq!(there.memory.read(0, 20_000), bytes);
    assert_eq!(there.memory.read(100_000, 20_000), bytes);
    here.sent(1);
    here.sent(2);
}

/// Creates a queue pair for datagrams that is ready to send.
fn datagrams(node: &Node) -> Qpn {
    let pair = node.queue_pair(Transport::Ud);
    node.connect(pair, Peer::default(), patient());
    pair
}

fn datagram(node: &Node, pair: Qpn, to: Peer, local: ScatterList) {
    node.post(pair, 1, Work::Datagram { to, q_key: Q_KEY, immediate: Some(9) }, local);
    node.sent(1);
}

#[test]
fn one_queue_pair_sends_datagrams_to_several_addresses() {
    let here = Node::new(&own_options());
    let others = [Node::new(&own_options()), Node::new(&own_options())];
    let pair = datagrams(&here);
    let bytes = content(2, 700);
    here.memory.write(0, &bytes);
    for other in &others {
        let number = datagrams(other);
        other.receive(number, 1, 0, 1040);
        datagram(&here, pair, here.peer(other.provider.gids()[0], number), here.local(0, 700));
        let completion = other.received(1);
        assert_eq!((completion.bytes, completion.tail), (740, Tail::Immediate(9)));
        assert_eq!(other.memory.read(40, 700), bytes);
        // The receiver of the datagram can answer.
        assert_eq!(completion.from.queue_pair, pair);
        assert_eq!(other.provider.gid_of(completion.from.address), Some(here.provider.gids()[0]));
        here.receive(pair, 2, 5000, 1040);
        other.memory.write(0, &[7; 64]);
        datagram(other, number, completion.from, other.local(0, 64));
        here.received(2);
        assert_eq!(here.memory.read(5040, 64), [7; 64]);
    }
}

/// UCX unmaps the memory of its receives, which stays registered for a while, and then destroys the
/// queue pair.
#[test]
fn a_datagram_that_waits_when_its_queue_pair_is_destroyed_is_not_written() {
    let own = own_options();
    let [here, there] = [Node::new(&own), Node::new(&own)];
    let pair = datagrams(&here);
    here.memory.write(0, &[1; 64]);
    let untouched = (0..100).any(|_| {
        let number = datagrams(&there);
        there.memory.write(0, &[0xee; 104]);
        there.receive(number, 1, 0, 104);
        // The background thread does not poll the sockets for a moment, but perhaps not for long
        // enough.
        there.provider.poll(there.receives, &mut [Completion::EMPTY; 1]);
        datagram(&here, pair, here.peer(there.provider.gids()[0], number), here.local(0, 64));
        there.provider.destroy_queue_pair(number).unwrap();
        there.memory.read(0, 104) == [0xee; 104]
    });
    assert!(untouched, "the memory was written whenever the queue pair was destroyed");
}

#[test]
fn a_datagram_begins_with_the_header_of_its_ip_packet() {
    for [from, to] in [[own_options(), own_options()], [options("::1"), options("::1")]] {
        let [here, there] = [Node::new(&from), Node::new(&to)];
        let [pair, number] = [datagrams(&here), datagrams(&there)];
        there.memory.write(0, &[0xee; 64]);
        there.receive(number, 1, 0, 1040);
        datagram(&here, pair, here.peer(there.provider.gids()[0], number), here.local(0, 21));
        there.received(1);
        let header = there.memory.read(0, 40);
        match (from.addresses[0], to.addresses[0]) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = &header[20..];
                assert_eq!(header[0], 0x45);
                // IP, UDP, BTH, DETH, immediate data, payload, padding, ICRC.
                let length = 20 + 8 + 12 + 8 + 4 + 21 + 3 + 4;
                assert_eq!(header[2..4], u16::to_be_bytes(length));
                assert_eq!(
                    (&header[12..16], &header[16..]),
                    (&source.octets()[..], &destination.octets()[..])
                );
                let words =
                    header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
                let sum: u32 = words.sum();
                assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum");
                // An IPv6 header begins with a 6, and programs check that first.
                assert_ne!(there.memory.read(0, 1)[0] >> 4, 6);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                assert_eq!((header[0] >> 4, header[6]), (6, 17));
                assert_eq!(
                    (&header[8..24], &header[24..]),
                    (&source.octets()[..], &destination.octets()[..])
                );
            }
            _ => unreachable!("one family"),
        }
    }
}
