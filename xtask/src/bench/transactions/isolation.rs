//! Isolation: one Jetty that is stalled on a strict operation, and four unrelated Jetties, over the
//! same TP channel.

use std::io;
use std::time::{Duration, Instant};

use fairway::{Error, Jetty, Order, Post, Rights, Segment, ServiceMode};
use serde_json::json;

use super::pair::{Flow, LOOPBACK, Pair, TIMEOUT, jetty, segment};
use super::{Section, failed};
use crate::bench::table::Spread;
use crate::programs::check_signals;

const BYTES: u64 = 64;
const OTHERS: usize = 4;
/// Operations in flight on each of the other Jetties.
const DEPTH: u64 = 32;
/// Number of alternations between stalled and not stalled in a repetition, because other load on
/// the machine varies.
const ROUNDS: u32 = 5;

/// Orders of the stalled Jetty's operations, and how many wait behind its first: fewer, and more,
/// than its share of the channel's slots for operations that await answers.
const STALLED: [Stalled; 4] = [
    Stalled { mode: ServiceMode::Rot, name: "ROT", behind: 32 },
    Stalled { mode: ServiceMode::Rot, name: "ROT", behind: 200 },
    Stalled { mode: ServiceMode::Rol, name: "ROL", behind: 200 },
    Stalled { mode: ServiceMode::Roi, name: "ROI", behind: 200 },
];

struct Stalled {
    mode: ServiceMode,
    name: &'static str,
    behind: u64,
}

/// Operations of the other Jetties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Write,
    WriteStrictly,
    Read,
}

const DOES: [(&str, Does); 3] = [
    ("WRITE, no order", Does::Write),
    ("WRITE, strict, ROT", Does::WriteStrictly),
    ("READ, no order", Does::Read),
];

/// Millions of operations per second of the four other Jetties, without and with the stalled one.
type Rates = [Vec<f64>; 2];

/// Measures all rows in alternation.
pub(super) fn run(repeats: usize, slice: Duration) -> io::Result<Section> {
    let rows: Vec<_> =
        DOES.iter().flat_map(|does| STALLED.iter().map(move |stalled| (does, stalled))).collect();
    let mut rates: Vec<Rates> = rows.iter().map(|_| Rates::default()).collect();
    for _ in 0..repeats {
        for (((_, does), stalled), rates) in rows.iter().zip(&mut rates) {
            check_signals()?;
            measure(*does, stalled, slice, rates)?;
        }
    }
    let mut text = String::from(
        "| four Jetties, 64 B, together | beside a strict one with | M/s without it | M/s beside it, \
         stalled | ratio |\n|---|---|---|---|---|\n",
    );
    let mut list = Vec::new();
    for (((what, _), stalled), rates) in rows.iter().zip(&rates) {
        let [without, with] = [0, 1].map(|at| Spread::of(&rates[at]).unwrap_or_default());
        let ratio = with.median / without.median;
        let Stalled { name, behind, .. } = stalled;
        text += &format!(
            "| {what} | {behind} waiting, {name} | {} | {} | {ratio:.2} |\n",
            without.show(),
            with.show()
        );
        list.push(json!({
            "what": what, "stalled": name, "behind": behind, "without": rates[0],
            "with": rates[1], "ratio": ratio,
        }));
    }
    Ok(Section { name: "isolation", markdown: text, json: list.into() })
}

fn measure(does: Does, stall: &Stalled, slice: Duration, rates: &mut Rates) -> io::Result<()> {
    let pair = Pair::new(&LOOPBACK)?;
    let target = segment(&pair.server, 1 << 16, Rights::READ_WRITE)?;
    let source = segment(&pair.client, 1 << 16, Rights::NONE)?;
    let deaf = jetty(&pair.server)?;
    let stalled = jetty(&pair.client)?;
    let others = (0..OTHERS).map(|_| jetty(&pair.client)).collect::<io::Result<Vec<_>>>()?;
    pair.run_alone(|| {
        let measure = || drive(&pair, &others, does, [&source, &target], slice / ROUNDS);
        for _ in 0..ROUNDS {
            rates[0].push(measure()?);
            stall.post(&pair, &stalled, deaf.number(), [&source, &target]).map_err(failed)?;
            rates[1].push(measure()?);
            if u64::from(stalled.outstanding()) != 1 + stall.behind {
                return Err(io::Error::other("the stalled Jetty was not stalled"));
            }
            // With this receive all operations complete.
            deaf.post_receive(target.slice(0..BYTES), 0).map_err(failed)?;
            stalled.drain(TIMEOUT).map_err(failed)?;
        }
        Ok(())
    })
}

impl Stalled {
    /// Posts a message for which there is no receive, and the operations that must follow it.
    fn post(
        &self,
        pair: &Pair,
        jetty: &Jetty,
        deaf: u32,
        [source, target]: [&Segment; 2],
    ) -> Result<(), Error> {
        let jetty = jetty.ordered(Order::strict(self.mode));
        jetty.send(&pair.peer, deaf, source.slice(0..BYTES), 0)?;
        for number in 1..=self.behind {
            let place = number * BYTES;
            let local = source.slice(place..place + BYTES);
            jetty.write(&pair.peer, local, target.key().at(place), number)?;
        }
        Ok(())
    }
}

/// Rate of the other Jetties.
fn drive(
    pair: &Pair,
    others: &[Jetty],
    does: Does,
    [source, target]: [&Segment; 2],
    slice: Duration,
) -> io::Result<f64> {
    let mut flows: Vec<Flow<'_>> =
        others.iter().map(|jetty| Flow::new(jetty, DEPTH, false)).collect();
    let start = Instant::now();
    while start.elapsed() < slice {
        for flow in &mut flows {
            flow.step(|batch, number| {
                let place = number % DEPTH * BYTES;
                let (local, remote) = (source.slice(place..place + BYTES), target.key().at(place));
                let strict = batch.ordered(Order::strict(ServiceMode::Rot));
                match does {
                    Does::Write => batch.write(&pair.peer, local, remote, number),
                    Does::WriteStrictly => strict.write(&pair.peer, local, remote, number),
                    Does::Read => batch.read(&pair.peer, local, remote, number),
                }
            })?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let done: u64 = flows.iter().map(|flow| flow.done).sum();
    flows.iter_mut().try_for_each(Flow::drain)?;
    Ok(done as f64 / seconds / 1e6)
}
