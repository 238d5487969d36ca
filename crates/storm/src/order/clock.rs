//! Vector clocks, which show which event can have caused which (Fidge, Mattern 1988).

/// Maximum number of nodes of a program.
pub const NODES: usize = 3;

/// A vector clock: for each node, the number of its events that precede an event, itself included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock([u32; NODES]);

impl Clock {
    /// Counts one more event at `node`. Returns its time.
    pub fn tick(&mut self, node: usize) -> Clock {
        self.0[node] += 1;
        *self
    }

    /// Merges the clock of a message that arrives here.
    pub fn merge(&mut self, other: &Clock) {
        for (own, others) in self.0.iter_mut().zip(other.0) {
            *own = (*own).max(others);
        }
    }

    /// True if an event at this time precedes one at `later`, however fast messages travel.
    pub fn is_before(&self, later: &Clock) -> bool {
        self != later && self.0.iter().zip(later.0).all(|(own, others)| *own <= others)
    }
}
