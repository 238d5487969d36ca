//! Channels that rest, and are opened again before they are used.

use super::World;
use crate::adversary::Fault;
use crate::node::Terms;
use fairway_ub::wire::{Route, Tpn};
use fairway_ub::{ChannelConfig, ChannelId};

impl World {
    /// Lets a channel rest, if nothing is under way on it. `sends_again`: operations may be posted
    /// to it later.
    pub(crate) fn rest(&mut self, node: usize, channel: ChannelId, sends_again: bool) {
        let Some(nic) = self.nic(node) else { return };
        if nic.rest_channel(channel, sends_again) {
            self.adversary.count(Fault::Rest);
            self.trace.line(self.now, node, || format!("lets {channel:?} rest"));
        }
    }

    /// Opens a channel again if it rests.
    pub(crate) fn awaken(&mut self, node: usize, channel: ChannelId) {
        self.awaken_number(node, channel.tpn());
    }

    /// Opens the channel again that a packet is for, if it rests.
    pub(super) fn awaken_for(&mut self, node: usize, route: &Route) {
        self.awaken_number(node, route.destination_tpn);
    }

    fn awaken_number(&mut self, node: usize, number: Tpn) {
        let now = self.now;
        let Some(nic) = self.nodes[node].nic() else { return };
        let Some(channel) = nic.unopened(number).filter(|channel| nic.is_resting(*channel)) else {
            return;
        };
        let note = self.nodes[node].channels[channel.index()].as_mut();
        let note = note.expect("a channel that the world knows");
        note.awake_since = now;
        let config = note.terms.config();
        self.trace.line(now, node, || format!("awakens {channel:?}"));
        let nic = self.nic(node).expect("it is there");
        nic.resume_channel(now, channel, config).expect("a channel that rests");
        self.schedule_poll(node);
    }

    /// Opens all resting channels again.
    pub(crate) fn awaken_all(&mut self) {
        for node in 0..self.nodes.len() {
            let notes = self.nodes[node].channels.iter().flatten();
            let all: Vec<ChannelId> = notes.map(|note| note.id).collect();
            for channel in all {
                self.awaken(node, channel);
            }
        }
    }
}

impl Terms {
    /// The configuration of a channel with these terms.
    pub(crate) fn config(&self) -> ChannelConfig {
        ChannelConfig {
            leader: self.leader,
            engine: self.engine,
            remote: self.remote,
            remote_tpn: self.remote_tpn,
            first_psn: self.first_psn,
            remote_first_psn: self.remote_first_psn,
            first_message: self.first_message,
            unreliable: true,
            bypass: true,
            parts: true,
            retires: self.retires,
            carried_acks: self.carried_acks,
            mtu: self.mtu,
            paths: self.paths,
            remote_window: self.remote_window,
            remote_message_slots: self.remote_message_slots,
            remote_read_slots: self.remote_read_slots,
            policy: self.policy.build(self.mtu),
        }
    }
}
