//! Events allocate nothing, except the one in which a module is taken out of use.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{Folder, example, policies, with};
use fairway_policy::PathView;
use fairway_sandbox::Engine;
use fairway_sandbox::probe::{Event, Sequence};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// Safety: it is the system's; only counted, by thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // Safety: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // Safety: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    run();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn events_allocate_nothing() {
    assert!(allocations(|| drop(std::hint::black_box(Box::new(1)))) > 0, "allocations are counted");
    for file in ["rust/swift.wasm", "rust/aimd.wasm", "c/aimd.wasm"] {
        let policies = policies(&format!("cc={},path={}", example(file), example("c/p2c.wasm")));
        let mut set = policies.build(4096);
        let mut paths = [PathView::default(); 256];
        let mut sequence = Sequence::new(1);
        let mut run = |events: usize| {
            for _ in 0..events {
                if let Some(event) = sequence.next() {
                    event.deliver(&mut *set.congestion);
                }
                let request = sequence.chunk(&mut paths);
                set.path.choose(&paths, &request);
            }
        };
        run(10);
        assert_eq!(allocations(|| run(2000)), 0, "{file}");
        assert_eq!(policies.reports()[0].faults, 0);
    }
}

#[test]
fn the_fault_that_ends_a_module_allocates_no_more_than_the_engines_error() {
    let folder = Folder::new();
    let body = "(i64.store (i32.const 1024) (i64.add (i64.load (i32.const 1024)) \
                (i64.const 1000)))";
    let file = folder.put("loop.wasm", &with(body, "(loop (br 0))"));
    let policies = policies(&format!("cc={file}"));
    let (mut first, mut second) = (policies.build(4096), policies.build(4096));
    let event = Event::Ack(Sequence::new(1).ack());
    event.deliver(&mut *first.congestion);
    let count = allocations(|| {
        event.deliver(&mut *second.congestion);
    });
    let report = policies.reports().swap_remove(0);
    let most = if report.engine == Engine::Compiled { 6 } else { 2 };
    assert!(count <= most, "{count}");
    assert_eq!(report.faults, 2);
}
