//! Order among the transactions of a Jetty (UB §7.3).
//!
//! Order is opt-in. An operation that requires none, on a Jetty whose operations never did, uses
//! nothing of this module. The others are kept by two trackers that are independent of packet
//! sequence numbers: `initiator` holds back operations that have to wait before they are issued,
//! `target` records which operations have been executed and defers those that must not be executed
//! yet.

mod initiator;
mod keyed;
mod reserved;
mod target;
mod trackers;

pub(crate) use initiator::{Answering, Incomplete, Initiator, JettyOrder, Sequences};
pub(crate) use keyed::{Key, Keyed, KeyedIndex};
pub(crate) use reserved::is_after;
pub(crate) use target::{SequenceStatus, Tracker};
pub(crate) use trackers::Trackers;
