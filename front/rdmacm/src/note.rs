//! Undelivered events, and the queues that hold them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use libc::c_int;

use super::abi::*;
use super::id::{Core, Id};
use super::inherited::User;
use fairway_verbs::abi::{ibv_ah_attr, zeroed};
use fairway_verbs::events::EventQueue;
use fairway_verbs::guard::{Result, lock};
use fairway_verbs::pointer::Ptr;

/// Largest private data of any message, in bytes.
pub(super) const PRIVATE_MAX: usize = 224;

/// An event that is to be delivered to a program.
#[derive(Clone)]
pub(super) struct Note {
    /// The id that the event is about; for a connection request, the new id.
    pub(super) core: Arc<Core>,
    /// For a connection request, the listening id.
    pub(super) listener: Option<Arc<Core>>,
    pub(super) kind: c_int,
    pub(super) status: c_int,
    pub(super) details: Details,
    pub(super) private: [u8; PRIVATE_MAX],
    pub(super) private_len: u8,
}

/// Contents of an event besides its kind.
#[derive(Clone, Copy)]
pub(super) enum Details {
    Connection(rdma_conn_param),
    Datagram { address: ibv_ah_attr, queue_pair: u32, q_key: u32 },
}

// SAFETY: the only pointer in it is that to private data, null until the event is handed out.
unsafe impl Send for Note {}

impl Note {
    pub(super) fn new(core: &Arc<Core>, kind: c_int, status: c_int) -> Note {
        let details = Details::Connection(zeroed());
        let (core, private) = (Arc::clone(core), [0; PRIVATE_MAX]);
        Note { core, listener: None, kind, status, details, private, private_len: 0 }
    }

    /// Adds private data.
    pub(super) fn saying(mut self, private: &[u8]) -> Note {
        for (to, from) in self.private.iter_mut().zip(private) {
            *to = *from;
        }
        self.private_len = private.len().min(PRIVATE_MAX) as u8;
        self
    }

    /// The id that the event is about; `None` if it is destroyed. The caller has taken the event
    /// out of its queue, to deliver it to the program.
    pub(super) fn id(&self) -> Option<Ptr<'_, rdma_cm_id>> {
        // SAFETY: the new id of a request is not the program's yet. Any other id waits, when it is
        // destroyed, until this event is acknowledged.
        unsafe { Ptr::found(self.core.id()) }
    }

    /// The id whose unacknowledged events include this one.
    pub(super) fn owner(&self) -> &Arc<Core> {
        self.listener.as_ref().unwrap_or(&self.core)
    }
}

/// Queue of a channel's events.
#[derive(Clone)]
pub(super) struct Queue(pub(super) Arc<EventQueue<Note>>, User);

impl Queue {
    pub(super) fn new() -> Result<Queue> {
        Ok(Queue(Arc::new(EventQueue::new()?), User::default()))
    }

    pub(super) fn push(&self, note: Note) {
        self.use_here();
        self.0.push(note);
    }

    /// Notes that an id of this process gets its events from the queue.
    pub(super) fn use_here(&self) {
        self.1.set(&self.0);
    }

    /// The process whose ids use the queue.
    pub(super) fn user(&self) -> &User {
        &self.1
    }

    /// Removes and returns the events that match `which`.
    pub(super) fn take(&self, which: impl Fn(&Note) -> bool) -> Vec<Note> {
        let taken = RefCell::new(Vec::new());
        self.0.forget(|note| {
            let is_it = which(note);
            if is_it {
                taken.borrow_mut().push(note.clone());
            }
            is_it
        });
        taken.into_inner()
    }
}

/// Puts an event into the queue of its id.
pub(super) fn push(note: Note) {
    let owner = Arc::clone(note.owner());
    // The lock is held, so that the event does not enter a queue that the id has just left.
    lock(&owner.inner).queue.push(note);
}

/// Whether an event of a synchronous id is queued.
pub(super) fn has_waiting(this: &Id) -> bool {
    let core = &this.core;
    let inner = lock(&core.inner);
    let found = Cell::new(false);
    inner.queue.0.forget(|note| {
        found.set(found.get() || Arc::ptr_eq(note.owner(), core));
        false
    });
    found.get()
}
