//! A table of fixed capacity.
//!
//! Open addressing with linear probing, at most three quarters full. An entry that is removed
//! leaves no mark behind: the entries after it that would no longer be found move back (Knuth, *The
//! Art of Computer Programming* 3, §6.4, algorithm R), so that look-ups stay short for ever.

use alloc::boxed::Box;
use alloc::vec;

use super::hash::mix;

/// The table holds as many entries as it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// At most so many values by a key of 64 bits.
#[derive(Clone, Debug)]
pub struct FixedMap<V> {
    slots: Box<[Option<(u64, V)>]>,
    entries: usize,
    capacity: usize,
}

impl<V: Copy> FixedMap<V> {
    /// Room for `capacity` entries.
    pub fn new(capacity: usize) -> FixedMap<V> {
        // One slot is always empty, which ends every search.
        let slots = (capacity + capacity / 3 + 1).next_power_of_two();
        FixedMap { slots: vec![None; slots].into_boxed_slice(), entries: 0, capacity }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How many entries there can be.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of memory that it took.
    pub fn state_bytes(&self) -> usize {
        core::mem::size_of_val(&*self.slots)
    }

    /// The value of `key`.
    pub fn get(&self, key: u64) -> Option<V> {
        self.slots[self.find(key)].map(|(_, value)| value)
    }

    /// The value of `key`, to be changed.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut V> {
        let at = self.find(key);
        self.slots[at].as_mut().map(|(_, value)| value)
    }

    /// Sets the value of `key` and returns the one before.
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

    /// Takes `key` out and returns its value.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        let mut hole = self.find(key);
        let (_, value) = self.slots[hole].take()?;
        self.entries -= 1;
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some((key, _)) = self.slots[at] else { return Some(value) };
            // Its search begins at or before the hole, seen from where it is: it must move there.
            let distance = at.wrapping_sub(self.home(key)) & mask;
            if distance >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[at].take();
                hole = at;
            }
        }
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.slots.fill(None);
        self.entries = 0;
    }

    /// All entries, in the order of their slots: the same for the same history.
    pub fn iter(&self) -> impl Iterator<Item = (u64, V)> + '_ {
        self.slots.iter().flatten().copied()
    }

    /// Where the search for `key` begins.
    fn home(&self, key: u64) -> usize {
        mix(key) as usize & (self.slots.len() - 1)
    }

    /// The slot of `key`, or the empty one where it would go.
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
