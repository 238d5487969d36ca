//! Names the memory that the next packets of a device touch.

use super::{EntryState, UbDevice};
use crate::channel::MEMORY_STAGES;
use fairway_policy::MemoryVisitor;

/// Most channels of a device whose memory is named: of more, few have packets at a time.
const CHANNELS_MAX: usize = 4;

impl UbDevice {
    /// Number of stages of [`Self::visit_memory`].
    pub const MEMORY_STAGES: u8 = 2 + MEMORY_STAGES;

    /// Names the memory that the next packets touch, for a caller that drives many devices and can
    /// have memory in the CPU's cache before it is used. Each stage, from 0 on, reads what the one
    /// before has named. Changes nothing.
    pub fn visit_memory(&self, stage: u8, visitor: &mut MemoryVisitor<'_>) {
        let entries = &self.entries[..self.entries.len().min(CHANNELS_MAX)];
        match stage {
            0 => {
                visitor.value(&self.entries);
                visitor.value(&self.turns);
                visitor.value(&self.controllers);
                visitor.value(&self.scheduler);
                self.shared.visit_memory(visitor);
            }
            1 => {
                visitor.value(entries);
                visitor.value(&*self.turns);
                self.shared.visit_tables(visitor);
            }
            _ if self.entries.len() > CHANNELS_MAX => {}
            _ => {
                for entry in entries {
                    if let EntryState::Open(channel) = &entry.state {
                        channel.visit_memory(&self.shared, stage - 2, visitor);
                    }
                }
            }
        }
    }
}
