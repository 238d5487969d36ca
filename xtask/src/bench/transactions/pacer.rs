//! The pacer's error: the rate at which a flow's operations complete, compared with the dequeue
//! rate that a scheduler set.

use std::io;
use std::time::{Duration, Instant};

use fairway::{Context, Post, Rights};
use serde_json::json;

use super::pair::{Flow, LOOPBACK, Pair, TIMEOUT, jetty, segment};
use super::{Section, failed};
use crate::bench::table::Spread;
use crate::programs::check_signals;

/// Rates in bits per second, and bytes of an operation.
const RATES: [(u64, u64); 5] = [
    (1_000_000, 4 << 10),
    (10_000_000, 4 << 10),
    (100_000_000, 16 << 10),
    (1_000_000_000, 64 << 10),
    (10_000_000_000, 256 << 10),
];
/// Operations in flight, enough that the flow always has data to send.
const DEPTH: u64 = 8;
/// Number of completions that are not counted, because the first operations may be sent at once.
const BEFORE: u64 = 10;
/// Least number of counted completions.
const COUNTED: u64 = 40;
/// Header bytes that the pacer adds to each packet's payload.
const HEADER_BYTES: u64 = 80;

/// Measures all rows in alternation.
pub(super) fn run(repeats: usize, slice: Duration) -> io::Result<Section> {
    let mut errors: [[Vec<f64>; RATES.len()]; 2] = Default::default();
    for _ in 0..repeats {
        for (reads, errors) in [false, true].into_iter().zip(&mut errors) {
            for ((rate, bytes), errors) in RATES.iter().zip(errors) {
                check_signals()?;
                let got = measure(reads, *rate, *bytes, slice)?;
                errors.push(100.0 * (got / *rate as f64 - 1.0));
            }
        }
    }
    let mut text = String::from(
        "The rate of what arrived, headers counted, against the dequeue rate of its flow (`sched=static`): \
         deviation in percent.\n\n| rate | WRITE, paced by the requester | READ, paced by the responder |\n|---|---|---|\n",
    );
    let mut list = Vec::new();
    for (number, (rate, bytes)) in RATES.iter().enumerate() {
        let [write, read] = [0, 1].map(|kind: usize| &errors[kind][number]);
        let show = |list: &Vec<f64>| Spread::of(list).unwrap_or_default().show();
        text += &format!("| {} Mb/s | {} | {} |\n", rate / 1_000_000, show(write), show(read));
        list.push(json!({
            "rate_bits": rate, "bytes": bytes, "write_percent": write, "read_percent": read,
        }));
    }
    Ok(Section { name: "pacer", markdown: text, json: list.into() })
}

/// Bits per second that arrived, from one completion to another.
fn measure(reads: bool, rate: u64, bytes: u64, slice: Duration) -> io::Result<f64> {
    let pair = Pair::new(&LOOPBACK)?;
    let paced: &Context = if reads { &pair.server } else { &pair.client };
    let policy = format!("cc=fixed:64M,sched=static:line={rate}bps");
    let policy: fairway::Policies =
        policy.parse().map_err(|error| io::Error::other(format!("{policy}: {error}")))?;
    paced.set_policy(policy).map_err(failed)?;
    let target = segment(&pair.server, DEPTH * bytes, Rights::READ_WRITE)?;
    let source = segment(&pair.client, DEPTH * bytes, Rights::NONE)?;
    let jetty = jetty(&pair.client)?;
    let mut flow = Flow::new(&jetty, DEPTH, false);
    let mut first: Option<(Instant, u64)> = None;
    let mut last = (Instant::now(), 0);
    pair.run_alone(|| {
        let begun = Instant::now();
        loop {
            flow.step(|batch, number| {
                let place = number % DEPTH * bytes;
                let local = source.slice(place..place + bytes);
                let remote = target.key().at(place);
                if reads {
                    batch.read(&pair.peer, local, remote, number)
                } else {
                    batch.write(&pair.peer, local, remote, number)
                }
            })?;
            let now = Instant::now();
            if flow.done > last.1 {
                last = (now, flow.done);
                if first.is_none() && flow.done >= BEFORE {
                    first = Some(last);
                }
                let counted =
                    |(at, done): (Instant, u64)| flow.done - done >= COUNTED && now - at >= slice;
                if first.is_some_and(counted) {
                    return Ok(());
                }
            }
            if begun.elapsed() > TIMEOUT {
                return Err(io::Error::other("operations do not complete"));
            }
        }
    })?;
    flow.drain()?;
    let Some((at, done)) = first else { return Ok(0.0) };
    let packets = bytes.div_ceil(u64::from(pair.peer.mtu()));
    let moved = (last.1 - done) * (bytes + packets * HEADER_BYTES);
    Ok(8.0 * moved as f64 / (last.0 - at).as_secs_f64())
}
