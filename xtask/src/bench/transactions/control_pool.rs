//! Pools of control threads, live: bytes per event of congestion controls against the number of
//! threads and of flows, each of which has a channel of its own (SCR Fig. 10b).

use std::io;
use std::time::Duration;

use fairway::Limits;
use serde_json::{Value, json};

use super::mesh::{Load, Mesh};
use crate::bench::table::Spread;
use crate::programs::check_signals;

const FLOWS: [usize; 6] = [1, 4, 16, 64, 256, 1024];
const THREADS: [u32; 3] = [1, 2, 4];

/// Bytes of messages that all flows together keep in flight at most, four of them per flow.
const IN_FLIGHT_BYTES: u64 = 4 << 20;
const DEPTH: u64 = 4;

/// Samples of a number of flows on a number of threads.
#[derive(Default)]
struct Cell {
    gbps: Vec<f64>,
    /// Thousands of events per second that were collected, and for which a controller was run.
    collected: Vec<f64>,
    handled: Vec<f64>,
    bytes: Vec<f64>,
}

/// Results as text and as JSON.
pub(super) fn run(repeats: usize, slice: Duration) -> io::Result<(String, Vec<Value>)> {
    let mut cells: [[Cell; THREADS.len()]; FLOWS.len()] = Default::default();
    for _ in 0..repeats {
        for (flows, row) in FLOWS.iter().zip(&mut cells) {
            for (threads, cell) in THREADS.iter().zip(row) {
                check_signals()?;
                cell.measure(*flows, *threads, slice)?;
            }
        }
    }
    let mut text = String::from(
        "\n### A pool of control threads: WRITEs, four in flight of each flow, 4 MiB at most in \
         all; each flow has a channel\n\nSwift on its events; medians.\n\n| flows | threads | Gb/s \
         | collected, thousand/s | handled, thousand/s | bytes per event |\n|---|---|---|---|---|---|\n",
    );
    let mut list = Vec::new();
    for (flows, row) in FLOWS.iter().zip(&cells) {
        for (threads, cell) in THREADS.iter().zip(row) {
            let show = |samples: &[f64]| Spread::of(samples).unwrap_or_default().show();
            text += &format!(
                "| {flows} | {threads} | {} | {} | {} | {} |\n",
                show(&cell.gbps),
                show(&cell.collected),
                show(&cell.handled),
                show(&cell.bytes)
            );
            list.push(json!({
                "flows": flows, "control_threads": threads, "gbps": cell.gbps,
                "collected_thousand_per_s": cell.collected,
                "handled_thousand_per_s": cell.handled, "bytes_per_event": cell.bytes,
            }));
        }
    }
    Ok((text, list))
}

impl Cell {
    fn measure(&mut self, flows: usize, threads: u32, slice: Duration) -> io::Result<()> {
        let load = Load { sizes: sizes(flows), depth: DEPTH, flows, all_send: false };
        let limits = Limits::default().channels(1100).jetties(2048);
        let mesh = Mesh::with_channels(2, &load, flows, |builder| {
            builder.policy_named("cc=swift").limits(limits).control_threads(threads)
        })?;
        let stats = || mesh.contexts[0].congestion_stats().unwrap_or_default();
        let (mut before, mut after) = (stats(), stats());
        let gbps = mesh.run((slice / 2, slice), || before = stats(), || after = stats())?;
        let per_second = |count: u64| count as f64 / slice.as_secs_f64() / 1e3;
        self.gbps.push(gbps);
        self.collected.push(per_second(after.collected - before.collected));
        self.handled.push(per_second(after.handled - before.handled));
        let events = (after.transmits - before.transmits).max(1);
        self.bytes.push((after.bytes - before.bytes) as f64 / events as f64);
        Ok(())
    }
}

/// Bytes of a message: 64 KB, or less if the flows would have more in flight than
/// [`IN_FLIGHT_BYTES`].
fn sizes(flows: usize) -> &'static [u64] {
    const EACH: [[u64; 1]; 3] = [[64 << 10], [4 << 10], [1 << 10]];
    let fits = |bytes: u64| bytes * DEPTH * flows as u64 <= IN_FLIGHT_BYTES;
    EACH.iter().find(|bytes| fits(bytes[0])).unwrap_or(&EACH[2])
}
