//! The ports of a process. Between processes a service can be claimed only once
//! ([`Provider::claim_service`](fairway_rdma::Provider::claim_service)).

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use fairway_wire::roce::cm::PortSpace;

use super::address;
use super::id::Options;
use fairway_verbs::guard::{Errno, Result, lock};

/// Range of automatically chosen ports, the same as Linux's for sockets.
const CHOSEN: std::ops::RangeInclusive<u16> = 32_768..=60_999;

static HELD: Mutex<Vec<Holding>> = Mutex::new(Vec::new());

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holding {
    number: u64,
    space: PortSpace,
    port: u16,
    ip: IpAddr,
    /// Index of the interface of a link-local address, otherwise 0.
    scope: u32,
    is_shared: bool,
    /// Whether an id of the other address family may have the same port, if it sets this too.
    is_family_only: bool,
}

impl Holding {
    fn place(&self) -> (IpAddr, u32) {
        (self.ip, self.scope)
    }

    fn excludes(&self, other: &Holding) -> bool {
        let same_address =
            self.ip.is_unspecified() || other.ip.is_unspecified() || self.place() == other.place();
        let apart =
            self.ip.is_ipv4() != other.ip.is_ipv4() && self.is_family_only && other.is_family_only;
        (self.space, self.port) == (other.space, other.port)
            && same_address
            && !apart
            && !(self.is_shared && other.is_shared)
    }
}

/// A port that is reserved until this value is dropped.
#[derive(Debug)]
pub(super) struct Port(Holding);

impl Drop for Port {
    fn drop(&mut self) {
        lock(&HELD).retain(|holding| holding.number != self.0.number);
    }
}

impl Port {
    /// Reserves the port of an address, or any free one if it is 0. Other ids may have the same
    /// port if both set `reuse`, or if both are of one address family only and these differ.
    pub(super) fn take(space: PortSpace, at: SocketAddr, options: Options) -> Result<Port> {
        let mut held = lock(&HELD);
        let number = held.last().map_or(1, |last| last.number + 1);
        let (port, ip, scope) = (at.port(), address::plain(at.ip()), address::scope(&at));
        let is_shared = options.reuse;
        let is_family_only = options.is_family_only(ip);
        let wanted = Holding { number, space, port, ip, scope, is_shared, is_family_only };
        let free = |candidate: &Holding| !held.iter().any(|other| other.excludes(candidate));
        let chosen = match port {
            0 => {
                let count = u64::from(CHOSEN.end() - CHOSEN.start()) + 1;
                let first = super::clock::random() % count;
                let ports = (0..count).map(|step| CHOSEN.start() + ((first + step) % count) as u16);
                ports
                    .map(|port| Holding { port, is_shared: false, ..wanted })
                    .find(|holding| free(holding))
            }
            _ => Some(wanted).filter(free),
        };
        let holding = chosen.ok_or(Errno(libc::EADDRINUSE))?;
        held.push(holding);
        Ok(Port(holding))
    }

    pub(super) fn number(&self) -> u16 {
        self.0.port
    }
}
