//! Copies of bytes that other threads may read, write or unmap at any time.
//!
//! The NIC places payload into an application's memory while the application reads it. Plain Rust
//! accesses would be data races; here every access is made by assembly ([`guard`]), 8 bytes or more
//! at a time if the shared side is aligned, so the result is at worst a mixture of old and new
//! bytes. If the memory is missing, the access fails without further effect.
//!
//! An aligned word of 1, 2, 4 or 8 bytes is read and written in one access. A thread that sees a
//! written word also sees everything written before it, so a flag that follows its data is
//! reliable.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use fairway_wire::AtomicOperator;

use super::guard;
use super::sanitizer::{will_read, will_write};

/// Error for memory that is missing: its owner has unmapped it, or has truncated its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Bytes of a shared word.
const WORD: usize = size_of::<u64>();
/// Number of bytes that are compared at a time.
const CHUNK: usize = 256;

/// A range of shared bytes. Its creator vouches that the memory has not become anything else.
#[derive(Clone, Copy, Debug)]
pub struct SharedBytes<'a> {
    start: NonNull<u8>,
    length: usize,
    memory: PhantomData<&'a ()>,
}

// SAFETY: it is a place, and whatever is done there is done by accesses that any thread may make.
unsafe impl Send for SharedBytes<'_> {}

impl<'a> SharedBytes<'a> {
    /// # Safety
    /// `length` bytes from `start` must stay the application's while the value is used, mapped or
    /// not, and there may be no Rust reference to any of them in this process. To write, they
    /// must be writable if they are mapped.
    pub unsafe fn new(start: NonNull<u8>, length: usize) -> Self {
        SharedBytes { start, length, memory: PhantomData }
    }

    /// Returns the same bytes without a borrow of their memory.
    ///
    /// # Safety
    /// The memory stays the application's until the value is used for the last time.
    pub unsafe fn detach(self) -> SharedBytes<'static> {
        SharedBytes { start: self.start, length: self.length, memory: PhantomData }
    }

    /// Copies the range to `out`, which must have the same length. If that fails, any of `out` may
    /// have changed.
    pub fn read(self, out: &mut [u8]) -> Result<(), Gone> {
        assert_eq!(self.length, out.len(), "a copy between ranges of different lengths");
        will_read(self.start.as_ptr(), self.length);
        if self.is_word() {
            // SAFETY: an aligned word, which the maker vouched for.
            let value = unsafe { guard::load(self.start.as_ptr(), self.length)? };
            match <&mut [u8; WORD]>::try_from(&mut *out) {
                Ok(whole) => *whole = value.to_ne_bytes(),
                Err(_) => out.copy_from_slice(&value.to_ne_bytes()[low(self.length)]),
            }
        } else {
            // SAFETY: as long as `out`, and the maker vouched for it; `out` is ours.
            unsafe {
                guard::copy_in(out.as_mut_ptr(), self.start.as_ptr(), self.length, self.head())?;
            }
        }
        fence(Ordering::Acquire);
        Ok(())
    }

    /// Copies `data`, which must have the same length, to the range. If that fails, any of it may
    /// have changed.
    pub fn write(self, data: &[u8]) -> Result<(), Gone> {
        assert_eq!(self.length, data.len(), "a copy between ranges of different lengths");
        will_write(self.start.as_ptr(), self.length);
        if self.is_word() {
            return self.write_word(data);
        }
        // A thread that sees the last byte sees them all.
        let head = self.before_last_word();
        self.part(0, head).write_pieces(&data[..head])?;
        self.part(head, self.length - head).write_end(&data[head..])
    }

    /// Copies `source`, which must have the same length and not overlap, to the range, as
    /// [`SharedBytes::write`] does.
    pub fn write_from(self, source: SharedBytes<'_>) -> Result<(), Gone> {
        assert_eq!(self.length, source.length, "a copy between ranges of different lengths");
        let head = self.before_last_word();
        let (first, from) = (self.part(0, head), source.part(0, head));
        will_read(from.start.as_ptr(), head);
        will_write(self.start.as_ptr(), self.length);
        first.write_pieces_from(from)?;
        let mut end = [0; WORD];
        let end = &mut end[..self.length - head];
        source.part(head, end.len()).read(end)?;
        self.part(head, end.len()).write_end(end)
    }

    /// Number of bytes before the last aligned word of memory, or part of one, in which the range
    /// ends.
    fn before_last_word(&self) -> usize {
        let end = self.start.as_ptr() as usize + self.length;
        let tail = if end.is_multiple_of(WORD) { WORD } else { end % WORD }.min(self.length);
        self.length - tail
    }

    /// Writes the end of a range, at most a word.
    fn write_end(self, data: &[u8]) -> Result<(), Gone> {
        match self.is_word() {
            true => self.write_word(data),
            false => self.write_pieces(data),
        }
    }

    /// Copies the range to another one of the same length, which must not overlap it. If that
    /// fails, any of `room` may have changed.
    pub fn copy_to(self, room: SharedBytes<'_>) -> Result<(), Gone> {
        assert_eq!(self.length, room.length, "a copy between ranges of different lengths");
        will_read(self.start.as_ptr(), self.length);
        fence(Ordering::Release);
        // SAFETY: the makers of both ranges vouched for them, and the accesses are made by
        // assembly, so it makes no difference that both are shared.
        unsafe {
            guard::copy_in(room.start.as_ptr(), self.start.as_ptr(), self.length, self.head())?;
        }
        fence(Ordering::Acquire);
        Ok(())
    }

    /// Address of the first byte.
    pub(crate) fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns `length` bytes from `offset` on, which must be within the range.
    pub(crate) fn part(&self, offset: usize, length: usize) -> SharedBytes<'a> {
        debug_assert!(offset + length <= self.length);
        // SAFETY: a part of what the maker vouched for.
        unsafe { SharedBytes::new(self.start.add(offset), length) }
    }

    /// Copies `source`, of the same length, to the range, in the order of addresses.
    fn write_pieces_from(self, source: SharedBytes<'_>) -> Result<(), Gone> {
        let (to, from, length) = (self.start.as_ptr(), source.start.as_ptr(), self.length);
        if guard::IS_GUARDED {
            fence(Ordering::Release);
            // SAFETY: as long as each other, and the makers of both vouched for them. The accesses
            // are made by assembly, so it makes no difference that both are shared.
            return unsafe { guard::copy_out(to, from, length, self.head()) };
        }
        let mut chunk = [0; CHUNK];
        for at in (0..length).step_by(CHUNK) {
            let bytes = &mut chunk[..CHUNK.min(length - at)];
            source.part(at, bytes.len()).read(bytes)?;
            self.part(at, bytes.len()).write_pieces(bytes)?;
        }
        Ok(())
    }

    fn write_pieces(self, data: &[u8]) -> Result<(), Gone> {
        fence(Ordering::Release);
        // SAFETY: as long as `data`, and the maker vouched for it; `data` is ours.
        unsafe { guard::copy_out(self.start.as_ptr(), data.as_ptr(), self.length, self.head()) }
    }

    /// Writes the range, which must be a word, in one store.
    fn write_word(self, data: &[u8]) -> Result<(), Gone> {
        let bytes = <[u8; WORD]>::try_from(data).unwrap_or_else(|_| {
            let mut bytes = [0; WORD];
            bytes[low(self.length)].copy_from_slice(data);
            bytes
        });
        fence(Ordering::Release);
        // SAFETY: an aligned word, which the maker vouched for.
        unsafe { guard::store(self.start.as_ptr(), u64::from_ne_bytes(bytes), self.length) }
    }

    /// Changes the range, which must be a word, atomically, and returns its previous value.
    ///
    /// # Panics
    /// It is no aligned word of 4 or 8 bytes.
    pub fn change(self, operator: AtomicOperator, operand: u64, compare: u64) -> Result<u64, Gone> {
        assert!(self.is_aligned_word(), "an atomic on something that is no aligned word");
        let (word, width) = (self.start.as_ptr(), self.length);
        let mask = u64::MAX >> (64 - 8 * width);
        let (operand, compare) = (operand & mask, compare & mask);
        // SAFETY: an aligned word, which the maker vouched for.
        let mut old = unsafe { guard::load(word, width)? };
        loop {
            let new = operator.apply(old, operand, compare) & mask;
            // A word that does not change is exchanged for itself, which orders it like the others.
            // SAFETY: as above.
            let was = unsafe { guard::exchange(word, old, new, width)? };
            if was == old {
                return Ok(old);
            }
            old = was;
        }
    }

    /// True if the range can be changed by one operation of the CPU.
    pub(crate) fn is_aligned_word(self) -> bool {
        matches!(self.length, 4 | 8) && self.is_word()
    }

    /// True if the range is an aligned word.
    fn is_word(self) -> bool {
        matches!(self.length, 1 | 2 | 4 | 8)
            && (self.start.as_ptr() as usize).is_multiple_of(self.length)
    }

    /// Number of bytes before the first whole word.
    fn head(self) -> usize {
        self.start.as_ptr().align_offset(WORD).min(self.length)
    }

    /// True if the range equals `data`, which must have the same length, now.
    pub fn equals(self, data: &[u8]) -> Result<bool, Gone> {
        assert_eq!(self.length, data.len(), "a comparison of ranges of different lengths");
        let mut scratch = [0; CHUNK];
        for (index, expected) in data.chunks(CHUNK).enumerate() {
            let piece = &mut scratch[..expected.len()];
            self.part(index * CHUNK, expected.len()).read(piece)?;
            if piece != expected {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the position of the lowest `length` bytes of a word.
fn low(length: usize) -> Range<usize> {
    if cfg!(target_endian = "big") { WORD - length..WORD } else { 0..length }
}
