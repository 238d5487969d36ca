//! Addresses of this host and of others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

/// A port that need not be open, because nothing is sent to it.
const ANY_PORT: u16 = 4791;

/// Returns the socket address, including the link of a link-local address, which is needed to bind
/// it.
pub fn with_scope(ip: IpAddr, port: u16) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, interface_of(v6).unwrap_or(0)).into()
        }
        _ => SocketAddr::new(ip, port),
    }
}

/// Returns the address from which packets to `to` would be sent.
pub fn source_towards(mut to: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    to.set_port(ANY_PORT);
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Returns the index of the interface that has an address.
fn interface_of(address: Ipv6Addr) -> Option<u32> {
    let wanted = format!("{:032x}", u128::from(address));
    let table = std::fs::read_to_string("/proc/self/net/if_inet6").ok()?;
    let line = table.lines().find(|line| line.starts_with(&wanted))?;
    u32::from_str_radix(line.split_whitespace().nth(1)?, 16).ok()
}

/// True if the address belongs to this host: only such addresses can be bound.
pub fn is_of_this_host(address: SocketAddr) -> bool {
    let mut address = address;
    address.set_port(0);
    UdpSocket::bind(address).is_ok()
}
