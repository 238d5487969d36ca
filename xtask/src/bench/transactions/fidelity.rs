//! Signal fidelity (UCCL Table 3): delay of congestion decisions and of acknowledgements, with
//! light and heavy traffic, between two contexts and among four.

use std::io;
use std::time::Duration;

use fairway::{ControlLatency, LatencySample, Profile};
use serde_json::{Value, json};

use super::Section;
use super::mesh::{Load, Mesh};
use super::pair::quantile_us;
use crate::bench::table::Spread;
use crate::programs::check_signals;

/// Number of samples that a context can store.
const SAMPLES: usize = 1 << 20;

/// The paper's light messages: 1 to 64 KB in rotation, one in flight to each peer.
const LIGHT: Load =
    Load { sizes: &[1 << 10, 4 << 10, 16 << 10, 64 << 10], depth: 1, flows: 1, all_send: true };
/// The paper uses messages of 1 GB, which makes no difference to the bytes in flight.
const HEAVY: Load = Load { sizes: &[64 << 20], depth: 2, flows: 1, all_send: true };

/// Number of contexts, their load, and the paper's collective.
const COLUMNS: [(usize, Load, &str, &str); 4] = [
    (2, LIGHT, "two, light", "allreduce light"),
    (4, LIGHT, "four, light", "all-to-all light"),
    (2, HEAVY, "two, heavy", "allreduce heavy"),
    (4, HEAVY, "four, heavy", "all-to-all heavy"),
];

/// Configuration of contexts.
struct Variant {
    name: &'static str,
    /// Whether congestion controllers run on a separate thread.
    elsewhere: bool,
    /// Largest number of data packets before an acknowledgement; `None` for the default: 64, or
    /// when the sender requests one.
    every: Option<u32>,
}

/// UCCL acknowledges each chunk of 32 KB, which is four packets of 8,856 bytes.
const VARIANTS: [Variant; 3] = [
    Variant { name: "as usual", elsewhere: false, every: None },
    Variant { name: "acknowledgements every 4 packets", elsewhere: false, every: Some(4) },
    Variant { name: "controllers on their own thread", elsewhere: true, every: None },
];

/// A measured delay.
struct What {
    name: &'static str,
    list: fn(&ControlLatency) -> &Vec<LatencySample>,
    /// The published P50 and P99 of the columns, in microseconds (UCCL Table 3).
    published: [[f64; 4]; 2],
}

const WHATS: [What; 2] = [
    What {
        name: "CC decision",
        list: |found| &found.decisions,
        published: [[1.7, 1.7, 2.1, 2.9], [3.6, 3.4, 7.0, 10.8]],
    },
    What {
        name: "acknowledgement turn-round",
        list: |found| &found.turn_rounds,
        published: [[2.0, 3.0, 4.0, 7.0], [3.0, 10.0, 10.0, 36.0]],
    },
];

/// Start of a delay.
type Since = (&'static str, fn(&LatencySample) -> u32);

const SINCE: [Since; 2] = [
    ("since our receive call returned", |delay| delay.since_call_ns),
    ("since the kernel received it", |delay| delay.since_kernel_ns),
];

const SHARES: [(&str, f64); 2] = [("P50", 0.5), ("P99", 0.99)];

/// Results of one column and one variant: by delay, start of the delay, and quantile.
#[derive(Default)]
struct Cell {
    us: [[[Vec<f64>; 2]; 2]; 2],
    gbps: Vec<f64>,
    /// Number of samples by delay, in the last repetition.
    samples: [usize; 2],
    unstamped: u64,
    dropped: u64,
}

type Cells = [[Cell; COLUMNS.len()]; VARIANTS.len()];

/// Measures all columns in alternation.
pub(super) fn run(repeats: usize, slice: Duration) -> io::Result<Section> {
    let mut cells = Cells::default();
    for _ in 0..repeats {
        for (variant, cells) in VARIANTS.iter().zip(&mut cells) {
            for ((contexts, load, ..), cell) in COLUMNS.iter().zip(cells) {
                check_signals()?;
                cell.measure(*contexts, load, variant, slice)?;
            }
        }
    }
    Ok(Section { name: "fidelity", markdown: markdown(&cells), json: rows(&cells) })
}

impl Cell {
    fn measure(
        &mut self,
        contexts: usize,
        load: &Load,
        variant: &Variant,
        slice: Duration,
    ) -> io::Result<()> {
        let mut profile = Profile::default();
        profile.acknowledge_every = variant.every.unwrap_or(profile.acknowledge_every);
        let mesh = Mesh::new(contexts, load, |builder| {
            builder
                .measure_control_latency(SAMPLES)
                .control_threads(variant.elsewhere.into())
                .profile(profile)
        })?;
        let take = |to: &mut ControlLatency| {
            mesh.contexts.iter().for_each(|context| context.take_control_latency(to));
        };
        let mut found = ControlLatency::default();
        let gbps = mesh.run(
            (slice / 4, slice),
            || take(&mut ControlLatency::default()),
            || {
                take(&mut found);
            },
        )?;
        self.gbps.push(gbps);
        for (at, what) in WHATS.iter().enumerate() {
            let list = (what.list)(&found);
            self.samples[at] = list.len();
            for ((_, since), shares) in SINCE.iter().zip(&mut self.us[at]) {
                let mut times: Vec<u32> = list.iter().map(since).collect();
                for ((_, share), us) in SHARES.iter().zip(shares) {
                    us.push(quantile_us(&mut times, *share));
                }
            }
        }
        self.unstamped += found.unstamped;
        self.dropped += found.dropped;
        Ok(())
    }
}

fn markdown(cells: &Cells) -> String {
    let names = COLUMNS.map(|(_, _, name, _)| name).join(" | ");
    let mut text = format!(
        "### Signal fidelity: two contexts, and four that all write to each other, in one process\n\n\
         Microseconds, medians of repetitions (least to most).\n\n| us | {names} |\n|---|---|---|---|---|\n"
    );
    for (at, what) in WHATS.iter().enumerate() {
        for (number, (share, _)) in SHARES.iter().enumerate() {
            let published = what.published[number].map(|us| us.to_string()).join(" | ");
            text += &format!("| {} {share}, published | {published} |\n", what.name);
            for (variant, cells) in VARIANTS.iter().zip(cells) {
                for (from, (since, _)) in SINCE.iter().enumerate() {
                    let us = cells.each_ref().map(|cell| show(&cell.us[at][from][number]));
                    text += &format!("| {}, {since} | {} |\n", variant.name, us.join(" | "));
                }
            }
        }
    }
    for (variant, cells) in VARIANTS.iter().zip(cells) {
        let gbps = cells.each_ref().map(|cell| show(&cell.gbps));
        text += &format!("| {}: payload, Gb/s | {} |\n", variant.name, gbps.join(" | "));
        let samples = cells.each_ref().map(|cell| cell.samples.map(|n| n.to_string()).join(", "));
        text +=
            &format!("| {}: decisions, turn-rounds | {} |\n", variant.name, samples.join(" | "));
    }
    let sum = |of: fn(&Cell) -> u64| cells.iter().flatten().map(of).sum::<u64>();
    let (unstamped, dropped) = (sum(|cell| cell.unstamped), sum(|cell| cell.dropped));
    text + &format!(
        "\nSamples without a stamp of the kernel: {unstamped}; that found no room: {dropped}.\n"
    )
}

fn show(samples: &[f64]) -> String {
    Spread::of(samples).unwrap_or_default().show()
}

fn rows(cells: &Cells) -> Value {
    let mut list = Vec::new();
    for (variant, cells) in VARIANTS.iter().zip(cells) {
        for ((contexts, _, name, published), cell) in COLUMNS.iter().zip(cells) {
            let delays = WHATS.iter().zip(&cell.us).map(|(what, since)| {
                let [call, kernel] =
                    since.each_ref().map(|[p50, p99]| json!({ "p50": p50, "p99": p99 }));
                json!({ "what": what.name, "since_call_us": call, "since_kernel_us": kernel })
            });
            list.push(json!({
                "variant": variant.name, "contexts": contexts, "column": name, "published_as": published,
                "delays": delays.collect::<Vec<_>>(), "gbps": cell.gbps, "samples": cell.samples,
                "unstamped": cell.unstamped, "dropped": cell.dropped,
            }));
        }
    }
    list.into()
}
