//! The storm over its standard range of seeds, and the faults and results that the range covers.

use fairway_storm::storm::{Options, Report, STATUSES, run};
use fairway_storm::{Fault, Variation, sweep, threads};
use fairway_ub::DropReason;

/// Seeds of every test run.
const STANDARD: std::ops::Range<u64> = 0..10_000;

#[test]
fn seeds_that_once_failed_pass() {
    for line in include_str!("../seeds.txt").lines().filter(|line| !line.starts_with('#')) {
        let seed = line.split_whitespace().next().and_then(|word| word.parse().ok());
        let seed = seed.unwrap_or_else(|| panic!("seeds.txt has no seed in: {line}"));
        if let Err(failure) = run(seed, Options::default()) {
            panic!("{line}\n{failure}");
        }
    }
}

/// Sums over many reports.
struct Sums {
    faults: [u64; Fault::COUNT],
    drops: [u64; DropReason::COUNT],
    statuses: [u64; STATUSES.len()],
    carrying: u64,
}

impl Sums {
    const NONE: Sums = Sums {
        faults: [0; Fault::COUNT],
        drops: [0; DropReason::COUNT],
        statuses: [0; STATUSES.len()],
        carrying: 0,
    };

    fn add(&mut self, report: &Report) {
        let add = |sums: &mut [u64], counts: &[u64]| {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        };
        add(&mut self.faults, &report.faults);
        add(&mut self.drops, &report.drops);
        add(&mut self.statuses, &report.statuses);
        self.carrying += report.carrying;
    }
}

#[test]
fn the_standard_seeds_pass_and_cover_everything() {
    let mut sums = Sums::NONE;
    sweep(STANDARD, threads(), Variation::default(), &[], |outcome| match outcome {
        Ok(report) => {
            sums.add(&report);
            true
        }
        Err(failure) => panic!("{failure}"),
    });
    for fault in Fault::ALL {
        assert!(sums.faults[fault as usize] > 0, "{fault:?} never happened");
    }
    for reason in DropReason::ALL {
        // The nodes agree on unreliable messages, loads and stores, so this reason cannot occur.
        let possible = reason != DropReason::NotAgreed;
        assert_eq!(sums.drops[reason as usize] > 0, possible, "dropped for {reason:?}");
    }
    for status in STATUSES {
        assert!(sums.statuses[status as usize] > 0, "nothing ends as {status:?}");
    }
    assert!(sums.carrying > 0, "no data packet carried an acknowledgement");
}

#[test]
fn the_same_seed_gives_the_same_events() {
    for seed in [3, 17, 44, 101, 230] {
        let once = run(seed, Options::default()).unwrap();
        let trace: Box<dyn std::io::Write> = Box::new(std::io::sink());
        let again = run(seed, Options { trace: Some(trace), ..Options::default() }).unwrap();
        assert_eq!(once, again, "seed {seed}: a trace must not change what is traced");
    }
    let hash = |seed| run(seed, Options::default()).unwrap().hash;
    assert_ne!(hash(3), hash(17));
}
