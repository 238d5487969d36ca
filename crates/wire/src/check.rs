//! The header check: a 32-bit hash that tells a damaged or foreign header from a real one.
//!
//! It is NH (UMAC, RFC 4418 §5.2.2): the words are taken in pairs, a constant is added to each,
//! and the sum of the pairs' 64-bit products is finished with a multiply–xorshift. The products do
//! not wait for one another, so a header costs a few nanoseconds in plain code and a handful of
//! 32×32 multipliers in a circuit. It is no protection against somebody who forges packets.
//!
//! The payload's length is covered, its bytes are not: those are the UDP checksum's
//! (`docs/wire.md` §2).

/// Words that can be covered: what follows the check in the longest header, the payload's
/// length, and one to make the count even.
const WORDS_MAX: usize = 34;

/// The NH key: public constants from splitmix64, started at the ASCII of "fairway1".
const KEY: [u32; WORDS_MAX] = key(0x6661_6972_7761_7931);

/// The finishing multiplier (splitmix64's second).
const FINISH: u64 = 0x94d0_49bb_1331_11eb;

const fn key(seed: u64) -> [u32; WORDS_MAX] {
    let mut words = [0; WORDS_MAX];
    let mut state = seed;
    let mut i = 0;
    while i < WORDS_MAX {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(FINISH);
        words[i] = (z >> 32) as u32;
        i += 1;
    }
    words
}

/// The check of `covered`, the header bytes after the check field, in front of `payload_len`
/// bytes of payload, under `version` of the protocol (0 for set-up messages).
///
/// [`encode`](crate::encode) and [`decode`](crate::decode) do this by themselves; it is public
/// for dissectors, fault injectors and fuzzers.
///
/// `covered` is a whole number of 32-bit words, at most 31 of them; anything beyond is left out.
pub fn header_check(version: u8, covered: &[u8], payload_len: usize) -> u32 {
    let mut pairs = covered.chunks_exact(8);
    let mut sum: u64 = 0;
    let mut keys = KEY.chunks_exact(2);
    for (pair, key) in (&mut pairs).zip(&mut keys) {
        sum = sum.wrapping_add(product(word(pair, 0), word(pair, 4), key));
    }
    // The last word, if it has no partner, is paired with the payload's length.
    let key = keys.next().unwrap_or(&[0, 0]);
    let last = word(pairs.remainder(), 0);
    sum = sum.wrapping_add(product(last, payload_len as u32, key));
    let length = (covered.len() as u64) << 8 | u64::from(version);
    finish(sum ^ (length << 32))
}

fn finish(sum: u64) -> u32 {
    let mixed = (sum ^ (sum >> 29)).wrapping_mul(FINISH);
    ((mixed ^ (mixed >> 32)).wrapping_mul(FINISH) >> 32) as u32
}

/// One NH term. Where the last pair is half empty its word is zero, which is as good as any.
fn product(a: u32, b: u32, key: &[u32]) -> u64 {
    let (key_a, key_b) = match key {
        [key_a, key_b] => (*key_a, *key_b),
        _ => (0, 0),
    };
    u64::from(a.wrapping_add(key_a)) * u64::from(b.wrapping_add(key_b))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
