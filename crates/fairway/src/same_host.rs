//! Memory that processes on one host share: a peer's loads, stores and atomics on it are those of
//! the CPU, without a packet.
//!
//! A segment of [`crate::Memory::shared`] is backed by a file in memory. Its owner listens at a
//! socket whose abstract name identifies the context. A process of the same user that names the
//! segment and its token receives the file, with access as the segment's rights allow, and a
//! *gate*: one word that is set when the segment is deregistered, and one that counts the accesses
//! under way.
//!
//! **Refused at once.** A store increments the count, then checks whether the gate is closed, and
//! decrements the count; a load checks before and after. The owner closes the gate, then waits
//! until the count is zero. So no store is executed, and no loaded value is used, after the segment
//! was deregistered. The owner waits at most [`TIMEOUT`] for a process that dies or is stopped
//! inside the gate; if such a process continues after that, its one store is executed late.
//!
//! **Trust.** Fairway in every process of the same user observes the gate, and these processes
//! trust each other: a malicious one can open the file for writing whatever the rights are, and
//! keep its mapping. (It could as well attach a debugger.) Other users get no access.
//!
//! Two processes share a host if the socket can be reached, because abstract names belong to the
//! network namespace. All other accesses use the network, including those that are refused.

mod mapped;
mod passing;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fairway_runtime::Memory;
use fairway_ub::Rights;

use crate::error::Error;
use crate::key::SegmentKey;

pub(crate) use mapped::Mapped;
pub(crate) use server::Server;

/// Checks that any bytes are either refused or decode to a request that encodes to the same bytes.
#[cfg(feature = "fuzzing")]
pub(crate) fn mapping_request_is_sound(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk() else { return };
    if let Some(request) = passing::MappingRequest::from_bytes(bytes) {
        assert_eq!(request.to_bytes(), *bytes);
    }
}

/// Maximum time that a closed gate waits for accesses that are under way.
const TIMEOUT: Duration = Duration::from_millis(100);

/// The words of a gate, which all processes see, and their memory.
#[derive(Debug)]
struct Gate {
    memory: Memory,
}

/// Size of a gate's memory in bytes.
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

    /// Runs `work`, which changes the memory, unless the gate is closed.
    fn pass<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        self.inside().fetch_add(1, Ordering::SeqCst);
        let done = if self.is_closed() { None } else { Some(work()) };
        self.inside().fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// Closes the gate: no access passes from now on.
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

    /// Ends all accesses by processes that have mapped the segment.
    pub(crate) fn close(&self) {
        self.gate.close();
    }
}
