//! The ports of a process. Another process cannot claim a port that was chosen here, nor one at
//! which an id listens ([`claims`](super::claims)).

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use fairway_wire::roce::cm::{PortSpace, service_id};

use super::id::Options;
use super::{address, claims};
use fairway_verbs::guard::{Errno, Result, lock};

/// Range of automatically chosen ports, the same as Linux's for sockets.
const CHOSEN: std::ops::RangeInclusive<u16> = 32_768..=60_999;

static HELD: Mutex<Vec<Holding>> = Mutex::new(Vec::new());

const IN_USE: Errno = Errno(libc::EADDRINUSE);

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
    is_listening: bool,
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
pub(super) struct Port {
    holding: Holding,
    /// Excludes other processes of the host from a port that was chosen.
    reservation: Option<claims::Use>,
}

impl Drop for Port {
    fn drop(&mut self) {
        lock(&HELD).retain(|holding| holding.number != self.holding.number);
    }
}

impl Port {
    /// Reserves the port of an address, or any that is free on the host if it is 0. Other ids may
    /// have the same port if both set `reuse`, or if both are of one address family only and these
    /// differ.
    pub(super) fn take(space: PortSpace, at: SocketAddr, options: Options) -> Result<Port> {
        match at.port() {
            0 => Port::choose(space, at, options, super::clock::random()?),
            _ => Port::given(space, at, options),
        }
    }

    fn given(space: PortSpace, at: SocketAddr, options: Options) -> Result<Port> {
        let mut held = lock(&HELD);
        let wanted = Holding::new(&held, space, at, options);
        match is_free(&held, &wanted) {
            true => Ok(Port::hold(&mut held, wanted, None)),
            false => Err(IN_USE),
        }
    }

    /// Reserves a port that is free on the host, the first from `start` on.
    pub(super) fn choose(
        space: PortSpace,
        at: SocketAddr,
        options: Options,
        start: u64,
    ) -> Result<Port> {
        let mut held = lock(&HELD);
        let wanted = Holding::new(&held, space, at, Options { reuse: false, ..options });
        for holding in candidates(wanted, start) {
            if !is_free(&held, &holding) {
                continue;
            }
            match claims::reserve(service_id(space, holding.port)) {
                Ok(reservation) => return Ok(Port::hold(&mut held, holding, Some(reservation))),
                Err(IN_USE) => {}
                Err(error) => return Err(error),
            }
        }
        Err(IN_USE)
    }

    /// Chooses the port from which an id connects: one that is free in this process. Peers do not
    /// use it to find the process.
    pub(super) fn choose_source(
        space: PortSpace,
        at: SocketAddr,
        options: Options,
    ) -> Result<Port> {
        let start = super::clock::random()?;
        let mut held = lock(&HELD);
        let wanted = Holding::new(&held, space, at, Options { reuse: false, ..options });
        let chosen = candidates(wanted, start).find(|holding| is_free(&held, holding));
        Ok(Port::hold(&mut held, chosen.ok_or(IN_USE)?, None))
    }

    fn hold(held: &mut Vec<Holding>, holding: Holding, reservation: Option<claims::Use>) -> Port {
        held.push(holding);
        Port { holding, reservation }
    }

    /// Lets other processes have the port, because the id connects instead of listening.
    pub(super) fn connects(&mut self) {
        self.reservation = None;
    }

    /// Makes the port that of a listener. From now on no other id shares it, as in Linux.
    pub(super) fn listen(&mut self) -> Result<()> {
        let mut held = lock(&HELD);
        let own = Holding { is_shared: false, is_listening: true, ..self.holding };
        let excludes = |other: &Holding| {
            other.number != own.number && other.is_listening && other.excludes(&own)
        };
        if held.iter().any(excludes) {
            return Err(IN_USE);
        }
        self.change(&mut held, own);
        Ok(())
    }

    /// Reverses [`listen`](Self::listen), because the id does not listen after all.
    pub(super) fn unlisten(&mut self) {
        let before = Holding { is_listening: false, ..self.holding };
        self.change(&mut lock(&HELD), before);
    }

    fn change(&mut self, held: &mut [Holding], to: Holding) {
        self.holding = to;
        held.iter_mut().filter(|holding| holding.number == to.number).for_each(|own| *own = to);
    }

    pub(super) fn number(&self) -> u16 {
        self.holding.port
    }
}

impl Holding {
    fn new(held: &[Holding], space: PortSpace, at: SocketAddr, options: Options) -> Holding {
        let ip = address::plain(at.ip());
        Holding {
            number: held.last().map_or(1, |last| last.number + 1),
            space,
            port: at.port(),
            ip,
            scope: address::scope(&at),
            is_shared: options.reuse,
            is_family_only: options.is_family_only(ip),
            is_listening: false,
        }
    }
}

fn is_free(held: &[Holding], candidate: &Holding) -> bool {
    !held.iter().any(|other| other.excludes(candidate))
}

/// The same holding with each port that may be chosen, from `start` on.
fn candidates(wanted: Holding, start: u64) -> impl Iterator<Item = Holding> {
    let count = u64::from(CHOSEN.end() - CHOSEN.start()) + 1;
    let ports = (0..count).map(move |step| (start % count + step) % count);
    ports.map(move |port| Holding { port: CHOSEN.start() + port as u16, ..wanted })
}
