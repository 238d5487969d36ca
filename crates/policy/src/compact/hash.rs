//! The hash of the compact structures.

/// A well-mixed 64-bit value of `key`: the finaliser of SplitMix64 (Steele et al., *Fast Splittable
/// Pseudorandom Number Generators*, OOPSLA 2014). Every bit of the result depends on every bit
/// of the key, and no two keys share a result.
pub(super) const fn mix(key: u64) -> u64 {
    let key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}
