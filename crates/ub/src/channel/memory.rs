//! Names the memory that the next packets of a channel touch.

use super::Channel;
use crate::shared::Shared;
use fairway_policy::MemoryVisitor;

/// Number of stages of [`Channel::visit_memory`].
pub(crate) const MEMORY_STAGES: u8 = 4;
/// Packets whose acknowledgement, and packets whose departure, is looked ahead to.
const PACKETS: u32 = 16;

impl Channel {
    /// Names the memory that the next packets touch. Each stage reads what the one before has
    /// named.
    pub(crate) fn visit_memory(&self, shared: &Shared, stage: u8, visitor: &mut MemoryVisitor<'_>) {
        let sends = !self.tp.is_idle() || !self.line.is_empty();
        match stage {
            0 => visitor.value(self),
            1 => {
                visitor.value(&*self.bypass);
                self.tp.receive().visit_memory(visitor);
                if sends {
                    visitor.value(self.congestion.controller());
                    visitor.value(self.paths.choice());
                    visitor.value(self.recovery.detector());
                    self.send.visit_window(self.tp.oldest(), self.tp.next(), visitor);
                }
            }
            2 if sends => {
                self.paths.choice().visit_memory(visitor);
                let count = self.tp.psns_in_use().min(PACKETS);
                for place in 0..count {
                    let psn = self.tp.oldest().plus(place);
                    if let Some(sent) = self.send.peek(psn, &shared.send_blocks) {
                        visitor.value(sent);
                    }
                }
                if let Some(sent) = self.send.peek(self.tp.next(), &shared.send_blocks) {
                    visitor.value(sent);
                }
            }
            3 if sends => {
                let count = self.tp.psns_in_use().min(PACKETS);
                for place in 0..count {
                    let psn = self.tp.oldest().plus(place);
                    if let Some(sent) = self.send.peek(psn, &shared.send_blocks) {
                        self.paths.visit_path(usize::from(sent.path), visitor);
                    }
                }
                for place in 0..PACKETS as usize {
                    let path = self.paths.choice().foresee(self.paths.count(), place);
                    let Some(path) = path else { break };
                    self.paths.visit_path(path, visitor);
                }
            }
            _ => {}
        }
    }
}
