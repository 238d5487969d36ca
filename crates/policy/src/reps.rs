//! REPS: paths that delivered are used again.
//!
//! **Rule:** when a packet of a chunk is acknowledged without a mark, the chunk's path goes to the
//! end of a list, once for each chunk. A new chunk takes the path at the head of that list, so a
//! path is used as fast as it delivers. If the list is empty, as at the start and after marks, the
//! chunk explores: it takes the next path that was not marked lately ([`Bitmap`]), or
//! (`explore=random`) a random one. A path that lost packets leaves the list.
//!
//! With `late=avoid` a path whose packet was *late* does not go to the list either:
//!
//! ```text
//! delay = time until the acknowledgement − the shortest such time of the channel
//! late:   delay > 5/2 · mean delay + 1/8 · the shortest time
//! ```
//!
//! **Source:** Bonato et al., *REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing
//! and Failure Mitigation*, 2024, which explores at random. Exploring by marks makes it the scheme
//! `mixed` of the Ultra Ethernet consortium's public simulator.
//!
//! **Where this differs:**
//! * REPS stops to explore ("freezes") for a time after a time-out. Here the protocol takes paths
//!   that time out out of use.
//! * REPS has no rule about time (`late=avoid`). A link at a quarter of its rate delays packets
//!   four times as much by a queue of the same length, so they are late although the queue is too
//!   short for marks, and the last packets of a message wait for those that took this link.

use fairway_wire::Duration;

use crate::reuse::{ElapsedTimes, ReuseList};
use crate::{Bitmap, ChunkRequest, LossSample, MemoryVisitor, PathAck, PathChoice, PathView};

/// Which path a chunk takes if none is to be used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Explore {
    /// The next one that was not marked lately.
    #[default]
    Bitmap,
    /// A random one.
    Random,
}

/// Whether a path is used again after a packet that was late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// It is not.
    Avoid,
    /// It is, unless the packet was marked: where hosts are processes, their delays say little
    /// about paths.
    #[default]
    Ignore,
}

/// Parameters of [`Reps`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepsParameters {
    /// Which path a chunk takes if none is to be used again.
    pub explore: Explore,
    /// Whether a path is used again after a packet that was late.
    pub late: Late,
}

/// The path choice that recycles paths.
#[derive(Clone, Debug)]
pub struct Reps {
    parameters: RepsParameters,
    bitmap: Bitmap,
    reuse: ReuseList,
    times: ElapsedTimes,
}

impl Reps {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "reps";

    /// Creates the path choice with `parameters`.
    pub fn new(parameters: RepsParameters) -> Reps {
        Reps {
            parameters,
            bitmap: Bitmap::new(),
            reuse: ReuseList::default(),
            times: ElapsedTimes::default(),
        }
    }

    fn explore(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        match self.parameters.explore {
            Explore::Random => request.random as usize % paths.len().max(1),
            Explore::Bitmap => self.bitmap.choose(paths, request),
        }
    }

    /// True if a packet that was acknowledged after this time was late.
    fn is_late(&self, elapsed: Duration) -> bool {
        let ElapsedTimes { least, mean } = self.times;
        let usual = mean.saturating_sub(least).times(5).divided_by(2);
        let most = least.saturating_add(usual).saturating_add(least.divided_by(8));
        least > Duration::ZERO && elapsed > most
    }
}

impl PathChoice for Reps {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn prepare(&mut self) {
        self.reuse.prepare();
        self.bitmap.prepare();
    }

    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        self.prepare();
        let again = self.reuse.take(paths);
        let path = again.unwrap_or_else(|| self.explore(paths, request));
        self.reuse.note_chunk(path);
        path
    }

    fn on_ack(&mut self, path: usize, ack: &PathAck) {
        let mut late = false;
        if self.parameters.late == Late::Avoid
            && let Some(elapsed) = ack.elapsed
        {
            late = self.is_late(elapsed);
            self.times.add(elapsed);
        }
        if ack.acked_packets > ack.marked_packets {
            self.reuse.note_delivery(path, !late);
        }
        self.bitmap.on_ack(path, ack);
    }

    fn visit_memory(&self, visitor: &mut MemoryVisitor<'_>) {
        self.reuse.visit_memory(visitor);
        self.bitmap.visit_memory(visitor);
    }

    fn foresee(&self, count: usize, others: usize) -> Option<usize> {
        match self.reuse.foresee(others) {
            Ok(path) => Some(path),
            Err(others) => self.bitmap.foresee(count, others),
        }
    }

    fn on_loss(&mut self, path: usize, sample: &LossSample) {
        self.reuse.forget(path);
        self.bitmap.on_loss(path, sample);
    }
}

#[cfg(test)]
mod tests;
