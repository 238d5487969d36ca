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
    let table = interface_table()?;
    interfaces(&table).find(|(own, _)| *own == address).map(|(_, interface)| interface)
}

/// True if the interface that has an IPv6 address has another one that packets to other networks
/// may leave from: the system prefers each temporary address (RFC 8981) for a day only.
pub fn has_alternative(address: Ipv6Addr) -> bool {
    interface_table().is_some_and(|table| alternative_in(&table, address))
}

fn alternative_in(table: &str, address: Ipv6Addr) -> bool {
    let mut own = interfaces(table).filter(|(own, _)| *own == address).map(|(_, link)| link);
    own.next().is_some_and(|link| {
        interfaces(table)
            .any(|(other, its)| its == link && other != address && !other.is_unicast_link_local())
    })
}

/// Returns the link (the index of an interface) that leads to a link-local address: the one that
/// has the address, or else the only one of this host that has any. `None` if there are several.
pub fn link_towards(address: Ipv6Addr) -> Option<u32> {
    link_in(&interface_table()?, address)
}

fn link_in(table: &str, address: Ipv6Addr) -> Option<u32> {
    let all = || interfaces(table).filter(|(own, _)| own.is_unicast_link_local());
    let mut own = all().filter(|(own, _)| *own == address).map(|(_, link)| link).peekable();
    match own.peek() {
        Some(_) => sole(own),
        None => sole(all().map(|(_, link)| link)),
    }
}

/// Returns the link that all of `links` are. `None` if there is none, or several.
pub fn sole(mut links: impl Iterator<Item = u32>) -> Option<u32> {
    let first = links.next()?;
    links.all(|link| link == first).then_some(first)
}

/// The IPv6 addresses of this host, as the kernel lists them. Threads may be in different network
/// namespaces.
fn interface_table() -> Option<String> {
    std::fs::read_to_string("/proc/thread-self/net/if_inet6").ok()
}

/// The addresses in the kernel's list, each with the index of its interface.
fn interfaces(table: &str) -> impl Iterator<Item = (Ipv6Addr, u32)> {
    table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = u128::from_str_radix(words.next()?, 16).ok()?;
        Some((Ipv6Addr::from(address), u32::from_str_radix(words.next()?, 16).ok()?))
    })
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

    const LOOPBACK: &str = "00000000000000000000000000000001 01 80 10 80       lo\n";
    const GLOBAL: &str = "20010db8000000000000000000000001 03 40 00 80     eth1\n";
    const FIRST: &str = "fe800000000000000000000000000001 02 40 20 80     eth0\n";
    const SECOND: &str = "fe800000000000000000000000000002 0a 40 20 80     eth2\n";

    #[test]
    fn link_of_a_link_local_address_is_its_own_or_the_only_one() {
        let far = "fe80::9".parse().unwrap();
        let one = [LOOPBACK, GLOBAL, FIRST].concat();
        assert_eq!(link_in(&one, far), Some(2), "the only link");
        let two = [&one, SECOND].concat();
        assert_eq!(link_in(&two, far), None, "either link may lead there");
        assert_eq!(link_in(&two, "fe80::2".parse().unwrap()), Some(10), "an own address");
        let both = [FIRST, &FIRST.replace(" 02 ", " 04 ")].concat();
        assert_eq!(link_in(&both, "fe80::1".parse().unwrap()), None, "own on two links");
        assert_eq!(link_in(LOOPBACK, far), None, "no link");
        assert_eq!(link_in("fe80 is no line\n\n", far), None);
    }

    #[test]
    fn alternative_is_another_address_of_the_interface_that_is_not_link_local() {
        let address = "2001:db8::1".parse().unwrap();
        let link_local = FIRST.replace(" 02 ", " 03 ");
        let temporary = GLOBAL.replace("0001 03", "00aa 03");
        let elsewhere = GLOBAL.replace("0001 03", "00aa 04");
        for (other, expected) in [(link_local, false), (elsewhere, false), (temporary, true)] {
            let table = [LOOPBACK, GLOBAL, &other].concat();
            assert_eq!(alternative_in(&table, address), expected, "{table}");
        }
        assert!(!alternative_in(LOOPBACK, address), "not of this host");
    }

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
