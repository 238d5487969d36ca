//! What switches write into the field CCI of data packets: the rule of C-AQM.

use fairway_ub::wire::Cci;

/// Lengths of a port's data queue, in bytes, by which C-AQM's switches write hints. They do not
/// decrease: `low` ≤ `high` < `zero`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaqmSpec {
    /// Length at or below which a congested port is no longer congested.
    pub low: u32,
    /// Length above which a port is congested.
    pub high: u32,
    /// Length from which the hint is 0. Up to `high` it is 255, and linear in between.
    pub zero: u32,
}

impl CaqmSpec {
    /// Thresholds for a queue of `bytes`: a fifth, two fifths and four fifths of it.
    pub fn of_queue(bytes: u32) -> CaqmSpec {
        CaqmSpec { low: bytes / 5, high: bytes / 5 * 2, zero: bytes / 5 * 4 }
    }

    /// Returns what a port writes into a packet that leaves a queue of `length` bytes, this packet
    /// included. `congested` is the state of the port.
    pub(crate) fn write(&self, congested: &mut bool, length: u32) -> Cci {
        *congested = length > if *congested { self.low } else { self.high };
        let range = u64::from(self.zero.saturating_sub(self.high).max(1));
        let above = u64::from(length.saturating_sub(self.high)).min(range);
        let hint = (255 * (range - above) / range) as u8;
        if *congested { Cci::congested(hint) } else { Cci::increase(hint) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_congested_from_above_high_until_it_is_down_to_low() {
        let spec = CaqmSpec { low: 8192, high: 32_768, zero: 36_864 };
        let mut congested = false;
        let mut at = |length| spec.write(&mut congested, length);
        assert_eq!(at(4096), Cci::increase(255));
        assert_eq!(at(32_768), Cci::increase(255));
        // 1,024 of 4,096 bytes above: three quarters of 255.
        assert_eq!(at(33_792), Cci::congested(191));
        assert_eq!(at(40_000), Cci::congested(0));
        assert_eq!(at(8193), Cci::congested(255));
        assert_eq!(at(8192), Cci::increase(255));
        assert_eq!(at(8193), Cci::increase(255));
    }
}
