//! The side that maps a peer's segment into this process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use fairway_runtime::{Memory, SharedBytes};
use fairway_ub::Rights;
use fairway_ub::wire::AtomicOperator;

use super::passing::{self, MappingRequest};
use super::{GATE_BYTES, Gate};
use crate::key::SegmentKey;

/// Maximum time that the owner may take to answer.
const TIMEOUT: Duration = Duration::from_millis(500);

/// A peer's segment, mapped into this process.
#[derive(Debug)]
pub(crate) struct Mapped {
    memory: Memory,
    gate: Gate,
    rights: Rights,
}

impl Mapped {
    /// Requests a segment from the context `incarnation`, if it is on this host. `None`: the
    /// segment must be reached over the network.
    pub(crate) fn request(incarnation: u32, key: &SegmentKey) -> Option<Mapped> {
        Self::try_request(incarnation, key).ok().flatten()
    }

    fn try_request(incarnation: u32, key: &SegmentKey) -> io::Result<Option<Mapped>> {
        let mut stream = passing::connect(incarnation)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let request = MappingRequest { token_id: key.token_id, token_value: key.token_value };
        // Any process may listen at a name, and only the owner's user may learn the token.
        if !fairway_port::is_same_user(&stream) {
            return Ok(None);
        }
        stream.write_all(&request.to_bytes())?;
        let Some((rights, [memory, gate])) = passing::receive_files(&stream)? else {
            return Ok(None);
        };
        let changes = rights.contains(Rights::WRITE) || rights.contains(Rights::ATOMIC);
        let map = |file: OwnedFd, writable| {
            let file = File::from(file);
            Memory::has_fixed_length(&file).then(|| Memory::map_file(&file, writable).ok())?
        };
        let (Some(memory), Some(gate)) = (map(memory, changes), map(gate, true)) else {
            return Ok(None);
        };
        // An owner whose memory is not as long as the key says has made a mistake.
        let fits = memory.len() as u64 == key.length && gate.len() >= GATE_BYTES;
        Ok(fits.then_some(Mapped { memory, gate: Gate { memory: gate }, rights }))
    }

    fn holds(&self, right: Rights, offset: u64, length: usize) -> bool {
        self.rights.contains(right) && self.memory.contains(offset, length)
    }

    /// Loads bytes. Returns false if that is not permitted, or not any more.
    pub(crate) fn load(&self, offset: u64, out: &mut [u8]) -> bool {
        if !self.holds(Rights::READ, offset, out.len()) || self.gate.is_closed() {
            return false;
        }
        if self.memory.bytes(offset as usize, out.len()).read(out).is_err() {
            return false;
        }
        fence(Ordering::SeqCst);
        !self.gate.is_closed()
    }

    /// Copies `length` bytes to `room`, which has that length. Returns false if that is not
    /// permitted, or not any more; then any of `room` may have changed.
    pub(crate) fn copy_to(&self, offset: u64, length: usize, room: SharedBytes<'_>) -> bool {
        if !self.holds(Rights::READ, offset, length) || self.gate.is_closed() {
            return false;
        }
        if self.memory.bytes(offset as usize, length).copy_to(room).is_err() {
            return false;
        }
        fence(Ordering::SeqCst);
        !self.gate.is_closed()
    }

    /// Stores bytes. Returns false if that is not permitted, or not any more.
    pub(crate) fn store(&self, offset: u64, data: &[u8]) -> bool {
        let store = || self.memory.bytes(offset as usize, data.len()).write(data);
        self.holds(Rights::WRITE, offset, data.len())
            && self.gate.pass(store).is_some_and(|stored| stored.is_ok())
    }

    /// Changes a word, and returns its previous value. `None` if that is not permitted, or not any
    /// more.
    pub(crate) fn change(
        &self,
        (offset, width): (u64, usize),
        operator: AtomicOperator,
        operand: u64,
        compare: u64,
    ) -> Option<u64> {
        if !self.holds(Rights::ATOMIC, offset, width) || !offset.is_multiple_of(width as u64) {
            return None;
        }
        let word = self.memory.bytes(offset as usize, width);
        self.gate.pass(|| word.change(operator, operand, compare))?.ok()
    }
}
