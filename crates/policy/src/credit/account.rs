//! What a receiver knows about the credit of one sender, shared by the credit policies.

use super::CreditRequest;

/// Running totals of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// What it said that it wants.
    wanted: u64,
    granted: u64,
    /// Granted, and not arrived yet.
    outstanding: u64,
    /// Sent without credit, as far as that can be guessed, and not arrived yet.
    speculative: u64,
    /// It waits although it has been granted everything: it must have missed some.
    missed: bool,
}

impl Account {
    /// The sender has said what it wants. Totals never shrink, so an old word does no harm. One
    /// that had nothing to send until now sends `speculative_bytes` without credit.
    pub(super) fn announced(&mut self, credit_request: &CreditRequest, speculative_bytes: u64) {
        let grown = credit_request.total_bytes.saturating_sub(self.wanted);
        if grown > 0 && self.remaining() == 0 && !credit_request.resend {
            self.speculative = speculative_bytes;
        }
        self.wanted += grown;
        if credit_request.resend {
            // What it wants again will not arrive the first time.
            let speculative = self.speculative.min(grown);
            self.speculative -= speculative;
            self.outstanding = self.outstanding.saturating_sub(grown - speculative);
        }
        if credit_request.blocked {
            // Whatever was granted has been spent, or was lost on the way, or is on it: then it
            // counts twice, a window at most.
            self.outstanding = 0;
            self.missed = self.wanted <= self.granted;
        }
    }

    /// Bytes wanted and not granted.
    pub(super) fn owed(&self) -> u64 {
        self.wanted.saturating_sub(self.granted)
    }

    /// Bytes granted and not wanted.
    pub(super) fn ahead(&self) -> u64 {
        self.granted.saturating_sub(self.wanted)
    }

    /// Bytes granted and not arrived.
    pub(super) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Bytes that will arrive, if it gets what it wants.
    pub(super) fn remaining(&self) -> u64 {
        self.owed() + self.outstanding
    }

    /// The running total must be repeated.
    pub(super) fn has_missed(&self) -> bool {
        self.missed
    }

    /// Credit is on its way.
    pub(super) fn grant(&mut self, bytes: u32) {
        self.granted += u64::from(bytes);
        self.outstanding += u64::from(bytes);
        self.missed = false;
    }

    /// Data has arrived. How much of it was sent without credit: what a sender of credit sends at
    /// first, and all that others send.
    pub(super) fn arrived(&mut self, bytes: u32) -> u64 {
        let bytes = u64::from(bytes);
        // It sends that first.
        let speculative = self.speculative.min(bytes);
        self.speculative -= speculative;
        let settled = self.outstanding.min(bytes - speculative);
        self.outstanding -= settled;
        if self.wanted == 0 { bytes } else { speculative }
    }
}

#[cfg(test)]
mod tests;
