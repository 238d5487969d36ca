//! The hash function of the compact structures.

/// A well-mixed 64-bit value of `key`: the finaliser of SplitMix64 (Steele et al., *Fast Splittable
/// Pseudorandom Number Generators*, OOPSLA 2014). Every bit of the result depends on every bit
/// of the key, and no two keys share a result.
pub(super) const fn mix(key: u64) -> u64 {
    let key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

/// Hash number `index` of a key whose mixed value is `mixed`, below `range`, which is not zero. Two
/// independent halves yield any number of hashes (Kirsch and Mitzenmacher, *Less Hashing, Same
/// Performance*, 2006).
pub(super) const fn nth(mixed: u64, index: u32, range: usize) -> usize {
    // An odd step gives different places even if the range is a power of two.
    let step = (mixed >> 32) as u32 | 1;
    let hash = (mixed as u32).wrapping_add(index.wrapping_mul(step));
    ((hash as u64 * range as u64) >> 32) as usize
}
