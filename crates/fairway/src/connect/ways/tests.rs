use super::*;
use std::net::{Ipv6Addr, SocketAddrV6};

#[test]
fn another_port_of_a_link_local_address_is_on_the_same_link() {
    let ip: Ipv6Addr = "fe80::1".parse().unwrap();
    let from = SocketAddr::V6(SocketAddrV6::new(ip, 4800, 0, 7));
    assert_eq!(with_port(from, 4801), SocketAddr::V6(SocketAddrV6::new(ip, 4801, 0, 7)));
}
