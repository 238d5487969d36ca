//! A node's description of itself in set-up messages.

use alloc::vec::Vec;

use fairway_wire::{Cna, Joins, PROTOCOL_VERSION, Parameters, Ports, Versions};

/// A node's description of itself, for its set-up messages.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The node's address in the packets of channels, drawn at random at every start: its
    /// incarnation.
    pub cna: Cna,
    /// The node's address in WELCOME and REJECT, drawn likewise, so that `cna` stays hidden from
    /// hosts without a channel.
    pub setup_cna: Cna,
    /// The ports of the node's sockets, by engine; for at least one engine.
    pub ports: Vec<Ports>,
    /// The largest parameters that the node supports.
    pub limits: Parameters,
}

impl Identity {
    /// The sockets for a channel that joins a group, or begins one.
    pub fn ports_for(&self, joins: Option<Joins>) -> Ports {
        self.ports[self.engine_for(joins) as usize]
    }

    /// The number of the engine that carries a channel that joins a group, or begins one.
    pub fn engine_for(&self, joins: Option<Joins>) -> u32 {
        let number = joins.map_or(0, |joins| u32::from(joins.number));
        number % self.ports.len() as u32
    }
}

/// The protocol versions that this implementation supports.
pub(super) fn versions() -> Versions {
    Versions::new(PROTOCOL_VERSION, PROTOCOL_VERSION).expect("our version is a version")
}
