//! Threads and tasks that sleep until an event occurs, while another thread polls.

use std::sync::Arc;
use std::task::Waker;

use fairway_ring::Doorbell;

/// Maximum number of sleepers that are woken at a time.
const DUE_MAX: usize = 4;

/// Sleepers to be woken, from the front.
pub(crate) type Due = [Option<WakeTarget>; DUE_MAX];

/// Sleepers, and the conditions that they wait for.
#[derive(Default)]
pub(crate) struct Interests {
    list: Vec<Interest>,
    next: u64,
    /// Sleepers to be woken once the lock is released, because wakers run code of the application.
    due: Vec<WakeTarget>,
}

struct Interest {
    number: u64,
    what: WaitCondition,
    wake: WakeTarget,
}

/// The condition that a sleeper waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCondition {
    /// A completion of the Jetty at this index.
    Completion(usize),
    /// An epoch of the mailbox at this index.
    Epoch(usize),
    /// Any event after this number of events; the sleeper itself finds out which.
    Change(u64),
}

/// The means to wake a sleeper.
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

/// Number of sleepers for which room is allocated at the start.
const ROOM: usize = 64;

impl Interests {
    pub(crate) fn new() -> Self {
        Interests { list: Vec::with_capacity(ROOM), next: 0, due: Vec::with_capacity(ROOM) }
    }

    /// Adds a sleeper, which is woken once, and returns the number by which it can be removed.
    pub(crate) fn add(&mut self, what: WaitCondition, wake: WakeTarget) -> u64 {
        self.next += 1;
        self.list.push(Interest { number: self.next, what, wake });
        self.next
    }

    /// Removes a sleeper, and returns what would have woken it, if nothing has. The caller drops
    /// that once the lock is released: the end of a waker may run code of the application.
    #[must_use = "a waker is dropped without the lock"]
    pub(crate) fn remove(&mut self, number: u64) -> Option<WakeTarget> {
        let at = self.list.iter().position(|interest| interest.number == number)?;
        Some(self.list.remove(at).wake)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Marks all sleepers to be woken.
    pub(crate) fn wake_all(&mut self) {
        self.collect_due(|_| true);
    }

    /// Marks the sleepers whose condition fulfils `happened` to be woken.
    pub(crate) fn collect_due(&mut self, mut happened: impl FnMut(WaitCondition) -> bool) {
        let awake = self.list.extract_if(.., |interest| happened(interest.what));
        self.due.extend(awake.map(|interest| interest.wake));
    }

    /// As [`Interests::take_due`], but leaves those whose waking runs code of the application.
    pub(crate) fn take_due_threads(&mut self) -> Option<Due> {
        let due = &mut self.due;
        if due.is_empty() {
            return None;
        }
        Some(std::array::from_fn(|_| {
            let at = due.iter().position(|wake| !matches!(wake, WakeTarget::Task(_)))?;
            Some(due.swap_remove(at))
        }))
    }

    /// Takes some of the sleepers to be woken after the lock has been released. If the last place
    /// is filled, there may be more. (An array, because nothing may be allocated here.)
    pub(crate) fn take_due(&mut self) -> Option<Due> {
        if self.due.is_empty() {
            return None;
        }
        Some(std::array::from_fn(|_| self.due.pop()))
    }
}
