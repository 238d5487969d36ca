//! A device's own random numbers, which follow from its seed.

/// SplitMix64 (Steele, Lea, Flood 2014): one addition and a mix per number.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose numbers follow from `seed` alone.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)] // It never ends, and is no iterator.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
