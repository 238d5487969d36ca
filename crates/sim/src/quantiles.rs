//! Quantiles of many values.

/// A few numbers of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// The median.
    pub p50: u64,
    /// Of 100, 1 is larger.
    pub p99: u64,
    /// Of 1,000, 1 is larger.
    pub p999: u64,
    /// The largest.
    pub max: u64,
}

impl Quantiles {
    /// Of `values`, by the nearest rank.
    pub fn of(mut values: Vec<u64>) -> Quantiles {
        values.sort_unstable();
        let rank = |permille: usize| {
            let rank = (values.len() * permille).div_ceil(1000).max(1);
            values.get(rank - 1).copied().unwrap_or(0)
        };
        Quantiles { p50: rank(500), p99: rank(990), p999: rank(999), max: rank(1000) }
    }
}
