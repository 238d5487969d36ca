//! Registered memory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use fairway_runtime::{Memory, SharedBytes};
use fairway_ub::{LocalRange, SegmentId};

use crate::core::Core;
use crate::error::{Error, PostedTo};
use crate::key::SegmentKey;
use crate::same_host::Share;
use crate::shared::Handle;

/// Size of a scratch copy in bytes: small enough for the stack and the first-level cache.
const CHUNK: usize = 4096;

/// Time after which [`Segment::into_memory`] looks again whether its memory is still being handed
/// over to another process.
const HANDED_OVER: Duration = Duration::from_millis(2);

/// Memory that the NIC may use: as the local side of operations and, as far as its rights go, for
/// peers that have its key.
///
/// Clones refer to the same segment. When the last one is dropped, peers are refused at once, and
/// the memory is freed as soon as no operation needs it any more. The bytes may change at any time,
/// so they are copied in and out and never borrowed. A copy made while a peer writes may contain a
/// mixture of old and new bytes, but nothing else.
#[derive(Clone)]
pub struct Segment {
    inner: Arc<Inner>,
}

struct Inner {
    handle: Arc<Handle>,
    id: SegmentId,
    key: SegmentKey,
    memory: Arc<Memory>,
    /// Set if peers on this host may map the memory.
    share: Option<Arc<Share>>,
}

impl Segment {
    pub(crate) fn new(
        handle: Arc<Handle>,
        id: SegmentId,
        key: SegmentKey,
        memory: Arc<Memory>,
        share: Option<Arc<Share>>,
    ) -> Self {
        Segment { inner: Arc::new(Inner { handle, id, key, memory, share }) }
    }

    /// Returns the key with which peers can access the segment.
    pub fn key(&self) -> SegmentKey {
        self.inner.key
    }

    /// Length of the segment in bytes.
    pub fn len(&self) -> u64 {
        self.inner.memory.len() as u64
    }

    /// True if the segment has no bytes.
    pub fn is_empty(&self) -> bool {
        self.inner.memory.is_empty()
    }

    /// Returns a range of the segment, for an operation. It is checked when the operation is
    /// posted.
    pub fn slice(&self, range: Range<u64>) -> LocalSlice<'_> {
        LocalSlice { segment: self, offset: range.start, end: range.end }
    }

    /// Copies the bytes from `offset` on to `out`.
    ///
    /// # Errors
    /// The range leaves the segment, or its memory is not there any more.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let start = self.checked(offset, out.len() as u64)?;
        self.inner.memory.bytes(start, out.len()).read(out)?;
        Ok(())
    }

    /// Copies `data` into the segment, from `offset` on.
    ///
    /// # Errors
    /// The range leaves the segment, or its memory can't be written, or is not there any more.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let start = self.checked_writable(offset, data.len() as u64)?;
        self.inner.memory.bytes(start, data.len()).write(data)?;
        Ok(())
    }

    /// Fills a range piece by piece: `fill` receives the position of each piece in the segment, and
    /// the piece.
    ///
    /// # Errors
    /// As [`Segment::write_at`].
    pub fn fill_with(
        &self,
        range: Range<u64>,
        mut fill: impl FnMut(u64, &mut [u8]),
    ) -> Result<(), Error> {
        self.checked_writable(range.start, length_of(&range)?)?;
        let mut scratch = [0; CHUNK];
        for (position, length) in pieces(range) {
            let piece = &mut scratch[..length];
            fill(position, piece);
            self.inner.memory.bytes(position as usize, length).write(piece)?;
        }
        Ok(())
    }

    /// True if the segment contains `data` at `offset`.
    ///
    /// # Errors
    /// The range leaves the segment, or its memory is not there any more.
    pub fn compare(&self, offset: u64, data: &[u8]) -> Result<bool, Error> {
        let start = self.checked(offset, data.len() as u64)?;
        Ok(self.inner.memory.bytes(start, data.len()).equals(data)?)
    }

    /// Returns a 64-bit hash of a range, the same on every machine; for comparisons, not for
    /// security.
    ///
    /// # Errors
    /// The range leaves the segment, or its memory is not there any more.
    pub fn hash(&self, range: Range<u64>) -> Result<u64, Error> {
        let length = length_of(&range)?;
        self.checked(range.start, length)?;
        let mut hash = Hash::new(length);
        let mut scratch = [0; CHUNK];
        for (position, length) in pieces(range) {
            let piece = &mut scratch[..length];
            self.inner.memory.bytes(position as usize, length).read(piece)?;
            hash.add(piece);
        }
        Ok(hash.finish())
    }

    /// Returns the 8-byte word at `offset`, which this process may access while peers do: their
    /// atomics on it are atomic with the CPU's, and their loads, stores, READs and WRITEs of
    /// exactly this word are not torn. A thread that loads it with
    /// [`Ordering::Acquire`](std::sync::atomic::Ordering::Acquire) sees all bytes that were written
    /// before it in order.
    ///
    /// The word is accessed directly. If it is in a mapped file ([`Memory::map_file`]) that has
    /// been truncated, the access ends the process (SIGBUS), as with any mapping of a file.
    ///
    /// # Errors
    /// It leaves the segment, is not aligned, or the memory can't be written.
    pub fn atomic_u64(&self, offset: u64) -> Result<&AtomicU64, Error> {
        let word = self.word::<u64>(offset)?;
        // SAFETY: see `word`.
        Ok(unsafe { AtomicU64::from_ptr(word) })
    }

    /// Returns the 4-byte word at `offset`, to be accessed as [`Segment::atomic_u64`] says.
    ///
    /// # Errors
    /// As [`Segment::atomic_u64`].
    pub fn atomic_u32(&self, offset: u64) -> Result<&AtomicU32, Error> {
        let word = self.word::<u32>(offset)?;
        // SAFETY: see `word`.
        Ok(unsafe { AtomicU32::from_ptr(word) })
    }

    /// Returns the address of a word: within the memory, which stays mapped while a handle to the
    /// segment exists; writable; aligned. The bytes are borrowed as atomics only.
    fn word<T>(&self, offset: u64) -> Result<*mut T, Error> {
        let start = self.checked_writable(offset, size_of::<T>() as u64)?;
        let word = self.inner.memory.start().as_ptr().wrapping_add(start);
        if !(word as usize).is_multiple_of(align_of::<T>()) {
            return Err(Error::Parameter {
                name: "offset of a word",
                value: offset.to_string(),
                remedy: "choose a multiple of its length, in memory that begins at one",
            });
        }
        Ok(word.cast())
    }

    /// Returns the address of the first byte in this process, for code that does its own
    /// synchronisation with the NIC.
    ///
    /// # Safety
    /// The pointer is good while a handle to the segment exists. Code that reads or writes through
    /// it must ensure that no peer and no operation writes (or, when writing: touches) the same
    /// bytes at the same time, or access them atomically.
    pub unsafe fn as_ptr(&self) -> *mut u8 {
        self.inner.memory.start().as_ptr()
    }

    /// Ends the registration and returns the memory, once no operation needs it any more. Peers are
    /// refused from now on. Blocks until then.
    ///
    /// # Errors
    /// [`Error::Shared`]: other handles to the segment exist; drop them first. The segment is then
    /// still there, held by them. [`Error::Posted`]: memory of the segment is posted to a Jetty or
    /// a mailbox ([`Segment::posted_to`]); the registration has ended, and the memory is freed when
    /// nothing of it is posted.
    pub fn into_memory(self) -> Result<Memory, Error> {
        self.inner.handle.live()?;
        if Arc::strong_count(&self.inner) > 1 {
            return Err(Error::Shared);
        }
        if let Some(to) = self.posted_to() {
            return Err(Error::Posted { to });
        }
        let mut inner = Arc::try_unwrap(self.inner).map_err(|_| Error::Shared)?;
        let placeholder = Arc::new(Memory::from_vec(Vec::new()));
        let memory = std::mem::replace(&mut inner.memory, placeholder);
        let handle = inner.handle.clone();
        // Dropping `inner` deregisters the segment.
        drop(inner);
        let mut memory = Some(memory);
        // The core's table has another reference, and the thread that hands shared memory to other
        // processes has one for a moment. No event of the core tells when that one is dropped.
        loop {
            let taken = |_: &mut Core| match Arc::try_unwrap(memory.take()?) {
                Ok(memory) => Some(memory),
                Err(shared) => {
                    memory = Some(shared);
                    None
                }
            };
            let awaited = "release of the segment";
            let released = handle.shared.wait_for(awaited, Some(HANDED_OVER), None, taken);
            if !matches!(released, Err(Error::Timeout { .. })) {
                return released;
            }
        }
    }

    /// Returns an object to which memory of the segment is posted: a Jetty, for a receive into
    /// which no message arrives yet, or a mailbox. The memory can be returned when there is none,
    /// or after [`crate::Context::shutdown`].
    pub fn posted_to(&self) -> Option<PostedTo> {
        self.inner.handle.here().with(|core| core.posted_to(self.inner.id))
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.inner.memory
    }

    pub(crate) fn belongs_to(&self, handle: &Arc<Handle>) -> bool {
        Arc::ptr_eq(&self.inner.handle, handle)
    }

    fn checked(&self, offset: u64, length: u64) -> Result<usize, Error> {
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.len());
        if fits {
            return Ok(offset as usize);
        }
        Err(Error::OutOfBounds { offset, length, segment: self.len() })
    }

    fn checked_writable(&self, offset: u64, length: u64) -> Result<usize, Error> {
        if !self.inner.memory.is_writable() {
            return Err(Error::ReadOnly);
        }
        self.checked(offset, length)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Ok(shared) = self.handle.live() else { return };
        // Processes on this host lose access, too, although the thread that passes the file out may
        // keep its reference for a moment longer.
        if let Some(share) = self.share.take() {
            share.close();
        }
        shared.with_quiesced(|core| core.deregister(self.id));
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("id", &self.inner.id.index())
            .field("length", &self.len())
            .finish_non_exhaustive()
    }
}

/// A range of a local segment: the local side of an operation.
#[derive(Clone, Copy, Debug)]
pub struct LocalSlice<'a> {
    segment: &'a Segment,
    offset: u64,
    end: u64,
}

impl<'a> LocalSlice<'a> {
    /// Length in bytes; zero if the range ends before it begins, which no operation accepts.
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.offset)
    }

    /// True if the range is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the length and the bytes, to be written, if the range is one of a segment of
    /// `handle`'s context.
    pub(crate) fn room(&self, handle: &Arc<Handle>) -> Result<(usize, SharedBytes<'a>), Error> {
        if !self.segment.belongs_to(handle) {
            return Err(Error::Foreign { what: "segment" });
        }
        let length = length_of(&(self.offset..self.end))?;
        let start = self.segment.checked_writable(self.offset, length)?;
        let length = length as usize;
        Ok((length, self.segment.inner.memory.bytes(start, length)))
    }

    /// Returns the range as the protocol's type, if it is a range of a segment of `handle`'s
    /// context. `written` is true if the operation writes to it.
    pub(crate) fn range(&self, handle: &Arc<Handle>, written: bool) -> Result<LocalRange, Error> {
        if !self.segment.belongs_to(handle) {
            return Err(Error::Foreign { what: "segment" });
        }
        let length = length_of(&(self.offset..self.end))?;
        self.segment.checked(self.offset, length)?;
        if written && !self.segment.inner.memory.is_writable() {
            return Err(Error::ReadOnly);
        }
        let length = u32::try_from(length).map_err(|_| Error::TooLong { length })?;
        Ok(LocalRange { segment: self.segment.inner.id, offset: self.offset, length })
    }
}

impl<'a> From<&'a Segment> for LocalSlice<'a> {
    /// The range of the whole segment.
    fn from(segment: &'a Segment) -> Self {
        LocalSlice { segment, offset: 0, end: segment.len() }
    }
}

impl<'a> From<(&'a Segment, Range<u64>)> for LocalSlice<'a> {
    fn from((segment, range): (&'a Segment, Range<u64>)) -> Self {
        segment.slice(range)
    }
}

/// Returns the length of a range, unless it ends before it begins.
fn length_of(range: &Range<u64>) -> Result<u64, Error> {
    range.end.checked_sub(range.start).ok_or_else(|| Error::Parameter {
        name: "range of a segment",
        value: format!("{}..{}", range.start, range.end),
        remedy: "let it begin before it ends",
    })
}

/// Splits a range into pieces: position and length of each.
fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, usize)> {
    let end = range.end;
    range.step_by(CHUNK).map(move |start| (start, (end - start).min(CHUNK as u64) as usize))
}

/// A hash that multiplies and folds eight bytes at a time, in four independent lanes.
struct Hash([u64; 4]);

impl Hash {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    fn new(length: u64) -> Self {
        Hash([0, 1, 2, 3].map(|lane: u64| length ^ Self::FACTOR.rotate_left(lane as u32 * 16)))
    }

    /// Adds a piece. The length of every piece but the last is a multiple of 32.
    fn add(&mut self, piece: &[u8]) {
        let mut blocks = piece.chunks_exact(32);
        for block in &mut blocks {
            self.block(block);
        }
        if !blocks.remainder().is_empty() {
            let mut last = [0; 32];
            last[..blocks.remainder().len()].copy_from_slice(blocks.remainder());
            self.block(&last);
        }
    }

    fn block(&mut self, block: &[u8]) {
        for (lane, word) in self.0.iter_mut().zip(block.chunks_exact(8)) {
            *lane = fold(*lane ^ u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
    }

    fn finish(self) -> u64 {
        self.0.into_iter().fold(0, |sum, lane| fold(sum ^ lane))
    }
}

fn fold(word: u64) -> u64 {
    let product = u128::from(word) * u128::from(Hash::FACTOR);
    (product as u64 ^ (product >> 64) as u64).rotate_left(23)
}
