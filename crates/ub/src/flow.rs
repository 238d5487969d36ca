//! Flows (what one Jetty sends over one channel, or the answers to a peer Jetty's READs), and what
//! a scheduler lets them send.
//!
//! While there is a scheduler, the messages of a flow are sent one after the other. The one whose
//! turn it is (`current`) is in its channel's queue with those of other flows; the rest is kept
//! with the flow. Before each packet the flow's gate is checked: it is shut while the flow is ahead
//! of its dequeue rate, and when the flow has used up its turn.

use crate::control::{Recorder, TraceEntry};
use crate::deadlines::Deadlines;
use crate::limits::{Limits, Profile};
use crate::list::{Linked, Links, List};
use crate::message::Message;
use crate::names::{ChannelIndex, FlowIndex, FlowRecord};
use crate::order::{Key, Keyed};
use crate::pool::Index;
use alloc::boxed::Box;
use alloc::vec::Vec;
pub(crate) use fairway_device::flow::Gate;
use fairway_device::flow::{FlowGate, Schedule};
use fairway_policy::{FlowId, MemoryVisitor, Share};
use fairway_wire::{Duration, Instant, JettyId};

mod totals;
mod trace;

use totals::Totals;

/// The reason why a flow does not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowPlace {
    /// No reason, or the flow has nothing to send.
    Open,
    /// The flow is ahead of its dequeue rate.
    Paced,
    /// The flow has had its turn; it is in its channel's list of such flows.
    Spent,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) jetty: JettyId,
    /// The index of the flow's channel.
    pub(crate) channel: ChannelIndex,
    /// True if the flow consists of answers.
    pub(crate) answers: bool,
    pub(crate) share: Share,
    /// Number of messages with something unsent.
    pub(crate) queued: u32,
    /// The message whose turn it is.
    pub(crate) current: Option<Index<Message>>,
    pub(crate) waiting: List<Index<Message>>,
    pub(crate) place: FlowPlace,
    gate: FlowGate,
    /// Links in its channel's list of flows that have had their turn.
    links: Links<FlowIndex>,
    /// When the flow last sent something, or began.
    pub(crate) last_sent: Instant,
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Runs of the scheduler for flows of this number before this one began, wrapping.
    events_before: u32,
}

/// All flows of a NIC.
pub(crate) struct Flows {
    records: Keyed<Flow, FlowRecord>,
    /// By flow: when its wake-up is due.
    pub(crate) wakes: Deadlines,
    pub(crate) schedule: Schedule,
    /// Events and decisions of controllers, if they are traced.
    pub(crate) trace: Option<Box<Recorder>>,
    /// What flows have sent that have ended, if that is kept.
    totals: Option<Box<Totals>>,
    /// By Jetty: its share.
    shares: Vec<Share>,
    /// By Jetty: the application's hint for the scheduler.
    jetty_hints: Vec<u64>,
    /// By Jetty: the flow of the last message.
    hints: Vec<Option<FlowIndex>>,
    /// The last time that anything was sent.
    pub(crate) now: Instant,
    /// Time after which a flow without work ends.
    idle: Duration,
    /// An injected bug: flows wait for the next round when they begin.
    pub(crate) begins_spent: bool,
}

/// Flows that have had their turn, linked.
pub(crate) struct Spent<'a>(&'a mut Flows);

impl Linked<FlowIndex> for Spent<'_> {
    fn links(&mut self, index: FlowIndex) -> &mut Links<FlowIndex> {
        &mut self.0.records[index].links
    }
}

impl Flows {
    pub(crate) fn new(limits: &Limits, profile: &Profile) -> Flows {
        Flows {
            records: Keyed::new(limits.flows),
            wakes: Deadlines::new(limits.flows),
            schedule: Schedule::new(limits.flows, profile.pacing_burst),
            trace: None,
            totals: None,
            shares: alloc::vec![Share::default(); limits.jetties as usize],
            jetty_hints: alloc::vec![0; limits.jetties as usize],
            hints: alloc::vec![None; limits.jetties as usize],
            now: Instant::ZERO,
            idle: profile.flow_idle,
            begins_spent: false,
        }
    }

    /// True if there is a scheduler.
    #[inline]
    pub(crate) fn are_scheduled(&self) -> bool {
        self.schedule.has_scheduler()
    }

    /// Names the memory of the first flows.
    pub(crate) fn visit_memory(&self, visitor: &mut MemoryVisitor<'_>) {
        visitor.value(self.records.first(2));
        visitor.value(self.schedule.registers());
    }

    #[inline]
    pub(crate) fn get(&self, flow: FlowIndex) -> &Flow {
        &self.records[flow]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, flow: FlowIndex) -> &mut Flow {
        &mut self.records[flow]
    }

    /// The flow with this number, if it waits for its dequeue rate.
    pub(crate) fn paced(&self, flow: FlowId) -> Option<FlowIndex> {
        let index = FlowIndex::of(flow.0);
        let flow = self.records.get(index)?;
        (flow.place == FlowPlace::Paced).then_some(index)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = FlowIndex> + use<> {
        self.records.all()
    }

    pub(crate) fn spent(&mut self) -> Spent<'_> {
        Spent(self)
    }

    /// Adds a message that has something to send. Returns its flow, which begins if there is none;
    /// `None` if no record is left for one more flow: such messages are not scheduled.
    #[inline]
    pub(crate) fn join(&mut self, message: &Message) -> Option<FlowIndex> {
        let index = match self.hinted(message) {
            Some(index) => index,
            None => self.look_up(message)?,
        };
        let now = self.now;
        let flow = &mut self.records[index];
        flow.queued += 1;
        if flow.queued == 1 {
            flow.gate.begin(now);
            flow.last_sent = flow.last_sent.max(now);
        }
        Some(index)
    }

    /// The flow of the last message of a local Jetty, if it is this message's as well.
    #[inline]
    fn hinted(&self, message: &Message) -> Option<FlowIndex> {
        if message.is_answer() {
            return None;
        }
        let hint = (*self.hints.get(message.jetty.value() as usize)?)?;
        (Some(self.records[hint].channel) == message.channel).then_some(hint)
    }

    /// The flow of a message, which begins if there is none.
    #[inline(never)]
    fn look_up(&mut self, message: &Message) -> Option<FlowIndex> {
        let answers = message.is_answer();
        let found = self.find(message, answers);
        if answers {
            self.share_answers(found?, message);
        } else if let Some(hint) = self.hints.get_mut(message.jetty.value() as usize) {
            *hint = found;
        }
        found
    }

    fn find(&mut self, message: &Message, answers: bool) -> Option<FlowIndex> {
        let channel = message.channel?;
        let key = key_of(channel, message.jetty, answers);
        if let Some(found) = self.records.find(&key) {
            return Some(found);
        }
        let share = self.share_of(message, answers);
        let mut gate = FlowGate::new(self.now);
        if self.begins_spent {
            gate.spend_turn();
        }
        let new = Flow {
            jetty: message.jetty,
            channel,
            answers,
            share,
            queued: 0,
            current: None,
            waiting: List::default(),
            place: FlowPlace::Open,
            gate,
            links: Links::UNLINKED,
            last_sent: self.now,
            bytes: 0,
            packets: 0,
            events_before: 0,
        };
        let index = self.records.find_or_make(&key, new)?;
        self.live(index, share);
        Some(index)
    }

    /// The share of the local Jetty that sends a message, or that granted the access that the
    /// message answers. Where no Jetty grants accesses, all answers have the same share.
    fn share_of(&self, message: &Message, answers: bool) -> Share {
        let jetty = if answers { message.granted_by() } else { Some(message.jetty.value()) };
        let share = jetty.and_then(|jetty| self.shares.get(jetty as usize));
        share.copied().unwrap_or_default()
    }

    /// Gives a flow of answers the share of the last one.
    fn share_answers(&mut self, index: FlowIndex, message: &Message) {
        let share = self.share_of(message, true);
        if self.records[index].share != share {
            self.records[index].share = share;
            self.schedule.set_share(FlowId(index.number()), share);
            self.trace_flow(index, |flow| TraceEntry::Share { flow, share });
        }
    }

    /// Begins a flow: notifies the scheduler, and arms the check for an idle flow.
    fn live(&mut self, index: FlowIndex, share: Share) {
        self.note_begin(index);
        self.schedule.begin(FlowId(index.number()), share);
        self.wakes.wake_by(index.number(), self.now + self.idle);
        self.trace_begin(index);
        let flow = &self.records[index];
        let hint = self.jetty_hints.get(flow.jetty.value() as usize).copied().unwrap_or(0);
        if hint != 0 && !flow.answers {
            self.send_hint(index, hint);
        }
    }

    /// Charges the flow for a sent packet of `bytes`.
    #[inline]
    pub(crate) fn sent(&mut self, flow: Option<FlowIndex>, now: Instant, bytes: u32) {
        self.now = now;
        let Some(index) = flow else { return };
        let flow = &mut self.records[index];
        flow.bytes += u64::from(bytes);
        flow.packets += 1;
        flow.last_sent = now;
        self.schedule.charge(&mut flow.gate, FlowId(index.number()), now, bytes);
        self.trace_sent(index, bytes);
    }

    /// Whether the flow may send its next packet. A flow that may not yet is woken in time.
    #[inline]
    pub(crate) fn gate(&mut self, index: FlowIndex, now: Instant) -> Gate {
        let id = FlowId(index.number());
        self.trace_rate(index);
        let gate = self.schedule.check(&mut self.records[index].gate, id, now);
        if let Gate::Paced(at) = gate {
            self.wakes.wake_by(index.number(), at);
        }
        gate
    }

    /// Starts a new round for a flow, which may send again. What the flow did not use of its turn
    /// is lost.
    pub(crate) fn refill(&mut self, index: FlowIndex) {
        let flow = &mut self.records[index];
        self.schedule.refill(&mut flow.gate, FlowId(index.number()));
    }

    /// Called when the last message has left the flow: it has nothing to send now.
    pub(crate) fn drained(&mut self, index: FlowIndex) {
        self.schedule.drained(FlowId(index.number()));
    }

    /// Ends a flow that has been without work for long enough, if it `may_end`.
    pub(crate) fn expire(&mut self, index: FlowIndex, now: Instant, may_end: bool) {
        let flow = &self.records[index];
        let end = flow.last_sent + self.idle;
        if flow.queued > 0 || now.is_before(end) || !may_end {
            let waits_for_end = flow.queued == 0 && now.is_before(end);
            let at = if waits_for_end { end } else { now + self.idle };
            return self.wakes.wake_by(index.number(), at);
        }
        self.end(index);
    }

    fn end(&mut self, index: FlowIndex) {
        // The record of a flow that has ended must not count as one that waits.
        self.records[index].place = FlowPlace::Open;
        let flow = self.records[index];
        self.add_to_totals(index);
        self.schedule.end(FlowId(index.number()));
        self.trace_end(index);
        self.wakes.remove(index.number());
        if let Some(hint) = self.hints.get_mut(flow.jetty.value() as usize)
            && *hint == Some(index)
        {
            *hint = None;
        }
        self.records.forget(&key_of(flow.channel, flow.jetty, flow.answers));
    }

    /// Ends all flows of a channel whose messages have been removed.
    pub(crate) fn forget_channel(&mut self, channel: ChannelIndex) {
        for index in self.records.of_channel(channel) {
            self.end(index);
        }
        if let Some(totals) = &mut self.totals {
            totals.forget_channel(channel);
        }
    }

    /// Ends the flows of local Jetties over a channel on which nothing is to be sent.
    pub(crate) fn forget_idle(&mut self, channel: ChannelIndex) {
        for jetty in (0..self.shares.len() as u32).map(JettyId::new) {
            if let Some(index) = self.records.find(&key_of(channel, jetty, false)) {
                self.end(index);
            }
        }
    }

    /// Changes the share of the flows of a Jetty.
    pub(crate) fn set_share(&mut self, jetty: JettyId, share: Share) {
        if let Some(mine) = self.shares.get_mut(jetty.value() as usize) {
            *mine = share;
        }
        for index in self.records.all() {
            let flow = &mut self.records[index];
            if flow.jetty == jetty && !flow.answers {
                flow.share = share;
                self.schedule.set_share(FlowId(index.number()), share);
                self.trace_flow(index, |flow| TraceEntry::Share { flow, share });
            }
        }
    }

    /// Passes the application's hint to the scheduler, for present and future flows of a Jetty.
    pub(crate) fn set_hint(&mut self, jetty: JettyId, hint: u64) {
        if let Some(mine) = self.jetty_hints.get_mut(jetty.value() as usize) {
            *mine = hint;
        }
        for index in self.records.all() {
            let flow = &self.records[index];
            if flow.jetty == jetty && !flow.answers {
                self.send_hint(index, hint);
            }
        }
    }

    fn send_hint(&mut self, index: FlowIndex, hint: u64) {
        self.schedule.set_hint(FlowId(index.number()), hint);
        self.trace_flow(index, |flow| TraceEntry::Hint { flow, value: hint });
    }

    pub(crate) fn share(&self, jetty: JettyId) -> Share {
        self.shares.get(jetty.value() as usize).copied().unwrap_or_default()
    }

    /// Announces all present flows to a new scheduler.
    pub(crate) fn introduce(&mut self) {
        for index in self.records.all() {
            let share = self.records[index].share;
            self.live(index, share);
        }
    }

    pub(crate) fn in_use(&self) -> u32 {
        self.records.in_use()
    }

    /// Size in bytes of one flow's record and of its entries in the other tables.
    pub(crate) const RECORD_BYTES: usize = Keyed::<Flow, FlowRecord>::RECORD_BYTES
        + Schedule::FLOW_BYTES
        + size_of::<u64>()
        + 2 * size_of::<u32>();
}

fn key_of(channel: ChannelIndex, jetty: JettyId, answers: bool) -> Key {
    Key { channel, jetty, address: u64::from(answers) }
}
