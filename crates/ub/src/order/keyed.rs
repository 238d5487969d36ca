//! Records found by channel and Jetty (and mailbox), created on demand from a fixed number.

use crate::names::ChannelIndex;
use crate::pool::{Index, Pool};
use alloc::vec::Vec;
use fairway_wire::JettyId;

/// The key of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The index of the leader of the channel's group.
    pub(crate) channel: ChannelIndex,
    pub(crate) jetty: JettyId,
    /// An address at the target, or 0.
    pub(crate) address: u64,
}

impl Key {
    pub(crate) fn of(channel: ChannelIndex, jetty: JettyId) -> Key {
        Key { channel, jetty, address: 0 }
    }
}

/// One record and its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<T> {
    key: Key,
    value: T,
}

/// Identifies a record of a [`Keyed`] of `T`.
pub(crate) type KeyedIndex<T> = Index<Entry<T>>;

/// At most `capacity` records. They live until they are removed, or their channel ends. `N` is the
/// type of their indices.
#[derive(Debug)]
pub(crate) struct Keyed<T, N = Entry<T>> {
    records: Pool<Entry<T>>,
    /// Hash table with open addressing and linear probing; twice as many places as records.
    table: Vec<Option<Index<N>>>,
}

impl<T: Copy, N> Keyed<T, N> {
    pub(crate) fn new(capacity: u32) -> Self {
        let slots = (capacity.max(1) as usize * 2).next_power_of_two();
        Keyed { records: Pool::new(capacity), table: alloc::vec![None; slots] }
    }

    /// The first records, up to `count`, of those that were ever made.
    pub(crate) fn first(&self, count: usize) -> &[Entry<T>] {
        self.records.first(count)
    }

    /// The record with this index, which may have been removed since; `None` if there was none.
    pub(crate) fn get(&self, index: Index<N>) -> Option<&T> {
        self.records.get(record(index)).map(|entry| &entry.value)
    }

    fn entry(&self, index: Index<N>) -> &Entry<T> {
        &self.records[record(index)]
    }

    fn start(&self, key: &Key) -> usize {
        let name = u64::from(key.channel.number()) << 32 | u64::from(key.jetty.value());
        let mixed = mix(mix(name) ^ key.address);
        (mixed ^ mixed >> 32) as usize & (self.table.len() - 1)
    }

    /// Position of the record in the table, or the free place where it would be inserted.
    fn place(&self, key: &Key) -> usize {
        let mut at = self.start(key);
        while let Some(index) = self.table[at]
            && self.entry(index).key != *key
        {
            at = (at + 1) & (self.table.len() - 1);
        }
        at
    }

    /// The index of the record, if there is one.
    pub(crate) fn find(&self, key: &Key) -> Option<Index<N>> {
        self.table[self.place(key)]
    }

    /// The index of the record, created if there is none; `None` if no record is free.
    pub(crate) fn find_or_make(&mut self, key: &Key, new: T) -> Option<Index<N>> {
        let at = self.place(key);
        if self.table[at].is_none() {
            let added = self.records.add(Entry { key: *key, value: new });
            self.table[at] = added.map(|index| Index::of(index.number()));
        }
        self.table[at]
    }

    /// True if any record satisfies the predicate. Examines all records.
    pub(crate) fn any(&self, is_it: impl Fn(&T) -> bool) -> bool {
        self.records.in_use() > 0
            && self.table.iter().flatten().any(|&at| is_it(&self.entry(at).value))
    }

    /// All records, by index.
    pub(crate) fn all(&self) -> impl Iterator<Item = Index<N>> + use<T, N> {
        let found: Vec<Index<N>> = match self.records.in_use() {
            0 => Vec::new(),
            _ => self.table.iter().copied().flatten().collect(),
        };
        found.into_iter()
    }

    /// The records of a channel, by index. Examines all records.
    pub(crate) fn of_channel(
        &self,
        channel: ChannelIndex,
    ) -> impl Iterator<Item = Index<N>> + use<T, N> {
        let found: Vec<Index<N>> = if self.records.in_use() == 0 {
            Vec::new()
        } else {
            let of_channel = |&index: &Index<N>| self.entry(index).key.channel == channel;
            self.table.iter().copied().flatten().filter(of_channel).collect()
        };
        found.into_iter()
    }

    /// Removes one record, if it exists.
    pub(crate) fn forget(&mut self, key: &Key) {
        let at = self.place(key);
        if let Some(index) = self.table[at] {
            self.records.remove(record(index));
            self.close_gap(at);
        }
    }

    /// Removes the record with this index.
    pub(crate) fn remove(&mut self, index: Index<N>) {
        let key = self.entry(index).key;
        self.forget(&key);
    }

    /// The key of a record.
    pub(crate) fn key(&self, index: Index<N>) -> &Key {
        &self.entry(index).key
    }

    /// True if no further record can be made.
    pub(crate) fn is_full(&self) -> bool {
        self.records.is_exhausted()
    }

    /// Removes every record of a channel.
    pub(crate) fn forget_channel(&mut self, channel: ChannelIndex) {
        if self.records.in_use() == 0 {
            return;
        }
        for at in 0..self.table.len() {
            // Removal moves a later entry here: check again until this one stays.
            while let Some(index) = self.table[at]
                && self.entry(index).key.channel == channel
            {
                self.records.remove(record(index));
                self.close_gap(at);
            }
        }
    }

    /// Removes an entry from the table and moves those behind it up.
    fn close_gap(&mut self, removed: usize) {
        let mask = self.table.len() - 1;
        let (mut gap, mut at) = (removed, removed);
        self.table[gap] = None;
        loop {
            at = (at + 1) & mask;
            let Some(index) = self.table[at] else { return };
            let home = self.start(&self.entry(index).key);
            let reachable = (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask);
            if reachable {
                self.table.swap(gap, at);
                gap = at;
            }
        }
    }

    pub(crate) fn in_use(&self) -> u32 {
        self.records.in_use()
    }

    /// Size of one record with its share of the table, in bytes.
    pub(crate) const RECORD_BYTES: usize = size_of::<Entry<T>>() + 2 * size_of::<u32>();
}

/// The record that an index refers to.
fn record<T, N>(index: Index<N>) -> Index<Entry<T>> {
    Index::of(index.number())
}

fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB)
}

impl<T, N> core::ops::Index<Index<N>> for Keyed<T, N> {
    type Output = T;
    fn index(&self, index: Index<N>) -> &T {
        &self.records[record(index)].value
    }
}

impl<T, N> core::ops::IndexMut<Index<N>> for Keyed<T, N> {
    fn index_mut(&mut self, index: Index<N>) -> &mut T {
        &mut self.records[record(index)].value
    }
}
