//! The queue pairs of other sides whose packets are accepted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use fairway_device::quota::Source;
use fairway_port::Address;
use fairway_port::rnic::Gid;

/// Maximum number of queue pairs. Beyond it, the host that has the most of them loses the older
/// half of its own, until their next probe.
const SOURCES_MAX: usize = 16_384;

/// The address of a queue pair's NIC, and the number of the queue pair.
type Key = (Gid, u32);

/// The queue pairs, with the addresses of the sockets that they belong to.
#[derive(Debug, Default)]
pub(super) struct Sources {
    known: HashMap<Key, Known>,
    /// The queue pairs of each host in the order of their last probes.
    by_host: HashMap<Source, BTreeMap<u64, Key>>,
    /// Number of probes of queue pairs so far.
    probes: u64,
}

#[derive(Debug)]
struct Known {
    address: Address,
    /// The number of its last probe.
    probe: u64,
}

impl Sources {
    /// The address of the socket that a queue pair belongs to, if its packets are accepted.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<Address> {
        self.known.get(&key).map(|known| known.address)
    }

    /// Accepts the packets of a queue pair from now on.
    pub(super) fn insert(&mut self, key: Key, address: Address) {
        self.remove(&key);
        if self.known.len() >= SOURCES_MAX {
            self.make_room();
        }
        self.probes += 1;
        self.known.insert(key, Known { address, probe: self.probes });
        self.by_host.entry(host(&address)).or_default().insert(self.probes, key);
    }

    fn remove(&mut self, key: &Key) {
        let Some(known) = self.known.remove(key) else { return };
        let host = host(&known.address);
        if let Some(own) = self.by_host.get_mut(&host) {
            own.remove(&known.probe);
            if own.is_empty() {
                self.by_host.remove(&host);
            }
        }
    }

    /// Forgets the older half of the queue pairs of the host that has the most. Of several such
    /// hosts, it is the one whose oldest probe is the oldest.
    #[cold]
    fn make_room(&mut self) {
        let size = |own: &&mut BTreeMap<u64, Key>| {
            (own.len(), Reverse(own.first_key_value().map(|(probe, _)| *probe)))
        };
        let Some(own) = self.by_host.values_mut().max_by_key(size) else { return };
        for _ in 0..own.len().div_ceil(2) {
            if let Some((_, key)) = own.pop_first() {
                self.known.remove(&key);
            }
        }
        self.by_host.retain(|_, own| !own.is_empty());
    }
}

/// The host that an address belongs to.
pub(super) fn host(address: &Address) -> Source {
    Source::of(SocketAddr::from(*address).ip())
}
