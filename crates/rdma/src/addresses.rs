//! Numbers of network addresses, by which providers identify them to the verbs library.
//!
//! An IPv4 address is its own number. The number of an IPv6 address is a keyed hash of it, so it is
//! the same whenever the address comes again, and a table is needed only to find the address of a
//! number. The table keeps what the program names and what has sent something, and forgets the
//! oldest of both. Packets can arrive from more addresses than it holds, so senders of one network
//! get a part of their places only ([`Senders`]).

mod senders;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use self::senders::Senders;

/// Maximum number of IPv6 addresses that the program names.
pub(super) const ADDRESSES_MAX: usize = 1 << 16;

/// The first number of an IPv6 address.
const FIRST_V6: u64 = 1 << 63;

/// The number that stands for no address.
pub(super) const NOWHERE: u64 = u64::MAX;

/// The table of IPv6 addresses.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// The key of the numbers.
    key: RandomState,
    named: HashMap<u64, Named>,
    /// Number of calls of [`Self::name`].
    calls: u64,
    senders: Senders,
}

/// An address that the program names.
#[derive(Clone, Copy, Debug)]
struct Named {
    address: Ipv6Addr,
    /// The call that named it last.
    call: u64,
}

impl Addresses {
    /// Returns the number of an address. [`Self::address`] finds it only if the address is kept.
    pub(super) fn number_of(&self, ip: IpAddr) -> u64 {
        match ip.to_canonical() {
            IpAddr::V4(address) => u64::from(u32::from(address)),
            IpAddr::V6(address) => match self.key.hash_one(address) | FIRST_V6 {
                NOWHERE => FIRST_V6,
                number => number,
            },
        }
    }

    /// Keeps an address that the program names, and returns its number. If the table is full, those
    /// addresses are forgotten that the program has not named for the longest time and that are not
    /// `in_use`. `None` if all are, or if the number is that of another address.
    pub(super) fn name(
        &mut self,
        ip: IpAddr,
        in_use: impl FnOnce() -> HashSet<u64>,
    ) -> Option<u64> {
        let number = self.number_of(ip);
        let IpAddr::V6(address) = ip.to_canonical() else { return Some(number) };
        self.calls += 1;
        let call = self.calls;
        if let Some(named) = self.named.get_mut(&number) {
            named.call = call;
            return (named.address == address).then_some(number);
        }
        if self.named.len() >= ADDRESSES_MAX {
            self.forget_named(&in_use());
        }
        if self.named.len() >= ADDRESSES_MAX {
            return None;
        }
        self.named.insert(number, Named { address, call });
        Some(number)
    }

    /// Forgets the older half of the addresses that are not in use.
    fn forget_named(&mut self, in_use: &HashSet<u64>) {
        let idle = self.named.iter().filter(|(number, _)| !in_use.contains(number));
        let mut idle: Vec<(u64, u64)> = idle.map(|(number, named)| (named.call, *number)).collect();
        idle.sort_unstable();
        for (_, number) in &idle[..idle.len().div_ceil(2)] {
            self.named.remove(number);
        }
    }

    /// Keeps an address that has sent something, until others take its place.
    pub(super) fn keep_sender(&mut self, ip: IpAddr) {
        let number = self.number_of(ip);
        if let IpAddr::V6(address) = ip.to_canonical()
            && !self.named.contains_key(&number)
        {
            self.senders.keep(number, address);
        }
    }

    /// Returns the address of a number, if it is kept.
    pub(super) fn address(&self, number: u64) -> Option<IpAddr> {
        let named = || self.named.get(&number).map(|named| named.address);
        let kept = || named().or_else(|| self.senders.address(number)).map(IpAddr::V6);
        ipv4_of(number).or_else(kept)
    }
}

/// True if the number is that of an IPv4 address, which requires no table.
pub(super) fn is_ipv4(number: u64) -> bool {
    number <= u64::from(u32::MAX)
}

/// Returns the number of an IPv4 address, which requires no table; `None` for an IPv6 address.
pub(super) fn number_of_ipv4(ip: IpAddr) -> Option<u64> {
    match ip.to_canonical() {
        IpAddr::V4(address) => Some(u64::from(u32::from(address))),
        IpAddr::V6(_) => None,
    }
}

/// Returns the IPv4 address of a number, which requires no table; `None` for other numbers.
pub(super) fn ipv4_of(number: u64) -> Option<IpAddr> {
    u32::try_from(number).ok().map(|bits| Ipv4Addr::from(bits).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Address `bits` of the network fd00::/64, or of another one if `bits` has more than 64 bits.
    fn invented(bits: u128) -> IpAddr {
        Ipv6Addr::from((0xfd00 << 112) | bits).into()
    }

    fn named(addresses: &mut Addresses, ip: IpAddr) -> Option<u64> {
        addresses.name(ip, HashSet::new)
    }

    #[test]
    fn a_number_means_its_address() {
        let mut addresses = Addresses::default();
        for ip in ["0.0.0.0", "255.255.255.255", "::1", "fe80::1", "::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            let number = named(&mut addresses, ip).unwrap();
            assert_eq!(addresses.address(number), Some(ip));
            assert_eq!(is_ipv4(number), ip.is_ipv4());
        }
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(named(&mut addresses, mapped), Some(0x0a00_0001));
        assert_eq!(addresses.address(addresses.number_of(invented(2))), None, "it is not kept");
        assert_eq!(addresses.address(NOWHERE), None);
    }

    #[test]
    fn flood_from_one_network_leaves_room_for_peers_of_others() {
        let mut addresses = Addresses::default();
        let peer = named(&mut addresses, invented(1)).unwrap();
        let neighbour = invented(1 << 80 | 7);
        addresses.keep_sender(neighbour);
        for bits in 0..40_000 {
            addresses.keep_sender(invented(bits));
        }
        // One that has a number keeps it, and so does one of another network.
        assert_eq!(addresses.address(peer), Some(invented(1)));
        assert_eq!(addresses.address(addresses.number_of(neighbour)), Some(neighbour));
        for newcomer in [invented(1 << 81), invented(39_999), invented(40_001)] {
            addresses.keep_sender(newcomer);
            let number = addresses.number_of(newcomer);
            assert_eq!(addresses.address(number), Some(newcomer));
            assert_eq!(named(&mut addresses, newcomer), Some(number), "the number stays");
        }
    }

    #[test]
    fn addresses_that_were_named_give_way_unless_they_are_in_use() {
        let mut addresses = Addresses::default();
        let first = named(&mut addresses, invented(0)).unwrap();
        let in_use = || HashSet::from([first]);
        for bits in 1..200_000 {
            let number = addresses.name(invented(bits), in_use).unwrap();
            assert_eq!(addresses.address(number), Some(invented(bits)));
        }
        assert_eq!(addresses.address(first), Some(invented(0)));
        assert_eq!(addresses.address(addresses.number_of(invented(1))), None);
        assert!(addresses.named.len() <= ADDRESSES_MAX);
        let all: HashSet<u64> = addresses.named.keys().copied().collect();
        while addresses.named.len() < ADDRESSES_MAX {
            let bits = 1 << 70 | addresses.named.len() as u128;
            named(&mut addresses, invented(bits)).unwrap();
        }
        let everything: HashSet<u64> = addresses.named.keys().copied().collect();
        assert!(all.is_subset(&everything));
        assert_eq!(addresses.name(invented(1 << 71), || everything), None);
    }
}
