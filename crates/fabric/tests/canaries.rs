//! Planted bugs: the storm has to find each of them, and nothing in a NIC without.
#![cfg(feature = "canary")]

use fairway_engine::Canary;
use fairway_fabric::storm::{Options, run};
use fairway_fabric::{canary_seeds, sweep, threads};

/// Every canary is caught by a seed recorded for it, or by one of this many.
const SEEDS: u64 = 300;

fn caught(canary: Canary) -> Option<u64> {
    canary_seeds(canary, SEEDS)
        .find(|&seed| run(seed, Options { trace: None, canary: Some(canary) }).is_err())
}

#[test]
fn every_canary_is_caught() {
    // A canary may also trip an assertion of the engine: no need to print each.
    std::panic::set_hook(Box::new(|_| {}));
    let found: Vec<_> = Canary::ALL.iter().map(|&canary| (canary, caught(canary))).collect();
    let _ = std::panic::take_hook();
    for (canary, seed) in found {
        let seed = seed.unwrap_or_else(|| panic!("{canary:?} was not caught in {SEEDS} seeds"));
        println!("{canary:?} was caught by seed {seed}");
    }
}

#[test]
fn without_a_canary_the_same_seeds_pass() {
    sweep(0..SEEDS, threads(), None, |outcome| match outcome {
        Ok(_) => true,
        Err(failure) => panic!("{failure}"),
    });
}
