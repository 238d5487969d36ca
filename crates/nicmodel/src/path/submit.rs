//! Steps from the application to the NIC: verb library, work requests, doorbells, sequence numbers.

use super::{CostModel, Phase, Resource, Steps};
use crate::adapter::Post;
use crate::config::Stack;
use crate::constants::ps;

impl CostModel {
    /// Steps from the application to the NIC, with a library call of its own or as one request of a
    /// list.
    pub(crate) fn submit(
        &self,
        host: usize,
        core: u32,
        post: &Post,
        contexts: (u32, u32),
        call: bool,
    ) -> Steps {
        let constants = &self.config.constants;
        let mut steps = Vec::with_capacity(8);
        let context = Resource::Context { transport: contexts.0, jetty: post.jetty };
        let lookup = self.step(Phase::InitiatorContext, host, context, 0, 0);
        if !self.rings(post) {
            steps.push(self.bus(Phase::Doorbell, host, 64));
            if self.config.stack == Stack::Coherent {
                return steps;
            }
            steps.push(lookup);
            self.sequence(&mut steps, host, post, contexts.0);
            return steps;
        }
        if call {
            steps.push(self.core(Phase::Library, host, core, constants.post_lib_ns));
        }
        steps.push(self.core(Phase::Request, host, core, constants.wqe_ns));
        let wqe = constants.wqe_bytes as u32;
        let bytes = if self.pcie { wqe + self.inline(post) } else { wqe };
        let blue_flame = self.config.stack == Stack::RoceBf && self.fits_inline(post);
        if self.config.batch > 1 {
            let ring = Resource::Ring { core, bytes, blue_flame };
            steps.push(self.step(Phase::Doorbell, host, ring, 0, 0));
        } else {
            steps.extend(self.doorbell(host, core, bytes, blue_flame));
        }
        steps.push(lookup);
        self.sequence(&mut steps, host, post, contexts.0);
        steps
    }

    /// True if the operation is posted as a work request with a doorbell.
    pub(crate) fn rings(&self, post: &Post) -> bool {
        !post.bypass && !self.by_instruction(post.verb)
    }

    /// Steps of `bytes` of work requests to the NIC, with a single doorbell.
    pub(crate) fn doorbell(&self, host: usize, core: u32, bytes: u32, blue_flame: bool) -> Steps {
        let constants = &self.config.constants;
        if !self.pcie {
            return vec![self.bus(Phase::Doorbell, host, bytes)];
        }
        let mut steps = Vec::with_capacity(4);
        if !self.config.oracle {
            let hold = ps(constants.mmio_hold_ns);
            steps.push(self.step(Phase::Doorbell, host, Resource::Core(core), hold, 0));
        }
        let rung = if blue_flame { bytes } else { 8 };
        let mmio = ps(constants.mmio_ns);
        steps.push(self.step(Phase::Doorbell, host, Resource::ToNic, self.tlp_ps(rung), mmio));
        if !blue_flame {
            self.dma_read(&mut steps, Phase::Fetch, host, bytes);
        }
        steps
    }

    /// Bytes of payload that travel in the work request.
    fn inline(&self, post: &Post) -> u32 {
        let limit = self.config.constants.inline_bytes as u32;
        if post.verb.is_outgoing() && post.length <= limit { post.length } else { 0 }
    }

    /// True if the work request is short. A READ's is always short, but the paper's model considers
    /// the length of the data all the same (Fig. 26).
    fn fits_inline(&self, post: &Post) -> bool {
        let fits = f64::from(post.length) <= self.config.constants.inline_bytes;
        fits || (!self.config.oracle && !post.verb.is_outgoing())
    }

    fn sequence(&self, steps: &mut Steps, host: usize, post: &Post, transport: u32) {
        let constants = &self.config.constants;
        if !self.config.stack.is_ub() {
            let latency = ps(constants.roce_psn_ns);
            steps.push(self.step(Phase::Sequence, host, Resource::Nothing, 0, latency));
        } else if self.config.oracle {
            let strict = post.order != crate::Ordering::None;
            let shared = ps(constants.ub_psn_ns) * u64::from(self.config.jetties - 1);
            // The paper counts connections as part of `jetties`, too; those share no channel.
            let shared = if self.config.connections > 1 { 0 } else { shared };
            let gate = if strict { ps(constants.so_gate_ns) } else { 0 };
            steps.push(self.step(Phase::Sequence, host, Resource::Nothing, 0, shared + gate));
        } else if !post.bypass {
            let hold = ps(constants.ub_psn_ns);
            steps.push(self.step(Phase::Sequence, host, Resource::Psn(transport), hold, 0));
        }
    }
}
