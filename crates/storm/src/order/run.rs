//! One run of a program under one schedule.
//!
//! Every input to a node is one step, to which the node reacts at once: its completions are read,
//! due accesses are executed, and its packets are sent. Steps of different nodes are independent,
//! so of two orders that differ only in such steps one is enough (sleep sets: Godefroid 1996). Time
//! stands still until no other step is possible; then it advances to the next deadline.

use super::bounds::Bounds;
use super::choices::Choices;
use super::clock::Clock;
use super::history::{Event, History, What};
use super::host::{Duty, Host, PATHS, Payload, RECEIVE_ID, RECEIVES, SLOT, hosts, node_of};
use super::network::{Flight, Network, Stamp, over_the_wire};
use super::program::{Kind, Program};
use super::spec::{self, Violation};
use crate::finding::Finding;
use fairway_device::drive::{Access, Memory, Output, OutputOf};
use fairway_ub::wire::{Instant, Operation, Packet};
use fairway_ub::{
    Completion, CompletionKind, Event as NicEvent, LocalRange, Received, Status, Transmit, UbDevice,
};
use std::fmt;

/// Why a run failed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// A rule was violated.
    Rule(Violation),
    /// The run does not end.
    Stuck(String),
    /// The protocol violates its contract.
    Contract(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Rule(violation) => write!(f, "{violation}"),
            Failure::Stuck(why) => write!(f, "stuck: {why}"),
            Failure::Contract(why) => write!(f, "contract: {why}"),
        }
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Observed events.
    pub history: History,
    /// Number of steps.
    pub steps: u32,
    /// True if the run was abandoned, because an equivalent run differs only in the order of
    /// independent steps.
    pub pruned: bool,
}

/// A possible step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Post { node: usize },
    Deliver { node: usize, id: u32 },
    Finish { node: usize, id: u32 },
    Timer,
}

impl Step {
    /// True if the order of the two steps makes no difference.
    fn commutes(self, other: Step) -> bool {
        match (self.node(), other.node()) {
            (Some(one), Some(two)) => one != two,
            _ => false,
        }
    }

    fn node(self) -> Option<usize> {
        match self {
            Step::Post { node } | Step::Deliver { node, .. } | Step::Finish { node, .. } => {
                Some(node)
            }
            Step::Timer => None,
        }
    }
}

/// Maximum number of steps of one run.
const STEPS_MAX: u32 = 20_000;
/// Maximum number of clock advances of one run.
const WAITS_MAX: u32 = 2_000;
/// Clock advances until the packets of the delayed operation arrive.
const IDLE_WAITS_MAX: u32 = 6;

struct World<'a> {
    program: &'a Program,
    choices: &'a mut Choices,
    left: Bounds,
    now: Instant,
    hosts: Vec<Host>,
    network: Network,
    events: Vec<Event>,
    sequence: u64,
    sleep: Vec<Step>,
    /// The operation whose request is delayed.
    slow: Option<usize>,
    steps: u32,
    waits: u32,
    traced: bool,
}

/// Runs `program` once. If `slow` names an operation, its request arrives only when no other step
/// is possible. If `traced`, every step is written to standard error.
///
/// # Errors
/// Returns the failure, and the events up to it.
pub fn run(
    program: &Program,
    bounds: &Bounds,
    choices: &mut Choices,
    slow: Option<usize>,
    traced: bool,
) -> Result<Run, (Failure, Run)> {
    let now = Instant::from_ns(1);
    let mut world = World {
        program,
        choices,
        left: *bounds,
        now,
        hosts: hosts(program, bounds, now),
        network: Network::default(),
        events: Vec::new(),
        sequence: 0,
        sleep: Vec::new(),
        slow,
        steps: 0,
        waits: 0,
        traced,
    };
    let ended = world.go();
    let checked = ended.and_then(|pruned| if pruned { Ok(true) } else { world.check() });
    let history = History::new(std::mem::take(&mut world.events));
    let run = |pruned| Run { history, steps: world.steps, pruned };
    match checked {
        Ok(pruned) => Ok(run(pruned)),
        Err(failure) => Err((failure, run(false))),
    }
}

impl World<'_> {
    /// Runs to the end. Returns true if the run was abandoned because an equivalent one is run.
    fn go(&mut self) -> Result<bool, Failure> {
        loop {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(Failure::Stuck(format!("{STEPS_MAX} steps and no end")));
            }
            let steps = self.possible();
            if steps.is_empty() {
                if self.is_done() {
                    return Ok(false);
                }
                self.wait()?;
                continue;
            }
            let Some(step) = self.pick(&steps) else { return Ok(true) };
            self.take(step).map_err(|finding| Failure::Contract(finding.to_string()))?;
        }
    }

    /// Returns the possible steps, the most usual first.
    fn possible(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let posts = (0..self.hosts.len()).filter(|&node| !self.hosts[node].unposted.is_empty());
        steps.extend(posts.map(|node| Step::Post { node }));
        let is_posting = !steps.is_empty();
        if is_posting && self.left.late_posts == 0 {
            steps.truncate(1);
            return steps;
        }
        for (node, host) in self.hosts.iter().enumerate() {
            steps.extend(host.pending.iter().map(|&(id, _)| Step::Finish { node, id }));
        }
        let flights = self.network.flights();
        for pass in 0..=u32::from(self.left.overtakes > 0) {
            for flight in flights.iter().filter(|flight| !flight.slow) {
                let first = self.network.ahead_of(flight.id) == 0;
                if first == (pass == 0) {
                    steps.push(Step::Deliver { node: flight.to, id: flight.id });
                }
            }
        }
        if !is_posting && !steps.is_empty() && self.left.early_timers > 0 {
            steps.push(Step::Timer);
        }
        if steps.is_empty() && (self.waits >= IDLE_WAITS_MAX || self.is_done()) {
            let slow = flights.first().map(|flight| (flight.to, flight.id));
            steps.extend(slow.map(|(node, id)| Step::Deliver { node, id }));
        }
        steps
    }

    /// Chooses the next step of this schedule; `None` if an equivalent schedule covers the rest.
    fn pick(&mut self, steps: &[Step]) -> Option<Step> {
        let awake: Vec<Step> =
            steps.iter().copied().filter(|step| !self.sleep.contains(step)).collect();
        let chosen = match awake.len() {
            0 => return None,
            1 => 0,
            count => self.choices.choose(count),
        };
        let step = awake[chosen];
        if !self.choices.is_drawn() {
            self.sleep.extend_from_slice(&awake[..chosen]);
        }
        self.sleep.retain(|other| other.commutes(step));
        Some(step)
    }

    fn take(&mut self, step: Step) -> Result<(), Finding> {
        if let Some(node) = step.node()
            && !matches!(step, Step::Post { .. })
            && !self.hosts[node].unposted.is_empty()
        {
            self.left.late_posts = self.left.late_posts.saturating_sub(1);
        }
        match step {
            Step::Post { node } => self.post(node),
            Step::Deliver { node, id } => self.deliver(node, id),
            Step::Finish { node, id } => {
                let pending = &mut self.hosts[node].pending;
                let at = pending.iter().position(|entry| entry.0 == id).ok_or("no such duty")?;
                let (_, duty) = pending.remove(at);
                self.perform(node, duty)?;
                self.settle(node)
            }
            Step::Timer => {
                self.left.early_timers -= 1;
                self.fire()
            }
        }
    }

    fn post(&mut self, node: usize) -> Result<(), Finding> {
        let op = self.hosts[node].unposted.pop().ok_or("nothing to post")?;
        let remote = self.hosts[self.program.operations[op].node].shared;
        self.note(node, What::Posted { op });
        self.line(|program| format!("{node} posts {op}: {}", program.operations[op]));
        self.hosts[node].post(self.program, op, remote, self.now)?;
        self.settle(node)
    }

    fn deliver(&mut self, node: usize, id: u32) -> Result<(), Finding> {
        if self.network.ahead_of(id) > 0 {
            self.left.overtakes = self.left.overtakes.saturating_sub(1);
        }
        let flight = self.network.take(id);
        let host = &mut self.hosts[node];
        host.clock.merge(&flight.gathered.clock);
        let Flight { received, payload: bytes, gathered, .. } = flight;
        let payload = || Payload { bytes, gathered };
        let outcome = host.driver.handle_packet(self.now, &received, payload);
        self.line(|_| {
            let Received { packet, route, .. } = received;
            format!("{node} < [{}] {packet:?}\n      : {outcome:?}", route.path)
        });
        if let Some(duty) = outcome.access() {
            if let Access::Place { target, payload, .. } = &duty
                && target.length as usize != payload.bytes.len()
            {
                return Err(format!("{} bytes for {target:?}", payload.bytes.len()).into());
            }
            self.assign(node, duty)?;
        }
        self.settle(node)
    }

    /// Carries out an access at once, or defers it.
    fn assign(&mut self, node: usize, duty: Duty) -> Result<(), Finding> {
        if self.left.late > 0 && self.choices.choose_rarely(2) == 1 {
            self.left.late -= 1;
            let host = &mut self.hosts[node];
            host.duties += 1;
            host.pending.push((host.duties, duty));
            return Ok(());
        }
        self.perform(node, duty)
    }

    fn perform(&mut self, node: usize, duty: Duty) -> Result<(), Finding> {
        self.line(|_| format!("{node}   does {duty:?}"));
        let host = &mut self.hosts[node];
        let old = duty.carry_out(&mut host.memories)?;
        let token = duty.token();
        match duty {
            Access::Place { target, payload, .. } => {
                self.placed(node, &target, payload.bytes, Some(payload.gathered))?;
            }
            Access::Copy { to, .. } => {
                let payload = host.memories.bytes(&to)?.to_vec();
                self.placed(node, &to, payload, None)?;
            }
            Access::Atomic(atomic) => {
                if atomic.target.length != 8 {
                    return Err(format!("a word of 8 bytes was expected: {atomic:?}").into());
                }
                let op = self.program.adder(atomic.operand).ok_or("no operation adds that")?;
                if self.program.operations[op].node != node {
                    return Err(format!("operation {op} is executed at node {node}").into());
                }
                self.note(node, What::Executed { op, old });
            }
            Access::Store { .. } => return Err("the engine has no values to store".into()),
        }
        self.hosts[node].driver.handle_placed(self.now, token, old);
        Ok(())
    }

    /// Records placed bytes, and determines the operation that they belong to.
    fn placed(
        &mut self,
        node: usize,
        target: &LocalRange,
        payload: Vec<u8>,
        gathered: Option<Stamp>,
    ) -> Result<(), Finding> {
        let host = &self.hosts[node];
        let offset = target.offset as usize;
        let length = payload.len();
        if target.segment == host.own && offset < RECEIVES {
            let (op, at) = (offset / SLOT, offset % SLOT);
            let reads = |op: usize| self.program.operations.get(op).map(|one| one.kind);
            let stamp = gathered.ok_or("the answer to a READ was set aside")?;
            if !matches!(reads(op), Some(Kind::Read(_))) {
                return Err(format!("bytes of a READ are placed at {target:?}").into());
            }
            let what = What::Gathered { op, at, bytes: payload };
            self.events.push(Event { at: stamp.at, clock: stamp.clock, what });
            return Ok(());
        }
        let is_receive = target.segment == host.own;
        if !is_receive && target.segment != host.shared {
            return Ok(());
        }
        let at = if is_receive { (offset - RECEIVES) % SLOT } else { offset };
        let owner = payload.first().and_then(|&byte| self.program.owner(byte));
        let op = owner.ok_or_else(|| format!("{payload:02x?} belongs to no operation"))?;
        let operation = &self.program.operations[op];
        let own = self.program.payload(op);
        let is_right = own.get(at..at + length) == Some(&payload[..])
            && operation.node == node
            && is_receive == matches!(operation.kind, Kind::Send(_));
        if !is_right {
            return Err(format!("{payload:02x?} of operation {op} is placed at {target:?}").into());
        }
        self.note(node, What::Placed { op, at, length });
        Ok(())
    }

    /// Carries out the accesses and sends the packets of a node.
    fn settle(&mut self, node: usize) -> Result<(), Finding> {
        loop {
            let host = &mut self.hosts[node];
            let outputs: Vec<_> = host.driver.outputs(&[host.queue]).collect();
            for output in outputs {
                self.put_out(node, output)?;
            }
            let driver = &mut self.hosts[node].driver;
            if let Some(duty) = driver.poll_access(self.now) {
                self.line(|_| format!("{node}   receives {duty:?}"));
                self.assign(node, duty)?;
                continue;
            }
            match driver.poll_transmit(self.now) {
                Some(transmit) => self.send(node, &transmit)?,
                None => return Ok(()),
            }
        }
    }

    /// Handles an output of a NIC for its application.
    fn put_out(&mut self, node: usize, output: OutputOf<UbDevice>) -> Result<(), Finding> {
        match output {
            Output::Completion(completion) => self.completed(node, &completion),
            Output::Event(event @ (NicEvent::PeerDead { .. } | NicEvent::PeerClosed { .. }))
                if self.program.dead.is_none() =>
            {
                Err(format!("node {node}: {event:?}").into())
            }
            Output::Event(_) | Output::Own(_) => Ok(()),
        }
    }

    fn completed(&mut self, node: usize, completion: &Completion) -> Result<(), Finding> {
        self.line(|_| format!("{node}   completes {completion:?}"));
        if completion.id >= RECEIVE_ID {
            return self.received(node, completion);
        }
        let op = completion.id as usize;
        let success = completion.status == Status::Success;
        let operation = &self.program.operations[op];
        let length = if matches!(operation.kind, Kind::Read(_)) { operation.bytes() } else { 0 };
        let bytes = self.hosts[node].own_bytes(op * SLOT, length).to_vec();
        let value = if operation.kind == Kind::Atomic { completion.value } else { 0 };
        self.note(node, What::Completed { op, success, value, bytes });
        Ok(())
    }

    fn received(&mut self, node: usize, completion: &Completion) -> Result<(), Finding> {
        let buffer = RECEIVES + (completion.id - RECEIVE_ID) as usize * SLOT;
        let op = match (completion.kind, completion.immediate) {
            (CompletionKind::ReceiveWrite, Some(immediate)) => Some(immediate as usize),
            _ => self.program.owner(self.hosts[node].own_bytes(buffer, 1)[0]),
        };
        let op = op.ok_or_else(|| format!("no operation explains {completion:?}"))?;
        let length = self.program.operations[op].bytes();
        let is_send = matches!(self.program.operations[op].kind, Kind::Send(_));
        if is_send && self.hosts[node].own_bytes(buffer, length) != self.program.payload(op) {
            let held = self.hosts[node].own_bytes(buffer, length);
            return Err(format!("{completion:?} brings {held:02x?} of operation {op}").into());
        }
        if is_send && completion.bytes as usize != length {
            return Err(format!("{completion:?} of {length} bytes").into());
        }
        self.note(node, What::Received { op });
        Ok(())
    }

    fn send(&mut self, node: usize, transmit: &Transmit) -> Result<(), Finding> {
        let gathered = Stamp { at: self.next(), clock: self.hosts[node].clock.tick(node) };
        let payload = self.hosts[node].memories.bytes(&transmit.gather)?.to_vec();
        let received = over_the_wire(transmit, &payload)?;
        let slow = self.slow.is_some_and(|op| self.is_request_of(node, transmit, op));
        let to = node_of(transmit.route.destination);
        let silent = self.program.dead.is_some_and(|dead| dead == node || dead == to);
        let mut copies = usize::from(!silent);
        // Datagrams are not duplicated, because nothing is guaranteed for copies and none could be
        // wrong.
        let twice = self.left.duplicates > 0 && !matches!(transmit.packet, Packet::Datagram(_));
        if !slow && !silent && (self.left.losses > 0 || twice) {
            let fates = 1 + usize::from(self.left.losses > 0) + usize::from(twice);
            let fate = self.choices.choose_rarely(fates);
            match (fate, self.left.losses > 0) {
                (0, _) => {}
                (1, true) => (copies, self.left.losses) = (0, self.left.losses - 1),
                _ => (copies, self.left.duplicates) = (2, self.left.duplicates - 1),
            }
        }
        self.line(|_| {
            let fate = ["lost ", "", "twice "][copies];
            format!("{node} > [{}] {fate}{:?}", transmit.route.path, transmit.packet)
        });
        for _ in 0..copies {
            let host = &mut self.hosts[node];
            host.sent += 1;
            let id = (node as u32) << 24 | host.sent;
            let payload = payload.clone();
            self.network.push(Flight { id, from: node, to, received, payload, gathered, slow });
        }
        Ok(())
    }

    /// True for a packet of the request of operation `op`.
    fn is_request_of(&self, node: usize, transmit: &Transmit, op: usize) -> bool {
        let operation = &self.program.operations[op];
        if self.program.jetties[operation.jetty] != node {
            return false;
        }
        use Operation::{AtomicResponse, Done, ReadResponse};
        let (jetty, transaction) = match transmit.packet {
            Packet::Data(data) => match data.operation {
                AtomicResponse { .. } | Done { .. } | ReadResponse => return false,
                _ => (data.jetty, data.transaction),
            },
            Packet::Datagram(datagram) => (datagram.jetty, datagram.transaction),
            _ => return false,
        };
        let earlier = &self.program.operations[..op];
        let number = earlier.iter().filter(|other| other.jetty == operation.jetty).count();
        let jetties = &self.program.jetties[..=operation.jetty];
        let own = jetties.iter().filter(|&&at| at == node).count();
        (jetty.value() as usize, usize::from(transaction)) == (own, number)
    }

    /// Advances the clock when no other step is possible.
    fn wait(&mut self) -> Result<(), Failure> {
        self.waits += 1;
        self.sleep.clear();
        if self.waits == self.left.receives_after {
            for (node, host) in self.hosts.iter_mut().enumerate() {
                host.post_receives(self.program, node);
            }
        }
        if self.waits > WAITS_MAX {
            let (open, records) = (self.open(), self.records());
            let why = format!("{WAITS_MAX} timers, and {open:?} have no end; {records}");
            return Err(Failure::Stuck(why));
        }
        self.fire().map_err(|finding| Failure::Contract(finding.to_string()))
    }

    fn fire(&mut self) -> Result<(), Finding> {
        let due = self.hosts.iter().filter_map(|host| host.driver.poll_timeout());
        let due = due.reduce(Instant::min).ok_or("no timer is armed")?;
        self.now = self.now.max(due);
        self.line(|_| format!("the time is {} ns", due.as_ps() / 1000));
        for node in 0..self.hosts.len() {
            if self.hosts[node].driver.handle_time(self.now) {
                self.settle(node)?;
            }
        }
        Ok(())
    }

    /// Returns the operations that have not ended.
    fn open(&self) -> Vec<usize> {
        let ended = |op: usize, wanted: fn(&What) -> bool| {
            self.events.iter().any(|event| event.what.op() == op && wanted(&event.what))
        };
        let is_open = |&op: &usize| {
            let operation = &self.program.operations[op];
            let completed = ended(op, |what| matches!(what, What::Completed { .. }));
            let failed = ended(op, |what| matches!(what, What::Completed { success: false, .. }));
            let received = ended(op, |what| matches!(what, What::Received { .. }));
            let wanted = operation.consumes_receive() && operation.is_reliable() && !failed;
            (operation.signaled && !completed) || (wanted && !received)
        };
        (0..self.program.operations.len()).filter(is_open).collect()
    }

    fn is_done(&self) -> bool {
        // The record of a refused message remains until its slot is reused.
        let idle = |host: &Host| {
            let usage = host.nic().usage();
            usage.messages == 0 && usage.deferred == 0
        };
        self.hosts.iter().all(idle) && self.open().is_empty()
    }

    /// Formats the records that the NICs still keep.
    fn records(&self) -> String {
        let kept = |(node, host): (usize, &Host)| {
            let usage = host.nic().usage();
            let (messages, held) = (usage.messages, usage.deferred);
            format!("node {node} keeps {messages} messages and {held} deferred packets")
        };
        self.hosts.iter().enumerate().map(kept).collect::<Vec<_>>().join(", ")
    }

    fn check(&mut self) -> Result<bool, Failure> {
        self.hosts.iter_mut().for_each(|host| host.nic_mut().audit());
        let history = History::new(self.events.clone());
        spec::check(self.program, &history).map_err(Failure::Rule)?;
        let memories = spec::replay(self.program, &history).map_err(Failure::Rule)?;
        for (node, host) in self.hosts.iter().enumerate() {
            let (held, ought) = (host.shared_bytes(), &memories[node][..]);
            if held != ought {
                let why = format!("node {node} holds {held:02x?} and ought to hold {ought:02x?}");
                return Err(Failure::Contract(why));
            }
        }
        Ok(false)
    }

    fn note(&mut self, node: usize, what: What) {
        let at = self.next();
        let clock: Clock = self.hosts[node].clock.tick(node);
        self.events.push(Event { at, clock, what });
    }

    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn line(&self, text: impl FnOnce(&Program) -> String) {
        if self.traced {
            eprintln!("{}", text(self.program));
        }
    }
}

const _: () = assert!(PATHS == 2, "two paths: enough for packets to overtake each other");
