//! The simulator's links and switches without its hosts. The caller inserts frames at times that it
//! names, and the frames leave when the simulated network has carried them.
//!
//! An emulation reads no clock. A caller that passes real time is an emulator
//! ([`Emulation::next_ps`] returns when to call again); one that passes any other time is a test.

use super::packets::{NONE, PacketHeaders, PacketMeta, class_of};
use super::partition::Partition;
use super::plan::Plan;
use super::scenario::{Overflow, Scenario};
use crate::error::SimulationError;
use fairway_ub::Received;
use fairway_ub::wire::{Close, Cna, Ecn, Packet, Priority, Psn, Route, Tpn};
use std::sync::Arc;
use std::time::Duration;

/// Properties of a frame that a switch needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Sending host, from 0.
    pub from: u32,
    /// Destination host.
    pub to: u32,
    /// Value that ECMP hashes; equal for frames that must stay in order.
    pub entropy: u32,
    /// Bytes that the frame takes on a wire.
    pub bytes: u32,
    /// Class of the frame.
    pub priority: Priority,
}

/// Counts of frames since the emulation began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulationCounters {
    /// Frames that hosts have sent.
    pub sent: u64,
    /// Frames that were delivered.
    pub delivered: u64,
    /// Frames dropped because a queue was full.
    pub dropped: u64,
    /// Frames that were on a link when it failed, or were lost at random.
    pub lost: u64,
    /// Frames that a switch marked.
    pub marked: u64,
    /// Maximum length of any queue so far, in bytes.
    pub longest_queue_bytes: u32,
}

/// A simulated network that carries the caller's frames.
pub struct Emulation {
    partition: Partition,
    /// The caller's frame, for each packet index of the partition.
    frames: Vec<Vec<u8>>,
    /// Time of the last frame sent. Each frame gets a later time than the one before, so that their
    /// order is defined.
    last_ps: u64,
}

impl Emulation {
    /// Builds the network of a scenario. Its traffic and transport are ignored.
    ///
    /// # Errors
    /// If the scenario's network cannot be built or emulated.
    pub fn new(scenario: Scenario) -> Result<Emulation, SimulationError> {
        if scenario.queue.overflow == Overflow::Trim {
            return Err(SimulationError::TrimmedFrames);
        }
        super::run::check_network(&scenario.network)?;
        let scenario = Scenario {
            flows: Vec::new(),
            streams: Vec::new(),
            program: None,
            group: None,
            ..scenario
        };
        let hosts = scenario.network.hosts as usize;
        let plan = Arc::new(Plan::of_any(scenario, 1));
        let mut partition = Partition::new(&plan, 0, (0..hosts).map(|_| None).collect());
        partition.handed = Some(Vec::new());
        Ok(Emulation { partition, frames: Vec::new(), last_ps: 0 })
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.partition.plan.scenario.network.hosts
    }

    /// Latency of the shortest link.
    pub fn shortest_latency(&self) -> Duration {
        let links = &self.partition.plan.scenario.network.links;
        let shortest_ps = links.iter().map(|link| link.latency_ps).min().unwrap_or(0);
        Duration::from_nanos(shortest_ps / 1000)
    }

    /// Sends a frame from a host at `now_ps`, which must not be before the time last passed to
    /// [`Self::advance`]. A frame that cannot be sent at once waits at the host.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn send(&mut self, now_ps: u64, frame: &Frame, bytes: Vec<u8>) {
        assert!(frame.from < self.hosts() && frame.to < self.hosts(), "no such host: {frame:?}");
        let meta = PacketMeta {
            bytes: frame.bytes,
            destination: frame.to,
            entropy: frame.entropy,
            via: NONE,
            arrived: NONE,
            path: frame.entropy as u8,
            class: class_of(frame.priority),
            marked: false,
            trimmed: false,
            hops: 0,
            next: NONE,
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

    /// Bytes that a host has sent and that wait for its own wires. None of them is dropped there.
    /// While many wait, a caller should accept no more packets from the host, as a NIC would.
    pub fn backlog_bytes(&self, host: u32) -> u32 {
        let wires = self.partition.plan.scenario.network.ports_of(host);
        wires.map(|wire| self.partition.ports[wire as usize].waiting()).sum()
    }

    /// Runs the network up to `now_ps`, except for the last microsecond or less. Calls `deliver`
    /// for each frame that reaches a host, with the host, the frame, and whether it was marked.
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

    /// Returns when [`Self::advance`] should be called next; `None` if no frame is in flight.
    pub fn next_ps(&self) -> Option<u64> {
        let next = self.partition.calendar.next_window()?;
        Some((next + 1) * self.partition.plan.window_ps)
    }

    /// Returns the counts of frames.
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

    /// Returns, for each link, the two nodes it joins and the bytes and frames it has carried.
    pub fn links(&self) -> impl Iterator<Item = (u32, u32, u64, u32)> + '_ {
        let links = self.partition.plan.scenario.network.links.iter();
        links
            .zip(&self.partition.ports)
            .map(|(link, port)| (link.from, link.to, port.bytes, port.packets))
    }
}

/// Headers that take the place of an engine's packet in the simulator.
fn controller_proxy() -> Received {
    let route = Route {
        source: Cna::new(0),
        destination: Cna::new(0),
        source_tpn: Tpn::new(0),
        destination_tpn: Tpn::new(0),
        path: 0,
        priority: Priority::CONTROL,
        cci: Default::default(),
    };
    Received {
        route,
        packet: Packet::Close(Close { next: Psn::default(), answer: false }),
        payload: 0,
        ecn: Ecn::NotCapable,
        hops: 0,
    }
}

#[cfg(test)]
mod tests;
