//! Event queues on which a program may sleep: the file descriptor of a queue is readable as long as
//! the queue holds an event.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use libc::c_int;

use crate::abi::{ibv_async_event, ibv_event_element};
use crate::guard::{Errno, Result, UnackedEvents, lock, set_errno};

/// Events, and a file descriptor that counts them.
pub struct EventQueue<T> {
    /// An eventfd in semaphore mode. While the lock is held, its count is the number of events.
    descriptor: OwnedFd,
    events: Mutex<VecDeque<T>>,
}

fn last_error() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

unsafe extern "C-unwind" {
    /// As in the crate `libc`, but declared so that a thread that is cancelled in it may unwind.
    fn poll(entries: *mut libc::pollfd, count: libc::nfds_t, timeout: libc::c_int) -> libc::c_int;
}

/// What a body of [`take_or_sleep`] returns if there is no event yet.
pub const NOT_YET: c_int = 1;

/// Runs `take` until it returns something else than [`NOT_YET`], and sleeps in between until the
/// queue has an event. Returns -1 and sets errno if the sleep fails. A queue whose channel is
/// destroyed meanwhile stays and receives no further events, so that the call sleeps on: some
/// programs destroy channels on which their threads sleep, as the last thing before they end
/// (`rping`).
///
/// Programs cancel threads that sleep here (`pthread_cancel`), and the stack is unwound. So callers
/// hold nothing that has to be dropped and catch no panic around this call, and in that case the
/// queue is leaked here.
pub fn take_or_sleep<T>(
    queue: Arc<EventQueue<T>>,
    take: impl Fn(&EventQueue<T>) -> c_int,
) -> c_int {
    let queue = ManuallyDrop::new(queue);
    let result = loop {
        let taken = take(&queue);
        if taken != NOT_YET {
            break taken;
        }
        if let Err(error) = sleep_on(queue.descriptor()) {
            set_errno(error);
            break -1;
        }
    };
    drop(ManuallyDrop::into_inner(queue));
    result
}

/// Sleeps until a descriptor is readable. `EAGAIN` if the program made it non-blocking, `EINTR` if
/// a signal ends the sleep.
pub fn sleep_on(descriptor: RawFd) -> Result<()> {
    // SAFETY: no pointers.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFL) } & libc::O_NONBLOCK != 0 {
        return Err(Errno(libc::EAGAIN));
    }
    let mut waiting = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: `poll` reads and writes one local `pollfd`.
    match unsafe { poll(&raw mut waiting, 1, -1) } {
        0.. => Ok(()),
        _ => Err(last_error()),
    }
}

impl<T> EventQueue<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new() -> Result<EventQueue<T>> {
        // SAFETY: no pointers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(last_error());
        }
        // SAFETY: just opened, and no other owner has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(EventQueue { descriptor, events: Mutex::default() })
    }

    /// A descriptor that is readable while the queue holds events.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Adds an event at the end.
    pub fn push(&self, event: T) {
        let mut events = lock(&self.events);
        events.push_back(event);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: 8 bytes of ours. The count never comes near its maximum, so it does not block.
        unsafe { libc::write(self.descriptor(), one.as_ptr().cast(), 8) };
    }

    /// Decrements the eventfd's count, which must not be zero.
    fn take_token(&self) {
        let mut token = [0_u8; 8];
        // SAFETY: a local buffer of 8 bytes.
        unsafe { libc::read(self.descriptor(), token.as_mut_ptr().cast(), 8) };
    }

    /// Removes and returns the next event, if there is one. Calls `taken` on it first, with the
    /// lock held.
    pub fn next(&self, taken: impl FnOnce(&T)) -> Option<T> {
        let mut events = lock(&self.events);
        let event = events.pop_front()?;
        self.take_token();
        taken(&event);
        Some(event)
    }

    /// Drops the events that match `gone`, because no call is to return them any more.
    pub fn forget(&self, gone: impl Fn(&T) -> bool) {
        let mut events = lock(&self.events);
        let before = events.len();
        events.retain(|event| !gone(event));
        for _ in events.len()..before {
            self.take_token();
        }
    }
}

/// An asynchronous event to be delivered to the program.
pub struct AsyncEvent {
    /// Address of the object that the event is about.
    pub object: usize,
    /// `enum ibv_event_type`.
    pub kind: i32,
    /// Counter that records the acknowledgement of the event.
    pub unacked: Arc<UnackedEvents>,
}

impl AsyncEvent {
    /// The event as the C struct.
    pub fn to_c(&self) -> ibv_async_event {
        let element = ibv_event_element { qp: self.object as *mut _ };
        ibv_async_event { element, event_type: self.kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(queue: &EventQueue<u32>) -> bool {
        let mut poll = libc::pollfd { fd: queue.descriptor(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` reads and writes one local `pollfd`.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }

    #[test]
    fn the_descriptor_counts_what_is_there() {
        let queue = EventQueue::new().expect("a descriptor");
        assert!(!readable(&queue));
        (1..=4).for_each(|event| queue.push(event));
        assert_eq!(queue.next(|_| ()), Some(1));
        queue.forget(|event| event % 2 == 0);
        assert_eq!(queue.next(|_| ()), Some(3));
        assert!(!readable(&queue));
        assert_eq!(queue.next(|_| ()), None);
    }

    #[test]
    fn a_call_without_an_event_fails_if_its_descriptor_is_non_blocking() {
        let queue = Arc::new(EventQueue::<u32>::new().expect("a descriptor"));
        // SAFETY: no pointers.
        unsafe { libc::fcntl(queue.descriptor(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(take_or_sleep(queue, |_| NOT_YET), -1);
        assert_eq!(last_error(), Errno(libc::EAGAIN));
    }

    #[test]
    fn a_sleeping_thread_is_woken_by_an_event() {
        let queue = Arc::new(EventQueue::new().expect("a descriptor"));
        let sleeper = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || take_or_sleep(queue, |queue| queue.next(|_| ()).unwrap_or(NOT_YET))
        });
        queue.push(7);
        assert_eq!(sleeper.join().expect("it ends"), 7);
    }
}
