//! The memory that READs under way are to read: nothing posted after them may change it before
//! their answers are here.
//!
//! A READ whose answer is lost is executed again. Its bytes would then be those of a later moment,
//! if a WRITE or atomic that was posted after it had been executed meanwhile. InfiniBand leaves
//! that to the program, which may fence the later operation (10.8.3.3). Networks of RNICs lose next
//! to nothing, so programs do not; here packets are lost. So a requester holds an operation back,
//! and everything behind it, while it overlaps a READ that is not answered: as a fence does, but
//! only where there is an overlap. Programs that allow any order
//! ([`Rights::RELAXED`](fairway_device::Rights::RELAXED) of the queue pair) wait for nothing.

use super::api::Work;
use super::work::Send;
use alloc::vec::Vec;
use fairway_device::pool::Index;

/// Remote addresses from `start` up to `end`, which the send of this index reads.
#[derive(Clone, Copy, Debug)]
struct Range {
    send: Index<Send>,
    start: u64,
    end: u64,
}

/// What the READs of a queue pair that were sent and are not answered read, in the order they were
/// sent.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    ranges: Vec<Range>,
}

impl Readings {
    /// Takes room for `depth` READs.
    pub(crate) fn reserve(&mut self, depth: u8) {
        self.ranges.reserve_exact(usize::from(depth).saturating_sub(self.ranges.len()));
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// A send leaves, or the next request of a READ that takes several.
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

    /// The whole answer to a send has come.
    pub(crate) fn answered(&mut self, index: Index<Send>) {
        if self.ranges.first().is_some_and(|range| range.send == index) {
            self.ranges.remove(0);
        }
    }

    /// True if a send changes memory that a READ is to read. Addresses alone count: regions with
    /// different keys may share memory.
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
