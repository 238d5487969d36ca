//! The burst of packets that leaves on one path before another path is chosen.

use super::Paths;
use crate::message::Message;
use crate::pool::Index;

/// The burst that is leaving on one path.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::channel) struct Chunk {
    path: u8,
    /// Bytes that may still leave in it.
    left: u32,
    /// It consists of small messages, which keep to a path of their own.
    is_small: bool,
    /// The message whose packets it carries, and whether they leave the address out: a run of equal
    /// packets leaves as one, so that is settled once for each message in a chunk.
    owner: Option<Index<Message>>,
    leaves_address_out: bool,
}

impl Paths {
    /// The path of the chunk that is leaving.
    #[inline]
    pub(in crate::channel) fn chunk_path(&self) -> u8 {
        self.chunk.path
    }

    /// Has all of the chunk left?
    #[inline]
    pub(in crate::channel) fn is_chunk_over(&self) -> bool {
        self.chunk.left == 0
    }

    /// Does the next packet of a small message, or of another one, begin a chunk?
    #[inline]
    pub(in crate::channel) fn needs_chunk(&self, is_small: bool) -> bool {
        let Chunk { path, left, is_small: carries_small, .. } = self.chunk;
        left == 0 || carries_small != is_small || !self.is_usable(path)
    }

    /// A new chunk, of `bytes`, begins with a packet that leaves for the first time.
    #[inline]
    pub(in crate::channel) fn begin_chunk(&mut self, path: u8, bytes: u32, is_small: bool) {
        (self.chunk.path, self.chunk.left, self.chunk.is_small, self.chunk.owner) =
            (path, bytes, is_small, None);
    }

    /// A packet leaves for the first time. A chunk of large messages is over if another packet of
    /// its length would not fit.
    #[inline]
    pub(in crate::channel) fn take_of_chunk(&mut self, bytes: u32) {
        self.chunk.left -= bytes.min(self.chunk.left);
        if self.chunk.left < bytes && !self.chunk.is_small {
            self.chunk.left = 0;
        }
    }

    /// May a packet that leaves again not leave in it, because it has no room for it?
    pub(in crate::channel) fn is_chunk_too_short(&self, bytes: u32) -> bool {
        self.chunk.left < bytes
    }

    /// A new chunk, of `bytes`, begins with a packet that leaves again.
    pub(in crate::channel) fn begin_chunk_again(&mut self, path: u8, bytes: u32) {
        (self.chunk.path, self.chunk.left, self.chunk.is_small) = (path, bytes, false);
    }

    /// A packet leaves again.
    pub(in crate::channel) fn take_of_chunk_again(&mut self, bytes: u32) {
        self.chunk.left = self.chunk.left.saturating_sub(bytes);
    }

    /// The next packet begins another chunk.
    pub(in crate::channel) fn end_chunk(&mut self) {
        self.chunk.left = 0;
    }

    /// Does a packet of a message leave the address out? `is_start_known` says whether it may, and
    /// is looked at for the first packet of a message in a chunk. A record that is used again is
    /// another message's, so it is looked at for the first packet of a message, too (`is_first`).
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
