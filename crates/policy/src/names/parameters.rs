//! The parameters of each algorithm: their names, units and ranges. Those of path choices are in
//! `path_parameters.rs`.

use alloc::borrow::ToOwned;
use core::fmt;

use fairway_wire::Duration;

use super::PolicyError;
use crate::{
    Backpressure, BackpressureParameters, Caqm, CaqmParameters, Cubic, CubicParameters, Dcqcn,
    DcqcnParameters, Eqds, EqdsParameters, Hints, Homa, HomaParameters, Hpcc, HpccParameters, Join,
    Leave, Nscc, NsccParameters, QUANTUM_MIN, RoundRobin, RoundRobinParameters, Start,
    StaticParameters, StaticShare, Swift, SwiftParameters, Timely, TimelyParameters, WaterFilling,
    WaterFillingParameters,
};

/// A parameter that can be parsed and printed.
pub(super) enum Slot<'a> {
    Bytes(&'a mut u64),
    Time(&'a mut Duration),
    /// A rate in bits per second, not zero.
    Rate(&'a mut u64),
    /// A share in thousandths.
    Share(&'a mut u64),
    /// A number; not zero.
    Count(&'a mut u64),
    /// A rate in bits per second, or `auto` for zero.
    Line(&'a mut u64),
    /// `fair`, or a rate in bits per second.
    Start(&'a mut Start),
    /// One of several words.
    Word(&'a mut dyn Word),
}

/// A choice between words.
pub(super) trait Word {
    fn words(&self) -> &'static [&'static str];
    /// Index of the current word in `words`.
    fn index(&self) -> usize;
    /// Chooses word number `index`.
    fn choose(&mut self, index: usize);
}

/// Parameters that can be parsed and printed.
pub(super) trait Parameters: Copy + Default {
    /// The name of the algorithm.
    const NAME: &'static str;
    /// The names of the parameters, in the order in which they are printed.
    const FIELDS: &'static [&'static str];
    /// Description of the valid parameters, for error messages.
    const KNOWN: &'static str;

    /// The parameter called `name`.
    fn slot(&mut self, name: &str) -> Option<Slot<'_>>;

    /// True if the parameters are consistent with each other.
    fn is_sound(&self) -> bool;
}

/// Parses `name=value:name=value…`; parameters that are not given have their defaults.
pub(super) fn read<P: Parameters>(text: &str) -> Result<P, PolicyError> {
    let error = |parameter: &str| PolicyError::BadParameter {
        name: P::NAME,
        parameter: parameter.to_owned(),
        known: P::KNOWN,
    };
    let mut parameters = P::default();
    for parameter in text.split(':').filter(|parameter| !parameter.is_empty()) {
        let set =
            parameter.split_once('=').and_then(|(name, value)| parameters.slot(name)?.set(value));
        set.ok_or_else(|| error(parameter))?;
    }
    if !parameters.is_sound() {
        return Err(error(text));
    }
    Ok(parameters)
}

/// Prints the algorithm's name and those parameters that are not the default.
pub(super) fn write<P: Parameters>(f: &mut fmt::Formatter<'_>, parameters: &P) -> fmt::Result {
    f.write_str(P::NAME)?;
    let (mut given, mut default) = (*parameters, P::default());
    for name in P::FIELDS {
        let (Some(given), Some(default)) = (given.slot(name), default.slot(name)) else { continue };
        if given.value() != default.value() {
            write!(f, ":{name}=")?;
            given.write(f)?;
        }
    }
    Ok(())
}

impl Slot<'_> {
    /// Parses `text` into the parameter, if it is a valid value.
    fn set(self, text: &str) -> Option<()> {
        match (self, text) {
            (Slot::Word(slot), _) => {
                let index = slot.words().iter().position(|word| *word == text)?;
                slot.choose(index);
                Some(())
            }
            (Slot::Line(slot), "auto") => {
                *slot = 0;
                Some(())
            }
            (Slot::Start(slot), "fair") => {
                *slot = Start::Fair;
                Some(())
            }
            (slot, _) => {
                let value = parse_quantity(text, slot.units())?;
                slot.set_quantity(value)
            }
        }
    }

    fn set_quantity(self, value: u64) -> Option<()> {
        match self {
            Slot::Bytes(slot) => *slot = Some(value).filter(|bytes| *bytes <= LARGEST_BYTES)?,
            Slot::Time(slot) => {
                *slot = Duration::from_ns(Some(value).filter(|ns| *ns <= TIME_MAX_NS)?);
            }
            Slot::Rate(slot) | Slot::Line(slot) => {
                *slot = Some(value).filter(|bits| (1..=HIGHEST_BITS).contains(bits))?;
            }
            Slot::Start(slot) => {
                *slot = Start::Rate(Some(value).filter(|bits| *bits <= HIGHEST_BITS)?);
            }
            Slot::Word(_) => return None,
            Slot::Share(slot) => *slot = Some(value).filter(|permille| *permille <= 1000)?,
            Slot::Count(slot) => {
                *slot = Some(value).filter(|count| (1..=COUNT_MAX).contains(count))?
            }
        }
        Some(())
    }

    fn value(&self) -> u64 {
        match self {
            Slot::Bytes(slot) | Slot::Rate(slot) | Slot::Share(slot) | Slot::Count(slot) => **slot,
            Slot::Line(slot) => **slot,
            Slot::Time(slot) => slot.as_ns(),
            Slot::Start(Start::Rate(bits)) => *bits,
            Slot::Start(Start::Fair) => u64::MAX,
            Slot::Word(slot) => slot.index() as u64,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slot::Line(0) => f.write_str("auto"),
            Slot::Start(Start::Fair) => f.write_str("fair"),
            Slot::Word(slot) => f.write_str(slot.words()[slot.index()]),
            slot => write_quantity(f, slot.value(), slot.units()),
        }
    }

    fn units(&self) -> &'static [(&'static str, u64)] {
        match self {
            Slot::Bytes(_) => &BYTE_UNITS,
            Slot::Time(_) => &TIME_UNITS,
            Slot::Rate(_) | Slot::Line(_) | Slot::Start(_) => &RATE_UNITS,
            Slot::Share(_) | Slot::Count(_) | Slot::Word(_) => &[("", 1)],
        }
    }
}

impl Parameters for SwiftParameters {
    const NAME: &'static str = Swift::NAME;
    const FIELDS: &'static [&'static str] = &[
        "target", "range", "hop", "endpoint", "fsmin", "fsmax", "ai", "min", "max", "initial",
        "loss",
    ];
    const KNOWN: &'static str = "it takes target=, endpoint= (not zero), range=, hop= (times), \
                                 ai=, fsmin=, fsmax=, min=, max=, initial= (bytes; min at most \
                                 max) and loss= (thousandths)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "target" => Slot::Time(&mut self.target),
            "range" => Slot::Time(&mut self.range),
            "hop" => Slot::Time(&mut self.hop),
            "endpoint" => Slot::Time(&mut self.endpoint),
            "fsmin" => Slot::Bytes(&mut self.scaling_min_bytes),
            "fsmax" => Slot::Bytes(&mut self.scaling_max_bytes),
            "ai" => Slot::Bytes(&mut self.increase_bytes),
            "min" => Slot::Bytes(&mut self.min_bytes),
            "max" => Slot::Bytes(&mut self.max_bytes),
            "initial" => Slot::Bytes(&mut self.initial_bytes),
            "loss" => Slot::Share(&mut self.tolerated_loss_permille),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        let times = self.target > Duration::ZERO && self.endpoint > Duration::ZERO;
        times && self.min_bytes <= self.max_bytes
    }
}

impl Parameters for CubicParameters {
    const NAME: &'static str = Cubic::NAME;
    const FIELDS: &'static [&'static str] = &["min", "max", "initial", "loss", "jitter"];
    const KNOWN: &'static str = "it takes min=, max=, initial= (bytes; min at most max), loss= (thousandths) and jitter= \
         (a time)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "min" => Slot::Bytes(&mut self.min_bytes),
            "max" => Slot::Bytes(&mut self.max_bytes),
            "initial" => Slot::Bytes(&mut self.initial_bytes),
            "loss" => Slot::Share(&mut self.tolerated_loss_permille),
            "jitter" => Slot::Time(&mut self.jitter),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        self.min_bytes <= self.max_bytes
    }
}

impl Parameters for TimelyParameters {
    const NAME: &'static str = Timely::NAME;
    const FIELDS: &'static [&'static str] = &[
        "low", "high", "minrtt", "ai", "alpha", "beta", "segment", "min", "max", "initial",
        "window", "loss",
    ];
    const KNOWN: &'static str = "it takes low=, high= (not below low), minrtt= (times), ai=, min=, max=, initial= (rates; \
         min at most max), segment=, window= (bytes), alpha=, beta= and loss= (thousandths)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "low" => Slot::Time(&mut self.low),
            "high" => Slot::Time(&mut self.high),
            "minrtt" => Slot::Time(&mut self.min_rtt),
            "ai" => Slot::Rate(&mut self.increase_bits),
            "alpha" => Slot::Share(&mut self.alpha_permille),
            "beta" => Slot::Share(&mut self.beta_permille),
            "segment" => Slot::Bytes(&mut self.segment_bytes),
            "min" => Slot::Rate(&mut self.min_bits),
            "max" => Slot::Rate(&mut self.max_bits),
            "initial" => Slot::Rate(&mut self.initial_bits),
            "window" => Slot::Bytes(&mut self.window_bytes),
            "loss" => Slot::Share(&mut self.tolerated_loss_permille),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        let times = self.low <= self.high && self.min_rtt > Duration::ZERO;
        times && self.min_bits <= self.max_bits
    }
}

impl Parameters for DcqcnParameters {
    const NAME: &'static str = Dcqcn::NAME;
    const FIELDS: &'static [&'static str] =
        &["line", "min", "ai", "hai", "g", "timer", "bytes", "cnp", "window", "loss"];
    const KNOWN: &'static str = "it takes line=, min= (at most line), ai=, hai= (rates), g= (256 \
                                 for 1/256), timer= (not zero), cnp= (times), bytes= (not zero), \
                                 window= (bytes) and loss= (thousandths)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "line" => Slot::Rate(&mut self.line_bits),
            "min" => Slot::Rate(&mut self.min_bits),
            "ai" => Slot::Rate(&mut self.increase_bits),
            "hai" => Slot::Rate(&mut self.hyper_bits),
            "g" => Slot::Count(&mut self.gain),
            "timer" => Slot::Time(&mut self.timer),
            "bytes" => Slot::Bytes(&mut self.counter_bytes),
            "cnp" => Slot::Time(&mut self.spacing),
            "window" => Slot::Bytes(&mut self.window_bytes),
            "loss" => Slot::Share(&mut self.tolerated_loss_permille),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        let periods = self.timer > Duration::ZERO && self.counter_bytes > 0;
        periods && self.min_bits <= self.line_bits
    }
}

impl Parameters for CaqmParameters {
    const NAME: &'static str = Caqm::NAME;
    const FIELDS: &'static [&'static str] =
        &["beta", "ai", "fast", "initial", "min", "max", "loss"];
    const KNOWN: &'static str = "it takes beta=, fast=, loss= (thousandths), ai= (packets, not \
                                 zero), initial=, min= and max= (bytes; min at most max)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "beta" => Slot::Share(&mut self.beta_permille),
            "ai" => Slot::Count(&mut self.increase_packets),
            "fast" => Slot::Share(&mut self.fast_permille),
            "initial" => Slot::Bytes(&mut self.initial_bytes),
            "min" => Slot::Bytes(&mut self.min_bytes),
            "max" => Slot::Bytes(&mut self.max_bytes),
            "loss" => Slot::Share(&mut self.tolerated_loss_permille),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        self.min_bytes <= self.max_bytes
    }
}

impl Parameters for HpccParameters {
    const NAME: &'static str = Hpcc::NAME;
    const FIELDS: &'static [&'static str] =
        &["eta", "stages", "ai", "initial", "min", "max", "loss"];
    const KNOWN: &'static str = "it takes eta=, loss= (thousandths), stages= (not zero), ai=, \
                                 initial=, min= and max= (bytes; min at most max)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "eta" => Slot::Share(&mut self.target_permille),
            "stages" => Slot::Count(&mut self.stages),
            "ai" => Slot::Bytes(&mut self.increase_bytes),
            "initial" => Slot::Bytes(&mut self.initial_bytes),
            "min" => Slot::Bytes(&mut self.min_bytes),
            "max" => Slot::Bytes(&mut self.max_bytes),
            "loss" => Slot::Share(&mut self.tolerated_loss_permille),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        self.min_bytes <= self.max_bytes && self.target_permille > 0
    }
}

impl Parameters for EqdsParameters {
    const NAME: &'static str = Eqds::NAME;
    const FIELDS: &'static [&'static str] =
        &["line", "quantum", "window", "ahead", "max", "timeout"];
    const KNOWN: &'static str = "it takes line= (a rate), quantum=, max= (not zero), window=, \
                                 ahead= (bytes) and timeout= (a time, not zero)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "line" => Slot::Rate(&mut self.line_bits),
            "quantum" => Slot::Bytes(&mut self.quantum_bytes),
            "window" => Slot::Bytes(&mut self.window_bytes),
            "ahead" => Slot::Bytes(&mut self.ahead_bytes),
            "max" => Slot::Bytes(&mut self.max_bytes),
            "timeout" => Slot::Time(&mut self.timeout),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        self.quantum_bytes > 0 && self.max_bytes > 0 && self.timeout > Duration::ZERO
    }
}

impl Parameters for HomaParameters {
    const NAME: &'static str = Homa::NAME;
    const FIELDS: &'static [&'static str] =
        &["window", "quantum", "overcommit", "cut1", "cut2", "cut3", "max", "timeout"];
    const KNOWN: &'static str = "it takes window=, quantum=, max= (bytes; not zero), overcommit= \
                                 (at most 64), cut1=, cut2=, cut3= (bytes, ascending; 0 for one \
                                 class less) and timeout= (a time, not zero)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "window" => Slot::Bytes(&mut self.window_bytes),
            "quantum" => Slot::Bytes(&mut self.quantum_bytes),
            "overcommit" => Slot::Count(&mut self.overcommit),
            "cut1" => Slot::Bytes(&mut self.cutoffs[0]),
            "cut2" => Slot::Bytes(&mut self.cutoffs[1]),
            "cut3" => Slot::Bytes(&mut self.cutoffs[2]),
            "max" => Slot::Bytes(&mut self.max_bytes),
            "timeout" => Slot::Time(&mut self.timeout),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        let bytes = self.window_bytes > 0 && self.quantum_bytes > 0 && self.max_bytes > 0;
        let used = self.cutoffs.iter().filter(|cutoff| **cutoff > 0);
        bytes && used.is_sorted() && self.overcommit <= 64 && self.timeout > Duration::ZERO
    }
}

impl Parameters for BackpressureParameters {
    const NAME: &'static str = Backpressure::NAME;
    const FIELDS: &'static [&'static str] = &["line", "min", "ai", "beta", "window", "loss"];
    const KNOWN: &'static str = "it takes line=, min= (at most line), ai= (rates), window= \
                                 (bytes), beta= and loss= (thousandths)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "line" => Slot::Rate(&mut self.line_bits),
            "min" => Slot::Rate(&mut self.min_bits),
            "ai" => Slot::Rate(&mut self.increase_bits),
            "beta" => Slot::Share(&mut self.beta_permille),
            "window" => Slot::Bytes(&mut self.window_bytes),
            "loss" => Slot::Share(&mut self.tolerated_loss_permille),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        self.min_bits <= self.line_bits
    }
}

impl Parameters for NsccParameters {
    const NAME: &'static str = Nscc::NAME;
    const FIELDS: &'static [&'static str] = &["base", "target", "min", "max", "initial", "loss"];
    const KNOWN: &'static str = "it takes base=, target= (times), min=, max=, initial= (bytes; min \
                                 at most max) and loss= (thousandths)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "base" => Slot::Time(&mut self.base),
            "target" => Slot::Time(&mut self.target),
            "min" => Slot::Bytes(&mut self.min_bytes),
            "max" => Slot::Bytes(&mut self.max_bytes),
            "initial" => Slot::Bytes(&mut self.initial_bytes),
            "loss" => Slot::Share(&mut self.tolerated_loss_permille),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        self.min_bytes <= self.max_bytes
    }
}

impl Parameters for StaticParameters {
    const NAME: &'static str = StaticShare::NAME;
    const FIELDS: &'static [&'static str] = &["line", "min", "hints"];
    const KNOWN: &'static str =
        "it takes line= (a rate or auto), min= (a rate) and hints=ignore|weight";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "line" => Slot::Line(&mut self.line_bits),
            "min" => Slot::Rate(&mut self.min_bits),
            "hints" => Slot::Word(&mut self.hints),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        true
    }
}

impl Parameters for RoundRobinParameters {
    const NAME: &'static str = RoundRobin::NAME;
    const FIELDS: &'static [&'static str] = &["quantum", "hints"];
    const KNOWN: &'static str = "it takes quantum= (bytes; at least 128) and hints=ignore|weight";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "quantum" => Slot::Bytes(&mut self.quantum_bytes),
            "hints" => Slot::Word(&mut self.hints),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        self.quantum_bytes >= u64::from(QUANTUM_MIN)
    }
}

impl Parameters for WaterFillingParameters {
    const NAME: &'static str = WaterFilling::NAME;
    const FIELDS: &'static [&'static str] =
        &["line", "step", "min", "start", "join", "leave", "interval", "floor", "hints"];
    const KNOWN: &'static str = "it takes line= (a rate or auto), step=, min= (rates), start= (a \
                                 rate or fair), join=scale|halve|reset, leave=reclaim|scale, \
                                 interval= (a time), floor= (thousandths) and \
                                 hints=ignore|weight";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "line" => Slot::Line(&mut self.line_bits),
            "step" => Slot::Rate(&mut self.step_bits),
            "min" => Slot::Rate(&mut self.min_bits),
            "start" => Slot::Start(&mut self.start),
            "join" => Slot::Word(&mut self.join),
            "leave" => Slot::Word(&mut self.leave),
            "interval" => Slot::Time(&mut self.interval),
            "floor" => Slot::Share(&mut self.floor_permille),
            "hints" => Slot::Word(&mut self.hints),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        true
    }
}

impl Word for Join {
    fn words(&self) -> &'static [&'static str] {
        &["scale", "halve", "reset"]
    }

    fn index(&self) -> usize {
        *self as usize
    }

    fn choose(&mut self, index: usize) {
        *self = [Join::Scale, Join::Halve, Join::Reset][index];
    }
}

impl Word for Hints {
    fn words(&self) -> &'static [&'static str] {
        &["ignore", "weight"]
    }

    fn index(&self) -> usize {
        *self as usize
    }

    fn choose(&mut self, index: usize) {
        *self = [Hints::Ignore, Hints::Weight][index];
    }
}

impl Word for Leave {
    fn words(&self) -> &'static [&'static str] {
        &["reclaim", "scale"]
    }

    fn index(&self) -> usize {
        *self as usize
    }

    fn choose(&mut self, index: usize) {
        *self = [Leave::Reclaim, Leave::Scale][index];
    }
}

/// Units of bytes, the largest first.
pub(super) const BYTE_UNITS: [(&str, u64); 4] =
    [("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10), ("", 1)];
/// Units of time in nanoseconds, the largest first.
pub(super) const TIME_UNITS: [(&str, u64); 4] =
    [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
/// Units of rates in bits per second, the largest first.
const RATE_UNITS: [(&str, u64); 4] =
    [("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("Kbps", 1_000), ("bps", 1)];
/// The longest time that fits into 64 bits of picoseconds, in nanoseconds.
const TIME_MAX_NS: u64 = u64::MAX / 1000;
/// Upper limit of all windows.
const LARGEST_BYTES: u64 = SwiftParameters::LARGEST_BYTES;
/// Upper limit of all rates.
const HIGHEST_BITS: u64 = DcqcnParameters::HIGHEST_BITS;
const COUNT_MAX: u64 = 1_000_000;

pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    parse_quantity(text, &BYTE_UNITS)
}

/// Parses a time that fits into 64 bits of picoseconds.
pub(super) fn parse_time(text: &str) -> Option<Duration> {
    let ns = parse_quantity(text, &TIME_UNITS)?;
    (ns <= TIME_MAX_NS).then_some(Duration::from_ns(ns))
}

pub(super) fn parse_count(text: &str) -> Option<u64> {
    parse_quantity(text, &[("", 1)])
}

fn parse_quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = units.iter().find(|(known, _)| *known == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// Prints `value` in the largest of `units` that gives a whole number.
pub(super) fn write_quantity(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(&str, u64)],
) -> fmt::Result {
    let fits = |(_, factor): &&(&str, u64)| value > 0 && value.is_multiple_of(*factor);
    let (unit, factor) = units.iter().find(fits).or(units.last()).unwrap_or(&("", 1));
    write!(f, "{}{unit}", value / factor)
}
