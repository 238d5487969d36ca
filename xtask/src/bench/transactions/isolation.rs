//! Isolation: one Jetty that is stalled on a strict operation, and four others that have nothing to
//! do with it, over the same TP channel.

use std::io;
use std::time::{Duration, Instant};

use fairway_softnic::{Error, Jetty, Order, Post, Rights, Segment, ServiceMode};
use serde_json::json;

use super::pair::{Flow, LOOPBACK, PATIENCE, Pair, jetty, segment};
use super::{Section, failed};
use crate::bench::table::Spread;
use crate::programs::check_signals;

const BYTES: u64 = 64;
const OTHERS: usize = 4;
/// In flight on each of the others.
const DEPTH: u64 = 32;
/// Strict operations of the stalled Jetty that wait behind its first.
const BEHIND: u64 = 32;

/// What the stalled Jetty's operations ask for.
const STALLED: [(ServiceMode, &str); 3] =
    [(ServiceMode::Rot, "ROT"), (ServiceMode::Rol, "ROL"), (ServiceMode::Roi, "ROI")];

/// What the others' operations ask for.
const ASKS: [(&str, Option<ServiceMode>); 2] =
    [("no order", None), ("strict, ROT", Some(ServiceMode::Rot))];

/// Millions per second of the four others, without and with the stalled one.
type Rates = [Vec<f64>; 2];

/// Measures all rows by turns.
pub(super) fn run(repeats: usize, slice: Duration) -> io::Result<Section> {
    let rows: Vec<_> =
        ASKS.iter().flat_map(|asks| STALLED.iter().map(move |stalled| (asks, stalled))).collect();
    let mut rates: Vec<Rates> = rows.iter().map(|_| Rates::default()).collect();
    for _ in 0..repeats {
        for (((_, order), (mode, _)), rates) in rows.iter().zip(&mut rates) {
            check_signals()?;
            measure(*order, *mode, slice, rates)?;
        }
    }
    let mut text = String::from(
        "| four Jetties, WRITE of 64 B, together | M/s without | M/s beside a stalled Jetty | ratio |\n\
         |---|---|---|---|\n",
    );
    let mut list = Vec::new();
    for (((asks, _), (_, mode)), rates) in rows.iter().zip(&rates) {
        let [without, with] = [0, 1].map(|at| Spread::of(&rates[at]).unwrap_or_default());
        let ratio = with.median / without.median;
        text += &format!(
            "| {asks}; the stalled one strict, {mode} | {} | {} | {ratio:.2} |\n",
            without.show(),
            with.show()
        );
        list.push(json!({
            "asks": asks, "stalled": mode, "without": rates[0], "with": rates[1], "ratio": ratio,
        }));
    }
    text += &format!(
        "\nThe stalled Jetty's first operation is a strict SEND for which no receive is posted, and \
         {BEHIND} strict WRITEs wait behind it.\n"
    );
    Ok(Section { name: "isolation", markdown: text, json: list.into() })
}

fn measure(
    order: Option<ServiceMode>,
    mode: ServiceMode,
    slice: Duration,
    rates: &mut Rates,
) -> io::Result<()> {
    let pair = Pair::new(&LOOPBACK)?;
    let target = segment(&pair.server, 1 << 16, Rights::WRITE)?;
    let source = segment(&pair.client, 1 << 16, Rights::NONE)?;
    let deaf = jetty(&pair.server)?;
    let stalled = jetty(&pair.client)?;
    let others = (0..OTHERS).map(|_| jetty(&pair.client)).collect::<io::Result<Vec<_>>>()?;
    pair.run_alone(|| {
        let measure = || drive(&pair, &others, order, [&source, &target], slice);
        rates[0].push(measure()?);
        stall(&pair, &stalled, deaf.number(), mode, [&source, &target]).map_err(failed)?;
        rates[1].push(measure()?);
        if stalled.outstanding() as u64 != 1 + BEHIND {
            return Err(io::Error::other("the stalled Jetty was not stalled"));
        }
        // Now somebody is there, and everything ends.
        deaf.post_receive(target.slice(0..BYTES), 0).map_err(failed)?;
        stalled.drain(PATIENCE).map_err(failed)
    })
}

/// Posts what nobody takes, and what has to come after it.
fn stall(
    pair: &Pair,
    jetty: &Jetty,
    deaf: u32,
    mode: ServiceMode,
    [source, target]: [&Segment; 2],
) -> Result<(), Error> {
    let jetty = jetty.ordered(Order::strict(mode));
    jetty.send(&pair.peer, deaf, source.slice(0..BYTES), 0)?;
    for number in 1..=BEHIND {
        let place = number * BYTES;
        let local = source.slice(place..place + BYTES);
        jetty.write(&pair.peer, local, target.key().at(place), number)?;
    }
    Ok(())
}

/// The rate of the others.
fn drive(
    pair: &Pair,
    others: &[Jetty],
    order: Option<ServiceMode>,
    [source, target]: [&Segment; 2],
    slice: Duration,
) -> io::Result<f64> {
    let mut flows: Vec<Flow<'_>> =
        others.iter().map(|jetty| Flow::new(jetty, DEPTH, false)).collect();
    let order = order.map(Order::strict).unwrap_or_default();
    let start = Instant::now();
    while start.elapsed() < slice {
        for flow in &mut flows {
            flow.step(|batch, number| {
                let place = number % DEPTH * BYTES;
                let local = source.slice(place..place + BYTES);
                batch.ordered(order).write(&pair.peer, local, target.key().at(place), number)
            })?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let done: u64 = flows.iter().map(|flow| flow.done).sum();
    flows.iter_mut().try_for_each(Flow::drain)?;
    Ok(done as f64 / seconds / 1e6)
}
