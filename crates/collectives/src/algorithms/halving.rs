//! Recursive halving and doubling: pairs of ranks exchange halves of what they are responsible for,
//! so that each rank ends with the combination of one piece; then they exchange the results in
//! reverse (Rabenseifner's algorithm).
//!
//! If the number of ranks is no power of two, the ranks beyond the largest one send their input to
//! a rank below it first, and receive the result from it at the end.

use super::doubling::power_below;
use crate::call::Piece;
use crate::schedule::{Builder, Place, Region, Span, StepIndex};

/// The steps that have written parts of the output.
#[derive(Default)]
struct Written(Vec<(Span, StepIndex)>);

impl Written {
    /// The steps that have written bytes of `span`.
    fn of(&self, span: Span) -> Vec<StepIndex> {
        let end = |span: &Span| span.offset + u64::from(span.bytes);
        let overlaps = |other: &Span| other.offset < end(&span) && span.offset < end(other);
        self.0.iter().filter(|(other, _)| overlaps(other)).map(|(_, step)| *step).collect()
    }
}

/// Consecutive pieces as one.
fn join(pieces: &[Piece]) -> Piece {
    let offset = pieces.first().map_or(0, |piece| piece.offset);
    Piece { offset, bytes: pieces.iter().map(|piece| piece.bytes).sum() }
}

pub(super) fn all_reduce(b: &mut Builder<'_>, whole: Piece, element: u64) {
    let (rank, ranks) = (b.rank(), b.ranks());
    let power = power_below(ranks);
    if rank >= power {
        let spans: Vec<_> = b.spans(whole).collect();
        for span in &spans {
            b.send(rank - power, Region::Input(*span), Place::Slot, []);
        }
        for span in spans {
            b.receive(rank - power, span.bytes, Place::Output(span.offset));
        }
        return;
    }
    let mut written = Written::default();
    let mut is_combined = false;
    if rank + power < ranks {
        combine(b, rank + power, whole, &mut written, [false, false]);
        is_combined = true;
    }
    let pieces = super::even(power, whole, element);
    let (mut low, mut high) = (0, power as usize);
    let mut ranges = Vec::new();
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let is_low = rank as usize & (middle - low) == 0;
        let peer = rank ^ (middle - low) as u32;
        ranges.push((peer, low, high));
        let (kept, sent) = match is_low {
            true => (low..middle, middle..high),
            false => (middle..high, low..middle),
        };
        let spans: Vec<_> = b.spans(join(&pieces[sent])).collect();
        for span in spans {
            let from = if is_combined { Region::Output(span) } else { Region::Input(span) };
            b.send(peer, from, Place::Slot, written.of(span));
        }
        (low, high) = (kept.start, kept.end);
        let flags = [is_combined, high - low == 1];
        combine(b, peer, join(&pieces[kept]), &mut written, flags);
        is_combined = true;
    }
    for (peer, from, to) in ranges.into_iter().rev() {
        let spans: Vec<_> = b.spans(join(&pieces[low..high])).collect();
        for span in spans {
            let place = Place::Output(span.offset);
            b.send(peer, Region::Output(span), place, written.of(span));
        }
        let other = if from == low { high..to } else { from..low };
        receive(b, peer, join(&pieces[other]), &mut written);
        (low, high) = (from, to);
    }
    if rank + power < ranks {
        let spans: Vec<_> = b.spans(whole).collect();
        for span in spans {
            let place = Place::Output(span.offset);
            b.send(rank + power, Region::Output(span), place, written.of(span));
        }
    }
}

/// Receives a peer's values of a piece and combines them with the own ones into the output. The
/// first flag: the own ones are there already, and not in the input; the second: the result is that
/// of all ranks.
fn combine(
    b: &mut Builder<'_>,
    peer: u32,
    piece: Piece,
    written: &mut Written,
    [is_combined, is_last]: [bool; 2],
) {
    let spans: Vec<_> = b.spans(piece).collect();
    let mut now = Written::default();
    for span in spans {
        let arrived = b.receive(peer, span.bytes, Place::Slot);
        let own = if is_combined { Region::Output(span) } else { Region::Input(span) };
        let both = [own, Region::Received(arrived)];
        let step = b.combine(both, Region::Output(span), is_last, written.of(span));
        now.0.push((span, step));
    }
    *written = now;
}

/// Receives results of a piece.
fn receive(b: &mut Builder<'_>, peer: u32, piece: Piece, written: &mut Written) {
    let spans: Vec<_> = b.spans(piece).collect();
    for span in spans {
        let step = b.receive(peer, span.bytes, Place::Output(span.offset));
        written.0.push((span, step));
    }
}
