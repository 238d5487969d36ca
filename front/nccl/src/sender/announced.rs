//! Buffers that the receiver has announced and that no message has taken.

use std::collections::VecDeque;

use fairway::To;

use crate::limits::ANNOUNCEMENTS;
use crate::message::{Announcement, Buffer};
use crate::status::{Failure, Result};

#[cfg(test)]
mod tests;

/// Announcements in the order of their numbers.
#[derive(Default)]
pub(crate) struct Announced {
    /// Those that may be used, and which of their buffers have been taken, one bit each.
    open: VecDeque<(Announcement, u32)>,
    /// Those that arrived before one with a smaller number.
    early: Vec<Announcement>,
    /// The number of the next announcement.
    next: u32,
}

/// A buffer that a message may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The announcement's number.
    pub(crate) number: u32,
    /// The buffer's index in it.
    pub(crate) index: usize,
    pub(crate) buffer: Buffer,
    pub(crate) notify: To,
}

impl Announced {
    /// Adds an announcement, as received.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let unexpected = || Failure::remote("the receiver has sent what no receiver sends");
        let announcement = Announcement::read(bytes).ok_or_else(unexpected)?;
        if self.open.len() + self.early.len() >= ANNOUNCEMENTS {
            return Err(unexpected());
        }
        self.early.push(announcement);
        while let Some(at) = self.early.iter().position(|early| early.number == self.next) {
            self.open.push_back((self.early.swap_remove(at), 0));
            self.next = self.next.wrapping_add(1);
        }
        Ok(())
    }

    /// The oldest buffer with this tag.
    pub(crate) fn find(&self, tag: i32) -> Option<Place> {
        self.open.iter().find_map(|(announcement, taken)| {
            let buffers = announcement.buffers[..announcement.count].iter().enumerate();
            let mut open = buffers.filter(|(index, _)| taken & 1 << index == 0);
            let (index, buffer) = open.find(|(_, buffer)| buffer.tag == tag)?;
            let Announcement { number, notify, .. } = *announcement;
            Some(Place { number, index, buffer: *buffer, notify })
        })
    }

    /// Marks a buffer as taken.
    pub(crate) fn take(&mut self, place: &Place) {
        let found = self.open.iter_mut().find(|(open, _)| open.number == place.number);
        if let Some((_, taken)) = found {
            *taken |= 1 << place.index;
        }
        self.open.retain(|(open, taken)| taken.count_ones() < open.count as u32);
    }
}
