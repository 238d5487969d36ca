//! Trees: values are combined on the way up to the root, and results are sent down.
//!
//! Spans are sent in order. A rank holds a span of a child until those of its other children have
//! arrived, and then sends the combination up, so each span's path to the root becomes free before
//! that of the next.

use super::{Algorithm, copy_own};
use crate::call::Piece;
use crate::schedule::{Builder, Place, Region, Span, StepIndex};

/// The place of a rank in a tree.
struct Node {
    parent: Option<u32>,
    children: Vec<u32>,
}

impl Node {
    /// A binary tree over positions 0, 1, 2 and so on, the root first; `rank_at` converts a
    /// position to a rank.
    fn binary(position: u32, ranks: u32, rank_at: impl Fn(u32) -> u32) -> Node {
        let children = (2 * position + 1..=2 * position + 2).filter(|child| *child < ranks);
        Node {
            parent: position.checked_sub(1).map(|below| rank_at(below / 2)),
            children: children.map(&rank_at).collect(),
        }
    }

    /// A chain, from the root to the last position.
    fn chain(position: u32, ranks: u32, rank_at: impl Fn(u32) -> u32) -> Node {
        Node {
            parent: position.checked_sub(1).map(&rank_at),
            children: Some(position + 1)
                .filter(|next| *next < ranks)
                .map(rank_at)
                .into_iter()
                .collect(),
        }
    }

    /// A star, whose centre is the root.
    fn star(position: u32, ranks: u32, rank_at: impl Fn(u32) -> u32) -> Node {
        match position {
            0 => Node { parent: None, children: (1..ranks).map(rank_at).collect() },
            _ => Node { parent: Some(rank_at(0)), children: Vec::new() },
        }
    }

    /// A binary tree over one leader of each host; the other ranks of a host are children of its
    /// leader. The root leads its host, other hosts are led by their first rank.
    fn hierarchical(b: &Builder<'_>, root: u32) -> Node {
        let (rank, ranks) = (b.rank(), b.ranks());
        let hosts = b.shape().hosts;
        let host_of = |rank: u32| hosts.get(rank as usize).map_or((1, rank), |host| (0, *host));
        let leader_of = |rank: u32| match host_of(rank) == host_of(root) {
            true => root,
            false => (0..ranks).find(|other| host_of(*other) == host_of(rank)).unwrap_or(rank),
        };
        let leader = leader_of(rank);
        if leader != rank {
            return Node { parent: Some(leader), children: Vec::new() };
        }
        let mut leaders: Vec<_> = (0..ranks).filter(|rank| leader_of(*rank) == *rank).collect();
        // The root first, the others in the order of their ranks after it.
        leaders.sort_unstable_by_key(|leader| (*leader + ranks - root) % ranks);
        let position = leaders.iter().position(|leader| *leader == rank).unwrap_or(0) as u32;
        let mut node = Node::binary(position, leaders.len() as u32, |at| leaders[at as usize]);
        let members = (0..ranks).filter(|other| *other != rank && leader_of(*other) == rank);
        node.children.extend(members);
        node
    }

    /// The tree of an algorithm with this root.
    fn of(b: &Builder<'_>, algorithm: Algorithm, root: u32) -> Node {
        let ranks = b.ranks();
        let position = (b.rank() + ranks - root) % ranks;
        let rank_at = |position: u32| (root + position) % ranks;
        match algorithm {
            Algorithm::Ring => Node::chain(position, ranks, rank_at),
            Algorithm::Direct => Node::star(position, ranks, rank_at),
            Algorithm::Hierarchical => Node::hierarchical(b, root),
            _ => Node::binary(position, ranks, rank_at),
        }
    }
}

/// Combines a span upwards. Returns the step at the root whose result is the whole combination, in
/// the output.
fn up(b: &mut Builder<'_>, node: &Node, span: Span) -> Option<StepIndex> {
    let mut sum = Region::Input(span);
    let mut last = None;
    for (at, child) in node.children.iter().enumerate() {
        let arrived = b.receive(*child, span.bytes, Place::Slot);
        let is_last = node.parent.is_none() && at + 1 == node.children.len();
        let into = if is_last { Region::Output(span) } else { Region::Received(arrived) };
        last = Some(b.combine([sum, Region::Received(arrived)], into, is_last, []));
        sum = into;
    }
    let Some(parent) = node.parent else { return last };
    b.send(parent, sum, Place::Slot, []);
    None
}

/// Sends a span of the output downwards, at the root after the step `ready`.
fn down(b: &mut Builder<'_>, node: &Node, span: Span, ready: Option<StepIndex>) {
    let place = Place::Output(span.offset);
    let ready = match node.parent {
        Some(parent) => Some(b.receive(parent, span.bytes, place)),
        None => ready,
    };
    for child in &node.children {
        b.send(*child, Region::Output(span), place, ready);
    }
}

/// Two trees, each for a half of the bytes: the second one has the ranks in reverse, so that the
/// leaves of one are inner nodes of the other.
pub(super) fn all_reduce(b: &mut Builder<'_>, whole: Piece, element: u64) {
    let (rank, ranks) = (b.rank(), b.ranks());
    let trees = [
        Node::binary(rank, ranks, |position| position),
        Node::binary(ranks - 1 - rank, ranks, |position| ranks - 1 - position),
    ];
    let halves = super::even(2, whole, element);
    let count = halves.iter().map(|half| b.spans(*half).count()).max().unwrap_or(0);
    for at in 0..count as u64 {
        for (node, half) in trees.iter().zip(&halves) {
            if let Some(span) = b.span(*half, at) {
                let ready = up(b, node, span);
                down(b, node, span, ready);
            }
        }
    }
}

pub(super) fn hierarchical_all_reduce(b: &mut Builder<'_>, whole: Piece) {
    let node = Node::hierarchical(b, 0);
    let spans: Vec<_> = b.spans(whole).collect();
    for span in spans {
        let ready = up(b, &node, span);
        down(b, &node, span, ready);
    }
}

pub(super) fn broadcast(b: &mut Builder<'_>, algorithm: Algorithm, bytes: u64, root: u32) {
    let node = Node::of(b, algorithm, root);
    let whole = Piece { offset: 0, bytes };
    if node.parent.is_none() {
        copy_own(b, whole, 0);
    }
    let spans: Vec<_> = b.spans(whole).collect();
    for span in spans {
        match node.parent {
            Some(_) => down(b, &node, span, None),
            None => {
                for child in &node.children {
                    b.send(*child, Region::Input(span), Place::Output(span.offset), []);
                }
            }
        }
    }
}

pub(super) fn reduce(b: &mut Builder<'_>, algorithm: Algorithm, bytes: u64, root: u32) {
    let node = Node::of(b, algorithm, root);
    let spans: Vec<_> = b.spans(Piece { offset: 0, bytes }).collect();
    for span in spans {
        up(b, &node, span);
    }
}
