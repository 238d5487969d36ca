//! The simulator's links and switches without its hosts: frames of others come in at a time that
//! the caller names, and go out when the network has carried them.
//!
//! It reads no clock. A caller that passes real time is an emulator ([`Emulation::next_ps`] returns
//! when to call again); one that passes any other time is a test.

use super::packets::{NONE, PacketHeaders, PacketMeta};
use super::partition::Partition;
use super::plan::Plan;
use super::scenario::{Overflow, Scenario};
use crate::error::SimulationError;
use fairway_engine::Received;
use fairway_engine::wire::{Close, Cna, Ecn, Packet, Psn, Route, Tpn};
use std::sync::Arc;
use std::time::Duration;

/// What a switch wants to know of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The host that sends it, from 0 on.
    pub from: u32,
    /// The host it is for.
    pub to: u32,
    /// What ECMP decides by: the same for what has to stay in order.
    pub entropy: u32,
    /// Bytes that it takes of a wire.
    pub bytes: u32,
    /// It goes before data.
    pub urgent: bool,
}

/// What has become of the frames so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulationCounters {
    /// Frames that came in.
    pub sent: u64,
    /// Those that have gone out.
    pub delivered: u64,
    /// Those that found a queue full.
    pub dropped: u64,
    /// Those that were on a link that had failed, or were lost by chance.
    pub lost: u64,
    /// Those that a switch marked.
    pub marked: u64,
    /// Bytes in the longest queue there ever was.
    pub longest_queue_bytes: u32,
}

/// A network that carries frames of others.
pub struct Emulation {
    partition: Partition,
    /// By packet of the partition: the frame itself.
    frames: Vec<Vec<u8>>,
    /// When the last one came in: no two come at once, or they would have no order.
    last_ps: u64,
}

impl Emulation {
    /// A network as the scenario has it; what it says of traffic and of transport is not looked at.
    ///
    /// # Errors
    /// Says what of it cannot be.
    pub fn new(scenario: Scenario) -> Result<Emulation, SimulationError> {
        if scenario.queue.overflow == Overflow::Trim {
            return Err(SimulationError::TrimmedFrames);
        }
        super::run::check_network(&scenario.network)?;
        let scenario =
            Scenario { flows: Vec::new(), streams: Vec::new(), program: None, ..scenario };
        let hosts = scenario.network.hosts as usize;
        let plan = Arc::new(Plan::new(scenario, 1));
        let mut partition = Partition::new(&plan, 0, (0..hosts).map(|_| None).collect());
        partition.handed = Some(Vec::new());
        Ok(Emulation { partition, frames: Vec::new(), last_ps: 0 })
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.partition.plan.scenario.network.hosts
    }

    /// The latency of the shortest link.
    pub fn shortest_latency(&self) -> Duration {
        let links = &self.partition.plan.scenario.network.links;
        let shortest_ps = links.iter().map(|link| link.latency_ps).min().unwrap_or(0);
        Duration::from_nanos(shortest_ps / 1000)
    }

    /// A host sends a frame at `now_ps`, which must not be before what [`Self::advance`] was told
    /// last. What cannot be sent at once waits at the host.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn send(&mut self, now_ps: u64, frame: &Frame, bytes: Vec<u8>) {
        assert!(frame.from < self.hosts() && frame.to < self.hosts(), "no such host: {frame:?}");
        let meta = PacketMeta {
            next: NONE,
            bytes: frame.bytes,
            destination: frame.to,
            entropy: frame.entropy,
            via: NONE,
            arrived: NONE,
            path: frame.entropy as u8,
            class: u8::from(!frame.urgent),
            marked: false,
            trimmed: false,
            hops: 0,
        };
        self.last_ps = now_ps.max(self.last_ps + 1);
        let index = self.partition.take_in(
            self.last_ps,
            frame.from,
            meta,
            &PacketHeaders::Fairway(controller_proxy()),
        );
        let place = index as usize;
        if self.frames.len() <= place {
            self.frames.resize_with(place + 1, Vec::new);
        }
        self.frames[place] = bytes;
    }

    /// Bytes that a host has sent and that wait for its own wires. Nothing is dropped there: a
    /// caller should take no more packets from a host while much waits, as a NIC would.
    pub fn backlog_bytes(&self, host: u32) -> u32 {
        let wires = self.partition.plan.scenario.network.ports_of(host);
        wires.map(|wire| self.partition.ports[wire as usize].waiting()).sum()
    }

    /// Lets everything happen that happens up to `now_ps`, but for the last microsecond or less;
    /// `deliver` gets what comes to a host: the host, the frame, and whether it was marked.
    pub fn advance(&mut self, now_ps: u64, mut deliver: impl FnMut(u32, Vec<u8>, bool)) {
        let window_ps = self.partition.plan.window_ps;
        while let Some(window) = self.partition.calendar.next_window()
            && (window + 1) * window_ps <= now_ps
        {
            self.partition.run(window);
            let mut handed = self.partition.handed.take().unwrap_or_default();
            for (host, index, marked) in handed.drain(..) {
                deliver(host, std::mem::take(&mut self.frames[index as usize]), marked);
                self.partition.packets.free(index);
            }
            self.partition.handed = Some(handed);
        }
    }

    /// When [`Self::advance`] has something to do; `None` if nothing is under way.
    pub fn next_ps(&self) -> Option<u64> {
        let next = self.partition.calendar.next_window()?;
        Some((next + 1) * self.partition.plan.window_ps)
    }

    /// What has become of the frames.
    pub fn counters(&self) -> EmulationCounters {
        let totals = &self.partition.totals;
        EmulationCounters {
            sent: totals.sent,
            delivered: totals.delivered,
            dropped: totals.dropped,
            lost: totals.lost_on_links,
            marked: self.partition.tallies.iter().map(|tally| tally.marks).sum(),
            longest_queue_bytes: self
                .partition
                .tallies
                .iter()
                .map(|t| t.longest)
                .max()
                .unwrap_or(0),
        }
    }

    /// Bytes and frames that each link has carried, by the nodes it joins.
    pub fn links(&self) -> impl Iterator<Item = (u32, u32, u64, u32)> + '_ {
        let links = self.partition.plan.scenario.network.links.iter();
        links
            .zip(&self.partition.ports)
            .map(|(link, port)| (link.from, link.to, port.bytes, port.packets))
    }
}

/// Where the simulator has a packet of the engine.
fn controller_proxy() -> Received {
    let route = Route {
        source: Cna::new(0),
        destination: Cna::new(0),
        source_tpn: Tpn::new(0),
        destination_tpn: Tpn::new(0),
        path: 0,
    };
    Received {
        route,
        packet: Packet::Close(Close { next: Psn::default(), answer: false }),
        payload: 0,
        ecn: Ecn::NotCapable,
    }
}

#[cfg(test)]
mod tests;
