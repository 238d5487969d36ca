//! Delays the event that a peer has disconnected until the program has polled everything that the
//! peer sent before.
//!
//! Completions and connection events reach a program separately. A kernel's connection manager is
//! so slow that no program notices; here both come from the same socket within microseconds, and a
//! program that checks for events after it has polled would remove its queue pair with the last
//! message unread, as libfabric does. So the event is delivered once the queue pair has no
//! completions left to poll, or after [`TIMEOUT`] to programs that never poll. A program that has
//! ended the connection itself waits for the answer, and gets the event at once.

use std::sync::{Arc, Mutex};

use fairway_rdma::Provider;
use fairway_wire::{Duration, Instant, Qpn};

use super::clock::now;
use super::id::Core;
use super::note::{Note, push};
use fairway_verbs::guard::lock;
use fairway_verbs::manager;

/// Longest delay of the event, for programs that do not poll. It is longer in tests, so that tests
/// of the order of events do not fail on a busy machine.
const TIMEOUT: Duration = Duration::from_ms(if cfg!(test) { 2000 } else { 100 });

/// Deferred events of one id: the end of its connection, and any that followed.
#[derive(Clone)]
struct Deferred {
    core: Arc<Core>,
    provider: Arc<dyn Provider>,
    queue_pair: Qpn,
    notes: Vec<Note>,
    until: Instant,
}

impl Deferred {
    fn is_of(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.core, core)
    }

    /// Whether the events are due. Call it without holding a lock, because the provider takes its
    /// own.
    fn is_due(&self, now: Instant) -> bool {
        now.is_at_or_after(self.until) || !self.provider.has_completions(self.queue_pair)
    }
}

static DEFERRED: Mutex<Vec<Deferred>> = Mutex::new(Vec::new());

/// Defers an event. The caller must call [`release`] soon afterwards, without holding a lock.
pub(super) fn defer(provider: &Arc<dyn Provider>, queue_pair: Qpn, note: Note, now: Instant) {
    let (core, provider) = (Arc::clone(&note.core), Arc::clone(provider));
    let mut all = lock(&DEFERRED);
    all.push(Deferred { core, provider, queue_pair, notes: vec![note], until: now + TIMEOUT });
    manager::set_waiting(all.len(), release_now);
}

/// Delivers an event at once, unless an earlier event of the same id is still deferred.
pub(super) fn deliver(note: Note) {
    if let Some(note) = follow(note) {
        push(note);
    }
}

/// Appends an event to the deferred events of its id; returns it if there are none.
fn follow(note: Note) -> Option<Note> {
    if manager::waiting() == 0 {
        return Some(note);
    }
    let mut all = lock(&DEFERRED);
    match all.iter_mut().find(|held| held.is_of(&note.core)) {
        Some(held) => {
            held.notes.push(note);
            None
        }
        None => Some(note),
    }
}

/// Time at which the first deferred event is delivered in any case.
pub(super) fn earliest() -> Option<Instant> {
    if manager::waiting() == 0 {
        return None;
    }
    lock(&DEFERRED).iter().map(|held| held.until).reduce(Instant::min)
}

/// Delivers the events that are due. Completion queues call it after a poll.
fn release_now() {
    release(now());
}

/// Delivers the events that no longer need to wait. No lock may be held.
pub(super) fn release(now: Instant) {
    if manager::waiting() == 0 {
        return;
    }
    let deferred = lock(&DEFERRED).clone();
    let due: Vec<Arc<Core>> =
        deferred.into_iter().filter(|held| held.is_due(now)).map(|held| held.core).collect();
    let mut all = lock(&DEFERRED);
    let released = all.extract_if(.., |held| due.iter().any(|core| held.is_of(core)));
    // The lock is held, so that no event overtakes another.
    released.flat_map(|held| held.notes).for_each(push);
    manager::set_waiting(all.len(), release_now);
}

/// Drops the deferred events of an id that is destroyed.
pub(super) fn forget(core: &Arc<Core>) {
    let mut all = lock(&DEFERRED);
    all.retain(|held| !held.is_of(core));
    manager::set_waiting(all.len(), release_now);
}
