//! Halo exchanges: faces dimension by dimension, or everything that touches at once.

use super::{Motif, Operation, reduce};

/// Operations of one dimension: expect, send and await, each down and up.
const DIMENSION: u32 = 6;

pub(super) fn face_operations(motif: &Motif) -> u32 {
    1 + 3 * DIMENSION + reduce::operations(motif.ranks())
}

/// Operations of [`super::Pattern::Halo3d`]: compute, exchange faces, sum.
pub(super) fn faces(motif: &Motif, rank: u32, number: u32) -> Operation {
    let Some(number) = number.checked_sub(1) else {
        return Operation::Compute { ps: motif.compute_ps };
    };
    let Some(dimension) = Some(number / DIMENSION).filter(|dimension| *dimension < 3) else {
        return reduce::operation(motif.ranks(), rank, number - 3 * DIMENSION);
    };
    let mut step = [0; 3];
    step[dimension as usize] = if number.is_multiple_of(2) { -1 } else { 1 };
    exchange(motif, rank, step, number % DIMENSION / 2, false)
}

/// Steps to all neighbours: faces first, then edges, then corners, as ember orders them.
const STEPS: [[i32; 3]; 26] = steps();

const fn steps() -> [[i32; 3]; 26] {
    let mut steps = [[0; 3]; 26];
    let (mut count, mut rank) = (0, 1);
    while rank <= 3 {
        let mut code = 0;
        while code < 27 {
            // Down before up, x before y before z.
            let step = [[0, -1, 1][code % 3], [0, -1, 1][code / 3 % 3], [0, -1, 1][code / 9]];
            if step[0] * step[0] + step[1] * step[1] + step[2] * step[2] == rank {
                steps[count] = step;
                count += 1;
            }
            code += 1;
        }
        rank += 1;
    }
    steps
}

/// Number of operations: compute; expect, start and await for each neighbour; and a flush.
pub(super) const ALL_OPERATIONS: u32 = 1 + 3 * 26 + 1;

pub(super) fn all(motif: &Motif, rank: u32, number: u32) -> Operation {
    match number {
        0 => Operation::Compute { ps: motif.compute_ps },
        number if number + 1 == ALL_OPERATIONS => Operation::Flush,
        number => {
            let (phase, at) = ((number - 1) / 26, (number - 1) % 26);
            exchange(motif, rank, STEPS[at as usize], phase, true)
        }
    }
}

/// Operation of one phase of an exchange with a neighbour; the phases are expect, send, await.
fn exchange(motif: &Motif, rank: u32, step: [i32; 3], phase: u32, at_once: bool) -> Operation {
    let Some(other) = motif.neighbour(rank, step) else { return Operation::Nothing };
    let bytes = motif.bytes(step);
    match phase {
        0 => Operation::Expect { from: other, bytes },
        1 if at_once => Operation::Start { to: other, bytes },
        1 => Operation::Send { to: other, bytes },
        _ => Operation::Await { from: other },
    }
}
