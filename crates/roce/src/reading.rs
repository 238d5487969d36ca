//! Tracks the memory that unanswered READs read: no operation posted after a READ may change it
//! before the answer has arrived.
//!
//! A READ whose answer is lost is executed again. It would then return the bytes of a later moment,
//! if a WRITE or atomic that was posted after it had been executed meanwhile. InfiniBand leaves
//! this to the program, which may fence the later operation (10.8.3.3). Networks of RNICs lose next
//! to nothing, so programs do not fence; here packets are lost. A requester therefore withholds an
//! operation, and everything behind it, while it overlaps an unanswered READ: like a fence, but
//! only where there is an overlap. Programs that allow any order
//! ([`Rights::RELAXED`](fairway_device::Rights::RELAXED) of the queue pair) never wait.

use super::api::Work;
use super::work::Send;
use alloc::vec::Vec;
use fairway_device::pool::Index;

/// Remote addresses from `start` up to `end`, which the send with this index reads.
#[derive(Clone, Copy, Debug)]
struct Range {
    send: Index<Send>,
    start: u64,
    end: u64,
}

/// The remote ranges of a queue pair's READs that were sent and are not answered, in the order of
/// sending.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    ranges: Vec<Range>,
}

impl Readings {
    /// Allocates room for `depth` READs.
    pub(crate) fn reserve(&mut self, depth: u8) {
        self.ranges.reserve_exact(usize::from(depth).saturating_sub(self.ranges.len()));
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Records the range of a send that leaves, unless it is a further request of the same READ.
    pub(crate) fn sent(&mut self, index: Index<Send>, send: &Send) {
        let is_known = self.ranges.last().is_some_and(|range| range.send == index);
        if let Work::Read { remote } = send.work
            && send.length > 0
            && !is_known
        {
            let end = remote.address.saturating_add(u64::from(send.length));
            self.ranges.push(Range { send: index, start: remote.address, end });
        }
    }

    /// Removes the range of a send that has been answered completely.
    pub(crate) fn answered(&mut self, index: Index<Send>) {
        if self.ranges.first().is_some_and(|range| range.send == index) {
            self.ranges.remove(0);
        }
    }

    /// True if a send changes memory that a READ reads. Only addresses are compared, because
    /// regions with different keys may share memory.
    pub(crate) fn are_changed_by(&self, send: &Send) -> bool {
        if self.ranges.is_empty() {
            return false;
        }
        let (start, length) = match send.work {
            Work::Write { remote, .. } => (remote.address, send.length),
            Work::CompareSwap { remote, .. } | Work::FetchAdd { remote, .. } => (remote.address, 8),
            Work::Send { .. } | Work::Read { .. } | Work::Datagram { .. } => return false,
        };
        let end = start.saturating_add(u64::from(length));
        self.ranges.iter().any(|range| start < range.end && range.start < end)
    }
}
