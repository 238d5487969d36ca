//! Values that both protocols share: names of segments and queues, rights, ranges, errors of
//! set-up.

use core::fmt;
use fairway_wire::TokenId;

/// A segment of one NIC: its index, which is also its [`TokenId`] on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(u32);

impl SegmentId {
    /// Stands for no segment, in the range of an access of no bytes.
    pub const NOWHERE: SegmentId = SegmentId(u32::MAX);

    /// Returns the name of the segment at this index.
    pub const fn new(index: u32) -> Self {
        SegmentId(index)
    }
    /// Returns the segment's name on the wire.
    pub const fn token_id(self) -> TokenId {
        TokenId::new(self.0)
    }
    /// Returns the dense index of the segment: below `Limits::segments`, reused after release.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// Returns [`Self::index`] as a `u32`, as pools use it.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// A completion queue of one NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CompletionQueueId(u32);

impl CompletionQueueId {
    /// Returns the name of the queue at this index.
    pub const fn new(index: u32) -> Self {
        CompletionQueueId(index)
    }
    /// Returns the dense index of the queue.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// Returns [`Self::index`] as a `u32`, as pools use it.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The accesses to a segment that remote peers may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// No rights: the segment is local.
    pub const NONE: Rights = Rights(0);
    /// READ is allowed.
    pub const READ: Rights = Rights(1);
    /// WRITE and WRITE_IMM are allowed.
    pub const WRITE: Rights = Rights(2);
    /// Atomics are allowed.
    pub const ATOMIC: Rights = Rights(4);
    /// Peers may change the memory in another order than that of a connection's operations (relaxed
    /// ordering). This alone allows no access.
    pub const RELAXED: Rights = Rights(8);
    /// READ and WRITE are allowed.
    pub const READ_WRITE: Rights = Rights(3);
    /// READ, WRITE and atomics are allowed.
    pub const ALL: Rights = Rights(7);

    /// Returns the union of two sets of rights.
    #[must_use]
    pub const fn with(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
    /// Returns the rights that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Rights) -> Rights {
        Rights(self.0 & !other.0)
    }
    /// True if every right of `other` is granted.
    pub const fn contains(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }
    /// Returns the accesses among the rights: all except [`Rights::RELAXED`].
    #[must_use]
    pub const fn accesses(self) -> Rights {
        Rights(self.0 & Rights::ALL.0)
    }
}

/// The accesses to memory that a Jetty grants to peers (in a guarded NIC, see
/// [`guard`](crate::guard)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grant {
    /// No access: peers receive the answer that there is no such Jetty.
    #[default]
    Nothing,
    /// No access yet: peers retry, as they do when a receive is missing.
    Later,
    /// Some accesses to the segments of one domain.
    Access {
        /// The accesses.
        rights: Rights,
        /// The segments' domain.
        domain: u32,
    },
}

impl Grant {
    /// True if this grants every access that the other one grants.
    pub fn contains(&self, other: &Grant) -> bool {
        match (self, other) {
            (
                Grant::Access { rights, domain },
                Grant::Access { rights: others, domain: others_domain },
            ) => rights.contains(others.accesses()) && domain == others_domain,
            (_, Grant::Access { .. }) => false,
            (_, Grant::Nothing | Grant::Later) => true,
        }
    }
}

/// A request to register memory. A device stores only these numbers; the caller manages the bytes.
#[derive(Clone, Copy, Debug)]
pub struct SegmentRequest {
    /// The address of its first byte in the peers' address space.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// The rights of remote peers.
    pub rights: Rights,
    /// The secret that a remote peer must name.
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

/// The reason why an object could not be created, opened or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The limit with this name has been reached.
    Limit(&'static str),
    /// The number is in use or out of range.
    Number,
    /// The parameter with this name is out of range.
    Parameter(&'static str),
    /// There is no such object.
    Missing,
    /// The object is still in use.
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

/// One row of the table of state sizes: a kind of record, its size, and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSize {
    /// The kind of record.
    pub name: &'static str,
    /// Bytes of one record.
    pub bytes: usize,
    /// Maximum number of records for the given numbers of Jetties and hosts.
    pub count: u64,
    /// True if the record is allocated from a shared pool on demand; false if it exists as long as
    /// its owner.
    pub pooled: bool,
}
