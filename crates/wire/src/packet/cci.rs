//! The congestion information that switches write into data packets (NTH CCI).

/// Congestion information (UB §5.2.2): C, I and an 8-bit hint.
///
/// The sender sends zero, which requests an increase. A switch on the way writes the field, and the
/// receiver echoes it in its acknowledgements. No check protects it, so it may only influence how
/// much is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cci(u16);

impl Cci {
    /// No switch has written the field.
    pub const NONE: Cci = Cci(0);
    const CONGESTED: u16 = 1 << 15;
    const INCREASE: u16 = 1 << 14;
    const HINT: u16 = 0xFF;

    /// The hint of a switch whose queue is as long as its threshold: higher ones grant an increase,
    /// and the more the shorter the queue is; lower ones ask for a decrease.
    pub const AT_THRESHOLD: u8 = 128;

    /// A queue on the way is congested (C).
    pub const fn congested(hint: u8) -> Cci {
        Cci(Self::CONGESTED | hint as u16)
    }

    /// The sender may send more (I).
    pub const fn increase(hint: u8) -> Cci {
        Cci(Self::INCREASE | hint as u16)
    }

    /// A link that carries all it can, as [`Cci::link_use`] tells it.
    pub const FULL_LINK: u32 = 1 << 16;
    /// Codes per doubling of the use, and the code of a full link.
    const CODES: u32 = 32;
    const FULL_CODE: u32 = 160;

    /// How much of a link is used, in units of 1/[`Cci::FULL_LINK`] of what it can carry: I, with a
    /// hint that falls by 32 for each doubling and is 95 for a full link. It has steps of 2 %,
    /// from 3 % to 7.8 times a full link. The worst of two fields is that of the busier link.
    pub const fn of_link_use(link_use: u64) -> Cci {
        let lowest = Self::FULL_LINK.ilog2() - Self::FULL_CODE / Self::CODES;
        let octave = match link_use.checked_ilog2() {
            Some(log) if log >= lowest => log - lowest,
            _ => 0,
        };
        let mut code = if octave > 7 { 255 } else { octave * Self::CODES };
        while code < 255 && Self::use_of_code(code + 1) as u64 <= link_use {
            code += 1;
        }
        Cci::increase(255 - code as u8)
    }

    /// The use of the busiest link, in units of 1/[`Cci::FULL_LINK`], by switches that write
    /// [`Cci::of_link_use`].
    pub const fn link_use(self) -> u32 {
        Self::use_of_code(255 - self.hint() as u32)
    }

    /// 2^((code − 160)/32), in units of 2^-16.
    const fn use_of_code(code: u32) -> u32 {
        // 2^(n/32) · 2^16 for n = 0 to 31, rounded down.
        const ROOTS: [u32; 32] = {
            let mut roots = [0; 32];
            let mut n = 0;
            while n < 32 {
                roots[n] = Cci::root(n as u32);
                n += 1;
            }
            roots
        };
        let root = ROOTS[(code % Self::CODES) as usize];
        let (octave, full) = (code / Self::CODES, Self::FULL_CODE / Self::CODES);
        if octave >= full { root << (octave - full) } else { root >> (full - octave) }
    }

    /// The largest number whose 32nd power is at most 2^n, in units of 2^-16: by bisection, with 24
    /// more bits in between.
    const fn root(n: u32) -> u32 {
        let (mut low, mut high) = (1u64 << 16, 2u64 << 16);
        while high - low > 1 {
            let middle = (low + high) / 2;
            // Five squarings make the 32nd power; each is rounded down to 40 bits of fraction.
            let mut power = (middle as u128) << 24;
            let mut squarings = 0;
            while squarings < 5 {
                power = (power * power) >> 40;
                squarings += 1;
            }
            if power <= 1u128 << (40 + n) { low = middle } else { high = middle }
        }
        low as u32
    }

    /// The field with these bits. Reserved bits are dropped.
    pub const fn from_bits(bits: u16) -> Cci {
        Cci(bits & (Self::CONGESTED | Self::INCREASE | Self::HINT))
    }

    /// The field's 16 bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// True if a switch has written the field.
    pub const fn is_written(self) -> bool {
        self.0 != 0
    }

    /// True if a queue on the way is congested (C).
    pub const fn is_congested(self) -> bool {
        self.0 & Self::CONGESTED != 0
    }

    /// True if every switch on the way grants an increase (I) and none is congested.
    pub const fn may_increase(self) -> bool {
        self.0 & (Self::INCREASE | Self::CONGESTED) == Self::INCREASE
    }

    /// The hint: 255 if the longest queue is below the switch's threshold, 0 if it is far above.
    pub const fn hint(self) -> u8 {
        self.0 as u8
    }

    /// Combines the information of two switches or of two packets: C if either has it, I if both
    /// have it, and the lower hint. A field that no switch has written does not count.
    #[must_use]
    pub fn worst(self, other: Cci) -> Cci {
        match (self.is_written(), other.is_written()) {
            (_, false) => self,
            (false, _) => other,
            _ => {
                let both = self.0 & other.0 & Self::INCREASE;
                let either = (self.0 | other.0) & Self::CONGESTED;
                let hint = self.hint().min(other.hint());
                // Without C and I, a hint of 0 would read as a field that no switch has written.
                let granted = if either == 0 { both } else { 0 };
                let bits = either | granted | u16::from(hint);
                Cci(if bits == 0 { Self::CONGESTED } else { bits })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_link_has_steps_of_two_per_cent() {
        let full = u64::from(Cci::FULL_LINK);
        assert_eq!(Cci::of_link_use(full), Cci::increase(95));
        assert_eq!(Cci::of_link_use(full).link_use(), Cci::FULL_LINK);
        assert_eq!(Cci::of_link_use(2 * full), Cci::increase(63));
        assert_eq!(Cci::of_link_use(full / 2).link_use(), Cci::FULL_LINK / 2);
        assert_eq!((Cci::of_link_use(0).hint(), Cci::of_link_use(u64::MAX).hint()), (255, 0));
        for permille in (40..7700).step_by(7) {
            let told = Cci::of_link_use(full * permille / 1000).link_use();
            let told = u64::from(told) * 1000 / full;
            assert!(told <= permille && told * 1023 / 1000 + 2 >= permille, "{permille} {told}");
        }
        let (busy, idle) = (Cci::of_link_use(full), Cci::of_link_use(full / 3));
        assert_eq!((busy.worst(idle), idle.worst(busy)), (busy, busy));
    }

    #[test]
    fn the_worst_of_two_fields_is_that_of_the_more_congested_switch() {
        let free = Cci::increase(255);
        assert_eq!(free.bits(), 0x40FF);
        assert_eq!(Cci::NONE.worst(free), free);
        assert_eq!(free.worst(Cci::NONE), free);
        assert_eq!(free.worst(Cci::increase(100)), Cci::increase(100));
        assert_eq!(free.worst(Cci::congested(7)), Cci::congested(7));
        assert_eq!(Cci::congested(7).worst(Cci::congested(3)), Cci::congested(3));
        assert!(free.may_increase() && !Cci::congested(255).may_increase());
    }

    #[test]
    fn fields_of_hostile_bits_combine_in_any_order_and_stay_written() {
        for a in (0..=u16::MAX).step_by(251).map(Cci::from_bits) {
            for b in (0..=u16::MAX).step_by(509).map(Cci::from_bits) {
                let worst = a.worst(b);
                assert_eq!(worst, b.worst(a));
                assert_eq!(worst.is_written(), a.is_written() || b.is_written());
            }
        }
    }
}
