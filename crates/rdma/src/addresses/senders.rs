//! IPv6 addresses that have sent something, which a table of limited size keeps.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv6Addr;

use fairway_device::quota::{Held, Network, Source};

/// Maximum number of addresses.
const SENDERS_MAX: usize = 1 << 15;

/// The table. A source (64 bits) gets at most three quarters of the places that it has and that are
/// free, and its network (48 bits) seven eighths ([`Held`]). A further address of it takes the
/// place of an older one of the same source or network. If no place is free for a network that has
/// none, networks give up one each, in turn.
#[derive(Debug, Default)]
pub(super) struct Senders {
    addresses: HashMap<u64, Ipv6Addr>,
    /// The numbers of each source, the oldest first.
    sources: HashMap<Source, VecDeque<u64>>,
    networks: HashMap<Network, OfNetwork>,
    /// The networks that have places, that whose turn it is first.
    turns: VecDeque<Network>,
}

/// The places of a network.
#[derive(Debug, Default)]
struct OfNetwork {
    count: u32,
    /// Its sources that have places, that whose turn it is first.
    turns: VecDeque<Source>,
}

impl Senders {
    /// Returns the address of a number, if it is kept.
    pub(super) fn address(&self, number: u64) -> Option<Ipv6Addr> {
        self.addresses.get(&number).copied()
    }

    /// Keeps an address under its number.
    pub(super) fn keep(&mut self, number: u64, address: Ipv6Addr) {
        if self.addresses.contains_key(&number) {
            return;
        }
        let (source, network) = (Source::of(address.into()), Network::of(address.into()));
        self.make_room(source, network);
        self.addresses.insert(number, address);
        let numbers = self.sources.entry(source).or_default();
        let of_network = self.networks.entry(network).or_default();
        if numbers.is_empty() {
            of_network.turns.push_back(source);
        }
        if of_network.count == 0 {
            self.turns.push_back(network);
        }
        numbers.push_back(number);
        of_network.count += 1;
    }

    /// Forgets an address if this source may not have one more, or no place is left.
    fn make_room(&mut self, source: Source, network: Network) {
        let of_source = self.sources.get(&source).map_or(0, VecDeque::len) as u32;
        let of_network = self.networks.get(&network).map_or(0, |of| of.count);
        let left = (SENDERS_MAX - self.addresses.len()) as u32;
        if (Held { source: of_source, network: of_network, left }).allows_one_more() {
            return;
        }
        if of_source > 0 {
            return self.forget_oldest(source, network);
        }
        let from = if of_network > 0 { Some(network) } else { self.turns.front().copied() };
        let Some(from) = from else { return };
        if let Some(source) = self.networks.get(&from).and_then(|of| of.turns.front().copied()) {
            self.forget_oldest(source, from);
        }
    }

    /// Forgets the oldest address of a source, after which others are next to give up one.
    fn forget_oldest(&mut self, source: Source, network: Network) {
        let Some(numbers) = self.sources.get_mut(&source) else { return };
        if let Some(number) = numbers.pop_front() {
            self.addresses.remove(&number);
        }
        let is_empty = numbers.is_empty();
        let Some(of_network) = self.networks.get_mut(&network) else { return };
        of_network.count -= 1;
        let is_gone = of_network.count == 0;
        end_turn(&mut of_network.turns, source, is_empty);
        if is_empty {
            self.sources.remove(&source);
        }
        end_turn(&mut self.turns, network, is_gone);
        if is_gone {
            self.networks.remove(&network);
        }
    }
}

/// Moves one that has given up a place behind the others, or removes it if it has none left.
fn end_turn<T: PartialEq>(turns: &mut VecDeque<T>, of: T, is_gone: bool) {
    if turns.front() == Some(&of) {
        turns.pop_front();
        if !is_gone {
            turns.push_back(of);
        }
    } else if is_gone && let Some(at) = turns.iter().position(|other| *other == of) {
        turns.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the address whose number consists of a network, a source in it, and a host.
    fn keep(senders: &mut Senders, [network, source, host]: [u16; 3]) -> u64 {
        let address = Ipv6Addr::new(0xfd00, 0, network, source, 0, 0, 0, host);
        let number = u64::from(network) << 32 | u64::from(source) << 16 | u64::from(host);
        senders.keep(number, address);
        assert_eq!(senders.address(number), Some(address), "the newest is kept");
        number
    }

    /// The number of addresses of the table, whose counts have to agree.
    fn count(senders: &Senders) -> usize {
        let all = senders.addresses.len();
        assert_eq!(senders.sources.values().map(VecDeque::len).sum::<usize>(), all);
        assert_eq!(senders.networks.values().map(|of| of.count as usize).sum::<usize>(), all);
        let turns: usize = senders.networks.values().map(|of| of.turns.len()).sum();
        assert_eq!((turns, senders.turns.len()), (senders.sources.len(), senders.networks.len()));
        all
    }

    #[test]
    fn source_replaces_its_own_addresses_and_leaves_those_of_others() {
        let mut senders = Senders::default();
        let others = [[1, 0, 0], [1, 1, 0], [2, 0, 0]].map(|other| keep(&mut senders, other));
        let mine: Vec<u64> = (1..40_000).map(|host| keep(&mut senders, [1, 0, host])).collect();
        assert!((24_000..25_000).contains(&count(&senders)), "{}", count(&senders));
        assert!(others[1..].iter().all(|other| senders.address(*other).is_some()));
        assert!(mine[20_000..].iter().all(|newer| senders.address(*newer).is_some()));
        assert_eq!(senders.address(mine[0]), None);
    }

    #[test]
    fn many_sources_and_networks_leave_places_to_newcomers() {
        let mut senders = Senders::default();
        for source in 0..60_000 {
            keep(&mut senders, [3, source, 0]);
        }
        assert_eq!(count(&senders), SENDERS_MAX / 8 * 7);
        for network in 4..60_000 {
            keep(&mut senders, [network, 0, 0]);
        }
        assert_eq!(count(&senders), SENDERS_MAX);
        for host in 0..10 {
            keep(&mut senders, [1, 1, host]);
        }
        assert_eq!(count(&senders), SENDERS_MAX);
    }
}
