//! Events on their way to a program, and the queues in which they wait.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use libc::c_int;

use super::abi::*;
use super::id::{Core, Id};
use fairway_verbs::abi::{ibv_ah_attr, zeroed};
use fairway_verbs::events::EventQueue;
use fairway_verbs::guard::lock;
use fairway_verbs::pointer::Ptr;

/// The longest private data of any message.
pub(super) const PRIVATE_MAX: usize = 224;

/// Something a program is to be told.
#[derive(Clone)]
pub(super) struct Note {
    /// The id that it is about; for a request the new id.
    pub(super) core: Arc<Core>,
    /// The listening id of a request.
    pub(super) listener: Option<Arc<Core>>,
    pub(super) kind: c_int,
    pub(super) status: c_int,
    pub(super) details: Details,
    pub(super) private: [u8; PRIVATE_MAX],
    pub(super) private_len: u8,
}

/// What an event says beside its kind.
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

    /// With these private data.
    pub(super) fn saying(mut self, private: &[u8]) -> Note {
        for (to, from) in self.private.iter_mut().zip(private) {
            *to = *from;
        }
        self.private_len = private.len().min(PRIVATE_MAX) as u8;
        self
    }

    /// The id that it is about; `None` if that is destroyed. The note has been taken out of its
    /// queue as an event that the program is about to get.
    pub(super) fn id(&self) -> Option<Ptr<'_, rdma_cm_id>> {
        // SAFETY: the new id of a request is not the program's yet. Any other id waits, when it is
        // destroyed, until this event is acknowledged.
        unsafe { Ptr::found(self.core.id()) }
    }

    /// Whose event it counts as.
    pub(super) fn owner(&self) -> &Arc<Core> {
        self.listener.as_ref().unwrap_or(&self.core)
    }
}

/// Where the events of a channel wait.
#[derive(Clone)]
pub(super) struct Queue(pub(super) Arc<EventQueue<Note>>);

impl Queue {
    pub(super) fn push(&self, note: Note) {
        self.0.push(note);
    }

    /// Takes those out that it says.
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
    // Under the lock, so that it does not come to a queue that the id has just left.
    lock(&owner.inner).queue.push(note);
}

/// An event of an id whose calls wait is there.
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
