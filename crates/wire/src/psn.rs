//! Packet sequence numbers of 24 bits, compared modulo 2^24.

/// A packet sequence number (PSN): 24 bits, wrapping (UB-Base §6.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// The number of distinct PSNs, 2^24.
    pub const SPACE: u32 = 1 << 24;

    /// A PSN from the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Psn(value & (Self::SPACE - 1))
    }

    /// The PSN as an integer below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The PSN `n` after this one.
    pub const fn plus(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_add(n))
    }

    /// The PSN `n` before this one.
    pub const fn minus(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_sub(n))
    }

    /// The next PSN.
    pub const fn next(self) -> Psn {
        self.plus(1)
    }

    /// Signed distance from `earlier` to `self`: positive if `self` is ahead, in
    /// −2^23 ..= 2^23−1.
    pub const fn distance_from(self, earlier: Psn) -> i32 {
        ((self.0.wrapping_sub(earlier.0) << 8) as i32) >> 8
    }

    /// True if `self` comes strictly before `other`, modulo 2^24.
    pub const fn is_before(self, other: Psn) -> bool {
        self.distance_from(other) < 0
    }
}
