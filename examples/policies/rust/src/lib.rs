//! Policies for Fairway in Rust, compiled to WebAssembly and loaded while it runs.
//!
//! A policy implements the traits of `fairway-policy`, as the built-in ones do, and [`Start`]; one
//! line exports it: `congestion_control!(Mine, hooks = [on_spurious]);` or `path_choice!(Mine);`.
//! `examples/` has whole policies. Build them with
//! `cargo build --release --examples` in this folder; each is a file of a few KB.
//!
//! No allocation is possible, and a panic ends the use of the policy.
#![no_std]

use core::cell::UnsafeCell;
use core::mem::offset_of;

pub use fairway_policy as policy;
use fairway_policy::{
    AckSample, ChunkRequest, CongestionControl, LossSample, PathChoice, PathView,
};
pub use fairway_wire as wire;
use fairway_wire::{Duration, Instant};

mod parameters;

pub use parameters::{Parameter, Parameters};

/// The version of the interface that this is made for.
pub const ABI_VERSION: u32 = 1;

/// How a policy begins.
pub trait Start: Sized {
    /// With what the host says.
    ///
    /// # Errors
    /// What is wrong with the parameters.
    fn start(beginning: &Beginning<'_>) -> Result<Self, &'static str>;
}

/// What a policy begins with.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// Payload bytes of a packet.
    pub mtu_bytes: u32,
    /// `name=value:name=value`.
    pub parameters: Parameters<'a>,
    /// The window of the policy that this one takes the place of.
    pub window_bytes: Option<u64>,
}

/// The memory shared with the host; docs/policies.md has the layout, which is frozen.
#[repr(C)]
struct Area {
    decision: Decision,
    sample: [u64; 16],
    start: [u32; 16],
    paths: [Path; 256],
    text: [u8; 1024],
    reserved: [u8; 2816],
}

#[repr(C)]
struct Decision {
    window_bytes: u64,
    pacing_bytes_per_second: u64,
    pacing_burst_bytes: u32,
    chunk_bytes: u32,
    reserved: [u64; 5],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Path {
    smoothed_rtt_ps: u64,
    rtt_deviation_ps: u64,
    sent: u64,
    lost: u64,
    marked: u64,
    in_flight: u32,
    flags: u32,
}

const _: () = assert!(offset_of!(Area, sample) == 64 && offset_of!(Area, start) == 192);
const _: () = assert!(offset_of!(Area, paths) == 256 && offset_of!(Area, text) == 12544);
const _: () = assert!(size_of::<Area>() == 16384);

/// A module has one thread, and calls of the host do not nest.
struct Single<T>(UnsafeCell<T>);
// Safety: there is only one thread.
unsafe impl<T> Sync for Single<T> {}

// Safety: all of it is integers.
static AREA: Single<Area> = Single(UnsafeCell::new(unsafe { core::mem::zeroed() }));

fn area() -> &'static mut Area {
    // Safety: only the functions that the host calls use it, one at a time, each once.
    unsafe { &mut *AREA.0.get() }
}

/// Where the policy is kept. For the macros.
#[doc(hidden)]
pub struct Slot<P>(Single<Option<P>>);

impl<P> Slot<P> {
    pub const fn new() -> Self {
        Slot(Single(UnsafeCell::new(None)))
    }

    #[expect(clippy::mut_from_ref, reason = "the host's calls do not nest")]
    fn get(&self) -> &mut Option<P> {
        // Safety: as for the area.
        unsafe { &mut *self.0.0.get() }
    }
}

#[doc(hidden)]
pub fn area_address() -> u32 {
    AREA.0.get() as usize as u32
}

fn start<P: Start>(slot: &Slot<P>) -> bool {
    let area = area();
    let bytes = (area.start[2] as usize).min(area.text.len());
    let text = core::str::from_utf8(&area.text[..bytes]).unwrap_or("?");
    let window = Some(area.decision.window_bytes).filter(|window| *window > 0);
    let beginning = Beginning {
        mtu_bytes: area.start[0],
        parameters: Parameters::new(text),
        window_bytes: window,
    };
    match P::start(&beginning) {
        Ok(policy) => {
            *slot.get() = Some(policy);
            true
        }
        Err(why) => {
            let bytes = why.len().min(area.text.len() - 1);
            area.text[..bytes].copy_from_slice(&why.as_bytes()[..bytes]);
            area.text[bytes] = 0;
            false
        }
    }
}

#[doc(hidden)]
pub fn start_congestion<P: Start + CongestionControl>(slot: &Slot<P>) -> u32 {
    let started = start(slot);
    with(slot, |_| ());
    u32::from(!started)
}

#[doc(hidden)]
pub fn start_path<P: Start + PathChoice>(slot: &Slot<P>) -> u32 {
    u32::from(!start(slot))
}

/// Calls the policy, and writes down what it has decided.
#[doc(hidden)]
pub fn with<P: CongestionControl, R: Default>(slot: &Slot<P>, call: impl FnOnce(&mut P) -> R) -> R {
    let Some(policy) = slot.get() else { return R::default() };
    let answer = call(policy);
    let decision = &mut area().decision;
    decision.window_bytes = policy.window_bytes();
    decision.pacing_bytes_per_second = policy.pacing_bytes_per_second().unwrap_or(0);
    decision.pacing_burst_bytes = policy.pacing_burst_bytes();
    // The host takes no more than what remains.
    decision.chunk_bytes = policy.chunk_bytes(u64::from(u32::MAX));
    answer
}

fn pair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[doc(hidden)]
pub fn ack() -> AckSample {
    let words = &area().sample;
    let (acked_bytes, acked_packets) = pair(words[4]);
    let (marked_packets, path) = pair(words[5]);
    let (flags, hint) = pair(words[6]);
    AckSample {
        now: Instant::from_ps(words[0]),
        acked_bytes,
        acked_packets,
        path: path as u8,
        rtt: (flags & 1 != 0).then(|| Duration::from_ps(words[1])),
        smoothed_rtt: Duration::from_ps(words[2]),
        marked_packets,
        bytes_in_flight: words[3],
        hint: hint as u8,
        pressure: flags & 2 != 0,
        window_limited: flags & 4 != 0,
        endpoint_delay: (flags & 8 != 0).then(|| Duration::from_ps(words[7])),
        hops: words[8] as u8,
    }
}

#[doc(hidden)]
pub fn loss() -> LossSample {
    let words = &area().sample;
    let (lost_bytes, path) = pair(words[2]);
    LossSample {
        now: Instant::from_ps(words[0]),
        lost_bytes,
        path: path as u8,
        smoothed_rtt: Duration::from_ps(words[1]),
        by_timeout: words[3] & 1 != 0,
    }
}

/// Requests a path from the policy.
#[doc(hidden)]
pub fn choose<P: PathChoice>(slot: &Slot<P>, count: u32) -> u32 {
    let Some(policy) = slot.get() else { return 0 };
    let area = area();
    let (bytes, random) = pair(area.sample[1]);
    let request = ChunkRequest { now: Instant::from_ps(area.sample[0]), bytes, random };
    let mut views = [PathView::default(); 256];
    let count = (count as usize).min(views.len());
    for (view, path) in views.iter_mut().zip(&area.paths[..count]) {
        *view = PathView {
            smoothed_rtt: Duration::from_ps(path.smoothed_rtt_ps),
            rtt_deviation: Duration::from_ps(path.rtt_deviation_ps),
            in_flight: path.in_flight,
            sent: path.sent,
            lost: path.lost,
            marked: path.marked,
            usable: path.flags & 1 != 0,
            ..PathView::default()
        };
    }
    policy.choose(&views[..count], &request) as u32
}

/// Exports a congestion control: a type with `CongestionControl` and `Start`. Of the hooks that
/// have a default those that are named are exported; the others cost nothing.
#[macro_export]
macro_rules! congestion_control {
    ($policy:ty, hooks = [$($hook:ident),*]) => {
        static POLICY: $crate::Slot<$policy> = $crate::Slot::new();
        $crate::exports!();
        #[unsafe(no_mangle)]
        extern "C" fn fairway_init() -> u32 {
            $crate::start_congestion(&POLICY)
        }
        #[unsafe(no_mangle)]
        extern "C" fn on_ack() {
            $crate::with(&POLICY, |policy| {
                $crate::policy::CongestionControl::on_ack(policy, &$crate::ack())
            })
        }
        #[unsafe(no_mangle)]
        extern "C" fn on_loss() {
            $crate::with(&POLICY, |policy| {
                $crate::policy::CongestionControl::on_loss(policy, &$crate::loss())
            })
        }
        $($crate::hook!($hook);)*
    };
}

/// One of the hooks that need not be there.
#[doc(hidden)]
#[macro_export]
macro_rules! hook {
    (on_spurious) => {
        #[unsafe(no_mangle)]
        extern "C" fn on_spurious(now_ps: u64, packets: u32) {
            let now = $crate::wire::Instant::from_ps(now_ps);
            $crate::with(&POLICY, |policy| {
                $crate::policy::CongestionControl::on_spurious(policy, now, packets)
            })
        }
    };
    (permit_retransmit) => {
        #[unsafe(no_mangle)]
        extern "C" fn permit_retransmit(now_ps: u64, bytes: u32) -> u32 {
            let now = $crate::wire::Instant::from_ps(now_ps);
            $crate::with(&POLICY, |policy| {
                $crate::policy::CongestionControl::permit_retransmit(policy, now, bytes) as u32
            })
        }
    };
    (on_data) => {
        #[unsafe(no_mangle)]
        extern "C" fn on_data(now_ps: u64, bytes: u32, retransmitted: u32) {
            let now = $crate::wire::Instant::from_ps(now_ps);
            let again = retransmitted != 0;
            $crate::with(&POLICY, |policy| {
                $crate::policy::CongestionControl::on_data(policy, now, bytes, again)
            })
        }
    };
    (on_credit) => {
        #[unsafe(no_mangle)]
        extern "C" fn on_credit(now_ps: u64, bytes: u32) {
            let now = $crate::wire::Instant::from_ps(now_ps);
            $crate::with(&POLICY, |policy| {
                $crate::policy::CongestionControl::on_credit(policy, now, bytes)
            })
        }
    };
}

/// Exports a path choice: a type with `PathChoice` and `Start`.
#[macro_export]
macro_rules! path_choice {
    ($policy:ty) => {
        static POLICY: $crate::Slot<$policy> = $crate::Slot::new();
        $crate::exports!();
        #[unsafe(no_mangle)]
        extern "C" fn fairway_init() -> u32 {
            $crate::start_path(&POLICY)
        }
        #[unsafe(no_mangle)]
        extern "C" fn choose_path(count: u32) -> u32 {
            $crate::choose(&POLICY, count)
        }
    };
}

/// What every module has.
#[doc(hidden)]
#[macro_export]
macro_rules! exports {
    () => {
        #[unsafe(no_mangle)]
        extern "C" fn fairway_policy_abi() -> u32 {
            $crate::ABI_VERSION
        }
        #[unsafe(no_mangle)]
        extern "C" fn fairway_area() -> u32 {
            $crate::area_address()
        }
    };
}

#[cfg(target_arch = "wasm32")]
mod bare {
    use core::alloc::{GlobalAlloc, Layout};

    /// There is no heap: a policy has what it needs from the start.
    struct NoHeap;

    // Safety: it gives nothing out.
    unsafe impl GlobalAlloc for NoHeap {
        unsafe fn alloc(&self, _: Layout) -> *mut u8 {
            core::ptr::null_mut()
        }
        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
    }

    #[global_allocator]
    static HEAP: NoHeap = NoHeap;

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        core::arch::wasm32::unreachable()
    }
}
