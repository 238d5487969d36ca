//! A hash table of fixed capacity.
//!
//! The table uses open addressing with linear probing, and is at most three quarters full. Removing
//! an entry leaves no tombstone: the entries behind it that could no longer be found move back
//! (Knuth, *The Art of Computer Programming* 3, §6.4, algorithm R), so that look-ups stay short.

use alloc::boxed::Box;
use alloc::vec;

use super::hash::mix;

/// The table already holds `capacity` entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A table of values by keys of 64 bits, with a fixed capacity.
#[derive(Clone, Debug)]
pub struct FixedMap<V> {
    slots: Box<[Option<(u64, V)>]>,
    entries: usize,
    capacity: usize,
}

impl<V: Copy> FixedMap<V> {
    /// Creates a table for `capacity` entries.
    pub fn new(capacity: usize) -> FixedMap<V> {
        // One slot is always empty, which ends every search.
        let slots = (capacity + capacity / 3 + 1).next_power_of_two();
        FixedMap { slots: vec![None; slots].into_boxed_slice(), entries: 0, capacity }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// True if the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Largest number of entries.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Allocated memory in bytes.
    pub fn state_bytes(&self) -> usize {
        core::mem::size_of_val(&*self.slots)
    }

    /// The value of `key`, if it is in the table.
    pub fn get(&self, key: u64) -> Option<V> {
        self.slots[self.find(key)].map(|(_, value)| value)
    }

    /// The value of `key`, for modification.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut V> {
        let at = self.find(key);
        self.slots[at].as_mut().map(|(_, value)| value)
    }

    /// Sets the value of `key` and returns the previous one.
    ///
    /// # Errors
    ///
    /// [`Full`], if the key is new and there is no room for it.
    pub fn insert(&mut self, key: u64, value: V) -> Result<Option<V>, Full> {
        let at = self.find(key);
        match self.slots[at].replace((key, value)) {
            Some((_, before)) => Ok(Some(before)),
            None if self.entries == self.capacity => {
                self.slots[at] = None;
                Err(Full)
            }
            None => {
                self.entries += 1;
                Ok(None)
            }
        }
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        let mut hole = self.find(key);
        let (_, value) = self.slots[hole].take()?;
        self.entries -= 1;
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some((key, _)) = self.slots[at] else { return Some(value) };
            // The entry's search begins at or before the hole, so it must move into the hole.
            let distance = at.wrapping_sub(self.home(key)) & mask;
            if distance >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[at].take();
                hole = at;
            }
        }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.slots.fill(None);
        self.entries = 0;
    }

    /// All entries in the order of their slots, which depends only on the calls so far.
    pub fn iter(&self) -> impl Iterator<Item = (u64, V)> + '_ {
        self.slots.iter().flatten().copied()
    }

    /// The slot at which the search for `key` begins.
    fn home(&self, key: u64) -> usize {
        mix(key) as usize & (self.slots.len() - 1)
    }

    /// The slot of `key`, or the empty slot where it would be inserted.
    fn find(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        while self.slots[at].is_some_and(|(other, _)| other != key) {
            at = (at + 1) & mask;
        }
        at
    }
}

#[cfg(test)]
mod tests;
