//! Which event can have caused which (Fidge, Mattern 1988).

/// Nodes of a program at most.
pub const NODES: usize = 3;

/// A vector clock: how many events of each node came before, or are this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock([u32; NODES]);

impl Clock {
    /// One more event at `node`; gives its time.
    pub fn tick(&mut self, node: usize) -> Clock {
        self.0[node] += 1;
        *self
    }

    /// What `other` knows is known here, too: a message brought it.
    pub fn merge(&mut self, other: &Clock) {
        for (own, others) in self.0.iter_mut().zip(other.0) {
            *own = (*own).max(others);
        }
    }

    /// Does an event at this time come before one at `later` however fast messages travel?
    pub fn is_before(&self, later: &Clock) -> bool {
        self != later && self.0.iter().zip(later.0).all(|(own, others)| *own <= others)
    }
}
