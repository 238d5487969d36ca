//! The end of a storm: everything is closed, and every record has to be back in its pool.

use super::Storm;
use crate::finding::Finding;
use crate::operation::State;
use fairway_ub::wire::{Duration, Instant};

impl Storm {
    /// Closes, destroys and deregisters everything, and checks that every record is free.
    pub(super) fn tear_down(&mut self) -> Result<(), Finding> {
        for index in 0..self.plan.links.len() {
            let sides: &[usize] = self.random.pick(&[&[0], &[1], &[0, 1]]);
            for &side in sides {
                self.workload.close(&mut self.world, &mut self.model, &self.plan, (index, side))?;
            }
        }
        let bound = self.world.now + self.closing_time();
        while self.channels_left() > 0 {
            self.run_for(Duration::from_ms(1))?;
            if bound.is_before(self.world.now) {
                return Err(
                    format!("{} channels are left after closing", self.channels_left()).into()
                );
            }
        }
        self.mail.finish(&mut self.world, &self.model)?;
        for node in 0..self.world.nodes.len() {
            self.strip(node)?;
        }
        Ok(())
    }

    /// Returns a time longer than a closing side retries and a closed one lingers. A side that was
    /// closed while its peer could not receive the close takes as long as detecting a dead peer.
    fn closing_time(&self) -> Duration {
        let silence = self.plan.profiles.iter().map(|profile| profile.peer_dead.times(2));
        silence.fold(Duration::ZERO, Duration::max).saturating_add(Duration::from_secs(1))
    }

    /// Describes what is unfinished long after the healing.
    pub(super) fn stall(&self, healed: Instant) -> String {
        let waited = self.world.now.since(healed).as_us();
        let pending = self
            .model
            .operations
            .iter()
            .enumerate()
            .filter(|(_, operation)| operation.state == State::Pending && operation.signaled);
        let mut text = format!(
            "stall: {} operations are unfinished {waited} us after everything was healed",
            self.model.pending + self.mail.pending
        );
        for put in self.mail.puts.iter().filter(|put| put.status.is_none()).take(3) {
            text += &format!("\n  {put:?}");
        }
        for (id, operation) in pending.take(3) {
            text += &format!("\n  {id}: {operation:?}");
        }
        for link in &self.plan.links {
            text += &format!("\n  {link:?}");
        }
        for (number, node) in self.world.nodes.iter().enumerate() {
            if let Some(nic) = node.nic() {
                text += &format!("\n  node {number}: {:?} {:?}", nic.usage(), nic.counters());
            }
        }
        text
    }

    fn channels_left(&self) -> u32 {
        let nics = self.world.nodes.iter().filter_map(|node| node.nic());
        nics.map(|nic| nic.usage().channels).sum()
    }

    fn strip(&mut self, node: usize) -> Result<(), Finding> {
        for number in 0..self.plan.jetties {
            let (world, model) = (&mut self.world, &mut self.model);
            self.workload.destroy(world, model, &self.plan, (node, number))?;
        }
        for at in 0..self.workload.applications[node].groups.len() {
            self.workload.destroy_group(&mut self.world, &mut self.model, node, at)?;
        }
        self.mail.strip(&mut self.world, node)?;
        self.world.look(node);
        self.listen(node)?;
        let segments = std::mem::take(&mut self.workload.applications[node].segments);
        for segment in segments {
            if !self.world.deregister(node, segment.id)? {
                return Err(format!("node {node}: {segment:?} is still used at the end").into());
            }
        }
        let staging = self.workload.applications[node].staging.take();
        if let (Some(staging), Some(nic)) = (staging, self.world.nic(node)) {
            nic.clear_staging();
            if !self.world.deregister(node, staging)? {
                return Err(
                    format!("node {node}: its staging memory is still used at the end").into()
                );
            }
        }
        let queues = std::mem::take(&mut self.world.nodes[node].queues);
        let Some(nic) = self.world.nic(node) else { return Ok(()) };
        let usage = nic.usage();
        if usage != fairway_ub::Usage::default() {
            return Err(format!("node {node}: everything is closed, but {usage:?}").into());
        }
        for queue in queues {
            nic.destroy_completion_queue(queue).map_err(|error| format!("{queue:?}: {error:?}"))?;
        }
        Ok(())
    }
}
