//! The bytes behind the segments of all NICs, and their expected content.
//!
//! Every segment starts with random bytes that are stored twice: as memory, which NICs write, and
//! as a mirror, which only the model writes. A difference without an explanation means that memory
//! was written wrongly.

use crate::finding::Finding;
use fairway_device::drive;
use fairway_device::random::Random;
use fairway_ub::wire::Instant;
use fairway_ub::{LocalRange, SegmentId};

/// One registered piece of memory. Its index in [`Memory`] is its key, which is never reused.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) node: usize,
    pub(crate) bytes: Vec<u8>,
    /// Expected content of `bytes`, except in the ranges of `unsettled`.
    pub(crate) mirror: Vec<u8>,
    /// Ranges whose content is undefined, because an operation ended in error half way.
    pub(crate) unsettled: Vec<(usize, usize)>,
    /// Offset from which on no range has been reserved for an operation.
    pub(crate) used: usize,
    /// Number of the peer's Jetties that share it, if it is a board.
    pub(crate) board: Option<u32>,
    /// True if the protocol has reported that the memory may be freed, or the node has crashed.
    pub(crate) released: bool,
    /// True if peers' accesses are refused from now on.
    pub(crate) deregistered: bool,
    /// True if it is the staging memory, in which a NIC sets early packets aside.
    pub(crate) is_staging: bool,
    /// True if only its own node's operations name it: receives, and the destinations of READs and
    /// loads.
    pub(crate) is_own: bool,
    /// Parts that cannot be accessed although the memory is registered.
    pub(crate) gone: Vec<Gone>,
}

/// An inaccessible part of registered memory. It keeps its bytes, as pages do that are made
/// inaccessible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Time at which it becomes accessible again, if ever.
    pub(crate) until: Option<Instant>,
}

impl Gone {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now.is_at_or_after(until))
    }
}

/// The memory of one node, as its NIC accesses it.
pub(crate) struct OfNode<'a> {
    memory: &'a mut Memory,
    node: usize,
}

impl drive::Memory for OfNode<'_> {
    type Error = Finding;

    fn bytes(&mut self, range: &LocalRange) -> Result<&mut [u8], Finding> {
        self.memory.named(self.node, range)
    }
}

/// The memory of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) pieces: Vec<Piece>,
    /// By node and segment index: the key of the memory that is registered there now.
    keys: Vec<Vec<usize>>,
}

const NOTHING: usize = usize::MAX;
/// Byte that overwrites freed memory, so that a later read of it is detected.
const FREED: u8 = 0xDD;

impl Memory {
    pub(crate) fn new(nodes: usize) -> Self {
        Memory { pieces: Vec::new(), keys: vec![Vec::new(); nodes] }
    }

    /// Adds memory of `length` random bytes for `segment` of `node`. Returns its key.
    pub(crate) fn add(
        &mut self,
        node: usize,
        segment: SegmentId,
        length: usize,
        random: &mut Random,
    ) -> usize {
        let mut bytes = vec![0; length];
        random.fill(&mut bytes);
        let piece = Piece {
            node,
            mirror: bytes.clone(),
            bytes,
            unsettled: Vec::new(),
            used: 0,
            board: None,
            released: false,
            deregistered: false,
            is_staging: false,
            is_own: false,
            gone: Vec::new(),
        };
        self.pieces.push(piece);
        let key = self.pieces.len() - 1;
        let keys = &mut self.keys[node];
        if keys.len() <= segment.index() {
            keys.resize(segment.index() + 1, NOTHING);
        }
        keys[segment.index()] = key;
        key
    }

    pub(crate) fn key(&self, node: usize, segment: SegmentId) -> Option<usize> {
        self.keys[node].get(segment.index()).copied().filter(|&key| key != NOTHING)
    }

    /// Frees memory: no access to it is allowed from now on.
    pub(crate) fn release(&mut self, key: usize) {
        let piece = &mut self.pieces[key];
        piece.released = true;
        piece.bytes.fill(FREED);
    }

    /// Frees the memory of a crashed node.
    pub(crate) fn forget_node(&mut self, node: usize) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.node == node) {
            piece.released = true;
        }
        self.keys[node].clear();
    }

    /// Returns the memory of `node`.
    pub(crate) fn of(&mut self, node: usize) -> OfNode<'_> {
        OfNode { memory: self, node }
    }

    /// Returns the bytes of a range that a NIC names.
    ///
    /// # Errors
    /// If the range is not valid memory of the node.
    pub(crate) fn named(&mut self, node: usize, range: &LocalRange) -> Result<&mut [u8], Finding> {
        let Some(key) = self.key(node, range.segment) else {
            return Err(format!("node {node} names an unknown segment: {range:?}").into());
        };
        let piece = &mut self.pieces[key];
        if piece.released {
            return Err(format!("node {node} names freed memory: {range:?}").into());
        }
        let start = range.offset as usize;
        let length = piece.bytes.len();
        piece.bytes.get_mut(start..start + range.length as usize).ok_or_else(|| {
            format!("node {node} names bytes outside its segment of {length}: {range:?}").into()
        })
    }

    /// Returns how many bytes of a range precede its first inaccessible byte; `None` if all are
    /// accessible.
    pub(crate) fn missing_after(
        &self,
        key: usize,
        start: usize,
        length: usize,
        now: Instant,
    ) -> Option<usize> {
        let meets =
            |gone: &&Gone| !gone.is_over(now) && gone.start < start + length && start < gone.end;
        let gone = self.pieces[key].gone.iter().filter(meets);
        gone.map(|gone| gone.start.saturating_sub(start)).min()
    }

    /// Reserves a range for one operation, after a gap that no operation may access.
    pub(crate) fn reserve(&mut self, key: usize, length: usize, gap: usize) -> Option<usize> {
        let piece = &mut self.pieces[key];
        let start = piece.used + gap;
        if start + length > piece.bytes.len() {
            return None;
        }
        piece.used = start + length;
        Some(start)
    }

    pub(crate) fn mirror(&self, key: usize, start: usize, length: usize) -> &[u8] {
        &self.pieces[key].mirror[start..start + length]
    }

    /// Sets the expected content of `to` to that of `from`.
    pub(crate) fn expect_copy(&mut self, from: (usize, usize), to: (usize, usize), length: usize) {
        let source = self.pieces[from.0].mirror[from.1..from.1 + length].to_vec();
        self.pieces[to.0].mirror[to.1..to.1 + length].copy_from_slice(&source);
    }

    /// Writes bytes to a range, and expects them there.
    pub(crate) fn write(&mut self, key: usize, start: usize, bytes: &[u8]) {
        let piece = &mut self.pieces[key];
        piece.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        piece.mirror[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Sets the expected content of a range to its actual content.
    pub(crate) fn accept(&mut self, key: usize, start: usize, length: usize) {
        let Piece { bytes, mirror, .. } = &mut self.pieces[key];
        mirror[start..start + length].copy_from_slice(&bytes[start..start + length]);
    }

    /// Marks the content of a range as undefined.
    pub(crate) fn unsettle(&mut self, key: usize, start: usize, length: usize) {
        self.pieces[key].unsettled.push((start, length));
    }

    /// Returns the first byte of a range that differs from the expected content.
    pub(crate) fn difference(&self, key: usize, start: usize, length: usize) -> Option<usize> {
        let piece = &self.pieces[key];
        if piece.released {
            return None;
        }
        let (bytes, mirror) =
            (&piece.bytes[start..start + length], &piece.mirror[start..start + length]);
        if bytes == mirror {
            return None;
        }
        bytes.iter().zip(mirror).position(|(byte, ought)| byte != ought).map(|at| start + at)
    }

    /// Compares all memory. Undefined ranges stay so, because a packet of a sender that has given
    /// up may still be in flight.
    ///
    /// # Errors
    /// Names the first byte that differs.
    pub(crate) fn compare_all(&mut self) -> Result<(), Finding> {
        for key in 0..self.pieces.len() {
            let piece = &mut self.pieces[key];
            for &(start, length) in &piece.unsettled {
                let range = start..start + length;
                piece.mirror[range.clone()].copy_from_slice(&piece.bytes[range]);
            }
            if let Some(at) = self.difference(key, 0, self.pieces[key].bytes.len()) {
                let piece = &self.pieces[key];
                return Err(format!(
                    "memory {key} of node {} holds {:#04x} at {at}, and ought to hold {:#04x}",
                    piece.node, piece.bytes[at], piece.mirror[at]
                )
                .into());
            }
        }
        Ok(())
    }
}
