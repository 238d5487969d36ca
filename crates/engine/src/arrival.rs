//! Messages being received that somebody has to keep count of: those of several packets, sends,
//! and notified writes.

use crate::message::Progress;
use fairway_wire::{JettyId, Msn};

/// One message on its way in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Where its first byte belongs.
    pub(crate) offset: u64,
    pub(crate) immediate: u64,
    pub(crate) segment: u32,
    /// Of a write: the registration it was checked against.
    pub(crate) segment_generation: u32,
    pub(crate) length: u32,
    /// Bytes in place.
    pub(crate) placed: u32,
    pub(crate) message: Msn,
    /// The receive it took, or `NONE`.
    pub(crate) receive: u32,
    /// Whom it is for, if it took a receive.
    pub(crate) jetty: JettyId,
    pub(crate) remote_jetty: JettyId,
    pub(crate) progress: Progress,
    pub(crate) kind: ArrivalKind,
    pub(crate) slot: u8,
    /// It is kept under `slot`; a message of one packet is not.
    pub(crate) has_slot: bool,
    /// It was refused: its packets count as arrived and go nowhere.
    pub(crate) refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrivalKind {
    Write,
    WriteImmediate,
    Send,
    SendImmediate,
}
