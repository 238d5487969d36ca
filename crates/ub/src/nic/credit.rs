//! Credit that this NIC grants as receiver, and back-pressure that it reports.

use super::{UbDevice, channel_at};
use crate::api::{ChannelId, Received};
use crate::limits::HEADER_BYTES;
use crate::names::ChannelIndex;
use alloc::boxed::Box;
use fairway_policy::{CreditPolicy, SourceId};
use fairway_wire::{Instant, Packet};

impl UbDevice {
    /// Sets the policy that grants credit to senders; `None` grants all requests in full. Call this
    /// before channels are opened.
    pub fn set_credit_policy(&mut self, policy: Option<Box<dyn CreditPolicy>>) {
        self.shared.backpressure.set_credit(policy);
    }

    /// Requests all peers, in the acknowledgements sent from now on, to slow down (or no longer):
    /// for callers that know the host to be short of CPU time, memory or bus bandwidth.
    pub fn set_pressure(&mut self, pressure: bool) {
        self.shared.backpressure.set_receive(pressure);
    }

    /// Makes congestion controls here treat every acknowledgement as one whose receiver requests
    /// them to slow down (or no longer): for callers that know the transmit queues of this host to
    /// be full.
    pub fn set_transmit_pressure(&mut self, pressure: bool) {
        self.shared.backpressure.set_transmit(pressure);
    }

    /// True if peers are requested to slow down.
    pub fn is_under_pressure(&self) -> bool {
        self.shared.backpressure.slows_peers()
    }

    /// Runs the credit policy and sends what it grants.
    pub(super) fn run_credit(&mut self, now: Instant) {
        loop {
            let Some(policy) = self.shared.backpressure.credit_mut() else { return };
            let Some(grant) = policy.poll_credit(now) else { return };
            if let Some(channel) = channel_at(&mut self.entries, ChannelIndex::of(grant.source.0)) {
                channel.grant(&mut self.shared.counters, &mut self.shared.schedule, &grant);
            }
        }
    }

    /// Reports received data to the credit policy, on credit or not, because it has used time on
    /// the link. For a trimmed packet only the headers count.
    pub(super) fn note_arrival(
        &mut self,
        now: Instant,
        id: ChannelId,
        received: &Received,
        trimmed: bool,
    ) {
        if let (Packet::Data(_), Some(policy)) =
            (&received.packet, self.shared.backpressure.credit_mut())
        {
            let bytes = if trimmed { 0 } else { received.payload } + HEADER_BYTES;
            policy.on_data(now, SourceId(id.index() as u32), bytes);
        }
        self.run_credit(now);
    }

    /// Time at which the credit policy must run again.
    pub(super) fn credit_at(&self) -> Option<Instant> {
        self.shared.backpressure.credit()?.poll_at()
    }
}
