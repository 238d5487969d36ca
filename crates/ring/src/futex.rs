//! Sleeping on a word of memory, and waking the threads that sleep there.

use std::time::Duration;

use crate::sync::AtomicU32;

/// Sleeps while `word` holds `expected`, until woken or for at most `timeout`. May return early
/// without a reason.
#[cfg(not(all(loom, test)))]
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let span = timeout.map(|timeout| Timespec {
        seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: i64::from(timeout.subsec_nanos()),
    });
    let span = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` is a live, aligned 32-bit word and `span` is null or points at a live
    // timespec; FUTEX_WAIT reads both and writes neither.
    unsafe { syscall(SYS_FUTEX, word.as_ptr(), FUTEX_WAIT, expected, span) };
}

/// Wakes every thread that sleeps on `word`, in this process or another.
#[cfg(not(all(loom, test)))]
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE only uses the address as a key.
    unsafe { syscall(SYS_FUTEX, word.as_ptr(), FUTEX_WAKE, i32::MAX) };
}

/// The kernel's 64-bit `struct timespec`.
#[cfg(not(all(loom, test)))]
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

#[cfg(not(all(loom, test)))]
const FUTEX_WAIT: i32 = 0;
#[cfg(not(all(loom, test)))]
const FUTEX_WAKE: i32 = 1;
#[cfg(all(not(all(loom, test)), target_os = "linux", target_arch = "x86_64"))]
const SYS_FUTEX: std::ffi::c_long = 202;
/// The number on every architecture with the generic system call table.
#[cfg(all(
    not(all(loom, test)),
    target_os = "linux",
    any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "loongarch64")
))]
const SYS_FUTEX: std::ffi::c_long = 98;

#[cfg(not(all(loom, test)))]
unsafe extern "C" {
    /// The C library's system call wrapper, which the standard library links anyway.
    fn syscall(number: std::ffi::c_long, ...) -> std::ffi::c_long;
}

/// Under loom a sleeper spins: a lost wake-up shows as a model that never ends.
#[cfg(all(loom, test))]
pub(crate) fn wait(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) {
    while word.load(crate::sync::Ordering::Relaxed) == expected {
        loom::thread::yield_now();
    }
}

#[cfg(all(loom, test))]
pub(crate) fn wake_all(_word: &AtomicU32) {}
