//! Parsers of settings with composite values.

use crate::quantity::{bytes, count, span};
use crate::{CaqmSpec, HintSpec, Marking, Scenario};
use fairway_sandbox::Policies;
use fairway_ub::policy::CongestionSpec;

/// Size of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// One packet.
    Packet,
    /// As the policy chooses.
    Policy,
    Bytes(u32),
}

impl Chunk {
    pub(super) fn parse(text: &str) -> Option<Chunk> {
        match text {
            "packet" => Some(Chunk::Packet),
            "policy" => Some(Chunk::Policy),
            size => bytes(size).filter(|bytes| *bytes > 0).map(Chunk::Bytes),
        }
    }

    /// Bytes of a chunk, for packets of `mtu` bytes; `None` for the policy's choice.
    pub(super) fn bytes(self, mtu: u32) -> Option<u32> {
        match self {
            Chunk::Packet => Some(mtu),
            Chunk::Policy => None,
            Chunk::Bytes(bytes) => Some(bytes),
        }
    }
}

/// The channels of a pair of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) channels: u32,
    /// Least bytes of a part of a message, 0 for messages that are not divided; `None` for the
    /// default.
    pub(super) part_bytes: Option<u32>,
}

impl Split {
    pub(super) const ONE: Split = Split { channels: 1, part_bytes: None };

    /// Parses `CHANNELS` or `CHANNELS:BYTES`, where BYTES may be `off`.
    pub(super) fn parse(text: &str) -> Option<Split> {
        let (channels, part_bytes) = match text.split_once(':') {
            None => (text, None),
            Some((channels, "off")) => (channels, Some(0)),
            Some((channels, size)) => (channels, Some(bytes(size).filter(|bytes| *bytes > 0)?)),
        };
        Some(Split { channels: count(channels, 1, 16)?, part_bytes })
    }
}

/// Parses up to three numbers; missing ones are 1.
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

/// Parses what switches write: `off`, `caqm`, `caqm:LOW:HIGH:ZERO`, `use` or `use:TIME`.
pub(super) fn hint(text: &str) -> Option<Hints> {
    match text.split(':').collect::<Vec<_>>().as_slice() {
        ["off"] => Some(Hints::Off),
        ["use"] => Some(Hints::LinkUse(None)),
        ["use", time] => span(time).filter(|ps| *ps > 0).map(|ps| Hints::LinkUse(Some(ps))),
        ["caqm"] => Some(Hints::OfQueue),
        ["caqm", low, high, zero] => {
            let (low, high, zero) = (bytes(low)?, bytes(high)?, bytes(zero)?);
            (low <= high && high < zero).then_some(Hints::At(CaqmSpec { low, high, zero }))
        }
        _ => None,
    }
}

/// Whether switches write hints, and which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hints {
    /// The use of links if the congestion control is HPCC, C-AQM's hints if it is C-AQM, and
    /// otherwise nothing.
    #[default]
    ByPolicy,
    Off,
    /// The use of links, over so many picoseconds, or a round trip of the network.
    LinkUse(Option<u64>),
    /// In proportion to the room of a port.
    OfQueue,
    At(CaqmSpec),
}

impl Hints {
    /// What the ports of a scenario, whose queues have their sizes, write for these policies.
    pub(super) fn spec(self, scenario: &Scenario, policies: Option<&Policies>) -> Option<HintSpec> {
        let (bytes, base_rtt_ps) = (scenario.queue.bytes, scenario.base_rtt_ps());
        let congestion = policies.map(|policies| &policies.built_in().congestion);
        let chosen = match (self, congestion) {
            (Hints::ByPolicy, Some(CongestionSpec::Hpcc(_))) => Hints::LinkUse(None),
            (Hints::ByPolicy, Some(CongestionSpec::Caqm(_))) => Hints::OfQueue,
            (chosen, _) => chosen,
        };
        match chosen {
            Hints::ByPolicy | Hints::Off => None,
            Hints::LinkUse(None) => Some(HintSpec::LinkUse { over_ps: base_rtt_ps.max(1) }),
            Hints::LinkUse(Some(over_ps)) => Some(HintSpec::LinkUse { over_ps }),
            Hints::OfQueue => Some(HintSpec::Caqm(CaqmSpec::of_queue(bytes))),
            Hints::At(spec) => Some(HintSpec::Caqm(spec)),
        }
    }
}

/// Stores a value in its place; `None` if the value is invalid.
pub(super) fn set<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

/// What a name stands for.
pub(super) fn named<T: Copy>(value: &str, names: &[(&str, T)]) -> Option<T> {
    names.iter().find(|(name, _)| *name == value).map(|found| found.1)
}

/// `on` or `off`.
pub(super) fn on_or_off(value: &str) -> Option<bool> {
    named(value, &[("on", true), ("off", false)])
}
