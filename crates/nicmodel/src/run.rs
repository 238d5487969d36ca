//! A run: actors issue the operations of their workload, the world carries them out, and the
//! results are compared, counted and timed.

mod access;
mod coherent;
mod lines;
mod prefetch;

use crate::adapter::{EXPOSED, LOCAL, Post};
use crate::config::{Config, Stack, WorkloadKind};
use crate::error::{ModelError, Violation};
use crate::path::Phase;
use crate::random::{Random, Zipf};
use crate::report::{Report, Times};
use crate::workload::{Answer, Next, Request, Workload, make};
use crate::world::{SimEvent, World};
use access::Access;
use std::collections::{BTreeMap, VecDeque};

/// An actor, and the operation that it waits for.
#[derive(Clone, Debug)]
struct Actor {
    host: usize,
    /// Number of its buffer.
    slot: usize,
    began: u64,
    request: Option<Request>,
    /// Host that its request was sent to; `local` is the offset of the response.
    peer: usize,
    local: u64,
    stopped: bool,
}

/// A run in progress.
pub(crate) struct Run {
    config: Config,
    world: World,
    workload: Box<dyn Workload>,
    actors: Vec<Actor>,
    /// By operation: the actor that owns it.
    owners: BTreeMap<u64, usize>,
    access: Access,
    times: Times,
    /// Open loop: actors without an operation; `arrived` holds the times of waiting arrivals.
    idle: Vec<usize>,
    arrived: VecDeque<u64>,
    to_arrive: u64,
    random: Random,
    turn: u64,
    pairs: Option<Zipf>,
    compared: u64,
}

/// Code of a wake-up that is an arrival; other codes are actors.
const ARRIVAL: u64 = u64::MAX;

/// Runs a configuration.
///
/// # Errors
/// Names the wrong option, or the violation that the model found.
pub fn run(config: &Config) -> Result<Report, ModelError> {
    run_with(config, |_| {})
}

/// Events of a run between two reports of its progress.
const REPORT_EVERY: u32 = 1 << 16;

/// Runs a configuration, and reports once in a while how many operations have completed. Runs of
/// [`WorkloadKind::Setup`] report nothing.
///
/// # Errors
/// As [`run`].
pub fn run_with(config: &Config, mut each: impl FnMut(u64)) -> Result<Report, ModelError> {
    config.check()?;
    if config.workload == WorkloadKind::Setup {
        return crate::setup::run(config);
    }
    let mut run = Run::new(config)?;
    run.start()?;
    let mut events = 0_u32;
    while !run.is_over() {
        events = events.wrapping_add(1);
        if events.is_multiple_of(REPORT_EVERY) {
            each(run.times.completed());
        }
        if let Some(code) = run.world.step()? {
            run.woken(code)?;
        }
        while let Some(id) = run.world.finished.pop() {
            run.finished(id)?;
        }
        for message in std::mem::take(&mut run.world.handled) {
            let now = run.world.events.now;
            run.workload.handled(now, message.member, &message.bytes)?;
        }
    }
    run.finish()
}

impl Run {
    fn new(config: &Config) -> Result<Run, ModelError> {
        let world = World::new(config)?;
        let all = config.workload == WorkloadKind::Bulk;
        let initiators: Vec<usize> = match config.hosts {
            2 => vec![0],
            hosts => (0..hosts as usize).filter(|&host| all || host != 1).collect(),
        };
        let each = crate::adapter::slots(config);
        let actors: Vec<Actor> = (0..each * initiators.len())
            .map(|index| Actor {
                host: initiators[index % initiators.len()],
                slot: index / initiators.len(),
                began: 0,
                request: None,
                peer: 1,
                local: 0,
                stopped: false,
            })
            .collect();
        let workload = make(config, actors.len());
        let pairs = u64::from(config.jetties) * u64::from(config.connections);
        Ok(Run {
            world,
            workload,
            idle: (0..actors.len()).rev().collect(),
            actors,
            owners: BTreeMap::new(),
            access: Access::new(config),
            times: Times::default(),
            arrived: VecDeque::new(),
            to_arrive: config.ops,
            random: Random::new(config.seed ^ 0xCAFE_1234),
            turn: 0,
            pairs: config.popularity.map(|skew| Zipf::new(pairs.max(2), skew)),
            compared: 0,
            config: config.clone(),
        })
    }

    fn start(&mut self) -> Result<(), ModelError> {
        for (host, node) in self.world.nodes.iter_mut().enumerate() {
            self.workload.fill(host, &mut node.memory[EXPOSED]);
        }
        if self.config.rate_mops.is_some() {
            self.plan_arrival();
            return Ok(());
        }
        for actor in 0..self.actors.len() {
            self.next_action(actor, None)?;
        }
        self.wake()
    }

    fn is_over(&self) -> bool {
        let open = self.config.rate_mops.is_some();
        let nothing_more = match open {
            true => self.to_arrive == 0 && self.arrived.is_empty(),
            false => self.actors.iter().all(|actor| actor.stopped),
        };
        let over = nothing_more && self.workload.is_over();
        over && self.owners.is_empty() && self.access.is_idle()
    }

    fn plan_arrival(&mut self) {
        let Some(rate) = self.config.rate_mops else { return };
        if self.to_arrive > 0 {
            let gap = (self.random.exponential() * 1e6 / rate) as u64;
            self.world.events.at(self.world.events.now + gap, SimEvent::Wake(ARRIVAL));
        }
    }

    fn woken(&mut self, code: u64) -> Result<(), ModelError> {
        if code != ARRIVAL {
            return self.next_action(code as usize, None);
        }
        self.to_arrive -= 1;
        self.arrived.push_back(self.world.events.now);
        self.plan_arrival();
        self.serve_arrivals()
    }

    fn serve_arrivals(&mut self) -> Result<(), ModelError> {
        while !self.arrived.is_empty()
            && let Some(actor) = self.idle.pop()
        {
            let began = self.arrived.pop_front().unwrap_or(self.world.events.now);
            // The result of the actor's last operation was compared when it completed.
            match self.workload.next(actor, self.world.events.now, None)? {
                Next::Issue(request) => self.issue(actor, request, began)?,
                Next::Wait(_) | Next::Park | Next::Stop => {
                    unreachable!("a workload with an open loop has an operation for each arrival")
                }
            }
        }
        Ok(())
    }

    /// Requests an actor's next action from the workload, and executes it.
    fn next_action(&mut self, actor: usize, answered: Option<u64>) -> Result<(), ModelError> {
        let now = self.world.events.now;
        let request = self.actors[actor].request.take();
        let answer = request.as_ref().zip(answered).map(|(request, value)| {
            let (host, local) = (self.actors[actor].host, self.actors[actor].local);
            let bytes = match request.verb.is_incoming() {
                true => self.world.local(host, local, request.length),
                false => &[],
            };
            Answer { request, bytes, value }
        });
        match self.workload.next(actor, now, answer)? {
            Next::Issue(request) => self.issue(actor, request, now),
            Next::Wait(span) => {
                self.world.events.at(now + span, SimEvent::Wake(actor as u64));
                Ok(())
            }
            Next::Park => Ok(()),
            Next::Stop => {
                self.actors[actor].stopped = true;
                Ok(())
            }
        }
    }

    /// Continues actors that were parked and have been woken.
    fn wake(&mut self) -> Result<(), ModelError> {
        loop {
            let woken = self.workload.take_woken();
            if woken.is_empty() {
                return Ok(());
            }
            for actor in woken {
                self.next_action(actor, None)?;
            }
        }
    }

    fn issue(&mut self, actor: usize, request: Request, began: u64) -> Result<(), ModelError> {
        self.times.begin(self.world.events.now.max(began));
        let host = self.actors[actor].host;
        let turn = self.turn;
        self.turn += 1;
        let hosts = self.config.hosts as usize;
        let spread = self.config.workload == WorkloadKind::Bulk && hosts > 2;
        let peer = if spread { (host + 1 + turn as usize % (hosts - 1)) % hosts } else { 1 };
        let post = Post {
            id: 0,
            verb: request.verb,
            bypass: false,
            peer,
            local: (self.actors[actor].slot * crate::adapter::slot_bytes(&self.config)) as u64,
            remote: request.address,
            length: request.length,
            order: self.order(turn),
            operand: request.operand,
            compare: request.compare,
            ..self.endpoints(turn)
        };
        let (id, local) = self.access.begin(&mut self.world, host, post, &request, actor)?;
        let actor_state = &mut self.actors[actor];
        (actor_state.began, actor_state.peer, actor_state.local) = (began, peer, local);
        actor_state.request = Some(request);
        if let Some(id) = id {
            self.owners.insert(id, actor);
        }
        Ok(())
    }

    fn order(&self, turn: u64) -> crate::Ordering {
        let ordered = turn % 100 < u64::from(self.config.order_percent);
        self.config.order_of(ordered)
    }

    /// Chooses the endpoints of an operation: in turn, or by popularity.
    fn endpoints(&mut self, turn: u64) -> Post {
        let [jetties, connections, remotes] =
            [self.config.jetties, self.config.connections, self.config.addressed()];
        let pairs = u64::from(jetties) * u64::from(connections);
        let pair = match &self.pairs {
            Some(zipf) => crate::random::mix(zipf.draw(&mut self.random)) % pairs,
            None => turn % pairs,
        };
        let one = self.config.oracle;
        let pick = |number: u64| if one { 0 } else { number as u32 };
        Post {
            id: 0,
            verb: self.config.verb,
            bypass: false,
            peer: 1,
            jetty: pick(pair % u64::from(jetties)),
            connection: pick(pair / u64::from(jetties)),
            remote_jetty: pick(turn % u64::from(remotes)),
            hint: turn as u8,
            remote: 0,
            local: 0,
            length: 0,
            order: crate::Ordering::None,
            operand: 0,
            compare: 0,
            returns: false,
            whole: false,
        }
    }

    fn finished(&mut self, id: u64) -> Result<(), ModelError> {
        let mut operation = self.world.operations.remove(&id).ok_or(Violation::Completion(id))?;
        for (waiter, own) in self.access.finished(&mut self.world, &mut operation, id)? {
            self.owners.insert(own, waiter);
        }
        let Some(actor) = self.owners.remove(&id) else { return Ok(()) };
        if self.access.is_deferred(actor) {
            // A page has arrived, and the access itself follows.
            return Ok(());
        }
        let state = &self.actors[actor];
        let request = state.request.as_ref().ok_or(Violation::Actor(actor))?;
        let span = self.world.events.now - state.began;
        self.times.end(self.world.events.now, span, request.length);
        self.compare(actor, &operation.post)?;
        if self.config.rate_mops.is_none() {
            self.next_action(actor, Some(operation.value))?;
            return self.wake();
        }
        self.idle.push(actor);
        self.actors[actor].request = None;
        self.serve_arrivals()
    }

    /// Checks that written bytes are at the target, and that read bytes came from it.
    fn compare(&mut self, actor: usize, post: &Post) -> Result<(), Violation> {
        let state = &self.actors[actor];
        let Some(request) = &state.request else { return Ok(()) };
        if post.id == 0 || self.access.stays_local(request.verb) {
            return Ok(());
        }
        let at = request.address as usize..request.address as usize + request.length as usize;
        let uno = post.order == crate::Ordering::Uno;
        if request.exclusive && request.verb != crate::Verb::Send && !uno {
            if self.world.nodes[state.peer].memory[EXPOSED][at] != request.data {
                return Err(Violation::NotWritten(request.address));
            }
            let ledger = &self.world.ledger;
            if !ledger.holds(state.peer, EXPOSED, request.address, request.length) {
                return Err(Violation::WriteNotPlaced(request.address));
            }
            self.compared += u64::from(request.length);
        }
        if request.verb.is_incoming() {
            let ledger = &self.world.ledger;
            if !ledger.holds(state.host, LOCAL, post.local, post.length) {
                return Err(Violation::ReadNotPlaced(request.address));
            }
            self.compared += u64::from(request.length);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Report, ModelError> {
        let coherent = self.config.stack == Stack::Coherent;
        if coherent {
            self.access.bring_home(&mut self.world);
        }
        for (host, node) in self.world.nodes.iter().enumerate() {
            if coherent || !self.access.keeps_dirty() {
                self.workload.check(host, &node.memory[EXPOSED])?;
            }
        }
        let phases = Phase::ALL.iter().copied().zip(self.world.phases.iter().copied());
        let phases = phases.filter(|(_, sum)| sum.steps > 0).collect();
        let metrics = self.workload.metrics();
        let access = self.access.metrics();
        let adapters = self.world.nodes.iter().flat_map(|node| node.adapter.metrics());
        let metrics = metrics.into_iter().chain(access).chain(adapters).collect();
        Ok(Report::new(self.times, &self.world, phases, metrics, self.compared))
    }
}
