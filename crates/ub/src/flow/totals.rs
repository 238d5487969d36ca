//! What flows have sent in all: kept when a flow ends, and continued when it begins again.

use super::{Flows, key_of};
use crate::names::{ChannelIndex, FlowIndex};
use crate::order::{Keyed, KeyedIndex};
use alloc::boxed::Box;
use fairway_policy::{FlowId, Share};
use fairway_wire::JettyId;

/// Sums over the flows of a Jetty and a channel that have ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past {
    pub(crate) jetty: JettyId,
    pub(crate) channel: ChannelIndex,
    pub(crate) answers: bool,
    /// The share of the last flow.
    pub(crate) share: Share,
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Runs of schedulers, wrapping.
    pub(crate) events: u32,
}

pub(crate) type PastIndex = KeyedIndex<Past>;

/// The sums, by channel and Jetty.
pub(super) type Totals = Keyed<Past>;

impl Flows {
    /// Keeps sums for up to `capacity` pairs of a Jetty and a channel from now on.
    pub(crate) fn keep_totals(&mut self, capacity: u32) {
        if self.totals.is_none() {
            self.totals = Some(Box::new(Keyed::new(capacity)));
        }
    }

    /// Notes where the scheduler's count for a flow that begins stands.
    pub(super) fn note_begin(&mut self, index: FlowIndex) {
        let handled = self.schedule.handled(FlowId(index.number()));
        self.records[index].events_before = handled;
    }

    /// Adds a flow that ends to the sums.
    pub(super) fn add_to_totals(&mut self, index: FlowIndex) {
        let flow = self.records[index];
        let events = self.events_of(index);
        if let Some(past) = self.past_of(index) {
            past.share = flow.share;
            past.bytes += flow.bytes;
            past.packets += flow.packets;
            past.events = past.events.wrapping_add(events);
        }
    }

    /// Adds the events of all flows to the sums, before the scheduler that counts them goes.
    pub(crate) fn keep_events(&mut self) {
        for index in self.records.all() {
            let events = self.events_of(index);
            if let Some(past) = self.past_of(index) {
                past.events = past.events.wrapping_add(events);
            }
        }
    }

    /// The sums for a flow, which begin with zero; `None` if they are not kept.
    fn past_of(&mut self, index: FlowIndex) -> Option<&mut Past> {
        let flow = &self.records[index];
        let (jetty, channel, answers) = (flow.jetty, flow.channel, flow.answers);
        let new =
            Past { jetty, channel, answers, share: flow.share, bytes: 0, packets: 0, events: 0 };
        let totals = self.totals.as_mut()?;
        let past = totals.find_or_make(&key_of(channel, jetty, answers), new)?;
        Some(&mut totals[past])
    }

    /// Runs of the scheduler for a flow since it began.
    pub(crate) fn events_of(&self, index: FlowIndex) -> u32 {
        let handled = self.schedule.handled(FlowId(index.number()));
        handled.wrapping_sub(self.records[index].events_before)
    }

    /// All sums that are kept.
    pub(crate) fn pasts(&self) -> impl Iterator<Item = &Past> {
        let totals = self.totals.as_deref();
        totals
            .into_iter()
            .flat_map(|totals| totals.all().map(move |index: PastIndex| &totals[index]))
    }

    /// The sums for a Jetty and a channel, without the present flow.
    pub(crate) fn past(
        &self,
        channel: ChannelIndex,
        jetty: JettyId,
        answers: bool,
    ) -> Option<&Past> {
        let totals = self.totals.as_deref()?;
        Some(&totals[totals.find(&key_of(channel, jetty, answers))?])
    }

    /// The present flow of a Jetty over a channel.
    pub(crate) fn present(&self, past: &Past) -> Option<FlowIndex> {
        self.records.find(&key_of(past.channel, past.jetty, past.answers))
    }
}
