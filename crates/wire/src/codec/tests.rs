use proptest::prelude::*;
use std::vec::Vec;

use super::*;
use crate::*;

mod plain_write;
mod refusals;
mod vectors;

fn encoded(route: &Route, packet: &Packet, payload_len: usize) -> Vec<u8> {
    let mut out = [0xa5; MAX_HEADER];
    let len = encode(route, packet, payload_len, &mut out);
    out[..len].to_vec()
}

/// The packet that fills all of `bytes`.
fn packet_in(bytes: &[u8]) -> Packet {
    match decode(bytes, bytes.len()) {
        Ok(Decoded::Packet { packet, header_len, .. }) if header_len == bytes.len() => packet,
        other => panic!("{other:?}"),
    }
}

/// The changed `header` with a recomputed check, as a sender that has the key would send it.
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
        carried: None,
        order: Order::NONE,
        operation,
    }
}

fn sample_target() -> Target {
    Target { jetty: JettyId::new(0x42), token_value: 0x00c0_ffee, hint: 5 }
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
        start_known: Msn::new(3),
        echo_delay: 12,
        window: 4096,
        marks: 1,
        duplicates: 2,
        cci: Cci::NONE,
        flags,
        sack: Sack::default(),
        paths: PathReports::NONE,
    }
}

/// The length nearest to `wanted` that the payload of `packet` may have.
fn payload_for(packet: &Packet, wanted: usize) -> usize {
    match packet {
        Packet::Bypass(Bypass { operation: BypassOperation::Store { access }, .. }) => {
            access.length as usize
        }
        _ if !super::encode::carries_payload(packet) => 0,
        Packet::Bypass(_) => wanted.min(BYPASS_BYTES as usize),
        _ => wanted,
    }
}

/// The route that a decoder returns: the source channel of a load, a store or its answer is not on
/// the wire.
fn decoded_route(route: Route, packet: &Packet) -> Route {
    match packet {
        Packet::Bypass(_) => Route { source_tpn: Tpn::new(0), ..route },
        _ => route,
    }
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
        let route = decoded_route(route, &packet);
        let expected = Ok(Decoded::Packet { route, packet, header_len: bytes.len() });
        prop_assert_eq!(decode(&bytes, bytes.len() + payload_len), expected);
        // Payload bytes behind the headers make no difference.
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + payload_len.min(60), 0x5a);
        prop_assert_eq!(decode(&longer, bytes.len() + payload_len), expected);
    }

    #[test]
    fn filled_packets_come_back(
        route in strategies::route(),
        packet in strategies::packet(),
        payload in 0usize..9000,
        zeros in 0usize..200,
    ) {
        let payload_len = payload_for(&packet, payload);
        let mut datagram = encoded(&route, &packet, payload_len);
        let header_len = datagram.len();
        let length = header_len + payload_len;
        let route = decoded_route(route, &packet);
        let expected = Ok((Decoded::Packet { route, packet, header_len }, length));
        let decoded = |datagram: &[u8]| decode_filled(datagram, |_| Some(&CheckKey::PUBLIC));
        datagram.resize(length, 0x5a);
        prop_assert_eq!(decoded(&datagram), expected);
        datagram.resize(length + zeros, 0);
        datagram.extend(fill_end(length));
        prop_assert_eq!(decoded(&datagram), expected);
        // An end that tells another length proves nothing.
        datagram.truncate(length + zeros);
        datagram.extend(fill_end(length - 1));
        prop_assert!(decoded(&datagram).is_err());
    }

    #[test]
    fn setup_messages_come_back(setup in strategies::setup()) {
        let mut out = [0xa5; SETUP_LEN];
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
        let payload_len = payload_for(&packet, 0);
        let bytes = encoded(&Route::default(), &packet, payload_len);
        let mut damaged = bytes.clone();
        for bit in bits {
            let bit = usize::from(bit) % (8 * bytes.len());
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
        // Switches may write CCI, so the check leaves it out.
        damaged[CCI].fill(0);
        damaged.truncate(bytes.len() - cut);
        let answer = decode(&damaged, damaged.len() + payload_len);
        prop_assert!(answer.is_err() || damaged == bytes);
        demand_sound(&damaged, damaged.len() + payload_len);
    }

    #[test]
    fn every_prefix_is_too_short(packet in strategies::packet(), payload in 0usize..100) {
        let payload_len = payload_for(&packet, payload);
        let bytes = encoded(&Route::default(), &packet, payload_len);
        for len in 0..bytes.len() {
            for answer in [decode(&bytes[..len], bytes.len() + payload_len), decode(&bytes, len)] {
                let short = matches!(
                    answer,
                    Err(DecodeError::TooShort { needed, available })
                        if available == len && needed > len && needed <= SETUP_LEN
                );
                prop_assert!(short, "{:?} of {} bytes", answer, len);
            }
        }
    }
}

/// Asserts that whatever `decode` returns can be encoded again.
fn demand_sound(bytes: &[u8], datagram_len: usize) {
    match decode(bytes, datagram_len) {
        Err(_) => {}
        Ok(Decoded::Setup(setup)) => {
            let mut out = [0; SETUP_LEN];
            encode_setup(&setup, &mut out);
            assert_eq!(decode(&out, SETUP_LEN), Ok(Decoded::Setup(setup)));
        }
        Ok(Decoded::Packet { route, packet, header_len: len }) => {
            assert!(len <= bytes.len() && len <= datagram_len);
            // A shorter bitmap is the only content that the codec decodes and never encodes.
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
    let bytes = encoded(
        &Route::default(),
        &Packet::Close(Close { next: Psn::new(0x0a0b0c), answer: false }),
        0,
    );
    assert_eq!(bytes[4 + 10], 0b010 << 1);
    assert_eq!(bytes[4 + 10] & 1, 0, "mgmt belongs to set-up messages");
}

#[test]
fn d3_last_bit_is_sent() {
    for last in [false, true] {
        let data = Data { last, ..sample_data(Operation::Continuation) };
        let bytes = encoded(&Route::default(), &Packet::Data(data), 0);
        assert_eq!(bytes[16], if last { 0x81 } else { 0x01 });
    }
}

#[test]
fn switches_may_write_cci_without_a_new_check() {
    let packet = Packet::Ack(sample_ack(AckFlags::none()));
    let mut bytes = encoded(&Route::default(), &packet, 0);
    for cci in [0x40ff, 0x8003, 0x00a0, 0x3f00] {
        bytes[11..13].copy_from_slice(&u16::to_be_bytes(cci));
        let route = Route { cci: Cci::from_bits(cci), ..Route::default() };
        let expected = Decoded::Packet { route, packet, header_len: 44 };
        assert_eq!(decode(&bytes, bytes.len()), Ok(expected));
    }
    bytes[10] ^= 1;
    assert_eq!(decode(&bytes, bytes.len()), Err(DecodeError::BadCheck));
}

#[test]
fn d4_f_bit_is_not_a_congestion_mark() {
    let marked = Ack { marks: 255, cci: Cci::congested(255), ..sample_ack(AckFlags::none()) };
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
    let value = 17;
    let operations =
        [(Operation::ReadResponse, 48, 512), (Operation::AtomicResponse { value }, 56, 0)];
    for (operation, len, payload_len) in operations {
        let response = Packet::Data(Data { retry: true, ..sample_data(operation) });
        let bytes = encoded(&Route::default(), &response, payload_len);
        assert_eq!(bytes.len(), len, "neither MTETAH nor an order extension behind ATAH");
        assert_eq!(bytes[36], 0, "ATAH byte 4 is the status, and OK is zero");
        assert_eq!(bytes[37], 0x0a, "X of BTAH is Retry of ATAH");
        let mut failed = bytes.clone();
        failed[36] = 3 << 5;
        let failed = resealed(failed, payload_len);
        let error = DecodeError::BadField { field: "ATAH RSPST", value: 3 << 5 };
        assert_eq!(decode(&failed, len + payload_len), Err(error));
    }
    // Every status, whose bits are those of ODR and MT_EN in BTAH, is decoded as a status.
    for (status, refusal) in [
        (0, None),
        (0x20, Some(Refusal::ReceiverNotReady)),
        (0x21, Some(Refusal::OutOfOrder)),
        (0x61, Some(Refusal::Access)),
        (0x66, Some(Refusal::Misaligned)),
        (0x67, Some(Refusal::Resources)),
        (0x68, Some(Refusal::NoMailbox)),
        (0x69, Some(Refusal::Epoch)),
    ] {
        let done =
            sample_data(Operation::Done { refusal, retry_after_us: 9, others: Executed::NONE });
        let bytes = encoded(&Route::default(), &Packet::Data(done), 0);
        assert_eq!(bytes[36], status);
        assert_eq!(packet_in(&bytes), Packet::Data(done));
    }
}

#[test]
fn an_acknowledgement_of_several_transactions_is_checked() {
    let mut others = Executed::NONE;
    while others.push(9, 0x1234) {}
    assert_eq!(others.iter().count(), EXECUTED_MAX);
    let done = sample_data(Operation::Done { refusal: None, retry_after_us: 0, others });
    let bytes = encoded(&Route::default(), &Packet::Data(done), 0);
    assert_eq!(packet_in(&bytes), Packet::Data(done));
    let changed = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        resealed(bytes, 0)
    };
    let bad = |value| Err(DecodeError::BadField { field: "TAACK count", value });
    assert_eq!(decode(&changed(50, 11), bytes.len()), bad(11));
    assert_eq!(decode(&changed(50, 255), bytes.len()), bad(255));
    // A refusal stays alone.
    assert_eq!(decode(&changed(36, 0x61), bytes.len()), bad(10));
    // A count that does not fit the datagram.
    for len in 48..bytes.len() {
        assert!(decode(&bytes[..len], len).is_err(), "{len} bytes");
    }
}

#[test]
fn d6_swap_and_compare_are_64_bits_and_apart_from_the_token() {
    let access = Access { length: 8, token_value: 0x0bad_cafe, ..sample_access() };
    let (operand, compare) = (0x8000_0000_0000_0001, 0x7fff_ffff_ffff_fffe);
    let operator = AtomicOperator::CompareSwap;
    let swap = sample_data(Operation::Atomic { access, operator, operand, compare });
    let bytes = encoded(&Route::default(), &Packet::Data(swap), 0);
    assert_eq!(bytes[64..68], [0x0b, 0xad, 0xca, 0xfe]);
    assert_eq!(bytes[68..76], operand.to_be_bytes());
    assert_eq!(bytes[76..84], compare.to_be_bytes());
    assert_eq!(packet_in(&bytes), Packet::Data(swap));
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
fn d21_an_atomic_response_carries_its_value() {
    let value = 0xfedc_ba98_7654_3210;
    let response = sample_data(Operation::AtomicResponse { value });
    let bytes = encoded(&Route::default(), &Packet::Data(response), 0);
    assert_eq!(bytes.len(), 56);
    assert_eq!(bytes[48..56], [0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10]);
    assert_eq!(packet_in(&bytes), Packet::Data(response));
}

#[test]
fn d27_a_load_or_store_carries_address_length_and_token() {
    let access = Access { length: 64, ..sample_access() };
    for operation in [BypassOperation::Load { access }, BypassOperation::Store { access }] {
        let bypass = Bypass { number: 1, oldest: 1, jetty: JettyId::new(2), operation };
        let packet = Packet::Bypass(bypass);
        let bytes = encoded(&Route::default(), &packet, payload_for(&packet, 0));
        assert_eq!(bytes.len(), 56);
        assert_eq!(bytes[36..44], 0x7f00_1234_5000_u64.to_be_bytes());
        assert_eq!(bytes[44..52], [0, 0x0a, 0xbc, 0xde, 0, 0, 0, 64]);
        assert_eq!(bytes[52..56], [0, 0, 0xac, 0xfe]);
    }
}

#[test]
fn d28_payload_length_is_exact() {
    for payload_len in [0, 1, 5, 6, 7, 59, 60, 64] {
        let packet = Packet::Data(sample_data(Operation::Continuation));
        let bytes = encoded(&Route::default(), &packet, payload_len);
        let decoded = decode(&bytes, 48 + payload_len);
        assert!(matches!(decoded, Ok(Decoded::Packet { header_len: 48, .. })));
        // Padding that a link adds, or a cut, is detected and not taken as payload.
        assert_eq!(decode(&bytes, 48 + payload_len + 6), Err(DecodeError::BadCheck));
        if payload_len > 0 {
            assert_eq!(decode(&bytes, 48 + payload_len - 1), Err(DecodeError::BadCheck));
        }
    }
}

#[test]
fn header_lengths_are_as_documented() {
    let (access, target, immediate) = (sample_access(), sample_target(), 5);
    let (length, mailbox, sequence) = (100, 1, 2);
    let of = |operation| header_len(&Packet::Data(sample_data(operation)));
    let atomic = |operator| {
        of(Operation::Atomic {
            access: Access { length: 8, ..access },
            operator,
            operand: 1,
            compare: 0,
        })
    };
    assert_eq!(of(Operation::Continuation), 48);
    assert_eq!(of(Operation::ReadResponse), 48);
    assert_eq!(of(Operation::Abandon), 48);
    assert_eq!(
        of(Operation::Done { refusal: None, retry_after_us: 0, others: Executed::NONE }),
        52
    );
    let mut others = Executed::NONE;
    while others.push(1, 2) {}
    assert_eq!(of(Operation::Done { refusal: None, retry_after_us: 0, others }), 92);
    assert_eq!(of(Operation::AtomicResponse { value: 0 }), 56);
    assert_eq!(of(Operation::Send { target, length }), 60);
    assert_eq!(of(Operation::AbandonPut { mailbox, sequence }), 60);
    assert_eq!(of(Operation::SendImmediate { target, length, immediate }), 68);
    assert_eq!(of(Operation::Write { access }), 68);
    assert_eq!(of(Operation::Read { access }), 68);
    assert_eq!(atomic(AtomicOperator::Swap), 76);
    assert_eq!(of(Operation::WritePart(Part::default())), 76);
    assert_eq!(of(Operation::ReadPart(Part::default())), 76);
    assert_eq!(of(Operation::Get(Get::default())), 80);
    assert_eq!(atomic(AtomicOperator::CompareSwap), 84);
    assert_eq!(of(Operation::WriteImmediate { access, target, immediate }), 84);
    assert_eq!(of(Operation::Put(Put::default())), 88);
    assert_eq!(of(Operation::Write { access }) - of(Operation::Continuation), 20);
}

#[test]
fn only_order_by_an_end_and_completion_in_order_add_an_extension() {
    let access = sample_access();
    for mode in [ServiceMode::Roi, ServiceMode::Rot, ServiceMode::Rol] {
        for tag in [Tag::No, Tag::Ro, Tag::So, Tag::Mo] {
            for in_order in [false, true] {
                let order = Order { mode, tag, in_order, ..Order::NONE };
                let data = Data { order, ..sample_data(Operation::Write { access }) };
                let extension = if in_order || mode != ServiceMode::Rol { 4 } else { 0 };
                assert_eq!(header_len(&Packet::Data(data)), 68 + extension);
            }
        }
    }
}

/// A packet with the check of one key is refused by every other.
#[test]
fn packet_is_decoded_only_with_the_key_of_its_channel() {
    let key = CheckKey::new(&[0x17; CheckKey::BYTES]);
    let other = CheckKey::new(&[0x18; CheckKey::BYTES]);
    let access = Access { length: 8, ..sample_access() };
    let operation = BypassOperation::Load { access };
    let bypass = Bypass { number: 7, oldest: 7, jetty: JettyId::new(3), operation };
    let operation = Operation::Send { target: sample_target(), length: 0 };
    let datagram = Datagram { number: 1, jetty: JettyId::new(3), transaction: 2, operation };
    let packets = [
        Packet::Data(sample_data(Operation::Write { access })),
        Packet::Close(Close { next: Psn::new(0x0a0b0c), answer: false }),
        Packet::Bypass(bypass),
        Packet::Datagram(datagram),
    ];
    let route = Route { destination_tpn: Tpn::new(0x0a_bcde), ..Route::default() };
    for packet in packets {
        let mut out = [0; MAX_HEADER];
        let len = encode_keyed(&key, &route, &packet, 0, &mut out);
        let with = |key| {
            decode_keyed(&out[..len], len, |channel| {
                assert_eq!(channel, route.destination_tpn);
                key
            })
        };
        let Ok(Decoded::Packet { packet: read, .. }) = with(Some(&key)) else {
            panic!("{packet:?} is not read")
        };
        assert_eq!(read, packet);
        assert_eq!(with(Some(&other)), Err(DecodeError::BadCheck));
        assert_eq!(with(Some(&CheckKey::PUBLIC)), Err(DecodeError::BadCheck));
        assert_eq!(with(None), Err(DecodeError::NoKey(route.destination_tpn)));
    }
}

#[test]
#[should_panic(expected = "room for MAX_HEADER bytes")]
fn too_small_a_buffer_is_a_callers_bug() {
    encode(
        &Route::default(),
        &Packet::Close(Close { next: Psn::new(0x0a0b0c), answer: true }),
        0,
        &mut [0; 64],
    );
}

#[test]
#[should_panic(expected = "payload behind a packet without any")]
fn payload_behind_a_read_is_a_callers_bug() {
    let read = Packet::Data(sample_data(Operation::Read { access: sample_access() }));
    encode(&Route::default(), &read, 1, &mut [0; MAX_HEADER]);
}

#[test]
#[should_panic(expected = "payload behind a packet without any")]
fn payload_behind_a_refused_load_is_a_callers_bug() {
    let operation = BypassOperation::LoadResponse { refusal: Some(Refusal::Access) };
    let bypass = Bypass { number: 0, oldest: 0, jetty: JettyId::new(0), operation };
    encode(&Route::default(), &Packet::Bypass(bypass), 1, &mut [0; MAX_HEADER]);
}

#[test]
#[should_panic(expected = "a load or store of a wrong length")]
fn a_store_of_another_length_than_its_payloads_is_a_callers_bug() {
    let operation = BypassOperation::Store { access: Access { length: 8, ..sample_access() } };
    let bypass = Bypass { number: 0, oldest: 0, jetty: JettyId::new(0), operation };
    encode(&Route::default(), &Packet::Bypass(bypass), 7, &mut [0; MAX_HEADER]);
}

#[test]
#[should_panic(expected = "neither 4 nor 8 bytes")]
fn an_atomic_on_a_long_word_is_a_callers_bug() {
    let (access, operator) = (sample_access(), AtomicOperator::Add);
    let add = sample_data(Operation::Atomic { access, operator, operand: 1, compare: 0 });
    encode(&Route::default(), &Packet::Data(add), 0, &mut [0; MAX_HEADER]);
}

#[test]
#[should_panic(expected = "an operation that no datagram carries")]
fn a_read_in_a_datagram_is_a_callers_bug() {
    let operation = Operation::Read { access: sample_access() };
    let datagram = Datagram { number: 1, jetty: JettyId::new(1), transaction: 2, operation };
    encode(&Route::default(), &Packet::Datagram(datagram), 0, &mut [0; MAX_HEADER]);
}
