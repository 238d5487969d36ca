//! The state behind the lock of a provider: the protocol, the memory, the network; and the live
//! driver's interface to RoCE, the [`Protocol`] of all that.

use fairway_device::{Placement, SetupError};
use fairway_port::Arrival;
use fairway_roce::{
    Completion, Event, OwnVerdict, PlacementToken, Received, RoceDevice, Target, Transmit,
    WorkRequest,
};
use fairway_runtime::{
    self as runtime, DelayedAck, Eagerness, Memories, Parsed, Payload, Placing, Protocol, SMALL,
    Unregistered, handle, report,
};
use fairway_ub::CompletionQueueId;
use fairway_ub::wire::{Duration, Instant, Qpn};
use std::collections::HashSet;

use super::arming::Arming;
use super::network::{Arrived, Network};
use super::outside::{Notice, Outside};
use super::packets::{Packets, RoceIo, Waiting, is_acknowledgement};
use super::reorder_buffer::ReorderBuffer;
use crate::addresses::is_ipv4;

/// An application that polls again within this time is assumed to continue to poll.
const SOON: Duration = Duration::from_us(20);

pub(super) struct RoceCore {
    pub(super) host: RoceDevice,
    pub(super) memories: Memories,
    buffered: ReorderBuffer,
    /// Queue pairs of services without acknowledgements.
    pub(super) unacknowledged: HashSet<Qpn>,
    pub(super) network: Network,
    pub(super) delayed_ack: DelayedAck,
    polled_at: Instant,
    pub(super) arming: Arming,
}

impl RoceCore {
    pub(super) fn new(host: RoceDevice, network: Network) -> RoceCore {
        RoceCore {
            host,
            memories: Memories::new(Unregistered::LeftOut),
            buffered: ReorderBuffer::default(),
            unacknowledged: HashSet::new(),
            network,
            delayed_ack: DelayedAck::default(),
            polled_at: Instant::ZERO,
            arming: Arming::default(),
        }
    }

    /// Requests a notification with the next completion of a queue.
    pub(super) fn arm(
        &mut self,
        queue: CompletionQueueId,
        solicited_only: bool,
    ) -> Result<(), SetupError> {
        self.arming.armed();
        self.host.arm(queue, solicited_only)
    }

    /// Returns the order of work on arrivals in this poll of an application thread. `alone`: the
    /// background thread does not sleep on the sockets.
    pub(super) fn poll_begins(&mut self, now: Instant, alone: bool) -> Eagerness {
        let often = alone && now.since(self.polled_at) < SOON;
        self.polled_at = now;
        if often { Eagerness::OnceEach } else { Eagerness::TakeAll }
    }

    /// Passes all packets that have arrived at any socket to the protocol, and sends its output,
    /// including delayed acknowledgements.
    pub(super) fn finish_arrivals(&mut self, io: &mut RoceIo) {
        io.sockets.check_all_next();
        runtime::poll(self, io, Eagerness::TakeAll, false);
    }

    /// True if all these requests are small, and the peer acknowledges them.
    pub(super) fn are_small(&self, number: Qpn, requests: &[WorkRequest]) -> bool {
        let is_small = |request: &WorkRequest| request.local.length() <= SMALL;
        requests.iter().all(is_small) && !self.unacknowledged.contains(&number)
    }

    /// True if the listener is to be called when the lock has been released.
    pub(super) fn has_notices(&self) -> bool {
        self.host.has_notices() || self.network.has_notices()
    }

    /// Takes completions of a queue.
    pub(super) fn take(&mut self, queue: CompletionQueueId, out: &mut [Completion]) -> usize {
        let mut count = 0;
        for place in out {
            let Some(completion) = self.host.poll_completion(queue) else { break };
            *place = completion;
            count += 1;
        }
        count
    }
}

impl Protocol for RoceCore {
    type Device = RoceDevice;
    type Own = Packets;
    /// The datagram; `None` for a packet from the reorder buffer.
    type Context<'a> = Option<Arrived<'a>>;
    type After = Vec<Notice>;
    type Outside = Outside;

    const RECEIVED_MAX: usize = 128;
    const CAUGHT_UP_MAX: usize = 64 * 64;
    const SENT_MAX: usize = 512;
    const RUNS_MAX: u32 = u32::MAX;
    const EAGERNESS: Eagerness = Eagerness::TakeAll;

    fn parts(&mut self) -> (&mut RoceDevice, &mut Memories) {
        (&mut self.host, &mut self.memories)
    }

    fn delayed_ack(&mut self) -> &mut DelayedAck {
        &mut self.delayed_ack
    }

    fn receive_others(&mut self, _io: &mut RoceIo) {
        self.network.read_forwarded();
    }

    fn background_polled(&mut self) {
        self.network.counters.background_polls += 1;
    }

    /// A program that has armed a queue sleeps, or is about to, even if it has polled just now,
    /// unless it goes on polling.
    fn wants_background(&self) -> bool {
        self.host.is_armed() && self.arming.may_sleep()
    }

    fn fire_own_timers(&mut self, now: Instant) {
        self.network.retry_forwarded(now);
    }

    fn deadline(&self, _engine: u32) -> Option<Instant> {
        runtime::earlier(self.host.poll_timeout(), self.network.retry_at())
    }

    fn parse<'a>(
        &mut self,
        io: &mut RoceIo,
        socket: usize,
        arrival: &'a Arrival<'_>,
        index: usize,
    ) -> Option<Parsed<'a, Self>> {
        let genuine = self.network.receive(io, socket, arrival, index)?;
        let (arrived, decoded) = (genuine.arrived, genuine.decoded);
        // The program may ask for the sender of a datagram.
        if !is_ipv4(genuine.source) && self.unacknowledged.contains(&decoded.packet.bth.destination)
        {
            self.network.routes.keep_sender(arrived.source.ip());
        }
        let payload = &arrived.datagram[decoded.header_len..][..decoded.payload_len];
        let received = Received {
            source: genuine.source,
            packet: decoded.packet,
            payload: payload.len() as u32,
            ecn: arrived.ecn,
        };
        let payload = Payload::Here(payload);
        Some(Parsed { received, payload, context: Some(arrived) })
    }

    fn admit(&mut self, io: &mut RoceIo, now: Instant, received: &Received) -> bool {
        self.answer_before(io, now, received);
        true
    }

    fn placing(
        &mut self,
        _io: &mut RoceIo,
        placement: &Placement<Target, PlacementToken>,
        parsed: &Parsed<'_, Self>,
    ) -> Placing {
        let header = &placement.target.header;
        match &parsed.context {
            Some(arrived) if header.length() > 0 => {
                match self.memories.scatter(header, Payload::Here(&arrived.ip_header())) {
                    Ok(()) => Placing::Now,
                    Err(_) => Placing::Gone,
                }
            }
            Some(_) | None => Placing::Now,
        }
    }

    fn carry_out(&mut self, now: Instant, own: OwnVerdict, parsed: &Parsed<'_, Self>) {
        match own {
            OwnVerdict::Store { target, value, token } => {
                let bytes = value.to_ne_bytes();
                let placed = self.memories.scatter(&target, Payload::Here(&bytes));
                report(&mut self.host, &mut self.memories, now, token, placed.map(|()| 0));
            }
            OwnVerdict::Buffer { place } => {
                let payload = parsed.payload.here().expect("packets of RoCE come from sockets");
                self.buffered.put(place, &parsed.received, payload)
            }
        }
    }

    /// Passes in buffered packets whose turn has come with this one.
    fn handled(&mut self, io: &mut RoceIo, now: Instant, _received: &Received, _acks: u64) {
        while let Some(place) = self.host.poll_replay() {
            let Some((received, bytes)) = self.buffered.take(place) else { continue };
            handle(
                self,
                io,
                now,
                &Parsed { received, payload: Payload::Here(&bytes), context: None },
            );
            self.buffered.restore(place, bytes);
        }
    }

    fn add(&mut self, io: &mut RoceIo, _now: Instant, transmit: &Transmit) -> bool {
        let may_hold = |held: &Transmit| held.queue_pair == transmit.queue_pair;
        if !is_acknowledgement(&transmit.packet) || !io.outbox.held.as_ref().is_none_or(may_hold) {
            return self.put(io, transmit, None);
        }
        // An acknowledgement is short: it ends a run, and cannot be in front of other packets. It
        // covers everything that an older one of the same queue pair did.
        let is_older = |held: &Transmit| held.packet.bth.psn.is_before(transmit.packet.bth.psn);
        if io.outbox.held.as_ref().is_none_or(is_older) {
            io.outbox.held = Some(*transmit);
        }
        true
    }

    fn add_pending(&mut self, io: &mut RoceIo, _now: Instant, waiting: Waiting) -> bool {
        self.put_waiting(io, waiting)
    }

    fn add_held(&mut self, io: &mut RoceIo, _now: Instant, held: Transmit) -> bool {
        self.put(io, &held, None)
    }

    fn run_complete(&mut self, io: &mut RoceIo, _now: Instant) {
        self.put_held(io);
    }

    fn note_sending_done(&mut self, io: &mut RoceIo) {
        self.settle_pending(io);
    }

    fn run_pending(&mut self, _io: Option<&mut RoceIo>) -> Vec<Notice> {
        let notices = &mut self.network.notices;
        while let Some(queue) = self.host.poll_notification() {
            notices.push(Notice::Completion(queue));
        }
        while let Some(event) = self.host.poll_event() {
            // Memory is returned when it is deregistered.
            if !matches!(event, Event::SegmentReleased { .. }) {
                notices.push(Notice::Event(event));
            }
        }
        self.network.take_notices()
    }

    fn notify(outside: &Outside, notices: Vec<Notice>) -> bool {
        outside.report(notices)
    }
}
