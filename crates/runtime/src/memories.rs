//! The memory behind every segment that a device has registered. It is only ever copied, byte by
//! byte or word by word as atomics, because the application may use it at the same time.

use std::sync::Arc;

use fairway_device::{AtomicExecution, LocalRange, Ranges, ScatterList, SegmentId};
use fairway_port::RawSlice;

use crate::memory::{Gone, Memory, SharedBytes};
use crate::payload::Payload;

/// Length of the longest word that an atomic changes, in bytes.
const WORD: usize = size_of::<u64>();

/// Memory by segment index. Memory in this table stays mapped, or its owner has vouched for it.
pub struct Memories {
    live: Vec<Option<Arc<Memory>>>,
    /// Memory that the device has released, but to which packets that wait to be sent may refer.
    released: Vec<Arc<Memory>>,
    /// Ranges to which payload for a segment goes instead of the segment's own memory; by segment
    /// index.
    redirected: Vec<Option<Box<ScatterList>>>,
    unregistered: Unregistered,
    /// Buffer for a payload on its way from the staging memory to its place.
    scratch: Vec<u8>,
    /// Counters of the accesses to the memory.
    pub counters: MemoryCounters,
}

/// The meaning of a request on memory that is not registered (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unregistered {
    /// Memory leaves the table only when the device has released it, so such a request is a bug.
    Bug,
    /// Memory leaves the table at once when it is deregistered, although operations may still refer
    /// to it. Their bytes are left out.
    LeftOut,
}

/// Counters of accesses to memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryCounters {
    /// Payloads copied into place.
    pub placed: u64,
    /// Bytes of the payloads in `placed`.
    pub bytes: u64,
    /// Payloads that had to wait before they were copied into place, because they arrived early.
    pub placed_late: u64,
    /// Words changed.
    pub atomics: u64,
    /// Payloads, words and packets that could not be copied to or from memory, because its owner
    /// has unmapped it or its file was truncated.
    pub gone: u64,
}

impl Memories {
    /// Returns an empty table.
    pub fn new(unregistered: Unregistered) -> Self {
        Memories {
            live: Vec::new(),
            released: Vec::new(),
            redirected: Vec::new(),
            unregistered,
            scratch: Vec::new(),
            counters: MemoryCounters::default(),
        }
    }

    /// Allocates the buffer for payloads that are copied from one segment to another.
    pub fn reserve_scratch(&mut self, bytes: usize) {
        self.scratch = vec![0; bytes];
    }

    /// Adds the memory of a segment that a device has registered.
    pub fn insert(&mut self, id: SegmentId, memory: Arc<Memory>) {
        let index = id.index();
        if index >= self.live.len() {
            self.live.resize_with(index + 1, || None);
        }
        self.live[index] = Some(memory);
    }

    /// Removes memory to which neither the device nor a packet that waits to be sent refers any
    /// more.
    pub fn remove(&mut self, id: SegmentId) {
        if let Some(memory) = self.live.get_mut(id.index()) {
            *memory = None;
        }
    }

    /// Moves memory that the device does not use any more to the released memory.
    pub fn release(&mut self, id: SegmentId) {
        self.released.extend(self.live.get_mut(id.index()).and_then(Option::take));
    }

    /// Returns the memory of a segment to its owner: operations that still name the segment get
    /// zeros of the same length instead, in memory that belongs to no program.
    pub fn blind(&mut self, id: SegmentId) {
        if let Some(Some(memory)) = self.live.get_mut(id.index()) {
            // Untouched memory costs nothing. If it cannot be mapped, such operations find no
            // memory.
            match Memory::zeroed(memory.len()) {
                Ok(blind) => *memory = Arc::new(blind),
                Err(_) => self.live[id.index()] = None,
            }
        }
    }

    /// Redirects payload for this segment to the bytes of `list`, at the same offset as in the
    /// segment; `None` ends that. Bytes beyond `list` are missing, as are those of its segments
    /// that are not registered or cannot be written. Payload that is read from the segment comes
    /// from its own memory.
    pub fn redirect(&mut self, id: SegmentId, list: Option<ScatterList>) {
        let index = id.index();
        if index >= self.redirected.len() {
            if list.is_none() {
                return;
            }
            self.redirected.resize_with(index + 1, || None);
        }
        self.redirected[index] = list.map(Box::new);
    }

    /// True if payload for this segment is redirected.
    pub fn is_redirected(&self, id: SegmentId) -> bool {
        self.redirection(id).is_some()
    }

    fn redirection(&self, id: SegmentId) -> Option<&ScatterList> {
        self.redirected.get(id.index())?.as_deref()
    }

    /// Frees the released memory, if no packet waits to be sent.
    pub fn free_released_memory(&mut self, nothing_waits: bool) {
        if nothing_waits && !self.released.is_empty() {
            self.released.clear();
        }
    }

    /// Returns the bytes of a range to be sent; `None` if its memory is missing.
    pub fn gather(&self, range: &LocalRange) -> Option<RawSlice> {
        if range.length == 0 {
            return Some(RawSlice::EMPTY);
        }
        let memory = self.holder(range)?;
        // SAFETY: within the memory (checked by `holder`), which stays mapped while it is in
        // `live` or `released`; it leaves the latter only when no packet waits to be sent.
        Some(unsafe {
            let start = memory.start().as_ptr().add(range.offset as usize);
            RawSlice::new(start, range.length as usize)
        })
    }

    /// Returns the bytes of a range, to be copied out; `None` if its memory is missing.
    pub fn source(&self, range: &LocalRange) -> Option<SharedBytes<'_>> {
        let memory = self.holder(range)?;
        Some(memory.bytes(range.offset as usize, range.length as usize))
    }

    /// Returns the range into which a payload is copied; `None` if its memory is missing or
    /// read-only.
    pub fn target(&self, range: &LocalRange) -> Option<SharedBytes<'_>> {
        let memory = self.holder(range).filter(|memory| memory.is_writable())?;
        Some(memory.bytes(range.offset as usize, range.length as usize))
    }

    /// Returns the address of a range in this process; `None` if its memory is missing.
    pub fn address_of(&self, range: &LocalRange) -> Option<usize> {
        let memory = self.holder(range)?;
        Some(memory.start().as_ptr() as usize + range.offset as usize)
    }

    /// Copies the bytes of `from` to `out`, which must have the same length. Returns false if some
    /// are missing: their segment is not registered, or its memory is gone.
    pub fn gather_into(&self, from: &impl Ranges, out: &mut [u8]) -> bool {
        let mut rest = out;
        for range in from.ranges() {
            let (part, later) = rest.split_at_mut(range.length as usize);
            match self.source(range) {
                Some(bytes) if bytes.read(part).is_ok() => {}
                _ => return false,
            }
            rest = later;
        }
        true
    }

    /// Copies `payload` to the bytes of `to`, which must have the same length, in the order of
    /// their addresses.
    ///
    /// # Errors
    /// The memory of a segment is gone, or that to which [`Self::redirect`] leads is not there.
    pub fn scatter(&self, to: &impl Ranges, payload: Payload<'_>) -> Result<(), Gone> {
        debug_assert_eq!(to.length() as usize, payload.len(), "a place of another length");
        let mut rest = payload;
        for range in to.ranges() {
            let (part, later) = rest.split_at(rest.len().min(range.length as usize));
            let range = LocalRange { length: part.len() as u32, ..*range };
            if let Some(list) = self.redirection(range.segment) {
                self.write_redirected(list, &range, part)?;
            } else if let Some(room) = self.room(&range) {
                part.place(room)?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Copies `payload` to the bytes of `list` to which a range of a segment is redirected.
    fn write_redirected(
        &self,
        list: &ScatterList,
        range: &LocalRange,
        payload: Payload<'_>,
    ) -> Result<(), Gone> {
        let from = u32::try_from(range.offset).map_err(|_| Gone)?;
        let places = list.slice(from, range.length);
        if places.length() != range.length {
            return Err(Gone);
        }
        let mut rest = payload;
        for place in places.ranges() {
            let (part, later) = rest.split_at(place.length as usize);
            part.place(self.target(place).ok_or(Gone)?)?;
            rest = later;
        }
        Ok(())
    }

    /// Changes a word, atomically with the CPU's own atomics on it. Returns its previous value.
    ///
    /// # Errors
    /// Its memory is gone.
    pub fn change<K>(&mut self, atomic: &AtomicExecution<K>) -> Result<u64, Gone> {
        self.counters.atomics += 1;
        let Some(word) = self.room(&atomic.target) else { return Ok(0) };
        if word.is_aligned_word() {
            return word.change(atomic.operator, atomic.operand, atomic.compare);
        }
        // The address that peers use is aligned, but the memory behind it is not. The change is
        // atomic only among those of peers, because they are all executed here, one after the
        // other.
        let mut bytes = [0; WORD];
        let bytes = &mut bytes[..atomic.target.length as usize];
        word.read(bytes)?;
        let old = from_bytes(bytes);
        let new = atomic.operator.apply(old, atomic.operand, atomic.compare);
        let length = bytes.len();
        word.write(&to_bytes(new)[low(length)])?;
        Ok(old)
    }

    /// Copies a payload from the staging memory to its place.
    ///
    /// # Errors
    /// The memory of one of them is gone.
    pub fn copy(&mut self, from: &LocalRange, to: &LocalRange) -> Result<(), Gone> {
        self.counters.placed_late += 1;
        let mut scratch = std::mem::take(&mut self.scratch);
        let bytes = &mut scratch[..from.length as usize];
        let aside = self.source(from).expect("the staging memory is registered memory");
        let copied = aside.read(bytes).and_then(|()| self.scatter(to, Payload::Here(bytes)));
        self.scratch = scratch;
        copied
    }

    /// Returns the memory of a range that a device has named after it checked the access. The
    /// bounds are checked once more here, because a bug must not become a write outside the range.
    /// `None`: the memory is not registered any more, and its bytes are to be left out.
    pub fn room(&self, range: &LocalRange) -> Option<SharedBytes<'_>> {
        let room = self.target(range);
        assert!(
            room.is_some() || self.unregistered == Unregistered::LeftOut,
            "a device names registered memory only"
        );
        room
    }

    fn holder(&self, range: &LocalRange) -> Option<&Memory> {
        let memory = self.live.get(range.segment.index())?.as_deref()?;
        memory.contains(range.offset, range.length as usize).then_some(memory)
    }
}

/// Returns the value of a word in the machine's byte order.
fn from_bytes(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[low(bytes.len())].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

fn to_bytes(value: u64) -> [u8; WORD] {
    value.to_ne_bytes()
}

/// Returns the position of the lowest `length` bytes of a word.
fn low(length: usize) -> std::ops::Range<usize> {
    if cfg!(target_endian = "big") { WORD - length..WORD } else { 0..length }
}

#[cfg(test)]
mod tests;
