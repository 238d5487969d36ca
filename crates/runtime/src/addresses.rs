//! Addresses of this host and of others.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use fairway_port::is_local;

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

/// True if the address belongs to this host, according to the kernel's routes. (Whether it can be
/// bound is no answer: with `net.ipv4.ip_nonlocal_bind` every address can.)
///
/// # Errors
/// The process has no file descriptor left.
pub fn is_of_this_host(address: SocketAddr) -> io::Result<bool> {
    match is_local(address) {
        Err(error) if !lacks_descriptors(&error) => can_be_bound(address),
        answer => answer,
    }
}

/// The answer where the kernel's routes cannot be read.
fn can_be_bound(mut address: SocketAddr) -> io::Result<bool> {
    address.set_port(0);
    match UdpSocket::bind(address) {
        Err(error) if lacks_descriptors(&error) => Err(error),
        bound => Ok(bound.is_ok()),
    }
}

fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_another_host_that_can_be_bound_is_not_of_this_host() {
        let elsewhere: SocketAddr = "198.51.100.1:4791".parse().unwrap();
        let answer = std::thread::spawn(move || {
            // SAFETY: has no conditions, and concerns this thread alone.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return None;
            }
            std::fs::write("/proc/sys/net/ipv4/ip_nonlocal_bind", "1").ok()?;
            UdpSocket::bind(elsewhere).expect("every address can be bound");
            Some(is_of_this_host(elsewhere).unwrap())
        });
        match answer.join().unwrap() {
            Some(is_of_this_host) => assert!(!is_of_this_host),
            None => eprintln!("SKIPPED: the network namespace needs the superuser"),
        }
        assert!(!is_of_this_host(elsewhere).unwrap());
        assert!(is_of_this_host("127.0.0.2:1".parse().unwrap()).unwrap());
    }
}
