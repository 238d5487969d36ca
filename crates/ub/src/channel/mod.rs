//! A TP channel: the reliable, multi-path connection to one remote host that all Jetties share.
//!
//! Its state is split by owner: each field of [`Channel`] is a struct whose fields are private to
//! its file, and whose methods say what happens to it. [`TpChannel`] is what every packet touches,
//! `SentPackets` and `Recovery` are the sender's, `AckState` and `Inbound` the receiver's, `Line`,
//! `MessageSlots` and `Retries` hold messages that wait.
//!
//! The work, which joins the owners, is split by direction: `transmit` pulls packets out, `receive`
//! judges data packets, `acknowledge` processes acknowledgements, `loss` and
//! `recovery::tail_loss_probe` find what has to be resent, `retire` ends messages.

mod ack_state;
mod acknowledge;
mod arrivals;
mod audit;
mod bypass;
mod close;
mod congestion;
mod datagram;
mod execute;
mod flow;
mod inbound;
mod late_refusal;
mod loss;
mod mailbox;
mod memory;
mod memory_order;
mod missing;
mod path_marks;
mod path_set;
mod paths;
mod peer_reports;
mod probe;
mod receive;
mod receives;
mod recovery;
mod refuse;
pub(crate) mod replay;
mod respond;
mod rest;
mod retire;
mod retirement;
mod rings;
mod round_trip;
mod sent_packets;
mod slots;
mod timers;
mod tp_channel;
mod trace;
mod transmit;
mod trimmed;

use crate::shared::{Config, Schedule};
use ack_state::AckState;
pub(crate) use ack_state::BlockedAck;
pub(crate) use bypass::BypassState;
use close::Lifecycle;
use congestion::Congestion;
use flow::Line;
use inbound::Inbound;
pub(crate) use memory::MEMORY_STAGES;
pub(crate) use paths::Path;
use paths::Paths;
use probe::Probes;
use recovery::Recovery;
use refuse::Retries;
pub(crate) use replay::Datagrams;
pub(crate) use rest::Resting;
pub(crate) use retirement::NoticeKind;
use rings::Rings;
use sent_packets::SentPackets;
use slots::MessageSlots;
pub(crate) use timers::Timer;
use timers::Timers;
pub(crate) use tp_channel::TpChannel;

use crate::api::{ChannelConfig, ChannelId};
use crate::limits::Limits;
use crate::names::ChannelIndex;
use alloc::boxed::Box;
use fairway_policy::{CongestionControl, PathView, PolicySet};
use fairway_wire::{Cna, Duration, Instant, Priority, Psn, Route};

pub(crate) struct Channel {
    tp: TpChannel,
    pub(crate) id: ChannelId,
    /// The first channel of its group: itself, if it is alone.
    pub(crate) leader: ChannelId,
    pub(crate) mtu: u32,
    /// Parts of operations that go by several channels may be sent.
    pub(crate) may_send_parts: bool,
    /// The channel's group may go on without it when it is dead.
    is_dispensable: bool,
    /// Data packets may carry acknowledgements.
    carries_acks: bool,
    send: SentPackets,
    acks: AckState,
    line: Line,
    slots: MessageSlots,
    retries: Retries,
    inbound: Inbound,
    paths: Paths,
    congestion: Congestion,
    recovery: Recovery,
    bypass: Box<BypassState>,
    /// Unreliable messages, if they were agreed on at set-up.
    datagrams: Option<Box<Datagrams>>,
    /// Round trips measured out of band: this side's probes, if it sends any, and the peer's.
    probes: Probes,
    life: Lifecycle,
    timers: Timers,
    rings: Rings,
}

impl Channel {
    pub(crate) fn new(
        id: ChannelId,
        config: ChannelConfig,
        limits: &Limits,
        now: Instant,
    ) -> Box<Self> {
        let slots = config.remote_message_slots.min(limits.message_slots);
        let reads = config.remote_read_slots.min(limits.read_slots);
        let tp = TpChannel::new(&config, limits);
        let PolicySet { congestion, path, loss, probe } = config.policy;
        Box::new(Channel {
            tp,
            id,
            leader: config.leader.unwrap_or(id),
            mtu: config.mtu,
            may_send_parts: config.parts,
            is_dispensable: config.retires,
            carries_acks: config.carried_acks,
            send: SentPackets::new(limits.window_packets),
            acks: AckState::new(limits.withheld),
            line: Line::new(now),
            slots: MessageSlots::new(slots, reads),
            retries: Retries::default(),
            inbound: Inbound::new(limits.message_slots),
            paths: Paths::new(config.paths, path, now, limits.allocates_on_use),
            congestion: Congestion::new(congestion, now),
            recovery: Recovery::new(config.first_psn, loss, now),
            bypass: Box::new(BypassState::new(config.bypass)),
            datagrams: config.unreliable.then(|| Box::new(Datagrams::new())),
            probes: Probes::new(probe, config.paths as usize),
            life: Lifecycle::new(now),
            timers: Timers::new(),
            rings: Rings::new(id.record(), config.engine),
        })
    }

    #[cfg(test)]
    pub(crate) fn skip_messages(&mut self, numbers: u32) {
        self.tp.skip_messages(numbers);
    }

    pub(crate) fn index(&self) -> ChannelIndex {
        self.id.record()
    }

    /// The channel group, under which the transaction layer's records of the peer are found.
    pub(crate) fn group(&self) -> ChannelIndex {
        self.leader.record()
    }

    /// Most operations of one Jetty under way that the target may have to hold, with their read
    /// slots, until the operations that they follow are done: see `Limits::read_slots`.
    pub(crate) fn share_per_jetty(&self) -> u32 {
        (self.slots.reads() / 4).max(2)
    }

    pub(crate) fn route(&self, config: &Config, path: u8, priority: Priority) -> Route {
        Route {
            source: config.address(),
            destination: self.tp.remote(),
            source_tpn: self.id.tpn(),
            destination_tpn: self.tp.remote_tpn(),
            path,
            priority,
            cci: fairway_wire::Cci::NONE,
        }
    }

    /// Enters the channel into the queue of those that may have data to send.
    #[inline]
    pub(crate) fn mark_ready(&mut self, schedule: &mut Schedule) {
        self.rings.enter_ready(schedule);
    }

    /// Enters the channel into the queue of those with control packets, which precede data.
    #[inline]
    pub(crate) fn mark_urgent(&mut self, schedule: &mut Schedule) {
        self.rings.enter_urgent(schedule);
    }

    /// Notes that the device has taken the channel out of the queue for data.
    #[inline]
    pub(crate) fn left_ready(&mut self) {
        self.rings.left_ready();
    }

    /// Notes that the device has taken the channel out of the queue for control packets.
    #[inline]
    pub(crate) fn left_urgent(&mut self) {
        self.rings.left_urgent();
    }

    /// Notes that a packet of the peer has arrived.
    #[inline]
    pub(crate) fn note_packet_received(&mut self, now: Instant) {
        self.life.note_packet_received(now);
    }

    /// Notes that an operation was posted to the channel, or a packet of a peer's operation has
    /// arrived.
    #[inline]
    pub(crate) fn note_used(&mut self, now: Instant) {
        self.life.note_used(now);
    }

    /// When [`Self::note_used`] was last called.
    pub(crate) fn used_at(&self) -> Instant {
        self.life.used_at()
    }

    /// Number of paths.
    #[inline]
    pub(crate) fn path_count(&self) -> usize {
        self.paths.count()
    }

    /// The view of the channel's paths that policies are given, without unused ones at the end that
    /// have no record.
    pub(crate) fn path_views(&self) -> &[PathView] {
        self.paths.views()
    }

    /// True if a burst that is to leave as one run has begun.
    #[inline]
    pub(crate) fn is_mid_chunk(&self) -> bool {
        !self.paths.is_chunk_over()
    }

    /// The congestion control, which bounds what is in flight.
    pub(crate) fn controller(&self) -> &dyn CongestionControl {
        self.congestion.controller()
    }

    /// Smoothed round trip of the channel as a whole; zero before the first sample.
    pub(crate) fn round_trip(&self) -> Duration {
        self.recovery.smoothed()
    }

    #[cfg(test)]
    pub(crate) fn set_round_trip(&mut self, smoothed: Duration) {
        self.recovery.set_smoothed(smoothed);
    }

    /// Replaces the congestion control.
    #[cfg(test)]
    pub(crate) fn set_controller(&mut self, controller: Box<dyn CongestionControl>) {
        self.congestion.set_controller(controller);
    }

    /// True if both sides agreed on unreliable messages at set-up.
    pub(crate) fn may_send_datagrams(&self) -> bool {
        self.datagrams.is_some()
    }

    /// Acts as if neither unreliable messages nor loads and stores had been agreed on at set-up.
    #[cfg(test)]
    pub(crate) fn withhold_unsequenced(&mut self) {
        self.datagrams = None;
        self.bypass.withhold();
    }

    /// Acts as if carried acknowledgements had been agreed on at set-up.
    #[cfg(test)]
    pub(crate) fn agree_on_carried_acks(&mut self) {
        self.carries_acks = true;
    }

    /// True if a packet was sent by the peer. Packets that bypass the transport do not name the
    /// channel.
    #[inline]
    pub(crate) fn is_peer(&self, route: &Route, bypasses: bool) -> bool {
        self.tp.is_peer(route, bypasses)
    }

    /// The address of the peer.
    pub(crate) fn remote(&self) -> Cna {
        self.tp.remote()
    }

    /// Bytes in flight, headers included.
    pub(crate) fn flight(&self) -> u32 {
        self.tp.flight()
    }

    /// The oldest packet that was sent and is not acknowledged, if there is one.
    pub(crate) fn oldest_unacknowledged(&self) -> Option<Psn> {
        (!self.tp.is_idle()).then_some(self.tp.oldest())
    }
}
