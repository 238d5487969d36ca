//! Probes by name: `periodic:100us`, `sampled:1M`, `anomaly:2`.

use super::PolicyError;
use super::parameters::{
    BYTE_UNITS, TIME_UNITS, parse_bytes, parse_count, parse_time, write_quantity,
};
use crate::ProbeSpec;
use alloc::borrow::ToOwned;
use core::fmt;

pub(super) fn periodic(parameters: &str) -> Result<ProbeSpec, PolicyError> {
    let known = "it takes the time in which all paths are probed, at least 10us, as 100us";
    let interval = match parameters {
        "" => Some(ProbeSpec::DEFAULT_INTERVAL),
        text => parse_time(text).filter(|interval| *interval >= ProbeSpec::SHORTEST),
    };
    let interval = interval.ok_or_else(|| bad(ProbeSpec::PERIODIC, parameters, known))?;
    Ok(ProbeSpec::Periodic { interval })
}

pub(super) fn sampled(parameters: &str) -> Result<ProbeSpec, PolicyError> {
    let known = "it takes the bytes after which a path is probed, at least 4K, as 1M";
    let bytes = match parameters {
        "" => Some(ProbeSpec::DEFAULT_BYTES),
        text => parse_bytes(text).filter(|bytes| *bytes >= ProbeSpec::FEWEST_BYTES),
    };
    let bytes = bytes.ok_or_else(|| bad(ProbeSpec::SAMPLED, parameters, known))?;
    Ok(ProbeSpec::Sampled { bytes })
}

pub(super) fn anomaly(parameters: &str) -> Result<ProbeSpec, PolicyError> {
    let known = "it takes how many times the least round trip is one, 1 to 1000, as 2";
    let times = match parameters {
        "" => Some(ProbeSpec::DEFAULT_TIMES),
        text => {
            parse_count(text).filter(|times| (1..=1000).contains(times)).map(|times| times as u32)
        }
    };
    let times = times.ok_or_else(|| bad(ProbeSpec::ANOMALY, parameters, known))?;
    Ok(ProbeSpec::Anomaly { times })
}

fn bad(name: &'static str, parameters: &str, known: &'static str) -> PolicyError {
    PolicyError::BadParameter { name, parameter: parameters.to_owned(), known }
}

impl fmt::Display for ProbeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ProbeSpec::Off => f.write_str(ProbeSpec::OFF),
            ProbeSpec::Periodic { interval } => {
                write!(f, "{}:", ProbeSpec::PERIODIC)?;
                write_quantity(f, interval.as_ns(), &TIME_UNITS)
            }
            ProbeSpec::Sampled { bytes } => {
                write!(f, "{}:", ProbeSpec::SAMPLED)?;
                write_quantity(f, bytes, &BYTE_UNITS)
            }
            ProbeSpec::Anomaly { times } => write!(f, "{}:{times}", ProbeSpec::ANOMALY),
        }
    }
}
