//! Traffic: flows, when each begins, and which others it waits for.

mod collectives;
mod error;
mod import;
mod matrix;
mod moe;
mod poisson;
mod trace;

pub use collectives::{Collective, collective};
pub use error::{MatrixError, MatrixLineError, MoeError, SizesError, TraceError, TraceLineError};
pub use import::{Format, ImportError, Input, Place, Schedule, Traced, Wrong, read_trace};
pub use matrix::parse_matrix;
pub use moe::Moe;
pub use poisson::{Sizes, poisson};
pub use trace::{Operation, OperationKind, Span, Trace, parse_trace};

use fairway_device::random::Random;

/// One message from one host to another: a WRITE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Sending host.
    pub source: u32,
    /// Receiving host; a different one.
    pub destination: u32,
    /// Length, at least 1 except for a step: see [`Self::is_step`].
    pub bytes: u32,
    /// Start time in picoseconds, unless the flow waits for others.
    pub start_ps: u64,
    /// Flows that must end first, by index.
    pub after: Vec<After>,
    /// Delay from the end of those flows to its start, in picoseconds: the time for which its
    /// source computes in between.
    pub delay_ps: u64,
}

/// A flow to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// Index of the other flow.
    pub flow: u32,
    /// True to wait until the last byte is in place at the destination, false to wait for
    /// completion at the source. If that happens at another host, the notification takes until the
    /// end of the shortest link's latency.
    pub delivered: bool,
}

impl Flow {
    /// A flow from `source` to `destination` that begins at time 0.
    pub fn new(source: u32, destination: u32, bytes: u32) -> Flow {
        Flow { source, destination, bytes, ..Flow::default() }
    }

    /// True for a step, which sends nothing. It concerns its host alone and ends when it begins, so
    /// that others can wait for it.
    pub fn is_step(&self) -> bool {
        self.bytes == 0 && self.source == self.destination
    }

    /// Time for which its source computes before it begins, in picoseconds.
    pub(crate) fn compute_ps(&self) -> u64 {
        if self.after.is_empty() { self.start_ps } else { self.delay_ps }
    }
}

/// Every host sends to one other host and receives from one other, drawn at random.
pub fn permutation(hosts: u32, bytes: u32, seed: u64) -> Vec<Flow> {
    let mut random = Random::fork(seed, 0x7065_726D);
    let order = shuffled(hosts, &mut random);
    // One cycle through all hosts: no host sends to itself.
    let next = |at: usize| order[(at + 1) % order.len()];
    let mut flows: Vec<Flow> =
        order.iter().enumerate().map(|(at, &host)| Flow::new(host, next(at), bytes)).collect();
    flows.sort_by_key(|flow| flow.source);
    flows
}

/// `senders` hosts, drawn at random, each send to host 0.
pub fn incast(hosts: u32, senders: u32, bytes: u32, seed: u64) -> Vec<Flow> {
    let mut random = Random::fork(seed, 0x0069_6E63);
    let order = shuffled(hosts, &mut random);
    let chosen = order.into_iter().filter(|host| *host != 0).take(senders as usize);
    chosen.map(|host| Flow::new(host, 0, bytes)).collect()
}

/// Host 0 sends to `receivers` hosts, drawn at random.
pub fn outcast(hosts: u32, receivers: u32, bytes: u32, seed: u64) -> Vec<Flow> {
    let flows = incast(hosts, receivers, bytes, seed);
    flows.into_iter().map(|flow| Flow::new(0, flow.source, bytes)).collect()
}

/// Every host sends to every other, beginning with its right neighbour.
pub fn all_to_all(hosts: u32, bytes: u32) -> Vec<Flow> {
    let pair =
        |source: u32| (1..hosts).map(move |step| Flow::new(source, (source + step) % hosts, bytes));
    (0..hosts).flat_map(pair).collect()
}

/// Combines [`incast`] of `count` messages per sender with a [`permutation`] of as many per host.
pub fn incast_and_permutation(
    hosts: u32,
    senders: u32,
    bytes: u32,
    count: u32,
    seed: u64,
) -> Vec<Flow> {
    let each =
        incast(hosts, senders, bytes, seed).into_iter().chain(permutation(hosts, bytes, seed));
    each.flat_map(|flow| std::iter::repeat_n(flow, count as usize)).collect()
}

/// Divides each flow into `pieces` of nearly the same length, which begin together.
pub fn in_pieces(flows: &[Flow], pieces: u32) -> Vec<Flow> {
    let cut = |flow: &Flow| {
        let (count, flow) = (pieces.min(flow.bytes), flow.clone());
        let bytes = flow.bytes;
        (0..count).map(move |piece| {
            let longer = u32::from(piece < bytes % count);
            Flow { bytes: bytes / count + longer, ..flow.clone() }
        })
    };
    flows.iter().flat_map(cut).collect()
}

/// All hosts in an order that is drawn at random.
pub(crate) fn shuffled_hosts(hosts: u32, seed: u64) -> Vec<u32> {
    shuffled(hosts, &mut Random::fork(seed, 0x706C_6163))
}

fn shuffled(hosts: u32, random: &mut Random) -> Vec<u32> {
    let mut order: Vec<u32> = (0..hosts).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    order
}

#[cfg(test)]
mod tests;
