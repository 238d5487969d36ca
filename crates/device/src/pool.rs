//! A pool of equal records, allocated once and named by dense index.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroU32;

/// Names a record of a [`Pool`] of `T`. An `Option` of it has four bytes, too.
pub struct Index<T> {
    /// The record's number, inverted, so that the largest number is the one that cannot be named.
    inverted: NonZeroU32,
    of: PhantomData<fn() -> T>,
}

const _: () = assert!(size_of::<Option<Index<u64>>>() == 4);

impl<T> Index<T> {
    /// Names record `number`. Pools name their records themselves ([`Pool::add`]); this is for
    /// records that are stored elsewhere, for example in an array.
    ///
    /// # Panics
    /// If the number is `u32::MAX`.
    #[inline]
    pub const fn of(number: u32) -> Index<T> {
        match NonZeroU32::new(!number) {
            Some(inverted) => Index { inverted, of: PhantomData },
            None => panic!("no record has the number 2^32 - 1"),
        }
    }

    /// The record's index in its pool, from 0.
    #[inline]
    pub const fn number(self) -> u32 {
        !self.inverted.get()
    }
}

// Derived implementations would require the same of `T`.
impl<T> Clone for Index<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Index<T> {}

impl<T> PartialEq for Index<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.inverted == other.inverted
    }
}

impl<T> Eq for Index<T> {}

impl<T> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.number())
    }
}

/// A pool of `capacity` records of one kind. [`Pool::new`] allocates the memory; nothing is
/// allocated later.
#[derive(Debug)]
pub struct Pool<T> {
    items: Vec<T>,
    free: Vec<Index<T>>,
    /// Most records in use: fewer than there is memory for while some are reserved.
    capacity: u32,
}

impl<T> Pool<T> {
    /// Creates an empty pool, and allocates its memory.
    pub fn new(capacity: u32) -> Self {
        Pool {
            items: Vec::with_capacity(capacity as usize),
            free: Vec::with_capacity(capacity as usize),
            capacity,
        }
    }

    /// Returns the record with this name, or `None` if the name belongs to a larger pool.
    #[inline]
    pub fn get(&self, index: Index<T>) -> Option<&T> {
        self.items.get(index.number() as usize)
    }

    /// The first records, up to `count`, of those that were ever allocated.
    #[inline]
    pub fn first(&self, count: usize) -> &[T] {
        &self.items[..self.items.len().min(count)]
    }

    /// Allocates a record. Returns its name, or `None` if all are in use.
    #[inline]
    pub fn add(&mut self, value: T) -> Option<Index<T>> {
        if self.is_exhausted() {
            return None;
        }
        if let Some(index) = self.free.pop() {
            self[index] = value;
            return Some(index);
        }
        self.items.push(value);
        Some(Index::of(self.items.len() as u32 - 1))
    }

    /// Frees a record. Its content stays until the record is allocated again.
    #[inline]
    pub fn remove(&mut self, index: Index<T>) {
        debug_assert!(!self.free.contains(&index), "record {index:?} given back twice");
        assert!(self.get(index).is_some(), "record {index:?} was never taken");
        self.free.push(index);
    }

    /// Reserves a record, which must be free: it is not allocated until [`Self::unreserve`].
    ///
    /// # Panics
    /// If all records are in use.
    pub fn reserve(&mut self) {
        assert!(!self.is_exhausted(), "no record is free");
        self.capacity -= 1;
    }

    /// Ends the reservation of one record.
    pub fn unreserve(&mut self) {
        self.capacity += 1;
    }

    /// Returns every record that was ever allocated, in use or not.
    pub fn ever_taken(&self) -> impl Iterator<Item = Index<T>> + use<T> {
        (0..self.high_water()).map(Index::of)
    }

    /// Number of records in use.
    #[inline]
    pub fn in_use(&self) -> u32 {
        (self.items.len() - self.free.len()) as u32
    }

    /// True if every record is in use.
    #[inline]
    pub fn is_exhausted(&self) -> bool {
        self.in_use() == self.capacity
    }

    /// Maximum number of records in use.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Number of records that were ever allocated: all indices in use are below it.
    fn high_water(&self) -> u32 {
        self.items.len() as u32
    }
}

impl<T> core::ops::Index<Index<T>> for Pool<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: Index<T>) -> &T {
        &self.items[index.number() as usize]
    }
}

impl<T> core::ops::IndexMut<Index<T>> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, index: Index<T>) -> &mut T {
        &mut self.items[index.number() as usize]
    }
}

#[cfg(test)]
mod tests;
