//! Ranges of the builder's values.

use std::ops::RangeInclusive;

use fairway_ub::wire::PATHS_MAX;
use fairway_ub::{LimitError, Limits};

use crate::error::Error;

/// Most samples of each kind that may be measured: they take 2 GiB.
pub(super) const CONTROL_LATENCY_MAX: usize = 1 << 28;

/// Checks that a value is within its range.
pub(super) fn check(
    name: &'static str,
    value: usize,
    range: RangeInclusive<usize>,
    remedy: &'static str,
) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(Error::Parameter { name, value: value.to_string(), remedy })
}

/// Checks the limits of a context that has so many paths to each peer.
pub(super) fn check_limits(limits: &Limits, paths: u32) -> Result<(), Error> {
    check("paths", paths as usize, 1..=usize::from(PATHS_MAX), "use 1 to 256")?;
    if paths > limits.paths {
        return Err(Error::Parameter {
            name: "paths",
            value: format!("{paths} with Limits::paths({})", limits.paths),
            remedy: "ask for fewer by Builder::paths, or raise Limits::paths",
        });
    }
    limits.check().map_err(|LimitError { name, value, remedy, .. }| Error::Parameter {
        name,
        value: value.to_string(),
        remedy,
    })?;
    // Without these, operations would wait for ever, some of them at the peer.
    for (name, value, least) in [
        ("messages", limits.messages, 1),
        ("arrivals", limits.arrivals, 1),
        ("withheld", limits.withheld, 1),
        ("bitmap_blocks", limits.bitmap_blocks, 1),
        ("send_blocks", limits.send_blocks, 2),
    ] {
        check(name, value as usize, least..=u32::MAX as usize, "use a higher limit")?;
    }
    Ok(())
}
