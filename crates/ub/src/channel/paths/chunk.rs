//! The burst of packets that leaves on one path before another path is chosen.

use super::Paths;
use crate::message::Message;
use crate::pool::Index;

/// The burst that is leaving on one path.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::channel) struct Chunk {
    path: u8,
    /// Bytes that may still leave in the chunk.
    left: u32,
    /// Set if the chunk consists of small messages, which have a path of their own.
    is_small: bool,
    /// The message whose packets the chunk carries, and whether they leave the address out: a run
    /// of equal packets leaves as one, so this is decided once for each message in a chunk.
    owner: Option<Index<Message>>,
    leaves_address_out: bool,
}

impl Paths {
    /// The path of the chunk that is leaving.
    #[inline]
    pub(in crate::channel) fn chunk_path(&self) -> u8 {
        self.chunk.path
    }

    /// True if all of the chunk has left.
    #[inline]
    pub(in crate::channel) fn is_chunk_over(&self) -> bool {
        self.chunk.left == 0
    }

    /// True if the next packet, of a small message or of another one, begins a chunk.
    #[inline]
    pub(in crate::channel) fn needs_chunk(&self, is_small: bool) -> bool {
        let Chunk { path, left, is_small: carries_small, .. } = self.chunk;
        left == 0 || carries_small != is_small || !self.is_usable(path)
    }

    /// Begins a new chunk, of `bytes`, with a packet that leaves for the first time.
    #[inline]
    pub(in crate::channel) fn begin_chunk(&mut self, path: u8, bytes: u32, is_small: bool) {
        (self.chunk.path, self.chunk.left, self.chunk.is_small, self.chunk.owner) =
            (path, bytes, is_small, None);
    }

    /// Takes a packet that leaves for the first time from the chunk. A chunk of large messages ends
    /// if another packet of the same length would not fit.
    #[inline]
    pub(in crate::channel) fn take_of_chunk(&mut self, bytes: u32) {
        self.chunk.left -= bytes.min(self.chunk.left);
        if self.chunk.left < bytes && !self.chunk.is_small {
            self.chunk.left = 0;
        }
    }

    /// True if the chunk has no room for a packet that is resent.
    pub(in crate::channel) fn is_chunk_too_short(&self, bytes: u32) -> bool {
        self.chunk.left < bytes
    }

    /// Begins a new chunk, of `bytes`, with a packet that is resent.
    pub(in crate::channel) fn begin_chunk_again(&mut self, path: u8, bytes: u32) {
        (self.chunk.path, self.chunk.left, self.chunk.is_small) = (path, bytes, false);
    }

    /// Takes a packet that is resent from the chunk.
    pub(in crate::channel) fn take_of_chunk_again(&mut self, bytes: u32) {
        self.chunk.left = self.chunk.left.saturating_sub(bytes);
    }

    /// Ends the chunk: the next packet begins another one.
    pub(in crate::channel) fn end_chunk(&mut self) {
        self.chunk.left = 0;
    }

    /// Whether a packet of a message leaves the address out. `is_start_known`, which permits it, is
    /// evaluated for the first packet of a message in a chunk. A reused record belongs to another
    /// message, so it is also evaluated for the first packet of a message (`is_first`).
    #[inline]
    pub(in crate::channel) fn leaves_address_out(
        &mut self,
        message: Index<Message>,
        is_first: bool,
        is_start_known: bool,
    ) -> bool {
        if self.chunk.owner != Some(message) || is_first {
            self.chunk.owner = Some(message);
            self.chunk.leaves_address_out = is_start_known;
        }
        self.chunk.leaves_address_out
    }
}
