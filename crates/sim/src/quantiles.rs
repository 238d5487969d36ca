//! Quantiles of many values.

/// Median, high percentiles and maximum of a set of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// The median.
    pub p50: u64,
    /// 99th percentile: one value of 100 is larger.
    pub p99: u64,
    /// 99.9th percentile: one value of 1,000 is larger.
    pub p999: u64,
    /// The largest.
    pub max: u64,
}

impl Quantiles {
    /// Computes the quantiles of `values`, by the nearest rank.
    pub fn of(mut values: Vec<u64>) -> Quantiles {
        values.sort_unstable();
        let rank = |permille: usize| {
            let rank = (values.len() * permille).div_ceil(1000).max(1);
            values.get(rank - 1).copied().unwrap_or(0)
        };
        Quantiles { p50: rank(500), p99: rank(990), p999: rank(999), max: rank(1000) }
    }
}
