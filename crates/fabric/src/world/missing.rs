//! Memory that its owner takes away without deregistering it: what a NIC finds missing, and whose
//! operation that was.
//!
//! The engine's caller says so instead of placing or sending ([`Nic::handle_unplaced`],
//! [`Nic::handle_ungathered`]). No packet says which operation it belongs to, so the world
//! remembers where the bytes of each message begin at its sender.
//!
//! [`Nic::handle_unplaced`]: fairway_engine::Nic::handle_unplaced
//! [`Nic::handle_ungathered`]: fairway_engine::Nic::handle_ungathered

use super::World;
use crate::adversary::Fault;
use crate::finding::Finding;
use crate::node::{Late, Payload};
use crate::operation::{MessageName, Missed, Place, Start};
use fairway_device::drive::Access;
use fairway_engine::wire::{BypassOperation, Operation, Packet};
use fairway_engine::{LocalRange, Received, Transmit};
use std::collections::BTreeMap;

/// Memory that was needed was not there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Miss {
    pub(crate) node: usize,
    /// What was to be read or written.
    pub(crate) place: Place,
    pub(crate) length: u32,
    pub(crate) missed: Missed,
}

/// What the world knows of messages, for the sake of those that find their memory missing.
#[derive(Debug, Default)]
pub(crate) struct Absence {
    /// The plan takes memory away, so messages are to be remembered.
    pub(crate) is_noted: bool,
    /// What was found missing and has not been looked at.
    pub(crate) misses: Vec<Miss>,
    starts: BTreeMap<MessageName, Start>,
    /// The last message whose bytes begin there.
    latest: BTreeMap<Start, MessageName>,
    /// By node and place in its staging memory: whose payload lies there.
    aside: BTreeMap<(usize, u64), MessageName>,
}

impl Absence {
    pub(crate) fn start_of(&self, name: &MessageName) -> Option<Start> {
        self.starts.get(name).copied()
    }

    /// Has the operation not been sent again as another message?
    pub(crate) fn is_latest(&self, start: &Start, name: &MessageName) -> bool {
        self.latest.get(start) == Some(name)
    }
}

impl World {
    /// How many bytes of a range are there before the first one that was taken away; `None` if all
    /// are there.
    pub(super) fn missing_after(&self, node: usize, range: &LocalRange) -> Option<usize> {
        let key = self.memory.key(node, range.segment)?;
        let (start, length) = (range.offset as usize, range.length as usize);
        self.memory.missing_after(key, start, length, self.now)
    }

    /// Tells the NIC if the payload of a packet is missing: then nothing is sent.
    pub(super) fn is_ungathered(&mut self, node: usize, transmit: &Transmit) -> bool {
        let gather = &transmit.gather;
        if !self.absence.is_noted || gather.length == 0 {
            return false;
        }
        let Some(key) = self.memory.key(node, gather.segment) else { return false };
        let place = (key, gather.offset as usize);
        let start = self.note_start(node, transmit, place);
        if self.missing_after(node, gather).is_none() {
            return false;
        }
        let note = self.nodes[node].channels[transmit.channel.index()].as_ref();
        let reader = note.map_or((node, 0), |note| (note.peer, note.peer_incarnation));
        let missed = match (transmit.packet, start) {
            (Packet::Data(data), Some(start)) if data.operation == Operation::ReadResponse => {
                Some(Missed::Answer(reader, start))
            }
            (Packet::Data(_), Some(start)) => Some(Missed::Request(start)),
            (Packet::Datagram(datagram), _) => {
                let life = (node, self.nodes[node].incarnation);
                Some(Missed::Datagram(Start { life, jetty: datagram.jetty, place }))
            }
            _ => None,
        };
        if let Some(missed) = missed {
            let length = gather.length;
            self.absence.misses.push(Miss { node, place, length, missed });
        }
        self.adversary.count(Fault::MissingMemory);
        self.trace.line(self.now, node, || format!("  cannot gather {transmit:?}"));
        if let Some(driver) = &mut self.nodes[node].driver {
            driver.handle_ungathered(transmit);
        }
        true
    }

    fn note_start(&mut self, node: usize, transmit: &Transmit, place: Place) -> Option<Start> {
        let Packet::Data(data) = transmit.packet else { return None };
        let life = (node, self.nodes[node].incarnation);
        let (channel, message) = (transmit.route.source_tpn.value(), data.message.value());
        let name = (life.0, life.1, channel, message);
        if data.index == 0 && !self.absence.starts.contains_key(&name) {
            let start = Start { life, jetty: data.jetty, place };
            self.absence.starts.insert(name, start);
            self.absence.latest.insert(start, name);
        }
        self.absence.start_of(&name)
    }

    /// What a packet's payload is of, should its place be missing; none if that is not reported.
    pub(super) fn missed_by(&self, node: usize, received: &Received) -> Option<Missed> {
        let data = match received.packet {
            Packet::Data(data) if data.operation != Operation::ReadResponse => data,
            Packet::Data(_) => return Some(Missed::Brought),
            Packet::Bypass(bypass) => {
                let is_load = matches!(bypass.operation, BypassOperation::LoadResponse { .. });
                return is_load.then_some(Missed::Brought);
            }
            _ => return None,
        };
        let index = (received.route.destination_tpn.value() & 0xFFFF) as usize;
        let note = self.nodes[node].channels.get(index)?.as_ref()?;
        let (channel, message) = (received.route.source_tpn.value(), data.message.value());
        let name = (note.peer, note.peer_incarnation, channel, message);
        Some(Missed::Payload { name, is_from_staging: false })
    }

    /// Remembers whose payload it is that lies in the staging memory.
    pub(super) fn note_set_aside(
        &mut self,
        node: usize,
        target: &LocalRange,
        missed: Option<Missed>,
    ) {
        let key = self.memory.key(node, target.segment);
        let is_staging = key.is_some_and(|key| self.memory.pieces[key].is_staging);
        if let Some(Missed::Payload { name, .. }) = missed
            && is_staging
            && self.absence.is_noted
        {
            self.absence.aside.insert((node, target.offset), name);
        }
    }

    /// What was to be done to memory cannot be done: `there` bytes of it are there before the first
    /// one that was taken away. Tells the NIC.
    pub(super) fn unplace(
        &mut self,
        node: usize,
        late: &Late,
        there: usize,
    ) -> Result<(), Finding> {
        let target = late.target();
        let Some(key) = self.memory.key(node, target.segment) else { return Ok(()) };
        let missed = match &late.access {
            Access::Copy { from, .. } => {
                let name = self.absence.aside.get(&(node, from.offset));
                name.map(|&name| Missed::Payload { name, is_from_staging: true })
            }
            Access::Atomic(atomic) => Some(Missed::Word(atomic.operand)),
            Access::Place { .. } | Access::Store { .. } => late.missed,
        };
        self.write_part(node, late, there)?;
        let place = (key, target.offset as usize);
        if let Some(missed) = missed {
            self.absence.misses.push(Miss { node, place, length: target.length, missed });
        }
        self.adversary.count(Fault::MissingMemory);
        self.trace.line(self.now, node, || format!("  cannot place {target:?}"));
        if self.memory.pieces[key].is_own {
            // A receive or a READ may end with this, and its memory have a new use.
            self.finish_placements(node, target.segment)?;
        }
        let now = self.now;
        let Some(driver) = self.nodes[node].driver.as_mut() else { return Ok(()) };
        driver.handle_unplaced(now, late.access.token());
        self.look(node);
        self.execute(node)
    }

    /// Writes what comes before the first byte that is missing, as a copy does that faults.
    fn write_part(&mut self, node: usize, late: &Late, there: usize) -> Result<(), Finding> {
        let part = |whole: LocalRange| LocalRange { length: there as u32, ..whole };
        let access = match &late.access {
            // A store is placed as a whole or not at all.
            Access::Place { .. } if matches!(late.missed, Some(Missed::Store(_))) => return Ok(()),
            Access::Place { target, payload, token } => Access::Place {
                target: part(*target),
                payload: Payload(payload.0[..there].to_vec()),
                token: *token,
            },
            &Access::Copy { from, to, token } => {
                Access::Copy { from: part(from), to: part(to), token }
            }
            Access::Store { .. } | Access::Atomic(_) => return Ok(()),
        };
        access.carry_out(&mut self.memory.of(node))?;
        Ok(())
    }
}
