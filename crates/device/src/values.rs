//! The values that both protocols share: names of segments and queues, rights, ranges, errors of
//! set-up.

use core::fmt;
use fairway_wire::TokenId;

/// A segment of one NIC: its index, which is also its [`TokenId`] on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(u32);

impl SegmentId {
    /// Stands for a segment in the range of an access of no bytes, which needs none.
    pub const NOWHERE: SegmentId = SegmentId(u32::MAX);

    /// The segment at this index, of whatever counts its segments so.
    pub const fn new(index: u32) -> Self {
        SegmentId(index)
    }
    /// The segment's name on the wire.
    pub const fn token_id(self) -> TokenId {
        TokenId::new(self.0)
    }
    /// The dense index of the segment: below `Limits::segments`, reused after release.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// [`Self::index`] as pools count.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// A completion queue of one NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CompletionQueueId(u32);

impl CompletionQueueId {
    /// The queue at this index, of whatever counts its queues so.
    pub const fn new(index: u32) -> Self {
        CompletionQueueId(index)
    }
    /// The dense index of the queue.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// [`Self::index`] as pools count.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// What remote peers may do to a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Nothing: the segment is local.
    pub const NONE: Rights = Rights(0);
    /// READ.
    pub const READ: Rights = Rights(1);
    /// WRITE and WRITE_IMM.
    pub const WRITE: Rights = Rights(2);
    /// Atomics.
    pub const ATOMIC: Rights = Rights(4);
    /// The memory may be seen to change in another order than that of a connection's operations
    /// (relaxed ordering). It opens no access by itself.
    pub const RELAXED: Rights = Rights(8);
    /// READ and WRITE.
    pub const READ_WRITE: Rights = Rights(3);
    /// READ, WRITE and atomics.
    pub const ALL: Rights = Rights(7);

    /// The union.
    #[must_use]
    pub const fn with(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
    /// True if every right of `other` is granted.
    pub const fn contains(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }
    /// The accesses among them: those without [`Rights::RELAXED`].
    #[must_use]
    pub const fn accesses(self) -> Rights {
        Rights(self.0 & Rights::ALL.0)
    }
}

/// What peers may do with memory by way of a Jetty
/// (in a guarded NIC, see [`guard`](crate::guard)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grant {
    /// Nothing: peers are told that there is no such Jetty.
    #[default]
    Nothing,
    /// Nothing yet: peers try again, as they do when a receive is missing.
    Later,
    /// Some accesses to some segments.
    Access {
        /// Which accesses.
        rights: Rights,
        /// The segments' domain.
        domain: u32,
    },
}

/// Memory to register. A device only knows its numbers; the bytes are the caller's affair.
#[derive(Clone, Copy, Debug)]
pub struct SegmentRequest {
    /// The address remote peers use for its first byte.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// What remote peers may do.
    pub rights: Rights,
    /// The secret a remote peer must know.
    pub token_value: u32,
}

/// A range of a local segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalRange {
    /// The segment.
    pub segment: SegmentId,
    /// First byte, from the start of the segment.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

/// Why an object could not be made, opened or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The limit of this name is reached.
    Limit(&'static str),
    /// The number is taken or out of range.
    Number,
    /// The parameter of this name is out of range.
    Parameter(&'static str),
    /// No such object.
    Missing,
    /// Something still uses it.
    Busy,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Limit(name) => write!(f, "the limit {name} is reached"),
            SetupError::Number => f.write_str("the number is taken or out of range"),
            SetupError::Parameter(name) => write!(f, "the parameter {name} is out of range"),
            SetupError::Missing => f.write_str("there is no such object"),
            SetupError::Busy => f.write_str("something still uses it"),
        }
    }
}

impl core::error::Error for SetupError {}

/// One line of the state table: a kind of record, its size, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSize {
    /// What it is.
    pub name: &'static str,
    /// Bytes of one.
    pub bytes: usize,
    /// How many the given numbers of Jetties and hosts take at most.
    pub count: u64,
    /// True if it is taken from a shared pool on demand; false if it is there as long as its owner.
    pub pooled: bool,
}
