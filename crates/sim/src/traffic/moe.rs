//! A mixture of experts: tokens are sent to the hosts of their experts, and results return.

use super::error::MoeError;
use super::{After, Flow, shuffled};
use fairway_device::random::Random;

/// Dispatch and combine of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moe {
    /// Tokens per host.
    pub tokens: u32,
    /// Number of experts, assigned to the hosts in turn.
    pub experts: u32,
    /// Experts per token, all different.
    pub each: u32,
    /// Share of choices, in thousandths, that follow Zipf's law (the r-th most popular expert is
    /// chosen 1/r as often as the first). The other choices are uniform.
    pub skew_permille: u32,
}

impl Default for Moe {
    fn default() -> Self {
        Moe { tokens: 128, experts: 256, each: 8, skew_permille: 0 }
    }
}

/// Maximum number of hosts. It is limited because each result waits for all tokens sent to its
/// host.
pub(super) const HOSTS_MAX: u32 = 256;

impl Moe {
    /// Every host sends each of its tokens, of `bytes`, once to each other host that has one of the
    /// token's experts. When all tokens for a host have arrived, it sends twice as many bytes back
    /// for each, because results have 16 bits and tokens 8. The seed determines which experts are
    /// popular, for all hosts alike.
    ///
    /// # Errors
    /// If there are more than 256 hosts, or more than 2 GiB for one of them.
    pub fn flows(&self, hosts: u32, bytes: u32, seed: u64) -> Result<Vec<Flow>, MoeError> {
        if hosts > HOSTS_MAX {
            return Err(MoeError::Hosts(hosts));
        }
        if u64::from(self.tokens) * u64::from(bytes) >= 1 << 30 {
            return Err(MoeError::Tokens { tokens: self.tokens, bytes });
        }
        let counts = self.counts(hosts, seed);
        let at = |from: u32, to: u32| counts[(from * hosts + to) as usize];
        let mut flows = Vec::new();
        let mut inbound = vec![Vec::new(); hosts as usize];
        for (from, to) in pairs(hosts).filter(|(from, to)| at(*from, *to) > 0) {
            inbound[to as usize].push(After { flow: flows.len() as u32, delivered: true });
            flows.push(Flow::new(from, to, at(from, to) * bytes));
        }
        for (from, to) in pairs(hosts).filter(|(from, to)| at(*to, *from) > 0) {
            let after = inbound[from as usize].clone();
            flows.push(Flow { after, ..Flow::new(from, to, 2 * at(to, from) * bytes) });
        }
        Ok(flows)
    }

    /// Counts tokens by the host that has them and the host they are sent to.
    fn counts(&self, hosts: u32, seed: u64) -> Vec<u32> {
        let mut random = Random::fork(seed, 0x006D_6F65);
        let popular = shuffled(self.experts, &mut random);
        let shares = self.shares();
        let mut counts = vec![0; (hosts * hosts) as usize];
        let mut chosen = Vec::with_capacity(self.each as usize);
        for from in 0..hosts {
            for _ in 0..self.tokens {
                chosen.clear();
                while chosen.len() < self.each as usize {
                    let rank = self.draw(&shares, &mut random);
                    let expert = popular[rank];
                    if !chosen.contains(&expert) {
                        chosen.push(expert);
                    }
                }
                let mut places: Vec<u32> = chosen.iter().map(|expert| expert % hosts).collect();
                places.sort_unstable();
                places.dedup();
                for to in places.into_iter().filter(|to| *to != from) {
                    counts[(from * hosts + to) as usize] += 1;
                }
            }
        }
        counts
    }

    /// Cumulative weights of Zipf's law, by rank.
    fn shares(&self) -> Vec<u64> {
        let mut sum = 0;
        let weights = (1..=u64::from(self.experts)).map(|rank| (1 << 32) / rank);
        weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect()
    }

    fn draw(&self, shares: &[u64], random: &mut Random) -> usize {
        if random.below(1000) >= u64::from(self.skew_permille) {
            return random.below(shares.len() as u64) as usize;
        }
        let total = shares.last().copied().unwrap_or(1);
        let drawn = random.below(total);
        shares.partition_point(|sum| *sum <= drawn)
    }
}

/// All ordered pairs of hosts; each host begins with its right neighbour.
fn pairs(hosts: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..hosts).flat_map(move |from| (1..hosts).map(move |step| (from, (from + step) % hosts)))
}
