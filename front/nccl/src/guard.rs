//! The boundary between C and Rust: no panic crosses it, and failures are logged.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::log;
use crate::status::{Failure, Result, SUCCESS, Status};

/// Runs the body of a call and returns its `ncclResult_t`. A failure is logged under the call's
/// name.
pub(crate) fn call(name: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    // State that a panic left half changed is behind locks whose poison `lock` ignores. A request
    // may be lost, but memory is not endangered, because the NIC keeps tables of its own.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        let text = "the plug-in panicked: please report what it printed on standard error";
        Err(Failure::new(Status::Internal, text))
    });
    match result {
        Ok(()) => SUCCESS,
        Err(Failure { status, text }) => {
            log::warn(&format!("{name}: {text}"));
            status as c_int
        }
    }
}

/// Locks a mutex, even if a thread has panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the place behind a pointer of C to which a result is written.
///
/// # Safety
/// `pointer` is NULL, or points to a value that no other thread uses during the call.
pub(crate) unsafe fn out<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T> {
    // SAFETY: as the caller says.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::argument(format!("{name} is NULL")))
}
