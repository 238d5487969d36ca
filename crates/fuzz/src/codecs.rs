//! Public parsers: packets of both protocols, and names of policies.

use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::roce::{self, ICRC_LEN, Icrc, Outer, cm};
use fairway_ub::wire::{
    self, Decoded, PROTOCOL_VERSION, SETUP_LEN, encode, encode_setup, header_check,
};

/// Bytes at the beginning of a datagram that any decoder examines.
const PREFIX: usize = 256;

/// Any bytes decode to a packet, a set-up message or an error, and every value survives encoding
/// and decoding.
///
/// Input: two bytes that determine the length and kind of the payload, one that determines where it
/// begins, then the beginning of the datagram, which is decoded both unchanged and with the correct
/// check.
pub fn decode(input: &[u8]) {
    let Some(([high, low, begin], bytes)) = input.split_first_chunk::<3>() else {
        return;
    };
    let mut header = [0; PREFIX];
    let header = &mut header[..bytes.len().min(PREFIX)];
    header.copy_from_slice(&bytes[..header.len()]);
    let number = usize::from(u16::from_be_bytes([*high, *low]));
    demand_sound(header, number);
    // Packets without payload, or with at most a cache line, would otherwise be rare.
    let (version, payload_len) = match high >> 6 {
        0 => (PROTOCOL_VERSION, number & 0x3fff),
        1 => (PROTOCOL_VERSION, number % 65),
        2 => (PROTOCOL_VERSION, 0),
        _ => (0, 0),
    };
    let all = header.len().min(SETUP_LEN) & !3;
    let len = if begin & 0x80 != 0 { all } else { all.min(32 + 4 * usize::from(*begin & 0x1f)) };
    if len < 32 {
        return;
    }
    // A fuzzer cannot find the check, so it is corrected here.
    let check = header_check(version, &header[4..len], payload_len);
    header[..4].copy_from_slice(&check.to_be_bytes());
    demand_sound(header, len + payload_len);
}

fn demand_sound(header: &[u8], datagram_len: usize) {
    let mut out = [0; SETUP_LEN];
    match wire::decode(header, datagram_len) {
        Err(_) => {}
        Ok(Decoded::Setup(setup)) => {
            encode_setup(&setup, &mut out);
            assert_eq!(wire::decode(&out, SETUP_LEN), Ok(Decoded::Setup(setup)));
        }
        Ok(Decoded::Packet { route, packet, header_len }) => {
            assert!(header_len <= header.len() && header_len <= datagram_len);
            let payload_len = datagram_len - header_len;
            let header_len = encode(&route, &packet, payload_len, &mut out);
            let expected = Decoded::Packet { route, packet, header_len };
            assert_eq!(wire::decode(&out, header_len + payload_len), Ok(expected));
        }
    }
    // With any last bytes there is a packet, a message or an error as well.
    if let Ok((_, length)) = wire::decode_filled(header, |_| Some(&wire::CheckKey::PUBLIC)) {
        assert!(length <= header.len());
    }
}

/// Any bytes decode to a RoCEv2 packet or an error, and every packet survives encoding and
/// decoding. Parsed as an IP packet, the same bytes give headers or an error, and likewise as a
/// message of the connection manager.
///
/// Input: two bytes of additional length, then the datagram.
pub fn roce(input: &[u8]) {
    let Some((length, datagram)) = input.split_first_chunk::<2>() else {
        return;
    };
    let more = usize::from(u16::from_le_bytes(*length));
    for total in [datagram.len(), datagram.len() + more, more] {
        demand_sound_roce(datagram, total);
    }
    if let Ok(enclosed) = Outer::parse(datagram) {
        assert!(enclosed.datagram.len() + 28 <= datagram.len());
        demand_sound_roce(enclosed.datagram, enclosed.datagram.len());
        demand_sealed(&enclosed.outer, enclosed.datagram);
    }
    // The length and the constant fields are filled in, so that the fuzzer need not find them.
    let mut mad = [0; cm::MAD_LEN];
    for (to, from) in mad.iter_mut().zip(datagram) {
        *to = *from;
    }
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    for bytes in [datagram, &mad] {
        if let Ok(message) = cm::parse(bytes) {
            assert_eq!(cm::parse(&cm::emit(&message)), Ok(message));
        }
    }
}

fn demand_sound_roce(datagram: &[u8], total: usize) {
    if let Ok(decoded) = roce::decode(datagram, total) {
        let roce::Decoded { packet, header_len, payload_len } = decoded;
        assert!(header_len + payload_len + ICRC_LEN <= total);
        let mut out = [0; roce::MAX_HEADER];
        assert_eq!(roce::encode(&packet, payload_len, &mut out), header_len);
        assert_eq!(roce::decode(&out[..header_len], total), Ok(decoded));
    }
}

/// With the correct ICRC behind them, any bytes pass verification, and no longer do if one byte
/// changes.
fn demand_sealed(outer: &Outer, content: &[u8]) {
    let mut icrc = Icrc::new(outer, content, content.len() + ICRC_LEN);
    icrc.update(&[]);
    let mut sealed = [content, &icrc.finish()].concat();
    assert!(Icrc::verify(outer, &sealed));
    if let Some(last) = sealed.last_mut() {
        *last ^= 1;
    }
    assert!(!Icrc::verify(outer, &sealed));
}

/// Any text either names policies or is refused with a message. Names survive printing and parsing,
/// and the policies that they name can be built.
pub fn names(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<PolicySpec>() {
        Ok(spec) => {
            let printed = spec.to_string();
            assert_eq!(printed.parse::<PolicySpec>().as_ref(), Ok(&spec), "{printed:?}");
            drop(spec.build(4096));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
