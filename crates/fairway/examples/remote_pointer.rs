//! Measures the cost of an access through a pointer into a peer's memory: over the network, and to
//! a process on the same host.
//!
//! `cargo run --release --package fairway --example remote_pointer`

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use fairway::{Context, Error, Memory, RemotePtr, Rights};

const ROUNDS: u32 = 20_000;

fn main() -> Result<(), Error> {
    let here = || Context::builder().bind(IpAddr::V4(Ipv4Addr::LOCALHOST)).build();
    let (owner, visitor) = (here()?, here()?);
    let peer = visitor.connect(owner.local_addrs()[0], Duration::from_secs(5))?;
    for (name, memory) in
        [("over the network", Memory::zeroed(4096)?), ("same host, mapped", Memory::shared(4096)?)]
    {
        let segment = owner.register(memory, Rights::ALL)?;
        let memory = peer.memory(segment.key())?;
        let counter: RemotePtr<u64> = memory.at(64)?;
        counter.store(1)?;
        assert_eq!(counter.fetch_add(1)?, 1);
        println!(
            "{name}: load {:.0} ns, store {:.0} ns, fetch-add {:.0} ns",
            cost(|| counter.load().map(drop))?,
            cost(|| counter.store(7))?,
            cost(|| counter.fetch_add(1).map(drop))?,
        );
    }
    Ok(())
}

/// Nanoseconds per access: the median of nine runs.
fn cost(access: impl Fn() -> Result<(), Error>) -> Result<f64, Error> {
    let mut runs = Vec::new();
    for _ in 0..9 {
        let start = Instant::now();
        for _ in 0..ROUNDS / 9 {
            access()?;
        }
        runs.push(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS / 9));
    }
    runs.sort_by(f64::total_cmp);
    Ok(runs[runs.len() / 2])
}
