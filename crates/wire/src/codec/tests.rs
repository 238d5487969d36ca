use proptest::prelude::*;
use std::vec::Vec;

use super::*;
use crate::*;

mod refusals;
mod vectors;

fn encoded(route: &Route, packet: &Packet, payload_len: usize) -> Vec<u8> {
    let mut out = [0xa5; MAX_HEADER];
    let len = encode(route, packet, payload_len, &mut out);
    out[..len].to_vec()
}

/// What `header` becomes when somebody who knows the check changes it.
fn resealed(mut header: Vec<u8>, payload_len: usize) -> Vec<u8> {
    let check = crate::check::header_check(PROTOCOL_VERSION, &header[4..], payload_len);
    header[..4].copy_from_slice(&check.to_be_bytes());
    header
}

fn sample_data(operation: Operation) -> Data {
    Data {
        psn: Psn::new(0x00a1_b2c3),
        message: Msn::new(0x00d4_e5f6),
        index: 0,
        jetty: JettyId::new(0x12345),
        transaction: 0x6789,
        slot: 7,
        ack_request: true,
        retry: false,
        last: true,
        operation,
    }
}

fn sample_access() -> Access {
    Access {
        address: 0x7f00_1234_5000,
        length: 65_536,
        token_id: TokenId::new(0xabcde),
        token_value: 0xacfe,
    }
}

fn sample_ack(flags: AckFlags) -> Ack {
    Ack {
        cumulative: Psn::new(99),
        echo: Psn::new(104),
        learned: Msn::new(3),
        echo_delay: 12,
        window: 4096,
        marks: 1,
        duplicates: 2,
        hint: 0,
        flags,
        sack: Sack::default(),
    }
}

fn payload_for(packet: &Packet, wanted: usize) -> usize {
    if super::encode::carries_payload(packet) { wanted } else { 0 }
}

proptest! {
    #[test]
    fn packets_come_back(
        route in strategies::route(),
        packet in strategies::packet(),
        payload in 0usize..65_536,
    ) {
        let payload_len = payload_for(&packet, payload);
        let bytes = encoded(&route, &packet, payload_len);
        prop_assert_eq!(bytes.len(), header_len(&packet));
        prop_assert!(bytes.len().is_multiple_of(4) && bytes.len() <= MAX_HEADER);
        let expected = Ok(Decoded::Packet { route, packet, header_len: bytes.len() });
        prop_assert_eq!(decode(&bytes, bytes.len() + payload_len), expected);
        // Payload bytes behind the headers make no difference.
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + payload_len.min(60), 0x5a);
        prop_assert_eq!(decode(&longer, bytes.len() + payload_len), expected);
    }

    #[test]
    fn setup_messages_come_back(setup in strategies::setup()) {
        let mut out = [0xa5; MAX_HEADER];
        prop_assert_eq!(encode_setup(&setup, &mut out), SETUP_LEN);
        prop_assert_eq!(decode(&out, SETUP_LEN), Ok(Decoded::Setup(setup)));
    }

    #[test]
    fn any_bytes_give_an_answer(
        bytes in proptest::collection::vec(any::<u8>(), 0..160),
        datagram_len in 0usize..70_000,
    ) {
        demand_sound(&bytes, datagram_len);
    }

    #[test]
    fn any_bytes_with_a_right_check_give_an_answer(
        packet in strategies::packet(),
        changes in proptest::collection::vec((4usize..MAX_HEADER, any::<u8>()), 1..6),
        payload in 0usize..2000,
    ) {
        let route = Route::default();
        let mut bytes = encoded(&route, &packet, payload_for(&packet, payload));
        for (at, value) in changes {
            let at = 4 + (at - 4) % (bytes.len() - 4);
            bytes[at] = value;
        }
        let bytes = resealed(bytes, payload);
        demand_sound(&bytes, bytes.len() + payload);
    }

    #[test]
    fn a_damaged_datagram_is_not_another_packet(
        packet in strategies::packet(),
        bits in proptest::collection::vec(any::<u16>(), 1..4),
        cut in 0usize..8,
    ) {
        let bytes = encoded(&Route::default(), &packet, 0);
        let mut damaged = bytes.clone();
        for bit in bits {
            let bit = usize::from(bit) % (8 * bytes.len());
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
        damaged.truncate(bytes.len() - cut);
        let answer = decode(&damaged, damaged.len());
        prop_assert!(answer.is_err() || damaged == bytes);
        demand_sound(&damaged, damaged.len());
    }
}

/// Whatever `decode` returns must survive being encoded again.
fn demand_sound(bytes: &[u8], datagram_len: usize) {
    match decode(bytes, datagram_len) {
        Err(_) => {}
        Ok(Decoded::Setup(setup)) => {
            let mut out = [0; MAX_HEADER];
            encode_setup(&setup, &mut out);
            assert_eq!(decode(&out, SETUP_LEN), Ok(Decoded::Setup(setup)));
        }
        Ok(Decoded::Packet { route, packet, header_len: len }) => {
            assert!(len <= bytes.len() && len <= datagram_len);
            // A shorter bitmap is the one thing we read and do not send.
            let selective =
                matches!(packet, Packet::Ack(ack) if ack.flags.contains(AckFlags::SELECTIVE));
            assert!(len == header_len(&packet) || selective && len < header_len(&packet));
            let payload_len = datagram_len - len;
            let again = encoded(&route, &packet, payload_len);
            let expected = Decoded::Packet { route, packet, header_len: again.len() };
            assert_eq!(decode(&again, again.len() + payload_len), Ok(expected));
        }
    }
}

#[test]
fn d2_nlp_is_in_bits_3_to_1_of_its_byte() {
    let bytes = encoded(&Route::default(), &Packet::Close(Close { answer: false }), 0);
    assert_eq!(bytes[4 + 10], 0b010 << 1);
    assert_eq!(bytes[4 + 10] & 1, 0, "mgmt belongs to set-up messages");
}

#[test]
fn d3_last_bit_is_sent() {
    for last in [false, true] {
        let data = Data { last, ..sample_data(Operation::Learned) };
        let bytes = encoded(&Route::default(), &Packet::Data(data), 0);
        assert_eq!(bytes[16], if last { 0x81 } else { 0x01 });
    }
}

#[test]
fn d4_f_bit_is_not_a_congestion_mark() {
    let marked = Ack { marks: 255, hint: 255, ..sample_ack(AckFlags::none()) };
    let bytes = encoded(&Route::default(), &Packet::Ack(marked), 0);
    assert_eq!(bytes[24] & 0x7f, 0, "A is RTPH byte 8 b7, and nothing else is set there");
    let mut with_f = encoded(&Route::default(), &Packet::Ack(sample_ack(AckFlags::none())), 0);
    with_f[24] |= 0x40;
    let with_f = resealed(with_f, 0);
    let expected = Packet::Ack(sample_ack(AckFlags::none()));
    let decoded = decode(&with_f, with_f.len());
    assert!(matches!(decoded, Ok(Decoded::Packet { packet, .. }) if packet == expected));
}

#[test]
fn d5_a_response_is_parsed_as_a_response() {
    let response = Packet::Data(Data { retry: true, ..sample_data(Operation::ReadResponse) });
    let bytes = encoded(&Route::default(), &response, 512);
    assert_eq!(bytes.len(), 48, "no MTETAH behind ATAH");
    assert_eq!(bytes[36], 0, "ATAH byte 4 is the status, and OK is zero");
    let mut failed = bytes.clone();
    failed[36] = 3 << 5;
    let failed = resealed(failed, 512);
    let error = DecodeError::BadField { field: "ATAH RSPST", value: 3 << 5 };
    assert_eq!(decode(&failed, 48 + 512), Err(error));
}

#[test]
fn d20_a_selective_acknowledgement_carries_its_bitmap() {
    let sack = Sack {
        base: Psn::new(100),
        highest: Psn::new(355),
        bitmap: [0x8000_0001, 0, 0, 0xdead_beef, 0, 0, 0, 0x8000_0000],
    };
    let ack = Ack { sack, ..sample_ack(AckFlags::SELECTIVE) };
    let bytes = encoded(&Route::default(), &Packet::Ack(ack), 0);
    assert_eq!(bytes.len(), 84);
    assert_eq!(bytes[16], 0x06);
    assert_eq!(bytes[52..56], [0x80, 0, 0, 1], "bit 31 is the word's first bit, bit 0 its last");
    assert_eq!(bytes[64..68], [0xde, 0xad, 0xbe, 0xef]);
    let decoded = decode(&bytes, bytes.len());
    assert!(matches!(decoded, Ok(Decoded::Packet { packet: Packet::Ack(got), .. }) if got == ack));
}

#[test]
fn d28_payload_length_is_exact() {
    for payload_len in [0, 1, 5, 6, 7, 59, 60, 64] {
        let packet = Packet::Data(sample_data(Operation::Learned));
        let bytes = encoded(&Route::default(), &packet, payload_len);
        let decoded = decode(&bytes, 48 + payload_len);
        assert!(matches!(decoded, Ok(Decoded::Packet { header_len: 48, .. })));
        // Padding that a link adds, or a cut, is noticed and not taken for payload.
        assert_eq!(decode(&bytes, 48 + payload_len + 6), Err(DecodeError::BadCheck));
        if payload_len > 0 {
            assert_eq!(decode(&bytes, 48 + payload_len - 1), Err(DecodeError::BadCheck));
        }
    }
}

#[test]
fn header_lengths_are_as_documented() {
    let (access, target, immediate) = (sample_access(), JettyId::new(9), 5);
    let length = 100;
    let of = |operation| header_len(&Packet::Data(sample_data(operation)));
    assert_eq!(of(Operation::Learned), 48);
    assert_eq!(of(Operation::ReadResponse), 48);
    assert_eq!(of(Operation::Send { target, length }), 56);
    assert_eq!(of(Operation::SendImmediate { target, length, immediate }), 64);
    assert_eq!(of(Operation::Write { access }), 68);
    assert_eq!(of(Operation::Read { access }), 68);
    assert_eq!(of(Operation::WriteImmediate { access, target, immediate }), 80);
    assert_eq!(of(Operation::Write { access }) - of(Operation::Learned), 20);
}

#[test]
#[should_panic(expected = "room for MAX_HEADER bytes")]
fn too_small_a_buffer_is_a_callers_bug() {
    encode(&Route::default(), &Packet::Close(Close { answer: true }), 0, &mut [0; 64]);
}

#[test]
#[should_panic(expected = "payload behind a packet without any")]
fn payload_behind_a_read_is_a_callers_bug() {
    let read = Packet::Data(sample_data(Operation::Read { access: sample_access() }));
    encode(&Route::default(), &read, 1, &mut [0; MAX_HEADER]);
}
