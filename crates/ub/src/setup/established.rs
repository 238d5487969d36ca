//! The result of set-up: one end of an open channel.

use fairway_policy::PolicySet;
use fairway_wire::{
    BYPASS, CARRIED_ACKS, Cna, Endpoint, Msn, PARTS, Parameters, Psn, RETIRE, UNRELIABLE,
};

use crate::api::ChannelConfig;

/// One end of a channel that set-up has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Established {
    /// The peer's node address, which names its incarnation.
    pub remote: Cna,
    /// The peer's end of the channel.
    pub endpoint: Endpoint,
    /// The first PSN that this side sends.
    pub first_psn: Psn,
    /// The parameters on which both sides agreed.
    pub agreed: Parameters,
}

impl Established {
    /// The configuration for [`UbDevice::open_channel`](crate::UbDevice::open_channel) of a channel
    /// that begins a group, whose first message has number 0, and which the first engine carries.
    pub fn config(&self, policy: PolicySet) -> ChannelConfig {
        let Established { remote, endpoint, first_psn, agreed } = self;
        ChannelConfig {
            leader: None,
            engine: 0,
            remote: *remote,
            remote_tpn: endpoint.tpn,
            first_psn: *first_psn,
            remote_first_psn: endpoint.initial_psn,
            first_message: Msn::new(0),
            unreliable: agreed.capabilities & UNRELIABLE != 0,
            bypass: agreed.capabilities & BYPASS != 0,
            parts: agreed.capabilities & PARTS != 0,
            retires: agreed.capabilities & RETIRE != 0,
            carried_acks: agreed.capabilities & CARRIED_ACKS != 0,
            mtu: u32::from(agreed.mtu_bytes),
            paths: u32::from(agreed.paths),
            remote_window: u32::from(agreed.window_packets),
            remote_message_slots: u32::from(agreed.message_slots),
            remote_read_slots: u32::from(agreed.read_slots),
            policy,
        }
    }
}
