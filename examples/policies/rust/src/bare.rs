//! What a program without an operating system needs: memory, an end after a panic, and the function
//! of the host.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size, unreachable};
use core::cell::Cell;

/// Bytes of a page of WebAssembly.
const PAGE: usize = 65_536;

#[link(wasm_import_module = "fairway")]
unsafe extern "C" {
    /// The square root, rounded down.
    pub(crate) safe fn isqrt(value: u64) -> u64;
}

/// Memory that is given out once and never returned: a policy has what it needs from its start, and
/// the host refuses more afterwards.
struct Heap {
    next: Cell<usize>,
    end: Cell<usize>,
}

// Safety: there is only one thread.
unsafe impl Sync for Heap {}

// Safety: every address is given out once, within pages that the host has granted.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut at = self.next.get().next_multiple_of(layout.align());
        if at + layout.size() > self.end.get() {
            let pages = (layout.size() + layout.align()).div_ceil(PAGE);
            let begin = memory_size(0) * PAGE;
            if memory_grow(0, pages) == usize::MAX {
                return core::ptr::null_mut();
            }
            if begin != self.end.get() {
                at = begin.next_multiple_of(layout.align());
            }
            self.end.set(begin + pages * PAGE);
        }
        self.next.set(at + layout.size());
        at as *mut u8
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static HEAP: Heap = Heap { next: Cell::new(0), end: Cell::new(0) };

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unreachable()
}
