//! Means by which a device limits the rate of its peers, and its own, beyond congestion control.

use alloc::boxed::Box;
use fairway_policy::CreditPolicy;

/// The policy that grants credit to peers, and whether peers and this device are to slow down.
#[derive(Default)]
pub(crate) struct Backpressure {
    /// The policy that grants credit to senders; `None` grants all that is requested.
    credit: Option<Box<dyn CreditPolicy>>,
    /// Set if acknowledgements request peers to slow down.
    is_receiver_slow: bool,
    /// Set if local congestion controls treat every acknowledgement as a request to slow down.
    is_transmit_slow: bool,
}

impl Backpressure {
    pub(crate) fn set_credit(&mut self, policy: Option<Box<dyn CreditPolicy>>) {
        self.credit = policy;
    }

    /// The policy that grants credit to senders, if one is set.
    #[inline]
    pub(crate) fn credit(&self) -> Option<&dyn CreditPolicy> {
        self.credit.as_deref()
    }

    /// The policy that grants credit to senders, if one is set.
    #[inline]
    pub(crate) fn credit_mut(&mut self) -> Option<&mut Box<dyn CreditPolicy>> {
        self.credit.as_mut()
    }

    /// Sets whether acknowledgements request peers to slow down.
    pub(crate) fn set_receive(&mut self, is_slow: bool) {
        self.is_receiver_slow = is_slow;
    }

    /// True if acknowledgements request peers to slow down.
    #[inline]
    pub(crate) fn slows_peers(&self) -> bool {
        self.is_receiver_slow
    }

    /// Sets whether local congestion controls slow down regardless of the receiver's requests.
    pub(crate) fn set_transmit(&mut self, is_slow: bool) {
        self.is_transmit_slow = is_slow;
    }

    /// True if local congestion controls slow down regardless of the receiver's requests.
    #[inline]
    pub(crate) fn slows_transmission(&self) -> bool {
        self.is_transmit_slow
    }
}
