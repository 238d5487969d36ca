//! A sum of one word over all ranks: up a binomial tree to rank 0, and down again.

use super::{Operation, WORD};

fn levels(ranks: u32) -> u32 {
    ranks.next_power_of_two().trailing_zeros()
}

/// Number of operations: upward, expect and await at each level and a send; then downward.
pub(super) fn operations(ranks: u32) -> u32 {
    2 * levels(ranks) + 2 + levels(ranks)
}

pub(super) fn operation(ranks: u32, rank: u32, number: u32) -> Operation {
    let levels = levels(ranks);
    // A rank's children are those that differ from it in one bit below its lowest.
    let own = if rank == 0 { 1 << levels } else { rank & rank.wrapping_neg() };
    let child = |bit: u32| Some(rank + bit).filter(|child| bit < own && *child < ranks);
    let parent = rank - (own & rank);
    if number < 2 * levels {
        let bit = 1 << (number / 2);
        return match (child(bit), number % 2) {
            (Some(from), 0) => Operation::Expect { from, bytes: WORD },
            (Some(from), _) => Operation::Await { from },
            (None, 0) if bit == own => Operation::Send { to: parent, bytes: WORD },
            _ => Operation::Nothing,
        };
    }
    match number - 2 * levels {
        0 if rank > 0 => Operation::Expect { from: parent, bytes: WORD },
        1 if rank > 0 => Operation::Await { from: parent },
        0 | 1 => Operation::Nothing,
        down => match child(1 << (levels + 1 - down)) {
            Some(to) => Operation::Send { to, bytes: WORD },
            None => Operation::Nothing,
        },
    }
}
