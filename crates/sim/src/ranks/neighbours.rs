//! The ranks that exchange messages with each other.

use super::Operation;
use crate::program::Program;

/// The neighbours of each rank, computed once for all hosts.
pub(crate) struct Neighbours {
    /// Index in `peers` of each rank's first neighbour, and behind the last rank the length of
    /// `peers`.
    first: Vec<u32>,
    peers: Vec<u32>,
    /// Bytes of all messages between different hosts.
    pub(crate) bytes: u64,
}

impl Neighbours {
    pub(crate) fn new(program: &Program) -> Neighbours {
        let ranks = program.motif.ranks();
        let mut new = Neighbours { first: vec![0], peers: Vec::new(), bytes: 0 };
        for rank in 0..ranks {
            let begin = new.peers.len();
            for operation in program.motif.iteration(rank) {
                let peer = match operation {
                    Operation::Expect { from, .. } => from,
                    Operation::Send { to, bytes } | Operation::Start { to, bytes } => {
                        if program.host(to) != program.host(rank) {
                            new.bytes += u64::from(bytes) * u64::from(program.motif.iterations);
                        }
                        to
                    }
                    _ => continue,
                };
                if !new.peers[begin..].contains(&peer) {
                    new.peers.push(peer);
                }
            }
            new.peers[begin..].sort_unstable();
            new.first.push(new.peers.len() as u32);
        }
        new
    }

    /// Returns the neighbours of a rank, in order.
    pub(crate) fn of(&self, rank: u32) -> &[u32] {
        let [first, end] = [0, 1].map(|next| self.first[rank as usize + next] as usize);
        &self.peers[first..end]
    }

    /// Number of neighbours of all ranks of a host together.
    pub(crate) fn links(&self, program: &Program, host: u32) -> u32 {
        let ranks = program.ranks_of(host);
        self.first[ranks.end as usize] - self.first[ranks.start as usize]
    }

    /// Returns the number of a rank's link to a peer, among those of its host.
    pub(super) fn number(&self, program: &Program, rank: u32, peer: u32) -> u32 {
        let own = self.of(rank).binary_search(&peer).expect("neighbours know each other");
        let before = program.ranks_of(program.host(rank)).start;
        self.first[rank as usize] - self.first[before as usize] + own as u32
    }
}
