//! Measures what the choice of algorithms needs to know.

use crate::communicator::Communicator;
use crate::error::Error;
use fairway_collectives::{Costs, ElementType, Reduction, accumulate};
use std::time::Instant;

/// Number of barriers that are timed together. A single one seems short to a rank that comes late,
/// because the messages of the others have already arrived.
const BARRIERS: u32 = 6;
/// Number of times that they are timed.
const BATCHES: u32 = 2;
/// Bytes that each rank sends at a time.
const BYTES: usize = 1 << 20;
/// Number of times that they are sent.
const ROUNDS: u32 = 3;

/// Measures the costs of a group, the same at all ranks: the largest that any rank has measured.
pub(crate) fn measure(group: &Communicator) -> Result<Costs, Error> {
    let ranks = group.ranks();
    if ranks == 1 {
        return Ok(Costs::default());
    }
    let rounds = f64::from(ranks.next_power_of_two().ilog2());
    group.barrier()?;
    let barriers = || (0..BARRIERS).try_for_each(|_| group.barrier());
    let message = shortest(BATCHES, barriers)? / (f64::from(BARRIERS) * rounds);
    let input = vec![0u8; BYTES];
    let mut output = vec![0u8; BYTES * ranks as usize];
    let gather = shortest(ROUNDS, || group.all_gather(&input, &mut output))?;
    let sent = (BYTES as f64) * f64::from(ranks - 1);
    let byte = (gather - message).max(0.0) / sent;
    let mut sum = vec![0u8; BYTES / 8];
    let add = || {
        accumulate(ElementType::F32, Reduction::Sum, &mut sum, &input[..BYTES / 8]);
        Ok(())
    };
    let combine = shortest(ROUNDS, add)? / (BYTES as f64 / 8.0);
    let mut all = vec![0f64; 3 * ranks as usize];
    group.all_gather(&[message, byte, combine], &mut all)?;
    let largest = |at: usize| all.iter().skip(at).step_by(3).copied().fold(0.0, f64::max);
    Ok(Costs {
        message_ns: largest(0),
        byte_ns: largest(1),
        combine_ns: largest(2),
        // The bytes were timed while all ranks sent.
        senders: f64::from(ranks),
    })
}

/// The shortest of several times, in nanoseconds.
fn shortest(count: u32, mut work: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut shortest = f64::INFINITY;
    for _ in 0..count {
        let started = Instant::now();
        work()?;
        shortest = shortest.min(started.elapsed().as_nanos() as f64);
    }
    Ok(shortest)
}
