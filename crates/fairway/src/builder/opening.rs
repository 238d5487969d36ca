//! Opens the sockets of a context: as many as its paths need, if the builder does not say.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fairway_port::{UdpConfig, UdpPort, descriptors};
use fairway_runtime::addresses::with_scope;
use fairway_ub::wire::{Ports, sockets_for};

use super::Builder;
use crate::datapath::DatapathKind;
use crate::error::Error;
use crate::protocol::{Io, open_io};
use crate::socket_shortage::{SocketLimit, SocketShortage};

/// Maximum number of addresses of a context.
const ADDRESSES_MAX: usize = 7;
/// Maximum number of sockets of an engine, at all its addresses, because one poll checks no more.
const SOCKETS_MAX: usize = 64;
/// Least number of sockets at an address, unless the builder names another: repeated set-up
/// messages leave from different ones.
const SOCKETS_MIN: usize = 4;
/// Number of attempts to draw port numbers that are free at every address.
const NUMBERS_TRIED: usize = 16;
/// Descriptors of a socket: itself, and that at which processes of this host attach to it.
const DESCRIPTORS_EACH: u64 = 2;

/// The number of sockets that each engine of a context is to have.
pub(super) struct SocketPlan {
    /// Sockets at each address.
    count: usize,
    /// Sockets without which building fails. Those beyond them are opened as far as possible.
    required: usize,
    /// Why the paths do not have as many sockets as they need.
    pub(super) shortage: Option<SocketShortage>,
}

impl SocketPlan {
    /// Records that an engine has no more than `opened` sockets.
    fn fall_short(&mut self, paths: u32, opened: usize, limit: SocketLimit) {
        let needed = sockets_for(paths);
        if opened < needed && self.shortage.is_none_or(|known| opened < known.opened) {
            self.shortage = Some(SocketShortage { paths, needed, opened, limit });
        }
    }
}

impl Builder {
    /// Decides how many sockets to open.
    pub(super) fn plan_sockets(&self) -> SocketPlan {
        if let Some(count) = self.sockets {
            return SocketPlan { count, required: count, shortage: None };
        }
        let wanted = sockets_for(self.paths).max(SOCKETS_MIN);
        let mut plan = SocketPlan { count: wanted, required: SOCKETS_MIN, shortage: None };
        let mut allow = |sockets: usize, limit: SocketLimit| {
            plan.count = plan.count.min(sockets.max(SOCKETS_MIN));
            plan.fall_short(self.paths, plan.count, limit);
        };
        let addresses = 1 + self.others.len().min(ADDRESSES_MAX - 1);
        allow(SOCKETS_MAX / addresses, SocketLimit::Addresses { count: addresses });
        if self.port != 0 && !self.scattered {
            let numbers = 65_536 - usize::from(self.port);
            allow(numbers / self.engines, SocketLimit::PortNumbers { first: self.port });
        }
        if let Some((limit, in_use)) = descriptors().filter(|_| wanted > SOCKETS_MIN) {
            // A quarter of what is left is the application's.
            let free = limit.saturating_sub(in_use) / 4 * 3;
            let each = free / (DESCRIPTORS_EACH * (self.engines * addresses) as u64);
            let each = usize::try_from(each).unwrap_or(usize::MAX);
            allow(each, SocketLimit::Descriptors { limit, in_use });
        }
        if !self.others.is_empty() {
            // All addresses have the same numbers, so all sockets are opened together.
            plan.required = plan.count;
        }
        plan
    }

    /// Opens the sockets of an engine.
    pub(super) fn open_engine(
        &self,
        engine: usize,
        plan: &mut SocketPlan,
        wrap: &mut impl FnMut(UdpPort) -> io::Result<Box<dyn fairway_port::Datapath>>,
    ) -> Result<(Io, Ports), Error> {
        let first = usize::from(self.port) + engine * plan.count;
        let first_port = match self.port {
            0 => 0,
            _ => u16::try_from(first).map_err(|_| Error::Parameter {
                name: "port",
                value: self.port.to_string(),
                remedy: "use one that leaves numbers below 65536 for the sockets of all engines",
            })?,
        };
        let mut opened = self.open_sockets(first_port, plan.required);
        for _ in 1..NUMBERS_TRIED {
            // A number that is free at one address may be in use at another.
            if !self.others.is_empty() && is_taken(&opened) {
                opened = self.open_sockets(first_port, plan.required);
            }
        }
        let mut port = opened.map_err(|error| Error::io("open the sockets", error))?;
        let mut sockets = plan.required;
        while sockets < plan.count {
            let number = if self.scattered || first_port == 0 { 0 } else { first + sockets };
            let number = number as u16;
            if let Err(error) = add_like_first(&mut port, number) {
                let limit = SocketLimit::Refused { port: number, kind: error.kind() };
                plan.fall_short(self.paths, sockets, limit);
                break;
            }
            sockets += 1;
        }
        // Frames past the kernel's network stack have no stamps, so their context has none at all.
        if self.datapath != Some(DatapathKind::Xdp) {
            let refused = |error| Error::io("have the kernel stamp packets", error);
            port.stamp_arrivals().map_err(refused)?;
        }
        let first = port.local_addrs().iter().take(sockets);
        let numbers: Vec<u16> = first.map(SocketAddr::port).collect();
        let ports = Ports::new(&numbers).ok_or_else(|| Error::Parameter {
            name: "sockets",
            value: sockets.to_string(),
            remedy: "use 1 to 16",
        })?;
        let datapath = wrap(port).map_err(|error| {
            let doing = match self.datapath {
                Some(DatapathKind::Xdp) => "open AF_XDP sockets",
                Some(kind) if kind.is_over_rnic() => "use an RDMA NIC",
                _ => "share memory with peers",
            };
            Error::io(doing, error)
        })?;
        let io = open_io(engine as u32, datapath).with_dscp(self.dscp.unwrap_or_default());
        Ok((io, ports))
    }

    /// Opens so many sockets at each address of an engine, on consecutive or scattered ports. If no
    /// address was requested the sockets accept both families, or only IPv4 if the host has no
    /// IPv6.
    fn open_sockets(&self, first_port: u16, sockets: usize) -> io::Result<UdpPort> {
        match self.bind {
            Some(bind) => self.open_sockets_at(bind, first_port, sockets),
            None => {
                let open = |bind: IpAddr| self.open_sockets_at(bind, first_port, sockets);
                open(Ipv6Addr::UNSPECIFIED.into()).or_else(|error| match error.kind() {
                    // Another program uses the port; falling back to IPv4 would not change that.
                    io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
                    _ => open(Ipv4Addr::UNSPECIFIED.into()),
                })
            }
        }
    }

    /// Opens the sockets at one address, and then those at each further address.
    fn open_sockets_at(
        &self,
        bind: IpAddr,
        first_port: u16,
        sockets: usize,
    ) -> io::Result<UdpPort> {
        let buffer_bytes = self.buffer_bytes;
        let is_open = bind == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        // The scope of a link-local address is part of it, as for the other addresses.
        let mut port = match is_open {
            true => UdpPort::bind(&UdpConfig { bind, first_port, sockets: 1, buffer_bytes })?,
            false => UdpPort::bind_one(with_scope(bind, first_port), buffer_bytes)?,
        };
        for index in 1..sockets {
            let is_any = self.scattered || first_port == 0;
            let number = if is_any { 0 } else { usize::from(first_port) + index };
            let past = |_| {
                let text = format!(
                    "{sockets} ports from {first_port} on are past 65535: use a lower first port"
                );
                io::Error::new(io::ErrorKind::InvalidInput, text)
            };
            add_like_first(&mut port, u16::try_from(number).map_err(past)?)?;
        }
        for other in self.others.iter().take(ADDRESSES_MAX - 1) {
            for index in 0..sockets {
                let mut address = *other;
                address.set_port(port.local_addrs()[index].port());
                port.add_socket(address)?;
            }
        }
        Ok(port)
    }
}

/// Opens one more socket, at the address of the first one. `number` 0: on any port.
fn add_like_first(port: &mut UdpPort, number: u16) -> io::Result<()> {
    let mut address = port.local_addrs()[0];
    address.set_port(number);
    match address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        true => port.add_open_socket(number)?,
        false => port.add_socket(address)?,
    };
    Ok(())
}

fn is_taken<T>(opened: &io::Result<T>) -> bool {
    opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}
