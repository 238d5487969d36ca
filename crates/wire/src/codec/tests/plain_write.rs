//! The fast path for plain WRITEs gives the same result as the general path wherever it applies.

use super::*;
use crate::codec::decode::{reliable, transaction};

type Answer = Result<Decoded, DecodeError>;

/// The results of both paths for a datagram with RTPH.
fn both(bytes: &[u8], datagram_len: usize) -> (Option<Answer>, Answer) {
    let first = bytes.first_chunk().expect("a transport header");
    let key = &CheckKey::PUBLIC;
    let short = transaction::as_plain_write(bytes)
        .map(|whole| transaction::plain_write(key, whole, datagram_len));
    (short, reliable(key, first, bytes, datagram_len))
}

fn plain() -> Vec<u8> {
    let data =
        Data { order: Order::NONE, ..sample_data(Operation::Write { access: sample_access() }) };
    encoded(&Route::default(), &Packet::Data(data), 100)
}

fn flipped(bits: &[usize]) -> Vec<u8> {
    let mut bytes = plain();
    bits.iter().for_each(|bit| bytes[bit / 8] ^= 0x80 >> (bit % 8));
    resealed(bytes, 100)
}

/// Bits of the headers that decide whether a packet is a plain WRITE.
fn deciding() -> Vec<usize> {
    let of = |byte: usize, mask: u8| {
        (0..8).filter(move |bit| mask << bit & 0x80 != 0).map(move |bit| 8 * byte + bit)
    };
    of(16, 0x7f)
        .chain(of(17, 0xff))
        .chain(of(24, 0x20))
        .chain(of(32, 0xff))
        .chain(of(33, 0xcc))
        .chain(of(36, 0x78))
        .chain(of(37, 0x0f))
        .collect()
}

#[test]
fn only_plain_writes_go_the_short_way() {
    let deciding = deciding();
    for bit in 32..8 * plain().len() {
        let bytes = flipped(&[bit]);
        let (short, general) = both(&bytes, bytes.len() + 100);
        assert_eq!(short.is_none(), deciding.contains(&bit), "bit {bit}");
        if let Some(short) = short {
            assert_eq!(short, general, "bit {bit}");
        }
    }
}

#[test]
fn two_changes_are_judged_alike() {
    let bits: Vec<usize> = (8 * 16..8 * 18).chain(8 * 32..8 * 44).collect();
    for &one in &bits {
        for &other in bits.iter().filter(|other| **other > one) {
            let bytes = flipped(&[one, other]);
            let (short, general) = both(&bytes, bytes.len() + 100);
            assert!(short.is_none_or(|short| short == general), "bits {one} and {other}");
        }
    }
}

#[test]
fn a_wrong_check_is_refused_the_short_way() {
    let mut bytes = plain();
    bytes[0] ^= 1;
    let refused = Err(DecodeError::BadCheck);
    assert_eq!(both(&bytes, bytes.len() + 100), (Some(refused), refused));
}

#[test]
fn too_few_bytes_go_the_general_way() {
    let bytes = plain();
    for length in 32..bytes.len() {
        let (short, general) = both(&bytes[..length], bytes.len() + 100);
        assert!(short.is_none() && general.is_err(), "{length} bytes");
    }
}

proptest! {
    #[test]
    fn every_field_is_read_alike(
        route in strategies::route(),
        packet in strategies::packet(),
        payload in 0usize..65_536,
    ) {
        let is_reliable = !matches!(packet, Packet::Datagram(_) | Packet::Bypass(_));
        prop_assume!(is_reliable);
        let payload_len = payload_for(&packet, payload);
        let bytes = encoded(&route, &packet, payload_len);
        let (short, general) = both(&bytes, bytes.len() + payload_len);
        let is_plain = matches!(
            packet,
            Packet::Data(Data {
                operation: Operation::Write { .. },
                order: Order::NONE,
                carried: None,
                ..
            })
        );
        prop_assert_eq!(short.is_some(), is_plain);
        prop_assert!(short.is_none_or(|short| short == general));
    }
}
