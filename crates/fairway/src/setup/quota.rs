//! Limits the set-up work per second and the channels that one source address may use.
//!
//! Each source ([`Source`]) has a token bucket that fills with time. The buckets are a table of a
//! fixed size, so that a flood of sources takes no memory, and are found by a hash with a secret
//! key, so that an attacker cannot choose whose bucket it empties.
//!
//! The source address of a request can be forged, so answers to addresses that have not been proven
//! are limited for all sources together, too. When few answers are left, sources that send few
//! requests have priority.
//!
//! Channels are limited by source and by network; see [`Held`].

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;

pub(crate) use fairway_device::quota::{Held, Network, Source};
use fairway_ub::wire::{Duration, Instant};

/// Number of buckets in the table. Sources that share a bucket share its tokens.
const BUCKETS: usize = 1024;
/// Tokens in a full bucket, and tokens added per second.
const BURST: u64 = 4096;
/// Maximum number of routing-table lookups per second. Each takes some 15 us.
const ROUTES_PER_SECOND: u64 = 1000;
/// Answers per second, and burst of answers, to all unproven addresses together.
const ANSWERS: u64 = 16_384;
/// A source whose bucket lacks no more tokens than this counts as sending few requests.
const MODEST: u64 = 128;
/// Cost of a request in tokens, and of each further piece of [`PIECE_BYTES`] bytes, because its
/// answer may be as long and goes to an unproven address.
const REQUEST_COST: u64 = 1;
const PIECE_BYTES: usize = 2048;
/// Cost of opening a channel, in tokens: two multiplications on the curve.
pub(crate) const OPENING: u64 = 4;

/// Cost of a request of `length` bytes, in tokens.
pub(crate) fn request_cost(length: usize) -> u64 {
    REQUEST_COST * (1 + length / PIECE_BYTES) as u64
}

/// The set-up work that each source may still request.
pub(crate) struct Quota {
    hasher: RandomState,
    buckets: Box<[Bucket]>,
    /// Routing-table lookups that are left, for all sources together.
    routes: Bucket,
    /// Answers that are left for all unproven addresses together.
    answers: Bucket,
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
        let (routes, answers) = (bucket(ROUTES_PER_SECOND), bucket(ANSWERS));
        Quota { hasher: RandomState::new(), buckets, routes, answers }
    }

    /// True if the routing table may be looked up for a request. The limit does not depend on the
    /// source, because each request of a flood may have another forged source.
    pub(crate) fn take_route(&mut self, now: Instant) -> bool {
        self.routes.take(now, 1, ROUTES_PER_SECOND)
    }

    /// Takes the cost of some work from the source's bucket. Returns false if there are too few
    /// tokens.
    pub(crate) fn take(&mut self, now: Instant, from: IpAddr, cost: u64) -> bool {
        self.bucket(from).take(now, cost, BURST)
    }

    /// Takes one answer to an unproven address. Returns false if too many were sent lately. The
    /// second half of the answers is reserved for sources that send few requests.
    pub(crate) fn take_answer(&mut self, now: Instant, to: IpAddr) -> bool {
        let is_modest = self.bucket(to).left >= BURST - MODEST;
        self.answers.fill(now, ANSWERS);
        (is_modest || self.answers.left > ANSWERS / 2) && self.answers.take(now, 1, ANSWERS)
    }

    fn bucket(&mut self, source: IpAddr) -> &mut Bucket {
        &mut self.buckets[self.bucket_index(source)]
    }

    fn bucket_index(&self, source: IpAddr) -> usize {
        self.hasher.hash_one(Source::of(source)) as usize % BUCKETS
    }
}

impl Bucket {
    /// Takes a cost from a bucket of capacity `most` that is filled at `most` per second.
    fn take(&mut self, now: Instant, cost: u64, most: u64) -> bool {
        self.fill(now, most);
        let is_enough = self.left >= cost;
        self.left -= if is_enough { cost } else { 0 };
        is_enough
    }

    /// Adds the tokens for the time passed. Instants can be compared over 106 days: one that
    /// appears to be in the future is older than that, as [`Instant::ZERO`] is on a host that has
    /// run for longer.
    fn fill(&mut self, now: Instant, most: u64) {
        if now.is_before(self.at) {
            *self = Bucket { left: most, at: now };
        }
        let earned = now.since(self.at).as_ns().saturating_mul(most) / SECOND_NS;
        if earned > 0 {
            self.left = self.left.saturating_add(earned).min(most);
            self.at = now;
        }
    }
}

const SECOND_NS: u64 = Duration::from_secs(1).as_ns();

/// Number of free channels below which each new connection closes an idle one.
pub(crate) fn reserve(all: u32) -> u32 {
    (all / 16).max(1)
}

/// True for an address of this host. Its users share a machine, so no quota separates them.
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
        let taken = (0..2 * BURST).filter(|_| quota.take(now, ONE, REQUEST_COST)).count() as u64;
        assert_eq!(taken, BURST);
        assert!(!quota.take(now, NEIGHBOUR, REQUEST_COST), "another address of the same network");
        let later = now + Duration::from_ms(250);
        let taken = (0..BURST).filter(|_| quota.take(later, ONE, OPENING)).count() as u64;
        assert_eq!(taken, BURST / 4 / OPENING);
        let much_later = later + Duration::from_secs(1000);
        let taken =
            (0..2 * BURST).filter(|_| quota.take(much_later, ONE, REQUEST_COST)).count() as u64;
        assert_eq!(taken, BURST, "what is not used is not kept for ever");
    }

    #[test]
    fn time_that_brings_less_than_one_is_not_lost() {
        let mut quota = Quota::new();
        let start = Instant::from_ns(5_000_000_000);
        while quota.take(start, ONE, REQUEST_COST) {}
        // Ten checks in the time of one token.
        let step = SECOND_NS / BURST / 10 + 1;
        let taken = (1..=10)
            .filter(|step_number| {
                quota.take(start + Duration::from_ns(step * step_number), ONE, REQUEST_COST)
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
        while quota.take(now, ONE, REQUEST_COST) {}
        let others =
            (0..64).map(|net| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, net, 0, 0, 0, 1)));
        let served = others.filter(|other| quota.take(now, *other, OPENING)).count();
        assert!(served >= 60, "{served} of 64 others were served");
    }

    #[test]
    fn forged_sources_get_no_more_answers_than_there_are_and_modest_ones_go_first() {
        let mut quota = Quota::new();
        let now = Instant::from_ns(5_000_000_000);
        // Real sources that use their whole quota: they get the first half.
        let source = |net: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, net, 0, 0, 0, 1));
        let greedy = [0, 1, 2, 3, 4, 5, 6, 7].map(source);
        // The key of the hash is random: a source may share its bucket with a greedy one.
        let used = greedy.map(|greedy| quota.bucket_index(greedy));
        let modest = (8..).map(source).find(|modest| !used.contains(&quota.bucket_index(*modest)));
        let modest = modest.expect("eight of 1,024 buckets are used");
        let served: u64 = greedy
            .into_iter()
            .map(|source| {
                let request = |_: &u64| {
                    quota.take(now, source, REQUEST_COST) && quota.take_answer(now, source)
                };
                (0..BURST).filter(request).count() as u64
            })
            .sum();
        assert!((ANSWERS / 2..ANSWERS).contains(&served), "{served}");
        assert!(
            quota.take(now, modest, REQUEST_COST) && quota.take_answer(now, modest),
            "it requests once"
        );
        // Each request of a flood has another source.
        let flood = (0..1_000_000_u32).map(|host| IpAddr::V4((0x0a00_0000 + host).into()));
        let served = flood.filter(|source| quota.take_answer(now, *source)).count() as u64;
        assert!(served <= ANSWERS, "{served}");
        let later = now + Duration::from_ms(1);
        let served = (0..ANSWERS).filter(|_| quota.take_answer(later, modest)).count() as u64;
        assert_eq!(served, ANSWERS / 1000, "time brings more");
    }

    /// Checks buckets on a host that has run for 107 days: its clock is ahead of zero by more than
    /// half the range of instants, although no bucket has been filled.
    #[test]
    fn buckets_fill_on_a_host_that_has_run_for_long() {
        for days in [1, 107, 150, 212, 214] {
            let mut quota = Quota::new();
            let start = Instant::from_ns(days * 86_400 * SECOND_NS);
            while quota.take(start, ONE, REQUEST_COST) {}
            while quota.take_route(start) {}
            while quota.take_answer(start, NEIGHBOUR) {}
            let later = start + Duration::from_ms(500);
            let taken = (0..BURST).filter(|_| quota.take(later, ONE, REQUEST_COST)).count() as u64;
            assert_eq!(taken, BURST / 2, "day {days}");
            assert!(quota.take_route(later) && quota.take_answer(later, NEIGHBOUR), "day {days}");
        }
    }
}
