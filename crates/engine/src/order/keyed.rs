//! Records found by channel and Jetty (and mailbox): made on demand, from a fixed number.

use crate::pool::{NONE, Pool};
use alloc::vec::Vec;
use fairway_wire::JettyId;

/// What a record is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The index of the leader of the channel's group.
    pub(crate) channel: u32,
    pub(crate) jetty: JettyId,
    /// An address at the target, or 0.
    pub(crate) address: u64,
}

impl Key {
    pub(crate) fn of(channel: u32, jetty: JettyId) -> Key {
        Key { channel, jetty, address: 0 }
    }
}

/// One record and its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<T> {
    key: Key,
    value: T,
}

/// At most `capacity` records. They live until their channel ends.
#[derive(Debug)]
pub(crate) struct Keyed<T> {
    records: Pool<Entry<T>>,
    /// Open addressing with linear probing: indices of records, or `NONE`. Twice as many as
    /// records.
    table: Vec<u32>,
}

impl<T: Copy> Keyed<T> {
    pub(crate) fn new(capacity: u32) -> Self {
        let slots = (capacity.max(1) as usize * 2).next_power_of_two();
        Keyed { records: Pool::new(capacity), table: alloc::vec![NONE; slots] }
    }

    fn start(&self, key: &Key) -> usize {
        let name = u64::from(key.channel) << 32 | u64::from(key.jetty.value());
        let mixed = mix(mix(name) ^ key.address);
        (mixed ^ mixed >> 32) as usize & (self.table.len() - 1)
    }

    /// Where the record is in the table, or the free place where it would go.
    fn place(&self, key: &Key) -> usize {
        let mut at = self.start(key);
        while self.table[at] != NONE && self.records[self.table[at]].key != *key {
            at = (at + 1) & (self.table.len() - 1);
        }
        at
    }

    /// The index of the record, if there is one.
    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        let index = self.table[self.place(key)];
        (index != NONE).then_some(index)
    }

    /// The index of the record, which is made if there is none; `None` if no record is free.
    pub(crate) fn find_or_make(&mut self, key: &Key, new: T) -> Option<u32> {
        let at = self.place(key);
        if self.table[at] == NONE {
            self.table[at] = self.records.take(Entry { key: *key, value: new })?;
        }
        Some(self.table[at])
    }

    /// Is there a record of which this is true? Looks at all there are.
    pub(crate) fn any(&self, is_it: impl Fn(&T) -> bool) -> bool {
        self.records.in_use() > 0
            && self.table.iter().any(|&at| at != NONE && is_it(&self.records[at].value))
    }

    /// All records, by index.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> + use<T> {
        let found: Vec<u32> = match self.records.in_use() {
            0 => Vec::new(),
            _ => self.table.iter().copied().filter(|&index| index != NONE).collect(),
        };
        found.into_iter()
    }

    /// The records of a channel, by index. Looks at all there are.
    pub(crate) fn of_channel(&self, channel: u32) -> impl Iterator<Item = u32> + use<T> {
        let found: Vec<u32> = if self.records.in_use() == 0 {
            Vec::new()
        } else {
            let of_channel =
                |&index: &u32| index != NONE && self.records[index].key.channel == channel;
            self.table.iter().copied().filter(of_channel).collect()
        };
        found.into_iter()
    }

    /// Forgets one record, if there is one.
    pub(crate) fn forget(&mut self, key: &Key) {
        let at = self.place(key);
        if self.table[at] != NONE {
            self.records.give_back(self.table[at]);
            self.close_gap(at);
        }
    }

    /// Forgets every record of a channel.
    pub(crate) fn forget_channel(&mut self, channel: u32) {
        if self.records.in_use() == 0 {
            return;
        }
        for at in 0..self.table.len() {
            // Removal moves a later entry here: look again until this one stays.
            while self.table[at] != NONE && self.records[self.table[at]].key.channel == channel {
                self.records.give_back(self.table[at]);
                self.close_gap(at);
            }
        }
    }

    /// Takes an entry out of the table and moves those behind it up.
    fn close_gap(&mut self, removed: usize) {
        let mask = self.table.len() - 1;
        let (mut gap, mut at) = (removed, removed);
        self.table[gap] = NONE;
        loop {
            at = (at + 1) & mask;
            if self.table[at] == NONE {
                return;
            }
            let home = self.start(&self.records[self.table[at]].key);
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

fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB)
}

impl<T> core::ops::Index<u32> for Keyed<T> {
    type Output = T;
    fn index(&self, index: u32) -> &T {
        &self.records[index].value
    }
}

impl<T> core::ops::IndexMut<u32> for Keyed<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.records[index].value
    }
}
