//! The ways to addresses: by frames, or by the sockets.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

use fairway_port::Address;
use fairway_port::xdp::{Flow, Hop, Interface, Tables};

/// Maximum number of ways that are remembered.
const WAYS_MAX: usize = 4_096;
/// Time after which a way is looked up again, in nanoseconds.
const VALID_NS: u64 = 1_000_000_000;
/// The same while the kernel does not know the next host's Ethernet address.
const UNKNOWN_NS: u64 = 2_000_000;
/// Maximum number of ways that are looked up in a period, and its length in nanoseconds.
const LOOKUPS_MAX: u32 = 32;
const LOOKUP_PERIOD_NS: u64 = 10_000_000;

/// How packets from a socket reach an address.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// By frames with these headers.
    Frames(Flow),
    /// By the sockets.
    Sockets,
}

#[derive(Clone, Debug)]
struct Known {
    way: Way,
    until_ns: u64,
}

/// The ways that have been looked up.
#[derive(Debug)]
pub(super) struct Ways {
    tables: Tables,
    known: HashMap<(usize, Address), Known>,
    /// The next host towards an address of a host, and until when that holds.
    hops: HashMap<(IpAddr, IpAddr), (Option<Hop>, u64)>,
    /// Lookups in the current period, and its begin.
    lookups: u32,
    since_ns: u64,
}

impl Ways {
    /// # Errors
    /// The kernel refuses another descriptor.
    pub(super) fn new() -> io::Result<Ways> {
        let tables = Tables::open()?;
        let (known, hops) = (HashMap::new(), HashMap::new());
        Ok(Ways { tables, known, hops, lookups: 0, since_ns: 0 })
    }

    /// Returns the way of a train from socket number `socket`, which has the address `local`.
    pub(super) fn of(
        &mut self,
        now_ns: u64,
        interface: &Interface,
        (socket, local): (usize, SocketAddr),
        to: &Address,
    ) -> &Way {
        let key = (socket, *to);
        let is_valid = self.known.get(&key).is_some_and(|known| now_ns < known.until_ns);
        if !is_valid && let Some(other) = self.look_up(now_ns, interface, key, local) {
            return other;
        }
        self.known.get(&key).map_or(&Way::Sockets, |known| &known.way)
    }

    /// Looks a way up and remembers it. Returns the way of this train if it is another one.
    #[cold]
    fn look_up(
        &mut self,
        now_ns: u64,
        interface: &Interface,
        (socket, to): (usize, Address),
        local: SocketAddr,
    ) -> Option<&'static Way> {
        let remote = SocketAddr::from(to);
        let Some(hop) = self.hop(now_ns, local, remote) else { return Some(&Way::Sockets) };
        let (hop, fresh) = hop;
        let hop = hop.filter(|hop| hop.interface == interface.index);
        let mac = hop.and_then(|hop| hop.mac);
        let flow = mac.and_then(|mac| Flow::new(interface.mac, mac, local, remote));
        let until_ns = now_ns + if hop.is_some() && mac.is_none() { UNKNOWN_NS } else { VALID_NS };
        if self.known.len() >= WAYS_MAX {
            self.known.clear();
        }
        let way = flow.map_or(Way::Sockets, Way::Frames);
        self.known.insert((socket, to), Known { way, until_ns });
        // The kernel verifies a host only if something is sent there through a socket.
        let unproven = fresh && hop.is_some_and(|hop| !hop.proven);
        unproven.then_some(&Way::Sockets)
    }

    /// Returns the next host towards `remote`, if there is one, and whether it was looked up just
    /// now. `None`: too much was looked up lately.
    fn hop(
        &mut self,
        now_ns: u64,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<(Option<Hop>, bool)> {
        let key = (local.ip(), remote.ip());
        if let Some((hop, until_ns)) = self.hops.get(&key)
            && now_ns < *until_ns
        {
            return Some((*hop, false));
        }
        if now_ns.saturating_sub(self.since_ns) >= LOOKUP_PERIOD_NS {
            (self.since_ns, self.lookups) = (now_ns, 0);
        }
        // Packets may have any source address, and each answer to a new one costs system calls.
        self.lookups += 1;
        if self.lookups > LOOKUPS_MAX {
            return None;
        }
        let hop = self.tables.next_hop(local, remote).unwrap_or(None);
        let known = hop.is_none_or(|hop| hop.mac.is_some());
        // A little less than for a way, so that all ways to a host are renewed by one lookup.
        let valid = if known { VALID_NS - VALID_NS / 8 } else { UNKNOWN_NS / 2 };
        if self.hops.len() >= WAYS_MAX {
            self.hops.clear();
        }
        self.hops.insert(key, (hop, now_ns + valid));
        Some((hop, true))
    }
}
