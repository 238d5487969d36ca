//! The simulated world: hosts, the steps between them, and the wire.

use crate::adapter::{
    CoherentSide, EXPOSED, Effect, Failure, HOME, LOCAL, Outgoing, Packet, Placing, Post,
    ProtocolAdapter, RoceSide, Role, UbSide,
};
use crate::config::{Config, Stack, Verb};
use crate::error::{ModelError, Violation};
use crate::events::Events;
use crate::fanout::Handled;
use crate::ledger::Ledger;
use crate::node::Node;
use crate::path::{CostModel, Phase, Resource, Size, Step, Steps};
use crate::post_list::Parked;
use crate::random::Random;
use fairway_ub::wire::{self, Ecn};
use std::collections::{BTreeMap, BTreeSet};

/// Continuation after the last step of a traversal.
#[derive(Debug)]
pub(crate) enum Continuation {
    /// Posts a work request that has reached the NIC.
    Post(u64),
    /// Delivers packets that have passed the target's NIC.
    Deliver(Vec<Frame>),
    /// Reports a finished placement.
    Placed { host: usize, placing: Placing },
    /// Finishes an operation whose result has reached the application.
    Finish(u64),
    /// Submits several work requests that have reached the NIC.
    Doorbell(Vec<Parked>),
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
    /// True if a switch has marked it because of congestion.
    pub(crate) marked: bool,
}

/// The remaining steps of a message, request or piece of data, and the continuation after the last.
#[derive(Debug)]
pub(crate) struct Traversal {
    steps: std::vec::IntoIter<Step>,
    then: Continuation,
    /// True if an operation waits for it, so that its steps count in the phases.
    counts: bool,
}

#[derive(Debug)]
pub(crate) enum SimEvent {
    /// The current step of a traversal has ended.
    Go(Box<Traversal>),
    Pull(usize),
    Alarm(usize),
    /// A core is free, and its list of work requests must be checked.
    Ring {
        host: usize,
        core: u32,
    },
    /// A wake-up that the workload requested.
    Wake(u64),
}

/// An operation in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) host: usize,
    pub(crate) core: u32,
    pub(crate) post: Post,
    pub(crate) done: bool,
    pub(crate) value: u64,
    /// True if it has been posted to the protocol.
    pub(crate) posted: bool,
}

/// Sums of a phase over all operations, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseSum {
    /// Steps taken.
    pub steps: u64,
    /// Total latency of these steps.
    pub latency_ps: u64,
    /// Total waiting time of these steps.
    pub waiting_ps: u64,
}

/// The hosts, and all operations and packets in flight between them.
pub(crate) struct World {
    pub(crate) events: Events<SimEvent>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) costs: CostModel,
    pub(crate) operations: BTreeMap<u64, Operation>,
    pub(crate) finished: Vec<u64>,
    pub(crate) handled: Vec<Handled>,
    /// Round-robin counter of a dispatcher in software.
    pub(crate) turn: u64,
    pub(crate) phases: Vec<PhaseSum>,
    pub(crate) lost: u64,
    pub(crate) doorbells: u64,
    /// Packets dropped by a switch's port because its buffer was full, and packets marked there.
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    pub(crate) packets: u64,
    pub(crate) wire_bytes: u64,
    pub(crate) ledger: Ledger,
    pub(crate) random: Random,
    /// By sender and receiver: when the last packet arrives, because a wire does not reorder.
    arrivals: BTreeMap<(usize, usize), u64>,
    /// By host, stream and number: packets that wait for earlier ones of their stream, and since
    /// when.
    waiting: BTreeMap<(usize, u32, u64), (u64, Box<Traversal>)>,
    pub(crate) touched: BTreeSet<usize>,
    next: u64,
}

impl World {
    pub(crate) fn new(config: &Config) -> Result<World, ModelError> {
        let adapters: Vec<Box<dyn ProtocolAdapter>> = if config.stack.is_ub() {
            UbSide::all(config)?
                .into_iter()
                .map(|adapter| Box::new(adapter) as Box<dyn ProtocolAdapter>)
                .collect()
        } else if config.stack == Stack::Coherent {
            let adapters = CoherentSide::all(config).into_iter();
            adapters.map(|adapter| Box::new(adapter) as Box<dyn ProtocolAdapter>).collect()
        } else {
            RoceSide::all(config)?
                .into_iter()
                .map(|adapter| Box::new(adapter) as Box<dyn ProtocolAdapter>)
                .collect()
        };
        let cores = if config.oracle { 1 } else { config.jetties };
        // Cores for the members of a service and its dispatcher.
        let cores = config.fanout().map_or(cores, |fanout| cores.max(fanout.members + 1));
        Ok(World {
            events: Events::new(),
            nodes: adapters.into_iter().map(|adapter| Node::new(config, adapter, cores)).collect(),
            costs: CostModel::new(config),
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

    /// Begins an operation with these first steps; the steps of its submission follow.
    pub(crate) fn begin(&mut self, host: usize, core: u32, first: Steps, post: Post) -> u64 {
        self.next += 1;
        let id = self.next;
        let post = Post { id, ..post };
        let contexts = self.nodes[host].adapter.contexts(&post);
        let mut steps = first;
        let shares = self.costs.config.batch > 1 && self.costs.rings(&post);
        let call = !shares || self.join_list(host, core);
        steps.extend(self.costs.submit(host, core, &post, contexts, call));
        let operation = Operation { host, core, post, done: false, value: 0, posted: false };
        self.operations.insert(id, operation);
        self.start(steps, Continuation::Post(id), true);
        id
    }

    /// Begins an operation that does not involve an engine.
    pub(crate) fn begin_local(&mut self, host: usize, steps: Steps, post: Post) -> u64 {
        self.next += 1;
        let id = self.next;
        let post = Post { id, ..post };
        let operation = Operation { host, core: 0, post, done: false, value: 0, posted: true };
        self.operations.insert(id, operation);
        self.start(steps, Continuation::Finish(id), true);
        id
    }

    /// Executes the next event. Returns the code of a wake-up if it was one.
    pub(crate) fn step(&mut self) -> Result<Option<u64>, ModelError> {
        let event = self.events.next().ok_or(ModelError::Stalled)?;
        let mut woken = None;
        match event {
            SimEvent::Go(traversal) => self.go(traversal)?,
            SimEvent::Pull(host) => {
                self.nodes[host].pull_planned = false;
                self.touched.insert(host);
            }
            SimEvent::Alarm(host) => {
                let now = self.events.now;
                let node = &mut self.nodes[host];
                if node.alarm == Some(now) {
                    node.alarm = None;
                }
                if node.adapter.timeout().is_some_and(|due| due <= now) {
                    node.adapter.handle_timeout(now);
                }
                self.touched.insert(host);
            }
            SimEvent::Ring { host, core } => self.look_again(host, core),
            SimEvent::Wake(code) => woken = Some(code),
        }
        while let Some(host) = self.touched.pop_first() {
            self.settle(host)?;
        }
        Ok(woken)
    }

    pub(crate) fn start(&mut self, steps: Steps, then: Continuation, counts: bool) {
        let traversal = Traversal { steps: steps.into_iter(), then, counts };
        self.events.at(self.events.now, SimEvent::Go(Box::new(traversal)));
    }

    /// Moves a traversal to its next step, or to its continuation.
    fn go(&mut self, mut traversal: Box<Traversal>) -> Result<(), ModelError> {
        let now = self.events.now;
        let Some(mut step) = traversal.steps.next() else {
            return self.arrive(traversal.then);
        };
        if let Resource::Turn { stream, number } = step.resource {
            self.take_turn(step, stream, number, traversal);
            return Ok(());
        }
        if let Resource::Ring { .. } = step.resource {
            self.park(step, traversal);
            return Ok(());
        }
        if let Resource::Port { bytes } = step.resource
            && !self.admit(step.host, bytes, &mut traversal.then)
        {
            return Ok(());
        }
        if step.jitters && self.costs.config.jitter > 0.0 {
            let factor = self.costs.config.jitter * self.random.exponential();
            step.latency_ps += (step.latency_ps as f64 * factor) as u64;
        }
        let (waiting, mut latency) = self.nodes[step.host].enter(now, &step, &self.costs);
        let mut until = now + waiting + latency;
        if let Resource::Egress { to } = step.resource {
            let last = self.arrivals.entry((step.host, to)).or_default();
            until = until.max(*last);
            *last = until;
            if self.costs.reorder_ps > 0 {
                until += self.random.below(self.costs.reorder_ps + 1);
            }
            latency = until - now - waiting;
        }
        if traversal.counts {
            let sum = &mut self.phases[step.phase as usize];
            sum.steps += 1;
            sum.latency_ps += latency;
            sum.waiting_ps += waiting;
        }
        self.events.at(until, SimEvent::Go(traversal));
        Ok(())
    }

    /// Enters a packet at a switch's port. Returns false if there is no room for it.
    fn admit(&mut self, host: usize, bytes: u32, then: &mut Continuation) -> bool {
        let config = &self.costs.config;
        if config.stack == Stack::Coherent {
            // Its links use credits: a packet without room waits before the link, for the same
            // time.
            return true;
        }
        let backlog = self.nodes[host].port_backlog(self.events.now) as f64;
        let waiting = backlog / 8000.0 * config.constants.link_gbps;
        if waiting + f64::from(bytes) > config.constants.port_kbytes * 1000.0 {
            self.dropped += 1;
            return false;
        }
        if waiting > config.constants.port_mark_kbytes * 1000.0
            && let Continuation::Deliver(frames) = then
        {
            self.marked += frames.len() as u64;
            frames.iter_mut().for_each(|frame| frame.marked = true);
        }
        true
    }

    /// Continues a traversal if all earlier packets of its stream have passed, and then those that
    /// waited for it.
    fn take_turn(&mut self, step: Step, stream: u32, number: u64, traversal: Box<Traversal>) {
        let now = self.events.now;
        let host = step.host;
        self.waiting.insert((host, stream, number), (now, traversal));
        let (_, passed) = self.nodes[host].turns.entry(stream).or_default();
        while let Some((since, traversal)) = self.waiting.remove(&(host, stream, *passed)) {
            *passed += 1;
            if traversal.counts {
                let sum = &mut self.phases[step.phase as usize];
                sum.steps += 1;
                sum.waiting_ps += now - since;
            }
            self.events.at(now, SimEvent::Go(traversal));
        }
    }

    fn arrive(&mut self, then: Continuation) -> Result<(), ModelError> {
        let now = self.events.now;
        match then {
            Continuation::Post(id) => self.post(id),
            Continuation::Deliver(frames) => {
                for frame in frames {
                    self.deliver(frame)?;
                }
                Ok(())
            }
            Continuation::Placed { host, placing } => {
                let old = self.nodes[host].apply(&placing.effect);
                self.nodes[host].adapter.placed(now, &placing.token, old);
                self.touched.insert(host);
                Ok(())
            }
            Continuation::Doorbell(all) => {
                self.rung(all);
                Ok(())
            }
            Continuation::Handled { host, receive, member } => {
                self.handled(host, receive, member);
                Ok(())
            }
            Continuation::Finish(id) => {
                self.finished.push(id);
                Ok(())
            }
        }
    }

    fn post(&mut self, id: u64) -> Result<(), ModelError> {
        let Some(operation) = self.operations.get_mut(&id) else { return Ok(()) };
        let host = operation.host;
        self.touched.insert(host);
        if self.nodes[host].adapter.post(self.events.now, &operation.post)? {
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
        let placing = self.nodes[to].adapter.receive(now, from, &packet, payload, ecn);
        if let Some(placing) = placing {
            self.place(to, placing)?;
        }
        while let Some(placing) = self.nodes[to].adapter.recalled(now) {
            self.place(to, placing)?;
        }
        self.touched.insert(to);
        Ok(())
    }

    /// Starts the steps of a placement into memory.
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
                let steps = self.costs.snoop(host);
                self.start(steps, Continuation::Placed { host, placing }, true);
                return Ok(());
            }
            Effect::Copy { to, .. } => {
                self.ledger.note(host, std::slice::from_ref(to));
                (to.segment.index(), to.offset, to.length, false)
            }
        };
        let steps = if segment == LOCAL {
            let atomic = self.costs.config.verb.is_atomic() && bytes == 8;
            let verb = if atomic { Verb::FetchAdd } else { Verb::Read };
            self.costs.place_at_initiator(host, verb, bytes)
        } else {
            self.costs.place_at_target(host, segment, address, bytes, is_word)
        };
        self.start(steps, Continuation::Placed { host, placing }, true);
        Ok(())
    }

    /// Handles all outputs of an engine after an input.
    fn settle(&mut self, host: usize) -> Result<(), ModelError> {
        while let Some(placing) = self.nodes[host].adapter.execution() {
            self.place(host, placing)?;
        }
        while let Some(done) = self.nodes[host].adapter.completion() {
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
            let steps = self.costs.complete(host, core, post.verb, post.bypass);
            self.start(steps, Continuation::Finish(done.id), true);
            if let Some(id) = self.nodes[host].backlog.pop_front() {
                self.post(id)?;
            }
        }
        self.pull(host)?;
        let now = self.events.now;
        if let Some(due) = self.nodes[host].adapter.timeout() {
            let due = due.max(now);
            let node = &mut self.nodes[host];
            if node.alarm.is_none_or(|alarm| due < alarm || alarm < now) {
                node.alarm = Some(due);
                self.events.at(due, SimEvent::Alarm(host));
            }
        }
        Ok(())
    }

    /// Takes packets from an engine at the NIC's rate.
    fn pull(&mut self, host: usize) -> Result<(), ModelError> {
        let now = self.events.now;
        // In the oracle, packets that leave at one time for one host form one message.
        let mut bursts: Vec<(usize, Role, Vec<Outgoing>)> = Vec::new();
        loop {
            let node = &mut self.nodes[host];
            if now < node.next_pull {
                if !std::mem::replace(&mut node.pull_planned, true) {
                    self.events.at(self.nodes[host].next_pull, SimEvent::Pull(host));
                }
                break;
            }
            let Some(outgoing) = node.adapter.transmit(now) else { break };
            let size = Size::of(&outgoing);
            node.next_pull = now + self.costs.pull_ps(size);
            self.packets += 1;
            self.wire_bytes += u64::from(size.payload + size.header);
            if !self.costs.config.oracle {
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

    /// Sends packets that pass every stage together.
    fn send(&mut self, host: usize, to: usize, burst: Vec<Outgoing>) {
        let sizes: Vec<Size> = burst.iter().map(Size::of).collect();
        let role = burst[0].role;
        // A load of several lines is not an instruction, but the oracle has such rows: the protocol
        // executes it as a READ, and it is charged as in the paper.
        let config = &self.costs.config;
        let bypass = is_bypass(&burst[0].packet)
            || (config.oracle && self.costs.by_instruction(config.verb));
        let whole: u32 = sizes.iter().map(|size| size.payload).sum();
        let first = burst[0].gather.first().map_or(0, |range| range.offset);
        let mut steps = self.costs.gather(host, Size { payload: whole, ..sizes[0] }, first);
        if let Some(stream) = burst[0].stream {
            let (begun, _) = self.nodes[host].turns.entry(stream).or_default();
            let resource = Resource::Turn { stream, number: *begun };
            *begun += 1;
            let request = role == Role::Request;
            let phase = if request { Phase::InitiatorTx } else { Phase::TargetTx };
            steps.push(self.costs.step(phase, host, resource, 0, 0));
        }
        let coherent = config.stack == Stack::Coherent;
        let outward = match role {
            _ if coherent => to == HOME,
            Role::Request => true,
            Role::Response => false,
            Role::Control => host == 0,
        };
        self.costs.travel(&mut steps, [host, to], &sizes, bypass, outward);
        if coherent && to == HOME {
            steps.push(self.costs.look_up(to));
        }
        if role == Role::Request && !coherent {
            let context = target_context(&burst[0]);
            let resource = Resource::Context { transport: context, jetty: 0 };
            steps.push(self.costs.step(Phase::TargetContext, to, resource, 0, 0));
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
        let config = &self.costs.config;
        let loss = config.loss;
        if coherent && loss > 0.0 {
            self.repair(&mut steps);
        } else if loss > 0.0 && is_lossy(config, role) && self.random.unit() < loss {
            // The packet is lost behind the sender's port.
            self.lost += 1;
            let port =
                steps.iter().position(|step| matches!(step.resource, Resource::Egress { .. }));
            steps.truncate(port.map_or(0, |port| port + 1));
            return self.start(steps, Continuation::Deliver(Vec::new()), false);
        }
        let counts = match role {
            Role::Control => host != 0 && self.waits_for_acks(),
            _ => true,
        };
        self.start(steps, Continuation::Deliver(frames), counts);
    }

    /// Delays a packet by the repair of a lossless link, which stops everything behind it.
    fn repair(&mut self, steps: &mut Steps) {
        let port = |step: &&mut Step| matches!(step.resource, Resource::Egress { .. });
        let Some(step) = steps.iter_mut().find(port) else { return };
        while self.random.unit() < self.costs.config.loss {
            self.lost += 1;
            let span = self.costs.repair_ps(&mut self.random);
            step.hold_ps += span;
            step.latency_ps += span;
        }
    }

    /// True if an operation ends with an acknowledgement, and not with a response.
    fn waits_for_acks(&self) -> bool {
        let config = &self.costs.config;
        config.verb.is_outgoing() && !matches!(config.stack, Stack::Infiniswap | Stack::Fastswap)
    }

    /// Returns the bytes of an operation's response.
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

/// Returns the transport context that a request uses at the target.
fn target_context(outgoing: &Outgoing) -> u32 {
    match &outgoing.packet {
        Packet::Ub(route, _) => route.destination_tpn.value() & 0xFFFF,
        Packet::Roce(packet) => packet.bth.destination.value() & 0x7FFF,
        Packet::Coherent(_) => 0,
    }
}
