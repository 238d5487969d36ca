//! Scatter/gather lists: up to six ranges of local segments that form one string of bytes.

use crate::values::{LocalRange, SegmentId};

/// Maximum number of ranges in a list.
pub const SGE_MAX: usize = 6;

/// A string of bytes in up to [`SGE_MAX`] ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScatterList {
    ranges: [LocalRange; SGE_MAX],
    count: u8,
}

impl ScatterList {
    /// The list without bytes.
    pub const EMPTY: ScatterList = ScatterList {
        ranges: [LocalRange { segment: SegmentId::new(0), offset: 0, length: 0 }; SGE_MAX],
        count: 0,
    };

    /// Returns the list of `ranges`; `None` if there are more than [`SGE_MAX`], or their total
    /// length is 2^32 bytes or more.
    pub fn new(ranges: &[LocalRange]) -> Option<ScatterList> {
        let mut list = ScatterList::EMPTY;
        list.ranges.get_mut(..ranges.len())?.copy_from_slice(ranges);
        list.count = ranges.len() as u8;
        let total: u64 = ranges.iter().map(|range| u64::from(range.length)).sum();
        (total <= u64::from(u32::MAX)).then_some(list)
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> &[LocalRange] {
        &self.ranges[..usize::from(self.count)]
    }

    /// Total length, in bytes.
    pub fn length(&self) -> u32 {
        self.ranges().iter().map(|range| range.length).sum()
    }

    /// Returns the `length` bytes after the first `from`, or as many of them as exist.
    pub fn slice(&self, mut from: u32, mut length: u32) -> ScatterList {
        let mut slice = ScatterList::EMPTY;
        for range in self.ranges() {
            if from >= range.length {
                from -= range.length;
                continue;
            }
            let taken = length.min(range.length - from);
            if taken == 0 {
                break;
            }
            let offset = range.offset + u64::from(from);
            slice.ranges[usize::from(slice.count)] = LocalRange { offset, length: taken, ..*range };
            slice.count += 1;
            (from, length) = (0, length - taken);
        }
        slice
    }
}

impl From<LocalRange> for ScatterList {
    fn from(range: LocalRange) -> ScatterList {
        let mut list = ScatterList::EMPTY;
        list.ranges[0] = range;
        list.count = 1;
        list
    }
}
