//! A warm simulation allocates nothing.
//!
//! This is a separate test program because its allocator counts, and no other test may run beside
//! it.

use fairway_sim::{Clos, Overflow, Routing, Scenario, Simulation, Stack, traffic};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_warm_simulation_allocates_nothing() {
    for (stack, overflow, routing) in [
        (Stack::Fairway, Overflow::Drop, Routing::Ecmp),
        (Stack::Fairway, Overflow::Trim, Routing::Spray),
        (Stack::Roce, Overflow::Drop, Routing::Ecmp),
        (Stack::RoceIrn, Overflow::Drop, Routing::Ecmp),
    ] {
        let network = Clos::three_tiers(16, 1).expect("a tree").build(400_000, 1_000_000);
        let flows = traffic::incast_and_permutation(16, 15, 1 << 20, 4, 1);
        let mut scenario = Scenario::new(network, flows);
        scenario.queue.bytes = 40 * 4200;
        scenario.queue.overflow = overflow;
        (scenario.routing, scenario.stack) = (routing, stack);
        let mut simulation = Simulation::new(scenario, 1).expect("a run");
        while simulation.progress().completed < 16 {
            assert!(simulation.step(), "more than 16 flows");
        }
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        while simulation.step() {}
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        let report = simulation.report();
        assert!(report.is_complete() && report.resent > 100, "losses were recovered from");
        let run = (stack, overflow);
        assert_eq!(allocations, 0, "{run:?}: allocations in {} events", report.events);
    }
}
