//! The model's own seeded generator, separate from those of the engines.

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x6A09_E667_F3BC_C909)
    }

    /// Draws a number of 64 bits.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Draws a number below `end`, which must not be zero.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// Draws a number from 0 to less than 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws from the exponential distribution with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

/// Hashes a number, so that adjacent numbers give unrelated results.
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Zipf's distribution over `0..count` (Gray et al., SIGMOD 1994, in YCSB's form).
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    count: u64,
    theta: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    pub(crate) fn new(count: u64, theta: f64) -> Zipf {
        // The method divides by zero at 1.
        let theta = if (theta - 1.0).abs() < 1e-6 { 1.0 - 1e-6 } else { theta };
        let sum = |upto: u64| (1..=upto).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
        let (zeta, two) = (sum(count), sum(2));
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - theta)) / (1.0 - two / zeta);
        Zipf { count, theta, zeta, alpha: 1.0 / (1.0 - theta), eta }
    }

    /// Draws a rank; 0 is the most popular.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let rank = self.count as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }
}
