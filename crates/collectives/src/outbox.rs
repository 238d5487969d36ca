//! The messages of a rank as operations of its NIC, in order, and what their completions end.
//!
//! Every driver of a [`Rank`](crate::Rank) posts the same operations: a message with bytes is a
//! WRITE with immediate data, one without is a SEND with immediate data, and the immediate data is
//! the header. No order among them is needed. Short messages are copied before they are posted, so
//! their steps end at once and their completions are not needed; the completion of a long one ends
//! its step. Operations are collected, and posted by [`BATCH`] or when the rank has nothing else
//! to do.

use crate::header::Header;
use crate::means::Means;
use crate::rank::{Memory, Token, Work, Write};
use std::collections::VecDeque;

/// Length up to which a message is copied before it is sent, in bytes, so that its bytes belong to
/// the call again at once.
pub const EAGER: u32 = 16 << 10;

/// Length of the key of an output buffer, and of where in its segment the output begins, in bytes.
pub const KEY_BYTES: u32 = 32;

/// Number of operations that are posted together at most.
pub const BATCH: usize = 32;

/// The number of operations whose completion ends nothing.
const PLAIN: u64 = u64::MAX;

/// The local bytes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Bytes at this offset of the copies of short messages.
    Copied {
        /// Offset of the first byte.
        at: u64,
        /// Length in bytes.
        bytes: u32,
    },
    /// Bytes of a call.
    Own(Work, Memory),
    /// No bytes.
    Nothing,
}

/// An operation to be posted. `G` is the driver's name of memory of another rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posting<G> {
    /// The other rank.
    pub to: u32,
    /// The local bytes.
    pub source: Source,
    /// Where they go, by a WRITE with immediate data; `None`: a SEND with immediate data.
    pub target: Option<G>,
    /// The immediate data.
    pub header: Header,
    /// The number of the operation, to be passed to [`Outbox::end`] when it has completed.
    pub id: u64,
}

impl<G> Posting<G> {
    /// True if the driver needs the completion.
    pub fn is_signaled(&self) -> bool {
        self.id != PLAIN
    }
}

/// The operations of one rank.
#[derive(Debug)]
pub struct Outbox<G> {
    rank: u32,
    means: Means,
    postings: VecDeque<Posting<G>>,
    /// Tokens of operations in flight, by number; the free numbers.
    tokens: Vec<Option<Token>>,
    free: Vec<usize>,
    /// True if a long message was copied to a rank that has not been notified yet.
    has_copied: bool,
}

impl<G> Outbox<G> {
    /// The empty outbox of a rank.
    pub fn new(rank: u32, means: Means) -> Outbox<G> {
        Outbox {
            rank,
            means,
            postings: VecDeque::new(),
            tokens: Vec::new(),
            free: Vec::new(),
            has_copied: false,
        }
    }

    /// Offset of a slot for messages of the rank `from` among the slots of this rank.
    pub fn slot_offset(&self, from: u32, slot: u8) -> u64 {
        let place = u64::from(from) * u64::from(self.means.slots) + u64::from(slot);
        place * u64::from(self.means.slot_bytes)
    }

    /// Offset of a slot for messages of this rank among the slots of any other.
    pub fn remote_slot_offset(&self, slot: u8) -> u64 {
        self.slot_offset(self.rank, slot)
    }

    /// Offset of the copy of a short message to a slot of a rank.
    fn copy_offset(&self, to: u32, slot: u8) -> u64 {
        let place = u64::from(to) * u64::from(self.means.slots) + u64::from(slot);
        place * u64::from(EAGER)
    }

    /// Adds a WRITE of bytes of this rank to `goal`. Returns an offset if the message is short:
    /// then the driver copies the bytes to this offset of the copies, and ends the step
    /// ([`Rank::handle_end`](crate::Rank::handle_end)).
    #[must_use]
    pub fn write(&mut self, write: &Write, goal: G) -> Option<u64> {
        let Write { token, work, to, bytes: memory, header, .. } = *write;
        let (bytes, target) = (memory.bytes(), Some(goal));
        if bytes <= EAGER {
            let at = self.copy_offset(to, header.slot);
            let source = Source::Copied { at, bytes };
            self.postings.push_back(Posting { to, source, target, header, id: PLAIN });
            return Some(at);
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.tokens.push(None);
            self.tokens.len() - 1
        });
        self.tokens[at] = Some(token);
        let source = Source::Own(work, memory);
        self.postings.push_back(Posting { to, source, target, header, id: at as u64 });
        None
    }

    /// Adds a WRITE of the key of an output buffer to the slot `goal` of a rank.
    /// Returns the offset of the copies at which the driver puts the key.
    pub fn write_key(&mut self, to: u32, header: Header, goal: G) -> u64 {
        let at = self.copy_offset(to, header.slot);
        let (source, target) = (Source::Copied { at, bytes: KEY_BYTES }, Some(goal));
        self.postings.push_back(Posting { to, source, target, header, id: PLAIN });
        at
    }

    /// Adds a SEND of the header of a message whose bytes the driver copies into the slot of a rank
    /// of this host itself, after which it ends the step.
    pub fn notify_of_copy(&mut self, write: &Write) {
        self.has_copied |= write.bytes.bytes() > EAGER;
        self.notify(write.to, write.header);
    }

    /// Adds a SEND of a header without bytes.
    pub fn notify(&mut self, to: u32, header: Header) {
        let (source, target) = (Source::Nothing, None);
        self.postings.push_back(Posting { to, source, target, header, id: PLAIN });
    }

    /// True if the operations are to be posted now: there are many, or a long message has been
    /// copied, whose receiver can go on.
    pub fn take_due(&mut self) -> bool {
        self.postings.len() >= BATCH || std::mem::take(&mut self.has_copied)
    }

    /// True if no operation is prepared.
    pub fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    /// The next operations to be posted, at most [`BATCH`] of them.
    pub fn next(&self) -> impl Iterator<Item = &Posting<G>> {
        self.postings.iter().take(BATCH)
    }

    /// Removes the next operations, which have been posted, and returns them.
    ///
    /// # Panics
    /// There are not so many.
    pub fn take(&mut self, count: usize) -> impl Iterator<Item = Posting<G>> {
        self.postings.drain(..count)
    }

    /// Removes all operations that have not been posted.
    pub fn clear(&mut self) {
        self.postings.clear();
    }

    /// The operation with this number has completed, or will not be posted. Returns what it ends,
    /// if anything.
    pub fn end(&mut self, id: u64) -> Option<Token> {
        let token = self.tokens.get_mut(id as usize)?.take()?;
        self.free.push(id as usize);
        Some(token)
    }
}
