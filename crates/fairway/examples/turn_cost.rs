//! Measures what the library's own code costs a message: both ends are in one thread, so no thread
//! waits for another, and no cache line crosses between cores.
//!
//! `cargo run --release --package fairway --example turn_cost [shm|udp] [message|write]`

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use fairway::{
    Completion, CompletionKind, Context, DatapathKind, Error, Event, Jetty, JettyOptions, Memory,
    Peer, Post, Rights, Segment,
};

const TIMEOUT: Duration = Duration::from_secs(5);
/// Duration of each run; the median of them is printed.
const RUN: Duration = Duration::from_millis(100);
const RUNS: usize = 9;
/// Operations in flight, and in a batch, of the measurement of WRITEs.
const DEPTH: usize = 256;
const BATCH: usize = 32;

/// One end of the connection.
struct End {
    _context: Context,
    peer: Peer,
    jetty: Jetty,
    segment: Segment,
}

impl End {
    fn new(context: Context, peer: Peer) -> Result<End, Error> {
        let jetty = context.create_jetty(JettyOptions::default())?;
        let segment = context.register(Memory::zeroed(4096)?, Rights::ALL)?;
        Ok(End { _context: context, peer, jetty, segment })
    }
}

fn main() -> Result<(), Error> {
    let options: Vec<String> = std::env::args().skip(1).collect();
    let wants = |name: &str, others: [&str; 2]| {
        let named = |other: &&str| options.iter().any(|option| option == other);
        named(&name) || !others.iter().any(named)
    };
    for (name, datapath) in [("shm", DatapathKind::Shm), ("udp", DatapathKind::Udp)] {
        if !wants(name, ["shm", "udp"]) {
            continue;
        }
        let ends = connect(datapath)?;
        if wants("message", ["message", "write"]) {
            let ns = median(|| messages(&ends))?;
            println!("{name}: SEND of 64 B and its acknowledgement, {ns:.0} ns");
        }
        if wants("write", ["message", "write"]) {
            let ns = median(|| writes(&ends))?;
            println!("{name}: WRITE of 8 B, {DEPTH} in flight, {ns:.0} ns");
        }
    }
    Ok(())
}

fn connect(datapath: DatapathKind) -> Result<[End; 2], Error> {
    let at = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let here = || Context::builder().bind(at).datapath(datapath).build();
    let (server, client) = (here()?, here()?);
    let peer = client.connect(server.local_addrs()[0], TIMEOUT)?;
    let back = loop {
        if let Event::Connected(back) = server.wait_event(TIMEOUT)? {
            break back;
        }
    };
    Ok([End::new(client, peer)?, End::new(server, back)?])
}

/// Sends a message to and fro for the time of a run. Returns nanoseconds per message. A function of
/// its own also in the machine code, for profilers.
#[inline(never)]
fn messages(ends: &[End; 2]) -> Result<f64, Error> {
    let mut found: Vec<Completion> = Vec::new();
    let (mut count, start) = (0_u32, Instant::now());
    while start.elapsed() < RUN {
        for (from, to) in [(0, 1), (1, 0)] {
            let (from, to) = (&ends[from], &ends[to]);
            to.jetty.post_receive(to.segment.slice(64..128), 0)?;
            let message = from.segment.slice(0..64);
            from.jetty.send(&from.peer, to.jetty.number(), message, 1)?;
            let mut has_arrived = false;
            while !has_arrived {
                to.jetty.poll(&mut found);
                for done in found.drain(..) {
                    has_arrived |= done.result()?.kind == CompletionKind::Receive;
                }
            }
            count += 1;
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(count))
}

/// Writes words for the time of a run. Returns nanoseconds per WRITE.
fn writes(ends: &[End; 2]) -> Result<f64, Error> {
    let [client, server] = ends;
    let (word, key) = (client.segment.slice(0..8), server.segment.key());
    let mut found: Vec<Completion> = Vec::new();
    let (mut count, mut in_flight, start) = (0_u32, 0, Instant::now());
    while start.elapsed() < RUN || in_flight > 0 {
        if start.elapsed() < RUN && in_flight + BATCH <= DEPTH {
            in_flight += client.jetty.batch(|batch| {
                (0..BATCH).try_for_each(|id| {
                    batch.write(&client.peer, word, key.at(8 * id as u64), id as u64)
                })
            })?;
        }
        server.jetty.poll(&mut found);
        client.jetty.poll(&mut found);
        for done in found.drain(..) {
            // The last messages of the other measurement may complete now.
            if done.result()?.kind == CompletionKind::Write {
                (count, in_flight) = (count + 1, in_flight - 1);
            }
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(count))
}

fn median(mut run: impl FnMut() -> Result<f64, Error>) -> Result<f64, Error> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(run()?);
    }
    runs.sort_by(f64::total_cmp);
    Ok(runs[RUNS / 2])
}
