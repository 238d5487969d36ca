//! Access to an application's memory that survives the memory's disappearance.
//!
//! A program may unmap memory, or truncate the file behind it, while it is registered. The kernel
//! then raises SIGSEGV or SIGBUS for the next access. Every access of this library to such memory
//! is therefore made by one of the few assembly functions of `guard/x86_64.rs` and
//! `guard/aarch64.rs`. They are between two labels, use no stack, and change no register that their
//! caller keeps. If the signal handler finds the program counter between the labels, it moves it to
//! the code that returns "failed". It needs no record of the accesses under way, so it allocates
//! nothing and takes no lock. On other architectures, and when Miri interprets a test, the accesses
//! are plain, and such a fault ends the process.
//!
//! The handler is installed once, with the first memory. Every other signal is passed to the action
//! that the program had before. If a program later installs a handler that does not pass signals on
//! to the earlier one, it behaves as it would without this module. The same holds for a thread that
//! blocks SIGSEGV or SIGBUS: the kernel ends the process.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_void, sigaction, siginfo_t};

use super::Gone;

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[path = "guard/aarch64.rs"]
mod arch;
#[cfg(any(miri, not(any(target_arch = "aarch64", target_arch = "x86_64"))))]
#[path = "guard/other.rs"]
mod arch;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "guard/x86_64.rs"]
mod arch;

/// Result of an access to a word: whether it failed (1), and the value.
#[repr(C)]
struct Outcome {
    failed: usize,
    value: u64,
}

impl Outcome {
    fn value(self) -> Result<u64, Gone> {
        if self.failed == 0 { Ok(self.value) } else { Err(Gone) }
    }
}

/// Copies `length` bytes of the application's memory to this library's memory: the first `head`
/// byte by byte, then words of 8 bytes or more, then byte by byte. After a failure any of the bytes
/// may have been copied.
///
/// # Safety
/// `from` is the application's, `to` is ours; they do not overlap. `head` is at most `length`, and
/// the application's range is aligned for a word behind it.
pub(super) unsafe fn copy_in(
    to: *mut u8,
    from: *const u8,
    length: usize,
    head: usize,
) -> Result<(), Gone> {
    // SAFETY: as the caller says; a fault comes back as a failure.
    match unsafe { arch::copy_in(to, from, length, head) } {
        0 => Ok(()),
        _ => Err(Gone),
    }
}

/// True if accesses are made by assembly, and a fault within one is returned as a failure.
pub(super) const IS_GUARDED: bool = arch::IS_GUARDED;

/// Copies `length` bytes of this library's memory to the application's, in the same pieces as
/// [`copy_in`].
///
/// # Safety
/// As for [`copy_in`], but `to` is the application's and `from` is ours; or, if accesses are made
/// by assembly ([`IS_GUARDED`]), any other memory that is mapped or not. Whatever else may use the
/// application's must not rely on its value.
pub(super) unsafe fn copy_out(
    to: *mut u8,
    from: *const u8,
    length: usize,
    head: usize,
) -> Result<(), Gone> {
    // SAFETY: as the caller says; a fault comes back as a failure.
    match unsafe { arch::copy_out(to, from, length, head) } {
        0 => Ok(()),
        _ => Err(Gone),
    }
}

/// Loads a word of 1, 2, 4 or 8 bytes in one access.
///
/// # Safety
/// The address is aligned for the word, which is the application's.
pub(super) unsafe fn load(word: *const u8, width: usize) -> Result<u64, Gone> {
    // SAFETY: as the caller says; a fault comes back as a failure.
    unsafe { arch::fairway_guarded_load(word, width) }.value()
}

/// Stores a word of 1, 2, 4 or 8 bytes in one access.
///
/// # Safety
/// The address is aligned for the word, which is the application's.
pub(super) unsafe fn store(word: *mut u8, value: u64, width: usize) -> Result<(), Gone> {
    // SAFETY: as the caller says; a fault comes back as a failure.
    match unsafe { arch::fairway_guarded_store(word, value, width) } {
        0 => Ok(()),
        _ => Err(Gone),
    }
}

/// Sets a word of 4 or 8 bytes to `new` if it equals `expected`, in one atomic operation of the CPU
/// (sequentially consistent). Returns its previous value.
///
/// # Safety
/// The address is aligned for the word, which is the application's.
pub(super) unsafe fn exchange(
    word: *mut u8,
    expected: u64,
    new: u64,
    width: usize,
) -> Result<u64, Gone> {
    // SAFETY: as the caller says; a fault comes back as a failure.
    unsafe { arch::fairway_guarded_exchange(word, expected, new, width) }.value()
}

/// The program's earlier actions for SIGSEGV and SIGBUS. Set once, and never freed.
static BEFORE: [AtomicPtr<sigaction>; 2] =
    [AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut())];
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Installs the handler, if it has not been installed.
pub fn install() {
    static INSTALLED: Once = Once::new();
    if IS_GUARDED {
        INSTALLED.call_once(|| {
            for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
                install_for(signal, before);
            }
        });
    }
}

fn install_for(signal: c_int, before: &AtomicPtr<sigaction>) {
    // SAFETY: actions are plain memory; the handler has the type that SA_SIGINFO demands, and may
    // run at any time, because what it reads is set before it is installed.
    unsafe {
        let mut earlier: Box<sigaction> = Box::new(std::mem::zeroed());
        libc::sigaction(signal, ptr::null(), &raw mut *earlier);
        let mut own: sigaction = std::mem::zeroed();
        own.sa_sigaction = handle as *const () as usize;
        own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if !matches!(earlier.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
            // The handler runs with the flags and the mask that the earlier one would have.
            own.sa_flags |= earlier.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART);
            own.sa_mask = earlier.sa_mask;
        }
        before.store(Box::into_raw(earlier), Ordering::Release);
        libc::sigaction(signal, &raw const own, ptr::null_mut());
    }
}

/// The handler of SIGSEGV and SIGBUS.
extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both, and they are this call's.
    unsafe {
        let is_fault = (*info).si_code > 0;
        if !(is_fault && arch::give_up_access(context.cast())) {
            pass_on(signal, info, context);
        }
    }
}

/// Takes the program's earlier action for this signal.
///
/// # Safety
/// The arguments are those of a signal handler.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let index = usize::from(signal == libc::SIGBUS);
    // SAFETY: set before the handler was installed, and never freed.
    let before = unsafe { &*BEFORE[index].load(Ordering::Acquire) };
    // SAFETY: the kernel passes it.
    let is_fault = unsafe { (*info).si_code > 0 };
    let is_default = matches!(before.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
    if before.sa_sigaction == libc::SIG_IGN && !is_fault {
        return;
    }
    if is_default || before.sa_flags & libc::SA_RESETHAND != 0 {
        // SAFETY: a zeroed action is the default one.
        unsafe { libc::sigaction(signal, &std::mem::zeroed(), ptr::null_mut()) };
    }
    if is_default {
        // A fault happens again as soon as the handler returns; a signal that was sent must be
        // raised again.
        if !is_fault {
            // SAFETY: has no conditions. The signal is blocked until the handler returns.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    let handler = before.sa_sigaction as *const ();
    // SAFETY: the program gave a handler of the type that its flags say.
    unsafe {
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            type Informed = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
            std::mem::transmute::<*const (), Informed>(handler)(signal, info, context);
        } else {
            std::mem::transmute::<*const (), extern "C" fn(c_int)>(handler)(signal);
        }
    }
}

#[cfg(test)]
mod tests;
