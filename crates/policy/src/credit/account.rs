//! A receiver's account of the credit of one sender, shared by the credit policies.

use super::CreditRequest;

/// Running totals of one sender, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// The total that the sender has requested.
    wanted: u64,
    granted: u64,
    /// Bytes granted that have not arrived yet.
    outstanding: u64,
    /// Estimated bytes sent without credit that have not arrived yet.
    speculative: u64,
    /// True if the sender waits although it has been granted everything: it must have missed a
    /// grant.
    missed: bool,
}

impl Account {
    /// Records a credit request. Totals never shrink, so an old request does no harm. A sender that
    /// had nothing to send so far sends `speculative_bytes` without credit.
    pub(super) fn announced(&mut self, credit_request: &CreditRequest, speculative_bytes: u64) {
        let grown = credit_request.total_bytes.saturating_sub(self.wanted);
        if grown > 0 && self.remaining() == 0 && !credit_request.resend {
            self.speculative = speculative_bytes;
        }
        self.wanted += grown;
        if credit_request.resend {
            // Bytes that are requested again will not arrive the first time.
            let speculative = self.speculative.min(grown);
            self.speculative -= speculative;
            self.outstanding = self.outstanding.saturating_sub(grown - speculative);
        }
        if credit_request.blocked {
            // Everything that was granted has been spent, was lost, or is still under way. Credit
            // that is under way then counts twice, which is a window at most.
            self.outstanding = 0;
            self.missed = self.wanted <= self.granted;
        }
    }

    /// Bytes requested and not granted.
    pub(super) fn owed(&self) -> u64 {
        self.wanted.saturating_sub(self.granted)
    }

    /// Bytes granted in excess of the requests.
    pub(super) fn ahead(&self) -> u64 {
        self.granted.saturating_sub(self.wanted)
    }

    /// Bytes granted and not arrived.
    pub(super) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Bytes that will arrive if all requests are granted.
    pub(super) fn remaining(&self) -> u64 {
        self.owed() + self.outstanding
    }

    /// True if the running total must be repeated.
    pub(super) fn has_missed(&self) -> bool {
        self.missed
    }

    /// Records a grant.
    pub(super) fn grant(&mut self, bytes: u32) {
        self.granted += u64::from(bytes);
        self.outstanding += u64::from(bytes);
        self.missed = false;
    }

    /// Records data that has arrived. Returns how much of it was sent without credit: the
    /// speculative bytes of a sender that uses credit, and everything from other senders.
    pub(super) fn arrived(&mut self, bytes: u32) -> u64 {
        let bytes = u64::from(bytes);
        // Speculative bytes are sent first.
        let speculative = self.speculative.min(bytes);
        self.speculative -= speculative;
        let settled = self.outstanding.min(bytes - speculative);
        self.outstanding -= settled;
        if self.wanted == 0 { bytes } else { speculative }
    }
}

#[cfg(test)]
mod tests;
