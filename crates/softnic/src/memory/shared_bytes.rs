//! Bytes that somebody else may read or write at any time, and how to copy them anyway.
//!
//! The NIC places payload into an application's memory while the application looks at it. Plain
//! Rust accesses would be data races; here every access is a relaxed atomic, eight bytes at a
//! time where the shared side is aligned, so the outcome is at worst a mixture of old and new
//! bytes. Compilers keep such loops as one load and one store per word, which is as fast as
//! memory is.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Bytes per shared word.
const WORD: usize = size_of::<u64>();

/// A range of shared bytes. Whoever holds one vouches that it is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedBytes {
    start: NonNull<u8>,
    length: usize,
}

impl SharedBytes {
    /// # Safety
    /// `length` bytes from `start` must stay mapped while the value is used, and nobody in this
    /// process may hold a Rust reference to any of them. To write, they must be writable.
    pub(crate) unsafe fn new(start: NonNull<u8>, length: usize) -> Self {
        SharedBytes { start, length }
    }

    /// Copies all of it to `out`, which is as long.
    pub(crate) fn read(self, out: &mut [u8]) {
        assert_eq!(self.length, out.len(), "a copy between ranges of different lengths");
        let mut rest = out;
        self.walk(|piece| match piece {
            Piece::Byte(byte) => put(&mut rest, &[byte.load(Ordering::Relaxed)]),
            Piece::Words(words) => {
                let (now, later) = std::mem::take(&mut rest).split_at_mut(words.len() * WORD);
                for (to, word) in now.chunks_exact_mut(WORD).zip(words) {
                    to.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
                }
                rest = later;
            }
        });
    }

    /// Copies `data`, which is as long, over all of it.
    pub(crate) fn write(self, data: &[u8]) {
        assert_eq!(self.length, data.len(), "a copy between ranges of different lengths");
        let mut rest = data;
        self.walk(|piece| match piece {
            Piece::Byte(byte) => {
                byte.store(rest[0], Ordering::Relaxed);
                rest = &rest[1..];
            }
            Piece::Words(words) => {
                let (now, later) = rest.split_at(words.len() * WORD);
                for (word, from) in words.iter().zip(now.chunks_exact(WORD)) {
                    // The chunk is eight bytes long.
                    let value = u64::from_ne_bytes(from.try_into().unwrap_or_default());
                    word.store(value, Ordering::Relaxed);
                }
                rest = later;
            }
        });
    }

    /// True if it holds `data` (which is as long) now.
    pub(crate) fn equals(self, data: &[u8]) -> bool {
        assert_eq!(self.length, data.len(), "a comparison of ranges of different lengths");
        let mut rest = data;
        let mut difference = 0_u64;
        self.walk(|piece| match piece {
            Piece::Byte(byte) => {
                difference |= u64::from(byte.load(Ordering::Relaxed) ^ rest[0]);
                rest = &rest[1..];
            }
            Piece::Words(words) => {
                let (now, later) = rest.split_at(words.len() * WORD);
                for (word, from) in words.iter().zip(now.chunks_exact(WORD)) {
                    let value = u64::from_ne_bytes(from.try_into().unwrap_or_default());
                    difference |= word.load(Ordering::Relaxed) ^ value;
                }
                rest = later;
            }
        });
        difference == 0
    }

    /// Hands its bytes to `visit`: single bytes up to the first word boundary, words, and single
    /// bytes again.
    #[inline(always)]
    fn walk(self, mut visit: impl FnMut(Piece<'_>)) {
        let start = self.start.as_ptr();
        let head = start.align_offset(WORD).min(self.length);
        let words = (self.length - head) / WORD;
        for offset in 0..head {
            visit(Piece::Byte(self.byte(offset)));
        }
        if words > 0 {
            // SAFETY: `head` is within the range, and `words` words fit behind it; the address is
            // aligned because `head` bytes were skipped. The maker vouched for the range, and for
            // there being no references to it, so shared atomics may name it.
            let words =
                unsafe { std::slice::from_raw_parts(start.add(head).cast::<AtomicU64>(), words) };
            visit(Piece::Words(words));
        }
        for offset in head + words * WORD..self.length {
            visit(Piece::Byte(self.byte(offset)));
        }
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        debug_assert!(offset < self.length);
        // SAFETY: as in `walk`: within the range, and a byte is always aligned.
        unsafe { AtomicU8::from_ptr(self.start.as_ptr().add(offset)) }
    }
}

/// A part of a range.
enum Piece<'a> {
    Byte(&'a AtomicU8),
    Words(&'a [AtomicU64]),
}

fn put(rest: &mut &mut [u8], bytes: &[u8]) {
    let (now, later) = std::mem::take(rest).split_at_mut(bytes.len());
    now.copy_from_slice(bytes);
    *rest = later;
}
