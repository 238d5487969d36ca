//! Numbers with units, in human-readable text.

use std::fmt;

/// The value 1, in parts per thousand million.
pub(super) const WHOLE: u32 = 1_000_000_000;

const TIMES: &[(&str, u64)] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

const RATES: &[(&str, u64)] =
    &[("", 1), ("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];

const SIZES: &[(&str, u64)] = &[("", 1), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];

/// The fastest link. This keeps every intermediate product within 64 bits.
const RATE_MAX: u64 = 1_000_000_000_000_000;

/// Parses nanoseconds from `50us`, `1.5ms`, `2s` or `0`.
pub(super) fn time(text: &str) -> Option<u64> {
    if text == "0" { Some(0) } else { scaled(text, TIMES) }
}

/// Parses bits per second from `10G`, `2.5Gbps`, `100Mbit` or a plain number above zero, in powers
/// of 1000 and up to 1000T. Returns `None` for other text.
pub fn rate(text: &str) -> Option<u64> {
    let bare = text.strip_suffix("bit").or_else(|| text.strip_suffix("bps")).unwrap_or(text);
    scaled(bare, RATES).filter(|&rate| rate > 0 && rate <= RATE_MAX)
}

/// Parses bytes from `256K`, `1M`, `64KiB` or a plain number.
pub(super) fn size(text: &str) -> Option<u64> {
    let bare = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
    scaled(bare, SIZES)
}

/// Parses parts per thousand million from `1%` or `0.01`; at most the whole.
pub(super) fn fraction(text: &str) -> Option<u32> {
    let parts = match text.strip_suffix('%') {
        Some(percent) => scaled(percent, &[("", u64::from(WHOLE) / 100)])?,
        None => scaled(text, &[("", u64::from(WHOLE))])?,
    };
    u32::try_from(parts).ok().filter(|&parts| parts <= WHOLE)
}

/// Parses a decimal number times its unit, rounded down.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let unit = units.iter().find(|(name, _)| *name == suffix)?.1;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || decimals.len() > 9 || number.ends_with('.') {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let decimals_value: u64 = if decimals.is_empty() { 0 } else { decimals.parse().ok()? };
    let scale = 10u128.pow(decimals.len() as u32);
    let mantissa = u128::from(whole) * scale + u128::from(decimals_value);
    u64::try_from(mantissa * u128::from(unit) / scale).ok()
}

/// Writes `value` in the largest unit that divides it.
fn write_in(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fits = |unit: &&(&str, u64)| {
        let rest = value % unit.1;
        rest == 0 && (value > 0 || unit.1 == 1)
    };
    let (name, unit) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    write!(f, "{}{name}", value / unit)
}

/// Displays nanoseconds.
pub(super) struct Time(pub(super) u64);
/// Displays bits per second.
pub(super) struct Rate(pub(super) u64);
/// Displays bytes.
pub(super) struct Size(pub(super) u64);
/// Displays parts per thousand million.
pub(super) struct Fraction(pub(super) u32);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in(f, self.0, TIMES)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in(f, self.0, RATES)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in(f, self.0, SIZES)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = WHOLE / 100;
        write!(f, "{}", self.0 / percent)?;
        let rest = self.0 % percent;
        if rest != 0 {
            let decimals = format!("{rest:07}");
            write!(f, ".{}", decimals.trim_end_matches('0'))?;
        }
        f.write_str("%")
    }
}
