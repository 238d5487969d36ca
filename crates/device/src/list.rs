//! Doubly linked lists threaded through pooled records, and a fixed ring of indices.

use crate::pool::{NONE, Pool};
use alloc::vec::Vec;

/// The two links of a record; both [`NONE`] while it is in no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    next: u32,
    previous: u32,
}

impl Links {
    /// Those of a record in no list.
    pub const UNLINKED: Links = Links { next: NONE, previous: NONE };

    /// The record behind this one, or [`NONE`].
    pub const fn next(&self) -> u32 {
        self.next
    }

    /// The record before this one, or [`NONE`].
    pub const fn previous(&self) -> u32 {
        self.previous
    }
}

/// Records that a list goes through.
pub trait Linked {
    /// The links of record `index`.
    fn links(&mut self, index: u32) -> &mut Links;
}

/// A record that is in one list at most. Where records are in several, each list has a type of its
/// own that implements [`Linked`].
pub trait ListRecord {
    /// Its links.
    fn links(&mut self) -> &mut Links;
}

impl<T: ListRecord> Linked for Pool<T> {
    fn links(&mut self, index: u32) -> &mut Links {
        self[index].links()
    }
}

/// A first-in first-out list of records that live elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        List::EMPTY
    }
}

impl List {
    /// A list of no records.
    pub const EMPTY: List = List { head: NONE, tail: NONE };

    /// The first record, or [`NONE`].
    pub const fn head(&self) -> u32 {
        self.head
    }

    /// The last record, or [`NONE`].
    pub const fn tail(&self) -> u32 {
        self.tail
    }

    /// True if it holds no record.
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Puts a record at the end, which is in no list.
    pub fn push_back(&mut self, records: &mut impl Linked, index: u32) {
        *records.links(index) = Links { next: NONE, previous: self.tail };
        match self.tail {
            NONE => self.head = index,
            tail => records.links(tail).next = index,
        }
        self.tail = index;
    }

    /// Puts a record at the front, which is in no list.
    pub fn push_front(&mut self, records: &mut impl Linked, index: u32) {
        *records.links(index) = Links { next: self.head, previous: NONE };
        match self.head {
            NONE => self.tail = index,
            head => records.links(head).previous = index,
        }
        self.head = index;
    }

    /// Takes a record out, wherever it is in this list.
    pub fn unlink(&mut self, records: &mut impl Linked, index: u32) {
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

    /// Takes the first record out.
    pub fn pop_front(&mut self, records: &mut impl Linked) -> Option<u32> {
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
pub struct Ring {
    slots: Vec<u32>,
    start: usize,
    length: usize,
}

impl Ring {
    /// An empty queue.
    pub fn new(capacity: u32) -> Self {
        Ring { slots: alloc::vec![NONE; capacity as usize], start: 0, length: 0 }
    }

    /// Callers keep every index in the queue at most once, so it cannot overflow.
    pub fn push(&mut self, index: u32) {
        assert!(self.length < self.slots.len(), "index queue overflow");
        let at = (self.start + self.length) % self.slots.len();
        self.slots[at] = index;
        self.length += 1;
    }

    /// Takes every mention of `index` out.
    pub fn purge(&mut self, index: u32) {
        for _ in 0..self.length {
            if let Some(other) = self.pop().filter(|&other| other != index) {
                self.push(other);
            }
        }
    }

    /// True if it holds no index.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Takes the first index out.
    pub fn pop(&mut self) -> Option<u32> {
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
