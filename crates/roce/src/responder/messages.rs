//! WRITEs whose first packet came early: where each goes, so that its other packets can be placed,
//! and so that what belongs before them does not overwrite them.

use crate::shared::Granted;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use fairway_wire::Psn;

/// Of one queue pair, at most. The packets of others are kept.
const MESSAGES: usize = 64;

/// A WRITE.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) first: Psn,
    pub(super) packets: u32,
    /// Its first byte.
    pub(super) granted: Granted,
    pub(super) length: u32,
}

/// How bytes that are to be placed lie to those of later WRITEs that came early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// They may be placed.
    None,
    /// All of them were overwritten.
    Covered,
    /// The caller is still placing the others.
    Unfinished,
}

impl Message {
    fn includes(&self, psn: Psn) -> bool {
        let index = psn.distance_from(self.first);
        index >= 0 && (index as u32) < self.packets
    }

    /// Which of its packets go where `length` bytes from `granted` on go, if it comes after the
    /// packet `psn`.
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

    /// True if its packet `place` has all of those bytes.
    pub(super) fn covers(&self, place: u32, granted: &Granted, length: u32, mtu: u32) -> bool {
        let start = self.granted.offset + u64::from(place) * u64::from(mtu);
        let end = (start + u64::from(mtu)).min(self.granted.offset + u64::from(self.length));
        start <= granted.offset && granted.offset + u64::from(length) <= end
    }
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Messages {
    table: Vec<Message>,
}

impl Messages {
    /// With room, or for nothing.
    pub(super) fn new(has_room: bool) -> Messages {
        Messages { table: Vec::with_capacity(if has_room { MESSAGES } else { 0 }) }
    }

    /// Is there room for one more?
    pub(super) fn has_room(&self) -> bool {
        self.table.len() < self.table.capacity()
    }

    /// Adds one where there is room.
    pub(super) fn insert(&mut self, message: Message) {
        if self.has_room() {
            self.table.push(message);
        }
    }

    /// Forgets those that have come whole, now that `expected` is next.
    pub(super) fn forget_before(&mut self, expected: Psn) {
        let is_over = |message: &Message| !expected.is_before(message.first.plus(message.packets));
        if self.table.first().is_some_and(is_over) {
            self.table.retain(|message| !is_over(message));
        }
    }

    /// The one that this packet belongs to.
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
