//! Words of shared memory in which applications store hints for the scheduler.

use std::sync::{Arc, Weak};

use fairway_runtime::Memory;
use fairway_ub::UbDevice;
use fairway_ub::wire::JettyId;

/// The words from which hints are read, by Jetty.
#[derive(Default)]
pub(super) struct HintWords {
    words: Vec<HintWord>,
}

struct HintWord {
    jetty: JettyId,
    /// A hint word does not keep its memory alive.
    memory: Weak<Memory>,
    offset: usize,
    last: Option<u64>,
}

impl HintWords {
    /// Makes the word at `offset` of a memory the hint of a Jetty from now on.
    pub(super) fn set(&mut self, jetty: JettyId, memory: &Arc<Memory>, offset: usize) {
        self.forget(jetty);
        let memory = Arc::downgrade(memory);
        self.words.push(HintWord { jetty, memory, offset, last: None });
    }

    /// Removes the word of a Jetty that is gone, or that receives its hints another way.
    pub(super) fn forget(&mut self, jetty: JettyId) {
        self.words.retain(|word| word.jetty != jetty);
    }

    /// Passes words that have changed to the NIC. If the memory of a word is gone, its last value
    /// stays.
    pub(super) fn read(&mut self, nic: &mut UbDevice) {
        for word in &mut self.words {
            let Some(memory) = word.memory.upgrade() else { continue };
            let mut bytes = [0; size_of::<u64>()];
            if memory.bytes(word.offset, bytes.len()).read(&mut bytes).is_err() {
                continue;
            }
            let now = u64::from_ne_bytes(bytes);
            if word.last != Some(now) {
                word.last = Some(now);
                nic.set_hint(word.jetty, now);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}
