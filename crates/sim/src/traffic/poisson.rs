//! Flows with random start times and sizes.

use super::Flow;
use super::error::SizesError;
use fairway_device::random::Random;

/// A distribution of sizes, given by points of its cumulative distribution and linear between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes, and how many of a million flows are at most that large; both ascend, the latter to a
    /// million.
    points: Vec<(u32, u32)>,
}

/// Web search (Alizadeh et al., DCTCP, SIGCOMM 2010), by the points that simulators commonly use.
const WEB_SEARCH: [(u32, u32); 12] = [
    (1, 0),
    (10_000, 150_000),
    (20_000, 200_000),
    (30_000, 300_000),
    (50_000, 400_000),
    (80_000, 530_000),
    (200_000, 600_000),
    (1_000_000, 700_000),
    (2_000_000, 800_000),
    (5_000_000, 900_000),
    (10_000_000, 970_000),
    (30_000_000, 1_000_000),
];

/// Hadoop (Roy et al., SIGCOMM 2015), by the points that simulators commonly use.
const HADOOP: [(u32, u32); 15] = [
    (1, 0),
    (180, 100_000),
    (216, 200_000),
    (560, 300_000),
    (900, 400_000),
    (1_100, 500_000),
    (1_870, 600_000),
    (3_160, 700_000),
    (10_000, 800_000),
    (30_000, 850_000),
    (100_000, 900_000),
    (400_000, 950_000),
    (3_160_000, 980_000),
    (5_000_000, 990_000),
    (10_000_000, 1_000_000),
];

impl Sizes {
    /// Returns the distribution named `websearch` or `hadoop`.
    pub fn named(name: &str) -> Option<Sizes> {
        let points: &[(u32, u32)] = match name {
            "websearch" => &WEB_SEARCH,
            "hadoop" => &HADOOP,
            _ => return None,
        };
        Some(Sizes { points: points.to_vec() })
    }

    /// Parses a distribution with one point per line: bytes, and the percentage of flows that are
    /// at most that large. The last percentage is 100.
    ///
    /// # Errors
    /// Names the line.
    pub fn parse(text: &str) -> Result<Sizes, SizesError> {
        let mut points = vec![(1, 0)];
        for (at, line) in text.lines().enumerate() {
            let mut words = line.split('#').next().unwrap_or("").split_whitespace();
            let (Some(bytes), share) = (words.next(), words.next()) else { continue };
            let bytes = bytes.parse().ok().filter(|bytes| *bytes > 0);
            let share = share.and_then(per_million);
            let last = points[points.len() - 1];
            match (bytes, share) {
                (Some(bytes), Some(share)) if bytes >= last.0 && share >= last.1 => {
                    points.push((bytes, share));
                }
                _ => {
                    return Err(SizesError::Line { line: at + 1, text: line.trim().to_owned() });
                }
            }
        }
        match points.last() {
            Some((_, 1_000_000)) => Ok(Sizes { points }),
            _ => Err(SizesError::NotAll),
        }
    }

    fn draw(&self, random: &mut Random) -> u32 {
        let share = random.below(1_000_000) as u32;
        let above = self.points.partition_point(|point| point.1 <= share);
        let (low, high) = (self.points[above - 1], self.points[above]);
        let part = u64::from(high.0 - low.0) * u64::from(share - low.1) / u64::from(high.1 - low.1);
        (low.0 + part as u32).max(1)
    }

    /// Mean size, in bytes.
    fn mean(&self) -> u64 {
        let parts = self.points.windows(2).map(|pair| {
            u64::from(pair[1].1 - pair[0].1) * (u64::from(pair[0].0) + u64::from(pair[1].0))
        });
        (parts.sum::<u64>() / 2_000_000).max(1)
    }
}

/// Parses a percentage with up to four decimals into millionths.
fn per_million(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{decimals:0<4}");
    let number = whole.parse::<u32>().ok()?.checked_mul(10_000)?;
    let number = number.checked_add(digits.get(..4)?.parse().ok()?)?;
    (number <= 1_000_000).then_some(number)
}

/// Returns `count` flows that begin at random times (Poisson) between hosts drawn at random. All
/// hosts together send `load_percent` of what their links can carry.
pub fn poisson(
    hosts: u32,
    count: u32,
    sizes: &Sizes,
    load_percent: u32,
    megabits: u64,
    seed: u64,
) -> Vec<Flow> {
    let mut random = Random::fork(seed, 0x706F_6973);
    let rate = u128::from(megabits) * u128::from(hosts) * u128::from(load_percent.max(1));
    // Mean time between two flows of the whole network in picoseconds, times 2^16.
    let mean = ((u128::from(sizes.mean()) * 800_000_000) << 16) / rate.max(1);
    let mut now = 0u128;
    let flow = |_| {
        now += (mean * u128::from(negative_log(&mut random))) >> 32;
        let source = random.below(u64::from(hosts)) as u32;
        let other = random.below(u64::from(hosts) - 1) as u32;
        let destination = other + u32::from(other >= source);
        let start_ps = (now >> 16) as u64;
        Flow { start_ps, ..Flow::new(source, destination, sizes.draw(&mut random)) }
    };
    (0..count).map(flow).collect()
}

/// Returns `−ln u · 2^32` for a `u` drawn between 0 and 1. It is computed digit by digit in
/// integers, so that every machine draws the same.
fn negative_log(random: &mut Random) -> u64 {
    let drawn = random.number() | 1;
    let zeros = drawn.leading_zeros();
    // In [1, 2), with 63 bits behind the binary point.
    let mut x = drawn << zeros;
    let mut log = 0u64;
    for _ in 0..32 {
        let square = u128::from(x) * u128::from(x);
        let over = square >> 127;
        x = (square >> (63 + over)) as u64;
        log = log << 1 | over as u64;
    }
    // log2 u = −(zeros + 1) + log / 2^32, and ln 2 = 2977044472 / 2^32.
    let binary = (u64::from(zeros + 1) << 32) - log;
    ((u128::from(binary) * 2_977_044_472) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_a_uniform_number() {
        let mut random = Random::new(5);
        let mean = (0..100_000).map(|_| negative_log(&mut random)).sum::<u64>() / 100_000;
        let one = 1u64 << 32;
        assert!((one * 98 / 100..one * 102 / 100).contains(&mean), "{mean}");
    }

    #[test]
    fn flows_offer_the_configured_load() {
        for name in ["websearch", "hadoop"] {
            let sizes = Sizes::named(name).expect("a distribution");
            let flows = poisson(64, 50_000, &sizes, 50, 100_000, 1);
            let bytes: u64 = flows.iter().map(|flow| u64::from(flow.bytes)).sum();
            let span = flows.last().expect("flows").start_ps;
            let percent = u128::from(bytes) * 8_000_000 * 100 / u128::from(span) / (64 * 100_000);
            assert!((47..54).contains(&percent), "{name}: {percent} %");
            assert!(flows.iter().all(|flow| flow.source != flow.destination));
        }
    }

    #[test]
    fn sizes_are_read_from_a_file() {
        let sizes = Sizes::parse("# bytes, %\n1000 25\n2000 50.5\n2000 100\n").expect("a file");
        assert_eq!(sizes.points, [(1, 0), (1000, 250_000), (2000, 505_000), (2000, 1_000_000)]);
        assert!(Sizes::parse("1000 25\n").is_err() && Sizes::parse("10 50\n5 100").is_err());
    }
}
