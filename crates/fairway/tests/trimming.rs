//! Packets whose payload a switch has cut off, live: the datapath xdp recognises them, the engine
//! resends what they lack, and forged ones change nothing.
//!
//! Two hosts, and a switch between them that trims, are network namespaces, which requires the
//! superuser and the `ip` tool. The switch is a thread of the test, which passes frames on.

mod common;
#[path = "common/hosts.rs"]
mod hosts;
#[path = "common/superuser.rs"]
mod superuser;
#[path = "common/switch.rs"]
mod switch;

use std::net::IpAddr;
use std::time::Instant;

use common::{Pair, Side, TIMEOUT, content, exercise, side};
use fairway::{Builder, Context, Counters, DatapathKind, Event};
use hosts::{Hosts, run};
use switch::{Switch, inject, set_offloads};

const CLIENT: usize = 0;
const SERVER: usize = 1;
const SWITCH: usize = 2;

/// Two hosts, each with an interface `wire`, and a switch between them.
type Network = Hosts<3>;

impl Network {
    /// Creates the network. Returns `None`, and prints a line, if that is not possible here.
    fn new(label: &str) -> Option<Network> {
        let network = Hosts::named(label, ["a", "b", "s"]);
        let names = &network.names;
        let is_made = network.create()
            && [CLIENT, SERVER].into_iter().all(|host| {
                let (name, port) = (&names[host], format!("to{host}"));
                run(&format!("-n {name} link add wire type veth peer {port} netns {}", names[2]))
                    && run(&format!("-n {name} link set lo up"))
                    && run(&format!("-n {name} addr add 10.80.0.{}/24 dev wire", host + 1))
                    && run(&format!("-n {name} addr add fd80::{}/64 dev wire nodad", host + 1))
                    && run(&format!("-n {} link set {port} promisc on up", names[SWITCH]))
                    && run(&format!("-n {name} link set wire up"))
            });
        if !is_made {
            superuser::skip("hosts in network namespaces");
            return None;
        }
        // Only packets that are whole, one by one and with their checksum, can pass the switch.
        [CLIENT, SERVER].into_iter().for_each(|host| network.inside(host, set_offloads));
        Some(network)
    }

    fn switch(&self) -> Switch {
        self.inside(SWITCH, || Switch::start(["to0", "to1"]))
    }

    fn pair(&self, at: impl Fn(usize) -> Builder + Sync) -> Pair {
        let server = self.inside(SERVER, || at(SERVER).build().unwrap());
        let to = server.local_addrs()[0];
        let (client, peer) = self.inside(CLIENT, || {
            let client = at(CLIENT).build().unwrap();
            let peer = client.connect(to, TIMEOUT).unwrap();
            (client, peer)
        });
        let Event::Connected(back) = server.wait_event(TIMEOUT).unwrap() else {
            panic!("something happened before the connection");
        };
        Pair { client: side(client, peer), server: side(server, back) }
    }
}

fn frames(address: String) -> Builder {
    let address: IpAddr = address.parse().unwrap();
    Context::builder().bind(address).buffer_bytes(1 << 20).datapath(DatapathKind::Xdp)
}

fn v4(host: usize) -> Builder {
    frames(format!("10.80.0.{}", host + 1))
}

fn v6(host: usize) -> Builder {
    frames(format!("fd80::{}", host + 1))
}

fn counters(side: &Side) -> Counters {
    side.context.counters()
}

/// Writes 64 KiB, checks them, and again, until `done` is true. Panics if it stays false.
fn write_until(pair: &Pair, mut done: impl FnMut() -> bool) {
    const BYTES: usize = 64 * 1024;
    let remote = pair.server.open_segment(BYTES);
    let begun = Instant::now();
    for round in 0_u64.. {
        let local = pair.client.filled(BYTES, round);
        pair.client.jetty.write(&pair.client.peer, &local, remote.key(), round).unwrap();
        let _ = pair.client.succeed();
        assert!(remote.compare(0, &content(&local)).unwrap(), "round {round}");
        if done() {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{:?}", counters(&pair.server));
    }
}

fn trimmed_packets_are_sent_again(label: &str, at: impl Fn(usize) -> Builder + Sync) {
    let Some(network) = Network::new(label) else { return };
    let switch = network.switch();
    let pair = network.pair(at);
    assert_eq!(counters(&pair.server).port.packets_received_cut, 0);
    switch.trim(50);
    // Every kind of operation, and its bytes, in both directions.
    exercise(&pair);
    write_until(&pair, || counters(&pair.server).engine.trimmed_received > 100);
    switch.trim(0);
    write_until(&pair, || true);
    let (client, server) = (counters(&pair.client), counters(&pair.server));
    let cut = client.port.packets_received_cut + server.port.packets_received_cut;
    let recognised = client.engine.trimmed_received + server.engine.trimmed_received;
    assert!(cut <= switch.trimmed(), "{cut} of {}", switch.trimmed());
    assert!(cut * 10 >= switch.trimmed() * 9, "{cut} of {}", switch.trimmed());
    assert_eq!(recognised, cut, "{client:?} {server:?}");
    assert_eq!((client.nic.undecodable, server.nic.undecodable), (0, 0));
    // They were sent again because the receiver has asked for them, and not after time-outs.
    assert!(client.engine.data_resent >= server.engine.trimmed_received * 9 / 10, "{client:?}");
}

#[test]
fn trimmed_packets_of_ipv4_are_sent_again() {
    trimmed_packets_are_sent_again("trim4", v4);
}

#[test]
fn trimmed_packets_of_ipv6_are_sent_again() {
    trimmed_packets_are_sent_again("trim6", v6);
}

/// What a host on the same link could send: headers that it has seen, changed ones, and random
/// bytes.
#[test]
fn forged_trimmed_packets_change_nothing() {
    let Some(network) = Network::new("forge") else { return };
    let switch = network.switch();
    let pair = network.pair(v4);
    // The first long packet that the server gets is a padded set-up message.
    let hello = switch.long_frame(SERVER).expect("a padded HELLO");
    switch.forget_long_frames();
    write_until(&pair, || switch.long_frame(SERVER).is_some());
    let data = switch.long_frame(SERVER).unwrap();
    let cut = |frame: &[u8], change: &dyn Fn(&mut [u8])| {
        let mut frame = frame.to_vec();
        switch::cut(&mut frame, 256);
        change(&mut frame);
        switch::set_v4_checksum(&mut frame);
        network.inside(CLIENT, || inject(&frame));
    };
    let before = counters(&pair.server);
    let seen = before.port.packets_received_cut;
    // A set-up message without its padding proves no path.
    cut(&hello, &|_| ());
    // The headers of data with another number, from another port, or of random bytes.
    cut(&data, &|frame| frame[14 + 28 + 25] ^= 1);
    cut(&data, &|frame| frame[14 + 20] ^= 1);
    cut(&data, &|frame| frame[14 + 28..].fill(0x5a));
    // A length that the check does not know, and no room for the headers.
    cut(&data, &|frame| frame[14 + 20 + 5] ^= 1);
    let mut short = data.clone();
    switch::cut(&mut short, 14 + 28 + 20);
    network.inside(CLIENT, || inject(&short));
    // What has arrived is acknowledged once more, and not sent again.
    cut(&data, &|_| ());
    write_until(&pair, || counters(&pair.server).port.packets_received_cut == seen + 7);
    let after = counters(&pair.server);
    assert_eq!(after.nic.undecodable - before.nic.undecodable, 5, "{after:?}");
    assert_eq!(after.nic.wrong_source - before.nic.wrong_source, 1, "{after:?}");
    assert_eq!(after.engine.trimmed_received - before.engine.trimmed_received, 1, "{after:?}");
    exercise(&pair);
}
