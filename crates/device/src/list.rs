//! Doubly linked lists threaded through records that are stored elsewhere, and a fixed ring of
//! names.

use crate::pool::{Index, Pool};
use alloc::vec::Vec;

/// The two links of a record, to records named by `I`; both `None` while it is in no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links<I> {
    next: Option<I>,
    previous: Option<I>,
}

impl<I: Copy> Links<I> {
    /// The links of a record that is in no list.
    pub const UNLINKED: Links<I> = Links { next: None, previous: None };

    /// The record behind this one, if any.
    #[inline]
    pub const fn next(&self) -> Option<I> {
        self.next
    }

    /// The record before this one, if any.
    #[inline]
    pub const fn previous(&self) -> Option<I> {
        self.previous
    }
}

/// Records that a list links, named by `I`.
pub trait Linked<I> {
    /// The links of a record.
    fn links(&mut self, index: I) -> &mut Links<I>;
}

/// A record that is in at most one list. If records are in several lists, each list has a separate
/// type that implements [`Linked`].
pub trait ListRecord: Sized {
    /// The record's links.
    fn links(&mut self) -> &mut Links<Index<Self>>;
}

impl<T: ListRecord> Linked<Index<T>> for Pool<T> {
    #[inline]
    fn links(&mut self, index: Index<T>) -> &mut Links<Index<T>> {
        self[index].links()
    }
}

/// A first-in first-out list of records that are stored elsewhere, named by `I`.
#[derive(Clone, Copy, Debug)]
pub struct List<I> {
    head: Option<I>,
    tail: Option<I>,
}

impl<I> Default for List<I> {
    fn default() -> Self {
        List { head: None, tail: None }
    }
}

impl<I: Copy + PartialEq> List<I> {
    /// The empty list.
    pub const EMPTY: List<I> = List { head: None, tail: None };

    /// The first record, if any.
    #[inline]
    pub const fn head(&self) -> Option<I> {
        self.head
    }

    /// The last record, if any.
    #[inline]
    pub const fn tail(&self) -> Option<I> {
        self.tail
    }

    /// True if the list has no record.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// Adds a record that is in no list at the end.
    #[inline]
    pub fn push_back(&mut self, records: &mut impl Linked<I>, index: I) {
        *records.links(index) = Links { next: None, previous: self.tail };
        match self.tail {
            None => self.head = Some(index),
            Some(tail) => records.links(tail).next = Some(index),
        }
        self.tail = Some(index);
    }

    /// Adds a record that is in no list at the front.
    pub fn push_front(&mut self, records: &mut impl Linked<I>, index: I) {
        *records.links(index) = Links { next: self.head, previous: None };
        match self.head {
            None => self.tail = Some(index),
            Some(head) => records.links(head).previous = Some(index),
        }
        self.head = Some(index);
    }

    /// Removes a record from any position in this list.
    #[inline]
    pub fn unlink(&mut self, records: &mut impl Linked<I>, index: I) {
        let links = core::mem::replace(records.links(index), Links::UNLINKED);
        // Unlinking a record of no list, or of another one, would empty this list.
        debug_assert!(links.previous.is_some() || self.head == Some(index), "not in the list");
        debug_assert!(links.next.is_some() || self.tail == Some(index), "not in the list");
        match links.previous {
            None => self.head = links.next,
            Some(previous) => records.links(previous).next = links.next,
        }
        match links.next {
            None => self.tail = links.previous,
            Some(next) => records.links(next).previous = links.previous,
        }
    }

    /// Removes the first record.
    #[inline]
    pub fn pop_front(&mut self, records: &mut impl Linked<I>) -> Option<I> {
        let head = self.head?;
        self.unlink(records, head);
        Some(head)
    }
}

/// A queue of at most `capacity` names; its memory is allocated once.
#[derive(Debug)]
pub struct Ring<I> {
    slots: Vec<Option<I>>,
    start: usize,
    length: usize,
}

impl<I: Copy + PartialEq> Ring<I> {
    /// Creates an empty queue.
    pub fn new(capacity: u32) -> Self {
        Ring { slots: alloc::vec![None; capacity as usize], start: 0, length: 0 }
    }

    /// Adds a name. The queue cannot overflow, because callers keep every name in it at most once.
    #[inline]
    pub fn push(&mut self, index: I) {
        assert!(self.length < self.slots.len(), "index queue overflow");
        let at = self.wrapped(self.start + self.length);
        self.slots[at] = Some(index);
        self.length += 1;
    }

    /// Removes every occurrence of `index`.
    pub fn purge(&mut self, index: I) {
        for _ in 0..self.length {
            if let Some(other) = self.pop().filter(|&other| other != index) {
                self.push(other);
            }
        }
    }

    /// True if the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Removes and returns the first name.
    #[inline]
    pub fn pop(&mut self) -> Option<I> {
        if self.length == 0 {
            return None;
        }
        let index = self.slots[self.start];
        self.start = self.wrapped(self.start + 1);
        self.length -= 1;
        index
    }

    /// A position below twice the capacity, wrapped: without a division.
    #[inline]
    fn wrapped(&self, at: usize) -> usize {
        if at < self.slots.len() { at } else { at - self.slots.len() }
    }
}

#[cfg(test)]
mod tests;
