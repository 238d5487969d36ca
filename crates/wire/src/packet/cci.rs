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

    /// A queue on the way is congested (C).
    pub const fn congested(hint: u8) -> Cci {
        Cci(Self::CONGESTED | hint as u16)
    }

    /// The sender may send more (I).
    pub const fn increase(hint: u8) -> Cci {
        Cci(Self::INCREASE | hint as u16)
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
