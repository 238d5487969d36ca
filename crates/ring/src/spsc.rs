//! A bounded ring from one producer to one consumer.
//!
//! The area is an array of 64-bit words: an identifier (word 0), the producer's index (word 8), the
//! consumer's (word 16), and from word 24 on the slots, each `WORDS` words. Indices run freely and
//! wrap at 2^64; their difference is the number of records in the ring. The two indices are on
//! separate cache lines.
//!
//! Slots are atomics too (relaxed), so a faulty counterpart in another process can spoil records,
//! but not the memory safety of this process.

use std::fmt;
use std::ptr::NonNull;

use crate::sync::{Arc, AtomicU64, Ordering};

/// A bounded single-producer single-consumer ring of records of `WORDS` 64-bit words.
///
/// This type creates rings; [`Producer`] and [`Consumer`] use them.
#[derive(Debug)]
pub struct Spsc<const WORDS: usize>;

/// The writing end of a ring.
#[derive(Debug)]
pub struct Producer<const WORDS: usize> {
    area: Area,
    /// The producer's index: only this end writes it.
    tail: u64,
    /// The consumer's index as last seen.
    head_seen: u64,
}

/// The reading end of a ring.
#[derive(Debug)]
pub struct Consumer<const WORDS: usize> {
    area: Area,
    /// The consumer's index: only this end writes it.
    head: u64,
    /// The producer's index as last seen.
    tail_seen: u64,
}

/// The reason why an area cannot be used as a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaError {
    /// The capacity is zero or not a power of two.
    Capacity(usize),
    /// The area is too short for the capacity.
    TooShort {
        /// Number of words needed.
        needed: usize,
        /// Number of words available.
        available: usize,
    },
    /// The area contains no ring, or one with other records.
    NotThisRing(u64),
}

const WORD_WHAT: usize = 0;
const WORD_TAIL: usize = 8;
const WORD_HEAD: usize = 16;
const WORD_SLOTS: usize = 24;

/// Identifies an area as a ring: "fwrng" above the record size and the capacity's logarithm.
const MAGIC: u64 = 0x66_77_72_6e_67 << 24;

impl<const WORDS: usize> Spsc<WORDS> {
    /// Length in 64-bit words of the area of a ring of `capacity` records.
    pub const fn area_words(capacity: usize) -> usize {
        WORD_SLOTS + capacity * WORDS
    }

    /// Creates a ring in newly allocated memory. `capacity`, in records, must be a power of two.
    pub fn owned(capacity: usize) -> Result<(Producer<WORDS>, Consumer<WORDS>), AreaError> {
        check_capacity(capacity)?;
        let words: Vec<AtomicU64> =
            (0..Self::area_words(capacity)).map(|_| AtomicU64::new(0)).collect();
        let words = Arc::new(words);
        let area = Area {
            words: NonNull::from(words.as_slice()),
            capacity_log2: capacity.trailing_zeros(),
            _owner: Some(words),
        };
        area.word(WORD_WHAT).store(Self::what(area.capacity_log2), Ordering::Release);
        let consumer = Consumer { area: area.clone(), head: 0, tail_seen: 0 };
        Ok((Producer { area, tail: 0, head_seen: 0 }, consumer))
    }

    /// Creates a ring in shared memory, before the other side attaches to it.
    ///
    /// # Safety
    /// `area` must point at `area_words(capacity)` or more words (`length` of them) that stay
    /// mapped and are accessed in no other way while an end of the ring exists.
    #[cfg(not(all(loom, test)))]
    pub unsafe fn create(
        area: NonNull<u64>,
        length: usize,
        capacity: usize,
    ) -> Result<(), AreaError> {
        check_capacity(capacity)?;
        let needed = Self::area_words(capacity);
        if length < needed {
            return Err(AreaError::TooShort { needed, available: length });
        }
        let words = NonNull::slice_from_raw_parts(area.cast::<AtomicU64>(), length);
        let area = Area { words, capacity_log2: capacity.trailing_zeros(), _owner: None };
        area.word(WORD_TAIL).store(0, Ordering::Relaxed);
        area.word(WORD_HEAD).store(0, Ordering::Relaxed);
        area.word(WORD_WHAT).store(Self::what(area.capacity_log2), Ordering::Release);
        Ok(())
    }

    /// Returns the writing end of a ring in shared memory.
    ///
    /// # Safety
    /// As [`Spsc::create`]; and there must be no other producer, in any process.
    #[cfg(not(all(loom, test)))]
    pub unsafe fn producer(
        area: NonNull<u64>,
        length: usize,
    ) -> Result<Producer<WORDS>, AreaError> {
        // SAFETY: what the caller promised.
        let area = unsafe { Self::attach(area, length) }?;
        let tail = area.word(WORD_TAIL).load(Ordering::Relaxed);
        let head_seen = area.word(WORD_HEAD).load(Ordering::Acquire);
        Ok(Producer { area, tail, head_seen })
    }

    /// Returns the reading end of a ring in shared memory.
    ///
    /// # Safety
    /// As [`Spsc::create`]; and there must be no other consumer, in any process.
    #[cfg(not(all(loom, test)))]
    pub unsafe fn consumer(
        area: NonNull<u64>,
        length: usize,
    ) -> Result<Consumer<WORDS>, AreaError> {
        // SAFETY: what the caller promised.
        let area = unsafe { Self::attach(area, length) }?;
        let head = area.word(WORD_HEAD).load(Ordering::Relaxed);
        let tail_seen = area.word(WORD_TAIL).load(Ordering::Acquire);
        Ok(Consumer { area, head, tail_seen })
    }

    /// # Safety
    /// As [`Spsc::create`], but for the length, which is checked against what the area says.
    #[cfg(not(all(loom, test)))]
    unsafe fn attach(area: NonNull<u64>, length: usize) -> Result<Area, AreaError> {
        if length < WORD_SLOTS {
            return Err(AreaError::TooShort { needed: WORD_SLOTS, available: length });
        }
        let words = NonNull::slice_from_raw_parts(area.cast::<AtomicU64>(), length);
        let mut area = Area { words, capacity_log2: 0, _owner: None };
        // The capacity is read once, so that the counterpart cannot change it later.
        let what = area.word(WORD_WHAT).load(Ordering::Acquire);
        area.capacity_log2 = (what & 0xff) as u32;
        if what != Self::what(area.capacity_log2) || area.capacity_log2 >= 48 {
            return Err(AreaError::NotThisRing(what));
        }
        let needed = WORD_SLOTS.saturating_add((WORDS).saturating_mul(1 << area.capacity_log2));
        if length < needed {
            return Err(AreaError::TooShort { needed, available: length });
        }
        Ok(area)
    }

    fn what(capacity_log2: u32) -> u64 {
        assert!(WORDS > 0 && WORDS < 1 << 16, "records of {WORDS} words");
        MAGIC | (WORDS as u64) << 8 | u64::from(capacity_log2)
    }
}

impl<const WORDS: usize> Producer<WORDS> {
    /// Appends a record, or returns it as the error if the ring is full.
    pub fn push(&mut self, record: [u64; WORDS]) -> Result<(), [u64; WORDS]> {
        let capacity = self.area.capacity();
        if self.tail.wrapping_sub(self.head_seen) >= capacity {
            self.head_seen = self.area.word(WORD_HEAD).load(Ordering::Acquire);
            // A consumer ahead of the producer is faulty: the ring counts as full.
            if self.tail.wrapping_sub(self.head_seen) >= capacity {
                return Err(record);
            }
        }
        for (word, value) in self.area.slot::<WORDS>(self.tail).iter().zip(record) {
            word.store(value, Ordering::Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
        self.area.word(WORD_TAIL).store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Returns the number of records that certainly fit now.
    pub fn room(&mut self) -> usize {
        self.head_seen = self.area.word(WORD_HEAD).load(Ordering::Acquire);
        let used = self.tail.wrapping_sub(self.head_seen);
        self.area.capacity().saturating_sub(used) as usize
    }
}

impl<const WORDS: usize> Consumer<WORDS> {
    /// Takes the oldest record, if there is one.
    pub fn pop(&mut self) -> Option<[u64; WORDS]> {
        if self.tail_seen == self.head {
            self.tail_seen = self.area.word(WORD_TAIL).load(Ordering::Acquire);
            let waiting = self.tail_seen.wrapping_sub(self.head);
            // A producer more than a ring ahead is faulty: the ring counts as empty.
            if waiting == 0 || waiting > self.area.capacity() {
                self.tail_seen = self.head;
                return None;
            }
        }
        let mut record = [0; WORDS];
        for (value, word) in record.iter_mut().zip(self.area.slot::<WORDS>(self.head)) {
            *value = word.load(Ordering::Relaxed);
        }
        self.head = self.head.wrapping_add(1);
        self.area.word(WORD_HEAD).store(self.head, Ordering::Release);
        Some(record)
    }

    /// True if there is no record to take.
    pub fn is_empty(&self) -> bool {
        self.tail_seen == self.head
            && self.area.word(WORD_TAIL).load(Ordering::Acquire) == self.head
    }
}

fn check_capacity(capacity: usize) -> Result<(), AreaError> {
    if capacity.is_power_of_two() { Ok(()) } else { Err(AreaError::Capacity(capacity)) }
}

/// The words of a ring.
#[derive(Clone, Debug)]
struct Area {
    words: NonNull<[AtomicU64]>,
    capacity_log2: u32,
    /// Keeps an owned area alive; empty for shared memory.
    _owner: Option<Arc<Vec<AtomicU64>>>,
}

// SAFETY: the words are atomics, and the maker of the area promised that they stay mapped.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    fn capacity(&self) -> u64 {
        1 << self.capacity_log2
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `words` points into `_owner`'s vector, which lives as long as `self`, or into
        // memory whose lifetime the maker of the area promised. Any bytes are valid atomics.
        unsafe { self.words.as_ref() }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.words()[index]
    }

    fn slot<const WORDS: usize>(&self, index: u64) -> &[AtomicU64] {
        let slot = (index & (self.capacity() - 1)) as usize;
        let start = WORD_SLOTS + slot * WORDS;
        &self.words()[start..start + WORDS]
    }
}

impl fmt::Display for AreaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AreaError::Capacity(capacity) => {
                write!(f, "a ring of {capacity} records: choose a power of two")
            }
            AreaError::TooShort { needed, available } => {
                write!(f, "an area of {available} words where the ring needs {needed}")
            }
            AreaError::NotThisRing(what) => {
                write!(f, "the area starts with {what:#x}, which is no ring of these records")
            }
        }
    }
}

impl std::error::Error for AreaError {}
