//! READs of memory that a peer on this host shares: a thread copies, and no packet is sent.
//!
//! The thread is one for a context, so neither the caller nor the thread that drives the network
//! waits for a copy. Pieces that it can't copy, because the owner has closed the segment for
//! example, become READs, which report why.

use fairway::{Error, Peer, RemoteMemory, SegmentKey};
use std::collections::HashMap;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::pieces::Job;
use crate::queue::{Queue, State};

/// Segments of a peer of which a connection keeps mappings.
const MAPS_MAX: usize = 64;

/// The segments of a peer that this process has mapped; `None` for those that can't be.
#[derive(Default)]
pub(crate) struct Maps(Mutex<HashMap<SegmentKey, Option<RemoteMemory>>>);

impl Maps {
    /// Returns the mapped segment; the first call for a key requests it from its owner.
    pub(crate) fn find(&self, peer: &Peer, key: SegmentKey) -> Option<RemoteMemory> {
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = maps.get(&key) {
            return known.clone();
        }
        if maps.len() == MAPS_MAX {
            maps.clear();
        }
        let memory = peer.memory(key).ok().filter(RemoteMemory::is_mapped);
        maps.insert(key, memory.clone());
        memory
    }
}

/// An operation whose pieces are to be copied.
pub(crate) struct Copy {
    pub(crate) id: u64,
    pub(crate) state: Arc<State>,
    pub(crate) job: Job,
    pub(crate) memory: RemoteMemory,
}

/// Starts the thread of a queue. It ends when the sender is dropped.
pub(crate) fn start(queue: Arc<Queue>) -> Result<Sender<Copy>, Error> {
    let (sender, receiver) = mpsc::channel::<Copy>();
    let work = move || {
        for Copy { id, state, mut job, memory } in receiver {
            let (pieces, bytes) = job.copy(&memory);
            drop(memory);
            queue.copied((id, state), job, (pieces, bytes));
        }
    };
    let started = thread::Builder::new().name("fairway-copy".into()).spawn(work);
    let doing = "start a thread that copies".into();
    started.map_err(|source| Error::Io { doing, source })?;
    Ok(sender)
}
