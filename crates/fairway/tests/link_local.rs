//! Link-local addresses of IPv6, which mean nothing without their link.
//!
//! The tests require the superuser and the `ip` tool: their hosts are network namespaces.

mod common;
#[path = "common/hosts.rs"]
mod hosts;
#[path = "common/superuser.rs"]
mod superuser;

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use common::{Side, TIMEOUT, content, engines, side};
use fairway::{Builder, Context, Error, Event};
use hosts::{Hosts, run};

/// Two hosts with a cable, and only link-local addresses.
type Network = Hosts<2>;

const CLIENT: usize = 0;
const SERVER: usize = 1;

const PORT: u16 = 4700;

fn address(host: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1 + host as u16)
}

impl Network {
    /// Creates the network. Returns `None`, and prints a line, if that is not possible here.
    fn new(label: &str) -> Option<Network> {
        let network = Hosts::named(label, ["a", "b"]);
        let made = network.create() && network.connect("wire") && network.name(SERVER);
        if !(made && network.name(CLIENT)) {
            superuser::skip("hosts with link-local addresses in network namespaces");
            return None;
        }
        Some(network)
    }

    /// Adds a cable between the two hosts.
    fn connect(&self, name: &str) -> bool {
        let [a, b] = &self.names;
        run(&format!("-n {a} link add {name} type veth peer name {name} netns {b}"))
            && [a, b].into_iter().all(|host| {
                run(&format!("-n {host} link set {name} addrgenmode none"))
                    && run(&format!("-n {host} link set {name} up"))
            })
    }

    /// Gives a host its address on the first cable.
    fn name(&self, host: usize) -> bool {
        let (name, address) = (&self.names[host], address(host));
        run(&format!("-n {name} addr add {address}/64 dev wire nodad"))
    }

    fn context(&self, host: usize, settings: impl FnOnce(Builder) -> Builder + Send) -> Context {
        let builder = Context::builder().port(PORT).buffer_bytes(1 << 20).engines(engines());
        self.inside(host, || settings(builder).build().unwrap())
    }

    /// Connects and executes a WRITE. Returns the address of the server, as the client has it.
    fn demand_data(&self, client: Context, server: Context, to: SocketAddr) -> SocketAddr {
        let peer = self.inside(CLIENT, || client.connect(to, TIMEOUT).unwrap());
        let address = peer.address();
        let Event::Connected(back) = self.inside(SERVER, || server.wait_event(TIMEOUT).unwrap())
        else {
            panic!("something happened before the connection");
        };
        let (client, server): (Side, Side) = (side(client, peer), side(server, back));
        let (local, remote) = (client.filled(1 << 16, 1), server.open_segment(1 << 16));
        client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
        let _ = self.inside(CLIENT, || client.succeed());
        assert_eq!(content(&remote), content(&local));
        assert!(client.peer.was_received() && server.peer.was_received());
        address
    }
}

fn any(builder: Builder) -> Builder {
    builder
}

/// The server's address with a link of the client; 0: with none.
fn server_on(link: u32) -> SocketAddr {
    SocketAddrV6::new(address(SERVER), PORT, 0, link).into()
}

#[test]
fn contexts_at_all_addresses_reach_each_other_over_the_only_link() {
    let Some(network) = Network::new("ll-any") else { return };
    let (client, server) = (network.context(CLIENT, any), network.context(SERVER, any));
    let SocketAddr::V6(named) = network.demand_data(client, server, server_on(0)) else {
        panic!("it is an IPv6 address");
    };
    assert_ne!(named.scope_id(), 0, "it was completed");
}

#[test]
fn contexts_bound_to_link_local_addresses_reach_each_other() {
    let Some(network) = Network::new("ll-bound") else { return };
    let at = |host| network.context(host, |builder| builder.bind(IpAddr::V6(address(host))));
    let (client, server) = (at(CLIENT), at(SERVER));
    network.demand_data(client, server, server_on(0));
}

#[test]
fn address_without_a_link_is_refused_where_there_are_several() {
    let Some(network) = Network::new("ll-two") else { return };
    assert!(network.connect("other"));
    assert!(run(&format!("-n {} addr add fe80::5/64 dev other nodad", network.names[CLIENT])));
    let (client, server) = (network.context(CLIENT, any), network.context(SERVER, any));
    let refused = network.inside(CLIENT, || client.connect(server_on(0), TIMEOUT).unwrap_err());
    assert!(matches!(refused, Error::Parameter { name: "address", .. }), "{refused}");
    assert!(refused.to_string().contains("several links"), "{refused}");
    // SAFETY: the name is a C string.
    let link = network.inside(CLIENT, || unsafe { libc::if_nametoindex(c"wire".as_ptr()) });
    assert_eq!(network.demand_data(client, server, server_on(link)), server_on(link));
}
