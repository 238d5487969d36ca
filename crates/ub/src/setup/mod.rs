//! Connection set-up, as state machines: a server's answers, and a client's requests and retries.
//!
//! **What it is.** [`Attempt`] requests a channel and [`Listener`] answers; the messages are in
//! `wire`. The listener keeps nothing for a client that has not proven its address: its WELCOME
//! carries a cookie from which the CONFIRM proves everything. A channel exists from CONFIRM on at
//! the server and from ACCEPT on at the client. ACCEPT names the server's end, so that an offer
//! costs the server nothing, needs no withdrawal, and reveals neither address nor ports to hosts
//! that have not proven theirs.
//!
//! **What the caller provides.** The time, random numbers (nonces, first PSNs, the listener's
//! secret) and cryptography: CONFIRM and ACCEPT carry a public key each, which the caller passes
//! in, and [`Terms`] are what both sides know of a channel. The caller derives the key of the
//! channel's header checks from its secret key, the peer's public key and [`Terms::bytes`].
//! Sockets, routes and quotas are the caller's too.
//!
//! **Files.** `client` has the client's side, `server` the server's, `cookie` the proof of an
//! address, `ladder` the search for the longest packets, `probe` the test of further ports for
//! them, `lengths` the lengths of packets, `members` the channels of a group, `established` the
//! result for an open channel.

mod client;
mod cookie;
mod established;
mod identity;
mod ladder;
mod lengths;
mod members;
mod padded;
mod probe;
mod server;
mod terms;

pub use client::{Attempt, OpenRequest, Outcome};
pub use established::Established;
pub use identity::Identity;
pub use lengths::{MTU_MAX, payload_mtu};
pub use members::Members;
pub use padded::Padded;
pub use probe::{LengthProbe, ProbeOutcome};
pub use server::{Listener, Opening, Reaction};
pub use terms::{End, Terms};

#[cfg(test)]
mod tests;
