//! WRITEs whose first packet was early. Their addresses are kept so that their other packets can be
//! placed, and so that earlier operations do not overwrite them.

use crate::shared::Granted;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use fairway_wire::Psn;

/// Most entries of one queue pair. The caller keeps the packets of any other WRITE.
const MESSAGES: usize = 64;

/// A WRITE whose first packet was early.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) first: Psn,
    pub(super) packets: u32,
    /// The granted range, from the first byte on.
    pub(super) granted: Granted,
    pub(super) length: u32,
}

/// How bytes that are to be placed overlap with those of later WRITEs that were early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// No overlap: the bytes may be placed.
    None,
    /// The later WRITE has already overwritten all of the bytes.
    Covered,
    /// The caller is still placing the later bytes.
    Unfinished,
}

impl Message {
    fn includes(&self, psn: Psn) -> bool {
        let index = psn.distance_from(self.first);
        index >= 0 && (index as u32) < self.packets
    }

    /// Indexes of its packets that overlap `length` bytes from `granted` on, if the message comes
    /// after the packet `psn`.
    pub(super) fn touched(
        &self,
        psn: Psn,
        granted: &Granted,
        length: u32,
        mtu: u32,
    ) -> Option<RangeInclusive<u32>> {
        let (from, to) = (granted.offset, granted.offset + u64::from(length));
        let (start, end) = (self.granted.offset, self.granted.offset + u64::from(self.length));
        let other = self.granted.segment != granted.segment || !psn.is_before(self.first);
        if other || to <= start || end <= from {
            return None;
        }
        let place = |at: u64| ((at - start) / u64::from(mtu)) as u32;
        Some(place(from.max(start))..=place(to.min(end) - 1))
    }

    /// True if its packet `place` covers all of those bytes.
    pub(super) fn covers(&self, place: u32, granted: &Granted, length: u32, mtu: u32) -> bool {
        let start = self.granted.offset + u64::from(place) * u64::from(mtu);
        let end = (start + u64::from(mtu)).min(self.granted.offset + u64::from(self.length));
        start <= granted.offset && granted.offset + u64::from(length) <= end
    }
}

/// The table of such messages.
#[derive(Debug, Default)]
pub(super) struct Messages {
    table: Vec<Message>,
}

impl Messages {
    /// A table with room for [`MESSAGES`] entries, or for none.
    pub(super) fn new(has_room: bool) -> Messages {
        Messages { table: Vec::with_capacity(if has_room { MESSAGES } else { 0 }) }
    }

    /// True if there is room for one more message.
    pub(super) fn has_room(&self) -> bool {
        self.table.len() < self.table.capacity()
    }

    /// Adds a message if there is room.
    pub(super) fn insert(&mut self, message: Message) {
        if self.has_room() {
            self.table.push(message);
        }
    }

    /// Removes messages that have arrived completely, now that `expected` is next in sequence.
    pub(super) fn forget_before(&mut self, expected: Psn) {
        let is_over = |message: &Message| !expected.is_before(message.first.plus(message.packets));
        if self.table.first().is_some_and(is_over) {
            self.table.retain(|message| !is_over(message));
        }
    }

    /// The message to which this packet belongs.
    pub(super) fn with(&self, psn: Psn) -> Option<Message> {
        self.table.iter().rev().find(|message| message.includes(psn)).copied()
    }

    pub(super) fn count(&self) -> usize {
        self.table.len()
    }

    pub(super) fn at(&self, index: usize) -> Message {
        self.table[index]
    }

    pub(super) fn clear(&mut self) {
        self.table.clear();
    }
}
