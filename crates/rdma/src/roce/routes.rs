//! Network addresses: their numbers, and the ways to them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use fairway_runtime::addresses::{is_of_this_host, source_towards};
use fairway_runtime::clock;
use fairway_ub::wire::{Duration, Instant};

use crate::addresses::{ADDRESSES_MAX, Addresses};
use crate::{ProviderError, ROCE_PORT};

/// The numbers of addresses, and the ways to them.
#[derive(Debug)]
pub(super) struct Routes {
    locals: Vec<Local>,
    addresses: Addresses,
    ways: HashMap<u64, Known>,
    last: Option<(u64, Known)>,
    look_up: LookUp,
}

/// Finds out from the kernel whether an address is of this host, and from which address packets to
/// it leave, if there is a route.
type LookUp = fn(SocketAddr) -> io::Result<(bool, Option<IpAddr>)>;

fn look_up(to: SocketAddr) -> io::Result<(bool, Option<IpAddr>)> {
    Ok((is_of_this_host(to)?, source_towards(to)))
}

/// Time after which a way is looked up again that was found while there was no route.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A way, and when it is looked up again: `None` if it had a route.
#[derive(Clone, Copy, Debug)]
struct Known {
    way: Way,
    again_at: Option<Instant>,
}

/// An address of the device, and its sockets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    pub(super) address: SocketAddr,
    /// Index of the socket that only this slot uses.
    pub(super) private: usize,
    /// Index of the socket on [`ROCE_PORT`](crate::ROCE_PORT), if it could be opened.
    pub(super) public: Option<usize>,
}

/// The way to an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) to: SocketAddr,
    /// The socket to send from.
    pub(super) socket: usize,
    /// The address to send from.
    pub(super) from: SocketAddr,
    /// True if it is an address of this host.
    pub(super) here: bool,
    /// True if answers from other hosts can arrive.
    pub(super) answers: bool,
}

impl Way {
    /// Fails if answers of another host would go to another process of this host.
    pub(super) fn reachable(&self, ip: IpAddr) -> Result<(), ProviderError> {
        if self.here || self.answers {
            return Ok(());
        }
        let taken = std::io::Error::new(
            std::io::ErrorKind::AddrInUse,
            format!(
                "UDP port {ROCE_PORT} is another's (the kernel's soft-RoCE, or another user's), so \
                 {ip} and other hosts cannot be reached; addresses of this host can"
            ),
        );
        Err(ProviderError::Io("reach another host", taken))
    }
}

impl Routes {
    pub(super) fn new(locals: Vec<Local>) -> Routes {
        let addresses = Addresses::default();
        Routes { locals, addresses, ways: HashMap::new(), last: None, look_up }
    }

    fn local(&self, ip: IpAddr) -> Option<&Local> {
        self.locals.iter().find(|local| local.address.ip() == ip)
    }

    /// Returns the socket on RoCE's port for an address of the device, if it could be opened.
    pub(super) fn public_of(&self, ip: IpAddr) -> Option<usize> {
        self.local(ip)?.public
    }

    /// True if it is an address of this host, whether of the device or not.
    pub(super) fn is_of_this_host(&self, ip: IpAddr) -> bool {
        self.local(ip).is_some() || (self.look_up)(self.linked(ip)).is_ok_and(|(here, _)| here)
    }

    /// Returns the number of an address.
    pub(super) fn number_of(&self, ip: IpAddr) -> u64 {
        self.addresses.number_of(ip)
    }

    /// Keeps an address that the program names; as [`Addresses::name`].
    pub(super) fn name(
        &mut self,
        ip: IpAddr,
        in_use: impl FnOnce() -> HashSet<u64>,
    ) -> Option<u64> {
        self.addresses.name(ip, in_use)
    }

    /// Keeps an address that has sent something.
    pub(super) fn keep_sender(&mut self, ip: IpAddr) {
        self.addresses.keep_sender(ip);
    }

    /// Returns the address of a number.
    pub(super) fn address(&self, number: u64) -> Option<IpAddr> {
        self.addresses.address(number)
    }

    /// Returns the way to an address, and caches the last one.
    pub(super) fn way(&mut self, number: u64) -> Result<Way, ProviderError> {
        if let Some((last, Known { way, again_at: None })) = self.last
            && last == number
        {
            return Ok(way);
        }
        match self.ways.get(&number) {
            Some(known) if known.again_at.is_none_or(|at| clock::now().is_before(at)) => {
                self.last = Some((number, *known));
                Ok(known.way)
            }
            _ => self.renewed(number),
        }
    }

    /// Looks up the way to an address, whether it is known or not: interfaces and routes may have
    /// changed. If the kernel does not answer, or there is no route now, a way that had one stays.
    pub(super) fn renewed(&mut self, number: u64) -> Result<Way, ProviderError> {
        let ip = self.address(number).ok_or(ProviderError::Missing)?;
        let before = self.ways.get(&number).filter(|known| known.again_at.is_none());
        let known = match (self.find(ip), before) {
            (Err(_) | Ok(Known { again_at: Some(_), .. }), Some(before)) => *before,
            (found, _) => found?,
        };
        if self.ways.len() == ADDRESSES_MAX {
            self.ways.clear();
        }
        self.ways.insert(number, known);
        self.last = Some((number, known));
        Ok(known.way)
    }

    fn find(&self, ip: IpAddr) -> Result<Known, ProviderError> {
        let same_family = |local: &&Local| local.address.is_ipv4() == ip.is_ipv4();
        let first = self.locals.iter().find(same_family);
        let first = first.ok_or(ProviderError::Unreachable(ip))?;
        let own = self.local(ip);
        let to = self.linked(ip);
        let found = (self.look_up)(to);
        // `usual` is the address from which packets to it would be sent, if that is a local one.
        let (here, usual) = found.map_err(|error| ProviderError::Io("find a route", error))?;
        let here = own.is_some() || here;
        let local = own
            .or_else(|| self.locals.iter().find(|local| Some(local.address.ip()) == usual))
            .unwrap_or(first);
        let (socket, from) = (local.private, local.address);
        let way = Way { to, socket, from, here, answers: local.public.is_some() };
        let has_route = own.is_some() || usual.is_some();
        let again_at = (!has_route).then(|| clock::now() + LOOK_AGAIN);
        Ok(Known { way, again_at })
    }

    /// Returns the socket address of an address. A link-local one has a meaning only together with
    /// its link.
    fn linked(&self, ip: IpAddr) -> SocketAddr {
        match ip {
            IpAddr::V6(address) if address.is_unicast_link_local() => {
                SocketAddrV6::new(address, 0, 0, self.scope().unwrap_or_default()).into()
            }
            _ => SocketAddr::new(ip, self.local(ip).map_or(0, |local| local.address.port())),
        }
    }

    /// Returns the link of the local link-local address.
    fn scope(&self) -> Option<u32> {
        self.locals.iter().find_map(|local| match local.address {
            SocketAddr::V6(address) => Some(address.scope_id()).filter(|scope| *scope != 0),
            SocketAddr::V4(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The kernel's answer; `None`: it has no descriptor.
        static ANSWER: Cell<Option<(bool, Option<IpAddr>)>> = const { Cell::new(None) };
    }

    fn routes() -> (Routes, u64) {
        let local = |ip: &str, private| {
            let address = SocketAddr::new(ip.parse().unwrap(), 1000);
            Local { address, private, public: None }
        };
        let mut routes = Routes::new(vec![local("10.0.0.1", 0), local("10.1.0.1", 1)]);
        routes.look_up = |_| ANSWER.get().ok_or(io::Error::from_raw_os_error(libc::EMFILE));
        let number = routes.number_of("10.1.0.2".parse().unwrap());
        (routes, number)
    }

    fn leaves_from(text: &str) {
        ANSWER.set(Some((false, Some(text.parse().unwrap()))));
    }

    #[test]
    fn way_that_was_found_without_a_route_is_looked_up_again() {
        let (mut routes, number) = routes();
        ANSWER.set(Some((false, None)));
        assert_eq!(routes.way(number).unwrap().socket, 0);
        let again_at = routes.ways[&number].again_at.expect("it is looked up again");
        leaves_from("10.1.0.1");
        routes.ways.get_mut(&number).unwrap().again_at = Some(again_at - LOOK_AGAIN);
        assert_eq!(routes.way(number).unwrap().socket, 1);
        ANSWER.set(Some((false, None)));
        assert_eq!(routes.way(number).unwrap().socket, 1, "a way with a route stays");
        assert_eq!(routes.renewed(number).unwrap().socket, 1, "while there is no other");
    }

    #[test]
    fn renewed_way_is_that_of_the_present_routes() {
        let (mut routes, number) = routes();
        leaves_from("10.0.0.1");
        assert_eq!(routes.way(number).unwrap().socket, 0);
        leaves_from("10.1.0.1");
        assert_eq!(routes.way(number).unwrap().socket, 0, "one lookup for many packets");
        assert_eq!(routes.renewed(number).unwrap().socket, 1);
        assert_eq!(routes.way(number).unwrap().socket, 1);
    }

    #[test]
    fn lack_of_descriptors_finds_no_way_and_changes_none() {
        let (mut routes, number) = routes();
        ANSWER.set(None);
        assert!(matches!(routes.way(number), Err(ProviderError::Io(..))));
        leaves_from("10.1.0.1");
        assert_eq!(routes.way(number).unwrap().socket, 1);
        ANSWER.set(None);
        assert_eq!(routes.renewed(number).unwrap().socket, 1);
    }
}
