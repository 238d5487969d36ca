//! Connection set-up, without sockets and clocks: what to answer, and when to ask again.
//!
//! [`client::Attempt`] asks and [`server::Listener`] answers; the messages are in
//! `fairway_engine::wire`. The listener keeps nothing for a client that has not proven its
//! address: its WELCOME carries a [`cookie`] from which the CONFIRM proves everything. A channel
//! exists from CONFIRM on at the server and from ACCEPT on at the client; ACCEPT names the
//! server's end, so that an offer costs the server nothing, can't be taken away, and tells strangers
//! neither address nor ports. CONFIRM and ACCEPT carry the public [`keys`].

pub(crate) mod client;
mod cookie;
pub(crate) mod keys;
pub(crate) mod listening;
pub(crate) mod numbers;
pub(crate) mod quota;
pub(crate) mod server;
pub(crate) mod sizes;

use fairway_engine::wire::{Cna, Joins, PROTOCOL_VERSION, Parameters, Ports, Versions};

/// What a node says of itself in every message.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Its address in the packets of channels, drawn at random at every start: its incarnation.
    pub(crate) cna: Cna,
    /// Its address in WELCOME and REJECT, drawn likewise: strangers learn nothing of `cna` from it.
    pub(crate) asked_as: Cna,
    /// Its sockets, by engine; of at least one.
    pub(crate) ports: Vec<Ports>,
    /// The most it can do.
    pub(crate) limits: Parameters,
}

impl Identity {
    /// The sockets for a channel that joins a group, or begins one.
    pub(crate) fn ports_for(&self, joins: Option<Joins>) -> Ports {
        self.ports[self.engine_for(joins) as usize]
    }

    /// The engine that carries it.
    pub(crate) fn engine_for(&self, joins: Option<Joins>) -> u32 {
        let number = joins.map_or(0, |joins| u32::from(joins.number));
        number % self.ports.len() as u32
    }
}

/// The protocol versions we speak.
pub(crate) fn versions() -> Versions {
    Versions::new(PROTOCOL_VERSION, PROTOCOL_VERSION).expect("our version is a version")
}

#[cfg(test)]
mod tests;
