//! Order among the transactions of a Jetty (UB §7.3).
//!
//! Order is opted into. An operation that asks for none, on a Jetty whose operations never did,
//! touches nothing here. The others are kept by two trackers that know nothing of packet sequence
//! numbers: `initiator` holds back what has to wait before it is issued, `target` knows what has
//! been executed and defers what must not be yet.

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
