//! Time passes: hosts, the steps between them, and the wire.

use crate::config::{Config, Stack, Verb};
use crate::error::{ModelError, Violation};
use crate::events::Events;
use crate::fanout::Handled;
use crate::ledger::Ledger;
use crate::node::Node;
use crate::path::{Phase, Prices, Resource, Size, Step, Steps};
use crate::post_list::Parked;
use crate::random::Random;
use crate::side::{
    CoherentSide, EXPOSED, Effect, Failure, HOME, LOCAL, Outgoing, Packet, Placing, Post, RoceSide,
    Role, Side, UbSide,
};
use fairway_engine::wire::{self, Ecn};
use std::collections::{BTreeMap, BTreeSet};

/// What comes at the end of a way.
#[derive(Debug)]
pub(crate) enum Then {
    /// A work request is at the NIC.
    Post(u64),
    /// Packets have come through the target's NIC.
    Deliver(Vec<Frame>),
    /// Something is in place.
    Placed { host: usize, placing: Placing },
    /// The application has its answer.
    Finish(u64),
    /// The NIC has several work requests.
    Rung(Vec<Parked>),
    /// A member of a service has handled a message.
    Handled { host: usize, receive: u64, member: u32 },
}

/// A packet with its payload.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) packet: Packet,
    pub(crate) payload: Vec<u8>,
    /// A switch has marked it: there was congestion.
    pub(crate) marked: bool,
}

/// Something on its way.
#[derive(Debug)]
pub(crate) struct Journey {
    steps: std::vec::IntoIter<Step>,
    then: Then,
    /// True if an operation waits for it.
    counts: bool,
}

#[derive(Debug)]
pub(crate) enum Happening {
    /// The step that it was at is over.
    Go(Box<Journey>),
    Pull(usize),
    Alarm(usize),
    /// A core is free, and may have work requests that were not rung for.
    Ring {
        host: usize,
        core: u32,
    },
    /// The workload asked for it.
    Wake(u64),
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) host: usize,
    pub(crate) core: u32,
    pub(crate) post: Post,
    pub(crate) done: bool,
    pub(crate) value: u64,
    /// When it was given to the engine.
    pub(crate) posted: bool,
}

/// Sums by phase, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseSum {
    /// Steps taken.
    pub steps: u64,
    /// What they took.
    pub latency_ps: u64,
    /// What they waited.
    pub waiting_ps: u64,
}

/// The hosts, and everything under way between them.
pub(crate) struct World {
    pub(crate) events: Events<Happening>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) prices: Prices,
    pub(crate) operations: BTreeMap<u64, Operation>,
    pub(crate) finished: Vec<u64>,
    pub(crate) handled: Vec<Handled>,
    /// Of a dispatcher in software.
    pub(crate) turn: u64,
    pub(crate) phases: Vec<PhaseSum>,
    pub(crate) lost: u64,
    pub(crate) doorbells: u64,
    /// By a switch's port, because its buffer was full; and marked there.
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    pub(crate) packets: u64,
    pub(crate) wire_bytes: u64,
    pub(crate) ledger: Ledger,
    pub(crate) random: Random,
    /// By sender and receiver: when the last packet arrives. A wire does not reorder.
    arrivals: BTreeMap<(usize, usize), u64>,
    /// By host, stream and number: packets whose turn has not come, and since when.
    waiting: BTreeMap<(usize, u32, u64), (u64, Box<Journey>)>,
    pub(crate) touched: BTreeSet<usize>,
    next: u64,
}

impl World {
    pub(crate) fn new(config: &Config) -> Result<World, ModelError> {
        let sides: Vec<Box<dyn Side>> = if config.stack.is_ub() {
            UbSide::all(config)?.into_iter().map(|side| Box::new(side) as Box<dyn Side>).collect()
        } else if config.stack == Stack::Coherent {
            let sides = CoherentSide::all(config).into_iter();
            sides.map(|side| Box::new(side) as Box<dyn Side>).collect()
        } else {
            RoceSide::all(config)?.into_iter().map(|side| Box::new(side) as Box<dyn Side>).collect()
        };
        let cores = if config.oracle { 1 } else { config.jetties };
        // The members of a service, and its dispatcher.
        let cores = config.fanout().map_or(cores, |fanout| cores.max(fanout.members + 1));
        Ok(World {
            events: Events::new(),
            nodes: sides.into_iter().map(|side| Node::new(config, side, cores)).collect(),
            prices: Prices::new(config),
            operations: BTreeMap::new(),
            finished: Vec::new(),
            handled: Vec::new(),
            turn: 0,
            phases: vec![PhaseSum::default(); Phase::ALL.len()],
            lost: 0,
            doorbells: 0,
            dropped: 0,
            marked: 0,
            packets: 0,
            wire_bytes: 0,
            ledger: Ledger::default(),
            random: Random::new(config.seed ^ 0x1055),
            arrivals: BTreeMap::new(),
            waiting: BTreeMap::new(),
            touched: BTreeSet::new(),
            next: 0,
        })
    }

    /// Begins an operation by these first steps; those of its submission follow.
    pub(crate) fn begin(&mut self, host: usize, core: u32, first: Steps, post: Post) -> u64 {
        self.next += 1;
        let id = self.next;
        let post = Post { id, ..post };
        let contexts = self.nodes[host].side.contexts(&post);
        let mut steps = first;
        let shares = self.prices.config.batch > 1 && self.prices.rings(&post);
        let call = !shares || self.join_list(host, core);
        steps.extend(self.prices.submit(host, core, &post, contexts, call));
        let operation = Operation { host, core, post, done: false, value: 0, posted: false };
        self.operations.insert(id, operation);
        self.start(steps, Then::Post(id), true);
        id
    }

    /// An operation that no engine sees.
    pub(crate) fn begin_local(&mut self, host: usize, steps: Steps, post: Post) -> u64 {
        self.next += 1;
        let id = self.next;
        let post = Post { id, ..post };
        let operation = Operation { host, core: 0, post, done: false, value: 0, posted: true };
        self.operations.insert(id, operation);
        self.start(steps, Then::Finish(id), true);
        id
    }

    /// Lets the next thing happen; the code of a wake-up if it was one.
    pub(crate) fn step(&mut self) -> Result<Option<u64>, ModelError> {
        let happening = self.events.next().ok_or(ModelError::Stalled)?;
        let mut woken = None;
        match happening {
            Happening::Go(journey) => self.go(journey)?,
            Happening::Pull(host) => {
                self.nodes[host].pull_planned = false;
                self.touched.insert(host);
            }
            Happening::Alarm(host) => {
                let now = self.events.now;
                let node = &mut self.nodes[host];
                if node.alarm == Some(now) {
                    node.alarm = None;
                }
                if node.side.timeout().is_some_and(|due| due <= now) {
                    node.side.handle_timeout(now);
                }
                self.touched.insert(host);
            }
            Happening::Ring { host, core } => self.look_again(host, core),
            Happening::Wake(code) => woken = Some(code),
        }
        while let Some(host) = self.touched.pop_first() {
            self.settle(host)?;
        }
        Ok(woken)
    }

    pub(crate) fn start(&mut self, steps: Steps, then: Then, counts: bool) {
        let journey = Journey { steps: steps.into_iter(), then, counts };
        self.events.at(self.events.now, Happening::Go(Box::new(journey)));
    }

    /// On to the next step, or what comes at the end.
    fn go(&mut self, mut journey: Box<Journey>) -> Result<(), ModelError> {
        let now = self.events.now;
        let Some(mut step) = journey.steps.next() else {
            return self.arrive(journey.then);
        };
        if let Resource::Turn { stream, number } = step.resource {
            self.take_turn(step, stream, number, journey);
            return Ok(());
        }
        if let Resource::Ring { .. } = step.resource {
            self.park(step, journey);
            return Ok(());
        }
        if let Resource::Port { bytes } = step.resource
            && !self.admit(step.host, bytes, &mut journey.then)
        {
            return Ok(());
        }
        if step.jitters && self.prices.config.jitter > 0.0 {
            let factor = self.prices.config.jitter * self.random.exponential();
            step.latency += (step.latency as f64 * factor) as u64;
        }
        let (waiting, mut latency) = self.nodes[step.host].enter(now, &step, &self.prices);
        let mut until = now + waiting + latency;
        if let Resource::Egress { to } = step.resource {
            let last = self.arrivals.entry((step.host, to)).or_default();
            until = until.max(*last);
            *last = until;
            if self.prices.reorder_ps > 0 {
                until += self.random.below(self.prices.reorder_ps + 1);
            }
            latency = until - now - waiting;
        }
        if journey.counts {
            let sum = &mut self.phases[step.phase as usize];
            sum.steps += 1;
            sum.latency_ps += latency;
            sum.waiting_ps += waiting;
        }
        self.events.at(until, Happening::Go(journey));
        Ok(())
    }

    /// A packet comes to a switch's port: false if there is no room for it.
    fn admit(&mut self, host: usize, bytes: u32, then: &mut Then) -> bool {
        let config = &self.prices.config;
        if config.stack == Stack::Coherent {
            // Its links give credits: what has no room waits before them, as long.
            return true;
        }
        let backlog = self.nodes[host].port_backlog(self.events.now) as f64;
        let waiting = backlog / 8000.0 * config.constants.link_gbps;
        if waiting + f64::from(bytes) > config.constants.port_kbytes * 1000.0 {
            self.dropped += 1;
            return false;
        }
        if waiting > config.constants.port_mark_kbytes * 1000.0
            && let Then::Deliver(frames) = then
        {
            self.marked += frames.len() as u64;
            frames.iter_mut().for_each(|frame| frame.marked = true);
        }
        true
    }

    /// Goes on if all packets before it in its stream have; and then those that waited for it.
    fn take_turn(&mut self, step: Step, stream: u32, number: u64, journey: Box<Journey>) {
        let now = self.events.now;
        let host = step.host;
        self.waiting.insert((host, stream, number), (now, journey));
        let (_, passed) = self.nodes[host].turns.entry(stream).or_default();
        while let Some((since, journey)) = self.waiting.remove(&(host, stream, *passed)) {
            *passed += 1;
            if journey.counts {
                let sum = &mut self.phases[step.phase as usize];
                sum.steps += 1;
                sum.waiting_ps += now - since;
            }
            self.events.at(now, Happening::Go(journey));
        }
    }

    fn arrive(&mut self, then: Then) -> Result<(), ModelError> {
        let now = self.events.now;
        match then {
            Then::Post(id) => self.post(id),
            Then::Deliver(frames) => {
                for frame in frames {
                    self.deliver(frame)?;
                }
                Ok(())
            }
            Then::Placed { host, placing } => {
                let old = self.nodes[host].apply(&placing.effect);
                self.nodes[host].side.placed(now, &placing.token, old);
                self.touched.insert(host);
                Ok(())
            }
            Then::Rung(all) => {
                self.rung(all);
                Ok(())
            }
            Then::Handled { host, receive, member } => {
                self.handled(host, receive, member);
                Ok(())
            }
            Then::Finish(id) => {
                self.finished.push(id);
                Ok(())
            }
        }
    }

    fn post(&mut self, id: u64) -> Result<(), ModelError> {
        let Some(operation) = self.operations.get_mut(&id) else { return Ok(()) };
        let host = operation.host;
        self.touched.insert(host);
        if self.nodes[host].side.post(self.events.now, &operation.post)? {
            operation.posted = true;
        } else {
            self.nodes[host].backlog.push_back(id);
        }
        Ok(())
    }

    fn deliver(&mut self, frame: Frame) -> Result<(), ModelError> {
        let now = self.events.now;
        let Frame { from, to, packet, payload, marked } = frame;
        let ecn = if marked { Ecn::Congested } else { Ecn::Capable };
        let placing = self.nodes[to].side.receive(now, from, &packet, payload, ecn);
        if let Some(placing) = placing {
            self.place(to, placing)?;
        }
        while let Some(placing) = self.nodes[to].side.recalled(now) {
            self.place(to, placing)?;
        }
        self.touched.insert(to);
        Ok(())
    }

    /// On the way into memory.
    fn place(&mut self, host: usize, placing: Placing) -> Result<(), ModelError> {
        let (segment, address, bytes, is_word) = match &placing.effect {
            Effect::Bytes { ranges, bytes } => {
                let first = ranges.first().map(|range| (range.segment.index(), range.offset));
                let (segment, offset) = first.unwrap_or((LOCAL, 0));
                self.ledger.note(host, ranges);
                (segment, offset, bytes.len() as u32, false)
            }
            Effect::Word { range, .. } => (EXPOSED, range.offset, range.length, true),
            Effect::Snoop { .. } => {
                let steps = self.prices.snoop(host);
                self.start(steps, Then::Placed { host, placing }, true);
                return Ok(());
            }
            Effect::Copy { to, .. } => {
                self.ledger.note(host, std::slice::from_ref(to));
                (to.segment.index(), to.offset, to.length, false)
            }
        };
        let steps = if segment == LOCAL {
            let atomic = self.prices.config.verb.is_atomic() && bytes == 8;
            let verb = if atomic { Verb::FetchAdd } else { Verb::Read };
            self.prices.place_at_initiator(host, verb, bytes)
        } else {
            self.prices.place_at_target(host, segment, address, bytes, is_word)
        };
        self.start(steps, Then::Placed { host, placing }, true);
        Ok(())
    }

    /// Everything that an engine has to say after it was told something.
    fn settle(&mut self, host: usize) -> Result<(), ModelError> {
        while let Some(placing) = self.nodes[host].side.execution() {
            self.place(host, placing)?;
        }
        while let Some(done) = self.nodes[host].side.completion() {
            if done.receive {
                self.received(host, &done);
                continue;
            }
            let Some(operation) = self.operations.get_mut(&done.id) else {
                return Err(Violation::Completion(done.id).into());
            };
            if let Some(why) = done.failure {
                let (id, verb) = (done.id, operation.post.verb);
                return Err(match why {
                    Failure::Ub(status) => ModelError::UbFailed { id, verb, status },
                    Failure::Roce(status) => ModelError::RoceFailed { id, verb, status },
                });
            }
            if std::mem::replace(&mut operation.done, true) {
                return Err(Violation::Completion(done.id).into());
            }
            operation.value = done.value;
            let (core, post) = (operation.core, operation.post);
            let steps = self.prices.complete(host, core, post.verb, post.bypass);
            self.start(steps, Then::Finish(done.id), true);
            if let Some(id) = self.nodes[host].backlog.pop_front() {
                self.post(id)?;
            }
        }
        self.pull(host)?;
        let now = self.events.now;
        if let Some(due) = self.nodes[host].side.timeout() {
            let due = due.max(now);
            let node = &mut self.nodes[host];
            if node.alarm.is_none_or(|alarm| due < alarm || alarm < now) {
                node.alarm = Some(due);
                self.events.at(due, Happening::Alarm(host));
            }
        }
        Ok(())
    }

    /// Takes packets from an engine as fast as the NIC can.
    fn pull(&mut self, host: usize) -> Result<(), ModelError> {
        let now = self.events.now;
        // What leaves at one instant for one place is one message, in the oracle.
        let mut bursts: Vec<(usize, Role, Vec<Outgoing>)> = Vec::new();
        loop {
            let node = &mut self.nodes[host];
            if now < node.next_pull {
                if !std::mem::replace(&mut node.pull_planned, true) {
                    self.events.at(self.nodes[host].next_pull, Happening::Pull(host));
                }
                break;
            }
            let Some(outgoing) = node.side.transmit(now) else { break };
            let size = Size::of(&outgoing);
            node.next_pull = now + self.prices.pull_ps(size);
            self.packets += 1;
            self.wire_bytes += u64::from(size.payload + size.header);
            if !self.prices.config.oracle {
                self.send(host, outgoing.to, vec![outgoing]);
                continue;
            }
            let (to, role) = (outgoing.to, outgoing.role);
            match bursts.iter_mut().find(|burst| (burst.0, burst.1) == (to, role)) {
                Some(burst) => burst.2.push(outgoing),
                None => bursts.push((to, role, vec![outgoing])),
            }
        }
        for (to, _, burst) in bursts {
            self.send(host, to, burst);
        }
        Ok(())
    }

    /// Sends packets that go through every stage as one.
    fn send(&mut self, host: usize, to: usize, burst: Vec<Outgoing>) {
        let sizes: Vec<Size> = burst.iter().map(Size::of).collect();
        let role = burst[0].role;
        // A load of several lines is no instruction, but the oracle has such rows: the engine moves
        // them as a READ, and they are charged for as the paper does.
        let config = &self.prices.config;
        let bypass = is_bypass(&burst[0].packet)
            || (config.oracle && self.prices.by_instruction(config.verb));
        let whole: u32 = sizes.iter().map(|size| size.payload).sum();
        let first = burst[0].gather.first().map_or(0, |range| range.offset);
        let mut steps = self.prices.gather(host, Size { payload: whole, ..sizes[0] }, first);
        if let Some(stream) = burst[0].stream {
            let (begun, _) = self.nodes[host].turns.entry(stream).or_default();
            let resource = Resource::Turn { stream, number: *begun };
            *begun += 1;
            let request = role == Role::Request;
            let phase = if request { Phase::InitiatorTx } else { Phase::TargetTx };
            steps.push(self.prices.step(phase, host, resource, 0, 0));
        }
        let coherent = config.stack == Stack::Coherent;
        let outward = match role {
            _ if coherent => to == HOME,
            Role::Request => true,
            Role::Response => false,
            Role::Control => host == 0,
        };
        self.prices.travel(&mut steps, [host, to], &sizes, bypass, outward);
        if coherent && to == HOME {
            steps.push(self.prices.look_up(to));
        }
        if role == Role::Request && !coherent {
            let context = target_context(&burst[0]);
            let resource = Resource::Context { transport: context, jetty: 0 };
            steps.push(self.prices.step(Phase::TargetContext, to, resource, 0, 0));
        }
        let frames: Vec<Frame> = burst
            .into_iter()
            .map(|outgoing| {
                let mut payload = Vec::new();
                for range in &outgoing.gather {
                    payload.extend_from_slice(self.nodes[host].bytes(range));
                }
                Frame { from: host, to, packet: outgoing.packet, payload, marked: false }
            })
            .collect();
        let config = &self.prices.config;
        let loss = config.loss;
        if coherent && loss > 0.0 {
            self.repair(&mut steps);
        } else if loss > 0.0 && is_lossy(config, role) && self.random.unit() < loss {
            // It is lost behind the sender's port.
            self.lost += 1;
            let port =
                steps.iter().position(|step| matches!(step.resource, Resource::Egress { .. }));
            steps.truncate(port.map_or(0, |port| port + 1));
            return self.start(steps, Then::Deliver(Vec::new()), false);
        }
        let counts = match role {
            Role::Control => host != 0 && self.waits_for_acks(),
            _ => true,
        };
        self.start(steps, Then::Deliver(frames), counts);
    }

    /// What a lossless link does about losses: it stands still, and all behind waits.
    fn repair(&mut self, steps: &mut Steps) {
        let port = |step: &&mut Step| matches!(step.resource, Resource::Egress { .. });
        let Some(step) = steps.iter_mut().find(port) else { return };
        while self.random.unit() < self.prices.config.loss {
            self.lost += 1;
            let span = self.prices.repair_ps(&mut self.random);
            step.hold += span;
            step.latency += span;
        }
    }

    /// Does an operation end with an acknowledgement, and not with an answer?
    fn waits_for_acks(&self) -> bool {
        let config = &self.prices.config;
        config.verb.is_outgoing() && !matches!(config.stack, Stack::Infiniswap | Stack::Fastswap)
    }

    /// Bytes of an operation's answer.
    pub(crate) fn local(&self, host: usize, offset: u64, length: u32) -> &[u8] {
        &self.nodes[host].memory[LOCAL][offset as usize..offset as usize + length as usize]
    }
}

fn is_lossy(config: &Config, role: Role) -> bool {
    match role {
        Role::Request => config.lossy.requests,
        Role::Response => config.lossy.responses,
        Role::Control => config.lossy.acknowledgements,
    }
}

fn is_bypass(packet: &Packet) -> bool {
    let bypass = |packet: &wire::Packet| matches!(packet, wire::Packet::Bypass(_));
    match packet {
        Packet::Ub(_, packet) => bypass(packet),
        Packet::Roce(_) => false,
        Packet::Coherent(_) => true,
    }
}

/// The transport context that a request is for.
fn target_context(outgoing: &Outgoing) -> u32 {
    match &outgoing.packet {
        Packet::Ub(route, _) => route.destination_tpn.value() & 0xFFFF,
        Packet::Roce(packet) => packet.bth.destination.value() & 0x7FFF,
        Packet::Coherent(_) => 0,
    }
}
