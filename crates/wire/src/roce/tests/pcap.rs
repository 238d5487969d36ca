//! Traffic recorded between two Linux kernels' soft-RoCE: every packet parses, has the right ICRC,
//! and comes back byte for byte.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::vec::Vec;
use std::{eprintln, format, fs};

use crate::roce::*;

/// The directory of the recordings, beside the repository.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference")
}

/// The Ethernet frames of a classic little-endian pcap file.
fn frames(file: &[u8]) -> Vec<&[u8]> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), 0xa1b2_c3d4, "a little-endian pcap file");
    assert_eq!(word(20), 1, "of Ethernet frames");
    let mut frames = Vec::new();
    let mut at = 24;
    while at < file.len() {
        let (captured, original) = (word(at + 8) as usize, word(at + 12) as usize);
        assert_eq!(captured, original, "whole frames");
        frames.push(&file[at + 16..at + 16 + captured]);
        at += 16 + captured;
    }
    frames
}

/// The RoCE datagram in an Ethernet frame, if there is one.
fn roce(frame: &[u8]) -> Option<Enclosed<'_>> {
    let (ethernet, rest) = frame.split_at_checked(14)?;
    if !matches!(ethernet[12..], [0x08, 0x00] | [0x86, 0xdd]) {
        return None;
    }
    Outer::parse(rest).ok().filter(|inner| inner.outer.destination_port == UDP_PORT)
}

/// Addresses that occur in no recording.
const V4: ([u8; 4], [u8; 4]) = ([192, 0, 2, 1], [192, 0, 2, 2]);

fn demand_identical(name: &str, number: usize, enclosed: &Enclosed<'_>) -> u8 {
    let what = format!("packet {number} of {name}");
    let Enclosed { outer, datagram, .. } = enclosed;
    let decoded = decode(datagram, datagram.len());
    let Decoded { packet, header_len, payload_len } =
        decoded.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(Icrc::verify(outer, datagram), "{what}: ICRC");
    if let Network::V4 { identification, .. } = outer.network {
        let found = Icrc::identification(&Outer::v4(V4.0, V4.1, 0), datagram);
        assert_eq!(found, None, "{what}: other addresses");
        let mut unknown = *outer;
        if let Network::V4 { identification, .. } = &mut unknown.network {
            *identification = 0;
        }
        assert_eq!(Icrc::identification(&unknown, datagram), Some(identification), "{what}");
    }
    let payload = &datagram[header_len..header_len + payload_len];
    assert_eq!(super::datagram(outer, &packet, payload), *datagram, "{what}");
    datagram[0]
}

#[test]
fn recorded_soft_roce_traffic_parses_and_comes_back() {
    let directory = directory();
    if !directory.is_dir() {
        eprintln!("SKIPPED: no recordings of soft-RoCE in {}", directory.display());
        return;
    }
    // Number of RoCE packets in each file: the test must see all of them.
    for (name, expected) in [("rxe.pcap", 83), ("rxe-v6.pcap", 83), ("rxe-cm.pcap", 41)] {
        let file = fs::read(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let frames = frames(&file);
        let packets: Vec<_> = frames.iter().filter_map(|frame| roce(frame)).collect();
        assert_eq!(packets.len(), expected, "{name}");
        let mut opcodes = BTreeSet::new();
        for (number, enclosed) in packets.iter().enumerate() {
            opcodes.insert(demand_identical(name, number, enclosed));
        }
        if name != "rxe-cm.pcap" {
            assert!(opcodes.len() >= 30, "{name}: nearly every opcode: {opcodes:02x?}");
        }
    }
}

#[test]
fn recorded_management_datagrams_parse_and_come_back() {
    let file = directory().join("rxe-cm.pcap");
    let Ok(file) = fs::read(&file) else {
        eprintln!("SKIPPED: no recording {}", file.display());
        return;
    };
    let mut messages = Vec::new();
    for frame in frames(&file) {
        let Some(Enclosed { datagram, .. }) = roce(frame) else { continue };
        let decoded = decode(datagram, datagram.len()).unwrap();
        if decoded.packet.bth.destination.value() != cm::QUEUE_PAIR {
            continue;
        }
        let Operation::Datagram { deth, .. } = decoded.packet.operation else { panic!("no MAD") };
        assert_eq!(deth.q_key, cm::Q_KEY);
        let bytes = &datagram[decoded.header_len..][..decoded.payload_len];
        let parsed = cm::parse(bytes).unwrap();
        assert_eq!(cm::emit(&parsed), bytes);
        messages.push(parsed);
    }
    let [first, reply, ready, disconnect, disconnected] = &messages[..] else {
        panic!("five messages, not {}", messages.len());
    };
    let cm::Message::Request(request) = first.message else { panic!("{first:?}") };
    let port = cm::port_of_service(request.service);
    assert_eq!(port, Some((cm::PortSpace::Tcp, 7174)));
    assert_eq!((request.mtu, request.cm_retries, request.retries), (3, 15, 7));
    let header = cm::IpHeader::parse(&request.private).unwrap();
    let ip = |last| core::net::IpAddr::from([10, 77, 0, last]);
    assert_eq!((header.source, header.destination), (ip(12), ip(11)));
    assert_eq!(header.emit(), request.private[..cm::IpHeader::LEN]);
    let cm::Message::Reply(reply) = reply.message else { panic!("{reply:?}") };
    assert_eq!(reply.names.remote, request.local);
    let cm::Message::ReadyToUse(ready) = ready.message else { panic!("{ready:?}") };
    assert_eq!(ready.names.remote, reply.names.local);
    let cm::Message::Disconnect(disconnect) = disconnect.message else { panic!() };
    assert_eq!(disconnect.queue_pair, reply.queue_pair);
    assert!(matches!(disconnected.message, cm::Message::Disconnected(_)));
}
