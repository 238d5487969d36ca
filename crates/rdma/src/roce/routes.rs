//! Network addresses: their numbers, and the ways to them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use fairway_runtime::addresses::{is_of_this_host, source_towards};

use crate::addresses::{ADDRESSES_MAX, Addresses};
use crate::{ProviderError, ROCE_PORT};

/// The numbers of addresses, and the ways to them.
#[derive(Debug)]
pub(super) struct Routes {
    locals: Vec<Local>,
    addresses: Addresses,
    ways: HashMap<u64, Way>,
    last: Option<(u64, Way)>,
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
        Routes { locals, addresses, ways: HashMap::new(), last: None }
    }

    /// Returns the slot's own socket for an address of the device.
    pub(super) fn private_of(&self, ip: IpAddr) -> Option<usize> {
        self.locals.iter().find(|local| local.address.ip() == ip).map(|local| local.private)
    }

    /// True if it is an address of the device.
    pub(super) fn is_own(&self, ip: IpAddr) -> bool {
        self.private_of(ip).is_some()
    }

    /// Returns the number of an address; `None` if the table is full.
    pub(super) fn number(&mut self, ip: IpAddr) -> Option<u64> {
        self.addresses.number(ip)
    }

    /// Returns the number of an address that sent a packet; `None` if the part for senders is full.
    pub(super) fn number_of_sender(&mut self, ip: IpAddr) -> Option<u64> {
        self.addresses.number_of_sender(ip)
    }

    /// Returns the address of a number.
    pub(super) fn address(&self, number: u64) -> Option<IpAddr> {
        self.addresses.address(number)
    }

    /// Returns the way to an address, and caches the last one.
    pub(super) fn way(&mut self, number: u64) -> Result<Way, ProviderError> {
        if let Some((known, way)) = self.last
            && known == number
        {
            return Ok(way);
        }
        let way = match self.ways.get(&number) {
            Some(way) => *way,
            None => {
                let ip = self.address(number).ok_or(ProviderError::Missing)?;
                let way = self.find(ip)?;
                if self.ways.len() == ADDRESSES_MAX {
                    self.ways.clear();
                }
                self.ways.insert(number, way);
                way
            }
        };
        self.last = Some((number, way));
        Ok(way)
    }

    fn find(&self, ip: IpAddr) -> Result<Way, ProviderError> {
        let same_family = |local: &&Local| local.address.is_ipv4() == ip.is_ipv4();
        let first = self.locals.iter().find(same_family);
        let first = first.ok_or(ProviderError::Unreachable(ip))?;
        let own = self.locals.iter().find(|local| local.address.ip() == ip);
        let to = match own {
            Some(local) => SocketAddr::new(ip, local.address.port()),
            None => SocketAddr::new(ip, 0),
        };
        let to = match (to, first.address) {
            // A link-local address has a meaning only together with its link.
            (SocketAddr::V6(to), SocketAddr::V6(from)) if to.ip().is_unicast_link_local() => {
                SocketAddrV6::new(*to.ip(), 0, 0, self.scope().unwrap_or(from.scope_id())).into()
            }
            _ => to,
        };
        let is_here =
            || is_of_this_host(to).map_err(|error| ProviderError::Io("find a route", error));
        let here = own.is_some() || is_here()?;
        // The address from which packets to it would be sent, if that is a local one.
        let usual = source_towards(to);
        let local = own
            .or_else(|| self.locals.iter().find(|local| Some(local.address.ip()) == usual))
            .unwrap_or(first);
        let (socket, from) = (local.private, local.address);
        Ok(Way { to, socket, from, here, answers: local.public.is_some() })
    }

    /// Returns the link of the local link-local address.
    fn scope(&self) -> Option<u32> {
        self.locals.iter().find_map(|local| match local.address {
            SocketAddr::V6(address) => Some(address.scope_id()).filter(|scope| *scope != 0),
            SocketAddr::V4(_) => None,
        })
    }
}
