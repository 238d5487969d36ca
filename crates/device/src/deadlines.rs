//! The earliest deadline of each channel or queue pair, in a binary heap, from which the device's
//! next wake-up follows.

use crate::pool::Index;
use alloc::vec::Vec;
use fairway_wire::Instant;

/// At most one entry per channel. An entry may be earlier than the channel's true deadline, never
/// later: postponing a deadline costs nothing until it fires.
#[derive(Debug)]
pub struct Deadlines {
    heap: Vec<(Instant, u32)>,
    /// For each channel: the position of its entry in the heap.
    position: Vec<Option<Index<(Instant, u32)>>>,
}

impl Deadlines {
    /// Creates an empty heap for at most `channels` channels.
    pub fn new(channels: u32) -> Self {
        Deadlines {
            heap: Vec::with_capacity(channels as usize),
            position: alloc::vec![None; channels as usize],
        }
    }

    /// The heap's first entries: a deadline and a channel each.
    #[inline]
    pub fn first(&self) -> &[(Instant, u32)] {
        &self.heap[..self.heap.len().min(4)]
    }

    /// Time at which the next entry is due.
    pub fn earliest(&self) -> Option<Instant> {
        self.heap.first().map(|entry| entry.0)
    }

    /// Ensures that `channel` is woken at `at` or earlier.
    #[inline]
    pub fn wake_by(&mut self, channel: u32, at: Instant) {
        match self.position[channel as usize] {
            None => {
                self.heap.push((at, channel));
                self.put(self.heap.len() - 1);
                self.rise(self.heap.len() - 1);
            }
            Some(position) => {
                let position = position.number() as usize;
                let entry = &mut self.heap[position];
                if at.is_before(entry.0) {
                    entry.0 = at;
                    self.rise(position);
                }
            }
        }
    }

    /// Removes and returns a channel whose entry is due.
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let &(at, channel) = self.heap.first()?;
        if now.is_before(at) {
            return None;
        }
        self.remove(channel);
        Some(channel)
    }

    /// Removes the entry of a channel, if it has one.
    pub fn remove(&mut self, channel: u32) {
        let Some(position) = self.position[channel as usize].take() else { return };
        let position = position.number() as usize;
        let last = self.heap.len() - 1;
        self.heap.swap_remove(position);
        if position != last {
            self.put(position);
            self.rise(position);
            self.sink(position);
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.heap[at].0.is_before(self.heap[parent].0) {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.heap[child].0.is_before(self.heap[least].0) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.put(a);
        self.put(b);
    }

    /// Records the position of an entry.
    fn put(&mut self, at: usize) {
        self.position[self.heap[at].1 as usize] = Some(Index::of(at as u32));
    }
}

#[cfg(test)]
mod tests;
