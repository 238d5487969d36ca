//! Operations that wait for others, before they are in an order in which all ranks can execute
//! them.

use super::error::{ImportError, Place, Wrong};
use crate::traffic::trace::FLOWS_MAX;
use crate::traffic::{Operation, OperationKind, Trace};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An operation, and those that must precede it.
struct Node {
    operation: Operation,
    before: Vec<usize>,
    place: Place,
}

/// Operations and their dependencies.
#[derive(Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    /// Number of dependencies.
    waits: usize,
}

impl Graph {
    /// Adds an operation, which waits for nothing yet, and returns its number.
    ///
    /// # Errors
    /// If its length is not that of an operation, or if there are too many operations.
    pub(super) fn add(
        &mut self,
        name: String,
        kind: OperationKind,
        ranks: Vec<u32>,
        bytes: u128,
        place: &Place,
    ) -> Result<usize, ImportError> {
        let computes = matches!(kind, OperationKind::Compute { .. });
        let fits = u32::try_from(bytes).ok().filter(|bytes| computes || *bytes > 0);
        let bytes = fits.ok_or_else(|| place.clone().is(Wrong::Bytes { bytes }))?;
        if self.nodes.len() >= FLOWS_MAX {
            return Err(place.clone().is(Wrong::TooLong));
        }
        let operation = Operation { name, kind, ranks, bytes, after: None };
        self.nodes.push(Node { operation, before: Vec::new(), place: place.clone() });
        Ok(self.nodes.len() - 1)
    }

    /// Adds an end of several operations of one rank, and returns its number.
    pub(super) fn join(
        &mut self,
        rank: u32,
        of: &[usize],
        place: &Place,
    ) -> Result<usize, ImportError> {
        let kind = OperationKind::Compute { ps: 0 };
        let joined = self.add(String::new(), kind, vec![rank], 0, place)?;
        self.wait(joined, of)?;
        Ok(joined)
    }

    /// Makes an operation wait for others.
    pub(super) fn wait(&mut self, node: usize, before: &[usize]) -> Result<(), ImportError> {
        self.waits += before.len();
        let node = &mut self.nodes[node];
        if self.waits > FLOWS_MAX {
            return Err(node.place.clone().is(Wrong::TooLong));
        }
        node.before.extend(before);
        Ok(())
    }

    /// Brings the operations into an order in which each follows those that it waits for.
    pub(super) fn trace(mut self, ranks: u32) -> Result<Trace, ImportError> {
        let count = self.nodes.len();
        let mut after = vec![Vec::new(); count];
        let mut missing = vec![0; count];
        for (number, node) in self.nodes.iter_mut().enumerate() {
            node.before.sort_unstable();
            node.before.dedup();
            missing[number] = node.before.len();
            node.before.iter().for_each(|before| after[*before].push(number));
        }
        let mut ready: BinaryHeap<Reverse<usize>> =
            (0..count).filter(|number| missing[*number] == 0).map(Reverse).collect();
        let mut place_of = vec![usize::MAX; count];
        let mut order = Vec::with_capacity(count);
        while let Some(Reverse(number)) = ready.pop() {
            place_of[number] = order.len();
            order.push(number);
            for next in &after[number] {
                missing[*next] -= 1;
                if missing[*next] == 0 {
                    ready.push(Reverse(*next));
                }
            }
        }
        if let Some(stuck) = (0..count).find(|number| missing[*number] > 0) {
            let Node { operation, place, .. } = &self.nodes[stuck];
            return Err(place.clone().is(Wrong::Circle(operation.name.clone())));
        }
        let operations = order.iter().map(|number| {
            let node = &mut self.nodes[*number];
            let before = std::mem::take(&mut node.before);
            let mut operation = std::mem::replace(&mut node.operation, empty());
            operation.after = Some(before.into_iter().map(|before| place_of[before]).collect());
            operation
        });
        Ok(Trace { ranks, operations: operations.collect() })
    }
}

fn empty() -> Operation {
    let kind = OperationKind::Compute { ps: 0 };
    Operation { name: String::new(), kind, ranks: Vec::new(), bytes: 0, after: None }
}
