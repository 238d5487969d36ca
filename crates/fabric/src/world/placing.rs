//! Payload comes to its place, at once or late, and what was deferred is carried out.

use super::{Effect, Happening, World};
use crate::adversary::Fault;
use crate::finding::Finding;
use crate::node::{Late, What};
use fairway_engine::wire::Duration;
use fairway_engine::{ChannelId, Execution, LocalRange, Nic, PlacementToken};

impl World {
    /// Carries out what the NIC has deferred and is due now.
    pub(super) fn execute(&mut self, node: usize) -> Result<(), Finding> {
        while let Some(execution) = self.nic(node).and_then(Nic::poll_execution) {
            let (target, token, what) = match execution {
                Execution::Copy { from, to, token } => (to, token, What::Copy(from)),
                Execution::Atomic(atomic) => (atomic.target, atomic.token, What::Atomic(atomic)),
            };
            self.adversary.count(Fault::Deferred);
            let channel = token.channel();
            self.do_sometime(node, target, token, channel, what)?;
        }
        Ok(())
    }

    pub(super) fn do_sometime(
        &mut self,
        node: usize,
        target: LocalRange,
        token: PlacementToken,
        channel: ChannelId,
        what: What,
    ) -> Result<(), Finding> {
        self.next_late += 1;
        let late = Late { id: self.next_late, target, token, channel, what };
        if !self.random.chance(self.knobs.late_placement) {
            return self.place(node, late);
        }
        self.adversary.count(Fault::LatePlacement);
        let by = Duration::from_ps(self.random.below(self.knobs.placement_delay.as_ps() + 1));
        let (id, incarnation) = (late.id, self.nodes[node].incarnation);
        self.nodes[node].late.push(late);
        self.agenda.add(self.now + by, Happening::Place { node, incarnation, id });
        Ok(())
    }

    pub(super) fn late(&mut self, node: usize, incarnation: u32, id: u64) -> Result<(), Finding> {
        if self.nodes[node].incarnation != incarnation {
            return Ok(());
        }
        if let Some(at) = self.nodes[node].late.iter().position(|late| late.id == id) {
            let late = self.nodes[node].late.remove(at);
            self.place(node, late)?;
            self.nudge(node);
        }
        Ok(())
    }

    pub(super) fn place(&mut self, node: usize, late: Late) -> Result<(), Finding> {
        let now = self.now;
        let Some(nic) = self.nodes[node].nic.as_mut() else { return Ok(()) };
        let mut old = 0;
        if nic.is_open(late.channel) {
            if let Some(there) = self.missing_after(node, &late.target) {
                return self.unplace(node, &late, there);
            }
            old = self.touch(node, &late)?;
            let target = late.target;
            self.trace.line(now, node, || format!("  placed {target:?}"));
        }
        let Some(nic) = self.nodes[node].nic.as_mut() else { return Ok(()) };
        nic.handle_placed(now, late.token, old);
        self.collect(node);
        self.execute(node)
    }

    /// Does to memory what is to be done; gives the old value of a word.
    fn touch(&mut self, node: usize, late: &Late) -> Result<u64, Finding> {
        let target = late.target;
        let mut old = 0;
        match &late.what {
            What::Place(payload, missed) => {
                self.memory.named(node, &target)?.copy_from_slice(payload);
                self.note_set_aside(node, &target, *missed);
            }
            What::Store(payload, _) => {
                self.memory.named(node, &target)?.copy_from_slice(payload);
            }
            What::Copy(from) => {
                let payload = self.memory.named(node, from)?.to_vec();
                self.memory.named(node, &target)?.copy_from_slice(&payload);
            }
            What::Atomic(atomic) => {
                let bytes = self.memory.named(node, &target)?;
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                old = u64::from_le_bytes(word);
                let new = atomic.operator.apply(old, atomic.operand, atomic.compare);
                bytes.copy_from_slice(&new.to_le_bytes()[..bytes.len()]);
            }
        }
        if let Some(key) = self.memory.key(node, target.segment) {
            let place = (key, target.offset as usize);
            let atomic = match &late.what {
                What::Atomic(atomic) => Some((*atomic, old)),
                _ => None,
            };
            let store = match &late.what {
                What::Store(_, ink) => Some((*ink, late.id)),
                _ => None,
            };
            self.effects.push(Effect { place, length: target.length, atomic, store });
        }
        Ok(old)
    }
}
