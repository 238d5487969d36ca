//! The emulator's random numbers, the same on every machine.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// Creates an independent generator for each `(seed, stream)`.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        Random { state: seed ^ mix(stream.wrapping_add(0x9e37_79b9_7f4a_7c15)) }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Returns a uniform choice from `0..bound`; `bound` must be at least one. (The bias is less
    /// than 2^-32.)
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true `parts` times in a thousand million.
    pub(super) fn chance(&mut self, parts: u32) -> bool {
        parts > 0 && self.below(1_000_000_000) < u64::from(parts)
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
