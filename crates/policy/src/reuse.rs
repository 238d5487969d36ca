//! A list of paths that delivered and are to be used again, in the order in which they did.
//!
//! Shared by the path choices that recycle paths. Each chunk puts its path into the list at most
//! once, so a path is used as fast as it delivers.

use alloc::boxed::Box;
use alloc::vec;

use fairway_wire::Duration;

use crate::{MemoryVisitor, PathView};

/// Most paths of a channel.
const PATHS: usize = fairway_wire::PATHS_MAX as usize;
/// Entries of the list. It has one for each chunk in flight; more than these are not needed.
pub(crate) const LIST: usize = 1024;

/// The list, and for each path the chunks that may still put it there.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReuseList {
    /// Chunks sent on each path that have not put it into the list. Empty until the first choice,
    /// as the list is.
    chunks: Box<[u16]>,
    /// A ring of paths to be used again.
    list: Box<[u8]>,
    head: usize,
    length: usize,
}

impl ReuseList {
    /// Allocates the memory, if that has not been done.
    pub(crate) fn prepare(&mut self) {
        if self.list.is_empty() {
            self.chunks = vec![0; PATHS].into_boxed_slice();
            self.list = vec![0; LIST].into_boxed_slice();
        }
    }

    /// Number of paths in the list.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.length
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

    /// Removes the path at the head; those before it that are out of use are dropped.
    pub(crate) fn take(&mut self, paths: &[PathView]) -> Option<usize> {
        while let Some(path) = self.pop() {
            if paths.get(path).is_some_and(|view| view.usable) {
                return Some(path);
            }
        }
        None
    }

    /// A chunk leaves on a path.
    pub(crate) fn note_chunk(&mut self, path: usize) {
        if let Some(chunks) = self.chunks.get_mut(path) {
            *chunks = chunks.saturating_add(1);
        }
    }

    /// A packet of a chunk was acknowledged. With `again` its path goes to the end of the list.
    /// Whether or not it does, no other packet of the chunk puts it there.
    pub(crate) fn note_delivery(&mut self, path: usize, again: bool) {
        if let Some(chunks) = self.chunks.get_mut(path)
            && *chunks > 0
        {
            *chunks -= 1;
            if again {
                self.push(path);
            }
        }
    }

    /// Names the memory that the next choice and acknowledgement read.
    pub(crate) fn visit_memory(&self, visitor: &mut MemoryVisitor<'_>) {
        visitor.value(&*self.chunks);
        visitor.element(&self.list, self.head);
        visitor.element(&self.list, (self.head + self.length) % LIST);
    }

    /// The path that is taken after so many others; or, if the list is shorter, how many are taken
    /// after its end.
    pub(crate) fn foresee(&self, others: usize) -> Result<usize, usize> {
        match others.checked_sub(self.length) {
            None => Ok(usize::from(self.list[(self.head + others) % LIST])),
            Some(others) => Err(others),
        }
    }

    /// Removes a path that lost packets.
    pub(crate) fn forget(&mut self, path: usize) {
        if let Some(chunks) = self.chunks.get_mut(path) {
            *chunks = 0;
        }
        let waiting = self.length;
        for _ in 0..waiting {
            if let Some(other) = self.pop().filter(|other| *other != path) {
                self.push(other);
            }
        }
    }
}

/// Packets after which the mean of the elapsed times has mostly been replaced.
const MEAN_PACKETS: u64 = 64;

/// The times after which packets of a channel were acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ElapsedTimes {
    /// The shortest; zero before the first.
    pub(crate) least: Duration,
    /// A moving mean.
    pub(crate) mean: Duration,
}

impl ElapsedTimes {
    /// Adds the time of one packet.
    pub(crate) fn add(&mut self, elapsed: Duration) {
        if self.least == Duration::ZERO {
            (self.least, self.mean) = (elapsed, elapsed);
        }
        self.least = self.least.min(elapsed);
        let kept = self.mean.as_ps() - self.mean.as_ps() / MEAN_PACKETS;
        self.mean = Duration::from_ps(kept.saturating_add(elapsed.as_ps() / MEAN_PACKETS));
    }
}
