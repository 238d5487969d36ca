//! Answers to loads and stores, in a pool that all channels share.

use crate::api::LocalRange;
use crate::names::ChannelIndex;
use crate::pool::Index;
use fairway_wire::{JettyId, Refusal};

/// An answer that waits to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) number: u32,
    pub(crate) jetty: JettyId,
    pub(crate) is_load: bool,
    pub(crate) refusal: Option<Refusal>,
    /// The bytes that a load returns.
    pub(crate) gather: LocalRange,
    /// The answer's channel; `None` once the record is free.
    pub(crate) channel: Option<ChannelIndex>,
    pub(crate) path: u8,
    /// The next answer to be sent on the same channel.
    pub(crate) next: Option<Index<Answer>>,
}
