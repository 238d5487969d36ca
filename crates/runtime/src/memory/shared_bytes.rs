//! Bytes that other threads may read, write or unmap at any time, and how to copy them anyway.
//!
//! The NIC places payload into an application's memory while the application looks at it. Plain
//! Rust accesses would be data races; here every access is made by assembly ([`guard`]), 8 bytes or
//! more at a time where the shared side is aligned, so the outcome is at worst a mixture of old and
//! new bytes. Where the memory is not there any more, the access fails and nothing else happens.
//!
//! An aligned word of 1, 2, 4 or 8 bytes is read and written whole. A thread that sees what was
//! written sees what was written before it: a flag that follows its data can be trusted.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use fairway_wire::AtomicOperator;

use super::guard;
use super::sanitizer::will_write;

/// Memory is not there any more: its owner has unmapped it, or has truncated its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Bytes per shared word.
const WORD: usize = size_of::<u64>();
/// Bytes that are compared at a time.
const CHUNK: usize = 256;

/// A range of shared bytes. The holder vouches that they have not become anything else.
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

    /// The same bytes without a borrow of their memory.
    ///
    /// # Safety
    /// The memory stays the application's until the value is used for the last time.
    pub unsafe fn detach(self) -> SharedBytes<'static> {
        SharedBytes { start: self.start, length: self.length, memory: PhantomData }
    }

    /// Copies all of it to `out`, which is as long. If that fails, any of `out` may have changed.
    pub fn read(self, out: &mut [u8]) -> Result<(), Gone> {
        assert_eq!(self.length, out.len(), "a copy between ranges of different lengths");
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

    /// Copies `data`, which is as long, over all of it. If that fails, any of it may have changed.
    pub fn write(self, data: &[u8]) -> Result<(), Gone> {
        assert_eq!(self.length, data.len(), "a copy between ranges of different lengths");
        will_write(self.start.as_ptr(), self.length);
        if self.is_word() {
            return self.write_word(data);
        }
        // Up to the last word, and then that: a thread that sees the last byte sees them all.
        let end = self.start.as_ptr() as usize + self.length;
        let tail = if end.is_multiple_of(WORD) { WORD } else { end % WORD }.min(self.length);
        let head = self.length - tail;
        self.part(0, head).write_pieces(&data[..head])?;
        let last = self.part(head, tail);
        match last.is_word() {
            true => last.write_word(&data[head..]),
            false => last.write_pieces(&data[head..]),
        }
    }

    /// `length` of its bytes from `offset` on, which there are.
    fn part(&self, offset: usize, length: usize) -> SharedBytes<'a> {
        debug_assert!(offset + length <= self.length);
        // SAFETY: a part of what the maker vouched for.
        unsafe { SharedBytes::new(self.start.add(offset), length) }
    }

    fn write_pieces(self, data: &[u8]) -> Result<(), Gone> {
        fence(Ordering::Release);
        // SAFETY: as long as `data`, and the maker vouched for it; `data` is ours.
        unsafe { guard::copy_out(self.start.as_ptr(), data.as_ptr(), self.length, self.head()) }
    }

    /// Writes all of it, which is a word, in one store.
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

    /// Changes the word that it is, atomically, and returns what it was.
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
            // One that stays is exchanged for itself, which orders it like the others.
            // SAFETY: as above.
            let was = unsafe { guard::exchange(word, old, new, width)? };
            if was == old {
                return Ok(old);
            }
            old = was;
        }
    }

    /// Can it be changed by one operation of the CPU?
    pub(crate) fn is_aligned_word(self) -> bool {
        matches!(self.length, 4 | 8) && self.is_word()
    }

    /// Is it an aligned word?
    fn is_word(self) -> bool {
        matches!(self.length, 1 | 2 | 4 | 8)
            && (self.start.as_ptr() as usize).is_multiple_of(self.length)
    }

    /// Its bytes up to the first whole word.
    fn head(self) -> usize {
        self.start.as_ptr().align_offset(WORD).min(self.length)
    }

    /// True if it holds `data` (which is as long) now.
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

/// Where the lowest `length` bytes of a word are.
fn low(length: usize) -> Range<usize> {
    if cfg!(target_endian = "big") { WORD - length..WORD } else { 0..length }
}
