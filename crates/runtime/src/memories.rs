//! The memory behind every segment that a device knows. All that is ever done to it is copying,
//! byte by byte or word by word as atomics, because the application may use it at the same time.

use std::sync::Arc;

use fairway_device::{AtomicExecution, LocalRange, Ranges, ScatterList, SegmentId};
use fairway_port::RawSlice;

use crate::memory::{Gone, Memory, SharedBytes};

/// Bytes of the longest word that an atomic changes.
const WORD: usize = size_of::<u64>();

/// Memory by segment index. What is in here stays mapped, or the owner has vouched for it.
pub struct Memories {
    live: Vec<Option<Arc<Memory>>>,
    /// Released by the device, but perhaps named by packets that still wait to be sent.
    released: Vec<Arc<Memory>>,
    /// Where payload goes that is placed into a segment, if not into its own memory; by segment
    /// index.
    redirected: Vec<Option<Box<ScatterList>>>,
    unregistered: Unregistered,
    /// Room for a payload on its way from the staging memory to its place.
    scratch: Vec<u8>,
    /// What was done to the memory so far.
    pub counters: MemoryCounters,
}

/// What it means that a device names memory which is not registered (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unregistered {
    /// Memory leaves the table only when the device has released it, so this is a bug of ours.
    Bug,
    /// Memory leaves the table at once when it is deregistered, although operations may still name
    /// it. Their bytes are left out.
    LeftOut,
}

/// What was done to memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryCounters {
    /// Payloads copied into place.
    pub placed: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Payloads that waited for their turn before they were copied into place.
    pub placed_late: u64,
    /// Words changed.
    pub atomics: u64,
    /// Payloads, words and packets for or from memory that its owner has unmapped, or whose file
    /// was truncated.
    pub gone: u64,
}

impl Memories {
    /// A table without memory.
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

    /// Takes room for payloads that are copied from one segment to another.
    pub fn reserve_scratch(&mut self, bytes: usize) {
        self.scratch = vec![0; bytes];
    }

    /// Puts the memory of a segment that a device has registered into the table.
    pub fn insert(&mut self, id: SegmentId, memory: Arc<Memory>) {
        let index = id.index();
        if index >= self.live.len() {
            self.live.resize_with(index + 1, || None);
        }
        self.live[index] = Some(memory);
    }

    /// The device names it no more, and no packet that waits to be sent does.
    pub fn remove(&mut self, id: SegmentId) {
        if let Some(memory) = self.live.get_mut(id.index()) {
            *memory = None;
        }
    }

    /// The device has no use for it any more.
    pub fn release(&mut self, id: SegmentId) {
        self.released.extend(self.live.get_mut(id.index()).and_then(Option::take));
    }

    /// Gives the memory of a segment back to its owner: operations that still name the segment find
    /// as many zeros, which belong to no program.
    pub fn blind(&mut self, id: SegmentId) {
        if let Some(Some(memory)) = self.live.get_mut(id.index()) {
            // Memory that is never touched costs nothing; without it, nothing is found.
            match Memory::zeroed(memory.len()) {
                Ok(blind) => *memory = Arc::new(blind),
                Err(_) => self.live[id.index()] = None,
            }
        }
    }

    /// From now on payload that is placed into this segment goes to the bytes of `list`, as far
    /// from their beginning as it is named in the segment; with `None` into the segment's own
    /// memory again. Bytes that `list` does not have are missing, as are those of segments in it
    /// that are not registered, or can't be written. Payload that is read from the segment is its
    /// own.
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

    /// True if payload that is placed into this segment goes elsewhere.
    pub fn is_redirected(&self, id: SegmentId) -> bool {
        self.redirection(id).is_some()
    }

    fn redirection(&self, id: SegmentId) -> Option<&ScatterList> {
        self.redirected.get(id.index())?.as_deref()
    }

    /// Frees what was released, if no packet waits to be sent.
    pub fn free_released_memory(&mut self, nothing_waits: bool) {
        if nothing_waits && !self.released.is_empty() {
            self.released.clear();
        }
    }

    /// The bytes of a range to be sent; `None` if they are not there.
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

    /// The bytes of a range, to be copied out; `None` if they are not there.
    pub fn source(&self, range: &LocalRange) -> Option<SharedBytes<'_>> {
        let memory = self.holder(range)?;
        Some(memory.bytes(range.offset as usize, range.length as usize))
    }

    /// Room for a payload to be copied into; `None` if it is not there or can't be written.
    pub fn target(&self, range: &LocalRange) -> Option<SharedBytes<'_>> {
        let memory = self.holder(range).filter(|memory| memory.is_writable())?;
        Some(memory.bytes(range.offset as usize, range.length as usize))
    }

    /// Where a range begins in this process; `None` if it is not there.
    pub fn address_of(&self, range: &LocalRange) -> Option<usize> {
        let memory = self.holder(range)?;
        Some(memory.start().as_ptr() as usize + range.offset as usize)
    }

    /// Copies the bytes of `from` to `out`, which is as long. False if some are not there: their
    /// segment is not registered, or its memory is gone.
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

    /// Copies `data` to the bytes of `to`, of which there are as many, in the order of their
    /// addresses.
    ///
    /// # Errors
    /// The memory of a segment is gone, or that to which [`Self::redirect`] leads is not there.
    pub fn scatter(&self, to: &impl Ranges, data: &[u8]) -> Result<(), Gone> {
        debug_assert_eq!(to.length() as usize, data.len(), "a place of another length");
        let mut rest = data;
        for range in to.ranges() {
            let (part, later) = rest.split_at(rest.len().min(range.length as usize));
            let range = LocalRange { length: part.len() as u32, ..*range };
            if let Some(list) = self.redirection(range.segment) {
                self.write_redirected(list, &range, part)?;
            } else if let Some(room) = self.room(&range) {
                room.write(part)?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Copies `data` to the bytes of `list` that stand for a range of a segment.
    fn write_redirected(
        &self,
        list: &ScatterList,
        range: &LocalRange,
        data: &[u8],
    ) -> Result<(), Gone> {
        let from = u32::try_from(range.offset).map_err(|_| Gone)?;
        let places = list.slice(from, range.length);
        if places.length() != range.length {
            return Err(Gone);
        }
        let mut rest = data;
        for place in places.ranges() {
            let (part, later) = rest.split_at(place.length as usize);
            self.target(place).ok_or(Gone)?.write(part)?;
            rest = later;
        }
        Ok(())
    }

    /// Changes a word, atomically with the CPU's own atomics on it. Returns what it was.
    ///
    /// # Errors
    /// Its memory is gone.
    pub fn change<K>(&mut self, atomic: &AtomicExecution<K>) -> Result<u64, Gone> {
        self.counters.atomics += 1;
        let Some(word) = self.room(&atomic.target) else { return Ok(0) };
        if word.is_aligned_word() {
            return word.change(atomic.operator, atomic.operand, atomic.compare);
        }
        // The address that peers use is aligned, but the memory behind it is not. Atomic among
        // what peers do, because all of that is done here, one after the other.
        let mut bytes = [0; WORD];
        let bytes = &mut bytes[..atomic.target.length as usize];
        word.read(bytes)?;
        let old = from_bytes(bytes);
        let new = atomic.operator.apply(old, atomic.operand, atomic.compare);
        let length = bytes.len();
        word.write(&to_bytes(new)[low(length)])?;
        Ok(old)
    }

    /// Copies a payload from the staging memory to where it belongs.
    ///
    /// # Errors
    /// The memory of one of them is gone.
    pub fn copy(&mut self, from: &LocalRange, to: &LocalRange) -> Result<(), Gone> {
        self.counters.placed_late += 1;
        let mut scratch = std::mem::take(&mut self.scratch);
        let bytes = &mut scratch[..from.length as usize];
        let aside = self.source(from).expect("the staging memory is registered memory");
        let copied = aside.read(bytes).and_then(|()| self.scatter(to, bytes));
        self.scratch = scratch;
        copied
    }

    /// Room that a device has named, after it has checked the access. Its bounds are checked once
    /// more here, because a mistake must not become a write to somewhere else. `None`: the memory
    /// is not registered any more, and its bytes are to be left out.
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

/// The value of a word in the machine's byte order.
fn from_bytes(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[low(bytes.len())].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

fn to_bytes(value: u64) -> [u8; WORD] {
    value.to_ne_bytes()
}

/// Where the lowest `length` bytes of a word are.
fn low(length: usize) -> std::ops::Range<usize> {
    if cfg!(target_endian = "big") { WORD - length..WORD } else { 0..length }
}

#[cfg(test)]
mod tests;
