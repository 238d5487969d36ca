//! The way of a message at the target after the NIC has placed it: the completion entry, the core
//! that polls for it, a dispatcher if software chooses among the members, and the member itself,
//! which handles the message and posts its receive again. (For `fanout` only; in other workloads
//! receives cost nothing.)

use crate::adapter::Done;
use crate::config::Dispatching;
use crate::constants::ps;
use crate::fanout::Handled;
use crate::path::{Phase, Resource, Steps};
use crate::world::{Continuation, World};

impl World {
    /// Handles a completed receive.
    pub(crate) fn received(&mut self, host: usize, done: &Done) {
        let Some(fanout) = self.costs.config.fanout() else {
            return self.nodes[host].adapter.repost(done.id);
        };
        let by_software = fanout.dispatch == Dispatching::Cpu;
        let member = if by_software {
            self.turn += 1;
            (self.turn % u64::from(fanout.members)) as u32
        } else {
            done.endpoint % fanout.members
        };
        let constants = &self.costs.config.constants;
        let spread = constants.serve_spread.min(1.0);
        let factor = 1.0 - spread + spread * self.random.exponential();
        let serve = ps(constants.serve_ns * factor);
        let [polls, library, dispatch] = [
            if self.costs.pcie { constants.cqe_poll_pcie_ns } else { constants.cqe_poll_chip_ns },
            constants.poll_lib_ns,
            constants.dispatch_ns,
        ]
        .map(ps);
        // Members use the first cores; the dispatcher has a core of its own.
        let who = if by_software { fanout.members } else { member };
        let costs = &self.costs;
        let mut steps: Steps = Vec::with_capacity(4);
        steps.push(costs.receive_entry(host));
        let polling = polls + library;
        steps.push(costs.step(Phase::ReceiveQueue, host, Resource::Core(who), polling, polling));
        if by_software {
            let core = Resource::Core(who);
            steps.push(costs.step(Phase::Dispatch, host, core, dispatch, dispatch));
        }
        steps.push(costs.step(Phase::Serve, host, Resource::Core(member), serve, serve));
        self.start(steps, Continuation::Handled { host, receive: done.id, member }, false);
    }

    /// Handles the end of a member's work on a message: its bytes are checked, and its receive is
    /// posted again.
    pub(crate) fn handled(&mut self, host: usize, receive: u64, member: u32) {
        let range = self.nodes[host].adapter.receive_buffer(receive);
        let bytes = self.nodes[host].bytes(&range).to_vec();
        self.handled.push(Handled { bytes, member });
        self.nodes[host].adapter.repost(receive);
        self.touched.insert(host);
    }
}
