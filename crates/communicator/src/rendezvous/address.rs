//! At which addresses a host listens and is reached, by the name of the rendezvous.
//!
//! Some systems give the host's own name an address of the loopback interface (Debian: 127.0.1.1),
//! at which no other host reaches it.

use crate::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};

/// Flag of an interface that is up (netdevice(7)).
const IFF_UP: u32 = 1;

/// Listens where a name says; at all addresses if that is on the loopback interface, unless the
/// loopback interface was meant.
pub(super) fn listen(name: &str) -> io::Result<TcpListener> {
    match is_shadowed(name) {
        true => listen_everywhere(name),
        false => TcpListener::bind(name),
    }
}

fn listen_everywhere(name: &str) -> io::Result<TcpListener> {
    let port = name.to_socket_addrs()?.next().map_or(0, |address| address.port());
    // On Linux an IPv6 socket takes connections of IPv4, too, unless the system forbids it.
    let all: [IpAddr; 2] = [[0; 16].into(), [0; 4].into()];
    TcpListener::bind(&all.map(|any| SocketAddr::new(any, port))[..])
}

/// True if the name of a host, as host and port, has an address of the loopback interface here.
/// False for `localhost`, and for addresses.
pub(super) fn is_shadowed(name: &str) -> bool {
    let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
    let addresses = name.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    addresses.is_ok_and(|addresses| names_other_hosts(host, &addresses))
}

/// True if the host has an address of the loopback interface, and its name is not that of the
/// interface.
fn names_other_hosts(host: &str, addresses: &[SocketAddr]) -> bool {
    let host = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
    let is_loopback = host.parse::<IpAddr>().is_ok()
        || host == "localhost"
        || host.starts_with("localhost.")
        || host.ends_with(".localhost")
        || host.starts_with("ip6-");
    !is_loopback && addresses.iter().any(|address| address.ip().is_loopback())
}

/// The address of this host at which other hosts reach it: the one from which it reaches `name`, a
/// host and a port; `None` if there is no way there. Nothing is sent.
///
/// # Errors
/// The name has an address of the loopback interface here, as Debian gives it to the host's own
/// name, and the host has several others.
pub fn address_towards(name: &str) -> Result<Option<IpAddr>, Error> {
    match towards(name) {
        Ok(own) if own.is_loopback() && is_shadowed(name) => outside(own).map(Some),
        found => Ok(found.ok()),
    }
}

/// The address from which this host reaches the first address of a name to which it has a way.
pub(super) fn towards(name: &str) -> io::Result<IpAddr> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in name.to_socket_addrs()? {
        match source(address) {
            Ok(own) => return Ok(own),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn source(address: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if address.is_ipv6() { [0; 16].into() } else { [0; 4].into() };
    let socket = UdpSocket::bind((any, 0))?;
    // Nothing is sent.
    socket.connect(address)?;
    Ok(socket.local_addr()?.ip())
}

/// An address of this host at which others reach it: that of the default route, or its only one. A
/// host that has only `loopback` has no others.
pub(super) fn outside(loopback: IpAddr) -> Result<IpAddr, Error> {
    // An address for documentation, which no host has (RFC 5737).
    if let Ok(own) = source((Ipv4Addr::new(192, 0, 2, 1), 9).into())
        && !own.is_loopback()
    {
        return Ok(own);
    }
    // Without the list, the loopback interface is all that is known.
    let all = fairway::interface_addresses().unwrap_or_default();
    let up = all.into_iter().filter(|one| one.flags & IFF_UP != 0);
    choose(loopback, &up.map(|one| one.address).collect::<Vec<_>>())
}

/// Chooses among the addresses of this host's interfaces.
fn choose(loopback: IpAddr, addresses: &[IpAddr]) -> Result<IpAddr, Error> {
    let of_family = |is_ipv4: bool| {
        let fits = move |address: &&IpAddr| {
            !address.is_loopback() && address.is_ipv4() == is_ipv4 && !is_link_local(**address)
        };
        addresses.iter().filter(fits).copied().collect::<Vec<_>>()
    };
    let found = [of_family(true), of_family(false)].into_iter().find(|found| !found.is_empty());
    match found.as_deref() {
        None => Ok(loopback),
        Some([only]) => Ok(*only),
        Some(several) => Err(Error::Rendezvous(format!(
            "the name of rank 0 is {loopback} here, at which no other host reaches this one, and \
             it has the addresses {}: bind the one that the other ranks can reach",
            several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        ))),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn name_with_an_address_of_the_loopback_interface_is_that_of_a_host_for_others() {
        let at = |text: &str| vec![SocketAddr::new(address(text), 1)];
        assert!(names_other_hosts("host1", &at("127.0.1.1")));
        assert!(names_other_hosts("host1", &[at("10.0.0.1"), at("127.0.1.1")].concat()));
        assert!(!names_other_hosts("host1", &at("10.0.0.1")));
        for loopback in ["localhost", "LocalHost.", "x.localhost", "127.0.0.1", "ip6-localhost"] {
            assert!(!names_other_hosts(loopback, &at("127.0.0.1")), "{loopback}");
        }
        assert!(!names_other_hosts("[::1]", &at("::1")));
    }

    #[test]
    fn only_address_of_a_host_is_the_one_for_others() {
        let own = address("127.0.0.1");
        let choose = |texts: &[&str]| {
            let addresses: Vec<_> = texts.iter().map(|text| address(text)).collect();
            choose(own, &addresses).map_err(|error| error.to_string())
        };
        assert_eq!(choose(&["127.0.0.1", "::1", "fe80::1"]), Ok(own), "there are no others");
        assert_eq!(choose(&["127.0.0.1", "10.0.0.1", "fd00::1"]), Ok(address("10.0.0.1")));
        assert_eq!(choose(&["127.0.0.1", "fd00::1"]), Ok(address("fd00::1")));
        let error = choose(&["127.0.0.1", "10.0.0.1", "10.1.0.1"]).unwrap_err();
        assert!(error.contains("127.0.0.1") && error.contains("10.1.0.1"), "{error}");
    }

    #[test]
    fn host_listens_everywhere_if_its_name_is_shadowed() {
        let own = listen_everywhere("127.0.0.1:0").expect("a port").local_addr().expect("bound");
        assert!(own.ip().is_unspecified(), "{own}");
        let own = listen("localhost:0").expect("a port").local_addr().expect("bound");
        assert!(own.ip().is_loopback(), "{own}");
    }
}
