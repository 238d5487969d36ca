//! Values of settings that are more than one number.

use super::LinkChange;
use super::quantity::{bytes, count, rate, time};
use crate::simulator::Marking;

/// Up to three numbers; 1 for those that are not there.
pub(super) fn three(text: &str, between: char) -> Option<[u32; 3]> {
    let mut numbers = [1; 3];
    let parts: Vec<&str> = text.split(between).collect();
    if parts.len() > 3 {
        return None;
    }
    for (number, part) in numbers.iter_mut().zip(&parts) {
        *number = count(part, 1, 1000)?;
    }
    Some(numbers)
}

/// `A-B@TIME..TIME` of a failure, `A-B@TIME:RATE` of another rate. A rate that is `u64::MAX` is the
/// link's own.
pub(super) fn link_changes(text: &str, fails: bool) -> Option<Vec<LinkChange>> {
    let (ends, when) = text.split_once('@')?;
    let (a, b) = ends.split_once('-')?;
    let (a, b) = (a.parse().ok()?, b.parse().ok()?);
    if !fails {
        let (at, new) = when.split_once(':')?;
        return Some(vec![(a, b, time(at)?, rate(new)?)]);
    }
    let (from, until) = when.split_once("..").unwrap_or((when, ""));
    let mut changes = vec![(a, b, time(from)?, 0)];
    if !until.is_empty() {
        changes.push((a, b, time(until)?, u64::MAX));
    }
    Some(changes)
}

/// `A-B@TIME:LATENCY`.
pub(super) fn delay(text: &str) -> Option<(u32, u32, u64, u32)> {
    let (ends, when) = text.split_once('@')?;
    let (a, b) = ends.split_once('-')?;
    let (at, latency) = when.split_once(':')?;
    let latency = u32::try_from(time(latency)?).ok()?;
    Some((a.parse().ok()?, b.parse().ok()?, time(at)?, latency))
}

pub(super) fn one_of(value: &str, names: &[&str]) -> Option<String> {
    names.contains(&value).then(|| String::from(value))
}

pub(super) fn marking(text: &str) -> Option<Marking> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        ["off"] => Some(Marking::Off),
        ["threshold", size] => Some(Marking::Threshold { bytes: bytes(size)? }),
        ["red", low, high, rest @ ..] if rest.len() < 2 => {
            let (low, high) = (bytes(low)?, bytes(high)?);
            let permille = rest.first().map_or(Some(1000), |share| count(share, 0, 1000))?;
            (low < high).then_some(Marking::Random { low, high, permille })
        }
        _ => None,
    }
}
