//! Tests that each injected bug of memory order is found.

use crate::plan::{Relaxed, Traffic};
use crate::world::{Faults, World};
use fairway_roce::InjectedBug;

/// Number of order violations in a run with this injected bug.
fn violations(bug: InjectedBug, seed: u64) -> usize {
    let traffic = match bug {
        InjectedBug::PlaceLaterMessages | InjectedBug::PlaceEndEarly => {
            Traffic::OVERLAPPING_OUT_OF_ORDER
        }
        InjectedBug::SendOverRead => Traffic::OVERLAPPING,
        // Only the responder may be at fault.
        InjectedBug::AnswerLate | InjectedBug::OvertakeAtomic => {
            Traffic { relaxed: Relaxed::Sender, ..Traffic::OVERLAPPING }
        }
    };
    let Faults { placement_ns, blocked, .. } = Faults::of(seed);
    let faults = match traffic.relaxed {
        // Without losses, READs return the right bytes if the responder is correct.
        Relaxed::Sender => Faults { placement_ns, blocked, ..Faults::NONE },
        _ => Faults::of(seed),
    };
    let mut world = World::new(seed, faults, traffic);
    for node in &mut world.nodes {
        node.host_mut().inject(bug);
    }
    world.run();
    world.nodes.iter().map(|node| node.violations.len()).sum()
}

#[test]
fn every_bug_of_order_is_found() {
    for bug in InjectedBug::ALL {
        let found = (0..20).find(|&seed| violations(bug, seed) > 0);
        let seed = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!("{bug:?} was found by seed {seed}");
    }
}
