//! Events of hosts: received packets, sent packets, completions and timers.

use super::Partition;
use crate::calendar::Kind;
use crate::calendar::NEVER;
use crate::endpoint::{Posted, SLOT_BITS};
use crate::intake::{Entrance, INTAKE_PORT};
use crate::nic::Outgoing;
use crate::packets::{CONTROL, NONE, PacketMeta, class_of};
use crate::port::{Port, mix};
use fairway_ub::LocalRange;
use fairway_ub::wire::Instant;
use std::cmp::Reverse;
use std::sync::Arc;

impl Partition {
    /// Handles a packet that has arrived at its host.
    pub(super) fn receive(&mut self, now: u64, node: u32, index: u32) {
        let meta = self.packets.meta[index as usize];
        if let Some(handed) = &mut self.handed {
            self.totals.delivered += 1;
            return handed.push((node, index, meta.marked));
        }
        if meta.trimmed {
            self.totals.delivered_trimmed += 1;
            let headers = &self.packets.headers[index as usize];
            let host = self.hosts[node as usize].as_mut().expect("a host that takes part");
            if host.on_use.is_some() {
                host.open_for(now, headers);
            }
            host.nic.receive_trimmed(Instant::from_ps(now), headers);
            self.packets.free(index);
            return self.turn(now, node);
        }
        if meta.class == CONTROL || !self.waits(now, node, index) {
            self.handle(now, node, index);
        }
    }

    /// Puts data that has arrived into its host's receive queue. False if it is handled at once.
    fn waits(&mut self, now: u64, node: u32, index: u32) -> bool {
        let host = self.hosts[node as usize].as_mut().expect("packets go to hosts that take part");
        let Some(intake) = &mut host.intake else { return false };
        match intake.offer(now, index, self.packets.meta[index as usize].bytes) {
            Entrance::Open => return false,
            Entrance::Waits(due) => {
                host.nic.set_pressure(intake.presses());
                if let Some(due) = due {
                    self.calendar.push(due, node, Kind::Serve, INTAKE_PORT, 0);
                }
            }
            Entrance::Full => {
                self.totals.dropped += 1;
                self.totals.dropped_at_hosts += 1;
                self.packets.free(index);
            }
        }
        true
    }

    /// Takes the next packet out of a host's receive queue.
    pub(super) fn serve_intake(&mut self, now: u64, node: u32) {
        let host = self.hosts[node as usize].as_mut().expect("a host that takes part");
        let Some((index, due)) = host.intake.as_mut().and_then(|intake| intake.take(now)) else {
            return;
        };
        host.nic.set_pressure(host.intake.as_ref().is_some_and(|intake| intake.presses()));
        if let Some(due) = due {
            self.calendar.push(due, node, Kind::Serve, INTAKE_PORT, 0);
        }
        self.handle(now, node, index);
    }

    /// Lets a host's NIC handle a packet.
    fn handle(&mut self, now: u64, node: u32, index: u32) {
        let meta = self.packets.meta[index as usize];
        self.totals.delivered += 1;
        let host = self.hosts[node as usize].as_mut().expect("packets go to hosts that take part");
        let headers = &mut self.packets.headers[index as usize];
        let at = Instant::from_ps(now);
        if host.on_use.is_some() {
            host.open_for(now, headers);
        }
        let placed = host.nic.receive(at, headers, &meta);
        self.packets.free(index);
        if let Some(place) = placed {
            self.place(now, node, &place);
        }
        while let Some(place) =
            self.hosts[node as usize].as_mut().and_then(|host| host.nic.next_placed(at))
        {
            self.place(now, node, &place);
        }
        if self.plan.has_ranks() {
            self.serve_ranks(now, node);
        } else if meta.class == CONTROL || self.plan.reads {
            self.complete(now, node);
        }
        self.turn(now, node);
    }

    /// Records that payload is in place.
    fn place(&mut self, now: u64, node: u32, place: &LocalRange) {
        let (offset, length) = (place.offset, place.length);
        let ranks = self.hosts[node as usize].as_mut().and_then(|host| host.ranks.as_mut());
        if let Some(ranks) = ranks {
            self.totals.placed_bytes += u64::from(length);
            return ranks.placed(now, place);
        }
        if !self.plan.scenario.streams.is_empty() {
            let host = self.hosts[node as usize].as_ref();
            if host.is_some_and(|host| host.segment != place.segment) {
                // The packet waits for its turn, and is not in place yet.
                return;
            }
            return self.place_of_stream(now, node, offset, length);
        }
        let flow = self.plan.inbound[node as usize][(offset >> SLOT_BITS) as usize];
        self.totals.placed_bytes += u64::from(length);
        if let Some(placements) = &mut self.placements {
            placements.place(&self.plan, flow, offset, length);
        }
        let state = &mut self.flows[flow as usize];
        state.remaining = state.remaining.checked_sub(length).expect("no byte comes twice");
        if state.remaining == 0 {
            state.delivered = now;
            if let Some(on_use) = self.hosts[node as usize].as_mut().and_then(|h| h.on_use.as_mut())
            {
                on_use.delivered(now, self.plan.scenario.flows[flow as usize].source);
            }
            if let Some(placements) = &self.placements {
                assert!(placements.is_whole(&self.plan, flow), "flow {flow} has holes");
            }
            self.notify_dependents(now, flow, true);
        }
    }

    /// Handles the completions of a host.
    fn complete(&mut self, now: u64, node: u32) {
        if self.serve_streams(now, node) {
            return;
        }
        let mut any = false;
        loop {
            let Some(host) = self.hosts[node as usize].as_mut() else { return };
            let Some(completion) = host.nic.poll_completion(host.queue) else { break };
            any = true;
            if let Some(on_use) = &mut host.on_use {
                let flow = &self.plan.scenario.flows[completion.0 as usize];
                on_use.completed(now, flow.destination);
            }
            self.completed(now, completion);
        }
        if any {
            self.post_ready(now, node);
        }
    }

    fn completed(&mut self, now: u64, (id, is_success): (u64, bool)) {
        let flow = id as u32;
        let state = &mut self.flows[flow as usize];
        assert!(state.completed == NEVER, "flow {flow} completes twice");
        self.totals.completed += 1;
        if !is_success {
            self.totals.failed += 1;
            return;
        }
        state.completed = now;
        self.notify_dependents(now, flow, false);
    }

    /// Notifies the flows that wait for this flow, which has ended at its source or at its
    /// destination.
    fn notify_dependents(&mut self, now: u64, flow: u32, delivered: bool) {
        let plan = Arc::clone(&self.plan);
        for &(waiting, for_delivery) in plan.dependents.get(flow as usize).into_iter().flatten() {
            if for_delivery != delivered {
                continue;
            }
            if !plan.is_local(flow, delivered, waiting) {
                self.remote_dependents.push(waiting);
            } else {
                self.waits_less(now, waiting);
            }
        }
    }

    /// Reduces by one the flows that a flow of this partition waits for. With none left, the flow
    /// begins after its source's computing time.
    pub(super) fn waits_less(&mut self, now: u64, flow: u32) {
        let state = &mut self.flows[flow as usize];
        state.waits -= 1;
        if state.waits > 0 {
            return;
        }
        let waiting = &self.plan.scenario.flows[flow as usize];
        let (source, at) = (waiting.source, now + waiting.delay_ps);
        if let Some(host) = self.hosts[source as usize].as_mut() {
            match waiting.delay_ps {
                0 => host.ready.push_back(flow),
                _ => host.later.push(Reverse((at, flow))),
            }
        }
        self.calendar.push(at, source, Kind::Post, 0, 0);
    }

    /// Schedules the next time at which a flow of a host begins.
    pub(super) fn schedule_post(&mut self, now: u64, node: u32) {
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

    /// Starts the flows of a host whose time has come.
    pub(super) fn post(&mut self, now: u64, node: u32) {
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
        while host.later.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let flow = host.later.pop().map(|Reverse((_, flow))| flow);
            host.ready.extend(flow);
        }
        if host.next_start != before {
            self.schedule_post(now, node);
        }
        self.post_ready(now, node);
        self.turn(now, node);
    }

    /// Posts the flows that are ready to the NIC.
    fn post_ready(&mut self, now: u64, node: u32) {
        loop {
            let Some(host) = self.hosts[node as usize].as_mut() else { return };
            let Some(&flow) = host.ready.front() else { return };
            if self.plan.scenario.flows[flow as usize].is_step() {
                host.ready.pop_front();
                self.step_done(now, flow);
                continue;
            }
            match host.post(now, &self.plan, flow) {
                Posted::Later => return,
                Posted::Never => {
                    self.totals.completed += 1;
                    self.totals.failed += 1;
                }
                Posted::Now => self.flows[flow as usize].started = now,
            }
            host.ready.pop_front();
        }
    }

    /// Completes a step of a host, which sends nothing.
    fn step_done(&mut self, now: u64, flow: u32) {
        let state = &mut self.flows[flow as usize];
        state.started = now - self.plan.scenario.flows[flow as usize].compute_ps();
        (state.delivered, state.completed) = (now, now);
        self.totals.completed += 1;
        self.notify_dependents(now, flow, true);
        self.notify_dependents(now, flow, false);
    }

    /// Handles a wake-up for the protocol's timers.
    pub(super) fn timer(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        if !host.wakes.take(now) {
            return;
        }
        let at = Instant::from_ps(now);
        if host.nic.poll_timeout().is_some_and(|due| at.is_at_or_after(due)) {
            host.nic.handle_timeout(at);
            if self.plan.has_ranks() {
                self.serve_ranks(now, node);
            } else {
                self.complete(now, node);
            }
        }
        self.turn(now, node);
    }

    /// Sends what a host has to send: if its wire is free, one packet leaves, or as many as the NIC
    /// takes at once.
    #[inline]
    pub(super) fn turn(&mut self, now: u64, node: u32) {
        let host = self.hosts[node as usize].as_mut().expect("a host that takes part");
        let wire = host.wire;
        if self.plan.wires > 1 {
            self.pull_all(now, node, wire);
        } else {
            self.pull(now, node, wire);
        }
        let host = self.hosts[node as usize].as_mut().expect("a host that takes part");
        if host.on_use.is_some() {
            host.rest_unused(now);
        }
        if let Some(due) = host.nic.poll_timeout() {
            // A timer that is due already fires a picosecond later, because the clock has to
            // advance.
            let due = due.as_ps().max(now + 1);
            if host.wakes.arm(due) {
                self.calendar.push(due, node, Kind::Timer, 0, 0);
            }
        }
        self.arm_streams(now, node);
    }

    /// Sends one packet by a host's free wire, or as many as the NIC takes at once.
    #[inline]
    fn pull(&mut self, now: u64, node: u32, wire: u32) {
        let port = &self.ports[wire as usize];
        if port.busy_until <= now && port.queues[1].head == NONE {
            let mut sent = 0;
            while sent < self.plan.scenario.burst && !self.is_holding(wire) {
                let host = self.hosts[node as usize].as_mut().expect("a host that takes part");
                let sent_at = Instant::from_ps(now);
                let outgoing = host.nic.poll_transmit(sent_at, &self.plan.scenario);
                let Some(outgoing) = outgoing else { break };
                self.inject(now, node, wire, &outgoing);
                sent += 1;
            }
            if sent > 0 && self.ports[wire as usize].busy_until > now {
                let free = self.ports[wire as usize].busy_until;
                self.calendar.push(free, node, Kind::Pull, 0, 0);
            }
        }
    }

    /// Sends packets of a host with several wires, each by the wire of its path, while at least one
    /// wire is free and none has too long a queue.
    fn pull_all(&mut self, now: u64, node: u32, first: u32) {
        let wires = first..first + self.plan.wires;
        while !wires.clone().any(|wire| self.is_holding(wire)) {
            let due = self.pull_due(wires.clone());
            let host = self.hosts[node as usize].as_mut().expect("a host that takes part");
            if due > now {
                if host.pull_at != due {
                    host.pull_at = due;
                    self.calendar.push(due, node, Kind::Pull, 0, 0);
                }
                return;
            }
            let outgoing = host.nic.poll_transmit(Instant::from_ps(now), &self.plan.scenario);
            let Some(outgoing) = outgoing else { return };
            let wire = self.wire_of(node, first, outgoing.destination, outgoing.path);
            self.inject(now, node, wire, &outgoing);
        }
    }

    /// Returns when at least one wire is free and no other has too long a queue.
    fn pull_due(&self, wires: std::ops::Range<u32>) -> u64 {
        let ports = &self.ports[wires.start as usize..wires.end as usize];
        let free = ports.iter().map(|port| port.busy_until).min().unwrap_or(0);
        let late = |port: &Port| port.busy_until.saturating_sub(port.time(self.plan.wire_backlog));
        ports.iter().map(late).max().unwrap_or(0).max(free)
    }

    /// Returns the wire that a packet takes. Consecutive paths use consecutive wires, starting with
    /// one that a hash of the two hosts selects, which is the same in both directions. If a wire
    /// has failed, the next one carries its paths.
    #[inline]
    pub(super) fn wire_of(&self, node: u32, first: u32, destination: u32, path: u8) -> u32 {
        let wires = self.plan.wires;
        if wires == 1 {
            return first;
        }
        let turn = mix(node ^ destination) % wires + u32::from(path);
        let each = (0..wires).map(|step| first + (turn + step) % wires);
        let up = each.clone().find(|wire| !self.ports[*wire as usize].down);
        up.unwrap_or(first + turn % wires)
    }

    /// True if data waits on a host's wire because the switch has paused it.
    #[inline]
    fn is_holding(&self, wire: u32) -> bool {
        self.ports[wire as usize].queues[1].head != NONE
    }

    #[inline]
    fn inject(&mut self, now: u64, node: u32, wire: u32, outgoing: &Outgoing) {
        let Outgoing { headers, header, payload, destination, path, priority } = *outgoing;
        let flow = mix(node ^ mix(destination).rotate_left(7));
        let meta = PacketMeta {
            bytes: header + payload + self.plan.scenario.frame_bytes,
            destination,
            entropy: mix(flow ^ u32::from(path).wrapping_mul(0x9E37_79B1)),
            via: NONE,
            arrived: NONE,
            path,
            class: class_of(priority),
            marked: false,
            trimmed: false,
            hops: 0,
            next: NONE,
        };
        let index = self.packets.take(meta, &headers);
        self.totals.sent += 1;
        let port = &mut self.ports[wire as usize];
        if port.paused && meta.class != CONTROL {
            let (spec, tally) = (&self.plan.scenario.queue, &mut self.tallies[wire as usize]);
            port.hold(&mut self.packets.meta, index, spec, tally);
        } else {
            self.transmit(now, wire, index, meta.bytes);
        }
    }
}
