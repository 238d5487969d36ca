//! Paths in turn, without those that were marked lately.
//!
//! **Rule:** the paths take turns, in an order that is drawn anew after every round. A path that
//! marked a packet is passed over once, one that lost packets four times, one that timed out
//! fifteen times; at most fifteen times in all. If every path is to be passed over, the next one is
//! taken all the same.
//!
//! **Source:** the path choice `bitmap` of the Ultra Ethernet consortium's public simulator, after
//! the Ultra Ethernet specification (2025), §3.6.16.
//!
//! **Where this differs:** each path that is passed over has one pass less to wait for, not only
//! the first of them; so no choice looks at a path twice.

use alloc::boxed::Box;
use alloc::vec;

use crate::{ChunkRequest, LossSample, MemoryVisitor, PathAck, PathChoice, PathView};

/// Most paths of a channel.
const PATHS: usize = fairway_wire::PATHS_MAX as usize;
/// Turns that a path misses for a mark, for losses, and for a time-out, which is also the most.
const MARK: u8 = 1;
const LOSS: u8 = 4;
const TIMEOUT: u8 = 15;

/// The path choice that passes over marked paths.
#[derive(Clone, Debug)]
pub struct Bitmap {
    /// Turns that each path has to miss; empty until it is needed.
    penalties: Box<[u8]>,
    next: usize,
    /// Differs from round to round, so that channels do not walk in step.
    order: usize,
}

impl Bitmap {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "bitmap";

    /// Creates the path choice.
    pub fn new() -> Bitmap {
        Bitmap { penalties: Box::default(), next: 0, order: 0 }
    }

    fn punish(&mut self, path: usize, turns: u8) {
        self.prepare();
        if let Some(penalty) = self.penalties.get_mut(path) {
            *penalty = penalty.saturating_add(turns).min(TIMEOUT);
        }
    }

    /// The path whose turn it is among `count`.
    fn take_turn(&mut self, count: usize, random: u32) -> usize {
        if self.next >= count {
            self.next = 0;
            self.order = random as usize;
        }
        self.next += 1;
        self.at_turn(self.next - 1, count)
    }

    /// The path at a turn of this round among `count`.
    fn at_turn(&self, turn: usize, count: usize) -> usize {
        // The exclusive or is a permutation only of a power of two.
        if count.is_power_of_two() {
            turn ^ (self.order & (count - 1))
        } else {
            (turn + self.order % count) % count
        }
    }
}

impl Default for Bitmap {
    fn default() -> Self {
        Bitmap::new()
    }
}

impl PathChoice for Bitmap {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn prepare(&mut self) {
        if self.penalties.is_empty() {
            self.penalties = vec![0; PATHS].into_boxed_slice();
        }
    }

    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        self.prepare();
        let count = paths.len().min(PATHS);
        for _ in 0..count {
            let path = self.take_turn(count, request.random);
            if !paths[path].usable {
                continue;
            }
            match self.penalties[path] {
                0 => return path,
                _ => self.penalties[path] -= 1,
            }
        }
        self.take_turn(count, request.random)
    }

    fn on_ack(&mut self, path: usize, ack: &PathAck) {
        if ack.marked_packets > 0 {
            self.punish(path, MARK);
        }
    }

    fn visit_memory(&self, visitor: &mut MemoryVisitor<'_>) {
        visitor.value(&*self.penalties);
    }

    fn foresee(&self, count: usize, others: usize) -> Option<usize> {
        (count > 0).then(|| self.at_turn((self.next + others) % count, count))
    }

    fn on_loss(&mut self, path: usize, sample: &LossSample) {
        self.punish(path, if sample.by_timeout { TIMEOUT } else { LOSS });
    }
}

#[cfg(test)]
mod tests;
