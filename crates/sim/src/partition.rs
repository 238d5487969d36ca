//! One part of the network and its events; the whole network if the run uses one core.

use super::calendar::{Calendar, Kind};
use super::capture::Captured;
use super::host::Host;
use super::packets::{CONTROL, CrossPartitionPacket, NONE, PacketHeaders, PacketMeta, Packets};
use super::placement::Placements;
use super::plan::{BETWEEN, Plan};
use super::port::{Admission, Port, PortTally, mix};
use super::scenario::Routing;
use super::switch::Buffers;
use crate::calendar::NEVER;
use crate::intake::INTAKE_PORT;
use ahead::Ahead;
use std::sync::Arc;
use streams::PlacedOfStream;

/// State of a flow in one partition. The source's partition records its start and completion, the
/// destination's partition its delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowState {
    pub(crate) started: u64,
    pub(crate) completed: u64,
    pub(crate) delivered: u64,
    /// Bytes that are not in place yet.
    pub(crate) remaining: u32,
    /// Number of flows that it still waits for.
    pub(crate) waits: u32,
}

/// Counts of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) events: u64,
    /// Packets that hosts have sent.
    pub(crate) sent: u64,
    /// Packets that arrived at their hosts whole, and those that arrived as headers only.
    pub(crate) delivered: u64,
    pub(crate) delivered_trimmed: u64,
    /// Packets dropped because a queue was full, and packets lost on links.
    pub(crate) dropped: u64,
    /// Those of the dropped packets that did not fit into the receive queue of a host.
    pub(crate) dropped_at_hosts: u64,
    pub(crate) lost_on_links: u64,
    pub(crate) completed: u64,
    pub(crate) placed_bytes: u64,
    /// Ranks that have finished, messages they have received, and the time at which the last
    /// finished.
    pub(crate) ranks_done: u64,
    pub(crate) messages: u64,
    pub(crate) ranks_end: u64,
    /// Operations that failed because the NIC had given up their peers.
    pub(crate) failed: u64,
}

/// A part of the network.
#[repr(align(128))] // Its own cache lines, because another core uses the next one.
pub(crate) struct Partition {
    pub(crate) plan: Arc<Plan>,
    part: u8,
    pub(crate) calendar: Calendar,
    pub(crate) packets: Packets,
    /// All ports of the network, of which only those of this partition's nodes are used; likewise
    /// below.
    pub(crate) ports: Vec<Port>,
    pub(crate) tallies: Vec<PortTally>,
    pub(crate) hosts: Vec<Option<Box<Host>>>,
    pub(crate) flows: Vec<FlowState>,
    /// Packets for other partitions, by destination partition.
    pub(crate) outbox: Vec<Vec<CrossPartitionPacket>>,
    /// Packets from other partitions, by source partition, and the arrival time of the first.
    pub(crate) inbox: Vec<Vec<CrossPartitionPacket>>,
    pub(crate) earliest_crossing: u64,
    /// PFC signals for ports of other partitions: time, port, and whether its data must pause.
    pub(crate) signals: Vec<(u64, u32, bool)>,
    pub(crate) buffers: Buffers,
    /// By switch: the latest wake-up for ports that were busy at the end of a window. Empty if
    /// [`Kind::Serve`] is an event of its own at switches as well.
    wakes: Vec<u64>,
    /// Packets that left by the captured port.
    pub(crate) captured: Vec<Captured>,
    /// Flows of other partitions that have one flow less to wait for.
    pub(crate) remote_dependents: Vec<u32>,
    pub(crate) totals: Totals,
    /// Number of random choices that each switch has made.
    draws: Vec<u32>,
    placements: Option<Placements>,
    /// What is in place here, by stream.
    pub(crate) placed_of_streams: Vec<PlacedOfStream>,
    /// Packets that have arrived at hosts outside the simulator, and whether each was marked;
    /// `None` if the hosts are simulated.
    pub(crate) handed: Option<Vec<(u32, u32, bool)>>,
}

impl Partition {
    pub(crate) fn new(plan: &Arc<Plan>, part: u8, hosts: Vec<Option<Box<Host>>>) -> Partition {
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
        });
        let room = 32 * ports.len() / plan.parts as usize;
        let buffers = Buffers::new(&plan.scenario);
        // The order in which the ports of a switch send matters only if they share a buffer, or if
        // the switch pauses its neighbours.
        let wakes = if buffers.is_counted() { 0 } else { network.nodes() as usize };
        let mut partition = Partition {
            part,
            calendar: Calendar::new(network.nodes() as usize, plan.window_ps, room),
            packets: Packets::new(room),
            tallies: vec![PortTally::default(); ports.len()],
            ports,
            hosts,
            flows: flows.collect(),
            outbox: (0..plan.parts).map(|_| Vec::new()).collect(),
            inbox: (0..plan.parts).map(|_| Vec::new()).collect(),
            earliest_crossing: NEVER,
            signals: Vec::new(),
            buffers,
            wakes: vec![NEVER; wakes],
            captured: Vec::with_capacity(plan.scenario.tap.map_or(0, |(_, packets)| packets)),
            remote_dependents: Vec::new(),
            totals: Totals::default(),
            draws: vec![0; network.nodes() as usize],
            placements: plan.scenario.check.then(|| Placements::new(plan)),
            placed_of_streams: vec![PlacedOfStream::default(); plan.scenario.streams.len()],
            handed: None,
            plan: Arc::clone(plan),
        };
        for host in 0..partition.hosts.len() as u32 {
            partition.schedule_post(0, host);
            partition.arm_ranks(0, host);
            partition.arm_streams(0, host);
        }
        partition.schedule_changes();
        partition
    }

    /// Returns an estimate of the events in a window, from those known before it begins.
    pub(crate) fn expected(&self, window: u64) -> u64 {
        let crossings: usize = self.inbox.iter().map(Vec::len).sum();
        crossings as u64 + self.calendar.count(window)
    }

    /// Executes all events of a window, node by node.
    pub(crate) fn run(&mut self, window: u64) {
        for from in 0..self.inbox.len() {
            let mut crossings = std::mem::take(&mut self.inbox[from]);
            crossings.drain(..).for_each(|crossing| self.accept(&crossing));
            self.inbox[from] = crossings;
        }
        self.earliest_crossing = NEVER;
        self.calendar.open(window);
        let mut ahead = Ahead::default();
        let mut next = 0;
        while let Some(node) = self.calendar.next_node(next) {
            next = node + 1;
            self.look_ahead(&mut ahead, node);
            self.calendar.turn(node);
            let first = self.plan.scenario.network.first_port[node as usize];
            while let Some((now, entry)) = self.calendar.pop() {
                self.totals.events += 1;
                match entry.kind() {
                    Kind::Arrive => self.arrive(now, node, first + entry.port(), entry.packet()),
                    Kind::Serve if entry.port() == INTAKE_PORT => self.serve_intake(now, node),
                    // A wake-up: the ports are served below, and each counts as an event.
                    Kind::Serve if self.serves_late(node) => self.totals.events -= 1,
                    Kind::Serve => {
                        self.serve(now, node, first + entry.port());
                        self.resume_host(now, node, first + entry.port());
                    }
                    Kind::Pull => self.turn(now, node),
                    Kind::Timer => self.timer(now, node),
                    Kind::Post if self.handed.is_some() => {
                        let meta = &self.packets.meta[entry.packet() as usize];
                        let wire = self.wire_of(node, first, meta.destination, meta.path);
                        self.offer(now, node, wire, entry.packet());
                    }
                    Kind::Post => self.post(now, node),
                    Kind::Act if self.plan.scenario.streams.is_empty() => self.act(now, node),
                    Kind::Act => self.act_streams(now, node),
                    Kind::Change => {
                        self.serve_all(now, node);
                        self.change(entry.packet());
                    }
                    Kind::Pause => self.pause(now, node, first + entry.port(), entry.packet()),
                }
            }
            self.finish(node);
        }
    }

    /// True if the ports of a node are served when something depends on it: before a packet is
    /// queued, before a link changes, and at the end of the window. Until then no other node can
    /// notice, and a port's own packets leave in the same order at the same times.
    #[inline]
    fn serves_late(&self, node: u32) -> bool {
        node >= self.plan.scenario.network.hosts && !self.wakes.is_empty()
    }

    /// Lets a port of a switch send everything whose turn comes before `until`.
    #[inline]
    fn serve_until(&mut self, until: u64, node: u32, port: u32) {
        while self.ports[port as usize].armed && self.ports[port as usize].busy_until < until {
            self.totals.events += 1;
            let now = self.ports[port as usize].busy_until;
            self.serve(now, node, port);
        }
    }

    /// As [`Self::serve_until`], for all ports of a node.
    fn serve_all(&mut self, until: u64, node: u32) {
        if self.serves_late(node) {
            for port in self.plan.scenario.network.ports_of(node) {
                self.serve_until(until, node, port);
            }
        }
    }

    /// Ends the turn of a switch: its ports send up to the end of the window, and if any is still
    /// busy, the switch has a turn in the window in which the first of them is free.
    fn finish(&mut self, node: u32) {
        if !self.serves_late(node) {
            return;
        }
        let (until, mut due) = (self.calendar.end(), NEVER);
        for port in self.plan.scenario.network.ports_of(node) {
            self.serve_until(until, node, port);
            let here = &self.ports[port as usize];
            if here.armed {
                due = due.min(here.busy_until);
            }
        }
        if due != NEVER && self.wakes[node as usize] != due {
            self.wakes[node as usize] = due;
            self.calendar.push(due, node, Kind::Serve, 0, 0);
        }
    }

    /// Receives a packet from another partition.
    fn accept(&mut self, crossing: &CrossPartitionPacket) {
        let index = self.packets.take(crossing.meta, &crossing.headers);
        let port = &self.ports[crossing.port as usize];
        self.calendar.push(crossing.at, port.to, Kind::Arrive, u32::from(port.entry), index);
    }

    /// Puts a frame from outside onto a host's wire.
    pub(crate) fn take_in(
        &mut self,
        now: u64,
        host: u32,
        meta: PacketMeta,
        headers: &PacketHeaders,
    ) -> u32 {
        self.totals.sent += 1;
        let index = self.packets.take(meta, headers);
        self.calendar.push(now, host, Kind::Post, 0, index);
        index
    }

    /// Reduces by one, at `now`, the flows that a flow of this partition waits for.
    pub(crate) fn dependency_done(&mut self, now: u64, flow: u32) {
        let source = self.plan.scenario.flows[flow as usize].source;
        if self.hosts[source as usize].is_some() {
            self.waits_less(now, flow);
        }
    }

    // ---- the network ----

    /// Handles a packet that has arrived by the link of which a node's port is the other end.
    #[inline]
    fn arrive(&mut self, now: u64, node: u32, port: u32, index: u32) {
        let network = &self.plan.scenario.network;
        let meta = &mut self.packets.meta[index as usize];
        meta.hops += 1;
        if node < network.hosts {
            self.receive(now, node, index);
        } else {
            if self.buffers.is_counted() {
                meta.arrived = network.links[port as usize].reverse;
            }
            let out = self.choose(now, node, index);
            self.offer(now, node, out, index);
        }
    }

    /// Chooses the port by which a packet leaves a switch.
    #[inline]
    fn choose(&mut self, now: u64, node: u32, index: u32) -> u32 {
        let routing = self.plan.scenario.routing;
        if matches!(routing, Routing::Adaptive | Routing::Ugal) {
            // These compare the queues of ports.
            self.serve_all(now + 1, node);
        }
        let salt = node.wrapping_mul(0x9E37_79B9) ^ self.plan.scenario.seed as u32;
        if matches!(routing, Routing::Valiant | Routing::Ugal) {
            self.choose_via(now, node, index, salt);
        }
        let network = &self.plan.scenario.network;
        let meta = &self.packets.meta[index as usize];
        let any = matches!(routing, Routing::Ecmp | Routing::Spray | Routing::Adaptive);
        let candidates = match self.plan.ways.get(node as usize) {
            Some(way) => way.toward(meta.destination),
            None => network.by_way_of(meta.via, node, meta.destination, meta.entropy, any),
        };
        let first = network.first_port[node as usize];
        let count = candidates.count();
        if count == 1 {
            return first + candidates.get(0);
        }
        let start = match routing {
            Routing::Source => u32::from(meta.path) / network.stride(node) % count,
            Routing::Spray | Routing::Adaptive => scale(self.draw(node, salt), count),
            _ => scale(mix(meta.entropy ^ salt), count),
        };
        let first_choice = first + candidates.get(start);
        if routing != Routing::Adaptive && !self.ports[first_choice as usize].down {
            return first_choice;
        }
        let each = (start..count).chain(0..start).map(|number| first + candidates.get(number));
        // A switch detects failures of its own links only.
        let mut each = each.filter(|port| !self.ports[*port as usize].down);
        let chosen = match routing {
            Routing::Adaptive => each.min_by_key(|port| self.ports[*port as usize].backlog_ps(now)),
            _ => each.next(),
        };
        chosen.unwrap_or(first_choice)
    }

    /// Chooses the intermediate switch of a packet. The source's switch decides, and the packet
    /// drops the choice on reaching the intermediate switch.
    fn choose_via(&mut self, now: u64, node: u32, index: u32, salt: u32) {
        let meta = self.packets.meta[index as usize];
        let via = if meta.hops > 1 {
            if meta.via == node { NONE } else { meta.via }
        } else {
            let drawn = self.draw(node, salt);
            let network = &self.plan.scenario.network;
            let first = network.first_port[node as usize];
            let port = |via| {
                network.by_way_of(via, node, meta.destination, meta.entropy, false).get(0) + first
            };
            let backlog = |via| self.ports[port(via) as usize].backlog_ps(now);
            match network.detour(node, meta.destination, meta.entropy, drawn) {
                None => NONE,
                Some((via, ..)) if self.plan.scenario.routing == Routing::Valiant => via,
                Some((via, short, long)) => {
                    let direct = u128::from(backlog(NONE)) * u128::from(short);
                    if direct <= u128::from(backlog(via)) * u128::from(long) { NONE } else { via }
                }
            }
        };
        self.packets.meta[index as usize].via = via;
    }

    /// Draws a number for a switch. It depends only on `salt` and on how many numbers the switch
    /// has drawn.
    #[inline]
    fn draw(&mut self, node: u32, salt: u32) -> u32 {
        let count = &mut self.draws[node as usize];
        *count = count.wrapping_add(1);
        mix(salt ^ mix(*count))
    }

    /// Sends or queues a packet at a port of a switch.
    #[inline]
    fn offer(&mut self, now: u64, node: u32, port: u32, index: u32) {
        if self.serves_late(node) {
            self.serve_until(now + 1, node, port);
        }
        let here = &mut self.ports[port as usize];
        let meta = &self.packets.meta[index as usize];
        let class = meta.class;
        if here.busy_until <= now && !here.armed && !(here.paused && class != CONTROL) {
            let bytes = meta.bytes;
            self.write_hint(now, node, port, index, 0);
            return self.transmit(now, port, index, bytes);
        }
        let spec = &self.plan.scenario.queue;
        let tally = &mut self.tallies[port as usize];
        let room = match class {
            // A host outside the simulator limits its own queue.
            _ if node < self.plan.scenario.network.hosts => u32::MAX,
            CONTROL => spec.control_bytes,
            _ => self.buffers.room(spec, node),
        };
        match here.admit(&mut self.packets.meta, index, room, spec, tally) {
            Admission::Queued => {
                let meta = &self.packets.meta[index as usize];
                let counts = class != CONTROL && self.buffers.is_counted() && meta.arrived != NONE;
                if counts && self.buffers.add(spec, node, meta) {
                    let arrived = meta.arrived;
                    self.signal(now, arrived, true);
                }
                let here = &mut self.ports[port as usize];
                if !here.armed && here.has_work() {
                    here.armed = true;
                    let at = here.busy_until.max(now);
                    self.arm(at, node, port);
                }
            }
            Admission::Trimmed => self.trim(now, node, port, index),
            Admission::Dropped => {
                self.totals.dropped += 1;
                self.packets.free(index);
            }
            Admission::Displaces(lower) => {
                self.displace(now, node, port, lower);
                self.offer(now, node, port, index);
            }
        }
    }

    /// Sends the next packet of a port that has finished one.
    #[inline]
    fn serve(&mut self, now: u64, node: u32, port: u32) {
        let here = &mut self.ports[port as usize];
        here.armed = false;
        let spec = &self.plan.scenario.queue;
        let tally = &mut self.tallies[port as usize];
        let length = here.queues[1].bytes;
        let salt = port.wrapping_mul(0x85EB_CA6B) ^ self.plan.scenario.seed as u32;
        let Some(leaving) = here.next(&self.packets.meta, spec, salt, tally) else { return };
        let index = leaving.index;
        if leaving.is_marked {
            self.packets.meta[index as usize].marked = true;
        }
        if self.buffers.is_counted() {
            let meta = self.packets.meta[index as usize];
            self.uncount(now, node, &meta);
        }
        self.write_hint(now, node, port, index, length);
        self.transmit(now, port, index, leaving.bytes);
        let here = &mut self.ports[port as usize];
        if here.has_work() {
            here.armed = true;
            let at = here.busy_until;
            self.arm(at, node, port);
        }
    }

    /// Resumes a host whose wire has sent its paused data, as soon as that data has left.
    #[inline]
    fn resume_host(&mut self, now: u64, node: u32, wire: u32) {
        if node < self.plan.scenario.network.hosts && self.handed.is_none() {
            // The port may have been paused again and have sent nothing.
            let free = self.ports[wire as usize].busy_until.max(now);
            self.calendar.push(free, node, Kind::Pull, 0, 0);
        }
    }

    /// Schedules the service of a node's port at `at`.
    #[inline]
    fn arm(&mut self, at: u64, node: u32, port: u32) {
        if self.serves_late(node) {
            debug_assert_eq!(at, self.ports[port as usize].busy_until, "a port that is not paused");
            return;
        }
        let own = port - self.plan.scenario.network.first_port[node as usize];
        self.calendar.push(at, node, Kind::Serve, own, 0);
    }

    /// Records a packet that leaves by the captured port.
    #[cold]
    fn capture(&mut self, now: u64, port: u32, index: u32) {
        if let Some((tapped, most)) = self.plan.scenario.tap
            && tapped == port
            && self.captured.len() < most
        {
            let meta = &self.packets.meta[index as usize];
            let (destination, path) = (meta.destination, meta.path);
            let headers = self.packets.headers[index as usize];
            self.captured.push(Captured { at: now, destination, path, headers });
        }
    }

    /// Puts a packet onto the link, which determines its arrival time.
    #[inline]
    fn transmit(&mut self, now: u64, port: u32, index: u32, bytes: u32) {
        if self.plan.scenario.tap.is_some() {
            self.capture(now, port, index);
        }
        let here = &mut self.ports[port as usize];
        // A host's wire may still be busy with the previous packet of the same burst.
        let begins = here.busy_until.max(now);
        here.busy_until = begins + here.time(bytes);
        here.bytes += u64::from(bytes);
        here.packets += 1;
        let scenario = &self.plan.scenario;
        // Links of hosts have the first numbers. A packet is lost on its first link.
        let is_first = || port < scenario.network.first_port[scenario.network.hosts as usize];
        let unlucky = scenario.loss > 0 && is_first() && {
            let salt = port.wrapping_mul(0x9E37_79B9) ^ scenario.seed as u32;
            mix(mix(salt) ^ here.packets) < scenario.loss
        };
        if here.down || unlucky {
            self.totals.lost_on_links += 1;
            self.packets.free(index);
            return;
        }
        // A cut-through switch handles a packet as soon as its first bit arrives; a host handles it
        // when it has arrived whole.
        let cuts = scenario.cut_through && here.to >= scenario.network.hosts;
        let at = if cuts { begins } else { here.busy_until } + here.latency_ps();
        if self.outbox.len() == 1 {
            self.calendar.push(at, here.to, Kind::Arrive, u32::from(here.entry), index);
        } else {
            self.pass_on(at, port, index);
        }
    }

    /// Schedules the arrival of a packet, in another partition if that executes it.
    fn pass_on(&mut self, at: u64, port: u32, index: u32) {
        let here = &self.ports[port as usize];
        let meta = &self.packets.meta[index as usize];
        let part = match self.plan.part[here.to as usize] {
            BETWEEN => self.plan.part[meta.destination as usize],
            part => part,
        };
        if part == self.part {
            let entry = u32::from(here.entry);
            self.calendar.push(at, here.to, Kind::Arrive, entry, index);
        } else {
            let (meta, headers) = (*meta, self.packets.headers[index as usize]);
            self.outbox[usize::from(part)].push(CrossPartitionPacket { at, port, meta, headers });
            self.packets.free(index);
        }
    }
}

/// Maps a number that is spread over all 32 bits to a number below `count`.
#[inline]
fn scale(number: u32, count: u32) -> u32 {
    ((u64::from(number) * u64::from(count)) >> 32) as u32
}

mod ahead;
mod full;
mod hints;
mod hosts;
mod links;
mod ranks;
mod streams;
