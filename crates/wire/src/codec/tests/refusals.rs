//! Each error has a datagram that causes it.

use super::*;

fn learned() -> Vec<u8> {
    encoded(&Route::default(), &Packet::Data(sample_data(Operation::Learned)), 0)
}

/// Decodes `bytes` after setting byte `at` to `value` and mending the check.
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
    let bytes = learned();
    assert_eq!(with(&bytes, 14, 0b011 << 1), unsupported(Unsupported::UnreliableTransport));
    assert_eq!(with(&bytes, 14, 0b001 << 1), unsupported(Unsupported::Bypass));
    assert_eq!(with(&bytes, 14, 0), Err(DecodeError::UnknownNextLayer(0)));
    assert_eq!(with(&bytes, 14, 0b100 << 1), Err(DecodeError::UnknownNextLayer(4)));
    assert_eq!(with(&bytes, 4, 0x40), bad("RT", 1));
}

#[test]
fn transport_headers() {
    let bytes = learned();
    assert_eq!(with(&bytes, 17, 0x40), Err(DecodeError::UnsupportedVersion(1)));
    assert_eq!(with(&bytes, 17, 0x10), bad("Padding", 1));
    assert_eq!(with(&bytes, 17, 0x01), unsupported(Unsupported::TransportExtension(1)));
    assert_eq!(with(&bytes, 17, 0x03), unsupported(Unsupported::TransportExtension(3)));
    assert_eq!(with(&bytes, 17, 0x0f), bad("RTPH NLP", 15));
    assert_eq!(with(&bytes, 16, 0x00), unsupported(Unsupported::UnreliableTransport));
    assert_eq!(with(&bytes, 16, 0x05), unsupported(Unsupported::TpOpcode(5)));
    assert_eq!(with(&bytes, 16, 0x08), unsupported(Unsupported::TpOpcode(8)));
    assert_eq!(with(&bytes, 16, 0x7f), Err(DecodeError::UnknownTpOpcode(0x7f)));
}

#[test]
fn transaction_headers() {
    let bytes = learned();
    for opcode in [0x05, 0x07, 0x0f, 0x10, 0x11, 0x13, 0x14, 0x15, 0x17, 0x18, 0x40, 0x43] {
        assert_eq!(with(&bytes, 32, opcode), unsupported(Unsupported::TaOpcode(opcode)));
    }
    for opcode in [0x02, 0x16, 0x19, 0x44, 0xff] {
        assert_eq!(with(&bytes, 32, opcode), Err(DecodeError::UnknownTaOpcode(opcode)));
    }
    assert_eq!(with(&bytes, 33, 0x50), Err(DecodeError::UnsupportedVersion(1)));
    assert_eq!(with(&bytes, 33, 0x14), bad("Poison", 1));
    assert_eq!(with(&bytes, 33, 0x18), bad("TV_EN", 1));
    assert_eq!(with(&bytes, 36, 0x08), bad("MT_EN", 1));
    assert_eq!(with(&bytes, 36, 0x20), bad("ODR", 2));
    assert_eq!(with(&bytes, 37, 0x04), bad("service mode", 0));
    let send = Operation::Send { target: JettyId::new(1), length: 1 };
    let send = encoded(&Route::default(), &Packet::Data(sample_data(send)), 0);
    assert_eq!(with(&send, 37, 0x06), bad("L", 1));
    assert_eq!(with(&send, 36, 0x00), bad("MT_EN", 0));
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
    assert_eq!(with(&bytes, 28, 3 << 5 | 6), bad("RSPINFO", 6));
    assert_eq!(with(&bytes, 28, 1 << 5 | 1), bad("RSPINFO", 1));
    assert_eq!(with(&bytes, 28, 0), bad("RSPST", 0));
}

#[test]
fn payload_behind_a_packet_without_any() {
    let bytes = encoded(&Route::default(), &Packet::Close(Close { answer: false }), 0);
    let bytes = resealed(bytes, 3);
    assert_eq!(decode(&bytes, bytes.len() + 3), Err(DecodeError::TooLong { extra: 3 }));
}

fn hello() -> Setup {
    let client = Endpoint {
        tpn: Tpn::new(17),
        initial_psn: Psn::new(1000),
        ports: Ports::new(&[4000, 4001]).expect("legal ports"),
    };
    let wish = Parameters {
        mtu_bytes: 1408,
        paths: 4,
        window_packets: 4096,
        message_slots: 64,
        read_slots: 16,
        keep_alive_ms: 100,
        capabilities: 0,
    };
    let versions = Versions::new(1, 1).expect("a legal range");
    let message = SetupMessage::Hello(Hello { versions, nonce: 5, client, wish });
    Setup { source: Cna::new(0xc1), destination: Cna::new(0), message }
}

/// Decodes `setup` after setting byte `at` to `value` and mending the check.
fn setup_with(setup: &Setup, at: usize, value: u8) -> Result<Decoded, DecodeError> {
    let mut out = [0; MAX_HEADER];
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
    let mut out = [0; MAX_HEADER];
    encode_setup(&hello, &mut out);
    assert_eq!(decode(&out, 129), Err(DecodeError::TooLong { extra: 1 }));
    let short = DecodeError::TooShort { needed: 128, available: 127 };
    assert_eq!(decode(&out[..127], 128), Err(short));
    out[60] ^= 1;
    assert_eq!(decode(&out, 128), Err(DecodeError::BadCheck));
}

#[test]
fn no_answer_is_longer_than_its_question() {
    let mut out = [0; MAX_HEADER];
    assert_eq!(encode_setup(&hello(), &mut out), SETUP_LEN);
    // The longest list of ports and the cookie fit, as `setup_messages_come_back` shows, in the
    // same number of bytes.
    assert_eq!(SETUP_LEN, 128);
}
