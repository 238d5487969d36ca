//! Hosts with several addresses: a context at all of them answers from the one that was reached.
//!
//! The test of IPv6 requires the superuser and the `ip` tool: its hosts are network namespaces.

mod common;
#[path = "common/hosts.rs"]
mod hosts;
#[path = "common/superuser.rs"]
mod superuser;

use std::net::{IpAddr, SocketAddr};

use common::{TIMEOUT, content, engines, side};
use fairway::{Builder, Context, Event};
use hosts::{Hosts, run};

const BYTES: usize = 1 << 18;

/// Connects to `server` at every one of `addresses`, and writes to it over all connections by
/// turns.
fn reach(client: &Context, server: &Context, addresses: &[SocketAddr]) {
    let peers: Vec<_> = addresses
        .iter()
        .map(|to| client.connect(*to, TIMEOUT).unwrap_or_else(|error| panic!("{to}: {error}")))
        .collect();
    for _ in addresses {
        let event = server.wait_event(TIMEOUT).unwrap();
        assert!(matches!(event, Event::Connected(_)), "{event:?}");
    }
    for round in 0..3 {
        for peer in &peers {
            let client = side(client.clone(), peer.clone());
            let (local, remote) = (client.filled(BYTES, round), side_segment(server));
            client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
            let _ = client.succeed();
            assert_eq!(content(&remote), content(&local));
        }
    }
    for (peer, address) in peers.iter().zip(addresses) {
        assert_eq!(peer.address(), *address);
    }
}

fn side_segment(server: &Context) -> fairway::Segment {
    let memory = fairway::Memory::zeroed(BYTES).unwrap();
    server.register(memory, fairway::Rights::ALL).unwrap()
}

fn of_all_addresses() -> Builder {
    Context::builder().buffer_bytes(1 << 20).engines(engines())
}

#[test]
fn context_of_all_addresses_is_reached_at_each_of_them() {
    for any in ["0.0.0.0", "::"] {
        let any: IpAddr = any.parse().unwrap();
        let (client, server) = (
            of_all_addresses().bind(any).build().unwrap(),
            of_all_addresses().bind(any).build().unwrap(),
        );
        let port = server.local_addrs()[0].port();
        let at = |last| SocketAddr::from(([127, 0, 0, last], port));
        reach(&client, &server, &[at(3), at(1), at(2)]);
    }
}

#[test]
fn second_addresses_of_an_interface_are_reached() {
    let network = Hosts::<2>::named("addresses", ["a", "b"]);
    let [a, b] = &network.names;
    let address = |host: &str, address: &str| {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        run(&format!("-n {host} addr add {address} dev wire{nodad}"))
    };
    let made = network.create()
        && run(&format!("-n {a} link add wire type veth peer name wire netns {b}"))
        && [a, b].into_iter().all(|host| run(&format!("-n {host} link set wire up")))
        && address(a, "192.0.2.1/24")
        && address(a, "2001:db8::1/64")
        && ["192.0.2.2/24", "192.0.2.3/24", "2001:db8::2/64", "2001:db8::3/64"]
            .iter()
            .all(|second| address(b, second));
    if !made {
        superuser::skip("hosts with several addresses in network namespaces");
        return;
    }
    let build = || of_all_addresses().port(4700).build().unwrap();
    let (client, server) = (network.inside(0, build), network.inside(1, build));
    let addresses =
        ["192.0.2.2:4700", "192.0.2.3:4700", "[2001:db8::2]:4700", "[2001:db8::3]:4700"]
            .map(|text| text.parse().unwrap());
    network.inside(0, || reach(&client, &server, &addresses));
}
