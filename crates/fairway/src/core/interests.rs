//! Threads and tasks that sleep until something has happened, while another thread polls.

use std::sync::Arc;
use std::task::Waker;

use fairway_ring::Doorbell;

/// How many sleepers are woken at a time.
pub(crate) const DUE_MAX: usize = 4;

/// Sleepers, and what they sleep for.
#[derive(Default)]
pub(crate) struct Interests {
    list: Vec<Interest>,
    next: u64,
    /// To be woken once the lock is released: wakers run code of the application.
    due: Vec<WakeTarget>,
}

struct Interest {
    number: u64,
    what: WaitCondition,
    wake: WakeTarget,
}

/// What a sleeper sleeps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCondition {
    /// A completion of the Jetty at this index.
    Completion(usize),
    /// An epoch of the mailbox at this index.
    Epoch(usize),
    /// Any change after this many; it looks itself what it was.
    Change(u64),
}

/// How to wake a sleeper.
#[derive(Clone)]
pub(crate) enum WakeTarget {
    Thread(Arc<Doorbell>),
    /// The thread that sleeps on the sockets.
    Leader(fairway_port::Doorbell),
    Task(Waker),
}

impl WakeTarget {
    pub(crate) fn wake(self) {
        match self {
            WakeTarget::Thread(bell) => {
                bell.ring();
            }
            WakeTarget::Leader(bell) => bell.ring(),
            WakeTarget::Task(waker) => waker.wake(),
        }
    }
}

/// Sleepers that there is room for from the start.
const ROOM: usize = 64;

impl Interests {
    pub(crate) fn new() -> Self {
        Interests { list: Vec::with_capacity(ROOM), next: 0, due: Vec::with_capacity(ROOM) }
    }

    /// Adds a sleeper; the number removes it again. It is woken once.
    pub(crate) fn add(&mut self, what: WaitCondition, wake: WakeTarget) -> u64 {
        self.next += 1;
        self.list.push(Interest { number: self.next, what, wake });
        self.next
    }

    pub(crate) fn remove(&mut self, number: u64) {
        self.list.retain(|interest| interest.number != number);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Wakes all of them.
    pub(crate) fn wake_all(&mut self) {
        self.collect_due(|_| true);
    }

    /// Returns the sleepers to wake now, whose reason `happened` recognises.
    pub(crate) fn collect_due(&mut self, mut happened: impl FnMut(WaitCondition) -> bool) {
        let due = &mut self.due;
        self.list.retain(|interest| {
            let happened = happened(interest.what);
            if happened {
                due.push(interest.wake.clone());
            }
            !happened
        });
    }

    /// As [`Interests::take_due`], but none whose waking runs code of the application.
    pub(crate) fn take_due_threads(&mut self) -> [Option<WakeTarget>; DUE_MAX] {
        let due = &mut self.due;
        std::array::from_fn(|_| {
            let at = due.iter().position(|wake| !matches!(wake, WakeTarget::Task(_)))?;
            Some(due.swap_remove(at))
        })
    }

    /// Some of the sleepers to be woken after the lock has been released; if there is one at the
    /// last place, there may be more. (An array, because nothing is to be allocated here.)
    pub(crate) fn take_due(&mut self) -> [Option<WakeTarget>; DUE_MAX] {
        std::array::from_fn(|_| self.due.pop())
    }
}
