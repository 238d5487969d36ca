//! Sweep3D: eight octants, two for each direction in the plane of ranks.

use super::{Motif, Operation, WORD};

/// Fields of a cell.
const FIELDS: u32 = 8;
/// Operations of a step: expect and await from two sides, compute, send to two sides.
const STEP: u32 = 7;

/// Corner from which the wave of each sweep comes, in x and in y.
const FROM: [[i32; 2]; 4] = [[-1, -1], [1, -1], [1, 1], [-1, 1]];

fn steps(motif: &Motif, layers: u32) -> u32 {
    motif.cells[2] / layers
}

/// Number of operations: two rounds of four sweeps.
pub(super) fn operations(motif: &Motif, layers: u32) -> u32 {
    2 * 4 * steps(motif, layers) * STEP
}

pub(super) fn operation(motif: &Motif, layers: u32, rank: u32, number: u32) -> Operation {
    let sweep = number / STEP / steps(motif, layers) % 4;
    let [x, y] = FROM[sweep as usize];
    let [nx, ny, _] = motif.cells;
    let fields = layers * WORD * FIELDS;
    let side = |step: [i32; 3]| motif.neighbour(rank, step);
    let expect = |from: Option<u32>, bytes| match from {
        Some(from) => Operation::Expect { from, bytes },
        None => Operation::Nothing,
    };
    let send = |to: Option<u32>, bytes| match to {
        Some(to) => Operation::Send { to, bytes },
        None => Operation::Nothing,
    };
    let wait =
        |from: Option<u32>| from.map_or(Operation::Nothing, |from| Operation::Await { from });
    match number % STEP {
        0 => expect(side([x, 0, 0]), nx * fields),
        1 => wait(side([x, 0, 0])),
        2 => expect(side([0, y, 0]), ny * fields),
        3 => wait(side([0, y, 0])),
        4 => Operation::Compute { ps: motif.compute_ps * u64::from(layers * FIELDS) },
        5 => send(side([-x, 0, 0]), nx * fields),
        _ => send(side([0, -y, 0]), ny * fields),
    }
}
