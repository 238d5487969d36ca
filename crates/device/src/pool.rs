//! A pool of equal records, taken once and named by dense index.

use alloc::vec::Vec;

/// The index that names nothing.
pub const NONE: u32 = u32::MAX;

/// `capacity` records of one kind. Memory is taken in [`Pool::new`]; nothing is allocated later.
#[derive(Debug)]
pub struct Pool<T> {
    items: Vec<T>,
    free: Vec<u32>,
    capacity: u32,
}

impl<T> Pool<T> {
    /// An empty pool, whose memory is reserved now.
    pub fn new(capacity: u32) -> Self {
        Pool {
            items: Vec::with_capacity(capacity as usize),
            free: Vec::with_capacity(capacity as usize),
            capacity,
        }
    }

    /// Takes a record, or gives `None` if all are in use.
    pub fn take(&mut self, value: T) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            self.items[index as usize] = value;
            return Some(index);
        }
        if self.items.len() as u32 == self.capacity {
            return None;
        }
        self.items.push(value);
        Some(self.items.len() as u32 - 1)
    }

    /// Gives a record back. Its content stays until it is taken again.
    pub fn give_back(&mut self, index: u32) {
        debug_assert!(!self.free.contains(&index), "record {index} given back twice");
        assert!((index as usize) < self.items.len(), "record {index} was never taken");
        self.free.push(index);
    }

    /// Number of records in use.
    pub fn in_use(&self) -> u32 {
        (self.items.len() - self.free.len()) as u32
    }

    /// True if every record is in use.
    pub fn is_exhausted(&self) -> bool {
        self.in_use() == self.capacity
    }

    /// Number of records in use at most.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Number of records that were ever taken: all indices in use lie below.
    pub fn high_water(&self) -> u32 {
        self.items.len() as u32
    }
}

impl<T> core::ops::Index<u32> for Pool<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.items[index as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.items[index as usize]
    }
}

#[cfg(test)]
mod tests;
