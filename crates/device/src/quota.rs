//! Limits on the share of a device's resources that one source address, and one network, may take.
//!
//! Sources are distinguished by IPv4 address, and by the first 64 bits of an IPv6 address, because
//! a host commonly has all addresses of such a network. They are grouped by networks that an
//! attacker may own as a whole: 24 bits of an IPv4 address, 48 of an IPv6 address.
//!
//! Each limit is a fraction of the sum of what the source or network has and what is left, so some
//! are always left for others, however many of them take their maximum.

use core::net::IpAddr;

/// The identity of an address for quotas: the IPv4 address, or the IPv6 network of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source([u8; 8]);

impl Source {
    /// Returns the source of an address.
    pub fn of(address: IpAddr) -> Source {
        let network = match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets()[8..].try_into(),
            IpAddr::V6(address) => address.octets()[..8].try_into(),
        };
        Source(network.unwrap_or_default())
    }
}

/// The network of an address: the first 24 bits of an IPv4 address, or the first 48 of an IPv6
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network([u8; 8]);

impl Network {
    /// Returns the network of an address.
    pub fn of(address: IpAddr) -> Network {
        let Source(mut bytes) = Source::of(address);
        match address.to_canonical() {
            IpAddr::V4(_) => bytes[7] = 0,
            IpAddr::V6(_) => bytes[6..].fill(0),
        }
        Network(bytes)
    }
}

/// Number of objects that a source and its network have, and number left for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Objects of the source.
    pub source: u32,
    /// Objects of its network, including those of the source.
    pub network: u32,
    /// Objects that are free.
    pub left: u32,
}

impl Held {
    /// True if the source may have one more. A source gets at most three quarters of what it has
    /// and what is left together, and its network seven eighths. The first object of a network is
    /// granted as long as one is left.
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

    /// Takes as many as a source may have in addition to those of its network. Returns their
    /// number.
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
