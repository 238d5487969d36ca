//! A record of placed ranges. Every byte that an operation promises has to be among them, and no
//! placement may leave its memory (the engines' segments ensure that; the ledger checks it).

use fairway_ub::LocalRange;
use std::collections::BTreeMap;

/// Placed ranges, by host and segment: start and end, merged.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    placed: BTreeMap<(usize, usize), BTreeMap<u64, u64>>,
    /// Bytes placed, counting repeated placements.
    pub(crate) bytes: u64,
}

impl Ledger {
    /// Records placements.
    pub(crate) fn note(&mut self, host: usize, ranges: &[LocalRange]) {
        for range in ranges {
            if range.length == 0 {
                continue;
            }
            self.bytes += u64::from(range.length);
            let map = self.placed.entry((host, range.segment.index())).or_default();
            let (mut start, mut end) = (range.offset, range.offset + u64::from(range.length));
            let touching: Vec<u64> = map
                .range(..=end)
                .rev()
                .take_while(|&(_, &upto)| upto >= start)
                .map(|(&from, _)| from)
                .collect();
            for from in touching {
                let upto = map.remove(&from).expect("a range that was just seen");
                start = start.min(from);
                end = end.max(upto);
            }
            map.insert(start, end);
        }
    }

    /// Forgets the placements in a range that is about to be written again.
    pub(crate) fn forget(&mut self, host: usize, segment: usize, offset: u64, length: u32) {
        let Some(map) = self.placed.get_mut(&(host, segment)) else { return };
        let end = offset + u64::from(length);
        let overlapping: Vec<(u64, u64)> = map
            .range(..end)
            .rev()
            .take_while(|&(_, &upto)| upto > offset)
            .map(|(&from, &upto)| (from, upto))
            .collect();
        for (from, upto) in overlapping {
            map.remove(&from);
            if from < offset {
                map.insert(from, offset);
            }
            if upto > end {
                map.insert(end, upto);
            }
        }
    }

    /// True if the whole range was placed since it was last forgotten.
    pub(crate) fn holds(&self, host: usize, segment: usize, offset: u64, length: u32) -> bool {
        let Some(map) = self.placed.get(&(host, segment)) else { return length == 0 };
        let before = map.range(..=offset).next_back();
        before.is_some_and(|(_, &upto)| upto >= offset + u64::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::Ledger;
    use fairway_ub::{LocalRange, SegmentId};

    #[test]
    fn ledger_tracks_placed_bytes_one_by_one() {
        let mut ledger = Ledger::default();
        let range = |offset, length| LocalRange { segment: SegmentId::default(), offset, length };
        for (offset, length) in [(10, 10), (30, 10), (20, 10), (50, 5)] {
            ledger.note(0, &[range(offset, length)]);
        }
        assert!(ledger.holds(0, 0, 10, 30) && !ledger.holds(0, 0, 10, 31));
        assert!(!ledger.holds(0, 0, 9, 5) && !ledger.holds(1, 0, 10, 1));
        ledger.forget(0, 0, 15, 2);
        assert!(ledger.holds(0, 0, 10, 5) && ledger.holds(0, 0, 17, 23));
        assert!(!ledger.holds(0, 0, 14, 2) && !ledger.holds(0, 0, 16, 2));
        assert_eq!(ledger.bytes, 35);
    }
}
