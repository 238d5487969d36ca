//! The search for schedules that break the rules of order, within about a minute; `make
//! order-check` searches further.

use fairway_storm::order::programs::{
    Findings, MODES, Space, asks_in_vain, everything, medium, plain, search, search_drawn,
    to_two_nodes,
};
use fairway_storm::order::{Bounds, Kind};

fn bounds(text: &str) -> Bounds {
    text.parse().unwrap()
}

/// Prints the extent of a search, and fails if it found a violation.
fn judge(name: &str, bounds: &Bounds, findings: &Findings) {
    println!("{name} [{bounds}]: {}, {} left out", findings.sum, findings.skipped);
    if let Some(failing) = findings.failing.first() {
        panic!("{name}: {failing}");
    }
    assert!(findings.sum.runs > findings.sum.programs, "more schedules than programs");
}

fn space(name: &'static str, alphabet: &[fairway_storm::order::Operation], length: usize) -> Space {
    Space { name, alphabet: alphabet.to_vec(), length, jetties: vec![0, 0] }
}

fn go(space: &Space, limits: &str, stride: u64) {
    let limits = bounds(limits);
    judge(space.name, &limits, &search(space, &limits, stride, 1, asks_in_vain));
}

#[test]
fn every_single_operation_obeys_the_order_rules() {
    go(&space("one operation", &everything(), 1), "1,1,1,1,0,1,2000", 1);
}

#[test]
fn two_operations() {
    go(&space("two operations", &everything(), 2), "1,0,0,0,0,0,400", 1);
    go(&space("two operations, losses", &everything(), 2), "1,1,1,1,0,0,100", 97);
}

#[test]
fn three_operations() {
    for mode in MODES {
        go(&space("three operations", &medium(&[mode]), 3), "1,0,0,0,0,0,50", 13);
    }
    go(&space("three operations, modes", &medium(&MODES), 3), "1,0,0,0,0,0,30", 401);
}

#[test]
fn four_and_five_operations() {
    for mode in MODES {
        let alphabet = plain(&[mode], &[Kind::Write(1), Kind::Read(1)]);
        go(&space("four operations", &alphabet, 4), "1,0,0,0,0,0,30", 17);
        let alphabet = plain(&[mode], &[Kind::Write(1), Kind::Atomic]);
        go(&space("five operations", &alphabet, 5), "1,0,0,0,0,0,30", 211);
    }
}

/// The same over groups of two channels: the order of operations does not depend on the channel
/// they use.
#[test]
fn two_channels() {
    let two = |bounds: &str| format!("{bounds},16,0,2");
    go(&space("two operations, two channels", &everything(), 2), &two("1,0,0,0,0,0,200"), 3);
    go(&space("the same, losses", &everything(), 2), &two("1,1,1,1,0,0,100"), 193);
    for mode in MODES {
        go(&space("three, two channels", &medium(&[mode]), 3), &two("1,0,0,0,0,0,40"), 29);
        let alphabet = plain(&[mode], &[Kind::Write(1), Kind::Atomic]);
        go(&space("five, two channels", &alphabet, 5), &two("1,0,0,0,0,0,30"), 401);
    }
    let limits = bounds(&two("3,2,1,3,2,1,0"));
    judge("drawn, two channels", &limits, &search_drawn(0..500, 5, &limits, 10, 1));
}

#[test]
fn two_targets_and_two_initiators() {
    let alphabet = plain(&MODES, &[Kind::Write(1), Kind::Read(1)]);
    let across = Space { jetties: vec![0], ..space("two nodes", &to_two_nodes(&alphabet), 3) };
    go(&across, "1,0,0,0,0,0,30", 37);
    let aliased = Space { jetties: vec![0, 2], ..space("equal numbers", &alphabet, 3) };
    go(&aliased, "1,0,0,0,0,0,30", 37);
}

#[test]
fn programs_and_schedules_that_are_drawn() {
    let limits = bounds("3,2,1,3,2,1,0");
    judge("drawn", &limits, &search_drawn(0..1_000, 5, &limits, 10, 1));
}
