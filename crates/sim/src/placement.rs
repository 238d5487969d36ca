//! Checks that every byte of every message is placed exactly once, where it belongs.

use super::plan::Plan;
use crate::endpoint::SLOT_BITS;
use std::collections::BTreeMap;

/// One bit for each packet-sized piece of each flow, set when the piece is in place.
pub(crate) struct Placements {
    placed: Vec<Vec<u64>>,
}

impl Placements {
    pub(crate) fn new(plan: &Plan) -> Placements {
        let mtu = plan.scenario.mtu;
        let words = |bytes: u32| bytes.div_ceil(mtu).div_ceil(64) as usize;
        Placements {
            placed: plan.scenario.flows.iter().map(|flow| vec![0; words(flow.bytes)]).collect(),
        }
    }

    /// Records that `length` bytes were placed at `offset` of the memory of a flow's destination.
    ///
    /// # Panics
    /// If the bytes do not belong there, or were placed there before.
    pub(crate) fn place(&mut self, plan: &Plan, flow: u32, offset: u64, length: u32) {
        let mtu = plan.scenario.mtu;
        let bytes = plan.scenario.flows[flow as usize].bytes;
        let within = offset & ((1 << SLOT_BITS) - 1);
        let piece = within / u64::from(mtu);
        let expected = u64::from(bytes).saturating_sub(piece * u64::from(mtu)).min(u64::from(mtu));
        assert!(
            within.is_multiple_of(u64::from(mtu)) && u64::from(length) == expected && length > 0,
            "flow {flow}: {length} bytes at {within} of {bytes}"
        );
        let (word, bit) = ((piece / 64) as usize, piece % 64);
        let before = self.placed[flow as usize][word];
        assert!(before >> bit & 1 == 0, "flow {flow}: piece {piece} is placed twice");
        self.placed[flow as usize][word] = before | 1 << bit;
    }

    /// True if every byte of a flow is in place.
    pub(crate) fn is_whole(&self, plan: &Plan, flow: u32) -> bool {
        let bytes = plan.scenario.flows[flow as usize].bytes;
        let pieces = u64::from(bytes.div_ceil(plan.scenario.mtu));
        let placed: u32 = self.placed[flow as usize].iter().map(|word| word.count_ones()).sum();
        u64::from(placed) == pieces
    }
}

/// Bytes of a piece of memory that are in place, each once, for messages whose length is known only
/// when they are complete.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    /// The ends of ranges by their starts: no two overlap or touch.
    ranges: BTreeMap<u64, u64>,
}

impl Coverage {
    /// Records that bytes are in place.
    ///
    /// # Panics
    /// If some of them were placed before.
    pub(crate) fn place(&mut self, offset: u64, length: u32) {
        let (mut start, mut end) = (offset, offset + u64::from(length));
        if let Some((&first, &last)) = self.ranges.range(..end).next_back() {
            assert!(last <= start, "bytes from {start} to {end} and {first} to {last} overlap");
            if last == start {
                start = first;
            }
        }
        if let Some(last) = self.ranges.remove(&end) {
            end = last;
        }
        self.ranges.insert(start, end);
    }

    /// Takes the bytes of a message that is complete.
    ///
    /// # Panics
    /// If some of them are not in place.
    pub(crate) fn take(&mut self, offset: u64, length: u32) {
        if length == 0 {
            return;
        }
        let (from, to) = (offset, offset + u64::from(length));
        let around = self.ranges.range(..=from).next_back().map(|(start, end)| (*start, *end));
        let Some((start, end)) = around.filter(|(_, end)| *end >= to) else {
            panic!("of {length} bytes at {offset}, some are missing: {around:?}");
        };
        self.ranges.remove(&start);
        if start < from {
            self.ranges.insert(start, from);
        }
        if to < end {
            self.ranges.insert(to, end);
        }
    }

    /// True if some of these bytes are in place.
    pub(crate) fn has_some(&self, offset: u64, length: u32) -> bool {
        let end = offset + u64::from(length);
        self.ranges.range(..end).next_back().is_some_and(|(_, last)| *last > offset)
    }

    /// True if no byte is in place.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Coverage;

    #[test]
    fn bytes_in_any_order_make_a_message() {
        let mut coverage = Coverage::default();
        for (offset, length) in [(20, 10), (0, 10), (40, 5), (10, 10), (30, 10)] {
            assert!(!coverage.has_some(offset, length));
            coverage.place(offset, length);
            assert!(coverage.has_some(offset, length));
        }
        coverage.take(10, 20);
        assert!(!coverage.has_some(10, 20) && coverage.has_some(0, 11));
        coverage.take(0, 10);
        coverage.take(30, 15);
        assert!(coverage.is_empty());
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn a_byte_that_is_placed_twice_is_found() {
        let mut coverage = Coverage::default();
        coverage.place(0, 10);
        coverage.place(9, 2);
    }

    #[test]
    #[should_panic(expected = "some are missing")]
    fn a_message_with_a_hole_is_found() {
        let mut coverage = Coverage::default();
        coverage.place(0, 10);
        coverage.place(11, 10);
        coverage.take(0, 21);
    }
}
