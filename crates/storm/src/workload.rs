//! The applications' actions: a seed draws operations, receives, and occasional disruptive actions.

use crate::application::{Application, Connection, Jetty, Role, Segment};
use crate::finding::Finding;
use crate::node::Terms;
use crate::operation::{Kind, Life, Operation, Receive, State, Statuses, Trouble};
use crate::oracles::Model;
use crate::plan::Plan;
use crate::world::World;
use fairway_device::random::Random;
use fairway_ub::wire::{BYPASS_BYTES, JettyId, Msn, Psn, ServiceMode, Tag, Target, TokenId};
use fairway_ub::{
    ChannelId, JettyState, LocalRange, OrderRequest, PostError, ReceiveRequest, RemoteRange,
    Rights, SegmentRequest, Status, Work, WorkRequest,
};

/// The applications of all nodes.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) random: Random,
    pub(crate) applications: Vec<Application>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) operations_left: u64,
    /// Bursts of operations that may still be posted.
    bursts_left: u64,
    /// Maximum length of a receive buffer, by Jetty number; the same on all nodes.
    capacities: Vec<u32>,
    /// Draws which memory becomes inaccessible.
    absences: Random,
}

/// Maximum number of receives posted to a Jetty.
const RECEIVES_MAX: u32 = 8;
/// Words that peers change atomically, on each node.
const WORDS: u64 = 8;
/// Bytes that peers store to and load from, on each node; few, so that stores overlap.
const CELLS: u64 = BYPASS_BYTES as u64 + 10;
/// Source bytes of stores, on each node; each byte is stored once.
const FILL: u64 = 8_000;
/// Maximum gap between two ranges, which no operation may access.
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
            bursts_left: plan.bursts.count,
            capacities,
            absences: Random::fork(seed, 15),
        }
    }

    /// Creates the queues, Jetties and memory of a fresh NIC.
    pub(crate) fn set_up(
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
        if plan.extras.to_boards > 0 && plan.extras.memory_order > 0 {
            self.register(world, plan, node, Role::Board);
        }
        if plan.staging {
            self.give_staging(world, plan, node);
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

    fn give_staging(&mut self, world: &mut World, plan: &Plan, node: usize) {
        let mtu = plan.links.iter().map(|link| link.mtu).max().unwrap_or(1);
        let length = u64::from(plan.limits[node].deferred) * u64::from(mtu);
        let request = SegmentRequest { address: 0, length, rights: Rights::NONE, token_value: 0 };
        let Some(nic) = world.nic(node) else { return };
        let Ok(id) = nic.register(&request) else { return };
        nic.set_staging(id, mtu).expect("the segment is as long as it has to be");
        let key = world.memory.add(node, id, length as usize, &mut self.random);
        // The oracles do not check data that is set aside temporarily.
        world.memory.unsettle(key, 0, length as usize);
        world.memory.pieces[key].is_staging = true;
        self.applications[node].staging = Some(id);
    }

    /// Draws the ordering of an operation.
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

    /// Sometimes requests receive order for an operation without a receive. That has no effect, so
    /// the model does not know of it.
    fn request_one_order(&mut self, plan: &Plan, kind: Kind, order: &mut OrderRequest) {
        let chance = plan.extras.one_order;
        let may = chance > 0 && order.mode != ServiceMode::Uno;
        if may && matches!(kind, Kind::Read | Kind::Write | Kind::Atomic) {
            order.receive_in_order = self.random.chance(chance);
        }
    }

    /// Makes an operation keep memory order. It completes in order, because only then it is in
    /// place.
    fn draw_memory_order(&mut self, plan: &Plan, kind: Kind, order: &mut OrderRequest) {
        let chance = plan.extras.memory_order;
        if chance == 0 || order.mode == ServiceMode::Uno || !self.random.chance(chance) {
            return;
        }
        order.tag = Tag::Mo;
        order.complete_in_order = true;
        order.mode = match kind {
            Kind::Read | Kind::Atomic => ServiceMode::Rot,
            _ => ServiceMode::Rol,
        };
    }

    /// Registers memory; does nothing if all segments are in use.
    pub(crate) fn register(&mut self, world: &mut World, plan: &Plan, node: usize, role: Role) {
        let random = &mut self.random;
        let length = match role {
            Role::Source | Role::Private => plan.bytes_max + random.below(5000),
            Role::Words => 8 * WORDS,
            Role::Cells => CELLS,
            Role::Ink => FILL,
            Role::Board => plan.bytes_max / 2 * u64::from(plan.jetties) + random.below(5000),
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
            Role::Cells | Role::Board => Rights::READ_WRITE,
            Role::Private | Role::Landing | Role::Inbox | Role::Ink => Rights::NONE,
        };
        let token = random.number() as u32;
        let request = SegmentRequest { address, length, rights, token_value: token };
        let Some(nic) = world.nic(node) else { return };
        let Ok(id) = nic.register(&request) else { return };
        let key = world.memory.add(node, id, length as usize, random);
        world.memory.pieces[key].is_own = matches!(role, Role::Landing | Role::Inbox);
        world.memory.pieces[key].board = (role == Role::Board).then_some(plan.jetties);
        let segment = Segment { key, id, role, address, length, token };
        self.applications[node].segments.push(segment);
    }

    /// Opens a connection if both nodes are running. Returns false if it has to be tried again.
    pub(crate) fn open(&mut self, world: &mut World, plan: &Plan, index: usize) -> bool {
        let link = &plan.links[index];
        let [a, b] = link.nodes;
        let ready = |node: usize| world.nodes[node].driver.is_some() && !world.is_paused(node);
        if !ready(a) || !ready(b) || self.connections[index].ends != [None; 2] {
            return false;
        }
        let mut ends: [Option<ChannelId>; 2] = [None; 2];
        let retires = plan.retirement.agreed && link.channels > 1;
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
                // Fewer channels of the group can be opened.
                break;
            };
            let first = [self.draw_psn(), self.draw_psn()];
            for (side, (node, own, peer, theirs)) in
                [(a, at_a, b, at_b), (b, at_b, a, at_a)].into_iter().enumerate()
            {
                let limits = &plan.limits[peer];
                let terms = Terms {
                    leader: ends[side],
                    engine: number % plan.limits[node].engines,
                    remote: world.nic(peer).expect("it is there").address(),
                    remote_tpn: theirs.tpn(),
                    first_psn: first[side],
                    remote_first_psn: first[1 - side],
                    first_message: Msn::new(first[side].value()),
                    retires,
                    carried_acks: plan.carried_acks,
                    mtu: link.mtu,
                    paths: link.paths,
                    remote_window: limits.receive_window(),
                    remote_message_slots: limits.message_slots,
                    remote_read_slots: limits.read_slots,
                    policy: link.policies[side],
                };
                let now = world.now;
                let nic = world.nic(node).expect("it is there");
                nic.open_channel(now, own, terms.config()).expect("parameters in range");
                if plan.extras.first_probes && side == 0 {
                    nic.probe_first_path(own);
                }
                let peer_leader = ends[1 - side].unwrap_or(theirs);
                let name = ((index, number, side), terms);
                world.connect(node, own, ends[side].unwrap_or(own), (peer, peer_leader), name);
                world.schedule_poll(node);
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

    /// Runs one tick of the application on `node`.
    pub(crate) fn tick(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        node: usize,
    ) -> Result<(), Finding> {
        let healed = world.adversary.is_healed();
        if world.nodes[node].driver.is_none() || world.is_paused(node) {
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
            self.burst(world, model, plan, node)?;
            self.abort(world, model, plan, node);
            self.be_rough(world, model, plan, node)?;
            self.take_away(world, plan, node);
        }
        self.change_pressure(world, plan, node, healed);
        if !healed {
            self.rest(world, plan, node);
        }
        world.look(node);
        world.schedule_poll(node);
        Ok(())
    }

    /// Lets channels of a node rest.
    fn rest(&mut self, world: &mut World, plan: &Plan, node: usize) {
        let chance = plan.resting.chance;
        if chance == 0 || !self.random.chance(chance) {
            return;
        }
        for (index, link) in plan.links.iter().enumerate() {
            for side in (0..2).filter(|side| link.nodes[*side] == node) {
                if let Some(channel) = self.connections[index].ends[side] {
                    let posts = plan.resting.passive[index] != Some(side);
                    world.rest(node, channel, posts);
                }
            }
        }
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
        let (missed, aborted) = (false, false);
        model.receives.push(Receive { life, jetty: id, buffer, length, state, aborted, missed });
        true
    }

    /// Handles a completed receive, whose buffer may be used again.
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
    ) -> Result<(), Finding> {
        let index = self.random.below(plan.links.len() as u64) as usize;
        let link = &plan.links[index];
        let Some(side) = link.nodes.iter().position(|&end| end == node) else { return Ok(()) };
        let Some(channel) = self.connections[index].ends[side] else { return Ok(()) };
        if plan.resting.passive[index] == Some(side) {
            return Ok(());
        }
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
        let kind = if plan.retirement.plain { plain(kind) } else { kind };
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
            _ => {
                let mut order = self.draw_order(plan, kind, length, link.mtu);
                self.draw_memory_order(plan, kind, &mut order);
                order
            }
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
        let Some((operation, mut request)) = self.compose(world, model, plan, draft) else {
            return Ok(());
        };
        self.request_one_order(plan, kind, &mut request.order);
        self.operations_left -= 1;
        self.post(world, model, operation, request)
    }

    fn post(
        &mut self,
        world: &mut World,
        model: &mut Model,
        operation: Operation,
        request: WorkRequest,
    ) -> Result<(), Finding> {
        let node = operation.life.0;
        let now = world.now;
        let jetty = &self.applications[node].jetties[operation.jetty.value() as usize];
        let ready = jetty.state == JettyState::Ready;
        world.awaken(node, request.channel);
        let Some(nic) = world.nic(node) else { return Ok(()) };
        match nic.post(now, operation.jetty, &request) {
            Err(PostError::NotReady) if !ready => Ok(()),
            Ok(()) if !ready => {
                Err(format!("node {node}: posted to {jetty:?}: {request:?}").into())
            }
            Ok(()) => {
                let id = request.id;
                world.trace.line(now, node, || format!("posts {id}: {request:?}"));
                model.posted(world, operation, id);
                Ok(())
            }
            // The application does not retry an operation that could not be posted.
            Err(
                PostError::TooManyMessages
                | PostError::CompletionQueueFull
                | PostError::TooManyOrders
                | PostError::MemoryOrder,
            ) => Ok(()),
            Err(PostError::NoChannel) if !nic.is_open(request.channel) => Ok(()),
            Err(error) => Err(format!("node {node}: {error:?} for {request:?}").into()),
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
}

/// The plain operation in place of another one.
fn plain(kind: Kind) -> Kind {
    match kind {
        Kind::Send | Kind::Read => Kind::Read,
        _ => Kind::Write,
    }
}

/// The fields of an operation that are drawn first.
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

mod aborts;
mod atomics;
mod bursts;
mod bypass;
mod compose;
mod groups;
mod missing;
mod rough;
mod states;
