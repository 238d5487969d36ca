//! Sizes, times and rates as users write them.

use std::time::Duration;

use thiserror::Error;

/// Reasons why an argument is not a valid value of its option.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum ValueError {
    /// A size is expected.
    #[error("'{0}' is no size: write bytes as 64, or with K, M or G (powers of 1024) as 64K")]
    Size(String),
    /// Two sizes are expected, the smaller one first.
    #[error("'{0}' is no range of sizes: write the smaller, above zero, first, as in 2..8M")]
    SizeRange(String),
    /// An operation has fewer bytes.
    #[error("{0}: at most 4294967295 bytes are possible")]
    Bytes(String),
    /// A time is expected.
    #[error("'{0}' is no time: write it with its unit, as 5s, 200ms or 50us")]
    Time(String),
    /// A time above zero is expected.
    #[error(
        "'{0}' is no time in which anything can be measured: write more than 0, as 5s or 200ms"
    )]
    ZeroTime(String),
    /// An interval between two looks at running programs is too short.
    #[error("'{0}' is too short, because each look takes time of the programs: 10ms or more")]
    Interval(String),
    /// A rate is expected.
    #[error("'{0}' is no rate: write bits per second, as 10Gbps or 400Mbps")]
    Rate(String),
    /// A time is too short for the detection of a dead peer.
    #[error("{0} is shorter than ordinary silences: use 100ms or more")]
    Silence(String),
    /// A share of a disk is expected.
    #[error("{0} is no share of a disk: write it as 5% (0 to 100), or 10G")]
    Share(String),
    /// A size and a count are expected.
    #[error("'{0}': write SIZE or SIZE*COUNT, as 64K*3")]
    SizeCount(String),
    /// A list has no flows, or too many.
    #[error("'{item}' makes {flows} flows: choose 1 to {most} in all")]
    Flows {
        /// The item of the list that exceeds the limit.
        item: String,
        /// Number of flows including that item.
        flows: usize,
        /// Largest allowed number.
        most: usize,
    },
    /// A tenant is expected.
    #[error("'{0}' is no tenant: write NUMBER or NUMBER:WEIGHT, as 1:3")]
    Tenant(String),
    /// One of several names is expected.
    #[error("one of {names} is wanted")]
    OneOf {
        /// The names.
        names: String,
    },
    /// A local address is expected.
    #[error("'{0}' is no local address: write 0.0.0.0, 192.0.2.1:4800 or [::]:4800")]
    LocalAddress(String),
    /// No interface has the name or number after `%`.
    #[error(
        "'{0}' names no interface of this host after '%': write its name or its number, as \
         fe80::1%eth0 or fe80::1%2"
    )]
    Zone(String),
    /// An address with ports is expected.
    #[error(
        "'{0}' is no address with at most 64 ports: write 127.0.0.1:4800 or 127.0.0.1:4800-4803"
    )]
    Ports(String),
    /// An address for metrics is expected.
    #[error("'{0}' is no address for metrics: write 9400, 0.0.0.0:9400 or [::1]:9400")]
    Metrics(String),
    /// Numbers of cores are expected.
    #[error("'{0}' names no cores: write 0, or 0,1 for both sides, or none")]
    Cores(String),
    /// The beginning of namespace names is expected.
    #[error("'{0}' cannot begin a namespace's name: write 1 to 32 letters, digits, - and _, as fw")]
    Prefix(String),
    /// A share of one address is expected.
    #[error("'{0}' is no share: write it as 75% (1 to 100)")]
    Portion(String),
    /// A description of emulated paths is wrong.
    #[error(transparent)]
    Spec(#[from] fairway_port::SpecError),
    /// A list of resources to watch is wrong.
    #[error(transparent)]
    HostPressure(#[from] fairway::HostPressureError),
    /// A policy is wrong.
    #[error(transparent)]
    Policies(#[from] fairway::PoliciesError),
    /// A link and a file are expected.
    #[error("'{0}' names no link and file: write them as 0-16:out.pcap")]
    Tap(String),
    /// The file of a picture has none of the known endings.
    #[error("'{0}' has no known ending: pictures are .svg or .html, as result.svg")]
    Picture(String),
    /// A setting and its values are expected.
    #[error(
        "'{text}': {wrong}: write a sweep as bytes=64K,1M,16M, or with semicolons where values \
         have commas, as 'policy=cc=nscc,path=reps;cc=swift'"
    )]
    Sweep {
        /// The text that was given.
        text: String,
        /// What is wrong with it.
        wrong: &'static str,
    },
}

const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

/// Parses bytes, such as `64`, `64K`, `8M` or `1G` (powers of 1024); `KiB` and `KB` mean the same
/// as `K`.
pub(crate) fn size(text: &str) -> Result<u64, ValueError> {
    let wrong = || ValueError::Size(text.to_owned());
    let bare = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
    let unit = bare
        .chars()
        .last()
        .and_then(|last| UNITS.iter().find(|(letter, _)| last.to_ascii_uppercase() == *letter));
    let (digits, shift) = match unit {
        Some((_, shift)) => (&bare[..bare.len() - 1], *shift),
        None => (bare, 0),
    };
    let number = plain(digits).ok_or_else(wrong)?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// Parses sizes that double from the first to the last, such as `2..8M`; a single size is one row.
pub(crate) fn sizes(text: &str) -> Result<(u64, u64), ValueError> {
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (size(first)?, size(last)?),
        None => (size(text)?, size(text)?),
    };
    if first == 0 || first > last {
        return Err(ValueError::SizeRange(text.to_owned()));
    }
    Ok((first, last))
}

/// Parses a time, such as `5s`, `200ms`, `50us` or `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration, ValueError> {
    let wrong = || ValueError::Time(text.to_owned());
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (digits, unit) = text.split_at(split);
    let seconds = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

/// Parses a time above zero.
pub(crate) fn span(text: &str) -> Result<Duration, ValueError> {
    let span = duration(text)?;
    if span.is_zero() { Err(ValueError::ZeroTime(text.to_owned())) } else { Ok(span) }
}

/// Parses bits per second, such as `10Gbps`, `10G`, `400Mbps` or `1000000` (powers of 1000).
pub(crate) fn rate(text: &str) -> Result<u64, ValueError> {
    fairway_port::rate(text).ok_or_else(|| ValueError::Rate(text.to_owned()))
}

/// Prints bytes in the largest unit that divides them.
pub(crate) fn show_size(bytes: u64) -> String {
    let unit = UNITS.iter().rev().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((letter, shift)) => format!("{}{letter}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// Parses a number that consists of digits only.
fn plain(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in
            [("64", 64), ("64K", 65_536), ("64k", 65_536), ("8MiB", 8 << 20), ("1G", 1 << 30)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1.5K", "64Q", "99999999999T", "+4"] {
            assert!(size(text).is_err_and(|error| error.to_string().contains("64K")), "{text}");
        }
        assert_eq!(show_size(65_536), "64K");
        assert_eq!(show_size(1000), "1000");
        assert_eq!(show_size(0), "0");
    }

    #[test]
    fn ranges_go_up() {
        assert_eq!(sizes("2..8M"), Ok((2, 8 << 20)));
        assert_eq!(sizes("64"), Ok((64, 64)));
        for text in ["8..2", "0..2", "..", "2..x"] {
            assert!(sizes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_in_powers_of_a_thousand() {
        for (text, bits) in [
            ("10Gbps", 10_000_000_000),
            ("2.5G", 2_500_000_000),
            ("400Mbit", 400_000_000),
            ("7", 7),
        ] {
            assert_eq!(rate(text), Ok(bits), "{text}");
        }
        for text in ["", "0", "G", "-1G", "nan", "inf", "1e9", "9999999T", "10Q"] {
            assert!(rate(text).is_err_and(|error| error.to_string().contains("10Gbps")), "{text}");
        }
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!(span("0s"), Err(ValueError::ZeroTime("0s".into())));
        assert_eq!(span("1ns"), Ok(Duration::from_nanos(1)));
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("1.5ms"), Ok(Duration::from_micros(1500)));
        for text in ["5", "s", "", "5 s", "5h", "..s"] {
            assert!(
                duration(text).is_err_and(|error| error.to_string().contains("200ms")),
                "{text}"
            );
        }
    }
}
