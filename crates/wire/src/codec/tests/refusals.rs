//! Each error has a datagram that causes it.

use super::*;

fn continuation() -> Vec<u8> {
    encoded(&Route::default(), &Packet::Data(sample_data(Operation::Continuation)), 0)
}

/// Decodes `bytes` after setting byte `at` to `value` and recomputing the check.
fn with(bytes: &[u8], at: usize, value: u8) -> Result<Decoded, DecodeError> {
    let mut changed = bytes.to_vec();
    changed[at] = value;
    let changed = resealed(changed, 0);
    decode(&changed, changed.len())
}

fn bad(field: &'static str, value: u32) -> Result<Decoded, DecodeError> {
    Err(DecodeError::BadField { field, value })
}

fn unsupported(what: Unsupported) -> Result<Decoded, DecodeError> {
    Err(DecodeError::NotSupported(what))
}

#[test]
fn every_cut_is_too_short() {
    let access = sample_access();
    let bytes =
        encoded(&Route::default(), &Packet::Data(sample_data(Operation::Write { access })), 9);
    for len in 0..bytes.len() {
        let answer = decode(&bytes[..len], bytes.len() + 9);
        assert!(matches!(answer, Err(DecodeError::TooShort { available, .. }) if available == len));
        let answer = decode(&bytes, len);
        assert!(matches!(answer, Err(DecodeError::TooShort { available, .. }) if available == len));
    }
}

#[test]
fn next_layers() {
    let bytes = continuation();
    assert_eq!(with(&bytes, 14, 0b001 << 1), Err(DecodeError::UnknownTaOpcode(0x81)));
    assert_eq!(with(&bytes, 14, 0), Err(DecodeError::UnknownNextLayer(0)));
    assert_eq!(with(&bytes, 14, 0b100 << 1), Err(DecodeError::UnknownNextLayer(4)));
    assert_eq!(with(&bytes, 4, 0x40), bad("RT", 1));
}

#[test]
fn transport_headers() {
    let bytes = continuation();
    assert_eq!(with(&bytes, 17, 0x40), Err(DecodeError::UnsupportedVersion(1)));
    assert_eq!(with(&bytes, 17, 0x10), bad("Padding", 1));
    assert_eq!(with(&bytes, 17, 0x01), unsupported(Unsupported::TransportExtension(1)));
    assert_eq!(with(&bytes, 17, 0x03), unsupported(Unsupported::TransportExtension(3)));
    assert_eq!(with(&bytes, 17, 0x0f), bad("RTPH NLP", 15));
    assert_eq!(with(&bytes, 16, 0x00), bad("TPOpcode", 0));
    assert_eq!(with(&bytes, 16, 0x05), unsupported(Unsupported::TpOpcode(5)));
    assert_eq!(with(&bytes, 16, 0x08), unsupported(Unsupported::TpOpcode(8)));
    assert_eq!(with(&bytes, 16, 0x7f), Err(DecodeError::UnknownTpOpcode(0x7f)));
}

#[test]
fn transaction_headers() {
    let bytes = continuation();
    for opcode in [0x05, 0x10, 0x14, 0x15, 0x17, 0x18] {
        assert_eq!(with(&bytes, 32, opcode), unsupported(Unsupported::TaOpcode(opcode)));
    }
    for opcode in [0x40, 0x41, 0x42, 0x43] {
        assert_eq!(with(&bytes, 32, opcode), bad("TAOpcode", u32::from(opcode)));
    }
    for opcode in [0x02, 0x16, 0x19, 0x1f, 0x24, 0x44, 0xff] {
        assert_eq!(with(&bytes, 32, opcode), Err(DecodeError::UnknownTaOpcode(opcode)));
    }
    assert_eq!(with(&bytes, 33, 0x50), Err(DecodeError::UnsupportedVersion(1)));
    assert_eq!(with(&bytes, 33, 0x14), bad("Poison", 1));
    assert_eq!(with(&bytes, 33, 0x18), bad("TV_EN", 1));
    assert_eq!(with(&bytes, 36, 0x08), bad("MT_EN", 1));
    assert_eq!(with(&bytes, 36, 0x20), bad("ODR", 2));
    assert_eq!(with(&bytes, 37, 0x04), bad("service mode", 0));
    let send = Operation::Send { target: sample_target(), length: 1 };
    let send = encoded(&Route::default(), &Packet::Data(sample_data(send)), 0);
    assert_eq!(with(&send, 37, 0x06), bad("L", 1));
    assert_eq!(with(&send, 36, 0x00), bad("MT_EN", 0));
    assert_eq!(with(&send, 33, 0x10), bad("TV_EN", 0));
}

#[test]
fn orders() {
    let order = Order { mode: ServiceMode::Rot, tag: Tag::So, sequence: 9, ..Order::NONE };
    let read = Operation::Read { access: sample_access() };
    let ordered = Packet::Data(Data { order, ..sample_data(read) });
    let ordered = encoded(&Route::default(), &ordered, 0);
    assert_eq!(with(&ordered, 37, 0x0b), bad("service mode", 3));
    // X where no extension is needed, and no X where one is.
    assert_eq!(with(&ordered, 37, 0x0a), bad("X", 1));
    let plain = encoded(&Route::default(), &Packet::Data(sample_data(read)), 0);
    assert_eq!(with(&plain, 37, 0x00), bad("X", 0));
    assert_eq!(with(&plain, 37, 0x01), bad("X", 0));
    assert_eq!(with(&plain, 37, 0x03), bad("service mode", 3));
    assert_eq!(with(&plain, 36, 0x40), bad("X", 0));
    // A continuation packet cannot request an order, in any of the fields.
    let bytes = continuation();
    for odr in 1..8 {
        assert_eq!(with(&bytes, 36, odr << 4), bad("ODR", u32::from(odr)));
    }
    assert_eq!(with(&bytes, 37, 0x05), bad("service mode", 1));
    let mut longer = bytes;
    longer.extend([0; 4]);
    assert_eq!(with(&longer, 37, 0x0e), bad("X", 1));
    let response = Packet::Data(sample_data(Operation::AtomicResponse { value: 1 }));
    let response = encoded(&Route::default(), &response, 0);
    assert_eq!(with(&response, 37, 0x01), bad("service mode", 1));
}

#[test]
fn reserved_bytes_are_ignored() {
    let order = Order { mode: ServiceMode::Roi, ..Order::NONE };
    let read = Operation::Read { access: sample_access() };
    let ordered = Packet::Data(Data { order, ..sample_data(read) });
    let bytes = encoded(&Route::default(), &ordered, 0);
    let expected = Decoded::Packet { route: Route::default(), packet: ordered, header_len: 72 };
    for at in [38, 39, 48, 49, 51] {
        assert_eq!(with(&bytes, at, 0xff), Ok(expected), "byte {at}");
    }
}

/// An acknowledgement has at most five path reports; its count has three bits.
#[test]
fn path_reports() {
    for flags in [AckFlags::default(), AckFlags::SELECTIVE] {
        let ack = sample_ack(flags);
        let mut bytes = encoded(&Route::default(), &Packet::Ack(ack), 0);
        bytes.extend_from_slice(&[0; 28]);
        for count in [6, 7] {
            assert_eq!(with(&bytes, 39, count), bad("path reports", u32::from(count)));
        }
    }
}

#[test]
fn atomics() {
    let access = Access { length: 8, ..sample_access() };
    let (operator, operand, compare) = (AtomicOperator::Load, 0, 0);
    let load = Packet::Data(sample_data(Operation::Atomic { access, operator, operand, compare }));
    let bytes = encoded(&Route::default(), &load, 0);
    for length in [0, 1, 2, 3, 5, 7, 9, 16] {
        assert_eq!(with(&bytes, 63, length), bad("MAETAH length", u32::from(length)));
    }
    assert_eq!(with(&bytes, 62, 1), bad("MAETAH length", 0x108));
    assert_eq!(with(&bytes, 33, 0x10), bad("TV_EN", 0));
    assert_eq!(with(&bytes, 36, 0x08), bad("MT_EN", 1));
    let expected = Decoded::Packet { route: Route::default(), packet: load, header_len: 76 };
    assert_eq!(with(&bytes, 68, 0xff), Ok(expected), "a load has no operand");
}

#[test]
fn mailboxes() {
    let put = Packet::Data(sample_data(Operation::Put(Put::default())));
    let bytes = encoded(&Route::default(), &put, 0);
    let expected = Decoded::Packet { route: Route::default(), packet: put, header_len: 88 };
    for (at, value) in [(80, 0xfe), (83, 0xfe), (84, 0xf8), (85, 0xfe), (87, 0xfe)] {
        assert_eq!(with(&bytes, at, value), Ok(expected), "no epoch is named: byte {at}");
    }
    assert_eq!(with(&bytes, 33, 0x18), bad("TV_EN", 1));
    assert_eq!(with(&bytes, 36, 0x08), bad("MT_EN", 1));
    assert_eq!(with(&bytes, 37, 0x06), bad("L", 1));
}

#[test]
fn datagrams() {
    let operation = Operation::Write { access: sample_access() };
    let datagram = Datagram { number: 1, jetty: JettyId::new(3), transaction: 4, operation };
    let bytes = encoded(&Route::default(), &Packet::Datagram(datagram), 0);
    assert_eq!(with(&bytes, 16, 0x01), bad("TPOpcode", 1));
    assert_eq!(with(&bytes, 16, 0x80), bad("TPOpcode b7", 1));
    assert_eq!(with(&bytes, 17, 0x40), Err(DecodeError::UnsupportedVersion(1)));
    assert_eq!(with(&bytes, 17, 0x10), bad("Padding", 1));
    assert_eq!(with(&bytes, 17, 0x01), unsupported(Unsupported::TransportExtension(1)));
    assert_eq!(with(&bytes, 17, 0x0f), bad("UTPH NLP", 15));
    for opcode in [0x06, 0x07, 0x0f, 0x11, 0x12, 0x13, 0x20, 0x21, 0x22, 0x23, 0x40] {
        assert_eq!(with(&bytes, 32, opcode), bad("TAOpcode", u32::from(opcode)));
    }
    assert_eq!(with(&bytes, 32, 0x05), unsupported(Unsupported::TaOpcode(5)));
    assert_eq!(with(&bytes, 32, 0x02), Err(DecodeError::UnknownTaOpcode(2)));
    assert_eq!(with(&bytes, 36, 0x10), bad("ODR", 1));
    for mode in [0, 1, 2] {
        assert_eq!(with(&bytes, 37, mode), bad("service mode", u32::from(mode)));
    }
    assert_eq!(with(&bytes, 37, 0x0b), bad("X", 1));
    // A datagram cannot be a continuation packet, neither with TV_EN nor without.
    assert_eq!(with(&bytes, 37, 0x07), bad("L", 1));
    let mut continued = bytes.clone();
    continued[33] = 0x10;
    assert_eq!(with(&continued, 37, 0x07), bad("L", 1));
}

#[test]
fn loads_and_stores() {
    let access = Access { length: 16, ..sample_access() };
    let bypass = |operation| {
        let packet = Bypass { number: 1, oldest: 1, jetty: JettyId::new(2), operation };
        Packet::Bypass(packet)
    };
    let load = encoded(&Route::default(), &bypass(BypassOperation::Load { access }), 0);
    for length in [0, 65, 255] {
        assert_eq!(with(&load, 51, length), bad("MAETAH length", u32::from(length)));
    }
    assert_eq!(with(&load, 17, 0x10), bad("TV_EN", 0));
    assert_eq!(with(&load, 17, 0x1c), bad("Poison", 1));
    assert_eq!(with(&load, 17, 0x58), Err(DecodeError::UnsupportedVersion(1)));
    assert_eq!(with(&load, 16, 0x06), bad("TAOpcode", 6));
    assert_eq!(with(&load, 16, 0x44), Err(DecodeError::UnknownTaOpcode(0x44)));
    let payload_behind = |bytes: &[u8], payload_len| {
        decode(&resealed(bytes.to_vec(), payload_len), bytes.len() + payload_len)
    };
    assert_eq!(payload_behind(&load, 1), Err(DecodeError::TooLong { extra: 1 }));
    let store = encoded(&Route::default(), &bypass(BypassOperation::Store { access }), 16);
    assert_eq!(payload_behind(&store, 15), bad("MAETAH length", 16));
    assert_eq!(payload_behind(&store, 17), Err(DecodeError::TooLong { extra: 1 }));
    let answer = BypassOperation::LoadResponse { refusal: None };
    let answer = encoded(&Route::default(), &bypass(answer), 64);
    assert!(payload_behind(&answer, 64).is_ok());
    assert_eq!(payload_behind(&answer, 65), Err(DecodeError::TooLong { extra: 1 }));
    let done = BypassOperation::StoreDone { refusal: None };
    let done = encoded(&Route::default(), &bypass(done), 0);
    assert_eq!(with(&done, 20, 3 << 5 | 10), bad("RSPINFO", 10));
    assert_eq!(with(&done, 20, 5 << 5), bad("RSPST", 5));
    assert_eq!(payload_behind(&done, 4), Err(DecodeError::TooLong { extra: 4 }));
}

#[test]
fn acknowledgements() {
    let ack = Packet::Ack(sample_ack(AckFlags::none()));
    let bytes = encoded(&Route::default(), &ack, 0);
    assert_eq!(with(&bytes, 28, 0), bad("RSPST", 0));
    assert_eq!(with(&bytes, 16, 0x83), bad("TPOpcode b7", 1));
    let selective = Packet::Ack(sample_ack(AckFlags::SELECTIVE));
    let bytes = encoded(&Route::default(), &selective, 0);
    for code in [3, 4, 255] {
        assert_eq!(with(&bytes, 44, code), bad("BitMapSize", u32::from(code)));
    }
}

#[test]
fn shorter_bitmaps_are_read_and_filled_with_zeros() {
    for (code, words) in [(0, 2), (1, 4)] {
        let mut ack = sample_ack(AckFlags::SELECTIVE);
        ack.sack.bitmap = [u32::MAX; 8];
        let mut bytes = encoded(&Route::default(), &Packet::Ack(ack), 0);
        bytes[44] = code;
        bytes.truncate(52 + 4 * words);
        let bytes = resealed(bytes, 0);
        ack.sack.bitmap[words..].fill(0);
        let expected = Packet::Ack(ack);
        let route = Route::default();
        let header_len = bytes.len();
        let expected = Decoded::Packet { route, packet: expected, header_len };
        assert_eq!(decode(&bytes, header_len), Ok(expected));
    }
}

#[test]
fn refusals_of_refusals() {
    let reason = Refusal::Access;
    let nak = Nak { psn: Psn::new(1), message: Msn::new(1), reason, retry_after_us: 0 };
    let bytes = encoded(&Route::default(), &Packet::Nak(nak), 0);
    assert_eq!(with(&bytes, 28, 3 << 5 | 10), bad("RSPINFO", 10));
    assert_eq!(with(&bytes, 28, 1 << 5 | 4), bad("RSPINFO", 4));
    assert_eq!(with(&bytes, 28, 0), bad("RSPST", 0));
}

#[test]
fn payload_behind_a_packet_without_any() {
    let bytes = encoded(
        &Route::default(),
        &Packet::Close(Close { next: Psn::new(0x0a0b0c), answer: false }),
        0,
    );
    let bytes = resealed(bytes, 3);
    assert_eq!(decode(&bytes, bytes.len() + 3), Err(DecodeError::TooLong { extra: 3 }));
}

fn hello() -> Setup {
    let client = Endpoint {
        tpn: Tpn::new(17),
        initial_psn: Psn::new(1000),
        ports: Ports::new(&[4000, 4001]).expect("legal ports"),
    };
    let requested = Parameters {
        mtu_bytes: 1408,
        paths: 4,
        window_packets: 4096,
        message_slots: 64,
        read_slots: 16,
        keep_alive_ms: 100,
        channels: 1,
        capabilities: 0,
    };
    let versions = Versions::new(1, 1).expect("a legal range");
    let message = SetupMessage::Hello(Hello { versions, nonce: 5, client, requested, joins: None });
    Setup { source: Cna::new(0xc1), destination: Cna::new(0), message }
}

/// Decodes `setup` after setting byte `at` to `value` and recomputing the check.
fn setup_with(setup: &Setup, at: usize, value: u8) -> Result<Decoded, DecodeError> {
    let mut out = [0; SETUP_LEN];
    encode_setup(setup, &mut out);
    out[at] = value;
    let check = crate::check::header_check(SETUP_VERSION, &out[4..], 0);
    out[..4].copy_from_slice(&check.to_be_bytes());
    decode(&out, out.len())
}

#[test]
fn setup_messages() {
    let hello = hello();
    assert_eq!(setup_with(&hello, 14, 0b111 << 1), bad("mgmt", 0));
    assert_eq!(setup_with(&hello, 16, 0), Err(DecodeError::UnknownSetup(0)));
    assert_eq!(setup_with(&hello, 16, 6), Err(DecodeError::UnknownSetup(6)));
    assert_eq!(setup_with(&hello, 17, 2), bad("versions", 0x201));
    assert_eq!(setup_with(&hello, 19, 0), bad("ports", 0));
    assert_eq!(setup_with(&hello, 19, 3), bad("ports", 3));
    assert_eq!(setup_with(&hello, 19, 17), bad("ports", 17));
    assert_eq!(setup_with(&hello, 39, 0), bad("paths", 0));
    assert_eq!(setup_with(&hello, 16, 2), Err(DecodeError::UnsupportedVersion(0)));
    assert_eq!(setup_with(&hello, 16, 5), bad("reject reason", 0));
    let mut out = [0; SETUP_LEN];
    encode_setup(&hello, &mut out);
    assert_eq!(decode(&out, 9000), Ok(Decoded::Setup(hello)), "a HELLO may be padded");
    let offer = SetupMessage::Welcome(Welcome {
        version: PROTOCOL_VERSION,
        nonce: 5,
        cookie: [7; 16],
        offer: match hello.message {
            SetupMessage::Hello(hello) => hello.requested,
            _ => unreachable!("it is a HELLO"),
        },
    });
    let offer = Setup { message: offer, ..hello };
    let mut welcome = [0; SETUP_LEN];
    encode_setup(&offer, &mut welcome);
    assert_eq!(decode(&welcome, 9000), Ok(Decoded::Setup(offer)), "and an offer, likewise");
    let message = SetupMessage::Reject(Reject {
        versions: Versions::new(1, 1).expect("a legal range"),
        nonce: 5,
        reason: RejectReason::Refused,
    });
    let mut answer = [0; SETUP_LEN];
    encode_setup(&Setup { message, ..hello }, &mut answer);
    assert_eq!(
        decode(&answer, SETUP_LEN + 1),
        Err(DecodeError::TooLong { extra: 1 }),
        "an answer without an offer may not"
    );
    let short = DecodeError::TooShort { needed: SETUP_LEN, available: SETUP_LEN - 1 };
    assert_eq!(decode(&out[..SETUP_LEN - 1], SETUP_LEN), Err(short));
    out[60] ^= 1;
    assert_eq!(decode(&out, SETUP_LEN), Err(DecodeError::BadCheck));
}

#[test]
fn no_answer_is_longer_than_its_request() {
    let mut out = [0; SETUP_LEN];
    assert_eq!(encode_setup(&hello(), &mut out), SETUP_LEN);
    // The longest list of ports, the cookie and a key fit, as `setup_messages_come_back` shows, in
    // the same number of bytes.
    assert_eq!(SETUP_LEN, 192);
}
