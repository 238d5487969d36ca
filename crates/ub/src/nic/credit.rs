//! Credit that this NIC grants as receiver, and pressure that it tells of.

use super::{UbDevice, channel_at};
use crate::api::{ChannelId, Received};
use crate::limits::HEADER_BYTES;
use crate::names::ChannelIndex;
use alloc::boxed::Box;
use fairway_policy::{CreditPolicy, SourceId};
use fairway_wire::{Instant, Packet};

impl UbDevice {
    /// Sets the policy that grants credit to senders; `None` grants whatever is asked for. To be
    /// set before channels are opened.
    pub fn set_credit_policy(&mut self, policy: Option<Box<dyn CreditPolicy>>) {
        self.shared.backpressure.set_credit(policy);
    }

    /// Tells all peers, with the acknowledgements that go out from now on, that they are to slow
    /// down (or no longer): for callers that know the host to be short of CPU time, memory or bus
    /// bandwidth.
    pub fn set_pressure(&mut self, pressure: bool) {
        self.shared.backpressure.set_receive(pressure);
    }

    /// Has congestion controls here take every acknowledgement for one of a receiver that asks them
    /// to slow down (or no longer): for callers that know the queues by which packets leave to be
    /// full.
    pub fn set_transmit_pressure(&mut self, pressure: bool) {
        self.shared.backpressure.set_transmit(pressure);
    }

    /// Are peers told to slow down?
    pub fn is_under_pressure(&self) -> bool {
        self.shared.backpressure.slows_peers()
    }

    /// Has the credit policy grant what it will.
    pub(super) fn run_credit(&mut self, now: Instant) {
        loop {
            let Some(policy) = self.shared.backpressure.credit_mut() else { return };
            let Some(grant) = policy.poll_credit(now) else { return };
            if let Some(channel) = channel_at(&mut self.entries, ChannelIndex::of(grant.source.0)) {
                channel.grant(&mut self.shared.counters, &mut self.shared.schedule, &grant);
            }
        }
    }

    /// Data has come, on credit or not: it has taken its time on the line. Of a packet that was
    /// trimmed only the headers have.
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

    /// When it wants to grant again.
    pub(super) fn credit_at(&self) -> Option<Instant> {
        self.shared.backpressure.credit()?.poll_at()
    }
}
