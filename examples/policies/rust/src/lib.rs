//! Policies for Fairway in Rust, compiled to WebAssembly and loaded while it runs.
//!
//! A policy implements the traits of `fairway-policy`, as the built-in ones do, and [`Start`]; one
//! line exports it: `congestion_control!(Mine, hooks = [on_spurious]);`, `path_choice!(Mine);`,
//! `loss_detector!(Mine);` or `scheduler!(Mine);`. `examples/` has whole policies. Build them with
//! `cargo build --release --examples` in this folder; each is a file of a few KB.
//!
//! A policy can allocate memory while it starts, and not later. A panic ends its use.
#![no_std]

use core::cell::UnsafeCell;
use core::mem::offset_of;

pub use fairway_policy as policy;
use fairway_policy::{
    AckSample, ChunkRequest, CongestionControl, LossSample, PathAck, PathChoice, PathView,
};
pub use fairway_wire as wire;
use fairway_wire::{Cci, Duration, Instant};

#[cfg(target_arch = "wasm32")]
mod bare;
mod loss;
mod parameters;
mod scheduler;

#[doc(hidden)]
pub use loss::{
    detector_is_lost, detector_overdue_after, detector_progress, detector_reordering,
    start_detector,
};
pub use parameters::{Parameter, Parameters};
#[doc(hidden)]
pub use scheduler::{
    Flows, flow_ended, flow_started, on_hint, on_transmit, rates_address, share_changed,
    start_scheduler,
};

/// The version of the interface that this is made for.
pub const ABI_VERSION: u32 = 5;

/// How a policy begins.
pub trait Start: Sized {
    /// Whether it is a congestion control that spends credit: it then also exports the hooks
    /// `on_sent`, `credit_request` and `on_credit`.
    const SPENDS_CREDIT: bool = false;

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
    /// Number of flows, for a scheduler.
    pub flows: u32,
    /// The window of the policy that this one takes the place of.
    pub window_bytes: Option<u64>,
}

/// The square root, rounded down: the host's, which takes less time than one that is made of
/// instructions of the module.
pub fn isqrt(value: u64) -> u64 {
    #[cfg(target_arch = "wasm32")]
    return bare::isqrt(value);
    #[cfg(not(target_arch = "wasm32"))]
    return value.isqrt();
}

/// The memory shared with the host; docs/policies.md has the layout, which is frozen.
#[repr(C)]
struct Area {
    decision: Decision,
    sample: [u64; 16],
    start: [u32; 16],
    paths: [Path; 256],
    text: [u8; 1024],
    probed_rtt_ps: [u64; 256],
    reserved: [u8; 768],
}

#[repr(C)]
struct Decision {
    window_bytes: u64,
    pacing_bytes_per_second: u64,
    pacing_burst_bytes: u32,
    chunk_bytes: u32,
    allowance_bytes: u64,
    total_bytes: u64,
    request_at_ps: u64,
    ahead_bytes: u64,
    request_flags: u32,
    reserved: u32,
}

/// Indexes of what a module states, in `Area::start`.
const EVENT_BYTES: usize = 8;
const TRAITS: usize = 9;
const COMPARES_ACROSS_PATHS: u32 = 1;
const PACES_WITHIN_WINDOW: u32 = 2;

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
const _: () = assert!(offset_of!(Area, probed_rtt_ps) == 13568 && size_of::<Area>() == 16384);

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
        flows: area.start[3],
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
    if with(slot, |policy| policy.paces_within_window()) {
        area().start[TRAITS] |= PACES_WITHIN_WINDOW;
    }
    u32::from(!started)
}

#[doc(hidden)]
pub fn start_path<P: Start + PathChoice>(slot: &Slot<P>) -> u32 {
    u32::from(!start(slot))
}

/// Calls the policy, and writes down what it has decided.
#[doc(hidden)]
pub fn with<P: Start + CongestionControl, R: Default>(
    slot: &Slot<P>,
    call: impl FnOnce(&mut P) -> R,
) -> R {
    let Some(policy) = slot.get() else { return R::default() };
    let answer = call(policy);
    let decision = &mut area().decision;
    decision.window_bytes = policy.window_bytes();
    decision.pacing_bytes_per_second = policy.pacing_bytes_per_second().unwrap_or(0);
    decision.pacing_burst_bytes = policy.pacing_burst_bytes();
    // The host takes no more than what remains.
    decision.chunk_bytes = policy.chunk_bytes(u64::from(u32::MAX));
    if P::SPENDS_CREDIT {
        decision.allowance_bytes = policy.allowance_bytes();
        decision.request_at_ps = policy.credit_request_at().map_or(0, Instant::as_ps);
        decision.ahead_bytes = policy.credit_ahead_bytes();
    }
    answer
}

/// Asks the policy whether it requests credit.
#[doc(hidden)]
pub fn credit_request<P: Start + CongestionControl>(slot: &Slot<P>, now: u64, backlog: u64) -> u32 {
    let now = Instant::from_ps(now);
    let Some(request) = with(slot, |policy| policy.credit_request(now, backlog)) else { return 0 };
    let decision = &mut area().decision;
    decision.total_bytes = request.total_bytes;
    decision.request_flags = u32::from(request.resend) | u32::from(request.blocked) << 1;
    1
}

fn pair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[doc(hidden)]
pub fn ack() -> AckSample {
    let words = &area().sample;
    let (acked_bytes, acked_packets) = pair(words[4]);
    let (marked_packets, path) = pair(words[5]);
    let (flags, cci) = pair(words[6]);
    AckSample {
        now: Instant::from_ps(words[0]),
        acked_bytes,
        acked_packets,
        path: path as u8,
        rtt: (flags & 1 != 0).then(|| Duration::from_ps(words[1])),
        smoothed_rtt: Duration::from_ps(words[2]),
        marked_packets,
        bytes_in_flight: words[3],
        cci: Cci::from_bits(cci as u16),
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
        sent_at: Instant::from_ps(words[4]),
    }
}

#[doc(hidden)]
pub fn path_ack() -> PathAck {
    let words = &area().sample;
    let (acked_packets, marked_packets) = pair(words[2]);
    PathAck {
        now: Instant::from_ps(words[0]),
        acked_packets,
        marked_packets,
        rtt: (words[3] & 1 != 0).then(|| Duration::from_ps(words[1])),
        elapsed: (words[3] & 2 != 0).then(|| Duration::from_ps(words[4])),
    }
}

static VIEWS: Single<[PathView; 256]> = Single(UnsafeCell::new(
    [PathView {
        smoothed_rtt: Duration::ZERO,
        probed_rtt: Duration::ZERO,
        rtt_deviation: Duration::ZERO,
        in_flight: 0,
        sent: 0,
        lost: 0,
        marked: 0,
        usable: false,
    }; 256],
));

/// The paths that the host reports.
fn views(count: u32) -> &'static [PathView] {
    // Safety: only the functions that the host calls use it, one at a time, each once.
    let views = unsafe { &mut *VIEWS.0.get() };
    let count = (count as usize).min(views.len());
    let area = area();
    let paths = area.paths[..count].iter().zip(&area.probed_rtt_ps);
    for (view, (path, probed_rtt_ps)) in views.iter_mut().zip(paths) {
        view.probed_rtt = Duration::from_ps(*probed_rtt_ps);
        view.smoothed_rtt = Duration::from_ps(path.smoothed_rtt_ps);
        view.rtt_deviation = Duration::from_ps(path.rtt_deviation_ps);
        view.in_flight = path.in_flight;
        view.sent = path.sent;
        view.lost = path.lost;
        view.marked = path.marked;
        view.usable = path.flags & 1 != 0;
    }
    &views[..count]
}

/// Requests a path from the policy.
#[doc(hidden)]
pub fn choose<P: PathChoice>(slot: &Slot<P>, count: u32) -> u32 {
    let Some(policy) = slot.get() else { return 0 };
    let sample = &area().sample;
    let (bytes, random) = pair(sample[1]);
    let request = ChunkRequest { now: Instant::from_ps(sample[0]), bytes, random };
    policy.choose(views(count), &request) as u32
}

/// Asks the policy whether a chunk may leave.
#[doc(hidden)]
pub fn has_room<P: PathChoice>(slot: &Slot<P>, count: u32) -> u32 {
    slot.get().as_ref().map_or(1, |policy| u32::from(policy.has_room(views(count))))
}

/// Passes an event to a policy of any kind.
#[doc(hidden)]
pub fn tell<P>(slot: &Slot<P>, call: impl FnOnce(&mut P)) {
    if let Some(policy) = slot.get() {
        call(policy);
    }
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
    (on_sent) => {
        #[unsafe(no_mangle)]
        extern "C" fn on_sent(now_ps: u64, bytes: u32, backlog_bytes: u64) {
            let now = $crate::wire::Instant::from_ps(now_ps);
            $crate::with(&POLICY, |policy| {
                $crate::policy::CongestionControl::on_sent(policy, now, bytes, backlog_bytes)
            })
        }
    };
    (credit_request) => {
        #[unsafe(no_mangle)]
        extern "C" fn credit_request(now_ps: u64, backlog_bytes: u64) -> u32 {
            $crate::credit_request(&POLICY, now_ps, backlog_bytes)
        }
    };
    (has_room) => {
        #[unsafe(no_mangle)]
        extern "C" fn has_room(count: u32) -> u32 {
            $crate::has_room(&POLICY, count)
        }
    };
    (on_path_ack) => {
        #[unsafe(no_mangle)]
        extern "C" fn on_path_ack(path: u32) {
            $crate::tell(&POLICY, |policy| {
                $crate::policy::PathChoice::on_ack(policy, path as usize, &$crate::path_ack())
            })
        }
    };
    (on_path_loss) => {
        #[unsafe(no_mangle)]
        extern "C" fn on_path_loss(path: u32) {
            $crate::tell(&POLICY, |policy| {
                $crate::policy::PathChoice::on_loss(policy, path as usize, &$crate::loss())
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

/// Exports a path choice: a type with `PathChoice` and `Start`. Of the hooks `has_room`,
/// `on_path_ack` and `on_path_loss` those that are named are exported; the others cost nothing.
#[macro_export]
macro_rules! path_choice {
    ($policy:ty) => {
        $crate::path_choice!($policy, hooks = []);
    };
    ($policy:ty, hooks = [$($hook:ident),*]) => {
        $($crate::hook!($hook);)*
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
