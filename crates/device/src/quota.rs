//! What one source address, and one network, may take of what a device has.
//!
//! Sources are told apart by IPv4 address, and by the first 64 bits of an IPv6 address, because
//! a host commonly has all addresses of such a network. Sources count to the network that an
//! attacker may have as a whole: 24 bits of an IPv4 address, 48 of an IPv6 address.
//!
//! Each limit is a part of what the source or network has and of what is left, so that however many
//! of them take all they may, some are left for others.

use core::net::IpAddr;

/// What an address counts as: itself, or its IPv6 network of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source([u8; 8]);

impl Source {
    /// The source that an address is.
    pub fn of(address: IpAddr) -> Source {
        let network = match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets()[8..].try_into(),
            IpAddr::V6(address) => address.octets()[..8].try_into(),
        };
        Source(network.unwrap_or_default())
    }
}

/// The network that an address counts to: the first 24 bits of an IPv4 address, or the first 48 of
/// an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network([u8; 8]);

impl Network {
    /// The network of an address.
    pub fn of(address: IpAddr) -> Network {
        let Source(mut bytes) = Source::of(address);
        match address.to_canonical() {
            IpAddr::V4(_) => bytes[7] = 0,
            IpAddr::V6(_) => bytes[6..].fill(0),
        }
        Network(bytes)
    }
}

/// Things that a source has and those of its network, and how many are left for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Those of the source.
    pub source: u32,
    /// Those of its network, the source's included.
    pub network: u32,
    /// Those that are free.
    pub left: u32,
}

impl Held {
    /// May the source have one more? It gets three quarters of what it has and of what is left, and
    /// its network seven eighths. The first thing of a network is given as long as there is one.
    pub fn allows_one_more(self) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        let part = |of: u32| of.saturating_mul(left);
        self.network == 0 || (self.source < part(3) && self.network < part(7))
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn address_as_ipv4_and_as_mapped_ipv6_is_one_source() {
        let four: IpAddr = [192, 0, 2, 7].into();
        let mapped = IpAddr::V6(Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped());
        assert_eq!(Source::of(four), Source::of(mapped));
        assert_ne!(Source::of(four), Source::of([192, 0, 2, 8].into()));
    }

    #[test]
    fn network_is_the_first_24_or_48_bits() {
        let network = |text: &str| Network::of(text.parse().expect("an address"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.255"));
        assert_ne!(network("192.0.2.1"), network("192.0.3.1"));
        assert_eq!(network("2001:db8:7:1::1"), network("2001:db8:7:ffff::1"));
        assert_ne!(network("2001:db8:7:1::1"), network("2001:db8:8:1::1"));
    }

    /// Takes all that a source may have beside what its network has; how many that is.
    fn taken(left: &mut u32, network: &mut u32) -> u32 {
        let mut source = 0;
        while (Held { source, network: *network, left: *left }).allows_one_more() {
            (source, *network, *left) = (source + 1, *network + 1, *left - 1);
        }
        source
    }

    #[test]
    fn one_source_never_gets_all() {
        for (all, most) in [(1, 1), (2, 1), (4, 3), (64, 48), (1024, 768)] {
            assert_eq!(taken(&mut { all }, &mut 0), most, "of {all}");
        }
    }

    #[test]
    fn whole_network_leaves_an_eighth_to_others_and_those_leave_some_as_well() {
        let (mut left, mut network) = (64, 0);
        let first: Vec<u32> = (0..256).map(|_| taken(&mut left, &mut network)).collect();
        assert_eq!((first[0], network, left), (48, 56, 8), "{first:?}");
        let others: Vec<u32> = (0..8).map(|_| taken(&mut left, &mut 0)).collect();
        assert_eq!(others, [6, 1, 1, 0, 0, 0, 0, 0]);
    }
}
