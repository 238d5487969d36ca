//! Queues of events that a program may sleep on: their file descriptor is readable as long as
//! there is one.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use crate::abi::{ibv_async_event, ibv_event_element};
use crate::guard::{Errno, Owed, Result, lock};

/// Events, and a descriptor that counts them.
pub(crate) struct EventQueue<T> {
    /// An eventfd in semaphore mode. Under the lock its count is the number of events.
    descriptor: OwnedFd,
    events: Mutex<VecDeque<T>>,
}

fn last_error() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Result<EventQueue<T>> {
        // SAFETY: no pointers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(last_error());
        }
        // SAFETY: just opened, and nobody else's.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(EventQueue { descriptor, events: Mutex::default() })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    pub(crate) fn push(&self, event: T) {
        let mut events = lock(&self.events);
        events.push_back(event);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: 8 bytes of ours. The count never comes near its maximum, so it does not block.
        unsafe { libc::write(self.descriptor(), one.as_ptr().cast(), 8) };
    }

    /// Takes one off the count, which is known not to be zero.
    fn take_token(&self) {
        let mut token = [0_u8; 8];
        // SAFETY: 8 bytes of ours.
        unsafe { libc::read(self.descriptor(), token.as_mut_ptr().cast(), 8) };
    }

    /// The next event. Sleeps for it, unless the program made the descriptor non-blocking.
    pub(crate) fn next(&self, taken: impl FnOnce(&T)) -> Result<T> {
        loop {
            {
                let mut events = lock(&self.events);
                if let Some(event) = events.pop_front() {
                    self.take_token();
                    taken(&event);
                    return Ok(event);
                }
            }
            // SAFETY: no pointers.
            let flags = unsafe { libc::fcntl(self.descriptor(), libc::F_GETFL) };
            if flags & libc::O_NONBLOCK != 0 {
                return Err(Errno(libc::EAGAIN));
            }
            let mut waiting =
                libc::pollfd { fd: self.descriptor(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd of ours.
            if unsafe { libc::poll(&mut waiting, 1, -1) } < 0 {
                return Err(last_error());
            }
        }
    }

    /// Drops the events that nobody will ask for any more.
    pub(crate) fn forget(&self, gone: impl Fn(&T) -> bool) {
        let mut events = lock(&self.events);
        let before = events.len();
        events.retain(|event| !gone(event));
        for _ in events.len()..before {
            self.take_token();
        }
    }
}

/// An asynchronous event, as the program will get it.
pub(crate) struct AsyncEvent {
    /// The address of the object it is about.
    pub(crate) object: usize,
    pub(crate) kind: i32,
    /// Where it is to be acknowledged.
    pub(crate) owed: Arc<Owed>,
}

impl AsyncEvent {
    pub(crate) fn to_c(&self) -> ibv_async_event {
        let element = ibv_event_element { qp: self.object as *mut _ };
        ibv_async_event { element, event_type: self.kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(queue: &EventQueue<u32>) -> bool {
        let mut poll = libc::pollfd { fd: queue.descriptor(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd of ours.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }

    #[test]
    fn the_descriptor_counts_what_is_there() {
        let queue = EventQueue::new().expect("a descriptor");
        assert!(!readable(&queue));
        (1..=4).for_each(|event| queue.push(event));
        assert_eq!(queue.next(|_| ()), Ok(1));
        queue.forget(|event| event % 2 == 0);
        assert_eq!(queue.next(|_| ()), Ok(3));
        assert!(!readable(&queue));
        // SAFETY: no pointers.
        unsafe { libc::fcntl(queue.descriptor(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(queue.next(|_| ()), Err(Errno(libc::EAGAIN)));
    }

    #[test]
    fn who_sleeps_is_woken() {
        let queue = Arc::new(EventQueue::new().expect("a descriptor"));
        let sleeper = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.next(|_| ())
        });
        queue.push(7);
        assert_eq!(sleeper.join().expect("it ends"), Ok(7));
    }
}
