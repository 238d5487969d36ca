//! The NIC: set-up, commands, inputs and outputs, each passed to the module in charge.

use crate::api::{
    ChannelId, Completion, CompletionQueueId, DropReason, Event, Received, SegmentId,
    SegmentRequest, SetupError, Transmit,
};
use crate::channel::{Channel, Resting};
use crate::control::Processor;
use crate::counters::Counters;
use crate::deferred::Cause;
use crate::flow::Flows;
use crate::injected_bug::InjectedBug;
use crate::limits::{Limits, Profile};
use crate::mailbox::Mailboxes;
use crate::names::ChannelIndex;
use crate::order::{Initiator, Trackers};
use crate::placement::{Execution, PlacementToken, Verdict};
use crate::pool::Pool;
use crate::put_streams::PutStreams;
use crate::random::Random;
use crate::receive_window::BLOCKS_MAX;
use crate::segment::Segments;
use crate::shared::{
    Arrivals, Backpressure, CompletionQueues, Config, DeferredPackets, Jetties, Schedule, Shared,
};
use crate::tpg::ChannelGroups;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_wire::{Cna, Data, Duration, Instant, Packet, Tpn};

/// The largest payload of one packet, in bytes.
const MTU_MAX: u32 = 32_768;

/// One entry of the channel table.
struct Entry {
    /// Counts uses of this index (never 0), so that an old number on the wire is invalid.
    generation: u8,
    state: EntryState,
}

enum EntryState {
    Free,
    Reserved,
    Open(Box<Channel>),
    /// The channel is open, and nothing is under way on it: only what it needs to continue is kept.
    Resting(Box<Resting>),
    /// The channel has ended, but other channels of the group that it led have not.
    Led,
}

/// A whole NIC as a state machine. See the crate's documentation for the contract.
pub struct UbDevice {
    pub(crate) shared: Shared,
    entries: Vec<Entry>,
    /// The next index to try, so that an index stays unused as long as possible.
    next_entry: usize,
    /// By engine: the channel whose turn it is.
    turns: Vec<Turn>,
    open_channels: u32,
    /// Channels for whose answers records of messages are reserved, open or not.
    expected_channels: u32,
    /// The processor of the scheduler, if that runs in line with the data path.
    scheduler: Option<Box<Processor>>,
    /// Where the congestion controls of newly opened channels run.
    controllers: Controllers,
}

/// The channel whose turn to send it is at an engine.
#[derive(Clone, Copy, Default)]
struct Turn {
    channel: Option<ChannelIndex>,
    /// Bytes that the channel may still send in this turn.
    left: u32,
}

impl UbDevice {
    /// Creates a NIC with address `cna` and without channels, Jetties or segments. All pools are
    /// allocated here.
    ///
    /// # Panics
    /// If a limit is outside the range its documentation gives.
    pub fn new(cna: Cna, limits: &Limits, profile: &Profile, seed: u64) -> UbDevice {
        if let Err(error) = limits.check() {
            panic!("{error}");
        }
        let shared = Shared {
            config: Config::new(cna, limits, profile),
            random: Random::new(seed),
            counters: Counters::default(),
            segments: Segments::new(limits.segments),
            jetties: Jetties::new(limits),
            queues: CompletionQueues::new(limits.completion_queues),
            messages: Pool::new(limits.messages),
            arrivals: Arrivals::new(limits.arrivals),
            answers: Pool::new(limits.bypass_answers),
            deferred: DeferredPackets::new(limits.deferred, limits.channels),
            trackers: Trackers::new(limits.order_records, limits.receives),
            initiator: Initiator::new(limits.jetties, limits.order_records),
            mailboxes: Mailboxes::new(limits),
            puts: PutStreams::new(limits.put_streams),
            send_blocks: Pool::new(limits.send_blocks),
            bitmap_blocks: Pool::new(limits.bitmap_blocks.min(BLOCKS_MAX)),
            events: VecDeque::with_capacity(256),
            flows: Flows::new(limits, profile),
            backpressure: Backpressure::default(),
            channels: ChannelGroups::new(limits.channels),
            schedule: Schedule::new(limits.engines, limits.channels),
            host_wait: None,
        };
        let entry = |_| Entry { generation: 1, state: EntryState::Free };
        UbDevice {
            shared,
            entries: (0..limits.channels).map(entry).collect(),
            next_entry: 0,
            turns: alloc::vec![Turn::default(); limits.engines as usize],
            open_channels: 0,
            expected_channels: 0,
            scheduler: None,
            controllers: Controllers::Direct,
        }
    }

    // ---- set-up ----

    /// Registers memory under a [`TokenId`](fairway_wire::TokenId).
    ///
    /// # Errors
    /// `Limit` if all segments are taken; `Parameter` if the addresses overflow.
    pub fn register(&mut self, request: &SegmentRequest) -> Result<SegmentId, SetupError> {
        self.shared.segments.register(request)
    }

    /// Refuses remote accesses to a segment from now on. Returns true if its memory may be freed at
    /// once; otherwise [`Event::SegmentReleased`] reports when.
    ///
    /// # Errors
    /// `Missing` if the segment is not registered.
    pub fn deregister(&mut self, segment: SegmentId) -> Result<bool, SetupError> {
        self.shared.segments.deregister(segment)
    }

    // ---- inputs ----

    /// Says how long the packets that are passed in from now on have been in this host; `None`, as
    /// at first, if that is not known.
    ///
    /// Acknowledgements then report how long a packet was in this host in all, and congestion
    /// controls of this side are told the hosts' part of round trips
    /// ([`AckSample::endpoint_delay`](fairway_policy::AckSample::endpoint_delay)). Round trips then
    /// include the time at the peer, which is subtracted otherwise.
    pub fn set_host_wait(&mut self, wait: Option<Duration>) {
        self.shared.host_wait = wait;
    }

    /// Processes a received packet that was decoded without error.
    pub fn handle_packet(&mut self, now: Instant, received: &Received) -> Verdict {
        self.take_in(now, received, false)
    }

    /// Processes the header of a packet whose payload a switch has cut off, which reports that the
    /// payload will not arrive. `received.payload` is the length in the header, and nothing is
    /// placed.
    pub fn handle_trimmed(&mut self, now: Instant, received: &Received) -> Verdict {
        self.take_in(now, received, true)
    }

    fn take_in(&mut self, now: Instant, received: &Received, trimmed: bool) -> Verdict {
        let route = &received.route;
        let id = ChannelId(route.destination_tpn.value());
        let own = self.shared.config.address();
        self.shared.flows.now = now;
        // A packet that bypasses the transport has no header that would name the sender's channel.
        let bypasses = matches!(received.packet, Packet::Bypass(_));
        let Some((shared, channel)) = self.open(id) else {
            return self.shared.counters.drop(DropReason::NoChannel);
        };
        let is_stranger =
            !channel.is_peer(route, bypasses) && !shared.is_injected(InjectedBug::TrustStrangers);
        if route.destination != own || is_stranger {
            return shared.counters.drop(DropReason::StaleIncarnation);
        }
        if usize::from(route.path) >= channel.path_count() {
            return shared.counters.drop(DropReason::BadPath);
        }
        if let Packet::Close(close) = &received.packet {
            let verdict = channel.handle_close(shared, now, close, route.path);
            self.end_groups(now);
            return verdict;
        }
        if !channel.is_open() {
            return shared.counters.drop(match channel.is_retired() {
                true => DropReason::Retired,
                false => DropReason::NoChannel,
            });
        }
        channel.note_packet_received(now);
        if matches!(received.packet, Packet::Data(_) | Packet::Datagram(_) | Packet::Bypass(_)) {
            channel.note_used(now);
        }
        // First, because what a packet answers completes before it.
        if let Packet::Data(Data { carried: Some(carried), .. }) = &received.packet
            && !channel.handle_carried_ack(shared, now, carried, (route.path, received.hops))
        {
            return shared.counters.drop(DropReason::BadAcknowledgement);
        }
        let any = shared.is_injected(InjectedBug::AnyCause);
        shared.deferred.set_cause(Cause::of_packet(id, &received.packet, any));
        let verdict = match &received.packet {
            Packet::Data(data) if trimmed => channel.handle_trimmed(shared, data, route.path),
            // Other trimmed packets are ignored, because a single packet of theirs is not repeated.
            _ if trimmed => Verdict::Done,
            Packet::Data(data) => channel.handle_data(shared, now, data, received),
            Packet::Ack(ack) => channel.handle_ack(shared, now, ack, (route.path, received.hops)),
            Packet::Nak(nak) => channel.handle_nak(shared, now, nak, route.path),
            Packet::Void(void) => channel.handle_void(shared, now, void, route.path),
            Packet::Datagram(datagram) => channel.handle_datagram(shared, datagram, received),
            Packet::Bypass(bypass) => channel.handle_bypass(shared, now, bypass, received),
            Packet::CreditRequest(demand) => {
                channel.handle_credit_request(shared, now, demand, route.path)
            }
            Packet::Credit(credit) => channel.handle_credit(shared, now, credit),
            Packet::Probe(probe) => channel.handle_probe(shared, now, probe, route.path),
            Packet::Close(_) => Verdict::Done,
            Packet::Retire(retire) => return self.handle_retire(now, id, retire),
        };
        self.shared.deferred.set_cause(None);
        if self.shared.backpressure.credit().is_some() {
            self.note_arrival(now, id, received, trimmed);
        }
        self.run_controllers(now);
        verdict
    }

    /// Reports that a payload has been placed where [`Verdict::Place`] or [`Execution::Copy`]
    /// required, or that a word was changed as [`Verdict::Own`] or [`Execution::Atomic`] required.
    /// `old` is the word's value before; otherwise pass 0.
    ///
    /// A caller that places late (as a DMA engine does) must drop placements of a channel that has
    /// ended meanwhile, and finish those into a segment before it deregisters that segment: their
    /// memory may have a new use.
    pub fn handle_placed(&mut self, now: Instant, token: PlacementToken, old: u64) {
        if let Some((shared, channel)) = self.open(token.channel) {
            let cause = shared.cause_of(&token);
            shared.deferred.set_cause(cause);
            channel.placed(shared, now, &token, old);
            shared.deferred.set_cause(None);
        }
        self.resume_channels();
    }

    /// Drops messages that were given up while they waited. Channels that waited for packets that
    /// had been set aside may send again.
    #[inline]
    fn resume_channels(&mut self) {
        if self.shared.arrivals.has_given_up() || self.shared.deferred.has_drained() {
            self.resume_waiting();
        }
    }

    #[inline(never)]
    fn resume_waiting(&mut self) {
        while let Some(index) = self.shared.arrivals.pop_given_up() {
            let channel = self.shared.arrivals[index].channel;
            if let Some(channel) = channel_of(&mut self.entries, channel) {
                channel.drop_given_up(&mut self.shared, index);
            }
        }
        while let Some(leader) = self.shared.deferred.pop_drained() {
            for member in self.shared.channels.get(leader).members() {
                if let Some(channel) = channel_at(&mut self.entries, member) {
                    channel.mark_urgent(&mut self.shared.schedule);
                    channel.mark_ready(&mut self.shared.schedule);
                }
            }
        }
    }

    /// Processes all timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.wake_flows(now);
        self.run_credit(now);
        while let Some(index) = self.shared.schedule.pop_due(now) {
            let channel = match &mut self.entries[index.number() as usize].state {
                EntryState::Open(channel) => channel,
                // As if it were open: channels with the same deadline have their turns in the
                // order of the heap, which depends on all entries.
                EntryState::Resting(resting) if now.is_before(resting.keep_alive_at()) => {
                    self.shared.schedule.wake_by(index, resting.keep_alive_at());
                    continue;
                }
                _ => continue,
            };
            channel.handle_timeout(&mut self.shared, now);
            let is_gone = channel.is_gone();
            if self.shared.channels.needs_attention() {
                self.attend(now);
            }
            if self.shared.channels.has_ended() {
                self.end_groups(now);
            } else if is_gone {
                self.free_entry(index);
            }
        }
        self.run_controllers(now);
    }

    // ---- outputs ----

    /// The next packet to send, if there is one that may be sent, for a NIC of one engine.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.poll_engine(now, 0)
    }

    /// True if an engine may have something to send. (Whether its channels still wait for something
    /// is not checked.)
    ///
    /// # Panics
    /// If there is no such engine.
    pub fn has_output(&mut self, engine: u32) -> bool {
        self.run_follow_ups();
        let engine = engine as usize;
        self.shared.schedule.has_work(engine)
            || self.turns[engine].channel.is_some()
            || self.shared.flows.schedule.has_raised()
    }

    /// Lets channels continue that waited for a change at another channel.
    fn run_follow_ups(&mut self) {
        self.retry_blocked_channels();
        self.fail_jetties();
        self.enqueue_opened();
    }

    /// True if an acknowledgement of an engine is due because it covers
    /// [`Profile::acknowledge_every`](crate::Profile) packets. A driver that is going to receive
    /// more packets sends it first ([`Self::poll_urgent`]).
    pub fn has_full_ack(&self, engine: u32) -> bool {
        self.shared.schedule.has_full_ack(engine as usize)
    }

    /// The next packet of an engine that goes before data: an acknowledgement that is due, or
    /// another control packet, or data that carries the acknowledgement. [`Self::poll_engine`]
    /// returns these first; a driver that receives many packets at a time can send them between.
    pub fn poll_urgent(&mut self, now: Instant, engine: u32) -> Option<Transmit> {
        self.finish_datagram();
        while let Some(index) = self.shared.schedule.pop_urgent(engine as usize) {
            let Some(channel) = channel_at(&mut self.entries, index) else { continue };
            channel.left_urgent();
            let next = channel.next_control(&mut self.shared, now);
            if let Some(transmit) = &next {
                channel.mark_urgent(&mut self.shared.schedule);
                if matches!(transmit.packet, Packet::Data(_)) {
                    self.run_controllers(now);
                }
                return next;
            }
            if channel.is_gone() {
                self.free_entry(index);
            }
        }
        self.shared.schedule.end_urgent(engine as usize);
        None
    }

    /// The next packet of the channels that were assigned to `engine` when they were opened.
    ///
    /// # Panics
    /// If there is no such engine.
    pub fn poll_engine(&mut self, now: Instant, engine: u32) -> Option<Transmit> {
        self.finish_datagram();
        if self.shared.schedule.has_urgent(engine as usize) {
            let urgent = self.poll_urgent(now, engine);
            if urgent.is_some() {
                return urgent;
            }
        } else {
            self.shared.schedule.end_urgent(engine as usize);
        }
        let engine = engine as usize;
        self.run_follow_ups();
        self.follow_raised_rates(now);
        loop {
            let turn = self.turns[engine];
            let index = match turn.channel {
                // A chunk is not split: it is sent as one run.
                Some(index) if turn.left > 0 || self.is_mid_chunk(index) => index,
                other => {
                    self.turns[engine].channel = None;
                    if let Some(index) = other {
                        self.pass_turn(index);
                    }
                    let index = self.shared.schedule.pop_ready(engine)?;
                    // Where flows take turns, a channel's turn ends when those of its flows have.
                    let whole = self.shared.flows.schedule.takes_turns();
                    let turn = self.shared.config.profile().turn_bytes;
                    let left = if whole { u32::MAX } else { turn };
                    self.turns[engine] = Turn { channel: Some(index), left };
                    index
                }
            };
            if let Some(channel) = channel_at(&mut self.entries, index) {
                let next = channel.next_data(&mut self.shared, now, false);
                if let Some(transmit) = &next {
                    let bytes = transmit.gather.length + 64;
                    let left = &mut self.turns[engine].left;
                    *left = left.saturating_sub(bytes);
                    self.run_scheduler(now);
                    self.run_controllers(now);
                    return next;
                }
                channel.left_ready();
                if channel.take_round_end() {
                    channel.mark_ready(&mut self.shared.schedule);
                }
            }
            self.turns[engine].channel = None;
        }
    }

    /// The next deferred work that is due now. Call this until it returns `None` after every
    /// [`Self::handle_packet`] and [`Self::handle_placed`]. Each result must be carried out, in the
    /// order returned, and followed by [`Self::handle_placed`].
    pub fn poll_execution(&mut self) -> Option<Execution> {
        while let Some(index) = self.shared.deferred.pop_due() {
            let deferred = &self.shared.deferred[index];
            let (channel, cause) = (deferred.channel, deferred.cause);
            let Some(channel) = channel_of(&mut self.entries, channel) else { continue };
            self.shared.deferred.set_cause(cause);
            let execution = channel.execute_deferred(&mut self.shared, index);
            self.shared.deferred.set_cause(None);
            if execution.is_some() {
                return execution;
            }
        }
        self.resume_channels();
        None
    }

    /// The next completion of a queue, if any.
    pub fn poll_completion(&mut self, queue: CompletionQueueId) -> Option<Completion> {
        self.finish_datagram();
        self.shared.queues.pop(queue)
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// The latest time at which [`Self::handle_timeout`] must be called; it may be called earlier.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let channels = self.shared.schedule.earliest_deadline();
        let flows = self.shared.flows.wakes.earliest();
        earlier(earlier(channels, flows), self.credit_at())
    }

    // ---- inside ----

    fn is_mid_chunk(&self, index: ChannelIndex) -> bool {
        match &self.entries[index.number() as usize].state {
            EntryState::Open(channel) => channel.is_mid_chunk(),
            _ => false,
        }
    }

    /// Moves a channel that has had its turn behind the others.
    fn pass_turn(&mut self, index: ChannelIndex) {
        if let Some(channel) = channel_at(&mut self.entries, index) {
            channel.left_ready();
            channel.mark_ready(&mut self.shared.schedule);
        }
    }

    /// Returns channels to the queue for which send-window blocks have become free.
    fn retry_blocked_channels(&mut self) {
        while let Some(index) = self.shared.schedule.pop_unblocked() {
            if let Some(channel) = channel_at(&mut self.entries, index) {
                channel.unblock(&mut self.shared);
            }
        }
    }

    /// Number of records that operations of this side leave free, so that the reads of every peer
    /// can be answered. Otherwise two NICs full of reads would wait for each other forever.
    fn kept_for_answers(&self) -> u32 {
        let channels = self.open_channels.max(self.expected_channels);
        let wanted = channels.saturating_mul(self.shared.config.limits().read_slots);
        wanted.min(self.shared.messages.capacity() / 2)
    }
}

/// The earlier of two times, or the only one.
#[inline]
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, None) => one,
        (None, other) => other,
    }
}

fn channel_at(entries: &mut [Entry], index: ChannelIndex) -> Option<&mut Channel> {
    match &mut entries[index.number() as usize].state {
        EntryState::Open(channel) => Some(channel),
        _ => None,
    }
}

/// The channel of a record, if the record is in use and the channel is open.
fn channel_of(entries: &mut [Entry], index: Option<ChannelIndex>) -> Option<&mut Channel> {
    channel_at(entries, index?)
}

mod abort;
mod channels;
mod controllers;
mod credit;
mod divide;
mod flows;
mod guard;
mod jetties;
mod mailboxes;
mod memory;
mod missing;
mod opened;
mod post;
mod queues;
mod request;
mod rest;
mod retirement;
#[cfg(test)]
mod tests;
mod trace;
mod view;

use controllers::Controllers;
pub use flows::FlowView;

const _: () = assert!(Tpn::BITS == 24, "a channel id is a TPN");
