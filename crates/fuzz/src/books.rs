//! One side's records of its memory, of the operations that may write to it, and of those in
//! flight.

use fairway_ub::{LocalRange, SegmentId};

/// Kind of memory, by the access that peers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Peers may read and write it.
    Open,
    /// Used by this side's own operations: peers may write only ranges lent by an operation or
    /// receive.
    Own,
    /// Peers have its key, which grants no rights.
    Closed,
    /// Peers do not have its key.
    Secret,
    /// Staging memory for early packets.
    Staging,
}

/// A segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) id: SegmentId,
    pub(crate) memory: Memory,
    pub(crate) length: u64,
    /// True if nothing refers to the segment any more.
    pub(crate) released: bool,
}

/// An operation, receive or buffer for which a range of memory has been lent to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loan {
    Operation(u64),
    /// A receive, with the number of its Jetty.
    Receive(u64, u32),
    Buffer(u64),
}

#[derive(Default)]
pub(crate) struct Books {
    pub(crate) pieces: Vec<Piece>,
    /// Pending operations, receives and buffers, each with the range that may be written for it.
    loans: Vec<(Loan, LocalRange)>,
}

impl Books {
    pub(crate) fn lend(&mut self, loan: Loan, range: LocalRange) {
        self.loans.push((loan, range));
    }

    /// Ends a loan, which must exist.
    pub(crate) fn settle(&mut self, wanted: impl Fn(&Loan) -> bool) {
        let at = self.loans.iter().position(|(loan, _)| wanted(loan));
        let at = at.unwrap_or_else(|| panic!("it ends twice, or was never begun"));
        self.loans.swap_remove(at);
    }

    /// Ends all matching loans, however many there are.
    pub(crate) fn drop_all(&mut self, unwanted: impl Fn(&Loan) -> bool) {
        self.loans.retain(|(loan, _)| !unwanted(loan));
    }

    pub(crate) fn operations(&self) -> usize {
        self.loans.iter().filter(|(loan, _)| matches!(loan, Loan::Operation(_))).count()
    }

    /// True if all operations and receives have ended.
    pub(crate) fn is_settled(&self) -> bool {
        self.loans.is_empty()
    }

    pub(crate) fn released(&mut self, segment: SegmentId) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.id == segment) {
            assert!(!piece.released, "released twice");
            piece.released = true;
        }
    }

    pub(crate) fn segment(&self, memory: Memory) -> SegmentId {
        let piece = self.pieces.iter().find(|piece| piece.memory == memory);
        piece.map_or(SegmentId::new(0), |piece| piece.id)
    }

    /// Returns the kind of memory that contains the range. Panics if it is not registered.
    pub(crate) fn demand_registered(&self, range: &LocalRange) -> Memory {
        let piece = self.pieces.iter().find(|piece| piece.id == range.segment);
        let Some(piece) = piece.filter(|piece| !piece.released) else {
            panic!("{range:?} is in no registered segment");
        };
        let end = range.offset.checked_add(range.length.into());
        assert!(end.is_some_and(|end| end <= piece.length), "{range:?} leaves {piece:?}");
        piece.memory
    }

    /// Panics if the protocol must not place the peer's data in the range.
    pub(crate) fn demand_writable(&self, range: &LocalRange) {
        match self.demand_registered(range) {
            Memory::Open | Memory::Staging => {}
            Memory::Own => {
                let lent = self.loans.iter().any(|(_, lent)| contains(lent, range));
                assert!(lent || range.length == 0, "{range:?} was not lent: {:?}", self.loans);
            }
            memory @ (Memory::Closed | Memory::Secret) => panic!("{range:?} is in {memory:?}"),
        }
    }

    /// Panics if the protocol must not send the content of the range.
    pub(crate) fn demand_readable(&self, range: &LocalRange) {
        let memory = self.demand_registered(range);
        assert!(matches!(memory, Memory::Open | Memory::Own), "{range:?} is in {memory:?}");
    }

    pub(crate) fn require_staging(&self, range: &LocalRange) {
        assert_eq!(self.demand_registered(range), Memory::Staging, "{range:?}");
    }
}

fn contains(outer: &LocalRange, inner: &LocalRange) -> bool {
    outer.segment == inner.segment
        && outer.offset <= inner.offset
        && inner.offset + u64::from(inner.length) <= outer.offset + u64::from(outer.length)
}
