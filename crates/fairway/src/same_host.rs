//! Memory that processes on one host share: a peer's loads, stores and atomics on it are the CPU's
//! own, without a packet.
//!
//! A segment of [`crate::Memory::shared`] has a file in memory behind it. Its owner waits at a
//! socket whose abstract name says which context it is; a process of the same user that names the
//! segment and its token gets the file, as far as the segment's rights go, and a *gate*: a word
//! that says when the segment is deregistered, and a word that counts the accesses under way.
//!
//! **Refused at once.** A store counts itself in, then checks whether the gate is closed, and
//! counts itself out; a load checks before and after. The owner closes the gate, then waits until
//! no access is counted in. So no store is done, and no load believed, after the segment was
//! deregistered; but a process that dies or is stopped at the gate is waited for no longer than
//! [`TIMEOUT`], and if it goes on after that, its one store is done late.
//!
//! **Trust.** The gate is kept by Fairway in every process of the same user, and these trust each
//! other: one that means harm can open the file for writing whatever the rights are, and keeps its
//! mapping. (It could as well attach a debugger.) Other users get nothing.
//!
//! Whether two processes share a host the socket tells: abstract names are the network
//! namespace's. Everything else goes over the network, refusals too.

mod mapped;
mod passing;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fairway_engine::Rights;
use fairway_runtime::Memory;

use crate::error::Error;
use crate::key::SegmentKey;

pub(crate) use mapped::Mapped;
pub(crate) use passing::is_ours;
pub(crate) use server::Server;

/// Any bytes are a question or none, and a question is written as it was read.
#[cfg(feature = "fuzzing")]
pub(crate) fn question_is_sound(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk() else { return };
    if let Some(question) = passing::Question::from_bytes(bytes) {
        assert_eq!(question.to_bytes(), *bytes);
    }
}

/// How long a closed gate waits for accesses that are under way.
const TIMEOUT: Duration = Duration::from_millis(100);

/// A word that all processes see, and where it is.
#[derive(Debug)]
struct Gate {
    memory: Memory,
}

/// Bytes of a gate's memory.
const GATE_BYTES: usize = 64;

impl Gate {
    fn new() -> Result<Gate, Error> {
        Ok(Gate { memory: Memory::shared(GATE_BYTES)? })
    }

    fn closed(&self) -> &AtomicU32 {
        // SAFETY: aligned, within the mapping, which lives as long as the gate; all processes
        // access it by atomics only.
        unsafe { AtomicU32::from_ptr(self.memory.start().as_ptr().cast()) }
    }

    fn inside(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.memory.start().as_ptr().add(4).cast()) }
    }

    fn is_closed(&self) -> bool {
        self.closed().load(Ordering::SeqCst) != 0
    }

    /// Does something that changes the memory, unless the gate is closed.
    fn pass<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        self.inside().fetch_add(1, Ordering::SeqCst);
        let done = if self.is_closed() { None } else { Some(work()) };
        self.inside().fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// No access passes from now on.
    fn close(&self) {
        self.closed().store(1, Ordering::SeqCst);
        let start = Instant::now();
        while self.inside().load(Ordering::SeqCst) != 0 && start.elapsed() < TIMEOUT {
            std::thread::yield_now();
        }
    }
}

/// A segment that processes on this host may map.
#[derive(Debug)]
pub(crate) struct Share {
    key: SegmentKey,
    rights: Rights,
    memory: Arc<Memory>,
    gate: Gate,
}

impl Share {
    pub(crate) fn new(
        key: SegmentKey,
        rights: Rights,
        memory: &Arc<Memory>,
    ) -> Result<Share, Error> {
        Ok(Share { key, rights, memory: memory.clone(), gate: Gate::new()? })
    }

    /// No process that has mapped it accesses it from now on.
    pub(crate) fn close(&self) {
        self.gate.close();
    }
}
