//! A process without queue pairs that exchanges management datagrams on RoCE's network.
//!
//! It has the sockets, the slot and the forwarding of a provider, and no NIC: a packet for a queue
//! pair is forwarded to another process, or dropped.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use fairway_device::{CompletionQueueId, Device, LocalRange, Placement, VerdictOf};
use fairway_port::Arrival;
use fairway_ub::wire::Instant;

use super::network::Network;
use super::outside::{Notice, Outside};
use super::packets::{Packets, RoceIo, Waiting};
use super::{Driver, Parts, Process, assemble, check, sockets};
use crate::slot::Slot;
use crate::{Listener, ProviderError, ProviderOptions, ServiceClaim, ServiceReservation};
use fairway_roce::Transmit;
use fairway_runtime::{DelayedAck, Eagerness, Memories, Parsed, Placing, Protocol, Unregistered};

/// Sends and receives management datagrams, and owns the slot.
pub(crate) struct Endpoint {
    driver: Driver<Mailroom>,
    slot: u8,
}

impl Endpoint {
    /// Opens the endpoint, for the process of this slot.
    pub(crate) fn open(
        options: &ProviderOptions,
        slot: Slot,
        listener: Arc<dyn Listener>,
    ) -> Result<Endpoint, ProviderError> {
        check(options)?;
        let number = slot.number();
        let Parts { network, io, background, slot } = assemble(sockets::open_on(options, slot)?)?;
        let core = Mailroom {
            network,
            nothing: Nothing,
            memories: Memories::new(Unregistered::Bug),
            delayed_ack: DelayedAck::default(),
        };
        let driver = Driver::start(core, io, background, slot, listener)?;
        Ok(Endpoint { driver, slot: number })
    }

    /// The number of the slot.
    pub(crate) fn slot(&self) -> u8 {
        self.slot
    }

    /// As [`Provider::send_management`](crate::Provider::send_management).
    pub(crate) fn send(&self, to: IpAddr, bytes: &[u8; 256]) -> Result<(), ProviderError> {
        self.driver.send_management(self.driver.resolve(to)?, bytes)
    }

    /// As [`Provider::leaves_from`](crate::Provider::leaves_from).
    pub(crate) fn leaves_from(&self, to: IpAddr) -> Option<IpAddr> {
        self.driver.leaves_from(self.driver.resolve(to).ok()?)
    }

    /// As [`Provider::claim_service`](crate::Provider::claim_service).
    pub(crate) fn claim_service(
        &self,
        service: ServiceReservation,
    ) -> Result<Box<dyn ServiceClaim>, ProviderError> {
        self.driver.claim_service(service)
    }
}

/// A device that receives no packet.
struct Nothing;

impl Device for Nothing {
    type Received = Infallible;
    type Target = LocalRange;
    type Token = Infallible;
    type OwnVerdict = Infallible;
    type DropReason = Infallible;
    type Execution = fairway_device::Execution<Infallible>;
    type Transmit = Infallible;
    type Completion = Infallible;
    type Event = Infallible;

    fn handle_packet(&mut self, _now: Instant, received: &Infallible) -> VerdictOf<Self> {
        match *received {}
    }
    fn handle_placed(&mut self, _now: Instant, token: Infallible, _old: u64) {
        match token {}
    }
    fn handle_unplaced(&mut self, _now: Instant, token: Infallible) {
        match token {}
    }
    fn handle_ungathered(&mut self, transmit: &Infallible) {
        match *transmit {}
    }
    fn handle_timeout(&mut self, _now: Instant) {}
    fn poll_transmit(&mut self, _now: Instant) -> Option<Infallible> {
        None
    }
    fn poll_execution(&mut self) -> Option<Self::Execution> {
        None
    }
    fn poll_completion(&mut self, _queue: CompletionQueueId) -> Option<Infallible> {
        None
    }
    fn poll_event(&mut self) -> Option<Infallible> {
        None
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// The state behind the lock of an endpoint.
struct Mailroom {
    network: Network,
    nothing: Nothing,
    memories: Memories,
    delayed_ack: DelayedAck,
}

impl Process for Mailroom {
    fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    fn name(&mut self, ip: IpAddr) -> Option<u64> {
        self.network.routes.name(ip, HashSet::new)
    }
}

impl Protocol for Mailroom {
    type Device = Nothing;
    type Own = Packets;
    type Context<'a> = ();
    type After = Vec<Notice>;
    type Outside = Outside;

    const RECEIVED_MAX: usize = 128;
    const CAUGHT_UP_MAX: usize = 128;
    const SENT_MAX: usize = 512;
    const RUNS_MAX: u32 = u32::MAX;
    const EAGERNESS: Eagerness = Eagerness::TakeAll;

    fn parts(&mut self) -> (&mut Nothing, &mut Memories) {
        (&mut self.nothing, &mut self.memories)
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

    fn fire_own_timers(&mut self, now: Instant) {
        self.network.retry_forwarded(now);
    }

    fn deadline(&self, _engine: u32) -> Option<Instant> {
        self.network.retry_at()
    }

    fn parse<'a>(
        &mut self,
        io: &mut RoceIo,
        socket: usize,
        arrival: &'a Arrival<'_>,
        index: usize,
    ) -> Option<Parsed<'a, Self>> {
        if self.network.receive(io, socket, arrival, index).is_some() {
            self.network.counters.malformed += 1;
        }
        None
    }

    fn admit(&mut self, _io: &mut RoceIo, _now: Instant, received: &Infallible) -> bool {
        match *received {}
    }

    fn placing(
        &mut self,
        _io: &mut RoceIo,
        placement: &Placement<LocalRange, Infallible>,
        _parsed: &Parsed<'_, Self>,
    ) -> Placing {
        match placement.token {}
    }

    fn carry_out(&mut self, _now: Instant, own: Infallible, _parsed: &Parsed<'_, Self>) {
        match own {}
    }

    fn add(&mut self, _io: &mut RoceIo, _now: Instant, transmit: &Infallible) -> bool {
        match *transmit {}
    }

    /// Management datagrams are sent at once or not at all.
    fn add_pending(&mut self, _io: &mut RoceIo, _now: Instant, _pending: Waiting) -> bool {
        true
    }

    fn add_held(&mut self, _io: &mut RoceIo, _now: Instant, _held: Transmit) -> bool {
        true
    }

    fn run_pending(&mut self, _io: Option<&mut RoceIo>) -> Vec<Notice> {
        self.network.take_notices()
    }

    fn notify(outside: &Outside, notices: Vec<Notice>) -> bool {
        outside.report(notices)
    }
}
