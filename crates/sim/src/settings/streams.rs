//! Settings of streams, and of the processors of their schedulers.

use super::values::named;
use super::{Settings, set};
use crate::control::ControlSpec;
use crate::error::{SettingsError, StreamError};
use crate::quantity::{bytes, count, rate, span};
use crate::stream::{Stream, Verb};
use fairway_device::random::Random;
use fairway_sandbox::Policies;
use fairway_ub::OrderRequest;
use fairway_ub::policy::Share;
use fairway_ub::wire::{ServiceMode, Tag};

/// Orders of a stream's messages, with their names in settings.
const TAGS: [(&str, Tag); 3] = [("none", Tag::No), ("relaxed", Tag::Ro), ("strict", Tag::So)];

/// Sides that enforce the order, with their names in settings.
const MODES: [(&str, ServiceMode); 3] =
    [("roi", ServiceMode::Roi), ("rot", ServiceMode::Rot), ("rol", ServiceMode::Rol)];

/// A setting of one or more equal streams.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Streams {
    source: u32,
    destination: u32,
    verb: Verb,
    /// Minimum and maximum bytes of a message; each stream draws its own.
    bytes: (u32, u32),
    depth: u32,
    order: OrderRequest,
    count: u32,
    /// Delay from the start of one stream to the start of the next, in picoseconds.
    every_ps: u64,
    start_ps: u64,
    end_ps: u64,
    megabits: Option<u64>,
    share: Share,
    hint: Option<(u64, u64)>,
    paths: Option<u32>,
    policy: Option<Policies>,
}

impl Settings {
    /// Returns the streams, which only the workload of that name has.
    ///
    /// # Errors
    /// There is none, or one of them would send nothing, or have a share without effect.
    pub(super) fn streams(&self, seed: u64) -> Result<Vec<Stream>, SettingsError> {
        if self.workload != "streams" {
            return Ok(Vec::new());
        }
        let streams = self.streams.build(seed);
        if streams.is_empty() {
            return Err(SettingsError::NoStreams);
        }
        let end_ps = self.end_ps;
        if let Some(stream) = streams.iter().position(|stream| stream.start_ps >= end_ps) {
            let start_ps = streams[stream].start_ps;
            return Err(SettingsError::StreamTooLate { stream, start_ps, end_ps });
        }
        // The default policy has a scheduler that serves all alike. One that is named is meant.
        let mut policies = self.given.iter().filter(|(name, _)| *name == "policy");
        let is_shared = policies.any(|(_, text)| text.contains("sched="));
        let is_idle = |stream: &Stream| {
            stream.verb == Verb::Write
                && stream.share != Share::default()
                && stream.policy.is_none()
        };
        match streams.iter().position(is_idle).filter(|_| !is_shared) {
            Some(stream) => Err(SettingsError::ShareWithoutScheduler { stream }),
            None => Ok(streams),
        }
    }
}

/// All settings of streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamSettings {
    streams: Vec<Streams>,
    pub(super) measure_ps: u64,
    control: Option<(u32, u64)>,
    eager: bool,
}

impl StreamSettings {
    /// Adds one or more equal streams.
    ///
    /// # Errors
    /// Names the part that is wrong.
    pub(super) fn add(&mut self, value: &str) -> Result<(), StreamError> {
        self.streams.push(streams(value)?);
        Ok(())
    }

    /// Returns `None` if the setting is of another kind, and `Some(None)` if the value is invalid.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        Some(match name {
            "measure" => set(&mut self.measure_ps, span(value)),
            "control" => {
                let pair = value.split_once(':');
                let pair = pair.and_then(|(threads, time)| {
                    Some((count(threads, 1, 4096)?, span(time).filter(|ps| *ps > 0)?))
                });
                set(&mut self.control, pair.map(Some))
            }
            "coalescing" => {
                let named = [("until-threshold", false), ("slots", true)];
                set(&mut self.eager, named.iter().find(|(name, _)| *name == value).map(|on| on.1))
            }
            _ => return None,
        })
    }

    /// Returns the processor of the schedulers.
    pub(super) fn control(&self) -> Option<ControlSpec> {
        let until_threshold = !self.eager;
        let (threads, event_ps) = self.control?;
        Some(ControlSpec { threads, event_ps, until_threshold })
    }

    /// Builds the streams, with random draws from `seed`.
    pub(super) fn build(&self, seed: u64) -> Vec<Stream> {
        let mut random = Random::fork(seed, 0x5354_5245_414D);
        let mut all = Vec::new();
        for streams in &self.streams {
            for number in 0..u64::from(streams.count) {
                let (least, most) = streams.bytes;
                all.push(Stream {
                    source: streams.source,
                    destination: streams.destination,
                    verb: streams.verb,
                    bytes: random.range(least.into(), most.into()) as u32,
                    depth: streams.depth,
                    order: streams.order,
                    start_ps: streams.start_ps + number * streams.every_ps,
                    end_ps: streams.end_ps,
                    megabits: streams.megabits,
                    share: streams.share,
                    hint: streams.hint,
                    paths: streams.paths,
                    policy: streams.policy.as_ref().map(Policies::fresh),
                });
            }
        }
        all
    }
}

/// Parses `A-B`, followed by the settings that differ from the defaults, each as `NAME=VALUE`.
///
/// # Errors
/// Names the part that is wrong.
fn streams(text: &str) -> Result<Streams, StreamError> {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or("");
    let ends = first.split_once('-').and_then(|(source, destination)| {
        Some((source.parse::<u32>().ok()?, destination.parse::<u32>().ok()?))
    });
    let (source, destination) = ends.ok_or_else(|| StreamError::Ends(first.to_owned()))?;
    let mut streams = Streams::between(source, destination);
    let mut given: Vec<&str> = Vec::new();
    for word in words {
        let pair = word.split_once('=');
        let (name, value) = pair.ok_or_else(|| StreamError::Word(word.to_owned()))?;
        let known = PARTS.iter().find(|part| part.0 == name);
        let (name, takes) = known.ok_or_else(|| {
            let known = PARTS.map(|part| part.0).join(", ");
            StreamError::Part { name: name.to_owned(), known }
        })?;
        if given.contains(name) {
            return Err(StreamError::Twice(name));
        }
        given.push(name);
        let wrong = || StreamError::Value { name, value: value.to_owned(), takes };
        streams.set(name, value).ok_or_else(wrong)?;
    }
    streams.check(&given)?;
    Ok(streams)
}

/// The parts of a stream, and the values that each takes.
const PARTS: [(&str, &str); 16] = [
    ("verb", "it is write or read"),
    ("size", "it is a length, as 64K, or a range, as 4K..1M: 1 to 1G, the smaller one first"),
    ("depth", "it is a number from 1 to 4096"),
    ("count", "it is a number from 1 to 65536"),
    ("every", "it is a time, as 10us: at most 1000s"),
    ("start", "it is a time, as 10us: at most 1000s"),
    ("end", "it is a time, as 1ms: at most 1000s"),
    ("rate", "it is a rate, as 10G: whole megabits per second, 1M to 100T"),
    ("weight", "it is a number from 1 to 65535"),
    ("tenant", "it is a number from 0 to 65535"),
    ("tenant-weight", "it is a number from 1 to 65535"),
    ("hint", "it is a number, or a number and a time, as 3@200us"),
    ("order", "it is none, relaxed or strict"),
    ("mode", "it is roi, rot or rol"),
    ("paths", "it is a number from 1 to 256"),
    ("policy", "it is policies, as cc=swift,path=spray"),
];

impl Streams {
    /// One stream between two hosts, with defaults.
    fn between(source: u32, destination: u32) -> Streams {
        Streams {
            source,
            destination,
            verb: Verb::Write,
            bytes: (65_536, 65_536),
            depth: 4,
            order: OrderRequest::default(),
            count: 1,
            every_ps: 0,
            start_ps: 0,
            end_ps: u64::MAX,
            megabits: None,
            share: Share::default(),
            hint: None,
            paths: None,
            policy: None,
        }
    }

    /// Sets one of [`PARTS`]; `None` if the value is invalid.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "size" => self.bytes = sizes(value)?,
            "verb" => self.verb = named(value, &Verb::NAMES)?,
            "order" => self.order.tag = named(value, &TAGS)?,
            "mode" => self.order.mode = named(value, &MODES)?,
            "depth" => self.depth = count(value, 1, 4096)?,
            "count" => self.count = count(value, 1, 65_536)?,
            "every" => self.every_ps = span(value)?,
            "start" => self.start_ps = span(value)?,
            "end" => self.end_ps = span(value)?,
            "rate" => self.megabits = Some(rate(value)?),
            "weight" => self.share.weight = count(value, 1, 65_535)? as u16,
            "tenant" => self.share.tenant = count(value, 0, 65_535)? as u16,
            "tenant-weight" => self.share.tenant_weight = count(value, 1, 65_535)? as u16,
            "hint" => self.hint = Some(hint(value)?),
            "paths" => self.paths = Some(count(value, 1, 256)?),
            "policy" => self.policy = Some(value.parse().ok()?),
            _ => return None,
        }
        Some(())
    }

    /// Checks parts that do not go together.
    fn check(&self, given: &[&str]) -> Result<(), StreamError> {
        if self.start_ps >= self.end_ps {
            return Err(StreamError::StartAfterEnd);
        }
        if given.contains(&"every") && self.count == 1 {
            return Err(StreamError::EveryOfOne);
        }
        if self.order.tag == Tag::No && given.contains(&"mode") {
            return Err(StreamError::ModeWithoutOrder);
        }
        Ok(())
    }
}

/// Parses a hint, `3` or `3@200us`, into its time and value.
fn hint(text: &str) -> Option<(u64, u64)> {
    let (value, at) = text.split_once('@').unwrap_or((text, "0ns"));
    Some((span(at)?, value.parse().ok()?))
}

/// Parses a length, `64K`, or a range of lengths, `4K..1M`.
fn sizes(text: &str) -> Option<(u32, u32)> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (bytes(least)?, bytes(most)?);
    // Each message has its own piece of the segment, which limits its length.
    (0 < least && least <= most && most <= 1 << 30).then_some((least, most))
}
