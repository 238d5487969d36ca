//! Planted bugs of memory order: each has to be found.

use crate::plan::{Relaxed, Traffic};
use crate::world::{Faults, World};
use fairway_roce::Canary;

/// What is out of order in a run with this bug.
fn violations(canary: Canary, seed: u64) -> usize {
    let traffic = match canary {
        Canary::PlaceLaterMessages | Canary::PlaceEndEarly => Traffic::OVERLAPPING_OUT_OF_ORDER,
        Canary::SendOverRead => Traffic::OVERLAPPING,
        // The responder is to be at fault.
        Canary::AnswerLate | Canary::OvertakeAtomic => {
            Traffic { relaxed: Relaxed::Sender, ..Traffic::OVERLAPPING }
        }
    };
    let Faults { placement_ns, blocked, .. } = Faults::of(seed);
    let faults = match traffic.relaxed {
        // Where nothing is lost, the bytes of a READ are right if the responder is.
        Relaxed::Sender => Faults { placement_ns, blocked, ..Faults::NONE },
        _ => Faults::of(seed),
    };
    let mut world = World::new(seed, faults, traffic);
    for node in &mut world.nodes {
        node.host_mut().plant(canary);
    }
    world.run();
    world.nodes.iter().map(|node| node.violations.len()).sum()
}

#[test]
fn every_bug_of_order_is_found() {
    for canary in Canary::ALL {
        let found = (0..20).find(|&seed| violations(canary, seed) > 0);
        let seed = found.unwrap_or_else(|| panic!("{canary:?} was not found"));
        println!("{canary:?} was found by seed {seed}");
    }
}
