//! The live node's part of connection set-up, whose state machines are in `fairway_ub::setup`:
//! secret [`keys`], secret channel [`numbers`], sockets that send requests by other ways
//! ([`listening`]) and with long packets ([`sizes`]), and [`quota`]s of sources.

pub(crate) mod guesses;
pub(crate) mod keys;
pub(crate) mod listening;
pub(crate) mod numbers;
pub(crate) mod quota;
pub(crate) mod shortened;
pub(crate) mod sizes;

pub(crate) use fairway_ub::setup::{Identity, Padded};
