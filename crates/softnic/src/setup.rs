//! Connection set-up, without sockets and clocks: what to answer, and when to ask again.
//!
//! [`client::Attempt`] asks and [`server::Listener`] answers; the messages are in
//! `fairway_engine::wire`. The listener keeps nothing for a client that has not proven its
//! address: its WELCOME carries a [`cookie`] from which the CONFIRM proves everything. A channel
//! exists from CONFIRM on at the server and from ACCEPT on at the client; ACCEPT, and not WELCOME,
//! names the server's end, so that an offer costs the server nothing and can't be taken away.

pub(crate) mod client;
mod cookie;
pub(crate) mod server;

use fairway_engine::wire::{Cna, PROTOCOL_VERSION, Parameters, Ports, Versions};

/// What a node says of itself in every message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// Its address, drawn at random at every start: its incarnation.
    pub(crate) cna: Cna,
    /// Its sockets.
    pub(crate) ports: Ports,
    /// The most it can do.
    pub(crate) limits: Parameters,
}

/// The protocol versions we speak.
pub(crate) fn versions() -> Versions {
    Versions::new(PROTOCOL_VERSION, PROTOCOL_VERSION).expect("our version is a version")
}

#[cfg(test)]
mod tests;
