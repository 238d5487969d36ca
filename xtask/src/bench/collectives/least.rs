//! The least that an operation between ranks of one host can take: threads that copy and add as few
//! bytes as the operation needs, all at the same time, without messages.
//!
//! A thread reads the inputs of the others where they are. Each operation begins when all threads
//! have met, as a call follows a barrier in the other columns, and its time is that of the slowest.

use std::sync::{Barrier, Mutex, PoisonError, RwLock};
use std::time::Instant;

/// Calls before those that are timed.
const WARM_UP: u32 = 2;

/// The buffers of all ranks.
struct Ranks {
    inputs: Vec<RwLock<Vec<f32>>>,
    outputs: Vec<Mutex<Vec<f32>>>,
    /// What each rank has combined.
    combined: Vec<RwLock<Vec<f32>>>,
    barrier: Barrier,
}

/// The median time of an operation between `ranks` threads by buffers of `bytes`, in microseconds;
/// `None` for one that is not known here.
pub fn time_us(operation: &str, ranks: u32, bytes: u64, iterations: u32) -> Option<f64> {
    let call = match operation {
        "all-reduce" => all_reduce,
        "reduce-scatter" => reduce_scatter,
        "all-gather" => all_gather,
        "all-to-all" => all_to_all,
        "broadcast" => broadcast,
        _ => return None,
    };
    let count = ranks as usize;
    let part = (bytes as usize / 4 / count).max(1);
    let buffer = |length: usize| vec![1f32; length];
    let group = Ranks {
        inputs: (0..count).map(|_| RwLock::new(buffer(part * count))).collect(),
        outputs: (0..count).map(|_| Mutex::new(buffer(part * count))).collect(),
        combined: (0..count).map(|_| RwLock::new(buffer(part))).collect(),
        barrier: Barrier::new(count),
    };
    let slowest = Mutex::new(vec![0f64; iterations as usize]);
    std::thread::scope(|scope| {
        for rank in 0..count {
            let (group, slowest) = (&group, &slowest);
            scope.spawn(move || {
                for iteration in 0..WARM_UP + iterations {
                    group.barrier.wait();
                    let started = Instant::now();
                    call(group, rank, part);
                    let us = started.elapsed().as_secs_f64() * 1e6;
                    if let Some(at) = iteration.checked_sub(WARM_UP) {
                        let mut slowest = slowest.lock().unwrap_or_else(PoisonError::into_inner);
                        slowest[at as usize] = slowest[at as usize].max(us);
                    }
                }
            });
        }
    });
    let mut times = slowest.into_inner().unwrap_or_else(PoisonError::into_inner);
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

fn read(lock: &RwLock<Vec<f32>>) -> std::sync::RwLockReadGuard<'_, Vec<f32>> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

impl Ranks {
    fn output(&self, rank: usize) -> std::sync::MutexGuard<'_, Vec<f32>> {
        self.outputs[rank].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ranks from the next one on, so that not all read the same one at once.
    fn ring_after(&self, rank: usize) -> impl Iterator<Item = usize> {
        let count = self.inputs.len();
        (1..=count).map(move |distance| (rank + distance) % count)
    }
}

/// Adds up the part of a rank in all inputs.
fn combine(group: &Ranks, rank: usize, part: usize) {
    /// Numbers that are added at a time, so that they stay in the first-level cache.
    const BLOCK: usize = 2048;
    let inputs: Vec<_> = group.inputs.iter().map(read).collect();
    let mut sum = group.combined[rank].write().unwrap_or_else(PoisonError::into_inner);
    for start in (0..part).step_by(BLOCK) {
        let end = part.min(start + BLOCK);
        let sum = &mut sum[start..end];
        let at = rank * part + start..rank * part + end;
        sum.copy_from_slice(&inputs[0][at.clone()]);
        for input in &inputs[1..] {
            sum.iter_mut().zip(&input[at.clone()]).for_each(|(sum, value)| *sum += value);
        }
    }
}

fn reduce_scatter(group: &Ranks, rank: usize, part: usize) {
    combine(group, rank, part);
}

fn all_reduce(group: &Ranks, rank: usize, part: usize) {
    combine(group, rank, part);
    group.barrier.wait();
    let mut output = group.output(rank);
    for from in group.ring_after(rank) {
        output[from * part..(from + 1) * part].copy_from_slice(&read(&group.combined[from]));
    }
}

fn all_gather(group: &Ranks, rank: usize, part: usize) {
    let mut output = group.output(rank);
    for from in group.ring_after(rank) {
        output[from * part..(from + 1) * part].copy_from_slice(&read(&group.inputs[from])[..part]);
    }
}

fn all_to_all(group: &Ranks, rank: usize, part: usize) {
    let mut output = group.output(rank);
    let own = rank * part..(rank + 1) * part;
    for from in group.ring_after(rank) {
        let input = read(&group.inputs[from]);
        output[from * part..(from + 1) * part].copy_from_slice(&input[own.clone()]);
    }
}

/// One core copies all bytes for each receiver; the root only waits.
fn broadcast(group: &Ranks, rank: usize, _part: usize) {
    if rank > 0 {
        group.output(rank).copy_from_slice(&read(&group.inputs[0]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_copies_all_bytes() {
        let group = Ranks {
            inputs: (0..3)
                .map(|rank| RwLock::new((0..6).map(|at| (10 * rank + at) as f32).collect()))
                .collect(),
            outputs: (0..3).map(|_| Mutex::new(vec![0.0; 6])).collect(),
            combined: (0..3).map(|_| RwLock::new(vec![0.0; 2])).collect(),
            barrier: Barrier::new(3),
        };
        let run = |call: fn(&Ranks, usize, usize)| {
            std::thread::scope(|scope| {
                for rank in 0..3 {
                    let group = &group;
                    scope.spawn(move || call(group, rank, 2));
                }
            });
            group.output(1).clone()
        };
        assert_eq!(run(all_reduce), [30.0, 33.0, 36.0, 39.0, 42.0, 45.0]);
        assert_eq!(run(all_gather), [0.0, 1.0, 10.0, 11.0, 20.0, 21.0]);
        assert_eq!(run(all_to_all), [2.0, 3.0, 12.0, 13.0, 22.0, 23.0]);
        assert_eq!(run(broadcast), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(*read(&group.combined[2]), [42.0, 45.0]);
    }

    #[test]
    fn time_is_that_of_a_known_operation() {
        assert!(time_us("broadcast", 2, 4096, 3).is_some_and(|us| us > 0.0));
        assert_eq!(time_us("scan", 2, 4096, 3), None);
    }
}
