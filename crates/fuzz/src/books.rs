//! What memory a side has, which operations may write where, and which are not over.

use fairway_engine::{LocalRange, SegmentId};

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Peers may do anything with it.
    Open,
    /// For this side's own operations: peers write only what an operation or receive has lent.
    Own,
    /// Peers know its key, which grants nothing.
    Closed,
    /// Peers do not know its key.
    Secret,
    /// For what came too early.
    Staging,
}

/// A segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) id: SegmentId,
    pub(crate) memory: Memory,
    pub(crate) length: u64,
    /// Nothing refers to it any more.
    pub(crate) released: bool,
}

/// What has been lent to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loan {
    Operation(u64),
    /// With the Jetty's number.
    Receive(u64, u32),
    Buffer(u64),
}

#[derive(Default)]
pub(crate) struct Books {
    pub(crate) pieces: Vec<Piece>,
    /// Operations, receives and buffers that are not over; the range that may be written.
    loans: Vec<(Loan, LocalRange)>,
}

impl Books {
    pub(crate) fn lend(&mut self, loan: Loan, range: LocalRange) {
        self.loans.push((loan, range));
    }

    /// It is over: it must have been there.
    pub(crate) fn settle(&mut self, wanted: impl Fn(&Loan) -> bool) {
        let at = self.loans.iter().position(|(loan, _)| wanted(loan));
        let at = at.unwrap_or_else(|| panic!("it ends twice, or was never begun"));
        self.loans.swap_remove(at);
    }

    /// They are over, as many as there are.
    pub(crate) fn drop_all(&mut self, unwanted: impl Fn(&Loan) -> bool) {
        self.loans.retain(|(loan, _)| !unwanted(loan));
    }

    pub(crate) fn operations(&self) -> usize {
        self.loans.iter().filter(|(loan, _)| matches!(loan, Loan::Operation(_))).count()
    }

    /// Operations and receives are over.
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

    /// The registered memory that the range lies in.
    pub(crate) fn demand_registered(&self, range: &LocalRange) -> Memory {
        let piece = self.pieces.iter().find(|piece| piece.id == range.segment);
        let Some(piece) = piece.filter(|piece| !piece.released) else {
            panic!("{range:?} is in no registered segment");
        };
        let end = range.offset.checked_add(range.length.into());
        assert!(end.is_some_and(|end| end <= piece.length), "{range:?} leaves {piece:?}");
        piece.memory
    }

    /// May the engine have something put there for the peer?
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

    /// May the engine send what lies there?
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
