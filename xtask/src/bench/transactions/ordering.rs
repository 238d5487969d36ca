//! Cost of order: small writes of which a share is strict, in each mode that keeps order.

use std::io;
use std::time::{Duration, Instant};

use fairway::{Order, Post, Rights, ServiceMode};
use serde_json::json;

use super::pair::{Flow, LOOPBACK, Pair, jetty, quantile_us, segment};
use super::{Section, failed};
use crate::bench::table::Spread;
use crate::programs::check_signals;

const BYTES: u64 = 64;
/// Operations in flight while the rate is measured.
const DEPTH: u64 = 64;
/// Operations in flight while latencies are measured.
const TIMED_DEPTH: u64 = 8;

/// Order that the operations of a row request.
#[derive(Clone, Copy, Debug)]
enum RequestedOrder {
    /// No order.
    Nothing,
    /// No order, on a Jetty that was strict once.
    NothingMore,
    /// This many per hundred are strict in this mode; the rest, evenly spread, are unordered in it.
    Strict(ServiceMode, u64),
}

/// Results of a row.
#[derive(Default)]
struct Row {
    rates: Vec<f64>,
    medians_us: Vec<f64>,
    /// Operations per thousand that waited at the initiator, were looked up at the target, were
    /// deferred there, and were returned from there.
    gates: [f64; 4],
}

const MODES: [(ServiceMode, &str); 3] =
    [(ServiceMode::Rot, "ROT"), (ServiceMode::Rol, "ROL"), (ServiceMode::Roi, "ROI")];
const SHARES: [u64; 4] = [0, 10, 50, 100];

fn rows() -> Vec<(String, RequestedOrder)> {
    let mut rows = vec![
        ("no order requested".to_owned(), RequestedOrder::Nothing),
        ("no order, one strict before".to_owned(), RequestedOrder::NothingMore),
    ];
    for (mode, name) in MODES {
        rows.extend(SHARES.map(|share| {
            (format!("{name}, {share} % strict"), RequestedOrder::Strict(mode, share))
        }));
    }
    rows
}

/// Whether the operation with this number is strict, if `share` per hundred are.
fn is_strict(number: u64, share: u64) -> bool {
    (number + 1) * share / 100 > number * share / 100
}

impl RequestedOrder {
    fn order(self, number: u64) -> Option<Order> {
        match self {
            RequestedOrder::Nothing => None,
            RequestedOrder::NothingMore => (number == 0).then(|| Order::strict(ServiceMode::Rot)),
            RequestedOrder::Strict(mode, share) if is_strict(number, share) => {
                Some(Order::strict(mode))
            }
            RequestedOrder::Strict(mode, _) => Some(Order::unordered(mode)),
        }
    }
}

/// Measures all rows in alternation.
pub(super) fn run(repeats: usize, slice: Duration) -> io::Result<Section> {
    let names = rows();
    let mut rows: Vec<Row> = names.iter().map(|_| Row::default()).collect();
    for _ in 0..repeats {
        for ((_, requested), row) in names.iter().zip(&mut rows) {
            check_signals()?;
            measure(*requested, slice, row)?;
        }
    }
    Ok(section(&names, &rows))
}

fn measure(requested: RequestedOrder, slice: Duration, row: &mut Row) -> io::Result<()> {
    let pair = Pair::new(&LOOPBACK)?;
    let target = segment(&pair.server, DEPTH * BYTES, Rights::WRITE)?;
    let source = segment(&pair.client, DEPTH * BYTES, Rights::NONE)?;
    let key = target.key();
    let counters = || [pair.client.counters().engine, pair.server.counters().engine];
    pair.run_alone(|| {
        for (depth, timed) in [(DEPTH, false), (TIMED_DEPTH, true)] {
            let jetty = jetty(&pair.client)?;
            let mut flow = Flow::new(&jetty, depth, timed);
            let before = counters();
            let start = Instant::now();
            while start.elapsed() < slice {
                flow.step(|batch, number| {
                    let place = number % DEPTH * BYTES;
                    let (local, to) = (source.slice(place..place + BYTES), key.at(place));
                    match requested.order(number) {
                        None => batch.write(&pair.peer, local, to, number),
                        Some(order) => batch.ordered(order).write(&pair.peer, local, to, number),
                    }
                })?;
            }
            flow.drain()?;
            if timed {
                let mut times: Vec<u32> = flow.times.iter().map(|(_, time)| *time).collect();
                row.medians_us.push(quantile_us(&mut times, 0.5));
                continue;
            }
            row.rates.push(flow.done as f64 / start.elapsed().as_secs_f64() / 1e6);
            let [client, server] = counters();
            let per_mille = |now: u64, before: u64| 1e3 * (now - before) as f64 / flow.done as f64;
            row.gates = [
                per_mille(client.gated, before[0].gated),
                per_mille(server.gates_passed, before[1].gates_passed),
                per_mille(server.deferred, before[1].deferred),
                per_mille(server.sent_back, before[1].sent_back),
            ];
        }
        Ok(())
    })?;
    pair.client.shutdown(Duration::from_secs(1)).map_err(failed)
}

fn section(names: &[(String, RequestedOrder)], rows: &[Row]) -> Section {
    let spread = |samples: &[f64]| Spread::of(samples).unwrap_or_default();
    let plain = spread(&rows[0].rates).median;
    let mut text = format!(
        "| WRITE of {BYTES} B | M/s, {DEPTH} in flight | of no order | median us, {TIMED_DEPTH} in flight | \
         gated | gates passed | held | sent back |\n|---|---|---|---|---|---|---|---|\n"
    );
    let mut list = Vec::new();
    for ((name, _), row) in names.iter().zip(rows) {
        let (rate, time) = (spread(&row.rates), spread(&row.medians_us));
        let ratio = rate.median / plain;
        let [gated, passed, held, back] = row.gates;
        text += &format!(
            "| {name} | {} | {ratio:.2} | {} | {gated:.0} | {passed:.0} | {held:.0} | {back:.0} |\n",
            rate.show(),
            time.show(),
        );
        list.push(json!({
            "what": name, "mops": row.rates, "median_us": row.medians_us, "ratio": ratio,
            "per_mille": { "gated": gated, "gates_passed": passed, "held": held, "sent_back": back },
        }));
    }
    text += "\nGates: per thousand operations, at the initiator (gated) and at the target, of the \
             last repetition.\n";
    Section { name: "order", markdown: text, json: list.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_ones_are_spread_evenly() {
        for share in SHARES {
            let count = (0..1000).filter(|number| is_strict(*number, share)).count();
            assert_eq!(count as u64, 10 * share);
        }
        assert!((0..10).filter(|number| is_strict(*number, 10)).eq([9]));
    }
}
