//! Operations of a group of ranks, and how two ranks find out that they called different ones.

use crate::number::{ElementType, Reduction};
use std::fmt;

/// Consecutive bytes of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// A message of [`Call::Exchange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The other rank; a rank may name itself, which copies.
    pub rank: u32,
    /// The bytes: in the input buffer of a message that is sent, in the output buffer of one that
    /// is received.
    pub piece: Piece,
}

/// An operation, as each rank of the group calls it. All lengths are in bytes, and all ranks pass
/// the same values, except to [`Call::Exchange`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Every rank receives the combination of all inputs.
    AllReduce {
        /// Length of input and output.
        bytes: u64,
        /// Type of the elements.
        element: ElementType,
        /// How they are combined.
        reduction: Reduction,
    },
    /// Rank *r* receives piece *r* of the combination of all inputs.
    ReduceScatter {
        /// Length of each rank's piece; the input is as long as all of them.
        pieces: Vec<u64>,
        /// Type of the elements.
        element: ElementType,
        /// How they are combined.
        reduction: Reduction,
    },
    /// Every rank receives the inputs of all, one after the other.
    AllGather {
        /// Length of each rank's input; the output is as long as all of them.
        pieces: Vec<u64>,
    },
    /// Every rank receives the root's input.
    Broadcast {
        /// Length of the root's input and of every output.
        bytes: u64,
        /// The rank whose bytes are sent.
        root: u32,
    },
    /// The root receives the combination of all inputs.
    Reduce {
        /// Length of every input and of the root's output.
        bytes: u64,
        /// Type of the elements.
        element: ElementType,
        /// How they are combined.
        reduction: Reduction,
        /// The rank that receives the result.
        root: u32,
    },
    /// The root receives the inputs of all, one after the other.
    Gather {
        /// Length of each rank's input; the root's output is as long as all of them.
        pieces: Vec<u64>,
        /// The rank that receives them.
        root: u32,
    },
    /// Rank *r* receives piece *r* of the root's input.
    Scatter {
        /// Length of each rank's output; the root's input is as long as all of them.
        pieces: Vec<u64>,
        /// The rank that sends them.
        root: u32,
    },
    /// Messages between pairs of ranks: all-to-all, sends and receives. The k-th message that one
    /// rank sends to another is the k-th that the other receives from it, and has the same length.
    /// Only ranks that exchange a message take part. An exchange that is not collective may have
    /// only sends at one rank and only receives at the other, before or after other calls.
    Exchange {
        /// True if every rank of the group takes part (all-to-all).
        is_collective: bool,
        /// Messages from this rank's input.
        sends: Vec<Message>,
        /// Messages to this rank's output.
        receives: Vec<Message>,
    },
    /// No rank continues before all have called it.
    Barrier,
}

/// The kind of a [`Call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Kind {
    AllReduce,
    ReduceScatter,
    AllGather,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    Exchange,
    Barrier,
}

/// A call that no rank can execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The root, or a rank that a message names, is not in the group.
    NoSuchRank {
        /// The number.
        rank: u32,
        /// Number of ranks in the group.
        ranks: u32,
    },
    /// A length is no multiple of the element's.
    PartialElement {
        /// The length in bytes.
        bytes: u64,
        /// The type of the elements.
        element: ElementType,
    },
    /// There is not one piece for each rank.
    Pieces {
        /// Number of pieces.
        pieces: usize,
        /// Number of ranks in the group.
        ranks: u32,
    },
    /// The messages of a rank to itself that are sent differ from those that are received.
    OwnMessages,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::NoSuchRank { rank, ranks } => {
                write!(f, "rank {rank} is not in the group: name one from 0 to {}", ranks - 1)
            }
            CallError::PartialElement { bytes, element } => write!(
                f,
                "{bytes} bytes are no whole number of elements of type {element}: \
                 pass a multiple of {}",
                element.bytes()
            ),
            CallError::Pieces { pieces, ranks } => {
                write!(f, "there are {pieces} pieces for {ranks} ranks: pass one for each rank")
            }
            CallError::OwnMessages => write!(
                f,
                "the messages of a rank to itself differ: \
                 send as many, of the same lengths, as are received"
            ),
        }
    }
}

impl std::error::Error for CallError {}

/// A short hash of what two ranks must agree on. Every message contains it, so a rank that called
/// another operation is found out by its first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub u16);

impl Digest {
    /// What two ranks must agree on: `earlier`, and this after it.
    #[must_use]
    pub(crate) fn after(self, earlier: Option<Digest>) -> Digest {
        let Some(Digest(earlier)) = earlier else { return self };
        Hash::new(u64::from(earlier)).add(u64::from(self.0)).finish()
    }

    /// The digest of a text.
    pub(crate) fn of_text(text: &str) -> Digest {
        let mut hash = Hash::new(text.len() as u64);
        text.bytes().for_each(|byte| {
            hash.add(u64::from(byte));
        });
        hash.finish()
    }
}

impl Call {
    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        match self {
            Call::AllReduce { .. } => Kind::AllReduce,
            Call::ReduceScatter { .. } => Kind::ReduceScatter,
            Call::AllGather { .. } => Kind::AllGather,
            Call::Broadcast { .. } => Kind::Broadcast,
            Call::Reduce { .. } => Kind::Reduce,
            Call::Gather { .. } => Kind::Gather,
            Call::Scatter { .. } => Kind::Scatter,
            Call::Exchange { .. } => Kind::Exchange,
            Call::Barrier => Kind::Barrier,
        }
    }

    /// Type of the elements, and how they are combined, if they are.
    pub fn reduction(&self) -> Option<(ElementType, Reduction)> {
        match self {
            Call::AllReduce { element, reduction, .. }
            | Call::ReduceScatter { element, reduction, .. }
            | Call::Reduce { element, reduction, .. } => Some((*element, *reduction)),
            _ => None,
        }
    }

    /// Length of the input buffer of a rank in bytes.
    pub fn input_bytes(&self, rank: u32) -> u64 {
        match self {
            Call::AllReduce { bytes, .. } | Call::Reduce { bytes, .. } => *bytes,
            Call::ReduceScatter { pieces, .. } => total(pieces),
            Call::AllGather { pieces } | Call::Gather { pieces, .. } => pieces[rank as usize],
            Call::Broadcast { bytes, root } => {
                if *root == rank {
                    *bytes
                } else {
                    0
                }
            }
            Call::Scatter { pieces, root } if *root == rank => total(pieces),
            Call::Exchange { sends, .. } => end_of(sends),
            Call::Scatter { .. } | Call::Barrier => 0,
        }
    }

    /// Length of the output buffer of a rank in bytes.
    pub fn output_bytes(&self, rank: u32) -> u64 {
        match self {
            Call::AllReduce { bytes, .. } | Call::Broadcast { bytes, .. } => *bytes,
            Call::Reduce { bytes, root, .. } => {
                if *root == rank {
                    *bytes
                } else {
                    0
                }
            }
            Call::AllGather { pieces } => total(pieces),
            Call::Gather { pieces, root } if *root == rank => total(pieces),
            Call::ReduceScatter { pieces, .. } | Call::Scatter { pieces, .. } => {
                pieces[rank as usize]
            }
            Call::Exchange { receives, .. } => end_of(receives),
            Call::Gather { .. } | Call::Barrier => 0,
        }
    }

    /// Checks the call of one rank.
    ///
    /// # Errors
    /// It names ranks that do not exist, or parts of elements.
    pub fn check(&self, rank: u32, ranks: u32) -> Result<(), CallError> {
        let known = |named: u32| match named < ranks {
            true => Ok(()),
            false => Err(CallError::NoSuchRank { rank: named, ranks }),
        };
        if let Call::Broadcast { root, .. }
        | Call::Reduce { root, .. }
        | Call::Gather { root, .. }
        | Call::Scatter { root, .. } = self
        {
            known(*root)?;
        }
        if let Some(pieces) = self.pieces()
            && pieces.len() != ranks as usize
        {
            return Err(CallError::Pieces { pieces: pieces.len(), ranks });
        }
        if let Some((element, _)) = self.reduction() {
            let lengths = match self {
                Call::ReduceScatter { pieces, .. } => pieces.clone(),
                _ => vec![self.input_bytes(rank)],
            };
            if let Some(bytes) = lengths.into_iter().find(|bytes| bytes % element.bytes() != 0) {
                return Err(CallError::PartialElement { bytes, element });
            }
        }
        if let Call::Exchange { sends, receives, .. } = self {
            sends.iter().chain(receives).try_for_each(|message| known(message.rank))?;
            if !lengths(sends, rank).eq(lengths(receives, rank)) {
                return Err(CallError::OwnMessages);
            }
        }
        Ok(())
    }

    /// True if `peer` takes part, from the view of a rank that does.
    pub fn involves(&self, peer: u32) -> bool {
        match self {
            Call::Exchange { is_collective: false, sends, receives } => {
                sends.iter().chain(receives).any(|message| message.rank == peer)
            }
            _ => true,
        }
    }

    /// What this rank and `peer` must agree on for messages from this rank.
    pub fn digest_to(&self, peer: u32) -> Digest {
        match self {
            Call::Exchange { is_collective, sends, .. } => {
                exchange_digest(*is_collective, lengths(sends, peer))
            }
            _ => self.digest(),
        }
    }

    /// What this rank and `peer` must agree on for messages from `peer`.
    pub fn digest_from(&self, peer: u32) -> Digest {
        match self {
            Call::Exchange { is_collective, receives, .. } => {
                exchange_digest(*is_collective, lengths(receives, peer))
            }
            _ => self.digest(),
        }
    }

    fn digest(&self) -> Digest {
        let mut hash = Hash::new(self.kind() as u64);
        if let Some((element, reduction)) = self.reduction() {
            hash.add(element as u64).add(reduction as u64);
        }
        match self {
            Call::Broadcast { bytes, root } | Call::Reduce { bytes, root, .. } => {
                hash.add(*bytes).add(u64::from(*root));
            }
            Call::Gather { root, .. } | Call::Scatter { root, .. } => {
                hash.add(u64::from(*root));
            }
            Call::AllReduce { bytes, .. } => {
                hash.add(*bytes);
            }
            _ => {}
        }
        for piece in self.pieces().unwrap_or_default() {
            hash.add(*piece);
        }
        hash.finish()
    }

    fn pieces(&self) -> Option<&[u64]> {
        match self {
            Call::ReduceScatter { pieces, .. }
            | Call::AllGather { pieces }
            | Call::Gather { pieces, .. }
            | Call::Scatter { pieces, .. } => Some(pieces),
            _ => None,
        }
    }
}

impl fmt::Display for Call {
    /// Describes the call as an error message names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::AllReduce { bytes, element, reduction } => {
                write!(f, "all-reduce ({reduction}) of {bytes} bytes of {element}")
            }
            Call::ReduceScatter { pieces, element, reduction } => {
                write!(f, "reduce-scatter ({reduction}) of {} bytes of {element}", total(pieces))
            }
            Call::AllGather { pieces } => write!(f, "all-gather of {} bytes", total(pieces)),
            Call::Broadcast { bytes, root } => {
                write!(f, "broadcast of {bytes} bytes from rank {root}")
            }
            Call::Reduce { bytes, element, reduction, root } => {
                write!(f, "reduce ({reduction}) of {bytes} bytes of {element} to rank {root}")
            }
            Call::Gather { pieces, root } => {
                write!(f, "gather of {} bytes to rank {root}", total(pieces))
            }
            Call::Scatter { pieces, root } => {
                write!(f, "scatter of {} bytes from rank {root}", total(pieces))
            }
            Call::Exchange { is_collective, sends, receives } => {
                let name = if *is_collective { "all-to-all" } else { "exchange" };
                let bytes = |messages: &[Message]| {
                    let lengths = messages.iter().map(|message| message.piece.bytes);
                    lengths.fold(0, u64::saturating_add)
                };
                write!(
                    f,
                    "{name} that sends {} bytes in {} messages and receives {} bytes in {}",
                    bytes(sends),
                    sends.len(),
                    bytes(receives),
                    receives.len()
                )
            }
            Call::Barrier => write!(f, "barrier"),
        }
    }
}

/// Length of all pieces. Lengths that no memory has are as long as can be, so no buffer fits them.
fn total(pieces: &[u64]) -> u64 {
    pieces.iter().copied().fold(0, u64::saturating_add)
}

/// End of the last byte that messages name.
fn end_of(messages: &[Message]) -> u64 {
    let end = |message: &Message| message.piece.offset.saturating_add(message.piece.bytes);
    messages.iter().map(end).max().unwrap_or(0)
}

/// Lengths of the messages with a rank, in order.
fn lengths(messages: &[Message], rank: u32) -> impl Iterator<Item = u64> {
    messages.iter().filter(move |message| message.rank == rank).map(|message| message.piece.bytes)
}

fn exchange_digest(is_collective: bool, lengths: impl Iterator<Item = u64>) -> Digest {
    let mut hash = Hash::new(Kind::Exchange as u64);
    hash.add(u64::from(is_collective));
    lengths.for_each(|length| {
        hash.add(length);
    });
    hash.finish()
}

/// FNV-1a over words, the same on every machine.
struct Hash(u64);

impl Hash {
    fn new(first: u64) -> Hash {
        let mut hash = Hash(0xcbf2_9ce4_8422_2325);
        hash.add(first);
        hash
    }

    fn add(&mut self, word: u64) -> &mut Hash {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        self
    }

    fn finish(&self) -> Digest {
        let folded = self.0 ^ self.0 >> 32;
        Digest((folded ^ folded >> 16) as u16)
    }
}
