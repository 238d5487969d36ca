//! The storm: whole NICs, whole applications and a hostile network, all drawn from one seed.
//!
//! Phase one tests safety: the drawn faults are injected, and no oracle may find a violation. Then
//! the network is healed, and phase two tests liveness: all pending operations finish within a
//! bound of virtual time. At the end everything is closed, and every record has to be back in its
//! pool.

use crate::adversary::Adversary;
use crate::application::Connection;
use crate::bounds::{self, TICK_HEALED, timeout};
use crate::finding::Finding;
use crate::hostile;
use crate::mail::{LETTER, Mail};
use crate::node::Output;
pub use crate::operation::STATUSES;
use crate::oracles::Model;
use crate::plan::{ControllerPlacement, NodeFault, Plan};
use crate::trace::Trace;
use crate::workload::Workload;
use crate::world::World;
use fairway_device::random::Random;
use fairway_ub::wire::{Duration, Instant};
use fairway_ub::{ChannelId, Completion, DropReason, Event, InjectedBug, UbDevice};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the storm of one seed.
///
/// # Errors
/// Returns the violation and its time.
pub fn run(seed: u64, options: Options) -> Result<Report, Failure> {
    let plan_of = options.plan_of;
    let plan = Plan::draw(plan_of.unwrap_or(seed));
    let mut storm = Storm::new(seed, plan, options);
    // The protocol asserts its invariants, which serves as one more oracle here.
    let outcome = catch_unwind(AssertUnwindSafe(|| storm.run()));
    let message = match outcome {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(finding)) => finding.to_string(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("panic: {}", text.unwrap_or("without a message"))
        }
    };
    let at_ns = storm.world.now.as_ps() / 1000;
    storm.world.trace.line(storm.world.now, 0, || format!("FAILURE: {message}"));
    Err(Failure { seed, plan_of, at_ns, message })
}

/// Purpose of a timer of the storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alarm {
    /// A tick of a node's application.
    Tick(usize),
    /// A connection is to be opened.
    Open(usize),
    /// A fault of a node in the plan begins.
    NodeFault(usize),
    /// A crashed node starts again.
    Restart(usize),
    /// A hostile packet arrives.
    Hostile,
    /// A run of a node's congestion controllers that are apart from its data path.
    Controllers(usize),
    /// No action: a part of the world waits for this time.
    Wait,
}

struct Storm {
    plan: Plan,
    world: World,
    workload: Workload,
    model: Model,
    mail: Mail,
    random: Random,
    seed: u64,
    bug: Option<InjectedBug>,
    alarms: Vec<Alarm>,
    healed: Option<Instant>,
    /// True at the end, when the applications have stopped.
    closing: bool,
    resent: u64,
}

/// Virtual time between attempts to open a connection.
const OPEN_AGAIN: Duration = Duration::from_us(300);

impl Storm {
    fn new(seed: u64, plan: Plan, options: Options) -> Self {
        let adversary = Adversary::new(seed, plan.network_faults, plan.outages.clone())
            .with_channel_outages(plan.retirement.outages.clone(), plan.retirement.lost_notices)
            .with_last_path(plan.last_path);
        let trace = Trace::new(options.trace);
        let mut world = World::new(plan.limits.len(), plan.config, adversary, trace, seed);
        world.absence.is_noted = plan.extras.missing > 0;
        Storm {
            workload: Workload::new(seed, &plan),
            world,
            model: Model::new(plan.extras.in_sequence, plan.retirement.plain),
            mail: Mail::new(seed, &plan),
            random: Random::fork(seed, 5),
            seed,
            bug: options.bug,
            plan,
            alarms: Vec::new(),
            healed: None,
            closing: false,
            resent: 0,
        }
    }

    fn run(&mut self) -> Result<Report, Finding> {
        self.begin();
        let end = self.world.now + self.plan.span;
        while self.world.now.is_before(end) {
            self.step()?;
        }
        let healed = self.heal();
        self.await_quiet(healed)?;
        let healing = self.world.now.since(healed);
        // Late packets in the network must have no effect, though they may cause a probe or
        // retransmission.
        let late = self.plan.network_faults.late.max(self.plan.retirement.late());
        self.run_for(late.saturating_add(Duration::from_ms(1)))?;
        self.await_quiet(self.world.now)?;
        if self.random.chance(250) {
            self.idle()?;
        }
        self.closing = true;
        self.model.finish(&mut self.world)?;
        self.mail.accept_unfinished(&mut self.world);
        self.audit()?;
        self.model.unsettle_receives(&mut self.world);
        self.world.memory.compare_all()?;
        self.tear_down()?;
        self.world.memory.compare_all()?;
        bounds::check_packets(&self.world, &self.plan)?;
        Ok(self.report(healing))
    }

    fn begin(&mut self) {
        for node in 0..self.plan.limits.len() {
            self.start(node);
            self.alarm_after(Duration::ZERO, Alarm::Tick(node));
            self.alarm_after(Duration::ZERO, Alarm::Controllers(node));
        }
        for index in 0..self.plan.links.len() {
            self.alarm_after(Duration::ZERO, Alarm::Open(index));
        }
        for index in 0..self.plan.node_faults.len() {
            let (NodeFault::Pause { at, .. } | NodeFault::Crash { at, .. }) =
                self.plan.node_faults[index];
            self.alarm_after(at.since(Instant::ZERO), Alarm::NodeFault(index));
        }
        if self.plan.hostile > 0 {
            self.alarm_after(Duration::ZERO, Alarm::Hostile);
        }
    }

    fn start(&mut self, node: usize) {
        let (limits, profile) = (&self.plan.limits[node], &self.plan.profiles[node]);
        self.world.start(node, limits, profile, self.bug);
        self.world.share_out(node, limits, &self.plan.schedulers[node]);
        self.world.place_controllers(node, self.plan.controllers[node]);
        self.workload.set_up(&mut self.world, &mut self.model, &self.plan, node);
        self.mail.set_up(&mut self.world, node);
    }

    fn alarm_after(&mut self, span: Duration, alarm: Alarm) {
        self.alarms.push(alarm);
        let code = self.alarms.len() as u64 - 1;
        self.world.timer(self.world.now + span, code);
    }

    /// Executes one event and checks its effects.
    fn step(&mut self) -> Result<(), Finding> {
        if let Some(code) = self.world.step()? {
            let alarm = self.alarms[code as usize];
            self.ring(alarm)?;
        }
        let effects = std::mem::take(&mut self.world.effects);
        for effect in &effects {
            self.model.effect(&mut self.world, effect)?;
        }
        for miss in std::mem::take(&mut self.world.absence.misses) {
            self.model.missed(&mut self.world, &miss)?;
        }
        for node in 0..self.world.nodes.len() {
            if !self.world.nodes[node].outputs.is_empty() {
                self.listen(node)?;
            }
        }
        Ok(())
    }

    fn run_for(&mut self, span: Duration) -> Result<(), Finding> {
        let end = self.world.now + span;
        self.alarm_after(span, Alarm::Wait);
        while self.world.now.is_before(end) {
            self.step()?;
        }
        Ok(())
    }

    fn ring(&mut self, alarm: Alarm) -> Result<(), Finding> {
        match alarm {
            Alarm::Tick(node) => self.tick(node),
            Alarm::Wait => Ok(()),
            Alarm::Controllers(node) => {
                if let ControllerPlacement::Apart { period } = self.plan.controllers[node] {
                    self.world.run_controllers(node, &mut self.random);
                    let after = self.random.below(2 * period.as_ps()) + 1;
                    self.alarm_after(Duration::from_ps(after), Alarm::Controllers(node));
                }
                Ok(())
            }
            Alarm::Open(index) => {
                let wanted = self.workload.connections[index].reopening
                    || self.workload.connections[index].ends == [None; 2];
                let healed = self.world.adversary.is_healed();
                if wanted && !healed && !self.workload.open(&mut self.world, &self.plan, index) {
                    self.alarm_after(OPEN_AGAIN, Alarm::Open(index));
                }
                Ok(())
            }
            Alarm::NodeFault(index) => self.befall(self.plan.node_faults[index]),
            Alarm::Restart(node) => {
                self.start(node);
                Ok(())
            }
            Alarm::Hostile => {
                if self.world.adversary.is_healed() {
                    return Ok(());
                }
                hostile::send(&mut self.world, &self.workload, &self.plan, &mut self.random);
                let mean = 2 * self.plan.span.as_ps() / u64::from(self.plan.hostile);
                let after = Duration::from_ps(self.random.below(mean) + 1);
                self.alarm_after(after, Alarm::Hostile);
                Ok(())
            }
        }
    }

    fn tick(&mut self, node: usize) -> Result<(), Finding> {
        if self.closing {
            return Ok(());
        }
        let awake = self.world.nodes[node].driver.is_some() && !self.world.is_paused(node);
        if awake {
            self.check_silence(node)?;
        } else {
            self.workload.applications[node].awake_since = self.world.now;
        }
        self.workload.tick(&mut self.world, &mut self.model, &self.plan, node)?;
        let connections = &self.workload.connections;
        self.mail.tick(&mut self.world, &self.plan, connections, node)?;
        // After the healing, applications only post receives, which need not be frequent.
        let healed = self.world.adversary.is_healed();
        let mean = if healed { self.plan.tick.max(TICK_HEALED) } else { self.plan.tick };
        let after = Duration::from_ps(self.random.below(2 * mean.as_ps()) + 1_000);
        self.alarm_after(after, Alarm::Tick(node));
        Ok(())
    }

    fn check_silence(&self, node: usize) -> Result<(), Finding> {
        let life = (node, self.world.nodes[node].incarnation);
        // A pause may lie between two ticks of the application.
        let awake_since = self.workload.applications[node].awake_since;
        let since = awake_since.max(self.world.nodes[node].resumed);
        let since = since + self.plan.tick.max(TICK_HEALED).times(2);
        for (connection, link) in self.workload.connections.iter().zip(&self.plan.links) {
            let Some(side) = link.nodes.iter().position(|&end| end == node) else { continue };
            if let Some(channel) = connection.ends[side] {
                let profile = &self.plan.profiles[node];
                self.model.check_silence(&self.world, life, channel, profile, since)?;
            }
        }
        Ok(())
    }

    fn befall(&mut self, node_fault: NodeFault) -> Result<(), Finding> {
        match node_fault {
            NodeFault::Pause { node, span, .. } => {
                if self.world.nodes[node].driver.is_some() && !self.world.is_paused(node) {
                    self.world.pause(node, self.world.now + span);
                }
            }
            NodeFault::Crash { node, span, .. } => {
                if self.world.nodes[node].driver.is_none() {
                    return Ok(());
                }
                self.count_resent(node);
                self.model.crashes(&mut self.world, node);
                self.mail.crashes(node, self.world.nodes[node].incarnation);
                self.world.crash(node);
                for (connection, link) in self.workload.connections.iter_mut().zip(&self.plan.links)
                {
                    if let Some(side) = link.nodes.iter().position(|&end| end == node) {
                        connection.ends[side] = None;
                    }
                }
                self.alarm_after(span, Alarm::Restart(node));
            }
        }
        Ok(())
    }

    fn count_resent(&mut self, node: usize) {
        if let Some(nic) = self.world.nic(node) {
            self.resent += nic.counters().data_resent;
        }
    }

    /// Reads a NIC's outputs for its application. Ends of channels are handled first, because they
    /// determine how operations may end.
    fn listen(&mut self, node: usize) -> Result<(), Finding> {
        self.mail.read_epochs(&mut self.world, node)?;
        let outputs = std::mem::take(&mut self.world.nodes[node].outputs);
        let mut released = Vec::new();
        let mut drained = Vec::new();
        for output in &outputs {
            let Output::Event(event) = output else { continue };
            self.world.trace.line(self.world.now, node, || format!("! {event:?}"));
            if let Event::SegmentReleased { segment } = event {
                released.push(*segment);
            }
            if let Event::ExecutionLost { channel } = event {
                let (world, model) = (&mut self.world, &mut self.model);
                self.workload.execution_lost(world, model, &self.plan, (node, *channel))?;
            }
            if let Event::JettyDrained { jetty } = event {
                drained.push(*jetty);
            }
            if let Event::JettyFault { jetty, state, .. } = event {
                let (world, model) = (&mut self.world, &mut self.model);
                self.workload.jetty_fault(world, model, (node, *jetty), *state)?;
            }
            let profile = &self.plan.profiles[node];
            if let Some(channel) = self.model.event(&self.world, node, event, profile)? {
                if matches!(event, Event::PeerDead { .. }) {
                    self.check_death(node, channel)?;
                }
                self.channel_ended(node, channel);
            }
        }
        for output in &outputs {
            let Output::Completion(completion) = output else { continue };
            self.complete(node, completion)?;
        }
        for jetty in drained {
            self.workload.jetty_drained(&mut self.world, &self.model, node, jetty)?;
        }
        for segment in released {
            let leaving = &mut self.workload.applications[node].leaving;
            let Some(at) = leaving.iter().position(|known| known.id == segment) else {
                return Err(
                    format!("node {node}: {segment:?} was released without a request").into()
                );
            };
            let segment = leaving.remove(at);
            if self.model.uses(segment.key) {
                return Err(
                    format!("node {node}: {segment:?} was released while it is used").into()
                );
            }
            self.world.memory.release(segment.key);
        }
        Ok(())
    }

    fn complete(&mut self, node: usize, completion: &Completion) -> Result<(), Finding> {
        self.world.trace.line(self.world.now, node, || format!("! {completion:?}"));
        self.stir_completion(completion);
        if completion.id & LETTER != 0 && self.model.receive_of(completion).is_none() {
            let (world, model) = (&mut self.world, &self.model);
            return self.mail.completed(world, model, &self.plan, node, completion);
        }
        self.model.completion(&mut self.world, node, completion)?;
        if let Some(receive) = self.model.receive_of(completion) {
            self.workload.receive_done(&receive);
            return Ok(());
        }
        self.workload.check_end(&self.model, node, completion)
    }

    /// Adds every field of a completion to the hash of the run.
    fn stir_completion(&mut self, completion: &Completion) {
        let trace = &mut self.world.trace;
        trace.stir(completion.id ^ u64::from(completion.bytes) << 32);
        trace.stir(completion.value);
        trace.stir(completion.immediate.map_or(u64::MAX, |immediate| immediate.rotate_left(1)));
        let (kind, status) = (completion.kind as u64, completion.status as u64);
        let (jetty, remote) = (completion.jetty.value(), completion.remote_jetty.value());
        trace.stir(kind << 56 | status << 48 | u64::from(jetty) << 24 | u64::from(remote));
        trace.stir(completion.channel.index() as u64);
    }

    fn channel_ended(&mut self, node: usize, channel: ChannelId) {
        let links = self.plan.links.iter();
        let found = links.zip(&mut self.workload.connections).enumerate().find_map(
            |(index, (link, connection))| {
                let side = (0..2).find(|&side| {
                    link.nodes[side] == node && connection.ends[side] == Some(channel)
                })?;
                connection.ends[side] = None;
                Some((index, *connection))
            },
        );
        if let Some((index, Connection { ends: [None, None], reopening: false })) = found {
            self.workload.connections[index].reopening = true;
            self.alarm_after(OPEN_AGAIN, Alarm::Open(index));
        }
    }

    /// Checks that no peer that is alive is given up long after the healing.
    fn check_death(&self, node: usize, channel: ChannelId) -> Result<(), Finding> {
        let profile = &self.plan.profiles[node];
        let settled = profile.peer_dead.saturating_add(profile.keep_alive.times(3));
        let late = self.plan.network_faults.late.max(self.plan.retirement.late());
        let settled = settled.saturating_add(late);
        let Some(healed) = self.healed.filter(|&healed| self.world.now.since(healed) > settled)
        else {
            return Ok(());
        };
        for (connection, link) in self.workload.connections.iter().zip(&self.plan.links) {
            for side in 0..2 {
                let here = link.nodes[side] == node && connection.ends[side] == Some(channel);
                let peer = link.nodes[1 - side];
                let awake = |node: usize| self.workload.applications[node].awake_since;
                let since = awake(node).max(awake(peer)).max(healed);
                let alive = self.world.now.since(since) > settled;
                let theirs = connection.ends[1 - side];
                let open = self.world.nodes[peer].nic().zip(theirs);
                if here && alive && open.is_some_and(|(nic, theirs)| nic.is_open(theirs)) {
                    return Err(
                        format!("node {node} gave up {channel:?}, whose peer is alive").into()
                    );
                }
            }
        }
        Ok(())
    }

    fn heal(&mut self) -> Instant {
        self.healed = Some(self.world.now);
        self.world.adversary.heal();
        self.world.awaken_all();
        self.world.trace.line(self.world.now, 0, || String::from("everything is healed"));
        self.world.now
    }

    /// True if no operation is pending anywhere.
    fn is_quiet(&mut self) -> bool {
        if self.model.pending + self.mail.pending > 0 {
            return false;
        }
        let paused =
            |node: usize| self.world.is_paused(node) || self.world.nodes[node].driver.is_none();
        if (0..self.world.nodes.len()).any(paused) {
            return false;
        }
        let idle = |nic: &UbDevice| nic.usage().messages == 0;
        self.world.nodes.iter().all(|node| node.nic().is_none_or(idle)) && self.has_paths()
    }

    /// True if every path that was given up is back in use, or paths have failed for good.
    fn has_paths(&self) -> bool {
        if self.plan.last_path.is_some() {
            return true;
        }
        let usable = |node: usize, channel: ChannelId| {
            let nic = self.world.nodes[node].nic();
            nic.is_none_or(|nic| {
                !nic.is_open(channel) || nic.paths(channel).iter().all(|path| path.usable)
            })
        };
        self.workload.connections.iter().zip(&self.plan.links).all(|(connection, link)| {
            let ends = link.nodes.iter().zip(connection.ends);
            ends.into_iter().all(|(&node, end)| end.is_none_or(|channel| usable(node, channel)))
        })
    }

    /// Posts nothing for so long that only keep-alives keep the channels open.
    fn idle(&mut self) -> Result<(), Finding> {
        let span = self.plan.profiles.iter().map(|profile| profile.peer_dead.times(3));
        self.run_for(span.fold(Duration::ZERO, Duration::max))
    }

    /// Runs until no operation is pending.
    fn await_quiet(&mut self, healed: Instant) -> Result<(), Finding> {
        let bound = healed + timeout(&self.plan);
        while !self.is_quiet() {
            self.step()?;
            if bound.is_before(self.world.now) {
                return Err(self.stall(healed).into());
            }
        }
        Ok(())
    }

    fn audit(&mut self) -> Result<(), Finding> {
        for node in 0..self.world.nodes.len() {
            let Some(nic) = self.world.nic(node) else { continue };
            nic.audit();
            let usage = nic.usage();
            let posted: u32 =
                self.workload.applications[node].jetties.iter().map(|jetty| jetty.posted).sum();
            let leaving = self.workload.applications[node].leaving.len();
            if usage.receives != posted {
                return Err(
                    format!("node {node}: {posted} receives are posted, but {usage:?}").into()
                );
            }
            if usage.messages != 0 {
                return Err(
                    format!("node {node}: nothing is pending, but {usage:?} ({leaving})").into()
                );
            }
        }
        Ok(())
    }

    fn report(&mut self, healing: Duration) -> Report {
        let mut statuses = self.model.statuses;
        for (sum, mail) in statuses.iter_mut().zip(self.mail.statuses) {
            *sum += mail;
        }
        let mut drops = [0; DropReason::COUNT];
        for node in 0..self.world.nodes.len() {
            self.count_resent(node);
            let node = &self.world.nodes[node];
            let now = node.nic().map(|nic| nic.counters().drops).unwrap_or_default();
            for (sum, (old, new)) in drops.iter_mut().zip(node.drops.iter().zip(now)) {
                *sum += old + new;
            }
        }
        Report {
            seed: self.seed,
            hash: self.world.trace.hash(),
            operations: self.model.operations.len() as u64,
            packets: self.world.tally.packets,
            data_packets: self.world.tally.data_packets,
            carrying: self.world.tally.carrying,
            resent: self.resent,
            faults: self.world.adversary.faults,
            drops,
            statuses,
            healing,
        }
    }
}

mod closing;
mod report;

pub use report::{Failure, Options, Report};
