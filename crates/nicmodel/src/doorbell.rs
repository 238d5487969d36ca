//! Doorbells shared by several work requests: requests that a core posts one after the other are
//! handed to the NIC at once, as a list.
//!
//! A list ends when it is as long as `batch` allows, or when its core has nothing else to do. One
//! call of the verb library makes a list; each work request is still written by itself.

use crate::path::{Phase, Resource, Step};
use crate::post_list::Parked;
use crate::world::{Continuation, SimEvent, Traversal, World};

impl World {
    /// Registers an operation that this core is going to post. Returns true if it starts a list by
    /// a call of its own, which others may join.
    pub(crate) fn join_list(&mut self, host: usize, core: u32) -> bool {
        let batch = self.costs.config.batch as usize;
        let list = self.nodes[host].lists.entry(core).or_default();
        list.joined += 1;
        (list.joined - 1).is_multiple_of(batch)
    }

    /// Adds a written work request to its list, which either waits for others or is submitted.
    pub(crate) fn park(&mut self, step: Step, traversal: Box<Traversal>) {
        let Resource::Ring { core, bytes, blue_flame } = step.resource else { return };
        let parked = Parked { since: self.events.now, bytes, blue_flame, traversal };
        self.nodes[step.host].lists.entry(core).or_default().parked.push(parked);
        self.look_at_list(step.host, core);
    }

    /// Checks the list again when the core should be free.
    pub(crate) fn look_again(&mut self, host: usize, core: u32) {
        self.nodes[host].lists.entry(core).or_default().is_planned = false;
        self.look_at_list(host, core);
    }

    fn look_at_list(&mut self, host: usize, core: u32) {
        let now = self.events.now;
        let batch = self.costs.config.batch as usize;
        let node = &mut self.nodes[host];
        let busy = node.core_backlog(now, core);
        let list = node.lists.entry(core).or_default();
        let (count, building) = (list.parked.len(), list.joined > list.parked.len());
        if count == 0 || (count < batch && building) {
            // The core checks again when it has written the next work request.
            return;
        }
        if count < batch && busy > 0 {
            if !std::mem::replace(&mut list.is_planned, true) {
                self.events.at(now + busy, SimEvent::Ring { host, core });
            }
            return;
        }
        let all = std::mem::take(&mut list.parked);
        list.joined -= all.len();
        self.doorbells += 1;
        let bytes = all.iter().map(|parked| parked.bytes).sum();
        let blue_flame = all.len() == 1 && all[0].blue_flame;
        let steps = self.costs.doorbell(host, core, bytes, blue_flame);
        self.start(steps, Continuation::Doorbell(all), false);
    }

    /// Handles the work requests of a list that has reached the NIC.
    pub(crate) fn rung(&mut self, all: Vec<Parked>) {
        let now = self.events.now;
        for Parked { since, traversal, .. } in all {
            let sum = &mut self.phases[Phase::Doorbell as usize];
            sum.steps += 1;
            sum.waiting_ps += now - since;
            self.events.at(now, SimEvent::Go(traversal));
        }
    }
}
