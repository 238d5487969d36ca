//! Flows, and the scheduler that shares the NIC among them.

use super::{UbDevice, channel_at};
use crate::api::{ChannelId, SetupError};
use crate::control::{Processor, ProcessorStats};
use crate::names::{ChannelIndex, FlowIndex};
use alloc::boxed::Box;
use fairway_policy::{FlowId, RateRegisters, Scheduler, Share};
use fairway_wire::{Instant, JettyId};

/// Events that a scheduler processes between two packets, if it runs in line with the data path.
const EVENTS_PER_PACKET: u32 = 4;

/// A flow of a NIC: what one Jetty sends over one channel, or the answers to the READs of one Jetty
/// of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowView {
    /// The flow's number, which is reused after the flow has ended.
    pub flow: FlowId,
    /// The local Jetty; for answers, the peer's.
    pub jetty: JettyId,
    /// The channel.
    pub channel: ChannelId,
    /// True if the flow consists of answers.
    pub answers: bool,
    /// The flow's tenant and its weight.
    pub share: Share,
    /// Bytes sent since the flow began, including headers and excluding retransmissions.
    pub bytes: u64,
    /// Packets sent since the flow began, excluding retransmissions.
    pub packets: u64,
    /// Messages with something that has not been sent yet.
    pub messages_waiting: u32,
    /// The flow's dequeue rate in bytes per second; `None` if there is no limit.
    pub dequeue_rate: Option<u64>,
    /// How often the scheduler was run for flows of this number, wrapping; zero without one.
    pub events: u32,
}

impl UbDevice {
    /// Lets a scheduler share the NIC among flows, in line with the data path; `None` for the
    /// default: a chunk of each message in turn. May be changed at any time; memory is allocated
    /// here.
    pub fn set_scheduler(&mut self, now: Instant, controller: Option<Box<dyn Scheduler>>) {
        self.scheduler = self.make_scheduler(now, controller).map(Box::new);
    }

    /// Like [`Self::set_scheduler`], but the caller runs the scheduler ([`Processor::run`]): the
    /// data path only adds events, and reads rates.
    pub fn detach_scheduler(&mut self, now: Instant, controller: Box<dyn Scheduler>) -> Processor {
        self.scheduler = None;
        let Some(processor) = self.make_scheduler(now, Some(controller)) else {
            unreachable!("a scheduler makes a processor");
        };
        processor
    }

    fn make_scheduler(
        &mut self,
        now: Instant,
        controller: Option<Box<dyn Scheduler>>,
    ) -> Option<Processor> {
        let flows = &mut self.shared.flows;
        flows.now = now;
        flows.keep_events();
        let processor = flows.schedule.set_scheduler(controller);
        for flow in self.shared.flows.all() {
            let channel = self.shared.flows.get(flow).channel;
            if let Some(channel) = channel_at(&mut self.entries, channel) {
                channel.unpark_all(&mut self.shared, flow);
            }
        }
        self.shared.flows.introduce();
        processor
    }

    /// Statistics of the scheduler, if it runs in line.
    pub fn scheduler_stats(&self) -> Option<ProcessorStats> {
        self.scheduler.as_ref().map(|scheduler| *scheduler.stats())
    }

    #[inline]
    pub(super) fn run_scheduler(&mut self, now: Instant) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.run(now, EVENTS_PER_PACKET);
        }
    }

    /// Processes flows whose wake-up is due.
    pub(super) fn wake_flows(&mut self, now: Instant) {
        while let Some(flow) = self.shared.flows.wakes.pop_due(now).map(FlowIndex::of) {
            self.shared.flows.now = now;
            let channel = self.shared.flows.get(flow).channel;
            if let Some(channel) = channel_at(&mut self.entries, channel) {
                channel.wake_flow(&mut self.shared, flow, now);
            }
        }
        self.run_scheduler(now);
    }

    /// Lets paced flows whose dequeue rates have been raised send as soon as those permit.
    #[inline]
    pub(super) fn follow_raised_rates(&mut self, now: Instant) {
        if self.shared.flows.schedule.has_raised() {
            self.reopen_raised(now);
        }
    }

    fn reopen_raised(&mut self, now: Instant) {
        while let Some(flow) = self.shared.flows.schedule.pop_raised() {
            // The flow may have ended since.
            let Some(flow) = self.shared.flows.paced(flow) else { continue };
            let channel = self.shared.flows.get(flow).channel;
            if let Some(channel) = channel_at(&mut self.entries, channel) {
                channel.wake_flow(&mut self.shared, flow, now);
            }
        }
    }

    /// Sets the tenant and the weight of what a Jetty sends, for its present and future flows.
    ///
    /// # Errors
    /// `Missing` if there is no such Jetty, `Parameter` if the weight is zero.
    pub fn set_share(&mut self, jetty: JettyId, share: Share) -> Result<(), SetupError> {
        self.shared.jetties.get(jetty).ok_or(SetupError::Missing)?;
        if share.weight == 0 {
            return Err(SetupError::Parameter("weight"));
        }
        self.shared.flows.set_share(jetty, share);
        Ok(())
    }

    /// The share of what a Jetty sends.
    pub fn share(&self, jetty: JettyId) -> Share {
        self.shared.flows.share(jetty)
    }

    /// Sets the application's hint for the present and future flows of a Jetty. The scheduler
    /// defines its meaning ([`Scheduler::on_hint`]). Zero, the initial hint, is not reported for a
    /// flow that begins.
    pub fn set_hint(&mut self, jetty: JettyId, hint: u64) {
        self.shared.flows.set_hint(jetty, hint);
    }

    /// All present flows.
    pub fn flows(&self) -> impl Iterator<Item = FlowView> + '_ {
        let flows = &self.shared.flows;
        flows.all().map(move |index| {
            let flow = flows.get(index);
            let channel = self.channel_name(flow.channel);
            let rate = flows.schedule.rate(FlowId(index.number()));
            FlowView {
                flow: FlowId(index.number()),
                jetty: flow.jetty,
                channel,
                answers: flow.answers,
                share: flow.share,
                bytes: flow.bytes,
                packets: flow.packets,
                messages_waiting: flow.queued,
                events: flows.schedule.handled(FlowId(index.number())),
                dequeue_rate: (rate != RateRegisters::UNLIMITED).then_some(rate),
            }
        })
    }

    /// Keeps what flows have sent when they end, for [`UbDevice::flow_totals`]. Memory is allocated
    /// here.
    pub fn keep_flow_totals(&mut self) {
        let capacity = self.shared.config.limits().flows;
        self.shared.flows.keep_totals(capacity);
    }

    /// All pairs of a Jetty and an open channel that have sent something since
    /// [`UbDevice::keep_flow_totals`] was called, and all present flows. The counters are those of
    /// all flows of the pair and only grow. The flag says whether there is a flow at present;
    /// without one, the flow's number is zero.
    pub fn flow_totals(&self) -> impl Iterator<Item = (FlowView, bool)> + '_ {
        let flows = &self.shared.flows;
        let present = self.flows().map(move |view| {
            let index = FlowIndex::of(view.flow.0);
            let channel = flows.get(index).channel;
            let events = flows.events_of(index);
            let Some(past) = flows.past(channel, view.jetty, view.answers) else {
                return (FlowView { events, ..view }, true);
            };
            let view = FlowView {
                bytes: view.bytes + past.bytes,
                packets: view.packets + past.packets,
                events: events.wrapping_add(past.events),
                ..view
            };
            (view, true)
        });
        let ended = flows.pasts().filter(|past| flows.present(past).is_none());
        present.chain(ended.map(|past| {
            let view = FlowView {
                flow: FlowId(0),
                jetty: past.jetty,
                channel: self.channel_name(past.channel),
                answers: past.answers,
                share: past.share,
                bytes: past.bytes,
                packets: past.packets,
                messages_waiting: 0,
                dequeue_rate: None,
                events: past.events,
            };
            (view, false)
        }))
    }

    fn channel_name(&self, index: ChannelIndex) -> ChannelId {
        let generation = u32::from(self.entries[index.number() as usize].generation);
        ChannelId(generation << 16 | index.number())
    }
}
