//! The boundary between C and Rust: error numbers, locks that are held from one C call to the next,
//! and functions that stop panics.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use fairway_rdma::ProviderError;
use fairway_roce::{ChangeError, PostError};
use libc::c_int;

/// An error number of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

/// Result of a call of the library before its conversion to C.
pub type Result<T> = std::result::Result<T, Errno>;

/// The descriptor is closed.
pub const EBADF: Errno = Errno(libc::EBADF);
/// An argument is not valid.
pub const EINVAL: Errno = Errno(libc::EINVAL);
/// No room is left.
pub const ENOMEM: Errno = Errno(libc::ENOMEM);
/// The object is in use.
pub const EBUSY: Errno = Errno(libc::EBUSY);
/// The operation is not offered.
pub const EOPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);

impl From<ProviderError> for Errno {
    fn from(error: ProviderError) -> Errno {
        match error {
            ProviderError::Missing | ProviderError::Parameter(_) | ProviderError::Setting(_) => {
                EINVAL
            }
            ProviderError::Busy => EBUSY,
            ProviderError::Limit(_) => ENOMEM,
            ProviderError::Unreachable(_) => Errno(libc::EHOSTUNREACH),
            ProviderError::Unsupported(_) => EOPNOTSUPP,
            ProviderError::Io(_, error) => Errno(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }
}

impl From<ChangeError> for Errno {
    fn from(_: ChangeError) -> Errno {
        EINVAL
    }
}

impl From<PostError> for Errno {
    fn from(error: PostError) -> Errno {
        match error {
            PostError::Full | PostError::CompletionQueueFull => ENOMEM,
            PostError::Missing | PostError::State | PostError::Operation | PostError::Length => {
                EINVAL
            }
        }
    }
}

/// Sets the `errno` of this thread.
pub fn set_errno(error: Errno) {
    // SAFETY: the address of this thread's errno, always valid.
    unsafe { *libc::__errno_location() = error.0 }
}

unsafe extern "C" {
    /// From `<pthread.h>`; the crate `libc` lacks it.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs a part of a call in which the thread is not cancelled. glibc cancels a thread
/// (`pthread_cancel`) within its next system call by unwinding the stack, and Rust aborts the
/// process if the unwinding meets a function which has not allowed it. The cancellation takes
/// effect at the next possible point: where the library sleeps for events, or in the program.
pub fn uncancelled<R>(body: impl FnOnce() -> R) -> R {
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

/// Runs the body of a call. A panic becomes an input/output error.
fn run<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // State that a panic left half changed is behind locks whose poison `lock` ignores.
    uncancelled(|| catch_unwind(AssertUnwindSafe(body))).unwrap_or(Err(Errno(libc::EIO)))
}

/// Runs the body of a call that returns zero or an error number (and sets errno, too).
pub fn status(body: impl FnOnce() -> Result<()>) -> c_int {
    match run(body) {
        Ok(()) => 0,
        Err(error) => {
            set_errno(error);
            error.0
        }
    }
}

/// Runs the body of a call that returns a number, or -1 with errno.
pub fn number(body: impl FnOnce() -> Result<c_int>) -> c_int {
    run(body).unwrap_or_else(|error| {
        set_errno(error);
        -1
    })
}

/// Runs the body of a call that returns an object, or a null pointer with errno.
pub fn object<T>(body: impl FnOnce() -> Result<*mut T>) -> *mut T {
    run(body).unwrap_or_else(|error| {
        set_errno(error);
        std::ptr::null_mut()
    })
}

/// Locks a mutex, even if a thread has panicked while it held the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock that one call of the ABI may take and another one release (`ibv_wr_start`,
/// `ibv_wr_complete`), which a Rust guard can't express.
pub struct Held<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is touched only under the mutex.
unsafe impl<T: Send> Send for Held<T> {}
// SAFETY: likewise.
unsafe impl<T: Send> Sync for Held<T> {}

impl<T> Held<T> {
    /// # Safety
    ///
    /// It is not moved any more once it has been locked.
    pub unsafe fn new(value: T) -> Held<T> {
        Held { mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), value: value.into() }
    }

    /// Locks until [`Holding::release`].
    pub fn acquire(&self) -> Holding<'_, T> {
        // SAFETY: an initialized mutex that does not move.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        Holding { held: self, thread: PhantomData }
    }

    /// Returns the [`Holding`] of a lock that an earlier call of this thread has acquired and not
    /// released.
    ///
    /// # Safety
    ///
    /// This thread holds the lock, and uses no other [`Holding`] of it as long as this one.
    pub unsafe fn resume(&self) -> Holding<'_, T> {
        Holding { held: self, thread: PhantomData }
    }

    /// Runs `body` with the lock held.
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let mut holding = self.acquire();
        let result = body(&mut holding);
        holding.release();
        result
    }
}

/// The value behind a lock that this thread holds. The lock stays with the thread when this is
/// dropped: only `release` unlocks.
pub struct Holding<'a, T> {
    held: &'a Held<T>,
    /// Keeps the type from being sent to other threads.
    thread: PhantomData<*mut ()>,
}

impl<T> Holding<'_, T> {
    /// Unlocks.
    pub fn release(self) {
        // SAFETY: this thread holds the lock, and the value is not used any more.
        unsafe { libc::pthread_mutex_unlock(self.held.mutex.get()) };
    }
}

impl<T> Deref for Holding<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock, and this is its one `Holding` of it.
        unsafe { &*self.held.value.get() }
    }
}

impl<T> DerefMut for Holding<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: likewise.
        unsafe { &mut *self.held.value.get() }
    }
}

/// Counts events that were delivered to the program and must be acknowledged before their object is
/// destroyed.
#[derive(Default)]
pub struct UnackedEvents {
    /// Number of events delivered, and number acknowledged.
    counts: Mutex<(u64, u64)>,
    settled: Condvar,
}

impl UnackedEvents {
    /// Counts an event that is delivered to the program.
    pub fn deliver(&self) {
        lock(&self.counts).0 += 1;
    }

    /// Counts events that the program has acknowledged.
    pub fn acknowledge(&self, events: u64) {
        lock(&self.counts).1 += events;
        self.settled.notify_all();
    }

    /// Waits until every delivered event is acknowledged.
    pub fn wait(&self) {
        let mut counts = lock(&self.counts);
        while counts.1 < counts.0 {
            counts = self.settled.wait(counts).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_number() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let result = (status(|| panic!("a bug")), number(|| panic!("another")));
        std::panic::set_hook(hook);
        assert_eq!(result, (libc::EIO, -1));
        assert_eq!(status(|| Ok(())), 0);
        assert!(object::<u8>(|| Err(EINVAL)).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn wait_returns_once_every_delivered_event_is_acknowledged() {
        let unacked = std::sync::Arc::new(UnackedEvents::default());
        unacked.wait();
        unacked.deliver();
        let waiter = std::thread::spawn({
            let unacked = std::sync::Arc::clone(&unacked);
            move || unacked.wait()
        });
        unacked.acknowledge(1);
        waiter.join().expect("it ends");
    }
}
