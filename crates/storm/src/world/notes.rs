//! The world's records of packets, and the changes of memory before a packet is checked.

use super::{HISTORY, StoreName, World};
use crate::adversary::Fault;
use crate::finding::Finding;
use crate::node::{ChannelNote, Outcome, Payload};
use fairway_ub::wire::{BypassOperation, CREDIT_MAX, Cna, Credit, Packet, Priority, Psn, Route};
use fairway_ub::{ChannelId, DropReason, Received, Transmit};
use std::collections::BTreeSet;

/// Distance behind the highest number up to which the protocol recognises copies of datagrams
/// (`channel::replay`).
const LATE: u64 = 2048;

impl World {
    /// Returns the sequence number of the last data packet received on a channel.
    pub(crate) fn last_psn(&self, node: usize, channel: ChannelId) -> Option<Psn> {
        let note = self.nodes[node].channels[channel.index()].as_ref()?;
        match note.last_data?.packet {
            Packet::Data(data) if note.id == channel => Some(data.psn),
            _ => None,
        }
    }

    /// Returns a random earlier packet and its destination.
    pub(crate) fn remembered(&mut self) -> Option<(usize, Vec<u8>)> {
        if self.history.is_empty() {
            return None;
        }
        let at = self.random.below(self.history.len() as u64) as usize;
        Some(self.history[at].clone())
    }

    pub(super) fn store_name(
        &self,
        target: usize,
        route: &Route,
        packet: &Packet,
    ) -> Option<StoreName> {
        let Packet::Bypass(bypass) = packet else { return None };
        let is_store = matches!(bypass.operation, BypassOperation::Store { .. });
        let life = self.nodes[target].incarnation;
        is_store.then_some((target, life, route.destination_tpn.value(), bypass.number))
    }

    /// Records that a channel has received a packet of its peer.
    pub(super) fn note_heard(&mut self, node: usize, route: &Route) -> Option<&mut ChannelNote> {
        let index = (route.destination_tpn.value() & 0xFFFF) as usize;
        let note = self.nodes[node].channels.get_mut(index)?.as_mut()?;
        note.last_received_at = self.now;
        Some(note)
    }

    /// Records what the kernel and the oracles need of a packet.
    pub(super) fn note(
        &mut self,
        node: usize,
        received: &Received,
        outcome: &Outcome,
    ) -> Result<(), Finding> {
        use DropReason::{BadClose, BadPath, Duplicate, NoChannel, Retired, StaleIncarnation};
        let refused = matches!(
            outcome,
            Outcome::Dropped(NoChannel | StaleIncarnation | BadPath | BadClose | Retired)
        );
        if refused {
            return Ok(());
        }
        let Some(note) = self.note_heard(node, &received.route) else { return Ok(()) };
        if let Packet::Data(_) = received.packet {
            note.cci = note.cci.worst(received.route.cci);
        }
        let (psn, is_void) = match received.packet {
            Packet::Data(data) => (data.psn.value(), false),
            Packet::Void(void) => (void.psn.value(), true),
            Packet::Datagram(datagram) => {
                return note_datagram(&mut note.datagrams, datagram.number, outcome)
                    .map_err(|fault| format!("node {node}: {fault}: {received:?}").into());
            }
            _ => return Ok(()),
        };
        if !is_void {
            note.last_data = Some(*received);
        }
        match outcome {
            Outcome::Dropped(Duplicate) if !note.taken.contains(&psn) => {
                Err(format!("node {node} calls {received:?} a duplicate, which it has never taken")
                    .into())
            }
            Outcome::Dropped(_) => Ok(()),
            // A void may also confirm that its sender has received a refusal.
            _ if note.taken.insert(psn) || is_void => Ok(()),
            _ => Err(format!("node {node} takes {received:?} a second time").into()),
        }
    }

    /// Checks the congestion information of a packet that a node sends. Senders leave the field to
    /// switches. An acknowledgement reports the worst that switches have written into the data
    /// packets which its sender has received since its last one, and nothing else.
    pub(super) fn check_cci(&mut self, node: usize, transmit: &Transmit) -> Result<(), Finding> {
        if transmit.route.cci.is_written() {
            return Err(format!("node {node} writes what switches are to: {transmit:?}").into());
        }
        let Packet::Ack(ack) = &transmit.packet else { return Ok(()) };
        let note = self.nodes[node].channels[transmit.channel.index()].as_mut();
        let Some(note) = note.filter(|note| note.id == transmit.channel) else { return Ok(()) };
        let told = std::mem::take(&mut note.cci);
        if ack.cci != told {
            return Err(format!(
                "node {node} reports {:?} where switches have told it {told:?}: {transmit:?}",
                ack.cci
            )
            .into());
        }
        Ok(())
    }

    /// Sends packets of an unknown sender, which has all numbers of the channel except its peer's
    /// node address, with the next sequence numbers and other bytes. None of them may be accepted.
    pub(super) fn intrude(&mut self, node: usize, received: &Received) -> Result<(), Finding> {
        if !matches!(received.packet, Packet::Data(_)) || !self.random.chance(self.config.intrusion)
        {
            return Ok(());
        }
        let index = (received.route.destination_tpn.value() & 0xFFFF) as usize;
        let note = self.nodes[node].channels.get(index).and_then(Option::as_ref);
        let last = note.and_then(|note| note.last_data);
        let own = self.random.chance(500);
        let Some(mut forged) = (if own { Some(*received) } else { last }) else { return Ok(()) };
        let ahead = self.random.range(0, u64::from(self.config.intrusion_ahead)) as u32;
        if let Packet::Data(data) = &mut forged.packet {
            data.psn = data.psn.plus(ahead);
            data.index = data.index.saturating_add(ahead);
        }
        forged.route.source =
            Cna::new(forged.route.source.value() ^ self.random.range(1, 255) as u32);
        let now = self.now;
        let Some(driver) = &mut self.nodes[node].driver else { return Ok(()) };
        self.adversary.count(Fault::Intrusion);
        if !self.config.spends_credit {
            // Grants credit to a sender that has requested none, which must have no effect.
            let total_bytes = CREDIT_MAX - u64::from(ahead);
            let credit = Credit { total_bytes, class: Priority::DATA };
            let packet = Packet::Credit(credit);
            let granted = Received { packet, payload: 0, ..*received };
            let outcome = driver.handle_packet(now, &granted, || Payload(Vec::new()));
            if !matches!(outcome, Outcome::Dropped(_)) {
                return Err(format!("node {node} takes {granted:?} unasked").into());
            }
        }
        match driver.handle_packet(now, &forged, || Payload(Vec::new())) {
            Outcome::Dropped(_) => Ok(()),
            outcome => {
                Err(format!("node {node} takes what a stranger sent: {forged:?}: {outcome:?}")
                    .into())
            }
        }
    }

    pub(super) fn remember(&mut self, node: usize, bytes: Vec<u8>) {
        if self.history.len() < HISTORY {
            self.history.push((node, bytes));
        } else {
            let at = self.random.below(HISTORY as u64) as usize;
            self.history[at] = (node, bytes);
        }
    }

    /// Records the source bytes of a store, however often it is sent.
    pub(super) fn note_store(
        &mut self,
        node: usize,
        (peer, life): (usize, u32),
        transmit: &Transmit,
    ) -> Result<(), Finding> {
        let Some(name) = self.store_name(peer, &transmit.route, &transmit.packet) else {
            return Ok(());
        };
        let key = self.memory.key(node, transmit.gather.segment).unwrap_or(usize::MAX);
        let ink = (key, transmit.gather.offset as usize);
        match self.stores.insert((peer, life, name.2, name.3), ink) {
            Some(other) if other != ink => {
                Err(format!("node {node} sends two stores under one number: {transmit:?}").into())
            }
            _ => Ok(()),
        }
    }
}

/// Checks the handling of a datagram: it is accepted once, and dropped as a copy only if it is one,
/// or so late that the receiver cannot detect it.
fn note_datagram(
    taken: &mut BTreeSet<u64>,
    number: u64,
    outcome: &Outcome,
) -> Result<(), &'static str> {
    let is_late = taken.last().is_some_and(|highest| highest.saturating_sub(number) >= LATE);
    match outcome {
        Outcome::Dropped(DropReason::Duplicate) if !is_late && !taken.contains(&number) => {
            Err("a datagram called a duplicate that was never taken")
        }
        Outcome::Dropped(_) => Ok(()),
        _ if taken.insert(number) => Ok(()),
        _ => Err("a datagram taken a second time"),
    }
}
