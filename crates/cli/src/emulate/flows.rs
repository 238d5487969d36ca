//! Counts the flows that hosts send to each other: the different values by which switches choose.

use std::collections::{BTreeMap, HashSet};

/// Maximum number of flows that are remembered; further ones are not counted.
const FLOWS_MAX: usize = 1 << 18;

/// The flows of all pairs of hosts so far.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// Sending host, destination, and hash of addresses, protocol and ports.
    seen: HashSet<(u32, u32, u32)>,
    /// Number of flows from one host to another.
    counts: BTreeMap<(u32, u32), u64>,
}

impl Flows {
    /// Records a packet.
    pub(super) fn note(&mut self, from: u32, to: u32, entropy: u32) {
        if self.seen.len() < FLOWS_MAX && self.seen.insert((from, to, entropy)) {
            *self.counts.entry((from, to)).or_default() += 1;
        }
    }

    /// The number of flows from one host to another, in the order of their numbers.
    pub(super) fn counts(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        self.counts.iter().map(|((from, to), count)| (*from, *to, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::Flows;

    #[test]
    fn each_flow_of_a_pair_of_hosts_counts_once() {
        let mut flows = Flows::default();
        for (from, to, entropy) in [(0, 1, 5), (0, 1, 6), (0, 1, 5), (1, 0, 5), (0, 2, 5)] {
            flows.note(from, to, entropy);
        }
        let counts: Vec<_> = flows.counts().collect();
        assert_eq!(counts, [(0, 1, 2), (0, 2, 1), (1, 0, 1)]);
    }
}
