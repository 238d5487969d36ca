//! Memory that its owner makes inaccessible without deregistering it: finds the accesses that fail
//! and the operations they belong to.
//!
//! The protocol's caller reports such a failure instead of placing or sending
//! ([`UbDevice::handle_unplaced`], [`UbDevice::handle_ungathered`]). No packet names its operation,
//! so the world remembers where the bytes of each message begin at its sender.
//!
//! [`UbDevice::handle_unplaced`]: fairway_ub::UbDevice::handle_unplaced
//! [`UbDevice::handle_ungathered`]: fairway_ub::UbDevice::handle_ungathered

use super::World;
use crate::adversary::Fault;
use crate::finding::Finding;
use crate::node::{Late, Payload};
use crate::operation::{MessageName, Missed, Place, Start};
use fairway_device::drive::Access;
use fairway_ub::wire::{BypassOperation, Operation, Packet};
use fairway_ub::{LocalRange, Received, Transmit};
use std::collections::BTreeMap;

/// An access that failed because memory was missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Miss {
    pub(crate) node: usize,
    /// The place that was to be read or written.
    pub(crate) place: Place,
    pub(crate) length: u32,
    pub(crate) missed: Missed,
}

/// The world's records of messages, by which failed accesses are attributed to operations.
#[derive(Debug, Default)]
pub(crate) struct Absence {
    /// True if the plan makes memory inaccessible, so that messages must be recorded.
    pub(crate) is_noted: bool,
    /// Failed accesses that have not been checked yet.
    pub(crate) misses: Vec<Miss>,
    starts: BTreeMap<MessageName, Start>,
    /// The last message whose bytes begin at each place.
    latest: BTreeMap<Start, MessageName>,
    /// By node and offset in its staging memory: the message whose payload lies there.
    aside: BTreeMap<(usize, u64), MessageName>,
}

impl Absence {
    pub(crate) fn start_of(&self, name: &MessageName) -> Option<Start> {
        self.starts.get(name).copied()
    }

    /// True if the operation has not been sent again as another message.
    pub(crate) fn is_latest(&self, start: &Start, name: &MessageName) -> bool {
        self.latest.get(start) == Some(name)
    }
}

impl World {
    /// Returns how many bytes of a range precede its first inaccessible byte; `None` if all are
    /// accessible.
    pub(super) fn missing_after(&self, node: usize, range: &LocalRange) -> Option<usize> {
        let key = self.memory.key(node, range.segment)?;
        let (start, length) = (range.offset as usize, range.length as usize);
        self.memory.missing_after(key, start, length, self.now)
    }

    /// Reports to the NIC if the payload of a packet is missing. Returns true if so, and nothing is
    /// sent then.
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
                Some(Missed::Datagram(Start { life, jetty: datagram.jetty, place, before: 0 }))
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
            let before = match data.operation {
                Operation::WritePart(part) => part.before as usize,
                _ => 0,
            };
            let start = Start { life, jetty: data.jetty, place, before };
            self.absence.starts.insert(name, start);
            self.absence.latest.insert(start, name);
        }
        self.absence.start_of(&name)
    }

    /// Returns the message of a packet's payload, for the case that its place is missing; `None` if
    /// that is not reported.
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

    /// Records whose payload is in staging memory.
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

    /// Handles an access of which only the first `there` bytes are accessible, and reports the
    /// failure to the NIC.
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
            // A receive or a READ may end now, and its memory be reused.
            self.finish_placements(node, target.segment)?;
        }
        let now = self.now;
        let Some(driver) = self.nodes[node].driver.as_mut() else { return Ok(()) };
        driver.handle_unplaced(now, late.access.token());
        self.look(node);
        self.execute(node)
    }

    /// Writes the bytes before the first inaccessible one, as a copy that faults does.
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
