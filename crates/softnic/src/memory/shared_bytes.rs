//! Bytes that somebody else may read or write at any time, and how to copy them anyway.
//!
//! The NIC places payload into an application's memory while the application looks at it. Plain
//! Rust accesses would be data races; here every access is a relaxed atomic, eight bytes at a
//! time where the shared side is aligned, so the outcome is at worst a mixture of old and new
//! bytes. Compilers keep such loops as one load and one store per word, which is as fast as
//! memory is.
//!
//! An aligned word of 1, 2, 4 or 8 bytes is read and written whole. Whoever sees what was written
//! sees what was written before it: a flag that follows its data can be trusted.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use fairway_engine::wire::AtomicOperator;

use super::sanitizer::will_write;

/// Does to a word what the operator says, in one atomic operation of the CPU. A macro, because the
/// words of 4 and of 8 bytes are different types without a common trait.
macro_rules! change_word {
    ($word:expr, $operator:expr, $operand:expr, $compare:expr) => {{
        let (word, operand, order) = ($word, $operand, Ordering::SeqCst);
        match $operator {
            AtomicOperator::CompareSwap => {
                match word.compare_exchange($compare, operand, order, order) {
                    Ok(old) | Err(old) => old,
                }
            }
            AtomicOperator::Swap | AtomicOperator::Store => word.swap(operand, order),
            AtomicOperator::Load => word.load(order),
            AtomicOperator::Add => word.fetch_add(operand, order),
            AtomicOperator::Subtract => word.fetch_sub(operand, order),
            AtomicOperator::And => word.fetch_and(operand, order),
            AtomicOperator::Or => word.fetch_or(operand, order),
            AtomicOperator::Xor => word.fetch_xor(operand, order),
        }
    }};
}

/// Bytes per shared word.
const WORD: usize = size_of::<u64>();

/// A range of shared bytes. Whoever holds one vouches that it is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedBytes {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it is a place, and whatever is done there is done by atomic accesses, which any thread may
// make; that it stays mapped is promised to `new`.
unsafe impl Send for SharedBytes {}

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
        if self.read_word(out) {
            return;
        }
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
        fence(Ordering::Acquire);
    }

    /// Copies `data`, which is as long, over all of it.
    pub(crate) fn write(self, data: &[u8]) {
        assert_eq!(self.length, data.len(), "a copy between ranges of different lengths");
        will_write(self.start.as_ptr(), self.length);
        if self.write_word(data) {
            return;
        }
        // Up to the last word, and then that: who sees the last byte sees them all.
        let end = self.start.as_ptr() as usize + self.length;
        let tail = if end.is_multiple_of(WORD) { WORD } else { end % WORD }.min(self.length);
        let head = self.length - tail;
        self.part(0, head).write_pieces(&data[..head]);
        let last = self.part(head, tail);
        if !last.write_word(&data[head..]) {
            last.write_pieces(&data[head..]);
        }
    }

    /// `length` of its bytes from `offset` on, which there are.
    fn part(&self, offset: usize, length: usize) -> SharedBytes {
        debug_assert!(offset + length <= self.length);
        // SAFETY: a part of what the maker vouched for.
        unsafe { SharedBytes::new(self.start.add(offset), length) }
    }

    fn write_pieces(self, data: &[u8]) {
        fence(Ordering::Release);
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

    /// Changes the word that it is, atomically, and returns what it was.
    ///
    /// Panics if it is no aligned word of 4 or 8 bytes: the callers have checked.
    pub(crate) fn change(self, operator: AtomicOperator, operand: u64, compare: u64) -> u64 {
        let word = self.word().expect("an atomic on something that is no aligned word");
        let shorter = |value: u64| value as u32;
        match word {
            Word::Long(word) => change_word!(word, operator, operand, compare),
            Word::Int(word) => {
                change_word!(word, operator, shorter(operand), shorter(compare)).into()
            }
            Word::Byte(_) | Word::Short(_) => panic!("an atomic on {} bytes", self.length),
        }
    }

    /// Can it be changed by one operation of the CPU?
    pub(crate) fn is_aligned_word(self) -> bool {
        matches!(self.word(), Some(Word::Int(_) | Word::Long(_)))
    }

    /// The aligned word that it is, if it is one.
    fn word(&self) -> Option<Word<'_>> {
        let start = self.start.as_ptr();
        if !(start as usize).is_multiple_of(self.length.max(1)) {
            return None;
        }
        // SAFETY: the range is as long as the word, which its address is aligned for; the maker
        // vouched for it, and for there being no references to it but such atomics.
        unsafe {
            match self.length {
                1 => Some(Word::Byte(AtomicU8::from_ptr(start))),
                2 => Some(Word::Short(AtomicU16::from_ptr(start.cast()))),
                4 => Some(Word::Int(AtomicU32::from_ptr(start.cast()))),
                8 => Some(Word::Long(AtomicU64::from_ptr(start.cast()))),
                _ => None,
            }
        }
    }

    /// Reads all of it in one load, if it is a word; false if not.
    fn read_word(&self, out: &mut [u8]) -> bool {
        let order = Ordering::Acquire;
        match self.word() {
            Some(Word::Byte(word)) => out.copy_from_slice(&[word.load(order)]),
            Some(Word::Short(word)) => out.copy_from_slice(&word.load(order).to_ne_bytes()),
            Some(Word::Int(word)) => out.copy_from_slice(&word.load(order).to_ne_bytes()),
            Some(Word::Long(word)) => out.copy_from_slice(&word.load(order).to_ne_bytes()),
            None => return false,
        }
        true
    }

    /// Writes all of it in one store, if it is a word; false if not.
    fn write_word(&self, data: &[u8]) -> bool {
        let order = Ordering::Release;
        // `data` is as long as the word, so nothing is defaulted.
        match self.word() {
            Some(Word::Byte(word)) => word.store(data[0], order),
            Some(Word::Short(word)) => {
                word.store(u16::from_ne_bytes(data.try_into().unwrap_or_default()), order);
            }
            Some(Word::Int(word)) => {
                word.store(u32::from_ne_bytes(data.try_into().unwrap_or_default()), order);
            }
            Some(Word::Long(word)) => {
                word.store(u64::from_ne_bytes(data.try_into().unwrap_or_default()), order);
            }
            None => return false,
        }
        true
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

/// An aligned word.
enum Word<'a> {
    Byte(&'a AtomicU8),
    Short(&'a AtomicU16),
    Int(&'a AtomicU32),
    Long(&'a AtomicU64),
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
