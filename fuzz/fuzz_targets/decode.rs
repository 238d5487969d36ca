//! Any bytes decode to a value or an error, and every value survives being encoded and decoded.
//!
//! Input: two bytes of payload length, then the header. Run with
//! `cargo +nightly fuzz run decode` in `crates/wire`.
#![no_main]

use fairway_wire::{
    Decoded, PROTOCOL_VERSION, SETUP_LEN, decode, encode, encode_setup, header_check,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((length, header)) = input.split_first_chunk::<2>() else {
        return;
    };
    let payload_len = usize::from(u16::from_le_bytes(*length));
    demand_sound(header, payload_len);
    demand_sound(header, header.len() + payload_len);
    // The check keeps a fuzzer out, so it is mended for every length the header could have.
    let mut header = header.to_vec();
    for len in (32..=header.len().min(SETUP_LEN)).step_by(4) {
        // What carries no payload, and what carries at most a cache line, would be hard to hit.
        let payload_lens = [
            (PROTOCOL_VERSION, payload_len),
            (PROTOCOL_VERSION, payload_len % 65),
            (PROTOCOL_VERSION, 0),
            (0, 0),
        ];
        for (version, payload_len) in payload_lens {
            let check = header_check(version, &header[4..len], payload_len);
            header[..4].copy_from_slice(&check.to_be_bytes());
            demand_sound(&header, len + payload_len);
        }
    }
});

fn demand_sound(header: &[u8], datagram_len: usize) {
    let mut out = [0; SETUP_LEN];
    match decode(header, datagram_len) {
        Err(_) => {}
        Ok(Decoded::Setup(setup)) => {
            encode_setup(&setup, &mut out);
            assert_eq!(decode(&out, SETUP_LEN), Ok(Decoded::Setup(setup)));
        }
        Ok(Decoded::Packet { route, packet, header_len }) => {
            assert!(header_len <= header.len() && header_len <= datagram_len);
            let payload_len = datagram_len - header_len;
            let header_len = encode(&route, &packet, payload_len, &mut out);
            let expected = Decoded::Packet { route, packet, header_len };
            assert_eq!(decode(&out, header_len + payload_len), Ok(expected));
        }
    }
}
