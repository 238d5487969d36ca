//! Congestion controls driven by events: a proxy on the data path, and the controller elsewhere.
//!
//! [`controller_proxy`] splits a congestion control in two. The proxy stays with the channel: it
//! adds events to slots and answers from registers. The controller is run by a
//! [`CongestionProcessor`] on the accumulated events, in line with the data path or on another
//! thread, and writes the registers. The controller receives the same calls as without a proxy,
//! each for more bytes.
//!
//! | event | accumulated as |
//! |---|---|
//! | acknowledgement | bytes, packets, marks added up; the latest round trip; whether the window limited the sender at any time |
//! | loss, time-out | bytes added up; the time of the oldest |
//! | spurious loss, credit, data | added up |
//! | sent | bytes added up; the latest backlog |
//! | request: the data path requires a credit request | the latest backlog |
//!
//! Events that another thread has not processed yet are taken into account where it matters: credit
//! spent since the controller last ran is subtracted from its allowance. A window or rate is as old
//! as the last processed event.

mod controller_proxy;
mod controller_state;
mod processor;

use super::{EventKind, ReadyQueue};
use alloc::boxed::Box;
use alloc::sync::Arc;
use controller_state::ControllerState;
use fairway_policy::{CongestionControl, FlowId};
use fairway_wire::Instant;

pub(crate) use controller_proxy::ControllerProxy;
pub use processor::CongestionProcessor;

/// Kinds of events for a congestion control, in the order in which pending ones are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CongestionKind {
    /// Packets were resent for nothing.
    Spurious,
    /// Something was acknowledged.
    Acknowledged,
    /// Later acknowledgements proved a loss.
    Lost,
    /// The retransmission timer expired.
    TimedOut,
    /// Data was received for the first time.
    Data,
    /// Data was received again.
    DataAgain,
    /// The receiver granted credit.
    Credit,
    /// Bytes were sent.
    Sent,
    /// The data path requires a new credit request.
    Request,
    /// The channel has ended.
    End,
}

impl CongestionKind {
    /// Number of kinds.
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
        CongestionKind::Request,
        CongestionKind::End,
    ];

    fn index(self) -> usize {
        self as usize
    }
}

/// A controller to be handed to the processor that will run it ([`CongestionProcessor::adopt`]).
pub struct CongestionController {
    owner: FlowId,
    controller: Box<dyn CongestionControl>,
    state: Arc<ControllerState>,
    mtu: u32,
    since: Instant,
}

impl CongestionController {
    /// Index of the channel, by which it is steered to a processor.
    pub fn channel(&self) -> u32 {
        self.owner.0
    }
}

impl core::fmt::Debug for CongestionController {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CongestionController({} of {})", self.controller.name(), self.owner.0)
    }
}

/// Splits the congestion control of the channel with index `owner`, for packets of `mtu` bytes.
/// `ready` is the queue of the processor that will run the controller.
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
