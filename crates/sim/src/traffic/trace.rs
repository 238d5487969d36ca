//! Traces of a parallel program: collective operations in order, and the time between them.
//!
//! A rank executes one operation after the other, unless the trace names the operations that it
//! waits for. A rank is done with an operation when all data for it is in place and all data that
//! it sent is acknowledged.

mod text;

pub(super) use text::{MEMBERS_MAX, RANKS_MAX};

pub use text::parse_trace;

use super::error::TraceError;
use super::{After, Collective, Flow, collective};
use std::collections::BTreeMap;

/// Maximum number of flows and steps, and of waits between them.
pub(super) const FLOWS_MAX: usize = 1 << 22;

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Each rank computes.
    Compute {
        /// Computing time, in picoseconds.
        ps: u64,
    },
    /// A [`Collective`] over the whole buffer.
    Collective(Collective),
    /// The first rank's buffer is sent down a binary tree.
    Broadcast,
    /// The sum is computed up a binary tree to the first rank.
    Reduce,
    /// Each rank sends an equal piece of the buffer to each other rank.
    AllToAll,
    /// The first rank sends to the second.
    Send,
}

impl OperationKind {
    /// The collective by which the ranks execute it; `None` for computing and sending.
    fn collective(self) -> Option<Collective> {
        match self {
            OperationKind::Compute { .. } | OperationKind::Send => None,
            OperationKind::Collective(kind) => Some(kind),
            OperationKind::Broadcast => Some(Collective::Broadcast),
            OperationKind::Reduce => Some(Collective::Reduce),
            OperationKind::AllToAll => Some(Collective::AllToAll),
        }
    }
}

/// An operation of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Name of the operation; without one in a file, its kind. If it is empty, the operation is
    /// none of the results.
    pub name: String,
    /// Kind of the operation.
    pub kind: OperationKind,
    /// The ranks that take part, all different; a rank is the host of the same number.
    pub ranks: Vec<u32>,
    /// Bytes of the whole buffer: the data that is summed, sent, or gathered at each rank.
    pub bytes: u32,
    /// Earlier operations that each rank waits for if it takes part in them; `None` for its
    /// previous operation in the trace.
    pub after: Option<Vec<usize>>,
}

/// A parallel program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Number of ranks.
    pub ranks: u32,
    /// The operations, in an order in which every rank can execute them.
    pub operations: Vec<Operation>,
}

/// The flows of a run that make up an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The operation's name.
    pub name: String,
    /// Number of ranks that take part.
    pub ranks: u32,
    /// Bytes of the buffer; 0 if the operation only computes.
    pub bytes: u32,
    /// Flows and steps of the operation, by index.
    pub flows: std::ops::Range<usize>,
}

impl Trace {
    /// Converts the trace to flows that wait for each other, in messages of at most `slot_bytes`,
    /// and returns which flows each operation has.
    ///
    /// # Errors
    /// If the trace needs more than four million flows or waits.
    pub fn flows(&self, slot_bytes: Option<u32>) -> Result<(Vec<Flow>, Vec<Span>), TraceError> {
        let mut program = Program::default();
        let mut last = vec![None; self.ranks as usize];
        let mut ends: Vec<BTreeMap<u32, u32>> = Vec::with_capacity(self.operations.len());
        let mut spans = Vec::with_capacity(self.operations.len());
        for operation in &self.operations {
            let first = program.flows.len();
            if first.max(program.waits).saturating_add(operation.size(slot_bytes)) > FLOWS_MAX {
                return Err(TraceError::TooLong { operation: operation.name.clone() });
            }
            let begins = operation.ranks.iter().map(|rank| match &operation.after {
                None => last[*rank as usize].into_iter().collect(),
                Some(after) => after.iter().filter_map(|at| ends[*at].get(rank).copied()).collect(),
            });
            let begins: Vec<Vec<u32>> = begins.collect();
            let done = program.add(operation, &begins, slot_bytes);
            let done: BTreeMap<u32, u32> = operation.ranks.iter().copied().zip(done).collect();
            done.iter().for_each(|(rank, end)| last[*rank as usize] = Some(*end));
            ends.push(done);
            let (name, ranks) = (operation.name.clone(), operation.ranks.len() as u32);
            let (bytes, flows) = (operation.bytes, first..program.flows.len());
            // An operation without a name only joins others.
            if !name.is_empty() {
                spans.push(Span { name, ranks, bytes, flows });
            }
        }
        Ok((program.flows, spans))
    }
}

impl Operation {
    /// Upper bound both of the flows and steps, and of the waits, that the operation makes.
    fn size(&self, slot_bytes: Option<u32>) -> usize {
        let count = self.ranks.len();
        let waits = count.saturating_mul(3 + self.after.as_ref().map_or(1, Vec::len));
        let flows = match self.kind {
            OperationKind::Compute { .. } => 0,
            OperationKind::Send => 1,
            kind => kind.collective().map_or(0, |kind| kind.flows(count, self.bytes, slot_bytes)),
        };
        // Each flow waits for its source's rank and for one other flow, and its end is waited for.
        flows.saturating_mul(3).saturating_add(waits)
    }
}

/// The flows made so far.
#[derive(Default)]
struct Program {
    flows: Vec<Flow>,
    /// Number of waits.
    waits: usize,
}

/// Waits for the end of a step, or for the arrival of a flow's data.
fn placed(flow: u32) -> After {
    After { flow, delivered: true }
}

impl Program {
    fn push(&mut self, flow: Flow) -> u32 {
        self.waits += flow.after.len();
        self.flows.push(flow);
        self.flows.len() as u32 - 1
    }

    /// Adds a step of a rank, which ends `ps` after everything it waits for.
    fn step(&mut self, rank: u32, after: Vec<After>, ps: u64) -> u32 {
        let (start_ps, delay_ps) = if after.is_empty() { (ps, 0) } else { (0, ps) };
        self.push(Flow { start_ps, delay_ps, after, ..Flow::new(rank, rank, 0) })
    }

    /// Adds an operation; `begins` has, for each of its ranks, the steps to wait for. Returns the
    /// step at which each rank is done with the operation.
    fn add(
        &mut self,
        operation: &Operation,
        begins: &[Vec<u32>],
        slot_bytes: Option<u32>,
    ) -> Vec<u32> {
        let ranks = &operation.ranks;
        let waits = |at: usize| begins[at].iter().map(|step| placed(*step)).collect::<Vec<_>>();
        if let OperationKind::Compute { ps } = operation.kind {
            return (0..ranks.len()).map(|at| self.step(ranks[at], waits(at), ps)).collect();
        }
        // Every flow waits for its rank to begin. If the rank waits for several steps, one step
        // combines them.
        let mut gates = Vec::with_capacity(ranks.len());
        for (at, rank) in ranks.iter().enumerate() {
            gates.push(match begins[at].as_slice() {
                [] => None,
                [only] => Some(*only),
                _ => Some(self.step(*rank, waits(at), 0)),
            });
        }
        let first = self.flows.len() as u32;
        let flows = flows_of(operation, slot_bytes);
        let mut sent = vec![Vec::new(); ranks.len()];
        let mut comes = vec![Vec::new(); ranks.len()];
        let mut is_awaited = vec![false; flows.len()];
        for (index, flow) in flows.iter().enumerate() {
            // A later flow ends after the flows that it waits for, so the rank need not wait for
            // those.
            flow.after.iter().for_each(|after| is_awaited[after.flow as usize] = true);
            sent[flow.source as usize].push(first + index as u32);
            comes[flow.destination as usize].push(index);
        }
        for flow in flows {
            let own = gates[flow.source as usize].map(placed);
            let inner = flow.after.iter().map(|after| After { flow: first + after.flow, ..*after });
            let after = own.into_iter().chain(inner).collect();
            let (from, to) = (ranks[flow.source as usize], ranks[flow.destination as usize]);
            self.push(Flow { after, ..Flow::new(from, to, flow.bytes) });
        }
        let mut ends = Vec::with_capacity(ranks.len());
        for (at, rank) in ranks.iter().enumerate() {
            let comes = comes[at].iter().filter(|index| !is_awaited[**index]);
            let comes = comes.map(|index| placed(first + *index as u32));
            let sent = sent[at].iter().map(|flow| After { flow: *flow, delivered: false });
            let gate = gates[at].map(placed);
            let after = gate.into_iter().chain(comes).chain(sent).collect();
            ends.push(self.step(*rank, after, 0));
        }
        ends
    }
}

/// Returns the flows of an operation between its ranks, which are numbered from 0 here.
fn flows_of(operation: &Operation, slot_bytes: Option<u32>) -> Vec<Flow> {
    let (count, bytes) = (operation.ranks.len() as u32, operation.bytes);
    match operation.kind {
        OperationKind::Send => vec![Flow::new(0, 1, bytes)],
        kind => kind
            .collective()
            .map_or_else(Vec::new, |kind| collective(kind, count, bytes, slot_bytes)),
    }
}

#[cfg(test)]
mod tests;
