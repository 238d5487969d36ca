//! Control on threads of its own, live: how many events it receives and how many it processes, at
//! what granularity, and what that costs in rate, against the number of flows (SCR Fig. 10).

use std::io;
use std::time::Duration;

use fairway::{Context, ProcessorStats};
use serde_json::{Value, json};

use super::mesh::{Load, Mesh};
use super::{Section, control_pool};
use crate::bench::table::Spread;
use crate::programs::check_signals;

const FLOWS: [usize; 5] = [1, 4, 16, 64, 128];

/// Load of SCR §6.2: messages of 64 KB, four in flight for each flow.
const BYTES: &[u64] = &[64 << 10];
const DEPTH: u64 = 4;

/// Threads on which controllers run.
const PLACES: [(&str, u32); 2] = [("in line", 0), ("own thread", 1)];

/// Results for a number of flows and a thread of the controllers.
#[derive(Default)]
struct Cell {
    gbps: Vec<f64>,
    /// Figures of the scheduler, and of congestion controllers that run on events: thousands of
    /// events per second received and processed, and bytes per event.
    scheduler: [Vec<f64>; 3],
    congestion: [Vec<f64>; 3],
}

/// Results for a number of flows: without a scheduler, and by thread of the controllers.
#[derive(Default)]
struct Row {
    greedy: Vec<f64>,
    cells: [Cell; PLACES.len()],
}

/// Measures all rows in alternation.
pub(super) fn run(repeats: usize, slice: Duration) -> io::Result<Section> {
    let mut rows: [Row; FLOWS.len()] = Default::default();
    for _ in 0..repeats {
        for (flows, row) in FLOWS.iter().zip(&mut rows) {
            check_signals()?;
            row.measure(*flows, slice)?;
        }
    }
    let list = FLOWS.iter().zip(&rows).map(|(flows, row)| row.json(*flows));
    let mut list: Vec<Value> = list.flatten().collect();
    let (pool, more) = control_pool::run(repeats, slice)?;
    list.extend(more);
    Ok(Section { name: "coalescing", markdown: markdown(&rows) + &pool, json: Value::Array(list) })
}

impl Row {
    fn measure(&mut self, flows: usize, slice: Duration) -> io::Result<()> {
        let load = Load { sizes: BYTES, depth: DEPTH, flows, all_send: false };
        let time = (slice / 2, slice);
        let greedy = Mesh::new(2, &load, |builder| builder)?.run(time, || (), || ())?;
        self.greedy.push(greedy);
        // The scheduler gets the rate that the machine currently reaches.
        let policy = format!("sched=water-filling:line={}bps", (greedy * 1e9) as u64);
        for ((_, threads), cell) in PLACES.iter().zip(&mut self.cells) {
            let mesh = Mesh::new(2, &load, |builder| {
                builder.policy_named(&policy).control_threads(*threads)
            })?;
            let sender = &mesh.contexts[0];
            let (mut before, mut after): (Stats, Stats) = Default::default();
            let gbps = mesh.run(time, || before = stats(sender), || after = stats(sender))?;
            cell.gbps.push(gbps);
            note(&mut cell.scheduler, &before.0, &after.0, slice);
            note(&mut cell.congestion, &before.1, &after.1, slice);
        }
        Ok(())
    }

    fn json(&self, flows: usize) -> Vec<Value> {
        let of = |[notified, handled, bytes]: &[Vec<f64>; 3]| {
            json!({
                "notified_thousand_per_s": notified, "handled_thousand_per_s": handled,
                "bytes_per_event": bytes,
            })
        };
        let each = PLACES.iter().zip(&self.cells).map(|((place, _), cell)| {
            json!({
                "flows": flows, "controllers": place, "greedy_gbps": self.greedy, "gbps": cell.gbps,
                "scheduler": of(&cell.scheduler), "congestion": of(&cell.congestion),
            })
        });
        each.collect()
    }
}

/// Statistics of the scheduler and of congestion controllers; zero for those that do not run on
/// events.
type Stats = (ProcessorStats, ProcessorStats);

fn stats(context: &Context) -> Stats {
    let scheduler = context.scheduler_stats().unwrap_or_default();
    (scheduler, context.congestion_stats().unwrap_or_default())
}

fn note(to: &mut [Vec<f64>; 3], before: &ProcessorStats, after: &ProcessorStats, slice: Duration) {
    let rate = |of: fn(&ProcessorStats) -> u64| {
        (of(after) - of(before)) as f64 / slice.as_secs_f64() / 1e3
    };
    let events = (after.transmits - before.transmits).max(1);
    to[0].push(rate(|stats| stats.collected));
    to[1].push(rate(|stats| stats.handled));
    to[2].push((after.bytes - before.bytes) as f64 / events as f64);
}

fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "### Congestion controls in line and on a thread of their own: WRITEs of 64 KB, four under way of each flow\n\n\
         Thousands of events per second that a controller was notified of and handled, and bytes per event; medians.\n\n\
         | flows | without a scheduler, Gb/s | controllers | Gb/s | water-filling: notified, handled, bytes per event | \
         Swift: notified, handled, bytes per event |\n|---|---|---|---|---|---|\n",
    );
    for (flows, row) in FLOWS.iter().zip(rows) {
        for ((place, _), cell) in PLACES.iter().zip(&row.cells) {
            let three = |[notified, handled, bytes]: &[Vec<f64>; 3]| {
                format!("{:.1}, {:.1}, {:.0}", median(notified), median(handled), median(bytes))
            };
            // In line, congestion controllers are called for each acknowledgement.
            let congestion = if median(&cell.congestion[0]) > 0.0 {
                three(&cell.congestion)
            } else {
                String::from("called directly")
            };
            text += &format!(
                "| {flows} | {} | {place} | {} | {} | {congestion} |\n",
                show(&row.greedy),
                show(&cell.gbps),
                three(&cell.scheduler)
            );
        }
    }
    text
}

fn median(samples: &[f64]) -> f64 {
    Spread::of(samples).unwrap_or_default().median
}

fn show(samples: &[f64]) -> String {
    Spread::of(samples).unwrap_or_default().show()
}
