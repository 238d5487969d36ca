//! Steers flows to the threads of a pool.

/// Assigns each flow to one of the threads of a pool by its number: flow `n` belongs to thread
/// `n` modulo the number of threads.
///
/// Numbers of flows and channels are dense and the smallest free one is used first, so flows that
/// are opened one after the other are distributed evenly, and up to the number of threads each has
/// a thread of its own (SCR §4.3.3). The assignment needs no state. So it cannot change while a
/// flow exists, and a flow that takes over the number of an ended one is handled by the thread
/// that may still hold events of the latter. When flows end unevenly, so is what remains: nothing
/// moves a flow to another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    threads: u32,
}

impl Steering {
    /// Steers to `threads` threads, raised to at least 1.
    pub const fn new(threads: u32) -> Steering {
        Steering { threads: if threads == 0 { 1 } else { threads } }
    }

    /// Number of threads.
    pub const fn threads(self) -> u32 {
        self.threads
    }

    /// The thread that handles the events of a flow, or of a channel, with this number.
    pub const fn thread_of(self, flow: u32) -> u32 {
        flow % self.threads
    }
}

impl Default for Steering {
    /// One thread.
    fn default() -> Self {
        Steering::new(1)
    }
}

#[cfg(test)]
mod tests;
