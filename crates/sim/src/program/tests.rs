//! Compares the messages and bytes of the programs with those of SST's `ember` motifs. The programs
//! are executed by ranks for which nothing takes time.

use super::*;
use std::collections::BTreeMap;

fn motif(pattern: Pattern, grid: [u32; 3], cells: [u32; 3]) -> Motif {
    Motif { pattern, grid, cells, iterations: 1, compute_ps: 1000 }
}

/// Runs a program to its end. Returns the numbers of messages and bytes.
fn run(motif: &Motif) -> (u64, u64) {
    let ranks = motif.ranks();
    let mut at = vec![0; ranks as usize];
    // By sender and receiver: lengths of messages sent and not awaited, and of those expected.
    let mut sent: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    let mut expected: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    let (mut messages, mut bytes_sent) = (0, 0);
    let mut moved = true;
    while moved {
        moved = false;
        for rank in 0..ranks {
            while let Some(operation) = motif.operation(rank, at[rank as usize]) {
                match operation {
                    Operation::Expect { from, bytes } => {
                        expected.entry((from, rank)).or_default().push(bytes);
                    }
                    Operation::Await { from } => {
                        let came = sent.entry((from, rank)).or_default();
                        if came.is_empty() {
                            break;
                        }
                        let wanted = expected.get_mut(&(from, rank)).expect("expected");
                        assert_eq!(came.remove(0), wanted.remove(0), "{from} to {rank}");
                    }
                    Operation::Send { to, bytes } | Operation::Start { to, bytes } => {
                        sent.entry((rank, to)).or_default().push(bytes);
                        (messages, bytes_sent) = (messages + 1, bytes_sent + u64::from(bytes));
                    }
                    Operation::Nothing | Operation::Flush | Operation::Compute { .. } => {}
                }
                at[rank as usize] += 1;
                moved = true;
            }
        }
    }
    for rank in 0..ranks {
        assert_eq!(motif.operation(rank, at[rank as usize]), None, "rank {rank} waits for ever");
    }
    assert!(sent.values().all(Vec::is_empty) && expected.values().all(Vec::is_empty));
    (messages, bytes_sent)
}

#[test]
fn a_sweep_sends_as_many_messages_as_were_counted() {
    let sweep = motif(Pattern::Sweep3d { layers: 10 }, [64, 128, 1], [30, 30, 30]);
    let (messages, bytes) = run(&sweep);
    assert_eq!(messages, 388_608);
    assert_eq!(bytes, 388_608 * 19_200);
}

#[test]
fn halos_meet_every_neighbour_once() {
    let halo = motif(Pattern::Halo3d26, [3, 3, 3], [10, 20, 30]);
    // Pairs of neighbours in a block of 3: faces 54, edges 72, corners 32; both directions.
    assert_eq!(run(&halo).0, 2 * (54 + 72 + 32));
    let middle: Vec<Operation> = halo.iteration(13).collect();
    let bytes: Vec<u32> = middle
        .iter()
        .filter_map(|operation| match operation {
            Operation::Expect { bytes, .. } => Some(*bytes),
            _ => None,
        })
        .collect();
    assert_eq!(bytes[..6], [4800, 4800, 2400, 2400, 1600, 1600]);
    assert_eq!(bytes[18..], [8; 8]);
}

#[test]
fn faces_are_exchanged_and_a_word_is_summed() {
    let halo = motif(Pattern::Halo3d, [4, 3, 2], [100, 100, 100]);
    let faces = 2 * (3 * 3 * 2 + 4 * 2 * 2 + 4 * 3);
    let sums = 2 * 23;
    assert_eq!(run(&halo), (faces + sums, faces * 80_000 + sums * 8));
    for ranks in [1, 2, 5, 16, 33] {
        run(&motif(Pattern::Halo3d, [ranks, 1, 1], [4, 4, 4]));
    }
}

#[test]
fn grids_are_as_equal_as_can_be() {
    assert_eq!(grid_of(8192, 2), [128, 64, 1]);
    assert_eq!(grid_of(64, 3), [4, 4, 4]);
    assert_eq!(grid_of(24, 3), [4, 3, 2]);
    assert_eq!(grid_of(7, 3), [7, 1, 1]);
}
