//! Random numbers from a seed: for a device, and for the simulations in which it runs.

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose numbers depend on `seed` only.
    pub const fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// A generator for one part of a larger draw, so that a change in one part does not affect the
    /// numbers of the others.
    pub fn fork(seed: u64, part: u64) -> Self {
        let mut random = Random(seed ^ part.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Random(random.number())
    }

    /// Returns any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `end` (which must not be zero).
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias of the remainder is far too small for any test to notice.
        self.number() % end
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true in `permille` of 1,000 cases.
    pub fn chance(&mut self, permille: u32) -> bool {
        self.below(1000) < u64::from(permille)
    }

    /// Returns one of `choices` (which must not be empty).
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns a number from 1 to `high` whose magnitude is uniform: small ones are as likely as
    /// large.
    pub fn magnitude(&mut self, high: u64) -> u64 {
        let bits = self.range(0, u64::from(high.ilog2()));
        let low = 1 << bits;
        self.range(low, (2 * low - 1).min(high))
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let (whole, rest) = bytes.as_chunks_mut::<8>();
        for chunk in whole {
            *chunk = self.number().to_le_bytes();
        }
        if !rest.is_empty() {
            let number = self.number().to_le_bytes();
            rest.copy_from_slice(&number[..rest.len()]);
        }
    }
}
