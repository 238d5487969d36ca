//! REPS: paths that delivered are used again.
//!
//! **Rule:** when a packet of a chunk is acknowledged without a mark, the chunk's path goes to the
//! end of a list, once for each chunk. A new chunk takes the path at the head of that list, so a
//! path is used as fast as it delivers. If the list is empty, as at the start and after marks, the
//! chunk explores: it takes the next path that was not marked lately ([`Bitmap`]), or
//! (`explore=random`) a random one. A path that lost packets leaves the list.
//!
//! **Source:** Bonato et al., *REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing
//! and Failure Mitigation*, 2024, which explores at random. Exploring by marks makes it the scheme
//! `mixed` of the Ultra Ethernet consortium's public simulator.
//!
//! **Where this differs:** REPS stops to explore ("freezes") for a time after a time-out. Here the
//! protocol takes paths that time out out of use.

use alloc::boxed::Box;
use alloc::vec;

use crate::{Bitmap, ChunkRequest, LossSample, MemoryVisitor, PathAck, PathChoice, PathView};

/// Most paths of a channel.
const PATHS: usize = fairway_wire::PATHS_MAX as usize;
/// Entries of the list. It has one for each chunk in flight; more than these are not needed.
const LIST: usize = 1024;

/// Which path a chunk takes if none is to be used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Explore {
    /// The next one that was not marked lately.
    #[default]
    Bitmap,
    /// A random one.
    Random,
}

/// Parameters of [`Reps`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepsParameters {
    /// Which path a chunk takes if none is to be used again.
    pub explore: Explore,
}

/// The path choice that recycles paths.
#[derive(Clone, Debug)]
pub struct Reps {
    explore: Explore,
    bitmap: Bitmap,
    /// Chunks sent on each path that have not put it into the list. Empty until the first choice,
    /// as the list is.
    chunks: Box<[u16]>,
    /// A ring of paths to be used again.
    list: Box<[u8]>,
    head: usize,
    length: usize,
}

impl Reps {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "reps";

    /// Creates the path choice with `parameters`.
    pub fn new(parameters: RepsParameters) -> Reps {
        Reps {
            explore: parameters.explore,
            bitmap: Bitmap::new(),
            chunks: Box::default(),
            list: Box::default(),
            head: 0,
            length: 0,
        }
    }

    fn push(&mut self, path: usize) {
        if let Ok(path) = u8::try_from(path)
            && self.length < LIST
        {
            self.list[(self.head + self.length) % LIST] = path;
            self.length += 1;
        }
    }

    fn pop(&mut self) -> Option<usize> {
        self.length = self.length.checked_sub(1)?;
        let path = self.list[self.head];
        self.head = (self.head + 1) % LIST;
        Some(usize::from(path))
    }

    /// A path to be used again, or one to explore.
    fn next(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        while let Some(path) = self.pop() {
            if paths.get(path).is_some_and(|view| view.usable) {
                return path;
            }
        }
        match self.explore {
            Explore::Random => request.random as usize % paths.len().max(1),
            Explore::Bitmap => self.bitmap.choose(paths, request),
        }
    }
}

impl PathChoice for Reps {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn prepare(&mut self) {
        if self.list.is_empty() {
            self.chunks = vec![0; PATHS].into_boxed_slice();
            self.list = vec![0; LIST].into_boxed_slice();
            self.bitmap.prepare();
        }
    }

    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        self.prepare();
        let path = self.next(paths, request);
        if let Some(chunks) = self.chunks.get_mut(path) {
            *chunks = chunks.saturating_add(1);
        }
        path
    }

    fn on_ack(&mut self, path: usize, ack: &PathAck) {
        if ack.acked_packets > ack.marked_packets
            && let Some(chunks) = self.chunks.get_mut(path)
            && *chunks > 0
        {
            *chunks -= 1;
            self.push(path);
        }
        self.bitmap.on_ack(path, ack);
    }

    fn visit_memory(&self, visitor: &mut MemoryVisitor<'_>) {
        visitor.value(&*self.chunks);
        visitor.element(&self.list, self.head);
        visitor.element(&self.list, (self.head + self.length) % LIST);
        self.bitmap.visit_memory(visitor);
    }

    fn foresee(&self, count: usize, others: usize) -> Option<usize> {
        match others.checked_sub(self.length) {
            None => Some(usize::from(self.list[(self.head + others) % LIST])),
            Some(others) => self.bitmap.foresee(count, others),
        }
    }

    fn on_loss(&mut self, path: usize, sample: &LossSample) {
        if let Some(chunks) = self.chunks.get_mut(path) {
            *chunks = 0;
        }
        let waiting = self.length;
        for _ in 0..waiting {
            if let Some(other) = self.pop().filter(|other| *other != path) {
                self.push(other);
            }
        }
        self.bitmap.on_loss(path, sample);
    }
}

#[cfg(test)]
mod tests;
