//! Injected bugs: the storm has to find each of them, and no fault in a NIC without one.
#![cfg(feature = "injected-bugs")]

use fairway_storm::storm::run;
use fairway_storm::{Variation, bug_runs, sweep, threads};
use fairway_ub::InjectedBug;

/// Every injected bug is caught by a seed recorded for it, or by one of the first seeds up to this
/// number.
const SEEDS: u64 = 300;

fn caught(bug: InjectedBug) -> Option<u64> {
    let is_caught = |&(seed, variation): &(u64, Variation)| run(seed, variation.options()).is_err();
    bug_runs(bug, SEEDS).find(is_caught).map(|(seed, _)| seed)
}

#[test]
fn every_injected_bug_is_caught() {
    // An injected bug may also trip an assertion of the protocol, which need not be printed.
    std::panic::set_hook(Box::new(|_| {}));
    let found: Vec<_> = InjectedBug::ALL.iter().map(|&bug| (bug, caught(bug))).collect();
    let _ = std::panic::take_hook();
    for (bug, seed) in found {
        let seed = seed.unwrap_or_else(|| panic!("{bug:?} was not caught in {SEEDS} seeds"));
        println!("{bug:?} was caught by seed {seed}");
    }
}

#[test]
fn without_an_injected_bug_the_same_seeds_pass() {
    sweep(0..SEEDS, threads(), Variation::default(), &[], |outcome| match outcome {
        Ok(_) => true,
        Err(failure) => panic!("{failure}"),
    });
}
