//! The workload of training (OpenURMA's E4): 90 % WRITEs without order, 8 % relaxed READs, 2 %
//! fenced strict WRITEs, and an occasional unreliable probe on a separate Jetty; compared with the
//! same operations all strict.

use std::io;
use std::time::{Duration, Instant};

use fairway::{Batch, Error, Order, Post, Rights, Segment, ServiceMode};
use serde_json::json;

use super::pair::{Flow, LOOPBACK, Network, Pair, jetty, quantile_us, segment};
use super::{Section, failed};
use crate::bench::table::Spread;
use crate::programs::check_signals;

const DEPTH: u64 = 64;
/// Number of operations per probe.
const PROBE_EVERY: u64 = 1000;
/// Least ratio of the two rates that the design requires.
const BUDGET: f64 = 2.0;

/// The second network connects distant machines.
const NETWORKS: [Network; 2] =
    [LOOPBACK, Network { name: "25 us away", paths: 16, spec: "delay=25us" }];
const SIZES: [u64; 2] = [64, 4096];
const MODES: [(ServiceMode, &str); 3] =
    [(ServiceMode::Rot, "ROT"), (ServiceMode::Rol, "ROL"), (ServiceMode::Roi, "ROI")];

/// One row.
struct Row {
    network: Network,
    size: u64,
    mode: (ServiceMode, &'static str),
    /// Thousands of operations per second: mixed, and all strict.
    rates: [Vec<f64>; 2],
    /// 99th percentile of the fenced WRITEs' latency in microseconds: mixed, and all strict.
    tails_us: [Vec<f64>; 2],
    probes: u64,
}

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Fetch,
    Checkpoint,
}

fn kind(number: u64) -> Kind {
    match number % 100 {
        99 | 49 => Kind::Checkpoint,
        rest if rest % 12 == 5 => Kind::Fetch,
        _ => Kind::Data,
    }
}

fn order(kind: Kind, mode: ServiceMode, all_strict: bool) -> Order {
    match kind {
        Kind::Checkpoint => Order::strict(mode).fenced(),
        _ if all_strict => Order::strict(mode),
        Kind::Fetch => Order::relaxed(mode),
        Kind::Data => Order::unordered(mode),
    }
}

/// Measures all rows in alternation.
pub(super) fn run(repeats: usize, slice: Duration) -> io::Result<Section> {
    let mut rows = Vec::new();
    for network in NETWORKS {
        for size in SIZES {
            rows.extend(MODES.map(|mode| Row {
                network,
                size,
                mode,
                rates: Default::default(),
                tails_us: Default::default(),
                probes: 0,
            }));
        }
    }
    for _ in 0..repeats {
        for row in &mut rows {
            check_signals()?;
            measure(row, slice)?;
        }
    }
    Ok(section(&rows))
}

fn measure(row: &mut Row, slice: Duration) -> io::Result<()> {
    let pair = Pair::new(&row.network)?;
    let memory = 2 * DEPTH * row.size;
    let target = segment(&pair.server, memory, Rights::READ_WRITE)?;
    let source = segment(&pair.client, memory, Rights::NONE)?;
    let rates = &mut row.rates;
    let (tails, probes) = (&mut row.tails_us, &mut row.probes);
    pair.run_alone(|| {
        for (which, all_strict) in [(0, false), (1, true)] {
            let load = Load {
                pair: &pair,
                source: &source,
                target: &target,
                size: row.size,
                mode: row.mode.0,
                all_strict,
            };
            let (rate, tail, sent) = load.drive(slice)?;
            rates[which].push(rate);
            tails[which].push(tail);
            *probes += sent;
        }
        Ok(())
    })?;
    pair.client.shutdown(Duration::from_secs(1)).map_err(failed)
}

struct Load<'a> {
    pair: &'a Pair,
    source: &'a Segment,
    target: &'a Segment,
    size: u64,
    mode: ServiceMode,
    all_strict: bool,
}

impl<'a> Load<'a> {
    /// Returns thousands of operations per second, the tail latency of the fenced WRITEs, and the
    /// number of probes sent.
    fn drive(&self, slice: Duration) -> io::Result<(f64, f64, u64)> {
        let (jetty, probe) = (jetty(&self.pair.client)?, jetty(&self.pair.client)?);
        let (mut flow, mut probes) = (Flow::new(&jetty, DEPTH, true), Flow::new(&probe, 1, false));
        let start = Instant::now();
        while start.elapsed() < slice {
            flow.step(|batch, number| self.post(batch, number))?;
            if flow.done / PROBE_EVERY > probes.done {
                let local = self.source.slice(0..8);
                probes.step(|batch, number| {
                    let batch = batch.ordered(Order::unreliable());
                    batch.write(&self.pair.peer, local, self.target.key(), number)
                })?;
            }
        }
        let rate = flow.done as f64 / start.elapsed().as_secs_f64() / 1e3;
        flow.drain()?;
        probes.drain()?;
        let fenced = flow.times.iter().filter(|(number, _)| kind(*number) == Kind::Checkpoint);
        let mut times: Vec<u32> = fenced.map(|(_, time)| *time).collect();
        Ok((rate, quantile_us(&mut times, 0.99), probes.done))
    }

    fn post<'b>(&self, batch: &Batch<'b>, number: u64) -> Result<(), Error>
    where
        'a: 'b,
    {
        let (kind, place) = (kind(number), number % DEPTH * self.size);
        // READs fetch bytes that no operation writes, into memory that no operation reads.
        let half = DEPTH * self.size;
        let place = if kind == Kind::Fetch { half + place } else { place };
        let local = self.source.slice(place..place + self.size);
        let remote = self.target.key().at(place);
        let batch = batch.ordered(order(kind, self.mode, self.all_strict));
        match kind {
            Kind::Fetch => batch.read(&self.pair.peer, local, remote, number),
            _ => batch.write(&self.pair.peer, local, remote, number),
        }
    }
}

fn section(rows: &[Row]) -> Section {
    let mut text = String::from(
        "| mixed against all strict | K/s mixed | K/s all strict | ratio | budget | | 99 % of fenced \
         WRITEs, us: mixed | all strict |\n|---|---|---|---|---|---|---|---|\n",
    );
    let mut list = Vec::new();
    for row in rows {
        let [mixed, strict, tail, strict_tail] =
            [&row.rates[0], &row.rates[1], &row.tails_us[0], &row.tails_us[1]]
                .map(|samples| Spread::of(samples).unwrap_or_default());
        let ratio = mixed.median / strict.median;
        text += &format!(
            "| {}, {} B, {} | {} | {} | {ratio:.1} | ≥ {BUDGET} | {} | {} | {} |\n",
            row.network.name,
            row.size,
            row.mode.1,
            mixed.show(),
            strict.show(),
            if ratio >= BUDGET { "met" } else { "missed" },
            tail.show(),
            strict_tail.show(),
        );
        list.push(json!({
            "network": row.network.name, "size": row.size, "mode": row.mode.1, "ratio": ratio,
            "mixed_kops": row.rates[0], "strict_kops": row.rates[1], "probes": row.probes,
            "mixed_tail_us": row.tails_us[0], "strict_tail_us": row.tails_us[1],
        }));
    }
    Section { name: "mixed", markdown: text, json: list.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_those_of_the_workload() {
        let count = |wanted| (0..100).filter(|number| kind(*number) == wanted).count();
        assert_eq!([Kind::Data, Kind::Fetch, Kind::Checkpoint].map(count), [90, 8, 2]);
    }
}
