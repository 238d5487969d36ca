//! The algorithms, one file each, and which of them can execute a call.

mod direct;
mod dissemination;
mod doubling;
mod halving;
mod ring;
mod spread;
mod tree;

use crate::call::{Call, Kind, Piece};
use crate::name::UnknownName;
use crate::schedule::{Builder, Region, Span};
use std::fmt;
use std::str::FromStr;

/// A way to execute calls of some kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Each rank sends to the next one only. Uses the whole rate of every rank, with a latency that
    /// grows with the number of ranks.
    Ring,
    /// Up a binary tree and down again; an all-reduce uses two trees, in each of which the leaves
    /// of the other one do the work.
    Tree,
    /// Pairs of ranks at distances of 1, 2, 4 and so on exchange everything: the fewest messages.
    Doubling,
    /// Pairs of ranks exchange a half, a quarter and so on, and then everything in reverse.
    Halving,
    /// Each rank exchanges with all others at once.
    Direct,
    /// Each rank combines one piece, which all others send to it, and sends the result to all.
    Spread,
    /// Each rank exchanges with one other at a time.
    Pairwise,
    /// A tree in which the ranks of one host are the children of one of them.
    Hierarchical,
    /// Each rank notifies the ranks at distances of 1, 2, 4 and so on.
    Dissemination,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 9] = [
        Algorithm::Ring,
        Algorithm::Tree,
        Algorithm::Doubling,
        Algorithm::Halving,
        Algorithm::Direct,
        Algorithm::Spread,
        Algorithm::Pairwise,
        Algorithm::Hierarchical,
        Algorithm::Dissemination,
    ];

    /// The algorithms that can execute calls of a kind.
    pub const fn of(kind: Kind) -> &'static [Algorithm] {
        match kind {
            Kind::AllReduce => &[
                Algorithm::Direct,
                Algorithm::Doubling,
                Algorithm::Halving,
                Algorithm::Tree,
                Algorithm::Ring,
                Algorithm::Spread,
                Algorithm::Hierarchical,
            ],
            Kind::ReduceScatter => &[Algorithm::Direct, Algorithm::Ring, Algorithm::Spread],
            Kind::AllGather => &[Algorithm::Direct, Algorithm::Ring],
            Kind::Broadcast | Kind::Reduce => {
                &[Algorithm::Direct, Algorithm::Tree, Algorithm::Ring, Algorithm::Hierarchical]
            }
            Kind::Gather | Kind::Scatter => &[Algorithm::Direct],
            Kind::Exchange => &[Algorithm::Direct, Algorithm::Pairwise],
            Kind::Barrier => &[Algorithm::Dissemination],
        }
    }

    /// The name that the command line and Python use.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Ring => "ring",
            Algorithm::Tree => "tree",
            Algorithm::Doubling => "doubling",
            Algorithm::Halving => "halving",
            Algorithm::Direct => "direct",
            Algorithm::Spread => "spread",
            Algorithm::Pairwise => "pairwise",
            Algorithm::Hierarchical => "hierarchical",
            Algorithm::Dissemination => "dissemination",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        UnknownName::find("algorithm", text, &Algorithm::ALL, Algorithm::name)
    }
}

/// Appends the steps of a call.
///
/// # Panics
/// The algorithm cannot execute calls of this kind.
pub(crate) fn build(b: &mut Builder<'_>, call: &Call, algorithm: Algorithm) {
    let is_able = Algorithm::of(call.kind()).contains(&algorithm);
    assert!(is_able, "{algorithm} cannot execute: {call}");
    if b.ranks() == 1 && !matches!(call, Call::Exchange { .. }) {
        return alone(b, call);
    }
    match call {
        Call::AllReduce { bytes, element, .. } => {
            let whole = Piece { offset: 0, bytes: *bytes };
            match algorithm {
                Algorithm::Ring => ring::all_reduce(b, &even(b.ranks(), whole, element.bytes())),
                Algorithm::Tree => tree::all_reduce(b, whole, element.bytes()),
                Algorithm::Doubling => doubling::all_reduce(b, whole),
                Algorithm::Halving => halving::all_reduce(b, whole, element.bytes()),
                Algorithm::Hierarchical => tree::hierarchical_all_reduce(b, whole),
                Algorithm::Spread => {
                    spread::all_reduce(b, &even(b.ranks(), whole, element.bytes()));
                }
                _ => direct::all_reduce(b, whole),
            }
        }
        Call::ReduceScatter { pieces, .. } => match algorithm {
            Algorithm::Ring => ring::reduce_scatter(b, &joined(pieces)),
            Algorithm::Spread => spread::reduce_scatter(b, &joined(pieces)),
            _ => direct::reduce_scatter(b, &joined(pieces)),
        },
        Call::AllGather { pieces } => match algorithm {
            Algorithm::Ring => ring::all_gather(b, &joined(pieces)),
            _ => direct::all_gather(b, &joined(pieces)),
        },
        Call::Broadcast { bytes, root } => tree::broadcast(b, algorithm, *bytes, *root),
        Call::Reduce { bytes, root, .. } => match algorithm {
            Algorithm::Direct => direct::reduce(b, Piece { offset: 0, bytes: *bytes }, *root),
            _ => tree::reduce(b, algorithm, *bytes, *root),
        },
        Call::Gather { pieces, root } => direct::gather(b, &joined(pieces), *root),
        Call::Scatter { pieces, root } => direct::scatter(b, &joined(pieces), *root),
        Call::Exchange { sends, receives, .. } => {
            direct::exchange(b, sends, receives, algorithm == Algorithm::Pairwise);
        }
        Call::Barrier => dissemination::barrier(b),
    }
}

/// The only rank of a group copies its input.
fn alone(b: &mut Builder<'_>, call: &Call) {
    let bytes = call.output_bytes(0);
    copy_own(b, Piece { offset: 0, bytes }, 0);
}

/// Copies a rank's own bytes, unless they are in place. `from` is the offset in the input of the
/// bytes that belong to `piece` of the output. Returns the steps, one for each span.
fn copy_own(
    b: &mut Builder<'_>,
    piece: Piece,
    from: u64,
) -> Vec<Option<crate::schedule::StepIndex>> {
    let is_in_place = b.shape().is_in_place;
    let spans: Vec<_> = b.spans(piece).collect();
    let copies = spans.into_iter().map(|into| {
        let offset = from + (into.offset - piece.offset);
        let from = Span { offset, ..into };
        (!is_in_place).then(|| b.copy(Region::Input(from), Region::Output(into), []))
    });
    copies.collect()
}

/// Divides a piece into `count` pieces of almost equal lengths, in whole elements.
fn even(count: u32, whole: Piece, element: u64) -> Vec<Piece> {
    let elements = whole.bytes / element;
    let start = |at: u64| elements * at / u64::from(count) * element;
    let piece = |at| Piece { offset: whole.offset + start(at), bytes: start(at + 1) - start(at) };
    (0..u64::from(count)).map(piece).collect()
}

/// Pieces of these lengths, one after the other.
fn joined(lengths: &[u64]) -> Vec<Piece> {
    let mut offset = 0;
    let place = |bytes: &u64| {
        let piece = Piece { offset, bytes: *bytes };
        offset += bytes;
        piece
    };
    lengths.iter().map(place).collect()
}
