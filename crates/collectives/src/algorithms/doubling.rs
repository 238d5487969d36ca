//! Recursive doubling: in each round, pairs of ranks at twice the distance exchange all that they
//! have combined so far.
//!
//! If the number of ranks is no power of two, the ranks beyond the largest one send their input to
//! a rank below it first, and receive the result from it at the end.

use crate::call::Piece;
use crate::schedule::{Builder, Place, Region};

/// The largest power of two that is not above `ranks`.
pub(super) fn power_below(ranks: u32) -> u32 {
    1 << ranks.ilog2()
}

pub(super) fn all_reduce(b: &mut Builder<'_>, whole: Piece) {
    let (rank, ranks) = (b.rank(), b.ranks());
    let power = power_below(ranks);
    let spans: Vec<_> = b.spans(whole).collect();
    for span in spans {
        let place = Place::Output(span.offset);
        if rank >= power {
            b.send(rank - power, Region::Input(span), Place::Slot, []);
            b.receive(rank - power, span.bytes, place);
            continue;
        }
        let mut sum = Region::Input(span);
        // The send from the input. The output may be the same memory.
        let mut first_send = None;
        if rank + power < ranks {
            let arrived = b.receive(rank + power, span.bytes, Place::Slot);
            b.combine([sum, Region::Received(arrived)], Region::Received(arrived), false, []);
            sum = Region::Received(arrived);
        }
        let mut result = None;
        for distance in (0..power.ilog2()).map(|round| 1 << round) {
            let peer = rank ^ distance;
            let send = b.send(peer, sum, Place::Slot, []);
            if matches!(sum, Region::Input(_)) {
                first_send = Some(send);
            }
            let arrived = b.receive(peer, span.bytes, Place::Slot);
            let is_last = 2 * distance == power;
            let into = if is_last { Region::Output(span) } else { Region::Received(arrived) };
            let after = first_send.filter(|_| is_last);
            result = Some(b.combine([sum, Region::Received(arrived)], into, is_last, after));
            sum = into;
        }
        if rank + power < ranks {
            b.send(rank + power, Region::Output(span), place, result);
        }
    }
}
