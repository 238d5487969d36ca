//! Parsers and formatters of quantities with units.

use crate::scenario::LINK_MEGABITS;

/// Parses bytes, with `K`, `M` or `G` (powers of 1024).
pub(crate) fn bytes(text: &str) -> Option<u32> {
    let (digits, shift) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 20),
            None => text.strip_suffix('G').map_or((text, 0), |digits| (digits, 30)),
        },
    };
    u32::try_from(digits.parse::<u64>().ok()?.checked_mul(1 << shift)?).ok()
}

/// Parses a number within bounds.
pub(crate) fn count(text: &str, least: u32, most: u32) -> Option<u32> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

/// Parses a rate such as `400G`, `0.5G`, `2T` or `1M` (powers of 1000), with `bps` or without, into
/// whole megabits per second.
pub(crate) fn rate(text: &str) -> Option<u64> {
    let text = text.strip_suffix("bps").unwrap_or(text);
    let units = [('M', 1), ('G', 1000), ('T', 1_000_000)];
    let (unit, factor) = units.into_iter().find(|(unit, _)| text.ends_with(*unit))?;
    let megabits = scaled(text.strip_suffix(unit)?, factor)?;
    LINK_MEGABITS.contains(&megabits).then_some(megabits)
}

/// Parses a decimal number and multiplies it by `factor`; `None` unless the product is a whole
/// number.
fn scaled(text: &str, factor: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let all = whole.bytes().chain(part.bytes()).all(|digit| digit.is_ascii_digit());
    if !all || whole.is_empty() || text.ends_with('.') || part.len() > 12 {
        return None;
    }
    let number: u64 = format!("{whole}{part}").parse().ok()?;
    let product = u128::from(number) * u128::from(factor);
    let parts = 10u128.pow(part.len() as u32);
    product.is_multiple_of(parts).then(|| u64::try_from(product / parts).ok()).flatten()
}

/// Maximum of a time that is added to others, and of the end of a run, in picoseconds: 1,000 s.
pub(crate) const SPAN_MAX: u64 = 1_000_000_000_000_000;

/// Parses a time that is added to others, of at most [`SPAN_MAX`].
pub(crate) fn span(text: &str) -> Option<u64> {
    time(text).filter(|ps| *ps <= SPAN_MAX)
}

/// Parses a time such as `1us`, `0.5ms`, `500ns`, `1s` or `250ps` into picoseconds; `0` needs no
/// unit.
pub(crate) fn time(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (digits, unit) = text.split_at(split);
    let factor = match unit {
        "ps" => 1,
        "ns" => 1000,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000_000,
        "ms" => 1_000_000_000,
        "s" => 1_000_000_000_000,
        _ => return None,
    };
    scaled(digits, factor)
}

/// Parses a probability of at most a half, as `0.0001` or `0.01%`, and multiplies it by 2^32.
pub(crate) fn chance(text: &str) -> Option<u32> {
    let (digits, percent) = match text.strip_suffix('%') {
        Some(digits) => (digits, 2),
        None => (text, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all = whole.bytes().chain(part.bytes()).all(|digit| digit.is_ascii_digit());
    if !all || part.len() > 9 || whole.is_empty() {
        return None;
    }
    let number: u64 = format!("{whole}{part}").parse().ok()?;
    let scale = 10u64.pow(part.len() as u32 + percent);
    let chance = (u128::from(number) << 32) / u128::from(scale);
    u32::try_from(chance).ok().filter(|chance| *chance <= 1 << 31)
}

/// Formats a rate so that [`rate`] can parse it.
pub(crate) fn show_rate(megabits: u64) -> String {
    match megabits {
        1000.. if megabits.is_multiple_of(1000) => format!("{}G", megabits / 1000),
        _ => format!("{megabits}M"),
    }
}

/// Formats a time so that [`time`] can parse it.
pub(crate) fn show_time(ps: u64) -> String {
    let units = [(1_000_000_000, "ms"), (1_000_000, "us"), (1000, "ns")];
    let unit = units.iter().find(|(factor, _)| ps >= *factor && ps.is_multiple_of(*factor));
    unit.map_or_else(|| format!("{ps}ps"), |(factor, name)| format!("{}{name}", ps / factor))
}
