//! Rings: rank *r* sends to rank *r* + 1 what it has received from rank *r* − 1.
//!
//! The pieces are cut into spans, and the spans into rounds of a few. Spans of one round travel
//! together, and a round's messages to slots are sent before those of the next. So a rank holds at
//! most as many spans of its predecessor as a round has, and the ring cannot come to a standstill
//! with all slots full.

use super::copy_own;
use crate::call::Piece;
use crate::schedule::{Builder, Place, Region, Span, StepIndex};
use std::ops::Range;

/// Ranks before and after this one, and arithmetic with ranks.
struct Ring {
    rank: u32,
    ranks: u32,
}

impl Ring {
    fn of(b: &Builder<'_>) -> Ring {
        Ring { rank: b.rank(), ranks: b.ranks() }
    }

    fn next(&self) -> u32 {
        self.before(self.ranks - 1)
    }

    /// The rank `distance` places before this one.
    fn before(&self, distance: u32) -> u32 {
        (self.rank + 2 * self.ranks - distance) % self.ranks
    }
}

/// The rounds: ranges of numbers of spans.
fn rounds(b: &Builder<'_>, pieces: &[Piece]) -> Vec<Range<u64>> {
    let longest = pieces.iter().map(|piece| piece.bytes).max().unwrap_or(0);
    let spans = longest.div_ceil(u64::from(b.shape().slot_bytes));
    let round = u64::from(b.shape().slots / 2);
    let starts = (0..spans.div_ceil(round)).map(|at| at * round);
    starts.map(|start| start..spans.min(start + round)).collect()
}

pub(super) fn all_reduce(b: &mut Builder<'_>, pieces: &[Piece]) {
    for round in rounds(b, pieces) {
        let own = scatter_round(b, pieces, round.clone(), Region::Output);
        gather_round(b, pieces, round, &own, Region::Output);
    }
}

pub(super) fn reduce_scatter(b: &mut Builder<'_>, pieces: &[Piece]) {
    let own = pieces[b.rank() as usize];
    let into = |span: Span| Region::Output(Span { offset: span.offset - own.offset, ..span });
    for round in rounds(b, pieces) {
        scatter_round(b, pieces, round, into);
    }
}

pub(super) fn all_gather(b: &mut Builder<'_>, pieces: &[Piece]) {
    let own = pieces[b.rank() as usize];
    copy_own(b, own, 0);
    let from = |span: Span| Region::Input(Span { offset: span.offset - own.offset, ..span });
    for round in rounds(b, pieces) {
        let none = vec![None; (round.end - round.start) as usize];
        gather_round(b, pieces, round, &none, from);
    }
}

/// Combines spans of all pieces around the ring, so that rank *r* ends with those of piece *r*.
/// `into` is the place of the result. Returns the last step of each span.
fn scatter_round(
    b: &mut Builder<'_>,
    pieces: &[Piece],
    round: Range<u64>,
    into: impl Fn(Span) -> Region,
) -> Vec<Option<StepIndex>> {
    let ring = Ring::of(b);
    let mut carried: Vec<Option<StepIndex>> = vec![None; (round.end - round.start) as usize];
    let mut last = carried.clone();
    for step in 0..ring.ranks - 1 {
        let sent = pieces[ring.before(step + 1) as usize];
        for (carried, at) in carried.iter().zip(round.clone()) {
            let Some(span) = b.span(sent, at) else { continue };
            let from = match (step, carried) {
                (0, _) => Region::Input(span),
                (_, Some(arrived)) => Region::Received(*arrived),
                (_, None) => unreachable!("the same piece arrived in the step before"),
            };
            b.send(ring.next(), from, Place::Slot, []);
        }
        let received = pieces[ring.before(step + 2) as usize];
        for (slot, at) in round.clone().enumerate() {
            let Some(span) = b.span(received, at) else {
                carried[slot] = None;
                continue;
            };
            let arrived = b.receive(ring.before(1), span.bytes, Place::Slot);
            let is_last = step == ring.ranks - 2;
            let result = if is_last { into(span) } else { Region::Received(arrived) };
            let both = [Region::Input(span), Region::Received(arrived)];
            last[slot] = Some(b.combine(both, result, is_last, []));
            carried[slot] = Some(arrived);
        }
    }
    last
}

/// Sends spans of all pieces around the ring, from `own` on, which must have ended before.
fn gather_round(
    b: &mut Builder<'_>,
    pieces: &[Piece],
    round: Range<u64>,
    own: &[Option<StepIndex>],
    from: impl Fn(Span) -> Region,
) {
    let ring = Ring::of(b);
    let mut held = own.to_vec();
    for step in 0..ring.ranks - 1 {
        let sent = pieces[ring.before(step) as usize];
        for (held, at) in held.iter().zip(round.clone()) {
            let Some(span) = b.span(sent, at) else { continue };
            let from = if step == 0 { from(span) } else { Region::Output(span) };
            b.send(ring.next(), from, Place::Output(span.offset), *held);
        }
        let received = pieces[ring.before(step + 1) as usize];
        for (held, at) in held.iter_mut().zip(round.clone()) {
            *held = b
                .span(received, at)
                .map(|span| b.receive(ring.before(1), span.bytes, Place::Output(span.offset)));
        }
    }
}
