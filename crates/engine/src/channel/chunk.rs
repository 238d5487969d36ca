//! The burst of packets that leaves on one path before another path is chosen.

use crate::pool::NONE;

/// The burst that is leaving on one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunk {
    path: u8,
    /// Bytes that may still leave in it.
    left: u32,
    /// It consists of small messages, which keep to a path of their own.
    is_small: bool,
    /// Whose packets it carries, and whether they leave the address out: a run of equal packets
    /// leaves as one, so that is settled once for each message in a chunk.
    owner: u32,
    leaves_address_out: bool,
}

impl Chunk {
    #[inline]
    pub(super) fn path(&self) -> u8 {
        self.path
    }

    /// Has all of it left?
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// May a packet of a small message, or of another one, not leave in it?
    #[inline]
    pub(super) fn excludes(&self, is_small: bool) -> bool {
        self.left == 0 || self.is_small != is_small
    }

    /// A new chunk, of `bytes`, begins with a packet that leaves for the first time.
    #[inline]
    pub(super) fn begin(&mut self, path: u8, bytes: u32, is_small: bool) {
        (self.path, self.left, self.is_small, self.owner) = (path, bytes, is_small, NONE);
    }

    /// A packet leaves for the first time. A chunk of large messages is over if another packet of
    /// its length would not fit.
    #[inline]
    pub(super) fn take(&mut self, bytes: u32) {
        self.left -= bytes.min(self.left);
        if self.left < bytes && !self.is_small {
            self.left = 0;
        }
    }

    /// May a packet that leaves again not leave in it, because it has no room for it?
    pub(super) fn is_too_short_for(&self, bytes: u32) -> bool {
        self.left < bytes
    }

    /// A new chunk, of `bytes`, begins with a packet that leaves again.
    pub(super) fn begin_again(&mut self, path: u8, bytes: u32) {
        (self.path, self.left, self.is_small) = (path, bytes, false);
    }

    /// A packet leaves again.
    pub(super) fn take_again(&mut self, bytes: u32) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// The next packet begins another chunk.
    pub(super) fn end(&mut self) {
        self.left = 0;
    }

    /// Does a packet of a message leave the address out? `is_learned` says whether it may, and is
    /// looked at for the first packet of a message in a chunk. A record that is used again is
    /// another message's, so it is looked at for the first packet of a message, too (`is_first`).
    #[inline]
    pub(super) fn leaves_address_out(
        &mut self,
        message: u32,
        is_first: bool,
        is_learned: bool,
    ) -> bool {
        if self.owner != message || is_first {
            self.owner = message;
            self.leaves_address_out = is_learned;
        }
        self.leaves_address_out
    }
}
