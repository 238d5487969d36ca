//! A part of the network, and what happens in it: all of it, if a run takes one core.

use super::calendar::{Calendar, Kind};
use super::host::{Host, host_of};
use super::packets::{Hot, NONE, Packets, Parcel};
use super::placement::Placements;
use super::plan::{Plan, SLOT_BITS};
use super::port::{Admission, Port, PortTally, mix};
use super::scenario::Routing;
use fairway_engine::wire::{Ecn, Instant, header_len};
use fairway_engine::{Completion, Received, Status, Transmit, Verdict};
use std::sync::Arc;

/// What is known of a flow here: the source's part knows its beginning and its completion, the
/// destination's part what was delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowState {
    pub(crate) started: u64,
    pub(crate) completed: u64,
    pub(crate) delivered: u64,
    /// Bytes that are not in place yet.
    pub(crate) remaining: u32,
    /// Flows that it still waits for.
    pub(crate) waits: u32,
    pub(crate) failed: bool,
}

/// Of a time that has not come.
pub(crate) const NEVER: u64 = u64::MAX;

/// What has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) events: u64,
    /// Packets that hosts have sent.
    pub(crate) sent: u64,
    /// Packets that have come to their hosts whole, and as headers only.
    pub(crate) delivered: u64,
    pub(crate) delivered_trimmed: u64,
    /// Packets that found no room, and that were on a link that failed.
    pub(crate) dropped: u64,
    pub(crate) lost_on_links: u64,
    pub(crate) completed: u64,
    pub(crate) placed_bytes: u64,
}

/// A part of the network.
pub(crate) struct Domain {
    pub(crate) plan: Arc<Plan>,
    part: u8,
    /// The nodes of this part.
    nodes: Vec<u32>,
    pub(crate) calendar: Calendar,
    pub(crate) packets: Packets,
    /// All ports, of which only those of this part's nodes are used; likewise below.
    pub(crate) ports: Vec<Port>,
    pub(crate) tallies: Vec<PortTally>,
    pub(crate) hosts: Vec<Option<Box<Host>>>,
    pub(crate) flows: Vec<FlowState>,
    /// What goes to other parts.
    pub(crate) outbox: Vec<Vec<Parcel>>,
    /// Flows that wait for one less, elsewhere.
    pub(crate) news: Vec<u32>,
    pub(crate) totals: Totals,
    /// Choices that each switch has drawn.
    draws: Vec<u32>,
    placements: Option<Placements>,
}

impl Domain {
    pub(crate) fn new(plan: &Arc<Plan>, part: u8, hosts: Vec<Option<Box<Host>>>) -> Domain {
        let network = &plan.scenario.network;
        let ports: Vec<Port> = network
            .links
            .iter()
            .map(|link| {
                let entry = link.reverse - network.first_port[link.to as usize];
                Port::new(link.to, entry as u16, link.megabits, link.latency_ps)
            })
            .collect();
        let flows = plan.scenario.flows.iter().map(|flow| FlowState {
            started: NEVER,
            completed: NEVER,
            delivered: NEVER,
            remaining: flow.bytes,
            waits: flow.after.len() as u32,
            failed: false,
        });
        let room = 32 * ports.len() / plan.parts as usize;
        let mut domain = Domain {
            part,
            calendar: Calendar::new(network.nodes() as usize, plan.window_ps, room),
            nodes: (0..network.nodes()).filter(|node| plan.part[*node as usize] == part).collect(),
            packets: Packets::new(room),
            tallies: vec![PortTally::default(); ports.len()],
            ports,
            hosts,
            flows: flows.collect(),
            outbox: (0..plan.parts).map(|_| Vec::new()).collect(),
            news: Vec::new(),
            totals: Totals::default(),
            draws: vec![0; network.nodes() as usize],
            placements: plan.scenario.check.then(|| Placements::new(plan)),
            plan: Arc::clone(plan),
        };
        for host in 0..domain.hosts.len() as u32 {
            domain.schedule_post(0, host);
        }
        domain
    }

    /// Lets everything happen that happens in a window, node by node.
    pub(crate) fn run(&mut self, window: u64) {
        self.calendar.open(window);
        for at in 0..self.nodes.len() {
            let node = self.nodes[at];
            if !self.calendar.turn(node) {
                continue;
            }
            self.touch();
            let first = self.plan.scenario.network.first_port[node as usize];
            while let Some((now, entry)) = self.calendar.pop() {
                self.totals.events += 1;
                match entry.kind() {
                    Kind::Arrive => self.arrive(now, node, entry.packet()),
                    Kind::Serve => self.serve(now, node, first + entry.port()),
                    Kind::Pull => self.turn(now, node),
                    Kind::Timer => self.timer(now, node),
                    Kind::Post => self.post(now, node),
                    Kind::Change | Kind::Pause => {}
                }
            }
        }
    }

    /// Reads one word of every packet that comes to the node whose turn it is: none of these reads
    /// waits for another, while those of the events themselves would wait in turn.
    #[inline]
    fn touch(&self) {
        let mut read = 0;
        for entry in self.calendar.ahead() {
            if entry.kind() == Kind::Arrive {
                let index = entry.packet() as usize;
                read ^= self.packets.hot[index].destination ^ self.packets.cold[index].payload;
            }
        }
        std::hint::black_box(read);
    }

    /// Takes in a packet from another part.
    pub(crate) fn accept(&mut self, parcel: &Parcel) {
        let index = self.packets.take(parcel.hot, &parcel.cold);
        let port = &self.ports[parcel.port as usize];
        self.calendar.push(parcel.at, port.to, Kind::Arrive, u32::from(port.entry), index);
    }

    /// A flow of this part waits for one less, from `now` on.
    pub(crate) fn hear(&mut self, now: u64, flow: u32) {
        let source = self.plan.scenario.flows[flow as usize].source;
        if self.hosts[source as usize].is_some() && self.waits_less(flow) {
            self.calendar.push(now, source, Kind::Post, 0, 0);
        }
    }

    // ---- the network ----

    #[inline]
    fn arrive(&mut self, now: u64, node: u32, index: u32) {
        if node < self.plan.scenario.network.hosts {
            self.receive(now, node, index);
        } else {
            let out = self.choose(now, node, index);
            self.offer(now, node, out, index);
        }
    }

    /// The port by which a packet leaves a switch.
    #[inline]
    fn choose(&mut self, now: u64, node: u32, index: u32) -> u32 {
        let network = &self.plan.scenario.network;
        let hot = &self.packets.hot[index as usize];
        let candidates = network.toward(node, hot.destination);
        let first = network.first_port[node as usize] + candidates.first;
        let count = candidates.count;
        if count == 1 {
            return first;
        }
        let salt = node.wrapping_mul(0x9E37_79B9) ^ self.plan.scenario.seed as u32;
        match self.plan.scenario.routing {
            Routing::Ecmp => first + scale(mix(hot.entropy ^ salt), count),
            Routing::Source => first + u32::from(hot.path) / network.stride(node) % count,
            Routing::Spray => first + scale(self.draw(node, salt), count),
            Routing::Adaptive => {
                let start = scale(self.draw(node, salt), count);
                let each = (0..count).map(|step| first + (start + step) % count);
                let backlog = |port: &u32| self.ports[*port as usize].backlog_ps(now);
                each.min_by_key(backlog).unwrap_or(first)
            }
        }
    }

    /// A number that the switch draws: it depends on nothing but the switch and how often it drew.
    #[inline]
    fn draw(&mut self, node: u32, salt: u32) -> u32 {
        let count = &mut self.draws[node as usize];
        *count = count.wrapping_add(1);
        mix(salt ^ mix(*count))
    }

    /// A packet is to leave by a port of a switch.
    #[inline]
    fn offer(&mut self, now: u64, node: u32, port: u32, index: u32) {
        let here = &mut self.ports[port as usize];
        let class = self.packets.hot[index as usize].class;
        if here.busy_until <= now && !here.armed && !(here.paused && class == 1) {
            return self.transmit(now, port, index);
        }
        let spec = &self.plan.scenario.queue;
        let tally = &mut self.tallies[port as usize];
        match here.admit(&mut self.packets.hot, index, spec, tally) {
            Admission::Queued => {
                if !here.armed && here.has_work() {
                    here.armed = true;
                    let at = here.busy_until.max(now);
                    self.arm(at, node, port);
                }
            }
            Admission::Trimmed => {
                let cold = &self.packets.cold[index as usize];
                let hot = &mut self.packets.hot[index as usize];
                hot.bytes -= cold.payload;
                hot.class = 0;
                hot.trimmed = true;
                self.offer(now, node, port, index);
            }
            Admission::Dropped => {
                self.totals.dropped += 1;
                self.packets.give_back(index);
            }
        }
    }

    /// A port is done with a packet, and others wait.
    #[inline]
    fn serve(&mut self, now: u64, node: u32, port: u32) {
        let here = &mut self.ports[port as usize];
        here.armed = false;
        let spec = &self.plan.scenario.queue;
        let tally = &mut self.tallies[port as usize];
        let salt = port.wrapping_mul(0x85EB_CA6B) ^ self.plan.scenario.seed as u32;
        let Some(index) = here.next(&mut self.packets.hot, spec, salt, tally) else { return };
        self.transmit(now, port, index);
        let here = &mut self.ports[port as usize];
        if here.has_work() {
            here.armed = true;
            let at = here.busy_until;
            self.arm(at, node, port);
        }
    }

    /// Has a port of a node served at `at`.
    #[inline]
    fn arm(&mut self, at: u64, node: u32, port: u32) {
        let own = port - self.plan.scenario.network.first_port[node as usize];
        self.calendar.push(at, node, Kind::Serve, own, 0);
    }

    /// Puts a packet onto the link: its arrival is known from now on.
    #[inline]
    fn transmit(&mut self, now: u64, port: u32, index: u32) {
        let here = &mut self.ports[port as usize];
        let hot = &mut self.packets.hot[index as usize];
        hot.hops += 1;
        // A host's wire may still be busy with the packet before it, of the same burst.
        here.busy_until = here.busy_until.max(now) + here.time(hot.bytes);
        here.bytes += u64::from(hot.bytes);
        here.packets += 1;
        if here.down {
            self.totals.lost_on_links += 1;
            self.packets.give_back(index);
            return;
        }
        let at = here.busy_until + u64::from(here.latency);
        let part = self.plan.part[here.to as usize];
        if part == self.part {
            hot.arrived = port;
            let entry = u32::from(here.entry);
            self.calendar.push(at, here.to, Kind::Arrive, entry, index);
        } else {
            let (hot, cold) = (*hot, self.packets.cold[index as usize]);
            self.outbox[usize::from(part)].push(Parcel { at, port, hot, cold });
            self.packets.give_back(index);
        }
    }

    // ---- hosts ----

    /// A packet has come to its host.
    fn receive(&mut self, now: u64, node: u32, index: u32) {
        let hot = self.packets.hot[index as usize];
        if hot.trimmed {
            self.totals.delivered_trimmed += 1;
            self.packets.give_back(index);
            return;
        }
        self.totals.delivered += 1;
        let host = self.hosts[node as usize].as_mut().expect("packets go to hosts that take part");
        let received = &mut self.packets.cold[index as usize];
        received.ecn = if hot.marked { Ecn::Congested } else { Ecn::Capable };
        let at = Instant::from_ps(now);
        let verdict = host.nic.handle_packet(at, received);
        self.packets.give_back(index);
        match verdict {
            Verdict::Place(placement) => {
                let (offset, length) = (placement.target.offset, placement.target.length);
                host.nic.handle_placed(at, placement.token, 0);
                self.place(now, node, offset, length);
            }
            Verdict::Atomic(_) => unreachable!("nobody posts atomics"),
            Verdict::Done | Verdict::Drop(_) => {}
        }
        if hot.class == 0 {
            self.complete(now, node);
        }
        self.turn(now, node);
    }

    /// Payload is in place.
    fn place(&mut self, now: u64, node: u32, offset: u64, length: u32) {
        let flow = self.plan.inbound[node as usize][(offset >> SLOT_BITS) as usize];
        self.totals.placed_bytes += u64::from(length);
        if let Some(placements) = &mut self.placements {
            placements.place(&self.plan, flow, offset, length);
        }
        let state = &mut self.flows[flow as usize];
        state.remaining = state.remaining.checked_sub(length).expect("no byte comes twice");
        if state.remaining == 0 {
            state.delivered = now;
            if let Some(placements) = &self.placements {
                assert!(placements.is_whole(&self.plan, flow), "flow {flow} has holes");
            }
            self.tell(now, flow, true);
        }
    }

    /// Takes the completions of a host.
    fn complete(&mut self, now: u64, node: u32) {
        let mut any = false;
        loop {
            let Some(host) = self.hosts[node as usize].as_mut() else { return };
            let Some(completion) = host.nic.poll_completion(host.queue) else { break };
            any = true;
            self.completed(now, &completion);
        }
        if any {
            self.post_ready(now, node);
        }
    }

    fn completed(&mut self, now: u64, completion: &Completion) {
        let flow = completion.id as u32;
        let state = &mut self.flows[flow as usize];
        assert!(state.completed == NEVER, "flow {flow} completes twice");
        state.completed = now;
        state.failed = completion.status != Status::Success;
        self.totals.completed += 1;
        self.tell(now, flow, false);
    }

    /// A flow is over at one of its ends: who waits for that?
    fn tell(&mut self, now: u64, flow: u32, delivered: bool) {
        let plan = Arc::clone(&self.plan);
        for &(waiting, for_delivery) in &plan.dependents[flow as usize] {
            if for_delivery != delivered {
                continue;
            }
            if !plan.is_local(flow, delivered, waiting) {
                self.news.push(waiting);
            } else if self.waits_less(waiting) {
                let source = plan.scenario.flows[waiting as usize].source;
                self.calendar.push(now, source, Kind::Post, 0, 0);
            }
        }
    }

    /// A flow waits for one less; true if it may begin.
    fn waits_less(&mut self, flow: u32) -> bool {
        let state = &mut self.flows[flow as usize];
        state.waits -= 1;
        if state.waits > 0 {
            return false;
        }
        let source = self.plan.scenario.flows[flow as usize].source;
        if let Some(host) = self.hosts[source as usize].as_mut() {
            host.ready.push_back(flow);
        }
        true
    }

    /// Arms the next time at which a flow of a host begins.
    fn schedule_post(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        let scenario = &self.plan.scenario;
        let outbound = &self.plan.outbound[node as usize];
        let waits = |flow: &u32| !scenario.flows[*flow as usize].after.is_empty();
        while outbound.get(host.next_start).is_some_and(waits) {
            host.next_start += 1;
        }
        if let Some(&flow) = outbound.get(host.next_start) {
            let at = scenario.flows[flow as usize].start_ps.max(now);
            self.calendar.push(at, node, Kind::Post, 0, 0);
        }
    }

    /// Flows of a host may begin.
    fn post(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        let scenario = &self.plan.scenario;
        let before = host.next_start;
        while let Some(&flow) = self.plan.outbound[node as usize].get(host.next_start) {
            let start = scenario.flows[flow as usize].start_ps;
            let waits = !scenario.flows[flow as usize].after.is_empty();
            if start > now && !waits {
                break;
            }
            if !waits {
                host.ready.push_back(flow);
            }
            host.next_start += 1;
        }
        if host.next_start != before {
            self.schedule_post(now, node);
        }
        self.post_ready(now, node);
        self.turn(now, node);
    }

    /// Hands over to the NIC what may begin.
    fn post_ready(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        while let Some(&flow) = host.ready.front() {
            if !host.post(now, &self.plan, flow) {
                return;
            }
            host.ready.pop_front();
            self.flows[flow as usize].started = now;
        }
    }

    /// The engine asked to be woken.
    fn timer(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        if host.timer_at != now {
            return;
        }
        host.timer_at = NEVER;
        let at = Instant::from_ps(now);
        if host.nic.poll_timeout().is_some_and(|due| at.is_at_or_after(due)) {
            host.nic.handle_timeout(at);
            while host.nic.poll_event().is_some() {}
            self.complete(now, node);
        }
        self.turn(now, node);
    }

    /// A host may have something to send: if its wire is free, a packet leaves, or as many as the
    /// NIC takes at once.
    #[inline]
    fn turn(&mut self, now: u64, node: u32) {
        let host = self.hosts[node as usize].as_mut().expect("a host that takes part");
        let wire = host.wire;
        let port = &self.ports[wire as usize];
        if port.busy_until <= now && !port.paused {
            let mut sent = 0;
            while sent < self.plan.scenario.burst {
                let host = self.hosts[node as usize].as_mut().expect("a host that takes part");
                let Some(transmit) = host.nic.poll_transmit(Instant::from_ps(now)) else { break };
                self.inject(now, node, wire, &transmit);
                sent += 1;
            }
            if sent > 0 {
                let free = self.ports[wire as usize].busy_until;
                self.calendar.push(free, node, Kind::Pull, 0, 0);
            }
        }
        let host = self.hosts[node as usize].as_mut().expect("a host that takes part");
        if let Some(due) = host.nic.poll_timeout() {
            // What is due already is done a picosecond later: the clock has to move.
            let due = due.as_ps().max(now + 1);
            if due < host.timer_at {
                host.timer_at = due;
                self.calendar.push(due, node, Kind::Timer, 0, 0);
            }
        }
    }

    fn inject(&mut self, now: u64, node: u32, wire: u32, transmit: &Transmit) {
        let (route, payload) = (transmit.route, transmit.gather.length);
        let header = header_len(&transmit.packet) as u32;
        let destination = host_of(route.destination);
        let flow = mix(node ^ mix(destination).rotate_left(7));
        let hot = Hot {
            next: NONE,
            bytes: header + payload + self.plan.scenario.frame_bytes,
            destination,
            entropy: mix(flow ^ u32::from(route.path).wrapping_mul(0x9E37_79B1)),
            via: NONE,
            arrived: NONE,
            path: route.path,
            class: u8::from(payload > 0),
            marked: false,
            trimmed: false,
            hops: 0,
        };
        let cold = Received { route, packet: transmit.packet, payload, ecn: Ecn::Capable };
        let index = self.packets.take(hot, &cold);
        self.totals.sent += 1;
        self.transmit(now, wire, index);
    }
}

/// A number below `count`, from one that is spread over all 32 bits.
#[inline]
fn scale(number: u32, count: u32) -> u32 {
    ((u64::from(number) * u64::from(count)) >> 32) as u32
}
