//! Notifies peers when the process ends: the last thing this library does in a process.
//!
//! A program may call `exit` in the handler of a signal (PSM's library does, which libfabric
//! loads). The thread that then runs the functions registered with `atexit` has been interrupted at
//! an arbitrary point. It may hold a lock of the connection manager, of a provider or of the
//! allocator, and that lock is never released. So that thread takes no lock and allocates no
//! memory: it wakes the farewell thread, which exists only for this purpose, and waits for it for
//! at most [`TIMEOUT`]. If the farewell thread blocks on a lock that the interrupted thread holds,
//! the process ends without a farewell, and its peers detect the end as if the process had been
//! killed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use fairway::{start_thread, without_signals};

use crate::guard::lock;

/// Longest wait of the ending process for the farewell thread, which takes less than a millisecond
/// where a core is free.
const TIMEOUT: Duration = Duration::from_millis(200);

/// The farewell thread sleeps; no farewell has been requested.
const IDLE: u32 = 0;
/// The process ends, and the farewell is requested.
const REQUESTED: u32 = 1;
/// The farewell thread has finished.
const DONE: u32 = 2;

/// Stage of the farewell, used as a futex: the farewell thread sleeps on this word until the
/// process ends, and the thread that calls `exit` sleeps on it until the farewell is done.
static STAGE: AtomicU32 = AtomicU32::new(IDLE);

/// Id of the process that has a farewell thread. A child of `fork` has none.
static OWNER: AtomicU32 = AtomicU32::new(0);

fn process() -> u32 {
    // SAFETY: no pointers.
    unsafe { libc::getpid() as u32 }
}

/// Registers `farewell`, which the farewell thread calls when this process ends by `exit`. Further
/// calls in the same process have no effect.
pub fn at_exit(farewell: fn()) {
    static STARTING: Mutex<()> = Mutex::new(());
    static REGISTERED: Once = Once::new();
    let _starting = lock(&STARTING);
    if OWNER.load(Ordering::Acquire) == process() {
        return;
    }
    STAGE.store(IDLE, Ordering::Release);
    // If the thread cannot be started, there is no farewell.
    if without_signals(|| start_thread("fairway-leave", move || run(farewell))).is_ok() {
        OWNER.store(process(), Ordering::Release);
        // SAFETY: a function without arguments that does not unwind; children inherit it.
        REGISTERED.call_once(|| _ = unsafe { libc::atexit(leave) });
    }
}

/// Main function of the farewell thread.
fn run(farewell: fn()) {
    while STAGE.load(Ordering::Acquire) == IDLE {
        sleep(IDLE, None);
    }
    farewell();
    STAGE.store(DONE, Ordering::Release);
    wake();
}

/// The `atexit` function: requests the farewell and waits for its end.
extern "C" fn leave() {
    if OWNER.load(Ordering::Acquire) != process() {
        return;
    }
    STAGE.store(REQUESTED, Ordering::Release);
    wake();
    let since = Instant::now();
    while STAGE.load(Ordering::Acquire) == REQUESTED {
        let left = TIMEOUT.saturating_sub(since.elapsed());
        if left.is_zero() {
            return;
        }
        sleep(REQUESTED, Some(left));
    }
}

/// Sleeps while the stage is `stage`, for at most `span`. May return early.
fn sleep(stage: u32, span: Option<Duration>) {
    let span = span.map(|span| libc::timespec {
        tv_sec: span.as_secs() as libc::time_t,
        tv_nsec: span.subsec_nanos().into(),
    });
    let span = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives as long as the process, and the time as long as the call.
    unsafe { libc::syscall(libc::SYS_futex, STAGE.as_ptr(), operation, stage, span) };
}

fn wake() {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives as long as the process.
    unsafe { libc::syscall(libc::SYS_futex, STAGE.as_ptr(), operation, i32::MAX) };
}
