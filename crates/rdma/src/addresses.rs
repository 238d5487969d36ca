//! Numbers of network addresses, by which providers identify them to the verbs library.
//!
//! An IPv4 address is its own number, so nothing is stored for it. IPv6 addresses are counted.
//! Packets can arrive from more addresses than the table holds, so addresses that have only ever
//! sent something get at most half of the numbers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum number of IPv6 addresses in the table.
pub(super) const ADDRESSES_MAX: usize = 1 << 16;

/// Number of addresses in the table from which no further senders are added.
const STRANGERS_MAX: usize = ADDRESSES_MAX / 2;

/// The first number of an IPv6 address.
const FIRST_V6: u64 = 1 << 32;

/// The number that stands for no address.
pub(super) const NOWHERE: u64 = u64::MAX;

/// The table of numbers.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    v6: Vec<Ipv6Addr>,
    numbers: HashMap<Ipv6Addr, u64>,
}

impl Addresses {
    /// Returns the number of an address that the program names; `None` if the table is full.
    pub(super) fn number(&mut self, ip: IpAddr) -> Option<u64> {
        self.find(ip, ADDRESSES_MAX)
    }

    /// Returns the number of an address that sent a packet; `None` if the part for senders is full.
    pub(super) fn number_of_sender(&mut self, ip: IpAddr) -> Option<u64> {
        self.find(ip, STRANGERS_MAX)
    }

    fn find(&mut self, ip: IpAddr, most: usize) -> Option<u64> {
        let address = match ip.to_canonical() {
            IpAddr::V4(_) => return number_of_ipv4(ip),
            IpAddr::V6(address) => address,
        };
        if let Some(number) = self.numbers.get(&address) {
            return Some(*number);
        }
        if self.v6.len() >= most {
            return None;
        }
        let number = FIRST_V6 + self.v6.len() as u64;
        self.v6.push(address);
        self.numbers.insert(address, number);
        Some(number)
    }

    /// Returns the address of a number.
    pub(super) fn address(&self, number: u64) -> Option<IpAddr> {
        ipv4_of(number).or_else(|| {
            let index = usize::try_from(number - FIRST_V6).ok()?;
            self.v6.get(index).map(|v6| (*v6).into())
        })
    }
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

    #[test]
    fn a_number_means_its_address() {
        let mut addresses = Addresses::default();
        for ip in ["0.0.0.0", "255.255.255.255", "::1", "fe80::1", "::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            let number = addresses.number(ip).unwrap();
            assert_eq!(addresses.address(number), Some(ip));
        }
        assert_eq!(addresses.number("::ffff:10.0.0.1".parse().unwrap()), Some(0x0a00_0001));
        assert_eq!(addresses.address(FIRST_V6 + 2), None);
        assert_eq!(addresses.address(NOWHERE), None);
    }

    #[test]
    fn strangers_leave_room_for_peers() {
        let mut addresses = Addresses::default();
        let invented = |bits: u128| IpAddr::from(Ipv6Addr::from(0xfd00 << 112 | bits));
        let peer = addresses.number(invented(1 << 64)).unwrap();
        let known = (0..ADDRESSES_MAX as u128)
            .filter_map(|bits| addresses.number_of_sender(invented(bits)));
        assert_eq!(known.count(), STRANGERS_MAX - 1);
        // Addresses that have a number keep it, and the program may name others.
        assert_eq!(addresses.number_of_sender(invented(1 << 64)), Some(peer));
        assert!(addresses.number(invented(1 << 65)).is_some());
    }
}
