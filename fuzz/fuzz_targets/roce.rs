//! Any bytes decode to a RoCEv2 packet or an error, and every packet survives being encoded and
//! decoded; the same bytes as an IP packet give headers or an error, and so they do as a message of
//! the connection manager.
//!
//! Input: two bytes of further length, then the datagram. Run with `cargo +nightly fuzz run roce`
//! in `crates/wire`.
#![no_main]

use fairway_wire::roce::{Decoded, ICRC_LEN, Icrc, MAX_HEADER, Outer, cm, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((length, datagram)) = input.split_first_chunk::<2>() else {
        return;
    };
    let more = usize::from(u16::from_le_bytes(*length));
    for total in [datagram.len(), datagram.len() + more, more] {
        demand_sound(datagram, total);
    }
    if let Ok(enclosed) = Outer::parse(datagram) {
        assert!(enclosed.datagram.len() + 28 <= datagram.len());
        demand_sound(enclosed.datagram, enclosed.datagram.len());
        demand_sealed(&enclosed.outer, enclosed.datagram);
    }
    // The fuzzer need not find the length, nor what is the same in all of them.
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
});

fn demand_sound(datagram: &[u8], total: usize) {
    if let Ok(decoded) = decode(datagram, total) {
        let Decoded { packet, header_len, payload_len } = decoded;
        assert!(header_len + payload_len + ICRC_LEN <= total);
        let mut out = [0; MAX_HEADER];
        assert_eq!(encode(&packet, payload_len, &mut out), header_len);
        assert_eq!(decode(&out[..header_len], total), Ok(decoded));
    }
}

/// With the right ICRC behind them, any bytes verify; and no longer when one of them is changed.
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
