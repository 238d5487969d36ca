//! What switches write into the field CCI of data packets: C-AQM's hints, or how much of a link is
//! used.

use fairway_ub::wire::Cci;

/// Lengths of a port's data queue, in bytes, by which C-AQM's switches write hints. They do not
/// decrease: `low` ≤ `high` < `zero`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaqmSpec {
    /// Length at or below which a congested port is no longer congested.
    pub low: u32,
    /// Length above which a port is congested.
    pub high: u32,
    /// Length from which the hint is 0. Up to `low` it is 255, at `high` 128, and linear in
    /// between.
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
        let hint = match length > self.high {
            true => scale(length, self.high, self.zero, Cci::AT_THRESHOLD, 0),
            false => scale(length, self.low, self.high, u8::MAX, Cci::AT_THRESHOLD),
        };
        if *congested { Cci::congested(hint) } else { Cci::increase(hint) }
    }
}

/// The value of `length` on a line that falls from `most` at `from` to `least` at `to`.
fn scale(length: u32, from: u32, to: u32, most: u8, least: u8) -> u8 {
    let range = u64::from(to.saturating_sub(from).max(1));
    let left = range - u64::from(length.saturating_sub(from)).min(range);
    least + (u64::from(most - least) * left / range) as u8
}

/// What switches write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintSpec {
    /// C-AQM's hints.
    Caqm(CaqmSpec),
    /// How much of a port's link is used ([`Cci::of_link_use`]).
    LinkUse {
        /// Time over which the use is averaged, not 0.
        over_ps: u64,
    },
}

/// What a port remembers to write the field.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortTelemetry {
    /// C-AQM: the port is congested.
    pub(crate) congested: bool,
    /// Use of the link, in units of 1/[`Cci::FULL_LINK`].
    link_use: u64,
    /// When the last data packet began to leave, in picoseconds.
    left_ps: u64,
}

impl PortTelemetry {
    /// Counts a data packet that begins to leave at `now` and takes `takes_ps` on the link, while
    /// what is queued, this packet included, takes `waits_ps`. Returns the use of the link: of the
    /// last round trip as an average whose older part fades, and of the queue the part of a round
    /// trip that it takes to leave (HPCC's `U`, computed as PINT's switches do).
    pub(crate) fn count(&mut self, now: u64, over_ps: u64, takes_ps: u64, waits_ps: u64) -> u64 {
        let passed = now.saturating_sub(self.left_ps).min(over_ps);
        self.left_ps = now;
        let share = |ps: u64| (u128::from(ps) << 16) / u128::from(over_ps);
        let fades = u128::from(self.link_use) * u128::from(passed) / u128::from(over_ps);
        let waiting = share(waits_ps) * u128::from(passed) / u128::from(over_ps);
        self.link_use -= fades as u64;
        self.link_use = self.link_use.saturating_add((share(takes_ps) + waiting) as u64);
        self.link_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_link_settles_at_its_share_and_counts_the_queue() {
        let settle = |every: u64, waits| {
            let mut port = PortTelemetry::default();
            let uses = (1..2000).map(|packet| port.count(packet * every, 10_000, 100, waits));
            uses.last().unwrap() * 1000 / u64::from(Cci::FULL_LINK)
        };
        // Packets of 100 ps back to back, every second one missing, and none for a round trip.
        assert!(settle(100, 0).abs_diff(1000) < 10, "{}", settle(100, 0));
        assert!(settle(200, 0).abs_diff(500) < 10, "{}", settle(200, 0));
        assert_eq!(settle(50_000, 0), 9, "the packet alone");
        // Half a round trip of packets waits.
        assert!(settle(100, 5_000).abs_diff(1500) < 10, "{}", settle(100, 5_000));
    }

    #[test]
    fn a_port_is_congested_from_above_high_until_it_is_down_to_low() {
        let spec = CaqmSpec { low: 8192, high: 32_768, zero: 36_864 };
        let mut congested = false;
        let mut at = |length| spec.write(&mut congested, length);
        assert_eq!(at(4096), Cci::increase(255));
        assert_eq!(at(8192), Cci::increase(255));
        // Half of the way from LOW to HIGH, and HIGH.
        assert_eq!(at(20_480), Cci::increase(191));
        assert_eq!(at(32_768), Cci::increase(128));
        // 1,024 of 4,096 bytes above: three quarters of 128.
        assert_eq!(at(33_792), Cci::congested(96));
        assert_eq!(at(40_000), Cci::congested(0));
        assert_eq!(at(8193), Cci::congested(254));
        assert_eq!(at(8192), Cci::increase(255));
        assert_eq!(at(8193), Cci::increase(254));
    }
}
