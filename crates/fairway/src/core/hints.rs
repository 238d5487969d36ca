//! Words of shared memory in which applications say what they want of the scheduler.

use std::sync::{Arc, Weak};

use fairway_engine::Nic;
use fairway_engine::wire::JettyId;
use fairway_runtime::Memory;

/// Where hints are read, by Jetty.
#[derive(Default)]
pub(super) struct HintWords {
    words: Vec<HintWord>,
}

struct HintWord {
    jetty: JettyId,
    /// A word for a hint does not keep memory.
    memory: Weak<Memory>,
    offset: usize,
    last: Option<u64>,
}

impl HintWords {
    /// From now on the hint of a Jetty is the word at `offset`, which lies in the memory.
    pub(super) fn set(&mut self, jetty: JettyId, memory: &Arc<Memory>, offset: usize) {
        self.forget(jetty);
        let memory = Arc::downgrade(memory);
        self.words.push(HintWord { jetty, memory, offset, last: None });
    }

    /// The Jetty is gone, or is told its hints another way.
    pub(super) fn forget(&mut self, jetty: JettyId) {
        self.words.retain(|word| word.jetty != jetty);
    }

    /// Tells the NIC of words that have changed. One whose memory is gone keeps its last value.
    pub(super) fn read(&mut self, nic: &mut Nic) {
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
