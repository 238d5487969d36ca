//! The boundary between C and Rust: no panic crosses it, and the last failure is kept for
//! `RVMA_Last_error`.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::status::{self, Failure, Result, Status};

/// Runs the body of a call that returns a status.
pub(crate) fn status(body: impl FnOnce() -> Result<()>) -> i32 {
    match run(body) {
        Ok(()) => Status::Success as i32,
        Err(status) => status as i32,
    }
}

/// Runs the body of a call that returns another type; the result is `failed` if the body fails.
pub(crate) fn value<T>(failed: T, body: impl FnOnce() -> Result<T>) -> T {
    run(body).unwrap_or(failed)
}

unsafe extern "C" {
    /// From `<pthread.h>`; the crate `libc` lacks it.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs the body of a call, in which the thread is not cancelled (`pthread_cancel`): a cancellation
/// would unwind the stack within a system call, and leave locks held. It takes effect at the next
/// cancellation point, in the program.
fn uncancelled<R>(body: impl FnOnce() -> R) -> R {
    /// Its value in `<pthread.h>` of glibc and musl.
    const PTHREAD_CANCEL_DISABLE: c_int = 1;
    let (mut before, mut disabled) = (0, 0);
    // SAFETY: room for one number each. The state is this thread's, and is set back below.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
    let result = body();
    // SAFETY: likewise.
    unsafe { pthread_setcancelstate(before, &raw mut disabled) };
    result
}

fn run<T>(body: impl FnOnce() -> Result<T>) -> std::result::Result<T, Status> {
    // State that a panic left half changed is behind locks whose poison `lock` ignores. A window or
    // a request may be lost, but memory is not endangered, because the NIC keeps tables of its own.
    let result = uncancelled(|| catch_unwind(AssertUnwindSafe(body))).unwrap_or_else(|_| {
        Err(Failure::new(Status::Internal, "the library panicked: please report what it printed"))
    });
    result.map_err(|failure| {
        status::remember(&failure);
        failure.status
    })
}

/// Locks a mutex, even if a thread has panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// End of a wait; `None` for a wait without time-out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// The end of a time-out in milliseconds. A negative time-out never ends.
    pub(crate) fn after_ms(timeout_ms: i64) -> Deadline {
        let span = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        Deadline(span.and_then(|span| Instant::now().checked_add(span)))
    }

    pub(crate) const NEVER: Deadline = Deadline(None);

    /// The remaining time, but at most `longest`.
    pub(crate) fn left(&self, longest: Duration) -> Duration {
        match self.0 {
            None => longest,
            Some(end) => end.saturating_duration_since(Instant::now()).min(longest),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let result = status(|| panic!("a bug"));
        std::panic::set_hook(hook);
        assert_eq!(result, Status::Internal as i32);
        assert_eq!(status::last_status(), Status::Internal);
        assert_eq!(value(-1, || Ok(7)), 7);
        assert_eq!(value(-1, || Err(Failure::of(Status::Window))), -1);
    }

    #[test]
    fn deadlines() {
        let second = Duration::from_secs(1);
        assert!(!Deadline::NEVER.is_over());
        assert_eq!(Deadline::after_ms(-1).left(second), second);
        assert_eq!(Deadline::after_ms(i64::MAX).left(second), second);
        assert!(Deadline::after_ms(0).is_over());
    }
}
