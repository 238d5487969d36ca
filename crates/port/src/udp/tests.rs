//! Round trips over the loopback interface, with every byte compared.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use fairway_wire::Ecn;

use super::*;
use crate::limits::{HEADER_BYTES_MAX, TRAIN_BYTES_MAX};
use crate::memory::RawSlice;

mod refused;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const HEADER: usize = 24;
const PAYLOAD: usize = 1000;

/// Two ports on the loopback interface, and the state to receive at the second.
struct Pair {
    left: UdpPort,
    right: UdpPort,
    to: Address,
    waiter: Waiter,
    buffer: ReceiveBuffer,
    ready: Vec<usize>,
}

impl Pair {
    fn new(ip: IpAddr) -> Self {
        let config = UdpConfig { bind: ip, first_port: 0, sockets: 2, buffer_bytes: 1 << 20 };
        let left = UdpPort::bind(&config).expect("bind left");
        let right = UdpPort::bind(&config).expect("bind right");
        let to = right.local_addrs()[1].into();
        let waiter = right.waiter().expect("waiter");
        Pair { left, right, to, waiter, buffer: ReceiveBuffer::new(), ready: Vec::new() }
    }

    /// Waits, with a deadline, until socket 1 of the right port is readable.
    fn await_arrival(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "nothing arrived");
            self.waiter.wait(Some(left), &mut self.ready).expect("wait");
            if self.ready.contains(&1) {
                return;
            }
        }
    }

    fn send(&mut self, packets: &Packets) {
        let mut train = self.left.new_train();
        packets.load(&mut train);
        assert_eq!(self.left.send(0, &self.to, &train).expect("send"), Sent::All);
    }

    fn receive(&mut self) -> Arrival<'_> {
        self.await_arrival();
        self.right.receive(1, &mut self.buffer).expect("receive").expect("an arrival")
    }

    /// Receives until `count` packets have arrived, however they were coalesced.
    fn receive_packets(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while packets.len() < count {
            let arrival = self.receive();
            for index in 0..arrival.segments() {
                packets.push(arrival.segment(index).to_vec());
            }
        }
        packets
    }
}

/// Packets with bytes that depend on packet and position.
struct Packets {
    headers: Vec<Vec<u8>>,
    payloads: Vec<Vec<u8>>,
}

impl Packets {
    fn new(lengths: &[usize]) -> Self {
        let fill = |salt: usize, len: usize| (0..len).map(|i| (i * 7 + salt * 31) as u8).collect();
        Packets {
            headers: (0..lengths.len()).map(|i| fill(i + 100, HEADER)).collect(),
            payloads: lengths.iter().enumerate().map(|(i, &len)| fill(i, len)).collect(),
        }
    }

    fn load(&self, train: &mut Train) {
        for (header, payload) in self.headers.iter().zip(&self.payloads) {
            train.push(header, raw(payload)).expect("fits");
        }
    }

    fn whole(&self) -> Vec<Vec<u8>> {
        let both = self.headers.iter().zip(&self.payloads);
        both.map(|(header, payload)| [header.as_slice(), payload].concat()).collect()
    }
}

fn raw(bytes: &[u8]) -> RawSlice {
    // SAFETY: in these tests payload outlives the train.
    unsafe { RawSlice::new(bytes.as_ptr(), bytes.len()) }
}

#[test]
fn trains_cross_whole_over_both_families() {
    for ip in [V4, V6] {
        let mut pair = Pair::new(ip);
        let packets = Packets::new(&[PAYLOAD; 40]);
        pair.send(&packets);
        assert_eq!(pair.receive_packets(40), packets.whole());
        assert_eq!(pair.left.counters().packets_sent, 40);
        assert_eq!(pair.left.counters().bytes_sent, 40 * (HEADER + PAYLOAD) as u64);
        assert_eq!(pair.right.counters().packets_received, 40);
        assert_eq!(pair.right.counters().bytes_received, 40 * (HEADER + PAYLOAD) as u64);
    }
}

#[test]
fn an_arrival_names_its_sender() {
    for ip in [V4, V6] {
        let mut pair = Pair::new(ip);
        pair.send(&Packets::new(&[8]));
        let expected: Address = pair.left.local_addrs()[0].into();
        let arrival = pair.receive();
        assert_eq!(*arrival.from(), expected);
        assert_eq!(SocketAddr::from(*arrival.from()), SocketAddr::from(expected));
    }
}

#[test]
fn the_last_packet_of_a_run_may_be_shorter() {
    for len in [1, 10, HEADER, 500, 999, 1001, 2000, 5000] {
        let mut pair = Pair::new(V6);
        let packets = Packets::new(&[len, len, len, len.div_ceil(2)]);
        pair.send(&packets);
        if !pair.right.features().coalescing {
            return;
        }
        let arrival = pair.receive();
        assert_eq!((arrival.segment_size(), arrival.segments()), (HEADER + len, 4));
        for (index, whole) in packets.whole().iter().enumerate() {
            assert_eq!(arrival.segment(index), whole, "length {len}, packet {index}");
        }
    }
}

#[test]
fn the_longest_train_is_received_whole() {
    let mut pair = Pair::new(V4);
    let packets = Packets::new(&vec![PAYLOAD; TRAIN_BYTES_MAX / (HEADER + PAYLOAD)]);
    pair.send(&packets);
    assert_eq!(pair.receive_packets(packets.payloads.len()), packets.whole());
}

#[test]
fn as_many_packets_as_the_kernel_takes_cross_in_one_call() {
    let mut pair = Pair::new(V4);
    let limit = pair.left.features().segments_max;
    let packets = Packets::new(&vec![1; limit]);
    let mut train = pair.left.new_train();
    packets.load(&mut train);
    assert_eq!(train.push(&[1], RawSlice::EMPTY), Err(DoesNotFit::Packets));
    pair.send(&packets);
    assert_eq!(pair.left.counters().gso_fallbacks, 0);
    assert_eq!(pair.receive_packets(limit), packets.whole());
}

#[test]
fn congestion_bits_cross() {
    for ip in [V4, V6] {
        for ecn in [Ecn::Capable, Ecn::Congested, Ecn::NotCapable] {
            for count in [1, 5] {
                let mut pair = Pair::new(ip);
                let packets = Packets::new(&vec![50; count]);
                let mut train = pair.left.new_train();
                packets.load(&mut train);
                train.set_ecn(ecn);
                pair.left.send(0, &pair.to, &train).expect("send");
                assert_eq!(pair.receive().ecn(), ecn);
            }
        }
    }
}

#[test]
fn without_segmentation_packets_go_one_by_one() {
    for ip in [V4, V6] {
        let mut pair = Pair::new(ip);
        pair.left.disable_segmentation();
        let packets = Packets::new(&[700, 700, 700, 50]);
        let mut train = pair.left.new_train();
        packets.load(&mut train);
        train.set_ecn(Ecn::Congested);
        train.skip(1);
        assert_eq!(train.bytes(), 2 * (HEADER + 700) + HEADER + 50);
        pair.left.send(0, &pair.to, &train).expect("send");
        assert_eq!(pair.receive().ecn(), Ecn::Congested);
        assert_eq!(pair.left.counters().packets_sent, 3);
        pair.send(&packets);
        assert_eq!(pair.receive_packets(6)[2..], packets.whole());
    }
}

#[test]
fn a_train_refuses_what_would_be_cut_wrong() {
    let mut train = Train::new(128);
    let bytes = vec![0u8; TRAIN_BYTES_MAX];
    train.push(&[0; 10], raw(&bytes[..90])).expect("first");
    assert_eq!(train.push(&[0; 10], raw(&bytes[..91])), Err(DoesNotFit::Longer));
    train.push(&[0; 100], RawSlice::EMPTY).expect("header only, same length");
    train.push(&[], raw(&bytes[..99])).expect("shorter");
    assert_eq!(train.push(&[], raw(&bytes[..99])), Err(DoesNotFit::Closed));
    assert_eq!((train.len(), train.bytes(), train.segment_size()), (3, 299, 100));
    train.clear();
    assert_eq!(train.push(&[1], raw(&bytes)), Err(DoesNotFit::Bytes));
    train.push(&[], raw(&bytes)).expect("exactly the most");
}

#[test]
fn a_filled_packet_is_followed_by_others() {
    for segmentation in [true, false] {
        let mut pair = Pair::new(V4);
        if !segmentation {
            pair.left.disable_segmentation();
        }
        let packets = Packets::new(&[100, 100, 90, 100, 98, 40]);
        let whole = packets.whole();
        let mut train = Train::new(8);
        let mut expected = Vec::new();
        for (index, packet) in whole.iter().enumerate() {
            let (header, payload) = (&packets.headers[index], raw(&packets.payloads[index]));
            let mut pushed = train.push(header, payload);
            if pushed == Err(DoesNotFit::Closed) {
                let next = packet.len();
                assert!(!train.fill_last(1, next, *b"no"), "filled by more than is allowed");
                assert!(!train.fill_last(100, next + 61, *b"no"), "the next is longer");
                let filled: &mut Vec<u8> = &mut expected[index - 1];
                assert!(train.fill_last(100, next, *b"ok"));
                assert_eq!(train.packet_len(index - 1), filled.len());
                filled.resize(HEADER + 100 - 2, 0);
                filled.extend(b"ok");
                assert!(!train.fill_last(100, next, *b"no"), "nothing is left to be filled");
                pushed = train.push(header, payload);
            }
            pushed.expect("it fits");
            expected.push(packet.clone());
        }
        let bytes: usize = expected.iter().map(Vec::len).sum();
        assert_eq!(train.bytes(), bytes);
        assert_eq!(pair.left.send(0, &pair.to, &train).expect("send"), Sent::All);
        assert_eq!(pair.receive_packets(6), expected);
        assert_eq!(pair.left.counters().bytes_sent, bytes as u64);
        assert_eq!(pair.left.counters().send_calls, 1);
        train.skip(2);
        assert_eq!(train.bytes(), bytes - 2 * (HEADER + 100));
    }
}

#[test]
fn a_train_is_not_filled_beyond_its_limits() {
    let bytes = vec![0u8; TRAIN_BYTES_MAX];
    let filled = |last, next| {
        let mut train = Train::new(3);
        train.push(&[], raw(&bytes[..30_000])).expect("first");
        train.push(&[], raw(&bytes[..last])).expect("second");
        train.fill_last(usize::MAX, next, [0; 2])
    };
    assert!(filled(29_998, 5000));
    assert!(filled(20_000, 5000), "exactly the most bytes of a train");
    assert!(!filled(29_999, 5000), "the end of the fill has two bytes");
    assert!(!filled(30_000, 5000), "the last one is not shorter");
    assert!(!filled(20_000, 5001), "more than a train may have");
    assert!(!filled(10_000, 100), "more zeros than there are");
    let mut full = Train::new(2);
    assert!(!full.fill_last(9, 9, [0; 2]), "an empty train");
    full.push(&[], raw(&bytes[..100])).expect("first");
    full.push(&[], raw(&bytes[..90])).expect("second");
    assert!(!full.fill_last(90, 90, [0; 2]), "no packet may follow");
}

#[test]
fn pieces_that_follow_each_other_in_memory_are_one() {
    let payload: Vec<u8> = (0..40).collect();
    let mut train = Train::new(8);
    for header in 0..3_u8 {
        train.push(&[header; 20], RawSlice::EMPTY).expect("room");
    }
    let lengths = |train: &Train| train.pieces().iter().map(|it| it.iov_len).collect::<Vec<_>>();
    assert_eq!(lengths(&train), [60], "headers alone");
    assert_eq!((train.header(1), train.pieces_of(1).len()), (&[1; 20][..], 1));
    train.skip(1);
    assert_eq!(lengths(&train), [20, 20], "the others are sent one by one");
    train.clear();
    for part in [0..10, 10..20, 30..40] {
        train.push(&[], raw(&payload[part])).expect("room");
    }
    assert_eq!(lengths(&train), [20, 10], "payload alone");
    train.clear();
    for part in [0..10, 10..20] {
        train.push(&[7; 20], raw(&payload[part])).expect("room");
    }
    assert_eq!(lengths(&train), [20, 10, 20, 10]);
}

#[test]
fn a_packet_beyond_the_mtu_is_refused_with_both_sizes() {
    // The loopback interface accepts 65,536 bytes, more than a datagram can have, so this test
    // needs a link with a smaller MTU, and searches the routes of this host for one.
    let pair = Pair::new(V4);
    let mtu = pair.left.mtu_towards(&SocketAddr::from(pair.to)).expect("mtu");
    assert!(mtu >= 1280);
    let error = PacketTooLong { packet_bytes: 9000, overhead_bytes: 28, mtu_bytes: 1500 };
    let text = error.to_string();
    assert!(text.contains("9000") && text.contains("1500"), "{text}");

    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let config = UdpConfig { bind: any, first_port: 0, sockets: 1, buffer_bytes: 1 << 20 };
    let mut port = UdpPort::bind(&config).expect("bind");
    // A documentation address (RFC 5737): routed, if at all, over a real link; nothing answers.
    let remote: SocketAddr = "198.51.100.1:9".parse().expect("address");
    let Ok(mtu) = port.mtu_towards(&remote) else {
        return;
    };
    let payload = vec![0u8; 60_000];
    if mtu >= payload.len() {
        return;
    }
    for count in [1, 2] {
        let size = if count == 1 { 60_000 } else { 30_000 };
        let mut train = port.new_train();
        for _ in 0..count {
            train.push(&[0; 8], raw(&payload[..size])).expect("fits the train");
        }
        let error = port.send(0, &remote.into(), &train).expect_err("too long for the link");
        let detail = error.get_ref().and_then(|e| e.downcast_ref::<PacketTooLong>());
        let overhead_bytes = 28;
        let expected = PacketTooLong { packet_bytes: size + 8, overhead_bytes, mtu_bytes: mtu };
        assert_eq!(detail, Some(&expected));
    }
    assert!(port.features().segmentation, "too long is not a refusal to segment");
}

#[test]
fn a_port_of_all_addresses_takes_and_sends_both_families() {
    let any = IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED);
    let config = UdpConfig { bind: any, first_port: 0, sockets: 1, buffer_bytes: 1 << 20 };
    for ip in [V4, V6] {
        for segmentation in [true, false] {
            let mut pair = Pair::new(ip);
            let mut open = UdpPort::bind(&config).expect("bind");
            if !segmentation {
                open.disable_segmentation();
            }
            let number = open.local_addrs()[0].port();
            let packets = Packets::new(&[64, 64, 64, 9]);
            let mut train = open.new_train();
            packets.load(&mut train);
            train.set_ecn(Ecn::Congested);
            assert_eq!(open.send(0, &pair.to, &train).expect("send"), Sent::All);
            let mut got = 0;
            while got < 4 {
                let arrival = pair.receive();
                assert_eq!(arrival.from(), &Address::from(SocketAddr::new(ip, number)));
                assert_eq!(arrival.ecn(), Ecn::Congested);
                for index in 0..arrival.segments() {
                    assert_eq!(arrival.segment(index), packets.whole()[got + index]);
                }
                got += arrival.segments();
            }
            // Sends back to the address that the packets came from.
            let waiter = open.waiter().expect("waiter");
            let mut back = pair.left.new_train();
            packets.load(&mut back);
            let to = SocketAddr::new(ip, number).into();
            assert_eq!(pair.left.send(0, &to, &back).expect("send"), Sent::All);
            waiter.wait(Some(Duration::from_secs(10)), &mut Vec::new()).expect("wait");
            let mut buffer = ReceiveBuffer::new();
            let arrival = open.receive(0, &mut buffer).expect("receive").expect("something");
            assert_eq!(arrival.from(), &Address::from(pair.left.local_addrs()[0]));
            assert_eq!(arrival.ecn(), Ecn::Capable);
            assert_eq!(arrival.segment(0), packets.whole()[0]);
            let remote = SocketAddr::from(*arrival.from());
            assert!(open.mtu_towards(&remote).expect("a route") >= 1280);
        }
    }
}

#[test]
fn an_answer_leaves_from_the_address_that_was_reached() {
    let reached: IpAddr = Ipv4Addr::new(127, 0, 0, 2).into();
    for any in [Ipv4Addr::UNSPECIFIED.into(), IpAddr::from(Ipv6Addr::UNSPECIFIED)] {
        for segmentation in [true, false] {
            let mut pair = Pair::new(V4);
            let config = UdpConfig { bind: any, first_port: 0, sockets: 1, buffer_bytes: 1 << 20 };
            let mut open = UdpPort::bind(&config).expect("bind");
            if !segmentation {
                open.disable_segmentation();
            }
            let to = SocketAddr::new(reached, open.local_addrs()[0].port());
            pair.left.send_one(1, &to.into(), b"hello").expect("send");
            let waiter = open.waiter().expect("waiter");
            waiter.wait(Some(Duration::from_secs(10)), &mut Vec::new()).expect("wait");
            let mut buffer = ReceiveBuffer::new();
            let from = *open.receive(0, &mut buffer).expect("receive").expect("it came").from();
            assert_eq!(from.local(), Some(reached));
            assert_eq!(from, Address::from(pair.left.local_addrs()[1]), "not compared");
            let packets = Packets::new(&[64, 64, 9]);
            let mut train = open.new_train();
            packets.load(&mut train);
            let back = Address::from(pair.right.local_addrs()[1]);
            for (local, source) in [(Some(reached), reached), (None, V4)] {
                let back = back.reached_at(local);
                open.send_one(0, &back, b"one").expect("send");
                assert_eq!(open.send(0, &back, &train).expect("send"), Sent::All);
                let mut got = 0;
                while got < 4 {
                    let arrival = pair.receive();
                    assert_eq!(SocketAddr::from(*arrival.from()).ip(), source);
                    got += arrival.segments();
                }
            }
        }
    }
}

#[test]
fn an_unreachable_peer_does_not_end_the_port() {
    let mut pair = Pair::new(V4);
    let gone: Address = {
        let other = Pair::new(V4);
        other.to
    };
    let packets = Packets::new(&[10]);
    let mut train = pair.left.new_train();
    packets.load(&mut train);
    for _ in 0..3 {
        assert_eq!(pair.left.send(0, &gone, &train).expect("survives"), Sent::All);
    }
    assert!(pair.left.receive(0, &mut ReceiveBuffer::new()).expect("survives").is_none());
    pair.send(&packets);
    assert_eq!(pair.receive().segment(0), packets.whole()[0]);
}

#[test]
fn ports_are_consecutive_if_requested() {
    // Another program may take a port number meanwhile, so a few are tried.
    let mut config = UdpConfig { bind: V4, first_port: 0, sockets: 4, buffer_bytes: 1 << 16 };
    for _ in 0..20 {
        let probe = UdpPort::bind(&UdpConfig { sockets: 1, ..config }).expect("bind");
        config.first_port = probe.local_addrs()[0].port().min(65_000);
        drop(probe);
        let bound = UdpPort::bind(&config);
        config.sockets = 4;
        if let Ok(port) = bound {
            let numbers: Vec<u16> = port.local_addrs().iter().map(SocketAddr::port).collect();
            let first = config.first_port;
            assert_eq!(numbers, [first, first + 1, first + 2, first + 3]);
            return;
        }
        config.first_port = 0;
    }
    panic!("no four consecutive ports in twenty attempts");
}

#[test]
fn a_port_out_of_range_or_taken_is_an_error_that_names_it() {
    let none = UdpConfig { bind: V4, first_port: 0, sockets: 0, buffer_bytes: 1 << 16 };
    assert!(UdpPort::bind(&none).is_err());
    assert!(UdpPort::bind(&UdpConfig { first_port: 65_530, sockets: 10, ..none }).is_err());
    let port = UdpPort::bind(&UdpConfig { sockets: 1, ..none }).expect("bind");
    let number = port.local_addrs()[0].port();
    let taken = UdpPort::bind(&UdpConfig { first_port: number, sockets: 1, ..none });
    assert!(taken.expect_err("taken").to_string().contains(&number.to_string()));
}

/// The kernel's real-time clock, in nanoseconds.
fn real_ns() -> u128 {
    std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos()
}

#[test]
fn arrivals_have_time_stamps_if_requested() {
    for ip in [V4, V6] {
        let mut pair = Pair::new(ip);
        pair.send(&Packets::new(&[PAYLOAD; 3]));
        assert_eq!(pair.receive().stamped_ns(), 0);
        while pair.right.receive(1, &mut pair.buffer).expect("receive").is_some() {}
        pair.right.stamp_arrivals().expect("stamps");
        let before = real_ns();
        pair.send(&Packets::new(&[PAYLOAD; 3]));
        let stamped = u128::from(pair.receive().stamped_ns());
        assert!((before..=real_ns()).contains(&stamped), "{stamped} after {before}");
        // Sockets that are opened later behave the same.
        let later = pair.right.add_socket(SocketAddr::new(ip, 0)).expect("a socket");
        pair.to = pair.right.local_addrs()[later].into();
        pair.send(&Packets::new(&[8]));
        let deadline = Instant::now() + Duration::from_secs(10);
        let stamped = loop {
            let arrival = pair.right.receive(later, &mut pair.buffer).expect("receive");
            if let Some(arrival) = arrival {
                break u128::from(arrival.stamped_ns());
            }
            assert!(Instant::now() < deadline, "nothing arrived");
        };
        assert!(stamped >= before);
    }
}

#[test]
fn buffers_and_features_are_reported() {
    let pair = Pair::new(V4);
    assert!(pair.left.granted().receive_bytes > 0 && pair.left.granted().send_bytes > 0);
    assert!([64, 128].contains(&pair.left.features().segments_max));
}

#[test]
fn a_doorbell_ends_a_wait_from_another_thread() {
    let waiter = Waiter::new().expect("waiter");
    let bell = waiter.doorbell();
    let mut ready = Vec::new();
    let ringer = std::thread::spawn(move || bell.ring());
    let woken = waiter.wait(Some(Duration::from_secs(10)), &mut ready).expect("wait");
    ringer.join().expect("ringer");
    assert_eq!(woken, Woken { sockets: 0, rung: true });
    // One wait consumes all rings.
    assert_eq!(waiter.ready_now(&mut ready).expect("wait"), Woken::default());
    // A timeout below a millisecond ends the wait too.
    let woken = waiter.wait(Some(Duration::from_nanos(1500)), &mut ready).expect("wait");
    assert_eq!(woken, Woken::default());
}

#[test]
fn paused_waiter_leaves_the_sockets_alone_and_reports_what_came_when_it_is_resumed() {
    let mut pair = Pair::new(V4);
    for _ in 0..2 {
        pair.waiter.pause();
        pair.waiter.pause();
        pair.left.send_one(0, &pair.to, b"while it is paused").expect("send");
        // Loopback delivers a packet before the call returns.
        assert_eq!(pair.waiter.ready_now(&mut pair.ready).expect("wait"), Woken::default());
        pair.waiter.doorbell().ring();
        let woken = pair.waiter.wait(None, &mut pair.ready).expect("wait");
        assert_eq!(woken, Woken { sockets: 0, rung: true }, "the bell still wakes it");
        pair.waiter.resume().expect("resume");
        pair.waiter.resume().expect("resume");
        assert_eq!(pair.receive().segment(0), b"while it is paused");
    }
}

#[test]
fn addresses_convert_and_compare() {
    for text in ["127.0.0.1:80", "[::1]:443", "10.1.2.3:0", "[fe80::1%7]:65535"] {
        let address: SocketAddr = text.parse().expect("address");
        let encoded = Address::from(address);
        assert_eq!(SocketAddr::from(encoded), address);
        assert_eq!(encoded, Address::from(address));
        assert_eq!(encoded.port(), address.port());
        assert_eq!(encoded.is_ipv6(), address.is_ipv6());
    }
    assert_ne!(Address::from((V4, 1)), Address::from((V4, 2)));
    assert_eq!(HEADER_BYTES_MAX, 192);
}

#[test]
fn shared_types_are_send_and_sync() {
    fn hand_over<T: Send>() {}
    fn share<T: Sync>() {}
    hand_over::<UdpPort>();
    hand_over::<Train>();
    hand_over::<ReceiveBuffer>();
    hand_over::<crate::Impaired>();
    share::<Waiter>();
    share::<Doorbell>();
}
