//! What an operation waits for before it is issued.

/// A place among the operations of a Jetty that the target may have to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// The operation needs none, or has ended.
    None,
    /// The Jetty has as many under way as it may.
    Awaited,
    Taken,
}

/// What one operation waits for before it is issued. [`crate::order`] decides it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    /// An earlier READ, GET or atomic has not completed.
    awaits_reads: bool,
    /// An earlier ordered operation is not done.
    awaits_order: bool,
    share: Share,
}

impl Gate {
    /// The operation waits for nothing.
    pub(super) const OPEN: Gate =
        Gate { awaits_reads: false, awaits_order: false, share: Share::None };

    /// Is there anything that the operation waits for?
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.awaits_reads || self.awaits_order || self.awaits_share()
    }

    /// Does it wait for earlier questions?
    #[inline]
    pub(crate) fn awaits_reads(&self) -> bool {
        self.awaits_reads
    }

    /// Does it wait for a place in the share of its Jetty?
    #[inline]
    pub(crate) fn awaits_share(&self) -> bool {
        self.share == Share::Awaited
    }

    /// The operation has to wait for earlier questions.
    pub(crate) fn await_reads(&mut self) {
        self.awaits_reads = true;
    }

    /// The earlier questions have completed.
    pub(crate) fn note_reads_completed(&mut self) {
        self.awaits_reads = false;
    }

    /// The operation has to wait for earlier ordered ones.
    pub(crate) fn await_order(&mut self) {
        self.awaits_order = true;
    }

    /// The earlier ordered operations are done. True if this one waited for that.
    pub(crate) fn note_order_done(&mut self) -> bool {
        core::mem::take(&mut self.awaits_order)
    }

    /// The operation has to wait for a place in the share of its Jetty.
    pub(crate) fn await_share(&mut self) {
        self.share = Share::Awaited;
    }

    /// The operation takes a place in the share of its Jetty.
    pub(crate) fn take_share(&mut self) {
        self.share = Share::Taken;
    }

    /// The operation has ended. True if it had a place in the share, which is free now.
    pub(crate) fn leave_share(&mut self) -> bool {
        core::mem::replace(&mut self.share, Share::None) == Share::Taken
    }

    /// The operation ends and waits for nothing any more. A place in the share stays taken.
    pub(crate) fn open(&mut self) {
        (self.awaits_reads, self.awaits_order) = (false, false);
        if self.awaits_share() {
            self.share = Share::None;
        }
    }
}
