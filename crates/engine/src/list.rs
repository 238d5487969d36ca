//! Doubly linked lists threaded through pooled records, and a fixed ring of indices.

use crate::pool::NONE;
use alloc::vec::Vec;

/// The two links of a record; both [`NONE`] while it is in no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    pub(crate) next: u32,
    pub(crate) previous: u32,
}

impl Links {
    pub(crate) const UNLINKED: Links = Links { next: NONE, previous: NONE };
}

/// Where the links of record `index` are.
pub(crate) trait Linked {
    fn links(&mut self, index: u32) -> &mut Links;
}

/// A first-in first-out list of records that live elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

impl Default for List {
    fn default() -> Self {
        List { head: NONE, tail: NONE }
    }
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(crate) fn push_back(&mut self, records: &mut impl Linked, index: u32) {
        *records.links(index) = Links { next: NONE, previous: self.tail };
        match self.tail {
            NONE => self.head = index,
            tail => records.links(tail).next = index,
        }
        self.tail = index;
    }

    pub(crate) fn unlink(&mut self, records: &mut impl Linked, index: u32) {
        let links = core::mem::replace(records.links(index), Links::UNLINKED);
        // Records that are in no list, or in another one, would empty this one.
        debug_assert!(links.previous != NONE || self.head == index, "{index} is not in the list");
        debug_assert!(links.next != NONE || self.tail == index, "{index} is not in the list");
        match links.previous {
            NONE => self.head = links.next,
            previous => records.links(previous).next = links.next,
        }
        match links.next {
            NONE => self.tail = links.previous,
            next => records.links(next).previous = links.previous,
        }
    }

    pub(crate) fn pop_front(&mut self, records: &mut impl Linked) -> Option<u32> {
        match self.head {
            NONE => None,
            head => {
                self.unlink(records, head);
                Some(head)
            }
        }
    }
}

/// A queue of at most `capacity` indices; the memory is taken once.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Vec<u32>,
    start: usize,
    length: usize,
}

impl Ring {
    pub(crate) fn new(capacity: u32) -> Self {
        Ring { slots: alloc::vec![NONE; capacity as usize], start: 0, length: 0 }
    }

    /// Callers keep every index in the queue at most once, so it cannot overflow.
    pub(crate) fn push(&mut self, index: u32) {
        assert!(self.length < self.slots.len(), "index queue overflow");
        let at = (self.start + self.length) % self.slots.len();
        self.slots[at] = index;
        self.length += 1;
    }

    /// Takes every mention of `index` out.
    pub(crate) fn purge(&mut self, index: u32) {
        for _ in 0..self.length {
            if let Some(other) = self.pop().filter(|&other| other != index) {
                self.push(other);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        if self.length == 0 {
            return None;
        }
        let index = self.slots[self.start];
        self.start = (self.start + 1) % self.slots.len();
        self.length -= 1;
        Some(index)
    }
}

#[cfg(test)]
mod tests;
