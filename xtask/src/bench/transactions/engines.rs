//! Several engines: the same operations by one channel and one thread, and by several of each.

use std::io;
use std::time::{Duration, Instant};

use fairway::{Post, Rights};
use serde_json::json;

use super::Section;
use super::pair::{Flow, LOOPBACK, Pair, jetty, segment};
use crate::bench::table::Spread;
use crate::programs::check_signals;

/// Bytes of an operation, and number of operations in flight.
const OPERATIONS: [(u64, u64); 3] = [(64, 64), (16 << 10, 64), (1 << 20, 16)];
const ENGINES: [usize; 3] = [1, 2, 4];

/// Measures all rows in alternation.
pub(super) fn run(repeats: usize, slice: Duration) -> io::Result<Section> {
    let mut rates: [[Vec<f64>; ENGINES.len()]; OPERATIONS.len()] = Default::default();
    for _ in 0..repeats {
        for ((bytes, depth), rates) in OPERATIONS.iter().zip(&mut rates) {
            for (engines, rates) in ENGINES.iter().zip(rates) {
                check_signals()?;
                rates.push(measure(*engines, *bytes, *depth, slice)?);
            }
        }
    }
    let mut text = String::from(
        "Here no thread is pinned.\n\n| WRITE | engines | thousand/s | against one engine |\n|---|---|---|---|\n",
    );
    let mut list = Vec::new();
    for ((bytes, depth), rates) in OPERATIONS.iter().zip(&rates) {
        let one = Spread::of(&rates[0]).unwrap_or_default();
        for (engines, rates) in ENGINES.iter().zip(rates) {
            let spread = Spread::of(rates).unwrap_or_default();
            let ratio = spread.median / one.median;
            text += &format!(
                "| {bytes} B, {depth} in flight | {engines} | {} | {ratio:.2} |\n",
                spread.show()
            );
            list.push(json!({
                "bytes": bytes, "depth": depth, "engines": engines, "kops": rates, "ratio": ratio,
            }));
        }
    }
    Ok(Section { name: "engines", markdown: text, json: list.into() })
}

/// Thousands of operations per second. No thread is pinned, because each side has several.
fn measure(engines: usize, bytes: u64, depth: u64, slice: Duration) -> io::Result<f64> {
    let pair = Pair::with_engines(&LOOPBACK, engines)?;
    let target = segment(&pair.server, depth * bytes, Rights::READ_WRITE)?;
    let source = segment(&pair.client, depth * bytes, Rights::NONE)?;
    let jetty = jetty(&pair.client)?;
    let mut flow = Flow::new(&jetty, depth, false);
    let start = Instant::now();
    while start.elapsed() < slice {
        flow.step(|batch, number| {
            let place = number % depth * bytes;
            let local = source.slice(place..place + bytes);
            batch.write(&pair.peer, local, target.key().at(place), number)
        })?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let done = flow.done;
    flow.drain()?;
    Ok(done as f64 / seconds / 1e3)
}
