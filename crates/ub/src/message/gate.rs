//! The conditions that an operation waits for before it is issued.

/// State of an operation's place in its Jetty's share, the operations that the target may have to
/// hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// The operation needs no place, or has ended.
    None,
    /// The operation waits, because all places are taken.
    Awaited,
    Taken,
}

/// The conditions that one operation waits for before it is issued. [`crate::order`] sets them.
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

    /// True if the operation waits for anything.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.awaits_reads || self.awaits_order || self.awaits_share()
    }

    /// True if the operation waits for earlier READs, GETs and atomics.
    #[inline]
    pub(crate) fn awaits_reads(&self) -> bool {
        self.awaits_reads
    }

    /// True if the operation waits for a place in the share of its Jetty.
    #[inline]
    pub(crate) fn awaits_share(&self) -> bool {
        self.share == Share::Awaited
    }

    /// Makes the operation wait for earlier READs, GETs and atomics.
    pub(crate) fn await_reads(&mut self) {
        self.awaits_reads = true;
    }

    /// Notes that the earlier READs, GETs and atomics have completed.
    pub(crate) fn note_reads_completed(&mut self) {
        self.awaits_reads = false;
    }

    /// Makes the operation wait for earlier ordered ones.
    pub(crate) fn await_order(&mut self) {
        self.awaits_order = true;
    }

    /// Notes that the earlier ordered operations are done. True if this one waited for that.
    pub(crate) fn note_order_done(&mut self) -> bool {
        core::mem::take(&mut self.awaits_order)
    }

    /// Makes the operation wait for a place in the share of its Jetty.
    pub(crate) fn await_share(&mut self) {
        self.share = Share::Awaited;
    }

    /// Gives the operation a place in the share of its Jetty.
    pub(crate) fn take_share(&mut self) {
        self.share = Share::Taken;
    }

    /// Ends the operation's place in the share. True if it had one, which is free now.
    pub(crate) fn leave_share(&mut self) -> bool {
        core::mem::replace(&mut self.share, Share::None) == Share::Taken
    }

    /// Clears all conditions when the operation ends. A place in the share stays taken.
    pub(crate) fn open(&mut self) {
        (self.awaits_reads, self.awaits_order) = (false, false);
        if self.awaits_share() {
            self.share = Share::None;
        }
    }
}
