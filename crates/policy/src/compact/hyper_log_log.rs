//! HyperLogLog: counts distinct keys within a few per cent, in a few hundred bytes.
//!
//! The first bits of a key's hash select one of `m` registers, which stores the longest run of
//! zeros at the start of the remaining bits among its keys. The estimate is derived from the
//! harmonic mean of the registers,
//!
//! ```text
//! E = α m² / Σ 2^(−register)        α = 0.7213 / (1 + 1.079 / m)
//! ```
//!
//! and while that is below 5/2 m and some registers are empty, it is `m · ln (m / empty)`. The
//! standard error is `1.04 / √m`: 3.3 % with 1024 registers of a byte.
//!
//! **Source:** Flajolet et al., *HyperLogLog: the analysis of a near-optimal cardinality estimation
//! algorithm*, 2007; SCR §4.3.3 estimates cardinalities with it. Hashes of 64 bits make the
//! correction for large counts unnecessary.

use alloc::boxed::Box;
use alloc::vec;

use super::fixed::log2;
use super::hash::mix;

/// ln 2 in units of 2^-32.
const LN_2: u128 = 2_977_044_472;

/// A counter of distinct keys.
#[derive(Clone, Debug)]
pub struct HyperLogLog {
    registers: Box<[u8]>,
    /// Logarithm to the base 2 of the number of registers.
    precision: u32,
}

impl HyperLogLog {
    /// Creates `2^precision` registers of a byte. A `precision` below 7 is taken as 7, because the
    /// estimate is poor below, and one above 16 as 16.
    pub fn new(precision: u32) -> HyperLogLog {
        let precision = precision.clamp(7, 16);
        HyperLogLog { registers: vec![0; 1 << precision].into_boxed_slice(), precision }
    }

    /// Counts a key, unless it has been counted before.
    pub fn insert(&mut self, key: u64) {
        let hash = mix(key);
        let register = (hash >> (64 - self.precision)) as usize;
        // The bit that is set limits every run to the bits that remain.
        let rest = hash << self.precision | 1 << (self.precision - 1);
        let run = rest.leading_zeros() as u8 + 1;
        self.registers[register] = self.registers[register].max(run);
    }

    /// The estimated number of distinct keys that were inserted.
    pub fn estimate(&self) -> u64 {
        let count = self.registers.len() as u128;
        // The sum is in units of 2^-64; no register is above 58.
        let sum: u128 = self.registers.iter().map(|register| 1u128 << (64 - register)).sum();
        // α is in units of 2^-16: 47,271 / 65,536 = 0.7213.
        let alpha = 47_271 * 1000 * count / (1000 * count + 1079);
        let raw = ((alpha * count * count) << 48) / sum;
        let empty = self.registers.iter().filter(|register| **register == 0).count() as u64;
        if raw * 2 <= 5 * count && empty > 0 {
            let doublings = self.precision as i32 * (1 << 16) - log2(empty).to_bits();
            return ((count * doublings as u128 * LN_2) >> 48) as u64;
        }
        u64::try_from(raw).unwrap_or(u64::MAX)
    }

    /// Adds the keys of another counter of the same precision; does nothing for another precision.
    pub fn merge(&mut self, other: &HyperLogLog) {
        if self.precision == other.precision {
            let both = self.registers.iter_mut().zip(&other.registers);
            both.for_each(|(register, other)| *register = (*register).max(*other));
        }
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.registers.fill(0);
    }

    /// Allocated memory in bytes.
    pub fn state_bytes(&self) -> usize {
        self.registers.len()
    }
}

#[cfg(test)]
mod tests;
