use super::*;
use crate::recorded::RECORDED;

/// Recorded seeds of worlds that have trimmed packets or congestion information.
const NEWER: [u64; 11] = [
    83_117_351,
    86_000_032,
    86_000_139,
    86_000_428,
    2_301,
    2_464,
    4_136,
    106_247_513,
    550,
    615,
    3_025,
];
/// Recorded seeds of worlds in which channels of groups die, or channels rest.
const NEWEST: [u64; 5] = [2_301, 2_464, 4_136, 968, 106_247_513];

/// Recorded seeds of worlds in which data packets carry acknowledgements.
const CARRYING: [u64; 7] = [1_611, 550, 5_826, 757, 172_106_910, 112_800, 230_007_969];

/// Recorded seeds of worlds in which paths fail for good.
const FAILING: [u64; 1] = [757];

/// Recorded seeds of worlds in which many operations are posted at once.
const BURSTING: [u64; 5] = [5_826, 757, 3_025, 172_106_910, 240_010_970];

/// Recorded seeds of worlds in which Jetties are aborted.
const ABORTING: [u64; 2] = [230_007_969, 250_026_477];

/// Recorded seeds of worlds in which operations without a receive request receive order.
const ONE_ORDERING: [u64; 0] = [];

/// Seeds of the worlds that failed once, and of those in which injected bugs are found.
fn recorded_seeds() -> impl Iterator<Item = u64> {
    let failed = include_str!("../../seeds.txt").lines().filter(|line| !line.starts_with('#'));
    let failed = failed.map(|line| line.split_whitespace().next().unwrap().parse().unwrap());
    failed.chain(RECORDED.iter().map(|recorded| recorded.plan()))
}

/// Seeds that were recorded before worlds had trimmed packets, or congestion information, still
/// stand for the same worlds.
#[test]
fn recorded_seeds_have_the_worlds_in_which_they_failed() {
    for seed in recorded_seeds().filter(|seed| !NEWER.contains(seed)) {
        let network_faults = Plan::draw(seed).network_faults;
        assert_eq!((network_faults.trim, network_faults.hint), (0, 0), "{seed}");
    }
}

/// So do seeds that were recorded before hosts knew how long packets waited.
#[test]
fn recorded_seeds_have_hosts_that_know_no_waits() {
    for seed in recorded_seeds() {
        assert!(!Plan::draw(seed).config.knows_waits, "{seed}");
    }
}

/// So do seeds that were recorded before data packets carried acknowledgements.
#[test]
fn recorded_seeds_have_no_carried_acknowledgements() {
    for seed in recorded_seeds().filter(|seed| !CARRYING.contains(seed)) {
        assert!(!Plan::draw(seed).carried_acks, "{seed}");
    }
}

/// So do seeds that were recorded before sides that open a channel probed its first path.
#[test]
fn recorded_seeds_have_no_probes_of_first_paths() {
    for seed in recorded_seeds() {
        assert!(!Plan::draw(seed).extras.first_probes, "{seed}");
    }
}

/// So do seeds that were recorded before channels of groups died, or channels rested.
#[test]
fn recorded_seeds_have_no_channels_that_die_or_rest() {
    for seed in recorded_seeds().filter(|seed| !NEWEST.contains(seed)) {
        let plan = Plan::draw(seed);
        assert!(!plan.retirement.agreed && plan.resting.chance == 0, "{seed}");
    }
}

/// So do seeds that were recorded before paths failed for good.
#[test]
fn recorded_seeds_have_no_paths_that_fail_for_good() {
    for seed in recorded_seeds().filter(|seed| !FAILING.contains(seed)) {
        assert!(Plan::draw(seed).last_path.is_none(), "{seed}");
    }
}

/// So do seeds that were recorded before many operations were posted at once.
#[test]
fn recorded_seeds_have_no_bursts_of_operations() {
    for seed in recorded_seeds().filter(|seed| !BURSTING.contains(seed)) {
        assert_eq!(Plan::draw(seed).bursts.count, 0, "{seed}");
    }
}

/// So do seeds that were recorded before Jetties were aborted.
#[test]
fn recorded_seeds_have_no_aborted_jetties() {
    for seed in recorded_seeds().filter(|seed| !ABORTING.contains(seed)) {
        assert_eq!(Plan::draw(seed).extras.aborts, 0, "{seed}");
    }
}

/// So do seeds that were recorded before applications requested one order for all operations.
#[test]
fn recorded_seeds_have_no_order_of_receives_that_are_not_taken() {
    for seed in recorded_seeds().filter(|seed| !ONE_ORDERING.contains(seed)) {
        assert_eq!(Plan::draw(seed).extras.one_order, 0, "{seed}");
    }
}
