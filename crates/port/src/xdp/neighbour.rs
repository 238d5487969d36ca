//! The way to an address, as the kernel's tables of routes and neighbours have it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use crate::udp::route::{
    ROUTE_HEADER, ask, body, find, netlink, number, octets, put, question, request,
};

/// `RTN_UNICAST` of `linux/rtnetlink.h`: a route to another host.
const UNICAST: u8 = 1;
/// Place of the route's type in its header.
const ROUTE_TYPE: usize = 7;
/// Attributes and states of `linux/neighbour.h`.
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NEIGHBOUR_HEADER: usize = 12;
/// Place of the state in the header.
const STATE: usize = 8;
const REACHABLE: u16 = 0x02;
const STALE: u16 = 0x04;
const DELAY: u16 = 0x08;
const PROBE: u16 = 0x10;
const NOARP: u16 = 0x40;
const PERMANENT: u16 = 0x80;
/// States in which the address is known.
const KNOWN: u16 = REACHABLE | STALE | DELAY | PROBE | NOARP | PERMANENT;
/// States in which the kernel has proven it lately, or need not.
const PROVEN: u16 = REACHABLE | NOARP | PERMANENT;

/// The first host on the way to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the interface.
    pub interface: u32,
    /// The host's Ethernet address; `None`: the kernel does not know it. It finds it out once
    /// something is sent there through a socket.
    pub mac: Option<[u8; 6]>,
    /// False if the kernel has not heard of the host for a while. It asks again once something is
    /// sent there through a socket.
    pub proven: bool,
}

/// Access to the tables of the network namespace in which it was opened, whichever thread uses it.
#[derive(Debug)]
pub struct Tables {
    socket: OwnedFd,
}

impl Tables {
    /// Opens the tables of this thread's network namespace.
    ///
    /// # Errors
    /// The kernel refuses another descriptor.
    pub fn open() -> io::Result<Tables> {
        Ok(Tables { socket: netlink()? })
    }

    /// Returns the first host on the way from `local` to `remote`. `None`: the way does not lead
    /// through one interface to one other host.
    ///
    /// # Errors
    /// There is no route, or the kernel does not answer.
    pub fn next_hop(&self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Hop>> {
        next_hop(&self.socket, local, remote)
    }
}

fn next_hop(socket: &OwnedFd, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Hop>> {
    let answer = ask(socket, &question(local, remote, 0))?;
    let route = body(&answer)?;
    let attributes = route.get(ROUTE_HEADER..).unwrap_or_default();
    let interface = find(attributes, libc::RTA_OIF).and_then(number);
    let (Some(interface), Some(&UNICAST)) = (interface, route.get(ROUTE_TYPE)) else {
        return Ok(None);
    };
    let gateway = match find(attributes, libc::RTA_GATEWAY) {
        None => remote.ip(),
        Some(bytes) => match ip(bytes) {
            Some(ip) => ip,
            None => return Ok(None),
        },
    };
    let unknown = Hop { interface, mac: None, proven: false };
    let answer = ask(socket, &neighbour_question(interface, gateway))?;
    match body(&answer) {
        Ok(neighbour) => Ok(Some(Hop { interface, ..hop(neighbour).unwrap_or(unknown) })),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Some(unknown)),
        Err(error) => Err(error),
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(*bytes.first_chunk()?).into()),
        16 => Some(Ipv6Addr::from(*bytes.first_chunk()?).into()),
        _ => None,
    }
}

fn neighbour_question(interface: u32, address: IpAddr) -> Vec<u8> {
    let family = if address.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    let mut message = vec![family as u8, 0, 0, 0];
    message.extend(interface.to_ne_bytes());
    message.resize(NEIGHBOUR_HEADER, 0);
    put(&mut message, NDA_DST, &octets(address));
    request(libc::RTM_GETNEIGH, &message)
}

fn hop(neighbour: &[u8]) -> Option<Hop> {
    let state = u16::from_ne_bytes(*neighbour.get(STATE..)?.first_chunk()?);
    let mac = find(neighbour.get(NEIGHBOUR_HEADER..)?, NDA_LLADDR)?;
    let mac = <[u8; 6]>::try_from(mac).ok()?;
    let known = state & KNOWN != 0;
    Some(Hop { interface: 0, mac: known.then_some(mac), proven: state & PROVEN != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_not_behind_an_interface() {
        let here: SocketAddr = "127.0.0.1:9".parse().unwrap();
        assert_eq!(Tables::open().unwrap().next_hop(here, here).unwrap(), None);
    }

    #[test]
    fn cut_answers_name_no_host() {
        let mut answer = vec![0; NEIGHBOUR_HEADER];
        answer[STATE..STATE + 2].copy_from_slice(&REACHABLE.to_ne_bytes());
        put(&mut answer, NDA_LLADDR, &[2, 0, 0, 0, 0, 1]);
        let whole = hop(&answer).unwrap();
        assert_eq!((whole.mac, whole.proven), (Some([2, 0, 0, 0, 0, 1]), true));
        for length in 0..answer.len() - 2 {
            assert_eq!(hop(&answer[..length]), None, "{length}");
        }
        answer[STATE..STATE + 2].copy_from_slice(&0_u16.to_ne_bytes());
        assert_eq!(hop(&answer).unwrap().mac, None, "in no state that has an address");
    }
}
