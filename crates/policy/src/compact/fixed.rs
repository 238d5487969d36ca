//! Fixed-point arithmetic, which policies use instead of floating point.
//!
//! [`Fixed`] has 16 bits before the point and 16 behind it (SCR §4.3.3, "FXP-16"). Every operation
//! saturates at the ends of its range and rounds to the nearest value, so that no computation can
//! wrap.

use core::ops::{Add, Mul, Neg, Sub};

/// Number of bits behind the point.
const FRACTION_BITS: u32 = 16;

/// A signed number with 16 bits before the point and 16 behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fixed(i32);

impl Fixed {
    /// The number 0.
    pub const ZERO: Fixed = Fixed(0);
    /// The number 1.
    pub const ONE: Fixed = Fixed(1 << FRACTION_BITS);
    /// The largest number: 1/65,536 less than 32,768.
    pub const MAX: Fixed = Fixed(i32::MAX);
    /// The smallest number: −32,768.
    pub const MIN: Fixed = Fixed(i32::MIN);

    /// The number with this representation, which is 65,536 times the number.
    pub const fn from_bits(bits: i32) -> Fixed {
        Fixed(bits)
    }

    /// The representation, which is 65,536 times the number.
    pub const fn to_bits(self) -> i32 {
        self.0
    }

    /// The fixed-point form of a whole number, saturated.
    pub const fn from_int(whole: i32) -> Fixed {
        saturated((whole as i64) << FRACTION_BITS)
    }

    /// `numerator / denominator`. If the denominator is zero, the largest number, or zero for 0/0.
    pub const fn ratio(numerator: u64, denominator: u64) -> Fixed {
        if denominator == 0 {
            return if numerator == 0 { Fixed::ZERO } else { Fixed::MAX };
        }
        let wide = ((numerator as u128) << FRACTION_BITS) + denominator as u128 / 2;
        let quotient = wide / denominator as u128;
        if quotient > i32::MAX as u128 { Fixed::MAX } else { Fixed(quotient as i32) }
    }

    /// The quotient. If `divisor` is zero, the end of the range with the sign of the dividend.
    pub const fn divide(self, divisor: Fixed) -> Fixed {
        if divisor.0 == 0 {
            return match self.0 {
                0 => Fixed::ZERO,
                bits if bits > 0 => Fixed::MAX,
                _ => Fixed::MIN,
            };
        }
        let (dividend, divisor) = ((self.0 as i64) << FRACTION_BITS, divisor.0 as i64);
        let half = divisor.abs() / 2;
        let rounded = if dividend < 0 { dividend - half } else { dividend + half };
        saturated(rounded / divisor)
    }

    /// One divided by the number.
    pub const fn reciprocal(self) -> Fixed {
        Fixed::ONE.divide(self)
    }

    /// The square root, rounded down; zero for negative numbers.
    pub const fn sqrt(self) -> Fixed {
        if self.0 <= 0 {
            return Fixed::ZERO;
        }
        Fixed(((self.0 as u64) << FRACTION_BITS).isqrt() as i32)
    }

    /// `value` times the number, rounded to the nearest; zero if the number is below zero.
    pub const fn scale(self, value: u64) -> u64 {
        if self.0 <= 0 {
            return 0;
        }
        let half = 1 << (FRACTION_BITS - 1);
        let product = (value as u128 * self.0 as u128 + half) >> FRACTION_BITS;
        if product > u64::MAX as u128 { u64::MAX } else { product as u64 }
    }

    /// Moves by `2^-shift` of the way to `sample`, at most 31: an exponentially weighted moving
    /// average.
    pub const fn ewma(self, sample: Fixed, shift: u32) -> Fixed {
        let distance = sample.0 as i64 - self.0 as i64;
        saturated(self.0 as i64 + toward(distance, shift))
    }

    /// The number rounded down to a whole number.
    pub const fn floor(self) -> i32 {
        self.0 >> FRACTION_BITS
    }
}

impl Add for Fixed {
    type Output = Fixed;
    fn add(self, other: Fixed) -> Fixed {
        Fixed(self.0.saturating_add(other.0))
    }
}

impl Sub for Fixed {
    type Output = Fixed;
    fn sub(self, other: Fixed) -> Fixed {
        Fixed(self.0.saturating_sub(other.0))
    }
}

impl Mul for Fixed {
    type Output = Fixed;
    fn mul(self, other: Fixed) -> Fixed {
        let product = i64::from(self.0) * i64::from(other.0) + (1 << (FRACTION_BITS - 1));
        saturated(product >> FRACTION_BITS)
    }
}

impl Neg for Fixed {
    type Output = Fixed;
    fn neg(self) -> Fixed {
        Fixed(self.0.saturating_neg())
    }
}

const fn saturated(bits: i64) -> Fixed {
    if bits > i32::MAX as i64 {
        Fixed::MAX
    } else if bits < i32::MIN as i64 {
        Fixed::MIN
    } else {
        Fixed(bits as i32)
    }
}

/// `2^-shift` of `distance`, but at least one in its direction, so that an average reaches a
/// constant sample.
const fn toward(distance: i64, shift: u32) -> i64 {
    let part = distance / (1 << shift);
    if part == 0 { distance.signum() } else { part }
}

/// Exponentially weighted moving average of a count: `average` after `sample`, which has the weight
/// `2^-shift`. `shift` is at most 31. Counts above 2^63 are taken as 2^63 − 1.
pub const fn ewma(average: u64, sample: u64, shift: u32) -> u64 {
    let (average, sample) = (clipped(average), clipped(sample));
    (average + toward(sample - average, shift)) as u64
}

const fn clipped(count: u64) -> i64 {
    if count > i64::MAX as u64 { i64::MAX } else { count as i64 }
}

/// The logarithm of `value` to the base 2, with 16 bits behind the point, rounded down; zero for
/// zero. The whole part is the position of the first bit. Each further bit is found by squaring the
/// rest: the bit is set if the square reaches the next power of two.
pub const fn log2(value: u64) -> Fixed {
    if value == 0 {
        return Fixed::ZERO;
    }
    let whole = value.ilog2();
    // The mantissa has 63 bits behind the point, and 1 ≤ mantissa < 2.
    let mut mantissa = (value << (63 - whole)) as u128;
    let mut bits = whole as i32;
    let mut step = 0;
    while step < FRACTION_BITS {
        mantissa = (mantissa * mantissa) >> 63;
        bits <<= 1;
        if mantissa >= 1 << 64 {
            mantissa >>= 1;
            bits |= 1;
        }
        step += 1;
    }
    Fixed(bits)
}

#[cfg(test)]
mod tests;
