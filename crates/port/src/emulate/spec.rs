//! Impairments of each path, as text.
//!
//! `delay=50us,loss=1%` applies to every path. `*:delay=10us;1:loss=5%;2:blackhole@0s..5s` gives
//! all paths a delay, and two of them further impairments. Later entries refine earlier ones.

use std::fmt;
use std::str::FromStr;

use crate::emulate::quantity::{self, Fraction, Rate, Size, Time};
use crate::limits::DEFAULT_QUEUE_BYTES;

/// Impairments, by path. They are parsed from text, and displayed as text that parses to the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    pub(super) clauses: Vec<Clause>,
}

/// Settings for one path, or for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clause {
    /// The path; `None`: every path.
    pub(super) path: Option<usize>,
    pub(super) settings: Settings,
}

/// Settings of a clause; those that it omits stay as earlier clauses set them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) delay_ns: Option<u64>,
    pub(super) jitter_ns: Option<u64>,
    pub(super) loss: Option<u32>,
    pub(super) reorder: Option<u32>,
    pub(super) duplication: Option<u32>,
    pub(super) rate: Option<u64>,
    pub(super) queue_bytes: Option<u64>,
    pub(super) ecn_bytes: Option<u64>,
    pub(super) longest: Option<u64>,
    pub(super) blackholes: Vec<Window>,
}

/// A span of time, from `from_ns` up to and excluding `until_ns`, counted from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first nanosecond of the span.
    pub from_ns: u64,
    /// The first nanosecond after the span; `u64::MAX` if it has no end.
    pub until_ns: u64,
}

/// Impairments of one path: a [`Spec`] resolved for that path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Delay of every packet, in nanoseconds.
    pub delay_ns: u64,
    /// Maximum addition to the delay, uniformly distributed; it never changes the order of packets.
    pub jitter_ns: u64,
    /// Packets lost, in parts per thousand million.
    pub loss: u32,
    /// Maximum number of positions by which a packet is displaced; zero preserves the order.
    pub reorder: u32,
    /// Packets that arrive twice, in parts per thousand million.
    pub duplication: u32,
    /// Link rate in bits per second, if limited.
    pub rate: Option<u64>,
    /// Bytes that may wait for a limited link; packets beyond that are dropped.
    pub queue_bytes: u64,
    /// Number of waiting bytes from which packets are ECN-marked, if at all.
    pub ecn_bytes: Option<u64>,
    /// Bytes of the longest packet that gets through, excluding headers of UDP and IP. Longer
    /// packets are lost, as in a network that drops long packets without reporting it.
    pub longest: Option<u64>,
    /// Spans of time in which nothing gets through.
    pub blackholes: Vec<Window>,
}

/// Error for text that is not a specification: names the wrong part, and what is accepted instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    text: String,
    accepted: &'static str,
}

impl Spec {
    /// The highest number of a path in the specification, if it names any.
    pub fn last_path(&self) -> Option<usize> {
        self.clauses.iter().filter_map(|clause| clause.path).max()
    }

    /// Returns the impairments of `path`.
    pub fn for_path(&self, path: usize) -> Conditions {
        let mut all = Settings::default();
        for clause in &self.clauses {
            if clause.path.is_none_or(|number| number == path) {
                all.refine(&clause.settings);
            }
        }
        Conditions {
            delay_ns: all.delay_ns.unwrap_or(0),
            jitter_ns: all.jitter_ns.unwrap_or(0),
            loss: all.loss.unwrap_or(0),
            reorder: all.reorder.unwrap_or(0),
            duplication: all.duplication.unwrap_or(0),
            rate: all.rate,
            queue_bytes: all.queue_bytes.unwrap_or(DEFAULT_QUEUE_BYTES),
            ecn_bytes: all.ecn_bytes,
            longest: all.longest,
            blackholes: all.blackholes,
        }
    }
}

impl Conditions {
    /// True if packets pass unchanged and without delay.
    pub fn is_clean(&self) -> bool {
        self.delay_ns == 0
            && self.jitter_ns == 0
            && self.loss == 0
            && self.reorder == 0
            && self.duplication == 0
            && self.rate.is_none()
            && self.longest.is_none()
            && self.blackholes.is_empty()
    }
}

impl Settings {
    fn refine(&mut self, later: &Settings) {
        self.delay_ns = later.delay_ns.or(self.delay_ns);
        self.jitter_ns = later.jitter_ns.or(self.jitter_ns);
        self.loss = later.loss.or(self.loss);
        self.reorder = later.reorder.or(self.reorder);
        self.duplication = later.duplication.or(self.duplication);
        self.rate = later.rate.or(self.rate);
        self.queue_bytes = later.queue_bytes.or(self.queue_bytes);
        self.ecn_bytes = later.ecn_bytes.or(self.ecn_bytes);
        self.longest = later.longest.or(self.longest);
        if !later.blackholes.is_empty() {
            self.blackholes.clone_from(&later.blackholes);
        }
    }

    fn set(&mut self, text: &str) -> Result<(), SpecError> {
        if let Some(window) = text.strip_prefix("blackhole@") {
            self.blackholes.push(parse_window(window)?);
            return Ok(());
        }
        let (key, value) = text.split_once('=').ok_or_else(|| wrong(text, SETTINGS))?;
        match key.trim() {
            "delay" => self.delay_ns = Some(parse(value, quantity::time, TIME)?),
            "jitter" => self.jitter_ns = Some(parse(value, quantity::time, TIME)?),
            "loss" => self.loss = Some(parse(value, quantity::fraction, FRACTION)?),
            "dup" => self.duplication = Some(parse(value, quantity::fraction, FRACTION)?),
            "reorder" => self.reorder = Some(parse(value, positions, POSITIONS)?),
            "rate" => self.rate = Some(parse(value, quantity::rate, RATE)?),
            "queue" => self.queue_bytes = Some(parse(value, quantity::size, SIZE)?),
            "ecn" => self.ecn_bytes = Some(parse(value, quantity::size, SIZE)?),
            "longest" => self.longest = Some(parse(value, quantity::size, SIZE)?),
            _ => return Err(wrong(key, SETTINGS)),
        }
        Ok(())
    }
}

const SETTINGS: &str = "delay=, jitter=, loss=, reorder=, dup=, rate=, queue=, ecn=, longest= with a \
                        value or blackhole@START..END";
const TIME: &str = "a time such as 50us, 1.5ms or 2s";
const FRACTION: &str = "a fraction from 0 to 1 such as 0.01, or a percentage such as 1%";
const POSITIONS: &str = "a number of packets from 0 to 65535";
const RATE: &str = "bits per second such as 10G or 2.5Gbps, above zero and at most 1000T";
const SIZE: &str = "a number of bytes such as 4096, 256K or 1M";
const WINDOW: &str = "a span such as 2s..3s, ending after it starts, or 2s.. for no end";
const ONCE: &str = "possible, because this part has the same setting before: give each once for the \
                    same paths";
const PATH: &str = "a path number or * before the colon";

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut clauses = Vec::new();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (path, settings) = match part.split_once(':') {
                None => (None, part),
                Some((path, settings)) => (parse_path(path.trim())?, settings),
            };
            let mut clause = Clause { path, settings: Settings::default() };
            let mut keys: Vec<&str> = Vec::new();
            for setting in settings.split(',').map(str::trim) {
                clause.settings.set(setting)?;
                // Without a key it is a blackhole, of which there may be several.
                let Some((key, _)) = setting.split_once('=') else { continue };
                let key = key.trim();
                if keys.contains(&key) {
                    return Err(wrong(setting, ONCE));
                }
                keys.push(key);
            }
            clauses.push(clause);
        }
        Ok(Spec { clauses })
    }
}

fn parse_path(text: &str) -> Result<Option<usize>, SpecError> {
    if text == "*" {
        return Ok(None);
    }
    // Parsing goes through u32, so that the same text is accepted on every machine.
    match text.parse::<u32>() {
        Ok(number) => Ok(Some(number as usize)),
        Err(_) => Err(wrong(text, PATH)),
    }
}

fn parse_window(text: &str) -> Result<Window, SpecError> {
    let (from, until) = text.split_once("..").ok_or_else(|| wrong(text, WINDOW))?;
    let from_ns = parse(from, quantity::time, WINDOW)?;
    let until_ns = match until.trim() {
        "" => u64::MAX,
        end => parse(end, quantity::time, WINDOW)?,
    };
    if from_ns < until_ns { Ok(Window { from_ns, until_ns }) } else { Err(wrong(text, WINDOW)) }
}

fn parse<T>(
    value: &str,
    with: fn(&str) -> Option<T>,
    accepted: &'static str,
) -> Result<T, SpecError> {
    with(value.trim()).ok_or_else(|| wrong(value, accepted))
}

fn positions(text: &str) -> Option<u32> {
    text.parse::<u16>().ok().map(u32::from)
}

fn wrong(text: &str, accepted: &'static str) -> SpecError {
    SpecError { text: text.trim().to_owned(), accepted }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in the description of paths, '{}' is not {}", self.text, self.accepted)
    }
}

impl std::error::Error for SpecError {}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, clause) in self.clauses.iter().enumerate() {
            if index > 0 {
                f.write_str(";")?;
            }
            match clause.path {
                Some(path) => write!(f, "{path}:")?,
                None => f.write_str("*:")?,
            }
            clause.settings.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut put = |name: &str, value: Option<&dyn fmt::Display>| -> fmt::Result {
            if let Some(value) = value {
                write!(f, "{separator}{name}{value}")?;
                separator = ",";
            }
            Ok(())
        };
        put("delay=", self.delay_ns.map(Time).as_ref().map(|v| v as _))?;
        put("jitter=", self.jitter_ns.map(Time).as_ref().map(|v| v as _))?;
        put("loss=", self.loss.map(Fraction).as_ref().map(|v| v as _))?;
        put("reorder=", self.reorder.as_ref().map(|v| v as _))?;
        put("dup=", self.duplication.map(Fraction).as_ref().map(|v| v as _))?;
        put("rate=", self.rate.map(Rate).as_ref().map(|v| v as _))?;
        put("queue=", self.queue_bytes.map(Size).as_ref().map(|v| v as _))?;
        put("ecn=", self.ecn_bytes.map(Size).as_ref().map(|v| v as _))?;
        put("longest=", self.longest.map(Size).as_ref().map(|v| v as _))?;
        for window in &self.blackholes {
            put("blackhole@", Some(window))?;
        }
        Ok(())
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", Time(self.from_ns))?;
        if self.until_ns == u64::MAX { Ok(()) } else { write!(f, "{}", Time(self.until_ns)) }
    }
}
