//! NICs with real memories on a simulated network, under one virtual clock.
//!
//! Every packet is encoded, carried as bytes with its payload behind it, and decoded on arrival.
//! Any violation of the protocol's contract ends the run: [`World::step`] returns the error.
//!
//! As the protocol's caller, the world has one obligation: a placement that is still in progress
//! when its channel ends, or when its memory is deregistered, is dropped or finished *before* that
//! is reported, as a NIC waits for its DMA. [`World::deregister`] does that.

use crate::adversary::{Adversary, ChannelName, Delivery, Fault};
use crate::agenda::Agenda;
use crate::finding::Finding;
use crate::memory::Memory;
use crate::node::{Access, ChannelNote, Node, Outcome, Payload, Terms, WorldConfig};
use crate::operation::Missed;
use crate::plan::ControllerPlacement;
use crate::trace::{Trace, summary};
use fairway_device::drive::{self, Driver};
use fairway_device::random::Random;
use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::{self, Cci, Cna, Decoded, Duration, Instant, MAX_HEADER, Packet, Route};
use fairway_ub::{
    AtomicExecution, ChannelId, DropReason, InjectedBug, Limits, Profile, Received, SegmentId,
    Transmit, UbDevice, Verdict,
};
use std::collections::{BTreeMap, BTreeSet};

/// An event of the world.
#[derive(Debug)]
enum WorldEvent {
    Arrive {
        node: usize,
        delivery: Delivery,
    },
    Turn {
        node: usize,
    },
    Place {
        node: usize,
        incarnation: u32,
        id: u64,
    },
    Resume {
        node: usize,
    },
    /// A timer that the application set.
    Timer(u64),
}

/// Counters of the world.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) packets: u64,
    pub(crate) data_packets: u64,
    /// Data packets that carried an acknowledgement.
    pub(crate) carrying: u64,
    pub(crate) delivered: u64,
    /// Packets that arrived at a node that was not running.
    pub(crate) unheard: u64,
}

/// An effect on memory: an access for a peer, or the placement of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    /// Key of the memory, and offset.
    pub(crate) place: (usize, usize),
    pub(crate) length: u32,
    /// For an atomic: the operation, and the word's old value.
    pub(crate) atomic: Option<(AtomicExecution, u64)>,
    /// For a store: the place of its source bytes, and the sequence number of its acceptance.
    pub(crate) store: Option<((usize, usize), u64)>,
}

/// Identifies a store at its target: the target and its incarnation, its channel, and the store's
/// number.
type StoreName = (usize, u32, u32, u32);

/// The world. The application above it calls [`step`](World::step) and reads the outputs.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<Node>,
    pub(crate) memory: Memory,
    pub(crate) adversary: Adversary,
    pub(crate) trace: Trace,
    pub(crate) random: Random,
    pub(crate) tally: Tally,
    pub(crate) config: WorldConfig,
    /// Effects on memory that have not been checked yet.
    pub(crate) effects: Vec<Effect>,
    pub(crate) absence: Absence,
    /// Stores that were sent, and the places of their source bytes.
    stores: BTreeMap<StoreName, (usize, usize)>,
    next_late: u64,
    agenda: Agenda<WorldEvent>,
    /// Earlier packets for replay: their destination and their bytes.
    history: Vec<(usize, Vec<u8>)>,
    /// Consecutive events without an advance of the clock.
    spins: u32,
    spun_at: Instant,
}

/// Maximum number of events at one instant; more mean that a NIC requests a time in the past.
const SPINS_MAX: u32 = 100_000;
/// Number of earlier packets that are kept.
const HISTORY: usize = 64;

impl World {
    pub(crate) fn new(
        nodes: usize,
        config: WorldConfig,
        adversary: Adversary,
        trace: Trace,
        seed: u64,
    ) -> Self {
        World {
            now: Instant::from_ns(1),
            nodes: (0..nodes).map(|_| Node::absent()).collect(),
            memory: Memory::new(nodes),
            adversary,
            trace,
            random: Random::fork(seed, 0x0077_6F72),
            tally: Tally::default(),
            config,
            effects: Vec::new(),
            absence: Absence::default(),
            stores: BTreeMap::new(),
            next_late: 0,
            agenda: Agenda::new(),
            history: Vec::new(),
            spins: 0,
            spun_at: Instant::ZERO,
        }
    }

    /// Starts a NIC at `node`, under a new address.
    pub(crate) fn start(
        &mut self,
        node: usize,
        limits: &Limits,
        profile: &Profile,
        bug: Option<InjectedBug>,
    ) {
        let cna = Cna::new(self.random.number() as u32);
        let mut nic = UbDevice::new(cna, limits, profile, self.random.number());
        nic.inject(bug);
        let incarnation = self.nodes[node].incarnation + 1;
        let old = std::mem::replace(&mut self.nodes[node], Node::absent());
        self.nodes[node] = Node {
            driver: Some(Driver::new(nic, 0)),
            incarnation,
            channels: vec![None; limits.channels as usize],
            drops: old.drops,
            wire_free: self.now,
            ..Node::absent()
        };
        self.trace.line(self.now, node, || format!("starts as {:06x}", cna.value()));
    }

    /// Sets the scheduler and the credit policy of a node.
    pub(crate) fn share_out(&mut self, node: usize, limits: &Limits, policy: &PolicySpec) {
        if let Some(nic) = self.nodes[node].nic_mut() {
            nic.set_scheduler(self.now, policy.scheduler_of_nic(limits.flows));
            nic.set_credit_policy(policy.build_credit(limits.channels));
        }
    }

    /// Sets the placement of the congestion controllers of the channels that the node will open.
    pub(crate) fn place_controllers(&mut self, node: usize, controller: ControllerPlacement) {
        let here = &mut self.nodes[node];
        let Some(nic) = here.nic_mut() else { return };
        match controller {
            ControllerPlacement::Direct => {}
            ControllerPlacement::InLine { budget } => nic.coalesce_congestion(Some(budget)),
            ControllerPlacement::Apart { .. } => here.controllers = Some(nic.detach_congestion()),
        }
    }

    /// Runs the controllers that are apart from the data path on some of their pending events.
    pub(crate) fn run_controllers(&mut self, node: usize, random: &mut Random) {
        let here = &mut self.nodes[node];
        let (Some(driver), Some(controllers)) = (&mut here.driver, &mut here.controllers) else {
            return;
        };
        if here.paused {
            return;
        }
        let nic = driver.device_mut();
        // Controllers are not always adopted before their channel is used.
        while random.chance(700)
            && let Some(controller) = nic.poll_controller()
        {
            controllers.adopt(controller);
        }
        controllers.run(random.magnitude(64) as u32);
    }

    /// Crashes a node, which loses all its state.
    pub(crate) fn crash(&mut self, node: usize) {
        self.adversary.count(Fault::Crash);
        self.trace.line(self.now, node, || String::from("crashes"));
        let gone = &mut self.nodes[node];
        if let Some(driver) = gone.driver.take() {
            for (sum, drops) in gone.drops.iter_mut().zip(driver.device().counters().drops) {
                *sum += drops;
            }
        }
        *gone = Node { incarnation: gone.incarnation, drops: gone.drops, ..Node::absent() };
        self.memory.forget_node(node);
    }

    /// Pauses a node until `until`.
    pub(crate) fn pause(&mut self, node: usize, until: Instant) {
        self.adversary.count(Fault::Pause);
        self.trace.line(self.now, node, || String::from("pauses"));
        self.nodes[node].paused = true;
        self.agenda.add(until, WorldEvent::Resume { node });
    }

    pub(crate) fn is_paused(&self, node: usize) -> bool {
        self.nodes[node].paused
    }

    pub(crate) fn nic(&mut self, node: usize) -> Option<&mut UbDevice> {
        self.nodes[node].nic_mut()
    }

    /// Sets a timer: [`Self::step`] returns `code` at `at`.
    pub(crate) fn timer(&mut self, at: Instant, code: u64) {
        self.agenda.add(at, WorldEvent::Timer(code));
    }

    /// Sets the peer to which the packets of a channel are carried.
    pub(crate) fn connect(
        &mut self,
        node: usize,
        channel: ChannelId,
        leader: ChannelId,
        (peer, peer_leader): (usize, ChannelId),
        (name, terms): (ChannelName, Terms),
    ) {
        let note = ChannelNote {
            id: channel,
            leader,
            peer_leader,
            peer,
            name,
            terms,
            awake_since: self.now,
            peer_incarnation: self.nodes[peer].incarnation,
            last_received_at: self.now,
            last_data: None,
            cci: Cci::NONE,
            taken: BTreeSet::new(),
            datagrams: BTreeSet::new(),
        };
        self.nodes[node].channels[channel.index()] = Some(note);
    }

    /// Finishes all deferred placements into a segment.
    pub(crate) fn finish_placements(
        &mut self,
        node: usize,
        segment: SegmentId,
    ) -> Result<(), Finding> {
        while let Some(at) =
            self.nodes[node].late.iter().position(|late| late.target().segment == segment)
        {
            let late = self.nodes[node].late.remove(at);
            self.place(node, late)?;
        }
        Ok(())
    }

    /// Deregisters a segment after finishing the placements into it.
    pub(crate) fn deregister(&mut self, node: usize, segment: SegmentId) -> Result<bool, Finding> {
        self.finish_placements(node, segment)?;
        let Some(nic) = self.nic(node) else { return Err("no NIC".into()) };
        let released = nic.deregister(segment).map_err(|error| format!("deregister: {error:?}"))?;
        self.collect(node);
        Ok(released)
    }

    /// Schedules the handling of a NIC after a command of its application.
    pub(crate) fn schedule_poll(&mut self, node: usize) {
        let delay = self.random.below(self.config.turn_delay.as_ps() + 1);
        self.schedule_turn(node, self.now + Duration::from_ps(delay));
    }

    /// Executes the next event. Returns the timer's code if the event was a timer.
    pub(crate) fn step(&mut self) -> Result<Option<u64>, Finding> {
        let Some((now, next)) = self.agenda.next() else {
            return Err("nothing is left to happen".into());
        };
        self.now = now;
        self.tally.steps += 1;
        match next {
            WorldEvent::Arrive { node, delivery } => self.arrive(node, delivery)?,
            WorldEvent::Turn { node } => self.turn(node, now)?,
            WorldEvent::Place { node, incarnation, id } => self.late(node, incarnation, id)?,
            WorldEvent::Resume { node } => self.resume(node)?,
            WorldEvent::Timer(code) => return Ok(Some(code)),
        }
        Ok(None)
    }

    /// Delivers bytes that no NIC of the world has sent.
    pub(crate) fn inject(&mut self, node: usize, bytes: Vec<u8>) {
        let after = Duration::ZERO;
        let delivery = Delivery { hostile: true, ..Delivery::new(after, bytes) };
        self.agenda.add(self.now, WorldEvent::Arrive { node, delivery });
    }

    // ---- inside ----

    fn schedule_turn(&mut self, node: usize, at: Instant) {
        let earlier = self.nodes[node].turn_at.is_none_or(|due| at.is_before(due));
        if earlier {
            self.nodes[node].turn_at = Some(at);
            self.agenda.add(at, WorldEvent::Turn { node });
        }
    }

    fn arrive(&mut self, node: usize, delivery: Delivery) -> Result<(), Finding> {
        if self.nodes[node].driver.is_none() {
            self.tally.unheard += 1;
            return Ok(());
        }
        if self.nodes[node].paused {
            if self.nodes[node].inbox.len() >= self.config.inbox {
                self.adversary.count(Fault::PauseOverflow);
            } else {
                let delivery = Delivery { arrived: Some(self.now), ..delivery };
                self.nodes[node].inbox.push_back(delivery);
            }
            return Ok(());
        }
        self.take_in(node, delivery)?;
        self.schedule_poll(node);
        Ok(())
    }

    fn take_in(&mut self, node: usize, delivery: Delivery) -> Result<(), Finding> {
        let bytes = &delivery.bytes;
        let prefix = &bytes[..bytes.len().min(MAX_HEADER)];
        let decoded = wire::decode(prefix, bytes.len());
        let Ok(Decoded::Packet { route, packet, header_len }) = decoded else {
            self.trace.line(self.now, node, || format!("receives noise: {decoded:?}"));
            return Ok(());
        };
        if delivery.damaged {
            return Err(format!("node {node} took a damaged header for {packet:?}").into());
        }
        let payload = (bytes.len() - header_len) as u32;
        let received = Received { route, packet, payload, ecn: delivery.ecn, hops: 0 };
        self.awaken_for(node, &route);
        self.tell_wait(node, &delivery);
        if delivery.trimmed {
            return self.take_in_trimmed(node, &received);
        }
        self.intrude(node, &received)?;
        let now = self.now;
        let Some(driver) = self.nodes[node].driver.as_mut() else { return Ok(()) };
        let outcome =
            driver.handle_packet(now, &received, || Payload(bytes[header_len..].to_vec()));
        self.tally.delivered += 1;
        self.trace.stir(u64::from(payload) << 32 | u64::from(header_len as u32));
        self.trace
            .line(now, node, || format!("< {} : {outcome:?}", summary(&route, &packet, payload)));
        self.note(node, &received, &outcome)?;
        if matches!(outcome, Outcome::Dropped(DropReason::BeyondWindow)) && !delivery.hostile {
            return Err(
                format!("node {node} refuses what it said it could track: {received:?}").into()
            );
        }
        if self.tally.delivered.is_multiple_of(self.config.audit_every)
            && let Some(nic) = self.nic(node)
        {
            nic.audit();
        }
        self.collect(node);
        if let Some(access) = outcome.access() {
            self.admit(node, &received, access)?;
        }
        self.execute(node)?;
        if self.random.chance(10) {
            self.remember(node, delivery.bytes);
        }
        Ok(())
    }

    /// Passes on the headers of a packet whose payload a switch has cut off. The NIC must place
    /// nothing.
    /// Tells a node how long a packet has waited there, if hosts know that.
    fn tell_wait(&mut self, node: usize, delivery: &Delivery) {
        let waited = delivery.arrived.map_or(Duration::ZERO, |at| self.now.elapsed_since(at));
        if let Some(driver) = self.nodes[node].driver.as_mut() {
            driver.device_mut().set_host_wait(self.config.knows_waits.then_some(waited));
        }
    }

    fn take_in_trimmed(&mut self, node: usize, received: &Received) -> Result<(), Finding> {
        let now = self.now;
        let Some(driver) = self.nodes[node].driver.as_mut() else { return Ok(()) };
        let verdict = driver.device_mut().handle_trimmed(now, received);
        self.trace.line(now, node, || {
            let Received { route, packet, payload, .. } = received;
            format!("< trimmed {} : {verdict:?}", summary(route, packet, *payload))
        });
        if !matches!(verdict, Verdict::Done | Verdict::Drop(_)) {
            return Err(format!("node {node} takes a trimmed packet for whole: {verdict:?}").into());
        }
        if matches!(verdict, Verdict::Done) {
            self.note_heard(node, &received.route);
        }
        self.collect(node);
        Ok(())
    }

    /// Checks an access that a packet requests, and has it carried out.
    fn admit(&mut self, node: usize, received: &Received, access: Access) -> Result<(), Finding> {
        let (route, packet) = (&received.route, &received.packet);
        let mut missed = None;
        if let drive::Access::Place { target, .. } = &access {
            let payload = received.payload;
            if target.length != payload {
                return Err(format!("{payload} bytes came, to be placed as {access:?}").into());
            }
            missed = match self.store_name(node, route, packet) {
                None => self.missed_by(node, received),
                Some(name) => match self.stores.get(&name) {
                    Some(&ink) => Some(Missed::Store(ink)),
                    None => {
                        return Err(
                            format!("node {node} executes a store that was not sent").into()
                        );
                    }
                },
            };
        }
        let channel = self.channel_of(node, route);
        self.do_sometime(node, access, channel, missed)
    }

    fn channel_of(&self, node: usize, route: &Route) -> ChannelId {
        let index = (route.destination_tpn.value() & 0xFFFF) as usize;
        // Only packets of open channels may be placed.
        self.nodes[node].channels[index].as_ref().expect("a channel that the world knows").id
    }

    fn resume(&mut self, node: usize) -> Result<(), Finding> {
        if !std::mem::take(&mut self.nodes[node].paused) {
            return Ok(());
        }
        self.nodes[node].resumed = self.now;
        self.trace.line(self.now, node, || String::from("resumes"));
        while let Some(delivery) = self.nodes[node].inbox.pop_front() {
            self.take_in(node, delivery)?;
        }
        self.schedule_poll(node);
        Ok(())
    }

    fn turn(&mut self, node: usize, at: Instant) -> Result<(), Finding> {
        let here = &mut self.nodes[node];
        if here.turn_at != Some(at) {
            return Ok(());
        }
        here.turn_at = None;
        let now = self.now;
        let Some(driver) = here.driver.as_mut().filter(|_| !here.paused) else { return Ok(()) };
        driver.handle_time(now);
        self.collect(node);
        self.transmit(node)?;
        self.collect(node);
        if self.spun_at == now {
            self.spins += 1;
        } else {
            (self.spins, self.spun_at) = (0, now);
        }
        if self.spins > SPINS_MAX {
            return Err(format!("node {node} requests a wake-up at a time that has passed").into());
        }
        let due = self.nodes[node].driver.as_ref().and_then(Driver::poll_timeout);
        if let Some(due) = due {
            self.schedule_turn(node, due.max(now));
        }
        Ok(())
    }

    /// Sends a burst of packets if the wire is free.
    fn transmit(&mut self, node: usize) -> Result<(), Finding> {
        let now = self.now;
        if !now.is_before(self.nodes[node].wire_free) {
            for _ in 0..self.config.burst {
                let Some(driver) = self.nodes[node].driver.as_mut() else { return Ok(()) };
                let engines = driver.device().limits().engines;
                let first = if engines > 1 { self.random.below(engines.into()) as u32 } else { 0 };
                let Some(transmit) = driver.poll_transmit_from(now, first) else { return Ok(()) };
                self.send(node, &transmit)?;
            }
        }
        let at = self.nodes[node].wire_free.max(now + Duration::from_ps(1));
        self.schedule_turn(node, at);
        Ok(())
    }

    fn send(&mut self, node: usize, transmit: &Transmit) -> Result<(), Finding> {
        if self.is_ungathered(node, transmit) {
            return Ok(());
        }
        let length = transmit.gather.length;
        let mut bytes = vec![0; MAX_HEADER];
        let header = wire::encode(&transmit.route, &transmit.packet, length as usize, &mut bytes);
        bytes.truncate(header);
        if length > 0 {
            bytes.extend_from_slice(self.memory.named(node, &transmit.gather)?);
        }
        let now = self.now;
        let note = self.nodes[node].channels[transmit.channel.index()]
            .as_ref()
            .filter(|note| note.id == transmit.channel);
        let found = note.map(|note| (note.peer, note.peer_incarnation, note.name));
        let Some((peer, life, name)) = found else {
            return Err(format!(
                "node {node} sends on a channel that was not opened: {transmit:?}"
            )
            .into());
        };
        self.note_store(node, (peer, life), transmit)?;
        self.check_cci(node, transmit)?;
        self.trace.stir_bytes(&bytes[..header]);
        self.trace.line(now, node, || {
            format!("> {}", summary(&transmit.route, &transmit.packet, length))
        });
        self.tally.packets += 1;
        if let Packet::Data(data) = &transmit.packet {
            self.tally.data_packets += 1;
            self.tally.carrying += u64::from(data.carried.is_some());
        }
        // Ethernet, IP and UDP take 42 bytes, which are not encoded here.
        let time = self.config.byte_time.times(bytes.len() as u64 + 42);
        let here = &mut self.nodes[node];
        here.wire_free = here.wire_free.max(now) + time;
        let leaves = here.wire_free;
        let way = (node, peer, transmit.route.path);
        if let Packet::Data(_) = transmit.packet {
            self.adversary.write_hint(way, &mut bytes);
        }
        if matches!(transmit.packet, Packet::Retire(_)) && self.adversary.loses_notice() {
            return Ok(());
        }
        let deliveries = match self.adversary.fate_of_channel(now, name, &bytes) {
            Some(late) => late,
            None => self.adversary.fate(now, way, bytes, header),
        };
        for delivery in deliveries {
            let at = leaves + delivery.after;
            self.agenda.add(at, WorldEvent::Arrive { node: peer, delivery });
        }
        Ok(())
    }

    /// Collects the NIC's outputs for its application.
    fn collect(&mut self, node: usize) {
        let here = &mut self.nodes[node];
        let Some(driver) = here.driver.as_mut() else { return };
        here.outputs.extend(driver.outputs(&here.queues));
    }

    /// Collects the NIC's outputs for its application, after a command.
    pub(crate) fn look(&mut self, node: usize) {
        self.collect(node);
    }
}

mod missing;
mod notes;
mod placing;
mod resting;

pub(crate) use missing::{Absence, Miss};
