use super::*;
use std::net::{Ipv6Addr, SocketAddrV6};

#[test]
fn another_port_of_a_link_local_address_is_on_the_same_link() {
    let ip: Ipv6Addr = "fe80::1".parse().unwrap();
    let from = SocketAddr::V6(SocketAddrV6::new(ip, 4800, 0, 7));
    assert_eq!(with_port(from, 4801), SocketAddr::V6(SocketAddrV6::new(ip, 4801, 0, 7)));
}

/// `fe80::9` on a link, or on none.
fn far(link: u32) -> SocketAddr {
    SocketAddrV6::new("fe80::9".parse().unwrap(), 4800, 0, link).into()
}

#[test]
fn link_local_address_without_a_link_is_on_that_of_the_local_sockets() {
    assert_eq!(with_link(far(0), [7, 7].into_iter()), Some(far(7)));
    assert_eq!(with_link(far(0), [7, 8].into_iter()), None, "there are several");
    assert_eq!(with_link(far(3), [7, 8].into_iter()), Some(far(3)), "it has one");
    for other in ["192.0.2.1:1", "[2001:db8::1]:1"] {
        let other = other.parse().unwrap();
        assert_eq!(with_link(other, [7].into_iter()), Some(other), "it needs none");
    }
}
