//! Congestion controls by events: a stand-in on the data path, and the controller elsewhere.
//!
//! [`controller_proxy`] splits a congestion control in two. What stays with the channel adds what
//! it hears to slots, and answers from registers; the controller itself is run by a
//! [`CongestionProcessor`] on what has come together, in line with the data path or on another
//! thread, and writes the registers. The controller cannot tell: it hears the same calls, of more
//! bytes each.
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
//! was spent since the controller last looked is subtracted from what it allows. A window or rate
//! is as old as the last event that was dealt with.

mod controller_proxy;
mod controller_state;
mod processor;

use super::ready_queue::{EventKind, ReadyQueue};
use alloc::boxed::Box;
use alloc::sync::Arc;
use controller_state::ControllerState;
use fairway_policy::{CongestionControl, FlowId};
use fairway_wire::Instant;

pub(crate) use controller_proxy::ControllerProxy;
pub use processor::CongestionProcessor;

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

/// A controller on its way to the processor that is to run it ([`CongestionProcessor::adopt`]).
pub struct CongestionController {
    owner: FlowId,
    controller: Box<dyn CongestionControl>,
    state: Arc<ControllerState>,
    mtu: u32,
    since: Instant,
}

impl core::fmt::Debug for CongestionController {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CongestionController({} of {})", self.controller.name(), self.owner.0)
    }
}

/// Splits the congestion control of the channel with index `owner`, for packets of `mtu` bytes.
/// `ready` is that of the processor that will run the controller.
pub(crate) fn controller_proxy(
    controller: Box<dyn CongestionControl>,
    (owner, mtu): (FlowId, u32),
    ready: &Arc<ReadyQueue<CongestionKind>>,
    now: Instant,
) -> (ControllerProxy, CongestionController) {
    let state = Arc::new(ControllerState::default());
    state.publish(&*controller, true);
    let controller_proxy =
        ControllerProxy::new(&*controller, owner, state.clone(), ready.clone(), now);
    (controller_proxy, CongestionController { owner, controller, state, mtu, since: now })
}

#[cfg(test)]
mod tests;
