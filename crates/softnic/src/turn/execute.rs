//! Executing: what the engine says is done to memory now, in the order in which it says so.

use fairway_engine::wire::Instant;
use fairway_engine::{AtomicExecution, Execution, LocalRange, PlacementToken};

use crate::core::Core;
use crate::memory::Gone;

impl Core {
    /// Tells the engine that something is in place (`old` is what a word was that was changed), or
    /// that its memory is gone, and carries out what that makes due.
    pub(super) fn placed(&mut self, now: Instant, token: PlacementToken, old: Result<u64, Gone>) {
        self.tell_placed(now, token, old);
        self.execute_due(now);
    }

    fn tell_placed(&mut self, now: Instant, token: PlacementToken, old: Result<u64, Gone>) {
        match old {
            Ok(old) => self.nic.handle_placed(now, token, old),
            Err(Gone) => {
                self.counters.memory_gone += 1;
                self.nic.handle_unplaced(now, token);
            }
        }
    }

    /// Carries out what waited for its turn and is due now. Each step may make more due.
    pub(super) fn execute_due(&mut self, now: Instant) {
        while let Some(execution) = self.nic.poll_execution() {
            let (token, old) = match execution {
                Execution::Copy { from, to, token } => {
                    (token, self.copy_set_aside(&from, &to).map(|()| 0))
                }
                Execution::Atomic(atomic) => (atomic.token, self.change_word(&atomic)),
            };
            self.tell_placed(now, token, old);
        }
    }

    /// Changes a word, atomically with the CPU's own atomics on it. Returns what it was.
    pub(super) fn change_word(&mut self, atomic: &AtomicExecution) -> Result<u64, Gone> {
        self.counters.atomics += 1;
        // As for payload: the engine has checked the target, and its bounds are checked once more.
        let word = self.memories.target(&atomic.target);
        let word = word.expect("the engine changes words of registered memory");
        word.change(atomic.operator, atomic.operand, atomic.compare)
    }

    /// Copies a payload from the stash to where it belongs.
    fn copy_set_aside(&mut self, from: &LocalRange, to: &LocalRange) -> Result<(), Gone> {
        self.counters.placed_late += 1;
        let mut scratch = std::mem::take(&mut self.scratch);
        let bytes = &mut scratch[..from.length as usize];
        let aside = self.memories.source(from);
        let read = aside.expect("the stash is registered memory").read(bytes);
        let room = self.memories.target(to).filter(|_| to.length == from.length);
        let room = room.expect("the engine places payload into registered memory");
        let copied = read.and_then(|()| room.write(bytes));
        self.scratch = scratch;
        copied
    }
}
