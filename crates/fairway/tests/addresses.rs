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

/// Two hosts with a cable; the client has these addresses, and the server those.
fn network(label: &str, client: &[&str], server: &[&str]) -> Option<Hosts<2>> {
    let network = Hosts::<2>::named(label, ["a", "b"]);
    let [a, b] = &network.names;
    let has = |host: &str, addresses: &[&str]| {
        addresses.iter().all(|address| {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            run(&format!("-n {host} addr add {address} dev wire{nodad}"))
        })
    };
    let made = network.create()
        && run(&format!("-n {a} link add wire type veth peer name wire netns {b}"))
        && [a, b].into_iter().all(|host| run(&format!("-n {host} link set wire up")))
        && has(a, client)
        && has(b, server);
    if !made {
        superuser::skip("hosts with several addresses in network namespaces");
    }
    made.then_some(network)
}

fn context(network: &Hosts<2>, host: usize) -> Context {
    network.inside(host, || of_all_addresses().port(4700).build().unwrap())
}

#[test]
fn second_addresses_of_an_interface_are_reached() {
    let server = ["192.0.2.2/24", "192.0.2.3/24", "2001:db8::2/64", "2001:db8::3/64"];
    let client = ["192.0.2.1/24", "2001:db8::1/64"];
    let Some(network) = network("reached", &client, &server) else { return };
    let (client, server) = (context(&network, 0), context(&network, 1));
    let addresses =
        ["192.0.2.2:4700", "192.0.2.3:4700", "[2001:db8::2]:4700", "[2001:db8::3]:4700"]
            .map(|text| text.parse().unwrap());
    network.inside(0, || reach(&client, &server, &addresses));
}

/// As temporary addresses, which the system prefers for a day.
#[test]
fn connection_outlasts_the_preference_for_its_source_address() {
    let client = ["2001:db8::1/64", "2001:db8::11/64"];
    let Some(network) = network("preferred", &client, &["2001:db8::2/64"]) else { return };
    let (client, server) = (context(&network, 0), context(&network, 1));
    let to: SocketAddr = "[2001:db8::2]:4700".parse().unwrap();
    network.inside(0, || {
        let peer = client.connect(to, TIMEOUT).unwrap();
        let Event::Connected(back) = server.wait_event(TIMEOUT).unwrap() else { panic!("not it") };
        let client = side(client.clone(), peer);
        let (local, remote) = (client.filled(BYTES, 5), side_segment(&server));
        let source = back.address().ip();
        let old = format!("{source}/64 dev wire");
        assert!(run(&format!("-n {} addr change {old} preferred_lft 0", network.names[0])));
        let chosen = std::net::UdpSocket::bind("[::]:0").unwrap();
        chosen.connect(to).unwrap();
        assert_ne!(chosen.local_addr().unwrap().ip(), source, "the system prefers another one");
        client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
        let _ = client.succeed();
        assert_eq!(content(&remote), content(&local));
    });
}

#[test]
fn context_outlasts_an_address_that_is_taken_away() {
    // The system prefers the first address of IPv4 that it was given, and the last of IPv6.
    for (client, all, kept, gone) in [
        ("192.0.2.1/24", ["192.0.2.2/24", "192.0.2.3/24"], "192.0.2.2/24", "192.0.2.3/24"),
        (
            "2001:db8::1/64",
            ["2001:db8::2/64", "2001:db8::3/64"],
            "2001:db8::3/64",
            "2001:db8::2/64",
        ),
    ] {
        let Some(network) = network("gone", &[client], &all) else { return };
        let (client, server) = (context(&network, 0), context(&network, 1));
        let at = |address: &str| {
            let ip: IpAddr = address.split('/').next().unwrap().parse().unwrap();
            SocketAddr::new(ip, 4700)
        };
        network.inside(0, || {
            for (to, is_gone) in [(gone, true), (kept, false)] {
                let peer = client.connect(at(to), TIMEOUT).unwrap();
                let event = server.wait_event(TIMEOUT).unwrap();
                let Event::Connected(back) = event else { panic!("{event:?}") };
                let (near, far) = (side(client.clone(), peer), side(server.clone(), back));
                if is_gone {
                    assert!(run(&format!("-n {} addr del {to} dev wire", network.names[1])));
                    // The packets of this WRITE would leave from the address that is gone.
                    let taken = side_segment(&client);
                    network.inside(1, || {
                        let local = far.filled(BYTES, 6);
                        far.jetty.write(&far.peer, &local, taken.key(), 1).unwrap();
                    });
                    continue;
                }
                let (local, exposed) = (near.filled(BYTES, 7), side_segment(&server));
                for id in 0..50 {
                    near.jetty.write(&near.peer, &local, exposed.key(), id).unwrap();
                    let _ = near.succeed();
                }
                assert_eq!(content(&exposed), content(&local));
            }
        });
        let port = server.counters().port;
        assert_eq!(port.gso_fallbacks, 0, "trains are still sent in one call");
        assert!(port.icmp_errors > 0, "packets had no source");
    }
}
