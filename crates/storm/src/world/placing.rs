//! Places payload, at once or late, and executes deferred operations.

use super::{Effect, World, WorldEvent};
use crate::adversary::Fault;
use crate::finding::Finding;
use crate::node::{Access, Late};
use crate::operation::Missed;
use fairway_device::drive;
use fairway_ub::ChannelId;
use fairway_ub::wire::Duration;

impl World {
    /// Executes the NIC's deferred operations that are due.
    pub(super) fn execute(&mut self, node: usize) -> Result<(), Finding> {
        let now = self.now;
        while let Some(driver) = self.nodes[node].driver.as_mut()
            && let Some(access) = driver.poll_access(now)
        {
            self.adversary.count(Fault::Deferred);
            let channel = access.token().channel();
            self.do_sometime(node, access, channel, None)?;
        }
        Ok(())
    }

    pub(super) fn do_sometime(
        &mut self,
        node: usize,
        access: Access,
        channel: ChannelId,
        missed: Option<Missed>,
    ) -> Result<(), Finding> {
        self.next_late += 1;
        let late = Late { id: self.next_late, access, channel, missed };
        if !self.random.chance(self.config.late_placement) {
            return self.place(node, late);
        }
        self.adversary.count(Fault::LatePlacement);
        let by = Duration::from_ps(self.random.below(self.config.placement_delay.as_ps() + 1));
        let (id, incarnation) = (late.id, self.nodes[node].incarnation);
        self.nodes[node].late.push(late);
        self.agenda.add(self.now + by, WorldEvent::Place { node, incarnation, id });
        Ok(())
    }

    pub(super) fn late(&mut self, node: usize, incarnation: u32, id: u64) -> Result<(), Finding> {
        if self.nodes[node].incarnation != incarnation {
            return Ok(());
        }
        if let Some(at) = self.nodes[node].late.iter().position(|late| late.id == id) {
            let late = self.nodes[node].late.remove(at);
            self.place(node, late)?;
            self.schedule_poll(node);
        }
        Ok(())
    }

    pub(super) fn place(&mut self, node: usize, late: Late) -> Result<(), Finding> {
        let now = self.now;
        let Some(nic) = self.nodes[node].nic() else { return Ok(()) };
        let mut old = 0;
        if nic.is_open(late.channel) {
            let target = late.target();
            if let Some(there) = self.missing_after(node, &target) {
                return self.unplace(node, &late, there);
            }
            old = self.touch(node, &late)?;
            self.trace.line(now, node, || format!("  placed {target:?}"));
        }
        let Some(driver) = self.nodes[node].driver.as_mut() else { return Ok(()) };
        driver.handle_placed(now, late.access.token(), old);
        self.collect(node);
        self.execute(node)
    }

    /// Carries out an access and records its effect. Returns the old value of a word.
    fn touch(&mut self, node: usize, late: &Late) -> Result<u64, Finding> {
        let old = late.access.carry_out(&mut self.memory.of(node))?;
        let target = late.target();
        if matches!(late.access, drive::Access::Place { .. }) {
            self.note_set_aside(node, &target, late.missed);
        }
        if let Some(key) = self.memory.key(node, target.segment) {
            let place = (key, target.offset as usize);
            let atomic = match late.access {
                drive::Access::Atomic(atomic) => Some((atomic, old)),
                _ => None,
            };
            let store = match late.missed {
                Some(Missed::Store(ink)) => Some((ink, late.id)),
                _ => None,
            };
            self.effects.push(Effect { place, length: target.length, atomic, store });
        }
        Ok(old)
    }
}
