//! Executing: what the engine says is done to memory now, in the order in which it says so.

use fairway_engine::wire::Instant;
use fairway_engine::{AtomicExecution, Execution, LocalRange, PlacementToken};

use crate::core::Core;

impl Core {
    /// Tells the engine that something is in place, and carries out what that makes due.
    pub(super) fn placed(&mut self, now: Instant, token: PlacementToken, old: u64) {
        self.nic.handle_placed(now, token, old);
        self.execute_due(now);
    }

    /// Carries out what waited for its turn and is due now. Each step may make more due.
    pub(super) fn execute_due(&mut self, now: Instant) {
        while let Some(execution) = self.nic.poll_execution() {
            let (token, old) = match execution {
                Execution::Copy { from, to, token } => {
                    self.copy_set_aside(&from, &to);
                    (token, 0)
                }
                Execution::Atomic(atomic) => (atomic.token, self.change_word(&atomic)),
            };
            self.nic.handle_placed(now, token, old);
        }
    }

    /// Changes a word, atomically with the CPU's own atomics on it. Returns what it was.
    pub(super) fn change_word(&mut self, atomic: &AtomicExecution) -> u64 {
        self.counters.atomics += 1;
        // As for payload: the engine has checked the target, and its bounds are checked once more.
        let word = self.memories.target(&atomic.target);
        let word = word.expect("the engine changes words of registered memory");
        word.change(atomic.operator, atomic.operand, atomic.compare)
    }

    /// Copies a payload from the stash to where it belongs.
    fn copy_set_aside(&mut self, from: &LocalRange, to: &LocalRange) {
        self.counters.placed_late += 1;
        let mut scratch = std::mem::take(&mut self.scratch);
        let bytes = &mut scratch[..from.length as usize];
        let aside = self.memories.source(from);
        aside.expect("the stash is registered memory").read(bytes);
        let room = self.memories.target(to).filter(|_| to.length == from.length);
        room.expect("the engine places payload into registered memory").write(bytes);
        self.scratch = scratch;
    }
}
