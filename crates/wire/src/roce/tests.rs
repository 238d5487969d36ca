use proptest::prelude::*;
use std::vec::Vec;

use super::*;
use crate::{Msn, Psn, Qpn};

mod pcap;
mod strategies;

/// A whole datagram: headers, payload and trailer.
fn datagram(outer: &Outer, packet: &Packet, payload: &[u8]) -> Vec<u8> {
    let mut header = [0xa5; MAX_HEADER];
    let header_len = encode(packet, payload.len(), &mut header);
    assert_eq!(header_len, super::header_len(packet));
    let datagram_len = datagram_len(packet, payload.len());
    let mut icrc = Icrc::new(outer, &header[..header_len], datagram_len);
    icrc.update(payload);
    let datagram = [&header[..header_len], payload, icrc.trailer(payload.len()).bytes()].concat();
    assert_eq!(datagram.len(), datagram_len);
    datagram
}

/// IP and UDP headers around a datagram, as a network would carry it; checksums are left zero.
fn enclosed(outer: &Outer, tos: u8, hops: u8, datagram: &[u8]) -> Vec<u8> {
    let udp_len = (8 + datagram.len()) as u16;
    let mut bytes = Vec::new();
    match outer.network {
        Network::V4 { source, destination, identification, fragment } => {
            bytes.extend([0x45, tos]);
            bytes.extend((20 + udp_len).to_be_bytes());
            bytes.extend(identification.to_be_bytes());
            bytes.extend(fragment.to_be_bytes());
            bytes.extend([hops, 17, 0, 0]);
            bytes.extend(source);
            bytes.extend(destination);
        }
        Network::V6 { source, destination } => {
            bytes.extend([0x60 | tos >> 4, tos << 4 | 0x5, 0xab, 0xcd]);
            bytes.extend(udp_len.to_be_bytes());
            bytes.extend([17, hops]);
            bytes.extend(source);
            bytes.extend(destination);
        }
    }
    bytes.extend(outer.source_port.to_be_bytes());
    bytes.extend(outer.destination_port.to_be_bytes());
    bytes.extend(udp_len.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(datagram);
    bytes
}

fn sample(operation: Operation) -> Packet {
    let bth = Bth {
        destination: Qpn::new(0x00d4_e5f6),
        psn: Psn::new(0x00a1_b2c3),
        ack_request: true,
        ..Bth::default()
    };
    Packet { bth, operation }
}

fn aeth(syndrome: Syndrome) -> Aeth {
    Aeth { syndrome, msn: Msn::new(7) }
}

/// One packet of every opcode.
fn every_opcode() -> Vec<Packet> {
    let reth = Reth { address: 0x7f00_1234_5000, r_key: 0xacfe, length: 9 };
    let ack = aeth(Syndrome::Ack(Credits::UNLIMITED));
    let atomic = AtomicEth { address: 8, r_key: 1, swap_or_add: 2, compare: 3 };
    let deth = Deth { q_key: 0x1234_5678, source: Qpn::new(9) };
    let mut operations = Vec::new();
    for service in [Service::Rc, Service::Uc] {
        for tail in [Tail::Nothing, Tail::Immediate(5), Tail::Invalidate(6)] {
            if service == Service::Rc || !matches!(tail, Tail::Invalidate(_)) {
                let fragments = [SendFragment::Last(tail), SendFragment::Only(tail)];
                operations.extend(fragments.map(|fragment| Operation::Send { service, fragment }));
            }
        }
        let fragments = [SendFragment::First, SendFragment::Middle];
        operations.extend(fragments.map(|fragment| Operation::Send { service, fragment }));
        let fragments = [
            WriteFragment::First(reth),
            WriteFragment::Middle,
            WriteFragment::Last(None),
            WriteFragment::Last(Some(5)),
            WriteFragment::Only(reth, None),
            WriteFragment::Only(reth, Some(5)),
        ];
        operations.extend(fragments.map(|fragment| Operation::Write { service, fragment }));
    }
    operations.extend([
        Operation::ReadRequest(reth),
        Operation::ReadResponse(ReadFragment::First(ack)),
        Operation::ReadResponse(ReadFragment::Middle),
        Operation::ReadResponse(ReadFragment::Last(ack)),
        Operation::ReadResponse(ReadFragment::Only(ack)),
        Operation::Acknowledge(ack),
        Operation::AtomicAcknowledge { aeth: ack, original: u64::MAX - 1 },
        Operation::CompareSwap(atomic),
        Operation::FetchAdd(atomic),
        Operation::Datagram { deth, immediate: None },
        Operation::Datagram { deth, immediate: Some(5) },
        Operation::Cnp,
    ]);
    operations.into_iter().map(sample).collect()
}

const OUTER: Outer = Outer::v4([10, 0, 0, 1], [10, 0, 0, 2], 49_152);

proptest! {
    #[test]
    fn packets_come_back(
        packet in strategies::packet(),
        outer in strategies::outer(),
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let payload = if packet.operation.carries_payload() { &payload[..] } else { &[] };
        let bytes = datagram(&outer, &packet, payload);
        let decoded = decode(&bytes, bytes.len()).unwrap();
        prop_assert_eq!(decoded.packet, packet);
        let (start, end) = (decoded.header_len, decoded.header_len + decoded.payload_len);
        prop_assert_eq!(&bytes[start..end], payload);
        prop_assert!(Icrc::verify(&outer, &bytes));
        // A prefix of MAX_HEADER bytes is enough.
        let prefix = &bytes[..bytes.len().min(MAX_HEADER)];
        prop_assert_eq!(decode(prefix, bytes.len()), Ok(decoded));
    }

    #[test]
    fn any_bytes_give_a_packet_or_an_error(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
        opcode in proptest::sample::select(every_opcode()),
        extra in 0usize..100,
    ) {
        // Half of the inputs get as far as the extension headers.
        if extra % 2 == 0 && bytes.len() >= 2 {
            bytes[0] = datagram(&OUTER, &opcode, &[])[0];
            bytes[1] &= 0xf0;
        }
        for total in [bytes.len(), bytes.len() + extra, extra] {
            if let Ok(Decoded { packet, header_len, payload_len }) = decode(&bytes, total) {
                prop_assert!(header_len + payload_len + ICRC_LEN <= total);
                let mut out = [0; MAX_HEADER];
                prop_assert_eq!(encode(&packet, payload_len, &mut out), header_len);
                let again = decode(&out[..header_len], total);
                prop_assert_eq!(again, Ok(Decoded { packet, header_len, payload_len }));
            }
        }
        let _ = Outer::parse(&bytes);
        let _ = Icrc::verify(&OUTER, &bytes);
    }

    #[test]
    fn every_changed_bit_is_found_but_those_that_routers_change(
        packet in strategies::packet(),
        payload in proptest::collection::vec(any::<u8>(), 0..64),
        at in any::<proptest::sample::Index>(),
        bit in 0u8..8,
    ) {
        let payload = if packet.operation.carries_payload() { &payload[..] } else { &[] };
        let mut bytes = datagram(&OUTER, &packet, payload);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // Only byte 4 may change: FECN, BECN and the reserved bits beside them.
        prop_assert_eq!(Icrc::verify(&OUTER, &bytes), at == 4);
    }

    #[test]
    fn headers_around_a_datagram_come_back(
        outer in strategies::outer(),
        tos in any::<u8>(),
        hops in any::<u8>(),
        content in proptest::collection::vec(any::<u8>(), 0..100),
        behind in 0usize..8,
    ) {
        let mut bytes = enclosed(&outer, tos, hops, &content);
        let length = bytes.len();
        bytes.resize(length + behind, 0);
        let parsed = Outer::parse(&bytes).unwrap();
        prop_assert_eq!((parsed.outer, parsed.datagram), (outer, &content[..]));
        prop_assert_eq!(parsed.ecn == crate::Ecn::Congested, tos & 3 == 3);
        for cut in 0..length {
            prop_assert_eq!(Outer::parse(&bytes[..cut]), Err(OuterError::TooShort));
        }
    }

    #[test]
    fn no_bytes_around_a_datagram_do_harm(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        if bytes.len() > 6 && bytes[1] & 1 == 0 {
            // Let the input pass the checks of version and protocol.
            (bytes[0], bytes[6]) = if bytes[1] & 2 == 0 { (0x45, 0x40) } else { (0x60, 17) };
            if let Some(protocol) = bytes.get_mut(9) {
                *protocol = 17;
            }
        }
        if let Ok(Enclosed { datagram, .. }) = Outer::parse(&bytes) {
            prop_assert!(datagram.len() + 28 <= bytes.len());
        }
    }
}

#[test]
fn every_cut_of_every_packet_is_refused() {
    for packet in every_opcode() {
        let bytes = datagram(&OUTER, &packet, &[]);
        for cut in 0..bytes.len() {
            let refused = decode(&bytes[..cut], cut);
            assert!(matches!(refused, Err(DecodeError::TooShort { .. })), "{packet:?} {refused:?}");
            assert!(!Icrc::verify(&OUTER, &bytes[..cut]));
        }
        // The prefix ends inside the headers although the datagram does not.
        for cut in 0..header_len(&packet) {
            let refused = decode(&bytes[..cut], bytes.len());
            assert!(matches!(refused, Err(DecodeError::TooShort { .. })), "{packet:?} {refused:?}");
        }
    }
}

#[test]
fn opcodes_are_the_specifications() {
    let codes: Vec<u8> =
        every_opcode().iter().map(|packet| datagram(&OUTER, packet, &[])[0]).collect();
    let mut expected: Vec<u8> = (0x00..=0x14).chain([0x16, 0x17]).chain(0x20..=0x2b).collect();
    expected.extend([0x64, 0x65, 0x81]);
    let mut sorted = codes.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    for code in 0..=255 {
        let mut bytes = [0; 64];
        bytes[0] = code;
        match decode(&bytes, bytes.len()) {
            Err(DecodeError::UnknownOpcode(other)) => {
                assert!(other == code && !expected.contains(&code));
            }
            _ => assert!(expected.contains(&code), "{code:#x}"),
        }
    }
}

#[test]
fn fields_stand_where_the_specification_puts_them() {
    let reth = Reth { address: 0x0102_0304_0506_0708, r_key: 0x1122_3344, length: 0x0000_2001 };
    let mut packet = sample(Operation::Write {
        service: Service::Uc,
        fragment: WriteFragment::Only(reth, Some(0xdead_beef)),
    });
    packet.bth.solicited = true;
    packet.bth.becn = true;
    let mut out = [0; MAX_HEADER];
    let length = encode(&packet, 1, &mut out);
    let expected = [
        0x2b, 0xb0, 0xff, 0xff, 0x40, 0xd4, 0xe5, 0xf6, 0x80, 0xa1, 0xb2, 0xc3, // BTH
        1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x22, 0x33, 0x44, 0, 0, 0x20, 1, // RETH
        0xde, 0xad, 0xbe, 0xef, // ImmDt
    ];
    assert_eq!(out[..length], expected);
    let nak = sample(Operation::Acknowledge(aeth(Syndrome::Nak(NakCode::RemoteAccess))));
    let length = encode(&nak, 0, &mut out);
    assert_eq!(out[12..length], [0x62, 0, 0, 7]);
    let rnr = sample(Operation::Acknowledge(aeth(Syndrome::RnrNak(RnrTimer::from_code(14)))));
    let length = encode(&rnr, 0, &mut out);
    assert_eq!(out[12..length], [0x2e, 0, 0, 7]);
}

#[test]
fn bad_fields_are_named() {
    let ack = sample(Operation::Acknowledge(aeth(Syndrome::Ack(Credits::UNLIMITED))));
    let good = datagram(&OUTER, &ack, &[]);
    let mut bytes = good.clone();
    bytes[1] |= 1;
    assert_eq!(decode(&bytes, bytes.len()), Err(DecodeError::UnsupportedVersion(1)));
    let mut bytes = good.clone();
    bytes[12] = 0b0100_0000;
    let expected = DecodeError::BadField { field: "Syndrome", value: 0x40 };
    assert_eq!(decode(&bytes, bytes.len()), Err(expected));
    bytes[12] = 0x65;
    assert!(decode(&bytes, bytes.len()).is_err());
    // Payload behind an acknowledgement, and a pad count that does not fit the length.
    assert_eq!(decode(&good, good.len() + 4), Err(DecodeError::TooLong { extra: 4 }));
    let send = Operation::Send { service: Service::Rc, fragment: SendFragment::Middle };
    let bytes = datagram(&OUTER, &sample(send), &[1, 2, 3, 4, 5]);
    for length in [bytes.len() - 1, bytes.len() + 1, bytes.len() + 2] {
        let refused = decode(&bytes, length);
        assert_eq!(refused, Err(DecodeError::BadField { field: "PadCnt", value: 3 }));
    }
}

#[test]
fn credit_codes_count_in_half_doublings() {
    let counts = (0..31).map(|code| Credits::from_code(code).count().unwrap());
    let counts: Vec<u32> = counts.collect();
    assert_eq!(counts[..12], [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]);
    assert_eq!(counts[28..], [16_384, 24_576, 32_768]);
    assert_eq!(Credits::UNLIMITED.count(), None);
    for count in 0..40_000 {
        let promised = Credits::at_most(count);
        assert!(promised.count().unwrap() <= count);
        let next = Credits::from_code(promised.code() + 1);
        assert!(next.count().is_none_or(|more| more > count));
    }
}

#[test]
fn rnr_timers_are_the_specifications() {
    let us = |code| RnrTimer::from_code(code).duration().as_us();
    assert_eq!(
        [us(0), us(1), us(2), us(12), us(14), us(31)],
        [655_360, 10, 20, 640, 1_280, 491_520]
    );
    let times: Vec<u64> = (1..32).map(us).collect();
    assert!(times.is_sorted());
}

#[test]
fn syndromes_of_every_byte_come_back_or_are_refused() {
    let known = (0..=255u8).filter_map(|byte| Some((byte, Syndrome::from_byte(byte)?)));
    let mut count = 0;
    for (byte, syndrome) in known {
        assert_eq!(syndrome.to_byte(), byte & 0x7f);
        count += 1;
    }
    // 32 ACKs, 32 RNR NAKs and 5 NAKs, each with the reserved bit clear and set.
    assert_eq!(count, 2 * (32 + 32 + 5));
}

/// Wherever the bytes that are put together with the headers end, the CRC is the same.
#[test]
fn icrc_of_headers_with_payload_behind_them_is_that_of_both() {
    let send =
        Operation::Send { service: Service::Rc, fragment: SendFragment::Only(Tail::Nothing) };
    let payload: Vec<u8> = (0..400).map(|at| (at * 7) as u8).collect();
    for outer in [OUTER, Outer::v6([1; 16], [2; 16], 5)] {
        for length in 0..payload.len() {
            let bytes = datagram(&outer, &sample(send), &payload[..length]);
            let (covered, icrc) = bytes.split_last_chunk::<ICRC_LEN>().unwrap();
            assert_eq!(Icrc::new(&outer, covered, bytes.len()).finish(), *icrc, "{length} bytes");
            assert!(Icrc::verify(&outer, &bytes), "{length} bytes");
        }
    }
}

#[test]
fn the_icrc_does_not_cover_what_routers_change() {
    let send =
        Operation::Send { service: Service::Rc, fragment: SendFragment::Only(Tail::Nothing) };
    for outer in [OUTER, Outer::v6([1; 16], [2; 16], 5)] {
        let mut bytes = datagram(&outer, &sample(send), b"payload");
        bytes[4] = 0xff;
        let changed = enclosed(&outer, 0xff, 3, &bytes);
        let parsed = Outer::parse(&changed).unwrap();
        assert_eq!(parsed.ecn, crate::Ecn::Congested);
        assert!(Icrc::verify(&parsed.outer, parsed.datagram));
        // Addresses, ports and lengths, however, are covered.
        let elsewhere = Outer { source_port: outer.source_port + 1, ..outer };
        assert!(!Icrc::verify(&elsewhere, &bytes));
        assert!(!Icrc::verify(&Outer::v4([10, 0, 0, 1], [10, 0, 0, 3], 49_152), &bytes));
        bytes.extend([0, 0, 0, 0]);
        assert!(!Icrc::verify(&outer, &bytes));
    }
}

#[test]
fn packet_that_is_not_udp_is_refused_by_name() {
    let good = enclosed(&OUTER, 0, 64, b"content");
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Outer::parse(&bytes).map(|_| ())
    };
    assert_eq!(with(0, 0x46), Err(OuterError::NotUdp(0)));
    assert_eq!(with(0, 0x55), Err(OuterError::Version(5)));
    assert_eq!(with(9, 6), Err(OuterError::NotUdp(6)));
    assert_eq!(with(6, 0x20), Err(OuterError::Fragment));
    assert_eq!(with(7, 1), Err(OuterError::Fragment));
    assert_eq!(with(3, 10), Err(OuterError::Length));
    assert_eq!(with(25, 14), Err(OuterError::Length));
    assert_eq!(with(3, 200), Err(OuterError::TooShort));
}

proptest! {
    #[test]
    fn the_identification_is_found_from_the_icrc(
        packet in strategies::packet(),
        payload in proptest::collection::vec(any::<u8>(), 0..5000),
        identification in any::<u16>(),
        at in any::<proptest::sample::Index>(),
    ) {
        let payload = if packet.operation.carries_payload() { &payload[..] } else { &[] };
        let v4 = |identification| {
            let (source, destination) = ([10, 0, 0, 1], [10, 0, 0, 2]);
            let network = Network::V4 { source, destination, identification, fragment: 0x4000 };
            Outer { network, ..OUTER }
        };
        let mut bytes = datagram(&v4(identification), &packet, payload);
        prop_assert_eq!(Icrc::identification(&v4(7), &bytes), Some(identification));
        prop_assert_eq!(Icrc::identification(&Outer::v6([1; 16], [2; 16], 5), &bytes), None);
        // A changed bit is always detected: most leave no identification that would fit.
        let at = at.index(bytes.len());
        bytes[at] ^= 1;
        let found = Icrc::identification(&v4(7), &bytes);
        prop_assert_eq!(found == Some(identification), at == 4);
    }
}
