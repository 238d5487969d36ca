//! Selects the next event by deficit round robin over flows.

use super::ready_queue::{EventKind, Kinds, ReadyQueue};
use crate::list::Ring;
use alloc::vec::Vec;
use fairway_policy::FlowId;

/// Returns events one at a time. Each flow in turn receives `quantum`; an event costs what its kind
/// does; a flow without enough left for its next event keeps the rest for its next turn. So a flow
/// with many or expensive kinds of events does not delay the others.
#[derive(Debug)]
pub struct Multiplexer<K> {
    waiting: Ring<u32>,
    /// By flow: kinds of pending events, and what the flow may still spend.
    kinds: Vec<Kinds<K>>,
    deficit: Vec<u32>,
    /// By kind: what an event costs.
    cost: Vec<u32>,
    quantum: u32,
    /// The flow whose turn it is.
    turn: Option<FlowId>,
}

impl<K: EventKind> Multiplexer<K> {
    /// Creates a multiplexer for `flows` flows, with the same cost for all kinds and one event in a
    /// turn.
    pub fn new(flows: u32) -> Multiplexer<K> {
        Multiplexer {
            waiting: Ring::new(flows),
            kinds: alloc::vec![Kinds::new(0); flows as usize],
            deficit: alloc::vec![0; flows as usize],
            cost: alloc::vec![1; K::ALL.len()],
            quantum: 1,
            turn: None,
        }
    }

    /// Sets the cost of an event of each kind, and what a flow may spend in a turn, in the same
    /// unit. The quantum is raised to at least 1, a cost limited to 2^16.
    pub fn set_costs(&mut self, cost: impl Fn(K) -> u32, quantum: u32) {
        self.cost.clear();
        self.cost.extend(K::ALL.iter().map(|&kind| cost(kind).min(1 << 16)));
        self.quantum = quantum.max(1);
    }

    /// Takes all announcements from `ready` and returns the next event.
    pub fn next(&mut self, ready: &ReadyQueue<K>) -> Option<(FlowId, K)> {
        while let Some((flow, kinds)) = ready.pop() {
            self.add(flow, kinds);
        }
        self.select()
    }

    /// Adds events of a flow that the caller has taken from a queue.
    pub fn add(&mut self, flow: FlowId, kinds: Kinds<K>) {
        let mine = &mut self.kinds[flow.index()];
        let is_new = mine.0 == 0 && self.turn != Some(flow);
        mine.0 |= kinds.0;
        if is_new && kinds.0 != 0 {
            self.waiting.push(flow.0);
        }
    }

    /// True if no event is pending here; the queue may hold further ones.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.turn.is_none_or(|flow| self.kinds[flow.index()].0 == 0)
    }

    /// Returns the next event of those that have been added.
    pub fn select(&mut self) -> Option<(FlowId, K)> {
        loop {
            let flow = match self.turn {
                Some(flow) => flow,
                None => {
                    let flow = FlowId(self.waiting.pop()?);
                    let deficit = &mut self.deficit[flow.index()];
                    *deficit = deficit.saturating_add(self.quantum);
                    self.turn = Some(flow);
                    flow
                }
            };
            let kinds = &mut self.kinds[flow.index()];
            let next = K::ALL.iter().copied().find(|&kind| kinds.has(kind));
            let Some(kind) = next else {
                // A flow without events keeps no deficit.
                self.deficit[flow.index()] = 0;
                self.turn = None;
                continue;
            };
            let cost = self.cost[kind.index()];
            if self.deficit[flow.index()] < cost {
                self.turn = None;
                self.waiting.push(flow.0);
                continue;
            }
            self.deficit[flow.index()] -= cost;
            kinds.0 &= !(1 << kind.index());
            return Some((flow, kind));
        }
    }
}

#[cfg(test)]
mod tests;
