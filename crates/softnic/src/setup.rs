//! Connection set-up, without sockets and clocks: what to answer, and when to ask again.
//!
//! [`client::Attempt`] asks and [`server::Listener`] answers; the messages are in
//! `fairway_engine::wire`. The listener keeps nothing for a client that has not proven its
//! address: its WELCOME carries a [`cookie`] from which the CONFIRM proves everything. A channel
//! exists from CONFIRM on at the server and from ACCEPT on at the client; ACCEPT names the
//! server's end, so that an offer costs the server nothing, can't be taken away, and tells
//! strangers neither address nor ports. CONFIRM and ACCEPT carry the public [`keys`].

pub(crate) mod client;
mod cookie;
pub(crate) mod keys;
mod ladder;
pub(crate) mod listening;
pub(crate) mod numbers;
pub(crate) mod quota;
pub(crate) mod server;
pub(crate) mod sizes;
mod terms;

use crate::sizes::HEADER_BYTES;
use fairway_engine::wire::{
    Cna, Joins, PROTOCOL_VERSION, Parameters, Ports, SETUP_LEN, Setup, SetupMessage, Versions,
};

/// A set-up message and the length of its datagram in bytes, zeros behind the message included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Padded {
    pub(crate) setup: Setup,
    pub(crate) length: usize,
}

impl Padded {
    /// As long as the longest packets with `mtu_bytes` of payload.
    pub(crate) fn to_mtu(setup: Setup, mtu_bytes: u16) -> Padded {
        Padded { setup, length: packet_length(mtu_bytes).max(SETUP_LEN) }
    }

    /// With nothing behind the message.
    pub(crate) fn short(setup: Setup) -> Padded {
        Padded { setup, length: SETUP_LEN }
    }

    /// The answer to this question: an offer is as long as the packets that it offers, and none is
    /// longer than its question.
    pub(crate) fn answered(&self, answer: Setup) -> Padded {
        match &answer.message {
            SetupMessage::Welcome(welcome) => {
                let whole = Padded::to_mtu(answer, welcome.offer.mtu_bytes);
                Padded { length: whole.length.min(self.length), ..whole }
            }
            _ => Padded::short(answer),
        }
    }
}

/// Length in bytes of the longest packets with so much payload, without headers of IP and UDP.
pub(crate) fn packet_length(mtu_bytes: u16) -> usize {
    usize::from(mtu_bytes) + HEADER_BYTES
}

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
