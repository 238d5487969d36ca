//! Cookies: proof that a client receives what is sent to the address that it claims.
//!
//! A cookie is a time stamp and a keyed hash (SipHash-2-4, twice with different keys) over the
//! stamp, the address, the HELLO, and what was offered. Only this listener can make one.

use core::net::{IpAddr, SocketAddr};

use fairway_wire::{Cna, Hello, Instant, Parameters, SETUP_LEN, Setup, SetupMessage, encode_setup};

/// Makes and checks cookies.
pub(super) struct CookieJar {
    keys: [[u64; 2]; 2],
}

/// Ticks are 2^40 ps, about 1.1 s.
const TICK_BITS: u32 = 40;
/// Lifetime of a cookie in ticks, about 10 s.
const LIFETIME_TICKS: u32 = 9;
/// The stamp is 24 bits, the clock's upper ones, and wraps when the clock does.
const STAMP_MASK: u32 = (1 << (64 - TICK_BITS)) - 1;

/// Bytes that are hashed: stamp, address, HELLO, offer.
const COVERED: usize = 4 + 18 + SETUP_LEN + 16;

/// The data that a cookie authenticates.
pub(super) struct Subject<'a> {
    pub(super) from: SocketAddr,
    pub(super) source: Cna,
    pub(super) hello: &'a Hello,
    pub(super) offer: &'a Parameters,
}

impl CookieJar {
    /// Creates a jar with keys from 32 random bytes.
    pub(super) fn new(random: [u8; 32]) -> Self {
        let word = |i: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&random[8 * i..8 * i + 8]);
            u64::from_le_bytes(bytes)
        };
        CookieJar { keys: [[word(0), word(1)], [word(2), word(3)]] }
    }

    /// A fresh cookie.
    pub(super) fn bake(&self, now: Instant, subject: &Subject<'_>) -> [u8; 16] {
        self.seal(stamp(now), subject)
    }

    /// True if this jar made the cookie for this subject within [`LIFETIME_TICKS`].
    pub(super) fn check(&self, now: Instant, subject: &Subject<'_>, cookie: &[u8; 16]) -> bool {
        let made = u32::from_be_bytes([0, cookie[0], cookie[1], cookie[2]]);
        let age = stamp(now).wrapping_sub(made) & STAMP_MASK;
        let expected = self.seal(made, subject);
        // Every byte is compared, so that the time taken reveals nothing.
        let difference = expected.iter().zip(cookie).fold(0, |sum, (one, two)| sum | (one ^ two));
        age <= LIFETIME_TICKS && difference == 0
    }

    fn seal(&self, stamp: u32, subject: &Subject<'_>) -> [u8; 16] {
        let covered = covered(stamp, subject);
        let hashes = self.keys.map(|key| siphash(key, &covered).to_be_bytes());
        let mut cookie = [0; 16];
        cookie[..3].copy_from_slice(&stamp.to_be_bytes()[1..]);
        cookie[3..11].copy_from_slice(&hashes[0]);
        cookie[11..].copy_from_slice(&hashes[1][..5]);
        cookie
    }
}

fn stamp(now: Instant) -> u32 {
    (now.as_ps() >> TICK_BITS) as u32 & STAMP_MASK
}

fn covered(stamp: u32, subject: &Subject<'_>) -> [u8; COVERED] {
    let mut bytes = [0; COVERED];
    bytes[..4].copy_from_slice(&stamp.to_be_bytes());
    let ip = match subject.from.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    bytes[4..20].copy_from_slice(&ip.octets());
    bytes[20..22].copy_from_slice(&subject.from.port().to_be_bytes());
    let message = SetupMessage::Hello(*subject.hello);
    let hello = Setup { source: subject.source, destination: Cna::default(), message };
    encode_setup(&hello, &mut bytes[22..22 + SETUP_LEN]);
    let Parameters {
        mtu_bytes,
        paths,
        window_packets,
        message_slots,
        read_slots,
        keep_alive_ms,
        channels,
        capabilities,
    } = *subject.offer;
    let fields = [
        mtu_bytes,
        paths,
        window_packets,
        message_slots,
        read_slots,
        keep_alive_ms,
        channels,
        capabilities,
    ];
    for (to, field) in bytes[22 + SETUP_LEN..].chunks_exact_mut(2).zip(fields) {
        to.copy_from_slice(&field.to_be_bytes());
    }
    bytes
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012).
fn siphash(key: [u64; 2], data: &[u8]) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let chunks = data.chunks_exact(8);
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    last[7] = data.len() as u8;
    let mut absorb = |word: u64| {
        state[3] ^= word;
        round(&mut state);
        round(&mut state);
        state[0] ^= word;
    };
    chunks.for_each(|chunk| absorb(u64::from_le_bytes(chunk.try_into().unwrap_or_default())));
    absorb(u64::from_le_bytes(last));
    state[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut state));
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// The vectors of the SipHash paper's reference code: key 00..0f, data 00, 00 01, ….
    #[test]
    fn siphash_agrees_with_its_reference() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let data: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(key, &data[..1]), 0x74f8_39c5_93dc_67fd);
        assert_eq!(siphash(key, &data[..8]), 0x93f5_f579_9a93_2462);
        assert_eq!(siphash(key, &data), 0xa129_ca61_49be_45e5);
    }
}
