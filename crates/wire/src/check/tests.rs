use super::{CheckKey, header_check};

/// Lengths in bytes, without the check field, of the headers of all packets that are sent: void and
/// close, the headers behind BTAH with and without an order extension, up to a PUT with one, and
/// set-up messages.
const LENGTHS: [usize; 17] = [28, 32, 40, 44, 48, 52, 56, 60, 64, 68, 72, 76, 80, 84, 88, 92, 188];

fn header(len: usize, seed: u32) -> [u8; 188] {
    let mut state = seed;
    core::array::from_fn(|i| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if i < len { (state >> 24) as u8 } else { 0 }
    })
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// Asserts that the check changes with every single bit and every pair of bits of `original`.
fn demand_flips_are_seen(original: &[u8]) {
    let payload_len = 1400;
    let check = header_check(1, original, payload_len);
    let mut damaged = [0; 188];
    let damaged = &mut damaged[..original.len()];
    damaged.copy_from_slice(original);
    for first in 0..8 * original.len() {
        flip(damaged, first);
        assert_ne!(check, header_check(1, damaged, payload_len), "bit {first}");
        for second in first + 1..8 * original.len() {
            flip(damaged, second);
            assert_ne!(check, header_check(1, damaged, payload_len), "bits {first}, {second}");
            flip(damaged, second);
        }
        flip(damaged, first);
    }
}

#[test]
fn every_single_and_double_bit_flip_is_seen() {
    for len in LENGTHS {
        demand_flips_are_seen(&header(len, 7)[..len]);
    }
    // Real headers are mostly zero.
    demand_flips_are_seen(&[0; 64]);
    demand_flips_are_seen(&[0; 44]);
}

#[test]
fn a_flip_in_the_header_and_one_in_the_check_do_not_cancel() {
    for len in LENGTHS {
        let mut bytes = header(len, 11);
        let check = header_check(1, &bytes[..len], 0);
        for bit in 0..8 * len {
            flip(&mut bytes, bit);
            let changed = check ^ header_check(1, &bytes[..len], 0);
            assert!(changed.count_ones() > 1, "length {len}, bit {bit}");
            flip(&mut bytes, bit);
        }
    }
}

#[test]
fn the_payload_length_is_covered() {
    let bytes = header(64, 3);
    let check = header_check(1, &bytes[..64], 1024);
    for other in (0..65_536).filter(|len| *len != 1024) {
        assert_ne!(check, header_check(1, &bytes[..64], other), "{other}");
    }
}

#[test]
fn version_and_header_length_are_covered() {
    let bytes = [0; 188];
    for len in LENGTHS {
        assert_ne!(header_check(1, &bytes[..len], 0), header_check(2, &bytes[..len], 0));
    }
    for pair in LENGTHS.windows(2) {
        assert_ne!(header_check(1, &bytes[..pair[0]], 0), header_check(1, &bytes[..pair[1]], 0));
    }
}

/// The expected values come from a separate implementation, so that any further one can be checked
/// against the same numbers.
#[test]
fn known_values() {
    assert_eq!(CheckKey::PUBLIC.words[0], 0xeb63_ae6e);
    assert_eq!(header_check(1, &[0; 28], 0), 0x2442_53cf);
    assert_eq!(header_check(2, &[0; 28], 0), 0xcad1_ab4e);
    let counting: [u8; 64] = core::array::from_fn(|i| i as u8);
    assert_eq!(header_check(1, &counting, 1500), 0x782a_fbc5);
    assert_eq!(header_check(2, &counting, 1500), 0xdf15_a216);
    // Those that docs/wire.md states, from this implementation.
    assert_eq!(header_check(8, &[0; 28], 0), 0xd027_da85);
    assert_eq!(header_check(8, &counting, 1500), 0x5f0f_73c8);
}

/// The key derived from a seed.
fn secret(seed: u32) -> CheckKey {
    let mut state = seed;
    CheckKey::new(&core::array::from_fn(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }))
}

#[test]
fn check_with_a_secret_key_is_no_other_keys() {
    let bytes = header(64, 5);
    let public = header_check(4, &bytes[..64], 512);
    let checks: [u32; 64] = core::array::from_fn(|i| secret(i as u32).check(4, &bytes[..64], 512));
    for (i, check) in checks.iter().enumerate() {
        assert_ne!(*check, public, "key {i}");
        assert!(!checks[..i].contains(check), "key {i}");
    }
}

#[test]
fn every_byte_of_a_key_counts() {
    let bytes = [1; 188];
    let mut raw = [0x5a; CheckKey::BYTES];
    let check = CheckKey::new(&raw).check(4, &bytes, 512);
    for at in 0..CheckKey::BYTES {
        raw[at] ^= 1;
        assert_ne!(CheckKey::new(&raw).check(4, &bytes, 512), check, "byte {at}");
        raw[at] ^= 1;
    }
}

#[test]
fn a_secret_key_is_not_printed() {
    assert_eq!(std::format!("{:?}", secret(1)), "CheckKey(secret)");
}
