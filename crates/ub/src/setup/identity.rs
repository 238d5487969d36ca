//! What a node says of itself.

use alloc::vec::Vec;

use fairway_wire::{Cna, Joins, PROTOCOL_VERSION, Parameters, Ports, Versions};

/// What a node says of itself in every message.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its address in the packets of channels, drawn at random at every start: its incarnation.
    pub cna: Cna,
    /// Its address in WELCOME and REJECT, drawn likewise: strangers learn nothing of `cna` from it.
    pub asked_as: Cna,
    /// Its sockets, by engine; of at least one.
    pub ports: Vec<Ports>,
    /// The most it can do.
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

/// The protocol versions that this implementation speaks.
pub(super) fn versions() -> Versions {
    Versions::new(PROTOCOL_VERSION, PROTOCOL_VERSION).expect("our version is a version")
}
