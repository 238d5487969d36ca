//! What one source address may take of a node: set-up work by the second, and channels.
//!
//! Sources are told apart by IPv4 address, and by the first 64 bits of an IPv6 address, because
//! a host commonly has all addresses of such a network. Each source draws on a bucket that fills
//! with time. The buckets are a table of fixed size, so that a flood of sources takes no memory,
//! and are found by a hash with a secret key, so that an attacker can't choose whose bucket it
//! empties.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;

use fairway_engine::wire::{Duration, Instant};

/// Buckets of the table; sources that share one share what it holds.
const BUCKETS: usize = 1024;
/// What a full bucket holds, and what it gets in a second.
const BURST: u64 = 4096;
/// Looks at the routing table in a second. Each takes some 15 us.
const ROUTES_PER_SECOND: u64 = 1000;
/// What a question costs, and each further piece of it of so many bytes: its answer may be as long,
/// and goes to where nothing has been proven of.
const ASKING: u64 = 1;
const PIECE_BYTES: usize = 2048;
/// What it costs to open a channel: two multiplications on the curve.
pub(crate) const OPENING: u64 = 4;

/// What a question of so many bytes costs.
pub(crate) fn asking(length: usize) -> u64 {
    ASKING * (1 + length / PIECE_BYTES) as u64
}

/// What an address counts as: itself, or its IPv6 network of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source([u8; 8]);

impl Source {
    pub(crate) fn of(address: IpAddr) -> Source {
        let network = match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets()[8..].try_into(),
            IpAddr::V6(address) => address.octets()[..8].try_into(),
        };
        Source(network.unwrap_or_default())
    }
}

/// The set-up work that is left to each source.
pub(crate) struct Quota {
    hasher: RandomState,
    buckets: Box<[Bucket]>,
    /// Looks at the routing table that are left, for all sources together.
    routes: Bucket,
}

#[derive(Clone, Copy)]
struct Bucket {
    left: u64,
    at: Instant,
}

impl Quota {
    pub(crate) fn new() -> Quota {
        let bucket = |left| Bucket { left, at: Instant::ZERO };
        let buckets = vec![bucket(BURST); BUCKETS].into();
        Quota { hasher: RandomState::new(), buckets, routes: bucket(ROUTES_PER_SECOND) }
    }

    /// May the routing table be looked at for a question? Whether it may depends on no source,
    /// because a flood of questions may have a forged source each.
    pub(crate) fn take_route(&mut self, now: Instant) -> bool {
        self.routes.take(now, 1, ROUTES_PER_SECOND)
    }

    /// Takes what some work costs. False if the source has taken too much lately.
    pub(crate) fn take(&mut self, now: Instant, from: IpAddr, cost: u64) -> bool {
        let hash = self.hasher.hash_one(Source::of(from));
        self.buckets[hash as usize % BUCKETS].take(now, cost, BURST)
    }
}

impl Bucket {
    /// Takes what some work costs from a bucket that holds `most`, and gets that much in a second.
    fn take(&mut self, now: Instant, cost: u64, most: u64) -> bool {
        let earned = now.since(self.at).as_ns().saturating_mul(most) / SECOND_NS;
        if earned > 0 {
            self.left = self.left.saturating_add(earned).min(most);
            self.at = now;
        }
        let is_enough = self.left >= cost;
        self.left -= if is_enough { cost } else { 0 };
        is_enough
    }
}

const SECOND_NS: u64 = Duration::from_secs(1).as_ns();

/// Channels that one source may have of all that there are: three quarters, so that it can't keep
/// out all others.
pub(crate) fn channels_for_one(all: u32) -> u32 {
    (all - all / 4).max(1)
}

/// When no more channels than this are left, a connection that is idle is closed for each new one.
pub(crate) fn reserve(all: u32) -> u32 {
    (all / 16).max(1)
}

/// Is it an address of this host? Its users share a machine, so no quota keeps them apart.
pub(crate) fn is_own(address: IpAddr, own: impl IntoIterator<Item = IpAddr>) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || own.into_iter().any(|own| own.to_canonical() == address)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    const ONE: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1));
    const NEIGHBOUR: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 9, 9, 9, 9));

    #[test]
    fn source_gets_a_burst_and_then_what_time_brings() {
        let mut quota = Quota::new();
        let now = Instant::from_ns(5_000_000_000);
        let taken = (0..2 * BURST).filter(|_| quota.take(now, ONE, ASKING)).count() as u64;
        assert_eq!(taken, BURST);
        assert!(!quota.take(now, NEIGHBOUR, ASKING), "another address of the same network");
        let later = now + Duration::from_ms(250);
        let taken = (0..BURST).filter(|_| quota.take(later, ONE, OPENING)).count() as u64;
        assert_eq!(taken, BURST / 4 / OPENING);
        let much_later = later + Duration::from_secs(1000);
        let taken = (0..2 * BURST).filter(|_| quota.take(much_later, ONE, ASKING)).count() as u64;
        assert_eq!(taken, BURST, "what is not used is not kept for ever");
    }

    #[test]
    fn time_that_brings_less_than_one_is_not_lost() {
        let mut quota = Quota::new();
        let start = Instant::from_ns(5_000_000_000);
        while quota.take(start, ONE, ASKING) {}
        // Ten looks in the time of one piece.
        let step = SECOND_NS / BURST / 10 + 1;
        let taken = (1..=10)
            .filter(|step_number| {
                quota.take(start + Duration::from_ns(step * step_number), ONE, ASKING)
            })
            .count();
        assert_eq!(taken, 1);
    }

    #[test]
    fn routing_table_is_looked_at_a_thousand_times_a_second_at_most() {
        let mut quota = Quota::new();
        let start = Instant::from_ns(5_000_000_000);
        let step = Duration::from_us(10);
        let looks =
            (0..200_000).filter(|n| quota.take_route(start + step.times(*n))).count() as u64;
        assert!((2 * ROUTES_PER_SECOND..=3 * ROUTES_PER_SECOND).contains(&looks), "{looks} in 2 s");
    }

    #[test]
    fn source_that_takes_all_it_may_leaves_others_theirs() {
        let mut quota = Quota::new();
        let now = Instant::from_ns(5_000_000_000);
        while quota.take(now, ONE, ASKING) {}
        let others =
            (0..64).map(|net| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, net, 0, 0, 0, 1)));
        let served = others.filter(|other| quota.take(now, *other, OPENING)).count();
        assert!(served >= 60, "{served} of 64 others were served");
    }

    #[test]
    fn address_as_ipv4_and_as_mapped_ipv6_is_one_source() {
        let four: IpAddr = [192, 0, 2, 7].into();
        let mapped = IpAddr::V6(std::net::Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped());
        assert_eq!(Source::of(four), Source::of(mapped));
        assert_ne!(Source::of(four), Source::of([192, 0, 2, 8].into()));
    }

    #[test]
    fn one_source_never_gets_all_channels() {
        assert_eq!([1, 2, 4, 64, 1024].map(channels_for_one), [1, 2, 3, 48, 768]);
    }
}
