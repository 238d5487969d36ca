//! Congestion controls by events: a stand-in on the data path, and the law elsewhere.
//!
//! [`stand_in`] splits a congestion control in two. What stays with the channel adds what it hears
//! to slots, and answers from registers; the law itself is run by a [`CongestionProcessor`] on what
//! has come together, in line with the data path or on another thread, and writes the registers.
//! The law cannot tell: it hears the same calls, of more bytes each.
//!
//! | event | comes together as |
//! |---|---|
//! | acknowledgement | bytes, packets, marks added up; the latest round trip; held back by the window at any time |
//! | loss, time-out | bytes added up, as of the oldest |
//! | spurious loss, credit, data | added up |
//! | sent | bytes added up; the latest backlog |
//! | wish: the engine asks for a demand | the latest backlog |
//!
//! What another thread has not dealt with yet is taken into account where it matters: credit that
//! was spent since the law last looked is subtracted from what it allows. A window or rate is as
//! old as the last event that was dealt with.

mod cell;
mod processor;
mod stand_in;

use super::news::{EventKind, News};
use alloc::boxed::Box;
use alloc::sync::Arc;
use cell::Cell;
use fairway_policy::{CongestionControl, FlowId};
use fairway_wire::Instant;

pub use processor::CongestionProcessor;
pub(crate) use stand_in::StandIn;

/// What a congestion control hears of, in the order in which it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CongestionKind {
    /// Packets were resent for nothing.
    Spurious,
    /// Something was acknowledged.
    Acknowledged,
    /// Later acknowledgements proved a loss.
    Lost,
    /// The timer did.
    TimedOut,
    /// Data came, for the first time …
    Data,
    /// … or again.
    DataAgain,
    /// The receiver granted credit.
    Credit,
    /// Something left.
    Sent,
    /// The engine asks what is to be asked for.
    Wish,
    /// The channel is gone.
    End,
}

impl CongestionKind {
    /// How many there are.
    pub const COUNT: usize = 10;
}

impl EventKind for CongestionKind {
    const ALL: &'static [CongestionKind] = &[
        CongestionKind::Spurious,
        CongestionKind::Acknowledged,
        CongestionKind::Lost,
        CongestionKind::TimedOut,
        CongestionKind::Data,
        CongestionKind::DataAgain,
        CongestionKind::Credit,
        CongestionKind::Sent,
        CongestionKind::Wish,
        CongestionKind::End,
    ];

    fn index(self) -> usize {
        self as usize
    }
}

/// A law on its way to the processor that is to run it ([`CongestionProcessor::adopt`]).
pub struct CongestionLaw {
    owner: FlowId,
    law: Box<dyn CongestionControl>,
    cell: Arc<Cell>,
    mtu: u32,
    since: Instant,
}

impl core::fmt::Debug for CongestionLaw {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CongestionLaw({} of {})", self.law.name(), self.owner.0)
    }
}

/// Splits the congestion control of the channel with index `owner`, for packets of `mtu` bytes.
/// `news` is that of the processor that will run the law.
pub(crate) fn stand_in(
    law: Box<dyn CongestionControl>,
    (owner, mtu): (FlowId, u32),
    news: &Arc<News<CongestionKind>>,
    now: Instant,
) -> (StandIn, CongestionLaw) {
    let cell = Arc::new(Cell::default());
    cell.publish(&*law, true);
    let stand_in = StandIn::new(&*law, owner, cell.clone(), news.clone(), now);
    (stand_in, CongestionLaw { owner, law, cell, mtu, since: now })
}

#[cfg(test)]
mod tests;
