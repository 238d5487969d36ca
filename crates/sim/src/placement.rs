//! Checks that every byte of every message is placed exactly once, where it belongs.

use super::plan::{Plan, SLOT_BITS};

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
