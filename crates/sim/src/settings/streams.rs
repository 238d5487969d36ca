//! Settings of streams, and of the processors of their schedulers.

use super::set;
use super::values::named;
use crate::control::ControlSpec;
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

/// All settings of streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamSettings {
    streams: Vec<Streams>,
    pub(super) measure_ps: u64,
    control: Option<(u32, u64)>,
    eager: bool,
}

impl StreamSettings {
    /// Returns `None` if the setting is of another kind, and `Some(None)` if the value is invalid.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        Some(match name {
            "stream" => streams(value).map(|streams| self.streams.push(streams)),
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
fn streams(text: &str) -> Option<Streams> {
    let mut words = text.split_whitespace();
    let (source, destination) = words.next()?.split_once('-')?;
    let mut streams = Streams {
        source: source.parse().ok()?,
        destination: destination.parse().ok()?,
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
    };
    for word in words {
        let (name, value) = word.split_once('=')?;
        match name {
            "size" => streams.bytes = sizes(value)?,
            "verb" => {
                let found = Verb::NAMES.iter().find(|(name, _)| *name == value)?;
                streams.verb = found.1;
            }
            "order" => streams.order.tag = named(value, &TAGS)?,
            "mode" => streams.order.mode = named(value, &MODES)?,
            "depth" => streams.depth = count(value, 1, 4096)?,
            "count" => streams.count = count(value, 1, 65_536)?,
            "every" => streams.every_ps = span(value)?,
            "start" => streams.start_ps = span(value)?,
            "end" => streams.end_ps = span(value)?,
            "rate" => streams.megabits = Some(rate(value)?),
            "weight" => streams.share.weight = count(value, 1, 65_535)? as u16,
            "tenant" => streams.share.tenant = count(value, 0, 65_535)? as u16,
            "tenant-weight" => streams.share.tenant_weight = count(value, 1, 65_535)? as u16,
            "hint" => streams.hint = Some(hint(value)?),
            "paths" => streams.paths = Some(count(value, 1, 256)?),
            "policy" => streams.policy = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(streams)
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
