//! The header check: a 32-bit hash by which a receiver detects damaged and foreign headers.
//!
//! The hash is NH (UMAC, RFC 4418 §5.2.2): the words are taken in pairs, a constant is added to
//! each, and the sum of the pairs' 64-bit products is finished with a multiply–xorshift. The
//! products do not depend on one another, so a header costs a few nanoseconds in plain code and a
//! handful of 32×32 multipliers in a circuit.
//!
//! The key of the hash is a [`CheckKey`]. Set-up messages, and packets in simulations, use the
//! public key, which detects damaged headers and keeps no attacker out. The packets of a channel
//! use a key that only the two ends of the channel have: an attacker that sees no packets can only
//! guess a check of 32 bits. The check is not a message authentication code: an attacker that sees
//! many packets may learn enough of the key to forge some.
//!
//! The check covers the payload's length but not its bytes, which the UDP checksum covers
//! (`docs/wire.md` §2).

use crate::setup::SETUP_LEN;

/// Number of words that the check can cover: everything after the check field in the longest
/// message, which is a set-up message, and the payload's length.
const WORDS_MAX: usize = SETUP_LEN / 4;

/// The key of a header check.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckKey {
    /// The NH key.
    words: [u32; WORDS_MAX],
    /// Constants that are added before each of the two finishing multiplications.
    finish: [u64; 2],
}

impl CheckKey {
    /// Length of a key in bytes.
    pub const BYTES: usize = 4 * WORDS_MAX + 16;

    /// The public key: constants from splitmix64, started at the ASCII of
    /// "fairway1".
    pub const PUBLIC: CheckKey = CheckKey { words: key(0x6661_6972_7761_7931), finish: [0; 2] };

    /// Creates the key from these bytes, which must be secret and uniformly random.
    pub fn new(secret: &[u8; CheckKey::BYTES]) -> CheckKey {
        let (words, finish) = secret.split_at(4 * WORDS_MAX);
        let half = |at: usize| u64::from(word(finish, at)) << 32 | u64::from(word(finish, at + 4));
        CheckKey {
            words: core::array::from_fn(|index| word(words, 4 * index)),
            finish: [half(0), half(8)],
        }
    }

    /// Computes the check of `covered`, the header bytes after the check field, in front of
    /// `payload_len` bytes of payload, under `version` of the protocol (0 for set-up messages).
    ///
    /// `covered` is a whole number of 32-bit words, at most 47 of them; anything beyond is left
    /// out.
    pub fn check(&self, version: u8, covered: &[u8], payload_len: usize) -> u32 {
        let (pairs, rest) = covered.as_chunks::<8>();
        let (keys, _) = self.words.as_chunks::<2>();
        let mut sum: u64 = 0;
        for (pair, key) in pairs.iter().zip(keys) {
            sum = sum.wrapping_add(product(word(pair, 0), word(pair, 4), key));
        }
        // An unpaired last word is paired with the payload's length.
        let key = keys.get(pairs.len()).unwrap_or(&[0, 0]);
        let last = word(rest, 0);
        sum = sum.wrapping_add(product(last, payload_len as u32, key));
        let length = (covered.len() as u64) << 8 | u64::from(version);
        self.finish(sum ^ (length << 32))
    }

    fn finish(&self, sum: u64) -> u32 {
        let keyed = sum ^ self.finish[0];
        let mixed = (keyed ^ (keyed >> 29)).wrapping_mul(FINISH) ^ self.finish[1];
        ((mixed ^ (mixed >> 32)).wrapping_mul(FINISH) >> 32) as u32
    }
}

impl core::fmt::Debug for CheckKey {
    /// Prints which kind of key this is, and never the secret itself.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if *self == CheckKey::PUBLIC { "CheckKey(public)" } else { "CheckKey(secret)" })
    }
}

/// The finishing multiplier: the second constant of splitmix64.
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

/// The check of `covered` with the [public](CheckKey::PUBLIC) key; see [`CheckKey::check`].
///
/// [`encode`](crate::encode) and [`decode`](crate::decode) compute the check themselves; this
/// function is public for dissectors, fault injectors and fuzzers.
pub fn header_check(version: u8, covered: &[u8], payload_len: usize) -> u32 {
    CheckKey::PUBLIC.check(version, covered, payload_len)
}

/// One NH term.
#[inline]
fn product(a: u32, b: u32, [key_a, key_b]: &[u32; 2]) -> u64 {
    u64::from(a.wrapping_add(*key_a)) * u64::from(b.wrapping_add(*key_b))
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
