//! Tests of headers. `tests/frames.rs` of the crate `fairway` sends frames.

use std::net::SocketAddr;

use fairway_wire::Ecn;

use super::frame::parse;
use super::{FRAME_MAX, Flow};
use crate::Address;

const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEXT: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PAIRS: [(&str, &str); 2] =
    [("10.1.2.3:4800", "10.1.2.4:4801"), ("[2001:db8::1]:7", "[2001:db8::ff]:65535")];

fn flow((from, to): (&str, &str)) -> (SocketAddr, SocketAddr, Flow) {
    let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
    (from, to, Flow::new(HERE, NEXT, from, to).unwrap())
}

/// Returns a frame with `length` bytes of payload.
fn frame(flow: &Flow, length: usize, ecn: Ecn) -> Vec<u8> {
    frame_of_class(flow, length, 0, ecn)
}

/// The same with a code point.
fn frame_of_class(flow: &Flow, length: usize, dscp: u8, ecn: Ecn) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..flow.header_bytes() + length).map(|at| (at * 31) as u8).collect();
    flow.complete(&mut frame, dscp, ecn);
    frame
}

#[test]
fn frames_of_all_lengths_are_read_as_they_were_written() {
    for pair in PAIRS {
        let (from, to, flow) = flow(pair);
        for length in (0..70).chain([1000, 1001, flow.payload_max()]) {
            for ecn in [Ecn::NotCapable, Ecn::Capable, Ecn::Congested] {
                let frame = frame(&flow, length, ecn);
                let packet = parse(&frame).expect("a sound frame");
                assert_eq!((packet.from, packet.to), (Address::from(from), Address::from(to)));
                assert_eq!((packet.ecn, packet.length), (ecn, length));
                assert_eq!(packet.start, flow.header_bytes());
                assert_eq!(frame[..12], [NEXT, HERE].concat());
                assert!(frame.len() <= FRAME_MAX);
            }
        }
    }
}

#[test]
fn a_changed_bit_behind_the_ethernet_header_is_noticed() {
    for pair in PAIRS {
        let (_, _, flow) = flow(pair);
        let sound = frame(&flow, 21, Ecn::Capable);
        let mut noticed = 0;
        for bit in 8 * 14..8 * sound.len() {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = parse(&damaged);
            noticed += usize::from(found.is_none());
            let header = bit / 8 - 14;
            // IPv6 has no checksum over its first words, which hold no address and no length.
            let unprotected = flow.header_bytes() == 62 && matches!(header, 0..4 | 7);
            // A greater length is that of a packet whose end is missing: its checksum cannot be
            // checked, and the one that the receiver has of its own headers has to find it.
            let is_cut = found.is_some_and(|packet| packet.cut_from.is_some());
            assert!(found.is_none() || unprotected || is_cut, "byte {} of {pair:?}", bit / 8);
            let of_udp = flow.header_bytes() - 14 - 4;
            let v6 = flow.header_bytes() == 62 && matches!(header, 4 | 5);
            assert!(!is_cut || v6 || (of_udp..of_udp + 2).contains(&header), "byte {}", bit / 8);
        }
        assert!(noticed > 8 * 46);
    }
}

#[test]
fn cut_frames_and_other_protocols_are_refused() {
    for pair in PAIRS {
        let (_, _, flow) = flow(pair);
        let sound = frame(&flow, 100, Ecn::Capable);
        for length in 0..flow.header_bytes() {
            assert_eq!(parse(&sound[..length]), None, "{length} bytes");
        }
        let mut padded = sound.clone();
        padded.extend([7; 20]);
        assert_eq!(parse(&padded).map(|packet| packet.length), Some(100), "padding is left out");
        let mut other = sound;
        other[12..14].copy_from_slice(&0x0806_u16.to_be_bytes());
        assert_eq!(parse(&other), None, "ARP");
    }
}

#[test]
fn sources_that_no_other_host_has_are_refused() {
    let (v4, v6) = ("10.1.2.4:4801", "[2001:db8::ff]:65535");
    for (from, to) in [
        ("127.0.0.1:9", v4),
        ("0.0.0.0:9", v4),
        ("224.0.0.1:9", v4),
        ("255.255.255.255:9", v4),
        ("10.1.2.4:9", v4),
        ("[::1]:9", v6),
        ("[::]:9", v6),
        ("[ff02::1]:9", v6),
        ("[2001:db8::ff]:9", v6),
    ] {
        let (_, _, flow) = flow((from, to));
        assert_eq!(parse(&frame(&flow, 40, Ecn::Capable)), None, "{from}");
    }
}

#[test]
fn packets_without_a_checksum_are_refused() {
    for pair in PAIRS {
        let (_, _, flow) = flow(pair);
        let mut frame = frame(&flow, 40, Ecn::Capable);
        let place = flow.header_bytes() - 2;
        frame[place..place + 2].fill(0);
        assert_eq!(parse(&frame), None, "{pair:?}");
    }
}

#[test]
fn addresses_of_two_families_have_no_flow() {
    let (one, other) = (PAIRS[0].0.parse().unwrap(), PAIRS[1].1.parse().unwrap());
    assert!(Flow::new(HERE, NEXT, one, other).is_none());
}

#[test]
fn code_point_is_in_the_header_and_the_checksum_covers_it() {
    for pair in PAIRS {
        let (_, _, flow) = flow(pair);
        let at = 14;
        let frame = frame_of_class(&flow, 100, 48, Ecn::Congested);
        let first = u16::from_be_bytes([frame[at], frame[at + 1]]);
        let class = if first >> 12 == 4 { first & 0xff } else { first >> 4 & 0xff };
        assert_eq!(class, 48 << 2 | 0b11, "{pair:?}");
        assert_eq!(parse(&frame).map(|packet| packet.ecn), Some(Ecn::Congested), "{pair:?}");
    }
}

/// Cuts a frame to `length` bytes and gives it the code point 11, as switches do that trim. The
/// lengths in its headers stay.
fn trim(frame: &mut Vec<u8>, length: usize) {
    frame.truncate(length);
    if frame[14] == 0x45 {
        frame[15] = 11 << 2 | frame[15] & 3;
        set_v4_checksum(frame);
    } else {
        frame[14] = 0x60 | 11 >> 2;
        frame[15] = (11 << 6) as u8 | frame[15] & 0x30;
    }
}

/// Computes the checksum of the IPv4 header.
fn set_v4_checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let words = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[test]
fn trimmed_packets_are_recognised_by_the_length_of_udp() {
    for pair in PAIRS {
        let (from, to, flow) = flow(pair);
        let whole = frame(&flow, 1400, Ecn::Capable);
        for length in [64.max(flow.header_bytes()), 128, 256, 1024, whole.len() - 1] {
            let mut cut = whole.clone();
            trim(&mut cut, length);
            let packet = parse(&cut).expect("a trimmed packet");
            assert_eq!((packet.from, packet.to), (Address::from(from), Address::from(to)));
            assert_eq!(packet.cut_from, Some(1400), "{length}");
            assert_eq!(packet.start + packet.length, length);
            // A switch that also rewrites the length in the IP header.
            let rest = (length - 14) as u16;
            if cut[14] == 0x45 {
                cut[16..18].copy_from_slice(&rest.to_be_bytes());
                set_v4_checksum(&mut cut);
            } else {
                cut[18..20].copy_from_slice(&(rest - 40).to_be_bytes());
            }
            // Ethernet may pad what is behind it.
            cut.extend([0; 6]);
            assert_eq!(parse(&cut), Some(packet), "{length}");
        }
        assert_eq!(parse(&whole).map(|packet| packet.cut_from), Some(None));
    }
}
