//! What the applications do: a seed draws operations, receives, and the odd rough handling.

use crate::application::{Application, Connection, Jetty, Role, Segment};
use crate::oracles::{Kind, Life, Model, Operation, Receive, State, Statuses};
use crate::plan::Plan;
use crate::random::Random;
use crate::world::World;
use fairway_engine::wire::{BYPASS_BYTES, JettyId, Psn, ServiceMode, Tag, Target, TokenId};
use fairway_engine::{
    ChannelConfig, ChannelId, JettyState, LocalRange, OrderRequest, PostError, ReceiveRequest,
    RemoteRange, Rights, SegmentRequest, Status, Work, WorkRequest,
};

/// All applications.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) random: Random,
    pub(crate) applications: Vec<Application>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) operations_left: u64,
    /// What a receive buffer holds at most, by Jetty: the same on all nodes.
    capacities: Vec<u32>,
}

/// Receives a Jetty has posted at most.
const RECEIVES_MAX: u32 = 8;
/// Words that peers change atomically, on each node.
const WORDS: u64 = 8;
/// Bytes that peers store to and load from, on each node: few, so that stores meet.
const CELLS: u64 = BYPASS_BYTES as u64 + 10;
/// Bytes to store, on each node: each is stored once.
const INK: u64 = 8_000;
/// Bytes between two ranges at most, which nobody may touch.
const GAP_MAX: u64 = 40;

impl Workload {
    pub(crate) fn new(seed: u64, plan: &Plan) -> Self {
        let mut random = Random::fork(seed, 4);
        let most = plan.bytes_max / 4;
        let capacities = (0..plan.jetties).map(|_| random.magnitude(most) as u32).collect();
        Workload {
            random,
            applications: vec![Application::default(); plan.limits.len()],
            connections: vec![Connection::default(); plan.links.len()],
            operations_left: plan.operations,
            capacities,
        }
    }

    /// Gives a fresh NIC its queues, Jetties and memory.
    pub(crate) fn settle_in(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        node: usize,
    ) {
        self.applications[node] = Application { awake_since: world.now, ..Application::default() };
        for _ in 0..2 {
            let depth = plan.limits[node].completions / 2;
            let nic = world.nic(node).expect("a node that just started");
            let queue = nic.create_completion_queue(depth).expect("room for two queues");
            world.nodes[node].queues.push(queue);
        }
        for role in [
            Role::Source,
            Role::Private,
            Role::Target,
            Role::Open,
            Role::Landing,
            Role::Inbox,
            Role::Words,
        ] {
            self.register(world, plan, node, role);
        }
        if plan.extras.bypasses > 0 {
            self.register(world, plan, node, Role::Cells);
            self.register(world, plan, node, Role::Ink);
        }
        if plan.stash {
            self.give_stash(world, plan, node);
        }
        for &capacity in &self.capacities {
            self.applications[node].jetties.push(Jetty::new(capacity));
        }
        for number in 0..plan.jetties {
            self.create_jetty(world, plan, node, number);
        }
        for number in 0..plan.extras.groups {
            self.make_group(world, model, node, number);
        }
    }

    fn give_stash(&mut self, world: &mut World, plan: &Plan, node: usize) {
        let mtu = plan.links.iter().map(|link| link.mtu).max().unwrap_or(1);
        let length = u64::from(plan.limits[node].held) * u64::from(mtu);
        let request = SegmentRequest { address: 0, length, rights: Rights::NONE, token_value: 0 };
        let Some(nic) = world.nic(node) else { return };
        let Ok(id) = nic.register(&request) else { return };
        nic.set_stash(id, mtu).expect("the segment is as long as it has to be");
        let key = world.memory.add(node, id, length as usize, &mut self.random);
        // What lies there for a moment is nobody's business.
        world.memory.unsettle(key, 0, length as usize);
        self.applications[node].stash = Some(id);
    }

    /// What an operation asks of the order.
    fn draw_order(&mut self, plan: &Plan, kind: Kind, length: u32, mtu: u32) -> OrderRequest {
        let random = &mut self.random;
        let mut order = OrderRequest::default();
        if kind == Kind::Write && length <= mtu && random.chance(plan.unreliable) {
            order.mode = ServiceMode::Uno;
            return order;
        }
        if !random.chance(plan.ordered) {
            return order;
        }
        order.mode = random.pick(&[ServiceMode::Roi, ServiceMode::Rot, ServiceMode::Rol]);
        order.tag = random.pick(&[Tag::No, Tag::Ro, Tag::So]);
        order.fence = random.chance(200);
        order.complete_in_order = random.chance(300);
        let receives = matches!(kind, Kind::WriteImmediate | Kind::Send | Kind::SendImmediate);
        order.receive_in_order = receives && random.chance(500);
        order
    }

    /// Registers memory; silently not, if all segments are taken.
    pub(crate) fn register(&mut self, world: &mut World, plan: &Plan, node: usize, role: Role) {
        let random = &mut self.random;
        let length = match role {
            Role::Source | Role::Private => plan.bytes_max + random.below(5000),
            Role::Words => 8 * WORDS,
            Role::Cells => CELLS,
            Role::Ink => INK,
            Role::Inbox => self
                .capacities
                .iter()
                .map(|&length| (u64::from(length) + GAP_MAX) * u64::from(RECEIVES_MAX))
                .sum(),
            _ => 4 * plan.bytes_max + random.below(5000),
        };
        let address = match random.below(4) {
            0 => 0,
            1 => u64::MAX - length,
            _ => random.number() >> random.range(1, 40),
        };
        let address = if role == Role::Words { address & !7 } else { address };
        let rights = match role {
            Role::Source => Rights::READ,
            Role::Target => Rights::WRITE,
            Role::Open => Rights::READ_WRITE,
            Role::Words => Rights::ATOMIC,
            Role::Cells => Rights::READ_WRITE,
            Role::Private | Role::Landing | Role::Inbox | Role::Ink => Rights::NONE,
        };
        let token = random.number() as u32;
        let request = SegmentRequest { address, length, rights, token_value: token };
        let Some(nic) = world.nic(node) else { return };
        let Ok(id) = nic.register(&request) else { return };
        let key = world.memory.add(node, id, length as usize, random);
        let segment = Segment { key, id, role, address, length, token };
        self.applications[node].segments.push(segment);
    }

    /// Opens a connection if both nodes are there; false if it has to be tried again.
    pub(crate) fn open(&mut self, world: &mut World, plan: &Plan, index: usize) -> bool {
        let link = &plan.links[index];
        let [a, b] = link.nodes;
        let ready = |node: usize| world.nodes[node].nic.is_some() && !world.is_paused(node);
        if !ready(a) || !ready(b) || self.connections[index].ends != [None; 2] {
            return false;
        }
        let mut ends: [Option<ChannelId>; 2] = [None; 2];
        for number in 0..link.channels {
            let mut reserve =
                |node: usize| world.nic(node).and_then(|nic| nic.reserve_channel().ok());
            let (at_a, at_b) = (reserve(a), reserve(b));
            let (Some(at_a), Some(at_b)) = (at_a, at_b) else {
                for (node, reserved) in [(a, at_a), (b, at_b)] {
                    if let (Some(id), Some(nic)) = (reserved, world.nic(node)) {
                        nic.release_channel(id);
                    }
                }
                // A group may be smaller.
                break;
            };
            let first = [self.draw_psn(), self.draw_psn()];
            for (side, (node, own, peer, theirs)) in
                [(a, at_a, b, at_b), (b, at_b, a, at_a)].into_iter().enumerate()
            {
                let limits = &plan.limits[peer];
                let config = ChannelConfig {
                    leader: ends[side],
                    engine: number % plan.limits[node].engines,
                    remote: world.nic(peer).expect("it is there").address(),
                    remote_tpn: theirs.tpn(),
                    first_psn: first[side],
                    remote_first_psn: first[1 - side],
                    mtu: link.mtu,
                    paths: link.paths,
                    remote_window: limits.receive_window(),
                    remote_message_slots: limits.message_slots,
                    remote_read_slots: limits.read_slots,
                    policy: link.policies[side].build(link.mtu),
                };
                let now = world.now;
                let nic = world.nic(node).expect("it is there");
                nic.open_channel(now, own, config).expect("parameters in range");
                world.connect(node, own, ends[side].unwrap_or(own), peer);
                world.nudge(node);
            }
            ends = [ends[0].or(Some(at_a)), ends[1].or(Some(at_b))];
        }
        let [Some(at_a), Some(at_b)] = ends else { return false };
        world.trace.line(world.now, a, || format!("opens {at_a:?} to node {b}, there {at_b:?}"));
        self.connections[index] = Connection { ends: [Some(at_a), Some(at_b)], reopening: false };
        true
    }

    fn draw_psn(&mut self) -> Psn {
        let random = &mut self.random;
        match random.below(3) {
            0 => Psn::new(random.number() as u32),
            1 => Psn::new(0).minus(random.magnitude(500) as u32),
            _ => Psn::new(random.pick(&[0, 1 << 23, (1 << 23) - 40])),
        }
    }

    /// One turn of the application on `node`.
    pub(crate) fn tick(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        node: usize,
    ) -> Result<(), String> {
        let healed = world.adversary.is_healed();
        if world.nodes[node].nic.is_none() || world.is_paused(node) {
            return Ok(());
        }
        self.change_states(world, model, plan, node)?;
        for number in 0..plan.jetties {
            let want = if self.random.chance(plan.lazy_receives) && !healed {
                0
            } else {
                self.random.range(u64::from(healed), u64::from(RECEIVES_MAX))
            };
            while u64::from(self.applications[node].jetties[number as usize].posted) < want {
                if !self.post_receive(world, model, node, number) {
                    break;
                }
            }
        }
        if !healed {
            for _ in 0..self.random.range(0, 4) {
                self.post_something(world, model, plan, node)?;
            }
            self.be_rough(world, model, plan, node)?;
        }
        world.look(node);
        world.nudge(node);
        Ok(())
    }

    fn post_receive(
        &mut self,
        world: &mut World,
        model: &mut Model,
        node: usize,
        number: u32,
    ) -> bool {
        let landing = self.segment(node, Role::Inbox);
        let gap = self.random.below(GAP_MAX) as usize;
        let application = &mut self.applications[node];
        let jetty = &mut application.jetties[number as usize];
        let Some(landing) = landing.filter(|_| jetty.alive) else { return false };
        jetty.buffers.retain(|buffer| buffer.0 == landing.key);
        let length = jetty.capacity as usize;
        let fresh = |world: &mut World| {
            world.memory.reserve(landing.key, length, gap).map(|at| (landing.key, at))
        };
        let Some(buffer) = jetty.buffers.pop().or_else(|| fresh(world)) else { return false };
        let local =
            LocalRange { segment: landing.id, offset: buffer.1 as u64, length: jetty.capacity };
        let request = ReceiveRequest { id: model.receive_id(), local };
        let life = (node, world.nodes[node].incarnation);
        let id = JettyId::new(number);
        let Some(nic) = world.nic(node) else { return false };
        let outcome = nic.post_receive(id, &request);
        let refused = outcome == Err(PostError::NotReady);
        assert!(refused == (jetty.state == JettyState::Error), "{outcome:?} for {jetty:?}");
        if outcome.is_err() {
            jetty.buffers.push(buffer);
            return false;
        }
        jetty.posted += 1;
        let (length, state) = (jetty.capacity, State::Pending);
        model.receives.push(Receive { life, jetty: id, buffer, length, state });
        true
    }

    /// A receive has completed: its buffer may be used again.
    pub(crate) fn receive_done(&mut self, receive: &Receive) {
        let jetty = &mut self.applications[receive.life.0].jetties[receive.jetty.value() as usize];
        jetty.posted -= 1;
        jetty.buffers.push(receive.buffer);
    }

    fn segment(&self, node: usize, role: Role) -> Option<Segment> {
        let here = &self.applications[node].segments;
        here.iter().rev().find(|segment| segment.role == role).copied()
    }

    fn post_something(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        node: usize,
    ) -> Result<(), String> {
        let index = self.random.below(plan.links.len() as u64) as usize;
        let link = &plan.links[index];
        let Some(side) = link.nodes.iter().position(|&end| end == node) else { return Ok(()) };
        let Some(channel) = self.connections[index].ends[side] else { return Ok(()) };
        let peer = link.nodes[1 - side];
        let jetty = self.random.below(u64::from(plan.jetties)) as u32;
        let here = &self.applications[node];
        if self.operations_left == 0 || !here.jetties[jetty as usize].alive {
            return Ok(());
        }
        let kind = self.random.pick(&[
            Kind::Write,
            Kind::Write,
            Kind::WriteImmediate,
            Kind::Read,
            Kind::Send,
            Kind::SendImmediate,
        ]);
        let kind = if self.random.chance(plan.atomics) { Kind::Atomic } else { kind };
        let bypasses = plan.extras.bypasses > 0 && self.random.chance(plan.extras.bypasses);
        let kind =
            if bypasses { self.random.pick(&[Kind::Load, Kind::Store, Kind::Store]) } else { kind };
        let length = match kind {
            Kind::Atomic => self.random.pick(&[4, 8, 8]),
            Kind::Load | Kind::Store => self.random.range(1, u64::from(BYPASS_BYTES)) as u32,
            _ => self.draw_length(plan, link.mtu),
        };
        let order = match kind {
            Kind::Load | Kind::Store => OrderRequest::default(),
            _ => self.draw_order(plan, kind, length, link.mtu),
        };
        let draft = Draft {
            kind,
            length,
            life: (node, world.nodes[node].incarnation),
            peer,
            channel,
            jetty: JettyId::new(jetty),
            signaled: !self.random.chance(plan.unsignaled),
            order,
        };
        let Some((operation, request)) = self.compose(world, model, plan, draft) else {
            return Ok(());
        };
        self.operations_left -= 1;
        self.post(world, model, operation, request)
    }

    fn post(
        &mut self,
        world: &mut World,
        model: &mut Model,
        operation: Operation,
        request: WorkRequest,
    ) -> Result<(), String> {
        let node = operation.life.0;
        let now = world.now;
        let jetty = &self.applications[node].jetties[operation.jetty.value() as usize];
        let ready = jetty.state == JettyState::Ready;
        let Some(nic) = world.nic(node) else { return Ok(()) };
        match nic.post(now, operation.jetty, &request) {
            Err(PostError::NotReady) if !ready => Ok(()),
            Ok(()) if !ready => Err(format!("node {node}: posted to {jetty:?}: {request:?}")),
            Ok(()) => {
                let id = request.id;
                world.trace.line(now, node, || format!("posts {id}: {request:?}"));
                model.posted(world, operation, id);
                Ok(())
            }
            // What the application did not get rid of it does not try again.
            Err(
                PostError::TooManyMessages
                | PostError::CompletionQueueFull
                | PostError::TooManyOrders,
            ) => Ok(()),
            Err(PostError::NoChannel) if !nic.is_open(request.channel) => Ok(()),
            Err(error) => Err(format!("node {node}: {error:?} for {request:?}")),
        }
    }

    fn draw_length(&mut self, plan: &Plan, mtu: u32) -> u32 {
        let random = &mut self.random;
        let packets = random.magnitude(plan.packets_max);
        let length = match random.below(6) {
            0 => random.below(u64::from(mtu) + 1),
            1 => packets * u64::from(mtu),
            2 => (packets * u64::from(mtu)).saturating_add_signed(random.below(3) as i64 - 1),
            3 => random.pick(&[0, 0, 1, 8]),
            _ => random.range(0, packets * u64::from(mtu)),
        };
        length.min(plan.bytes_max / 2).min(plan.packets_max * u64::from(mtu)) as u32
    }

    /// Draws the rest of an operation; none if there is no room for it.
    fn compose(
        &mut self,
        world: &mut World,
        model: &Model,
        plan: &Plan,
        draft: Draft,
    ) -> Option<(Operation, WorkRequest)> {
        let node = draft.life.0;
        let target_jetty = JettyId::new(self.random.below(u64::from(plan.jetties)) as u32);
        let wrong = self.random.chance(plan.wrong);
        let succeeds = Statuses::of(&[Status::Success]);
        let mut operation = Operation {
            life: draft.life,
            target_life: (draft.peer, world.nodes[draft.peer].incarnation),
            channel: draft.channel,
            jetty: draft.jetty,
            target_jetty,
            kind: draft.kind,
            local: (0, 0),
            remote: None,
            length: draft.length,
            signaled: draft.signaled,
            allowed: succeeds,
            state: State::Pending,
            noticed: false,
            order: draft.order,
            affected: 0,
            old: None,
            counted: false,
            hint: 0,
        };
        let receives =
            matches!(draft.kind, Kind::WriteImmediate | Kind::Send | Kind::SendImmediate);
        let in_sequence = receives && plan.extras.in_sequence;
        operation.order.receive_in_order |= in_sequence;
        if in_sequence {
            operation.target_jetty = draft.jetty;
        }
        let target_jetty = operation.target_jetty;
        let group = !in_sequence && self.draw_group(plan, &mut operation);
        let least = self.capacities.iter().min().copied();
        let own = self.capacities[target_jetty.value() as usize];
        let capacity = least.filter(|_| group).unwrap_or(own);
        let is_send = matches!(draft.kind, Kind::Send | Kind::SendImmediate);
        if is_send && draft.length > capacity {
            if wrong && !group {
                operation.allowed = Statuses::of(&[Status::RemoteLength]);
            } else {
                operation.length = self.random.range(0, u64::from(capacity)) as u32;
            }
        }
        if draft.kind == Kind::Atomic {
            return self.compose_atomic(world, model, draft, operation, wrong);
        }
        if matches!(draft.kind, Kind::Load | Kind::Store) {
            return self.compose_bypass(world, model, draft, operation, wrong);
        }
        let local = self.local(world, &mut operation)?;
        if draft.kind != Kind::Read && draft.kind != Kind::Write && wrong && self.random.chance(300)
        {
            operation.target_jetty = JettyId::new(14);
            operation.allowed = Statuses::of(&[Status::RemoteNoJetty]);
        }
        let remote = if is_send {
            RemoteRange::default()
        } else {
            self.remote(world, &mut operation, wrong)?
        };
        if operation.is_unreliable() && operation.allowed != succeeds {
            // Nobody is told that it was refused, but nothing may be written.
            operation.allowed = succeeds;
            operation.remote = None;
        }
        let patience = plan.profiles[node].not_ready_retries;
        if matches!(draft.kind, Kind::WriteImmediate | Kind::Send | Kind::SendImmediate)
            && patience != 7
        {
            operation.allowed = operation.allowed.with(Status::ReceiverNotReady);
        }
        let id = model.operation_id();
        let target =
            Target { jetty: operation.target_jetty, hint: operation.hint, ..Target::default() };
        let work = match draft.kind {
            Kind::Write => Work::Write { remote },
            Kind::WriteImmediate => Work::WriteImmediate { remote, target, immediate: id },
            Kind::Read => Work::Read { remote },
            Kind::Send => Work::Send { target },
            Kind::SendImmediate => Work::SendImmediate { target, immediate: id },
            Kind::Atomic | Kind::Load | Kind::Store => return None,
        };
        let local = LocalRange {
            segment: local.id,
            offset: operation.local.1 as u64,
            length: operation.length,
        };
        let (channel, signaled) = (draft.channel, draft.signaled);
        let order = operation.order;
        Some((operation, WorkRequest { id, channel, work, local, signaled, order }))
    }

    /// The near end: somewhere to read into, or something to send.
    fn local(&mut self, world: &mut World, operation: &mut Operation) -> Option<Segment> {
        let (node, length) = (operation.life.0, operation.length as usize);
        if operation.kind == Kind::Read {
            let landing = self.segment(node, Role::Landing)?;
            let gap = self.random.below(GAP_MAX) as usize;
            operation.local = (landing.key, world.memory.reserve(landing.key, length, gap)?);
            Some(landing)
        } else {
            let role = self.random.pick(&[Role::Source, Role::Private]);
            let source = self.segment(node, role)?;
            let at = self.random.below(source.length - length as u64 + 1) as usize;
            operation.local = (source.key, at);
            Some(source)
        }
    }

    /// The far end of a write or read, right or wrong.
    fn remote(
        &mut self,
        world: &mut World,
        operation: &mut Operation,
        wrong: bool,
    ) -> Option<RemoteRange> {
        let peer = operation.target_life.0;
        let length = operation.length as usize;
        let is_read = operation.kind == Kind::Read;
        let far = if is_read {
            self.segment(peer, Role::Source)?
        } else {
            let role = self.random.pick(&[Role::Target, Role::Open]);
            self.segment(peer, role)?
        };
        let gap = self.random.below(GAP_MAX) as usize;
        let at = if is_read {
            self.random.below(far.length - length as u64 + 1) as usize
        } else {
            world.memory.reserve(far.key, length, gap)?
        };
        operation.remote = Some((far.key, at));
        let mut remote = RemoteRange {
            token_id: far.id.token_id(),
            token_value: far.token,
            address: far.address + at as u64,
        };
        if !wrong || operation.allowed == Statuses::of(&[Status::RemoteNoJetty]) {
            return Some(remote);
        }
        let mut status = Status::RemoteAccess;
        match self.random.below(6) {
            0 => remote.token_value ^= 1 << self.random.below(32),
            1 => remote.token_id = TokenId::new(200 + self.random.below(1 << 19) as u32),
            2 => {
                let past = far.length - length as u64 + 1 + self.random.below(1000);
                remote.address = far.address.checked_add(past)?;
            }
            3 => remote.address = far.address.checked_sub(1)?,
            4 if length > 0 => remote.address = u64::MAX - self.random.below(length as u64),
            _ => {
                // The other kind of segment: closed to this operation.
                let role = if is_read { Role::Target } else { Role::Source };
                let closed = self.segment(peer, role)?;
                remote = RemoteRange {
                    token_id: closed.id.token_id(),
                    token_value: closed.token,
                    address: closed.address,
                };
                operation.remote = Some((closed.key, 0));
                status = Status::RemoteRights;
            }
        }
        operation.allowed = Statuses::of(&[status]);
        Some(remote)
    }
}

/// What is drawn of an operation first.
#[derive(Clone, Copy, Debug)]
struct Draft {
    kind: Kind,
    length: u32,
    life: Life,
    peer: usize,
    channel: ChannelId,
    jetty: JettyId,
    signaled: bool,
    order: OrderRequest,
}

mod atomics;
mod bypass;
mod groups;
mod rough;
mod states;
