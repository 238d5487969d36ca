//! Tests of the datapath over shared memory: between two datapaths of this process, and against a
//! process that breaks the rules.

mod copies;
mod hostile;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use fairway_port::{Address, Datapath, RawSlice, ReceiveBuffer, Sent, Train, UdpConfig, UdpPort};
use fairway_wire::Ecn;

use super::datapath::SharedMemory;
use super::link::make_file;
use super::ring::{Pushed, RING_BYTES, Reader, Writer};
use crate::memory::SharedBytes;

/// A time at which tests begin, in nanoseconds.
const NOW: u64 = 1_000_000_000;

fn port() -> UdpPort {
    port_at(Ipv4Addr::LOCALHOST)
}

fn port_at(bind: Ipv4Addr) -> UdpPort {
    let config = UdpConfig { bind: bind.into(), first_port: 0, sockets: 2, buffer_bytes: 1 << 20 };
    UdpPort::bind(&config).unwrap()
}

/// Returns a train of packets that all begin with `header`.
fn train(header: &[u8], payloads: &[&'static [u8]]) -> Train {
    let mut train = Train::new(64);
    for payload in payloads {
        // SAFETY: the bytes are there for ever.
        let payload = unsafe { RawSlice::new(payload.as_ptr(), payload.len()) };
        train.push(header, payload).unwrap();
    }
    train
}

/// Returns some address.
fn somewhere() -> Address {
    SocketAddr::from(([127, 0, 0, 1], 4800)).into()
}

/// Receives everything that waits, from whatever way, as pairs of socket and packet.
fn receive_all(datapath: &mut SharedMemory) -> Vec<(usize, Vec<u8>)> {
    let (mut buffer, mut packets) = (ReceiveBuffer::new(), Vec::new());
    datapath.attend();
    while let Some(ready) = datapath.ready().filter(|ready| *ready != 0) {
        let socket = ready.trailing_zeros() as usize;
        while let Some(arrival) = datapath.receive_ready(socket, &mut buffer) {
            let segments = 0..arrival.segments();
            packets.extend(segments.map(|index| (socket, arrival.segment(index).to_vec())));
        }
    }
    for socket in 0..datapath.port().socket_count() {
        while let Some(arrival) = datapath.receive(socket, &mut buffer).unwrap() {
            let segments = 0..arrival.segments();
            packets.extend(segments.map(|index| (socket, arrival.segment(index).to_vec())));
        }
    }
    packets
}

fn address_of(datapath: &SharedMemory, socket: usize) -> Address {
    datapath.port().local_addrs()[socket].into()
}

/// Returns two datapaths that have attached to each other.
fn attached() -> (SharedMemory, SharedMemory) {
    let mut one = SharedMemory::alone(port()).unwrap();
    let mut other = SharedMemory::alone(port()).unwrap();
    let to = address_of(&other, 0);
    assert!(one.transmit(NOW, 0, 0, &to, &train(b"first", &[b""])).is_err(), "not attached yet");
    other.attend();
    one.attend();
    (one, other)
}

#[test]
fn trains_pass_through_a_ring_in_order_and_wrap_around_its_end() {
    let memory = make_file().unwrap();
    let (mut writer, mut reader) = (Writer::new(&memory, false), Reader::new(&memory, false));
    let mut buffer = ReceiveBuffer::new();
    static PAYLOAD: [u8; 4096] = [7; 4096];
    assert_eq!(reader.peek(), Ok(None));
    let rounds = 3 * RING_BYTES / (10 * 4096);
    for round in 0..rounds {
        let header = (round as u32).to_ne_bytes();
        let mut sent = train(&header, &[&PAYLOAD[..]; 10]);
        sent.set_ecn(Ecn::Congested);
        assert_eq!(writer.push(3, &somewhere(), &sent), Pushed::Yes { wakes: false });
        let head = reader.peek().unwrap().expect("a record");
        assert_eq!(head.socket, 3);
        let arrival = reader.pop(&mut buffer).unwrap();
        assert_eq!((arrival.segments(), arrival.len()), (10, 10 * 4100));
        assert_eq!((*arrival.from(), arrival.ecn()), (somewhere(), Ecn::Congested));
        for index in 0..10 {
            assert_eq!(arrival.segment(index)[..4], header);
            assert_eq!(arrival.segment(index)[4..], PAYLOAD);
        }
    }
    assert_eq!(reader.peek(), Ok(None));
}

#[test]
fn long_packets_stay_in_the_ring_until_the_reader_looks_again() {
    let memory = make_file().unwrap();
    let (mut writer, mut reader) = (Writer::new(&memory, false), Reader::new(&memory, false));
    let mut buffer = ReceiveBuffer::new();
    static PAYLOAD: [u8; 8192] = {
        let (mut bytes, mut index) = ([0; 8192], 0);
        while index < bytes.len() {
            bytes[index] = (index * 7 / 3) as u8;
            index += 1;
        }
        bytes
    };
    let (payload, last) = (&PAYLOAD[..], &PAYLOAD[..100]);
    for round in 0..2 * RING_BYTES / (3 * 8192) {
        let sent = train(b"head", &[payload, payload, last]);
        assert!(matches!(writer.push(1, &somewhere(), &sent), Pushed::Yes { .. }));
        assert!(reader.peek().unwrap().is_some());
        let arrival = reader.pop(&mut buffer).unwrap();
        assert_eq!((arrival.segments(), arrival.len()), (3, 2 * 8196 + 104));
        for (index, expected) in [payload, payload, last].into_iter().enumerate() {
            let whole = [&b"head"[..], expected].concat();
            assert_eq!(arrival.segment(index), &whole[..whole.len().min(192)], "round {round}");
            let outside = arrival.outside(index).expect("it is in the ring");
            let mut bytes = vec![0; outside.len()];
            let start = std::ptr::NonNull::new(outside.as_ptr().cast_mut()).unwrap();
            // SAFETY: the packet is in the ring, which is mapped.
            unsafe { SharedBytes::new(start, outside.len()) }.read(&mut bytes).unwrap();
            assert_eq!(bytes, whole, "round {round}");
        }
        if round == 0 {
            // The record keeps its room until then.
            let filler = train(b"head", &[payload]);
            while writer.push(1, &somewhere(), &filler) != Pushed::Full {}
            assert!(reader.peek().unwrap().is_some());
            assert!(matches!(writer.push(1, &somewhere(), &filler), Pushed::Yes { .. }));
            while reader.peek().unwrap().is_some() {
                reader.pop(&mut buffer).unwrap();
            }
        }
    }
    assert!(!reader.arm());
}

#[test]
fn full_ring_accepts_nothing_until_its_reader_has_read() {
    let memory = make_file().unwrap();
    let (mut writer, mut reader) = (Writer::new(&memory, true), Reader::new(&memory, true));
    let mut buffer = ReceiveBuffer::new();
    static PAYLOAD: [u8; 60_000] = [1; 60_000];
    let sent = train(b"h", &[&PAYLOAD]);
    let mut pushed = 0;
    while writer.push(0, &somewhere(), &sent) != Pushed::Full {
        pushed += 1;
    }
    assert!((10..=RING_BYTES / 60_000).contains(&pushed), "{pushed} records of 60,001 bytes");
    for _ in 0..2 {
        assert!(reader.peek().unwrap().is_some());
        reader.pop(&mut buffer).unwrap();
    }
    assert!(matches!(writer.push(0, &somewhere(), &sent), Pushed::Yes { .. }));
    let mut left = 0;
    while reader.peek().unwrap().is_some() {
        assert_eq!(reader.pop(&mut buffer).unwrap().len(), 60_001);
        left += 1;
    }
    assert_eq!(left, pushed - 1);
}

#[test]
fn armed_reader_is_woken_once_by_the_next_record() {
    let memory = make_file().unwrap();
    let (mut writer, mut reader) = (Writer::new(&memory, false), Reader::new(&memory, false));
    let sent = train(b"hello", &[b""]);
    assert!(!reader.arm(), "there is nothing to read");
    assert_eq!(writer.push(0, &somewhere(), &sent), Pushed::Yes { wakes: true });
    assert_eq!(writer.push(0, &somewhere(), &sent), Pushed::Yes { wakes: false });
    assert!(reader.arm(), "two records are there");
    reader.disarm();
    assert_eq!(writer.push(0, &somewhere(), &sent), Pushed::Yes { wakes: false });
}

#[test]
fn payload_whose_memory_is_gone_is_not_sent() {
    crate::memory::survive_missing_memory();
    let memory = make_file().unwrap();
    let (mut writer, mut reader) = (Writer::new(&memory, false), Reader::new(&memory, false));
    let mut sent = Train::new(4);
    // SAFETY: the first page is mapped in no process, and the copy survives that.
    sent.push(b"h", unsafe { RawSlice::new(std::ptr::without_provenance(64), 128) }).unwrap();
    assert_eq!(writer.push(0, &somewhere(), &sent), Pushed::Gone);
    assert_eq!(reader.peek(), Ok(None));
    let whole = train(b"whole", &[b""]);
    assert!(matches!(writer.push(0, &somewhere(), &whole), Pushed::Yes { .. }));
    assert!(reader.peek().unwrap().is_some());
}

#[test]
fn packets_to_all_sockets_of_an_attached_process_go_through_memory() {
    let (mut one, mut other) = attached();
    for (from, to) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let text = [from as u8, to as u8];
        let address = address_of(&other, to);
        assert_eq!(
            one.transmit(NOW, 0, from, &address, &train(&text, &[b"!"])).unwrap(),
            Sent::All
        );
        assert_eq!(receive_all(&mut other), [(to, [&text[..], b"!"].concat())]);
        // The other direction uses the same link.
        let address = address_of(&one, from);
        assert_eq!(
            other.transmit(NOW, 0, to, &address, &train(&text, &[b"?"])).unwrap(),
            Sent::All
        );
        assert_eq!(receive_all(&mut one), [(from, [&text[..], b"?"].concat())]);
    }
    let (sent, received) = (one.port().counters(), other.port().counters());
    assert_eq!((sent.packets_sent_in_memory, sent.send_calls), (4, 0));
    assert_eq!(received.packets_received_in_memory, 4);
}

#[test]
fn arrival_through_memory_names_the_source_that_udp_would_name() {
    let mut one = SharedMemory::alone(port_at(Ipv4Addr::UNSPECIFIED)).unwrap();
    let mut other = SharedMemory::alone(port_at(Ipv4Addr::UNSPECIFIED)).unwrap();
    let at = |datapath: &SharedMemory, ip: Ipv4Addr, socket: usize| -> Address {
        SocketAddr::from((ip, datapath.port().local_addrs()[socket].port())).into()
    };
    // 127.0.0.2 is an address of every host, and packets to it come from 127.0.0.1.
    let to = at(&other, Ipv4Addr::new(127, 0, 0, 2), 1);
    assert!(one.transmit(NOW, 0, 0, &to, &train(b"first", &[b""])).is_err());
    other.attend();
    one.attend();
    one.transmit(NOW, 0, 1, &to, &train(b"second", &[b""])).unwrap();
    let mut buffer = ReceiveBuffer::new();
    assert_eq!(other.ready(), Some(1 << 1));
    let arrival = other.receive_ready(1, &mut buffer).expect("the packet");
    assert_eq!(*arrival.from(), at(&one, Ipv4Addr::LOCALHOST, 1));
    assert_eq!(arrival.segment(0), b"second");
}

#[test]
fn packets_take_the_sockets_until_the_peer_has_attached() {
    let mut one = SharedMemory::with_sockets(port());
    let mut other = SharedMemory::alone(port()).unwrap();
    let to = address_of(&other, 1);
    one.transmit(NOW, 0, 0, &to, &train(b"first", &[b""])).unwrap();
    assert_eq!(one.port().counters().packets_sent_in_memory, 0);
    assert_eq!(receive_all(&mut other), [(1, b"first".to_vec())]);
    one.attend();
    one.transmit(NOW, 0, 0, &to, &train(b"second", &[b""])).unwrap();
    assert_eq!(one.port().counters().packets_sent_in_memory, 1);
    assert_eq!(receive_all(&mut other), [(1, b"second".to_vec())]);
}

#[test]
fn what_an_ended_process_has_written_is_received_and_another_one_attaches() {
    let (mut one, mut other) = attached();
    let to = address_of(&other, 0);
    one.transmit(NOW, 0, 0, &to, &train(b"last words", &[b""])).unwrap();
    drop(one);
    assert_eq!(receive_all(&mut other), [(0, b"last words".to_vec())]);
    assert_eq!(other.ready(), None, "the link is gone");
    // A process that starts later at any address attaches again.
    let mut next = SharedMemory::alone(port()).unwrap();
    assert!(next.transmit(NOW, 0, 0, &to, &train(b"first", &[b""])).is_err());
    other.attend();
    next.attend();
    next.transmit(NOW, 0, 0, &to, &train(b"second", &[b""])).unwrap();
    assert_eq!(receive_all(&mut other), [(0, b"second".to_vec())]);
}

#[test]
fn packets_to_a_process_that_does_not_read_wait_for_a_while_and_are_dropped_then() {
    let (mut one, other) = attached();
    let to = address_of(&other, 0);
    static PAYLOAD: [u8; 60_000] = [1; 60_000];
    let sent = train(b"h", &[&PAYLOAD]);
    while one.transmit(NOW, 0, 0, &to, &sent).unwrap() == Sent::All {}
    let blocked = Sent::Blocked { sent: 0 };
    assert_eq!(one.transmit(NOW + 50_000_000, 0, 0, &to, &sent).unwrap(), blocked);
    assert_eq!(one.port().counters().packets_dropped_in_memory, 0);
    assert_eq!(one.transmit(NOW + 150_000_000, 0, 0, &to, &sent).unwrap(), Sent::All);
    assert_eq!(one.port().counters().packets_dropped_in_memory, 1);
}

#[test]
fn sleeper_is_woken_by_a_packet_in_memory_and_by_a_new_process() {
    let (mut one, mut other) = attached();
    let to = address_of(&other, 0);
    let waiter = Arc::new(other.waiter().unwrap());
    let mut ready = Vec::new();
    assert!(!other.arm());
    assert_eq!(waiter.ready_now(&mut ready).unwrap().sockets, 0);
    one.transmit(NOW, 0, 0, &to, &train(b"wake", &[b""])).unwrap();
    assert_eq!(waiter.ready_now(&mut ready).unwrap().sockets, 1);
    assert_eq!(receive_all(&mut other), [(0, b"wake".to_vec())]);
    assert_eq!(waiter.ready_now(&mut ready).unwrap().sockets, 0, "the bell is silent again");
    let mut third = SharedMemory::alone(port()).unwrap();
    assert!(third.transmit(NOW, 0, 0, &to, &train(b"first", &[b""])).is_err());
    assert_eq!(waiter.ready_now(&mut ready).unwrap().sockets, 1);
    other.attend();
    third.attend();
    assert!(third.transmit(NOW, 0, 0, &to, &train(b"second", &[b""])).is_ok());
}

#[test]
fn datapath_attaches_to_itself() {
    let mut own = SharedMemory::alone(port()).unwrap();
    let to = address_of(&own, 1);
    assert!(own.transmit(NOW, 0, 0, &to, &train(b"first", &[b""])).is_err());
    own.attend();
    own.attend();
    own.transmit(NOW, 0, 0, &to, &train(b"second", &[b""])).unwrap();
    assert_eq!(receive_all(&mut own), [(1, b"second".to_vec())]);
}

#[test]
fn flood_of_addresses_is_not_looked_up_one_by_one() {
    let mut one = SharedMemory::with_sockets(port());
    let mut other = SharedMemory::alone(port()).unwrap();
    for number in 1..1000 {
        let to = SocketAddr::from(([127, 0, 1, 1], number)).into();
        one.transmit(NOW, 0, 0, &to, &train(b"reply", &[b""])).unwrap();
    }
    // The address of a process that could attach is one too many now, and is found later.
    let to = address_of(&other, 0);
    one.transmit(NOW, 0, 0, &to, &train(b"early", &[b""])).unwrap();
    one.transmit(NOW + 20_000_000, 0, 0, &to, &train(b"first", &[b""])).unwrap();
    other.attend();
    one.attend();
    one.transmit(NOW + 20_000_000, 0, 0, &to, &train(b"second", &[b""])).unwrap();
    assert_eq!(one.port().counters().packets_sent_in_memory, 1);
}
