//! Each rank combines one piece, which all others send to it, and for an all-reduce it sends the
//! result to all.
//!
//! A rank combines the values of the others one after the other with its own ones in the output, so
//! no value is written to a slot: a rank of the same host can combine what it reads from the memory
//! of another one.

use super::direct::others;
use crate::call::Piece;
use crate::schedule::{Builder, Place, Region, Span, StepIndex};

/// Sends the spans of a number of the pieces of all others.
fn send(b: &mut Builder<'_>, pieces: &[Piece], at: u64) {
    let peers: Vec<_> = others(b).collect();
    for to in peers {
        if let Some(span) = b.span(pieces[to as usize], at) {
            b.send(to, Region::Input(span), Place::Slot, []);
        }
    }
}

/// Combines a span of the own input with those of all others. Returns the last step.
fn combine(b: &mut Builder<'_>, input: Span, into: Span) -> StepIndex {
    let peers: Vec<_> = others(b).collect();
    let count = peers.len();
    let mut sum = Region::Input(input);
    let mut last = None;
    for (at, from) in peers.into_iter().enumerate() {
        let arrived = Region::Received(b.receive(from, input.bytes, Place::Slot));
        let is_last = at + 1 == count;
        last = Some(b.combine([sum, arrived], Region::Output(into), is_last, last));
        sum = Region::Output(into);
    }
    last.expect("a group of one rank does not come here")
}

/// Number of spans of the longest piece.
fn spans(b: &Builder<'_>, pieces: &[Piece]) -> u64 {
    let longest = pieces.iter().map(|piece| piece.bytes).max().unwrap_or(0);
    longest.div_ceil(u64::from(b.shape().slot_bytes))
}

pub(super) fn reduce_scatter(b: &mut Builder<'_>, pieces: &[Piece]) {
    b.combine_from_sender();
    let own = pieces[b.rank() as usize];
    for at in 0..spans(b, pieces) {
        send(b, pieces, at);
        if let Some(span) = b.span(own, at) {
            combine(b, span, Span { offset: span.offset - own.offset, ..span });
        }
    }
}

/// The spans of all pieces go in turns, so that some are combined while others are on their way.
pub(super) fn all_reduce(b: &mut Builder<'_>, pieces: &[Piece]) {
    b.combine_from_sender();
    let peers: Vec<_> = others(b).collect();
    for at in 0..spans(b, pieces) {
        send(b, pieces, at);
        if let Some(span) = b.span(pieces[b.rank() as usize], at) {
            let combined = combine(b, span, span);
            for to in &peers {
                b.send(*to, Region::Output(span), Place::Output(span.offset), [combined]);
            }
        }
        for from in &peers {
            if let Some(span) = b.span(pieces[*from as usize], at) {
                b.receive(*from, span.bytes, Place::Output(span.offset));
            }
        }
    }
}
