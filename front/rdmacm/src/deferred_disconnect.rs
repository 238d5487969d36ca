//! The news that a peer has left waits until the program has polled what came from it before.
//!
//! Completions and connection events reach a program by two ways. A kernel's connection manager is
//! slow enough that no program notices; here both come from the same socket within microseconds,
//! and a program that looks for events after it has polled would remove its queue pair with the
//! last message unread, as libfabric does. So the event is delivered once the queue pair has no
//! completions left to poll, or after [`TIMEOUT`] to programs that never poll. A program
//! that has ended the connection itself waits for the answer, and gets the event at once.

use std::sync::{Arc, Mutex};

use fairway_rdma::Provider;
use fairway_wire::{Duration, Instant, Qpn};

use super::clock::now;
use super::id::Core;
use super::note::{Note, push};
use fairway_verbs::guard::lock;
use fairway_verbs::manager;

/// Programs that do not poll hear of it so much later. Tests that say what comes before what are
/// not to fail because a machine was busy for so long.
const TIMEOUT: Duration = Duration::from_ms(if cfg!(test) { 2000 } else { 100 });

/// What one id has to wait with: the end of its connection, and what came behind.
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

    /// To be asked without any lock, because the provider takes its own.
    fn is_due(&self, now: Instant) -> bool {
        now.is_at_or_after(self.until) || !self.provider.has_completions(self.queue_pair)
    }
}

static DEFERRED: Mutex<Vec<Deferred>> = Mutex::new(Vec::new());

/// Keeps the news for the time being. [`release`] is to be called soon, without a lock.
pub(super) fn defer(provider: &Arc<dyn Provider>, queue_pair: Qpn, note: Note, now: Instant) {
    let (core, provider) = (Arc::clone(&note.core), Arc::clone(provider));
    let mut all = lock(&DEFERRED);
    all.push(Deferred { core, provider, queue_pair, notes: vec![note], until: now + TIMEOUT });
    manager::set_waiting(all.len(), release_now);
}

/// Delivers an event: at once, unless an earlier event of the same id still waits.
pub(super) fn tell(note: Note) {
    if let Some(note) = follow(note) {
        push(note);
    }
}

/// Takes a note that has to wait behind another one of its id; gives it back if there is none.
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

/// The time at which the first deferred event is delivered in any case.
pub(super) fn earliest() -> Option<Instant> {
    if manager::waiting() == 0 {
        return None;
    }
    lock(&DEFERRED).iter().map(|held| held.until).reduce(Instant::min)
}

/// After a poll: delivers what is due.
fn release_now() {
    release(now());
}

/// Tells what need not wait any more. No lock may be held.
pub(super) fn release(now: Instant) {
    if manager::waiting() == 0 {
        return;
    }
    let asked = lock(&DEFERRED).clone();
    let due: Vec<Arc<Core>> =
        asked.into_iter().filter(|held| held.is_due(now)).map(|held| held.core).collect();
    let mut all = lock(&DEFERRED);
    let told = all.extract_if(.., |held| due.iter().any(|core| held.is_of(core)));
    // Under the lock, so that nothing overtakes.
    told.flat_map(|held| held.notes).for_each(push);
    manager::set_waiting(all.len(), release_now);
}

/// An id is no more, and neither is what it would have heard.
pub(super) fn forget(core: &Arc<Core>) {
    let mut all = lock(&DEFERRED);
    all.retain(|held| !held.is_of(core));
    manager::set_waiting(all.len(), release_now);
}
