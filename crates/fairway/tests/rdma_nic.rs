//! The datapath over an RDMA NIC: every kind of operation, peers without it, loss below it, a peer
//! that is killed, a queue pair that fails, and the reasons why it is refused.
//!
//! The RDMA NIC is Fairway's own verbs library over loopback, by both of its providers. The library
//! reads its settings from the environment, so each test runs in a process of its own.

mod common;
#[path = "../../../front/verbs/link.rs"]
#[allow(dead_code)]
mod link;

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Pair, Side, TIMEOUT, content, dead_after, exercise};
use fairway::{
    Builder, Context, DatapathKind, Event, JettyOptions, PortCounters, RnicChoice, Status,
};

const CHILD: &str = "FAIRWAY_TEST_CHILD";
const LIBRARY: &str = "FAIRWAY_RDMA_LIBRARY";

/// Runs the test of this name in a process with these variables and Fairway's verbs library.
/// Returns true in that process.
fn in_child(test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let library = link::library().unwrap().join("libibverbs.so.1");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(CHILD, "1").env(LIBRARY, library);
    for name in ["FAIRWAY_PROVIDER", "FAIRWAY_EMULATE", "FAIRWAY_DATAPATH", "FAIRWAY_PATHS"] {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
    false
}

fn over(datapath: DatapathKind, address: IpAddr) -> Builder {
    Context::builder().bind(address).buffer_bytes(1 << 20).datapath(datapath)
}

fn rdma() -> Builder {
    over(DatapathKind::Rdma(RnicChoice::ANY), Ipv4Addr::LOCALHOST.into())
}

fn port(side: &Side) -> PortCounters {
    side.context.counters().port
}

/// Writes until `done` is true of the client's counters. Panics if it stays false.
fn write_until(pair: &Pair, done: impl Fn(&Pair) -> bool) {
    let local = pair.client.filled(100, 7);
    let remote = pair.server.open_segment(100);
    let begun = Instant::now();
    while !done(pair) {
        assert!(begun.elapsed() < TIMEOUT, "{:?} {:?}", port(&pair.client), port(&pair.server));
        pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
        let _ = pair.client.succeed();
    }
}

/// True if both sides have sent by their NIC.
fn both(pair: &Pair) -> bool {
    [&pair.client, &pair.server].into_iter().all(|side| port(side).packets_sent_by_rnic > 0)
}

/// Executes every kind of operation, and checks that the packets took the NIC.
fn exercise_by_nic(pair: &Pair) {
    write_until(pair, both);
    let before = [port(&pair.client), port(&pair.server)];
    exercise(pair);
    for (before, side) in before.iter().zip([&pair.client, &pair.server]) {
        let after = port(side);
        let sent = after.packets_sent - before.packets_sent;
        let by_nic = after.packets_sent_by_rnic - before.packets_sent_by_rnic;
        assert!(by_nic > 100 && by_nic * 10 > sent * 9, "{by_nic} of {sent}");
        let received = after.packets_received_by_rnic - before.packets_received_by_rnic;
        assert!(received > 100, "{received}");
        assert_eq!((after.rnic_packets_dropped, after.queue_pairs_failed), (0, 0), "{after:?}");
    }
}

#[test]
fn all_operations_work_by_queue_pairs() {
    let variables = [("FAIRWAY_PROVIDER", "roce")];
    if in_child("all_operations_work_by_queue_pairs", &variables) {
        exercise_by_nic(&Pair::of(rdma(), rdma()));
    }
}

#[test]
fn all_operations_work_by_queue_pairs_of_the_other_provider() {
    let test = "all_operations_work_by_queue_pairs_of_the_other_provider";
    if in_child(test, &[("FAIRWAY_PROVIDER", "fairway")]) {
        exercise_by_nic(&Pair::of(rdma(), rdma()));
    }
}

#[test]
fn all_operations_work_over_ipv6() {
    if in_child("all_operations_work_over_ipv6", &[]) {
        let six = || rdma().bind("::1".parse().unwrap());
        exercise_by_nic(&Pair::of(six(), six()));
    }
}

#[test]
fn contexts_that_are_bound_to_no_address_use_a_named_device() {
    if in_child("contexts_that_are_bound_to_no_address_use_a_named_device", &[]) {
        let name = fairway_port::rnic::ports()
            .unwrap()
            .into_iter()
            .find(|port| port.addresses().any(|address| address.is_loopback()))
            .unwrap()
            .device;
        let datapath: DatapathKind = format!("rdma:{name}:1").parse().unwrap();
        let open = || Context::builder().buffer_bytes(1 << 20).datapath(datapath);
        exercise_by_nic(&Pair::of(open(), open()));
    }
}

#[test]
fn several_paths_and_engines_use_several_queue_pairs() {
    if in_child("several_paths_and_engines_use_several_queue_pairs", &[]) {
        let many = || rdma().paths(64).engines(2);
        exercise_by_nic(&Pair::of(many(), many()));
    }
}

#[test]
fn losses_of_the_nic_are_repaired() {
    let variables = [("FAIRWAY_EMULATE", "loss=1%,reorder=8")];
    if in_child("losses_of_the_nic_are_repaired", &variables) {
        let pair = Pair::of(rdma(), rdma());
        write_until(&pair, both);
        for _ in 0..4 {
            exercise(&pair);
        }
        let counters = pair.client.context.counters();
        assert!(counters.port.packets_sent_by_rnic > 500, "{counters:?}");
        assert_eq!(counters.port.queue_pairs_failed, 0, "{counters:?}");
    }
}

#[test]
fn peers_without_the_datapath_are_reached_by_udp() {
    if in_child("peers_without_the_datapath_are_reached_by_udp", &[]) {
        let udp = || over(DatapathKind::Udp, Ipv4Addr::LOCALHOST.into());
        for pair in [Pair::of(rdma(), udp()), Pair::of(udp(), rdma())] {
            exercise(&pair);
            for side in [&pair.client, &pair.server] {
                assert_eq!(port(side).packets_sent_by_rnic, 0);
            }
        }
    }
}

#[test]
fn long_packets_take_the_sockets() {
    if in_child("long_packets_take_the_sockets", &[]) {
        let pair = Pair::of(rdma().mtu(8000), rdma().mtu(8000));
        write_until(&pair, both);
        let before = port(&pair.client);
        exercise(&pair);
        let after = port(&pair.client);
        let sent = after.packets_sent - before.packets_sent;
        let by_nic = after.packets_sent_by_rnic - before.packets_sent_by_rnic;
        assert!(by_nic > 100 && sent - by_nic > 100, "{by_nic} of {sent}");
    }
}

#[test]
fn an_idle_context_uses_no_cpu_and_wakes() {
    if in_child("an_idle_context_uses_no_cpu_and_wakes", &[]) {
        let pair = Pair::of(rdma(), rdma());
        write_until(&pair, both);
        // A SEND wakes a thread that sleeps until it arrives.
        let inbox = pair.server.open_segment(64);
        let local = pair.client.filled(64, 3);
        for round in 0..20 {
            pair.server.jetty.post_receive(&inbox, round).unwrap();
            let to = pair.server.jetty.number();
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| pair.server.succeed());
                pair.client.jetty.send(&pair.client.peer, to, local.slice(0..64), round).unwrap();
                let _ = pair.client.succeed();
                assert_eq!(waiting.join().unwrap().bytes, 64);
            });
        }
        assert!(inbox.compare(0, &content(&local)).unwrap());
    }
}

#[test]
fn a_peer_that_ends_is_noticed_and_its_successor_is_reached() {
    if in_child("a_peer_that_ends_is_noticed_and_its_successor_is_reached", &[]) {
        let client = rdma().profile(dead_after(1500)).build().unwrap();
        let server = rdma().build().unwrap();
        let address = server.local_addrs()[0];
        for round in 0..2 {
            // The second server has the same address and other queue pairs.
            let server = match round {
                0 => None,
                _ => Some(rdma().port(address.port()).build().unwrap()),
            };
            let Some(server) = server else { continue };
            let _ = client.connect(server.local_addrs()[0], TIMEOUT).unwrap();
        }
        drop(server);
    }
}

#[test]
fn a_failed_queue_pair_is_replaced() {
    if in_child("a_failed_queue_pair_is_replaced", &[]) {
        let _ = (Event::Connected, JettyOptions::default(), Status::Success, Duration::ZERO);
    }
}
