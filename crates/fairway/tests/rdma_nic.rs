//! The datapath over an RDMA NIC: every kind of operation, peers without it, loss below it, a peer
//! that is killed, a queue pair that fails, and the reasons why it is refused.
//!
//! The RDMA NIC is Fairway's own verbs library over loopback, by both of its providers. The library
//! reads its settings from the environment, so each test runs in a process of its own.

mod common;
#[path = "../../../front/verbs/link.rs"]
mod link;

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use common::{Pair, Side, TIMEOUT, content, dead_after, exercise, side};
use fairway::{
    Builder, Context, DatapathKind, Event, Memory, PortCounters, Rights, RnicChoice, SegmentKey,
    Status,
};

const CHILD: &str = "FAIRWAY_TEST_CHILD";
const LIBRARY: &str = "FAIRWAY_RDMA_LIBRARY";

/// The folder of Fairway's verbs library, which the first caller builds.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| link::library().unwrap())
}

/// Runs the test of this name in a process with these variables and Fairway's verbs library.
/// Returns true in that process.
fn in_child(test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let library = folder().join("libibverbs.so.1");
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
    exercise_mostly_by_nic(pair, 90);
}

/// As [`exercise_by_nic`], but so many percent of the packets are enough.
fn exercise_mostly_by_nic(pair: &Pair, percent: u64) {
    write_until(pair, both);
    let before = [port(&pair.client), port(&pair.server)];
    exercise(pair);
    for (before, side) in before.iter().zip([&pair.client, &pair.server]) {
        let after = port(side);
        let sent = after.packets_sent - before.packets_sent;
        let by_nic = after.packets_sent_by_rnic - before.packets_sent_by_rnic;
        assert!(by_nic > 100 && by_nic * 100 > sent * percent, "{by_nic} of {sent}");
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
        let (client, server) = (open().build().unwrap(), open().build().unwrap());
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, server.local_addrs()[0].port()));
        let peer = client.connect(to, TIMEOUT).unwrap();
        let Event::Connected(back) = server.wait_event(TIMEOUT).unwrap() else { panic!() };
        let pair = Pair { client: side(client, peer), server: side(server, back) };
        exercise_by_nic(&pair);
    }
}

#[test]
fn several_paths_and_engines_use_several_queue_pairs() {
    if in_child("several_paths_and_engines_use_several_queue_pairs", &[]) {
        let many = || rdma().paths(64).engines(2);
        // Each pair of sockets begins with introductions.
        let pair = Pair::of(many(), many());
        exercise_mostly_by_nic(&pair, 50);
        exercise_mostly_by_nic(&pair, 80);
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
fn idle_contexts_sleep_and_wake_for_a_packet() {
    if in_child("idle_contexts_sleep_and_wake_for_a_packet", &[]) {
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
        pair.assert_idle();
        assert!(inbox.compare(0, &content(&local)).unwrap());
    }
}

const ROLE: &str = "FAIRWAY_TEST_ROLE";

#[test]
#[ignore = "run by other tests of this file"]
fn the_other_process() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let name = std::env::var(ROLE).unwrap();
    let datapath: DatapathKind = name.parse().unwrap();
    let context = rdma().datapath(datapath).sockets(1).build().unwrap();
    let segment = context.register(Memory::zeroed(4096).unwrap(), Rights::ALL).unwrap();
    println!("serves {} {}", context.local_addrs()[0], segment.key());
    // Until the other side closes the pipe, if it does not kill this process before.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_killed_peer_is_noticed_and_its_successor_is_reached() {
    if in_child("a_killed_peer_is_noticed_and_its_successor_is_reached", &[]) {
        exercise_by_nic(&replace_killed_peer("rdma", |port| port.packets_sent_by_rnic));
    }
}

/// Writes to a process over a datapath until `sent` counts 100 packets, kills it, and connects to a
/// successor at its address.
fn replace_killed_peer(datapath: &str, sent: fn(&PortCounters) -> u64) -> Pair {
    let open = || over(datapath.parse().unwrap(), Ipv4Addr::LOCALHOST.into());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["the_other_process", "--exact", "--ignored", "--nocapture"]).env(ROLE, datapath);
    let mut other = command.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    let served = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("serves ").map(|(_, rest)| rest.to_owned()))
        .unwrap();
    let (address, key) = served.split_once(' ').unwrap();
    let (address, key): (SocketAddr, SegmentKey) = (address.parse().unwrap(), key.parse().unwrap());
    let client = open().profile(dead_after(2000)).build().unwrap();
    let peer = client.connect(address, TIMEOUT).unwrap();
    let first = side(client, peer);
    let local = first.filled(4096, 1);
    let begun = Instant::now();
    while sent(&port(&first)) < 100 {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", port(&first));
        first.jetty.write(&first.peer, &local, key, 1).unwrap();
        let _ = first.succeed();
    }
    other.kill().unwrap();
    other.wait().unwrap();
    first.jetty.write(&first.peer, &local, key, 2).unwrap();
    assert_eq!(first.jetty.wait(TIMEOUT).unwrap().status, Status::PeerDead);

    // The next program at the address has other queue pairs. Packets to the old ones are lost until
    // the datapath has noticed.
    let server = open().port(address.port()).sockets(1).build().unwrap();
    let peer = first.context.connect(address, TIMEOUT).unwrap();
    let Event::Connected(back) = server.wait_event(TIMEOUT).unwrap() else { panic!() };
    Pair { client: side(first.context, peer), server: side(server, back) }
}

fn rdma_uc() -> Builder {
    over(DatapathKind::RdmaUc(RnicChoice::ANY), Ipv4Addr::LOCALHOST.into())
}

/// Writes until both sides have sent by connections, and executes every kind of operation.
fn exercise_by_connections(pair: &Pair) {
    let connected = |side: &Side| port(side).packets_sent_connected;
    write_until(pair, |pair| connected(&pair.client) > 0);
    let before = [connected(&pair.client), connected(&pair.server)];
    for _ in 0..3 {
        exercise(pair);
    }
    for (before, side) in before.iter().zip([&pair.client, &pair.server]) {
        let after = port(side);
        assert!(after.packets_sent_connected - before > 100, "{after:?}");
        assert_eq!((after.rnic_packets_dropped, after.queue_pairs_failed), (0, 0), "{after:?}");
    }
}

#[test]
fn all_operations_work_by_connections() {
    if in_child("all_operations_work_by_connections", &[("FAIRWAY_PROVIDER", "roce")]) {
        exercise_by_connections(&Pair::of(rdma_uc(), rdma_uc()));
    }
}

#[test]
fn all_operations_work_by_connections_of_the_other_provider() {
    let test = "all_operations_work_by_connections_of_the_other_provider";
    if in_child(test, &[("FAIRWAY_PROVIDER", "fairway")]) {
        exercise_by_connections(&Pair::of(rdma_uc(), rdma_uc()));
    }
}

#[test]
fn losses_of_connections_are_repaired() {
    let variables = [("FAIRWAY_EMULATE", "loss=1%,reorder=8")];
    if in_child("losses_of_connections_are_repaired", &variables) {
        let pair = Pair::of(rdma_uc().paths(64), rdma_uc().paths(64));
        write_until(&pair, |pair| port(&pair.client).packets_sent_connected > 0);
        for _ in 0..4 {
            exercise(&pair);
        }
        let counters = pair.client.context.counters();
        assert!(counters.port.packets_sent_connected > 100, "{counters:?}");
        assert_eq!(counters.port.queue_pairs_failed, 0, "{counters:?}");
    }
}

#[test]
fn peers_without_connections_are_reached_by_datagrams() {
    if in_child("peers_without_connections_are_reached_by_datagrams", &[]) {
        for pair in [Pair::of(rdma_uc(), rdma()), Pair::of(rdma(), rdma_uc())] {
            exercise_by_nic(&pair);
            for side in [&pair.client, &pair.server] {
                assert_eq!(port(side).packets_sent_connected, 0);
            }
        }
    }
}

#[test]
fn the_successor_of_a_killed_peer_is_reached_by_connections() {
    if in_child("the_successor_of_a_killed_peer_is_reached_by_connections", &[]) {
        let pair = replace_killed_peer("rdma-uc", |port| port.packets_sent_connected);
        exercise_by_connections(&pair);
    }
}

/// A verbs library whose 300th call that sends leads the queue pair into the state of errors first,
/// and passes everything else on.
const FAILING: &str = r#"
#include <dlfcn.h>
#include <infiniband/verbs.h>

static int (*next)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static unsigned calls;

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
    if (__sync_add_and_fetch(&calls, 1) == 300) {
        struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
        ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    }
    return next(qp, wr, bad);
}

struct ibv_context *ibv_open_device(struct ibv_device *device) {
    struct ibv_context *(*open)(struct ibv_device *) = dlsym(dlopen(NEXT, RTLD_NOW), "ibv_open_device");
    struct ibv_context *context = open(device);
    if (context && context->ops.post_send != post) {
        next = context->ops.post_send;
        context->ops.post_send = post;
    }
    return context;
}
"#;

/// Compiles the library. `None`: there is no header.
fn failing_library() -> Option<PathBuf> {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        println!("skipped: there is no infiniband/verbs.h (libibverbs-dev)");
        return None;
    }
    let folder = folder();
    let next = folder.join("libibverbs.so.1");
    let name = |end: &str| {
        std::env::temp_dir().join(format!("fairway-failing-verbs-{}.{end}", std::process::id()))
    };
    let (source, library) = (name("c"), name("so"));
    std::fs::write(&source, FAILING).unwrap();
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(format!("-DNEXT=\"{}\"", next.display()))
        .arg(&source)
        .arg(&next)
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .output()
        .unwrap();
    std::fs::remove_file(&source).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(library)
}

#[test]
fn packets_of_a_failed_queue_pair_take_the_sockets_until_it_is_replaced() {
    let test = "packets_of_a_failed_queue_pair_take_the_sockets_until_it_is_replaced";
    if std::env::var_os(CHILD).is_none() {
        let Some(library) = failing_library() else { return };
        in_child(test, &[(LIBRARY, library.to_str().unwrap())]);
        std::fs::remove_file(library).unwrap();
        return;
    }
    let pair = Pair::of(rdma().sockets(1), rdma().sockets(1));
    let failed = |side: &Side| port(side).queue_pairs_failed > 0;
    write_until(&pair, |pair| failed(&pair.client) || failed(&pair.server));
    let side = if failed(&pair.client) { &pair.client } else { &pair.server };
    let at_failure = port(side);
    let reason = side.context.counters().last_error.unwrap();
    assert!(reason.contains("queue pair 0 of the RDMA device fairway"), "{reason}");
    exercise(&pair);
    write_until(&pair, |pair| {
        let side = if failed(&pair.client) { &pair.client } else { &pair.server };
        port(side).packets_sent_by_rnic > at_failure.packets_sent_by_rnic + 50
    });
    exercise(&pair);
    assert_eq!(port(&pair.client).queue_pairs_failed + port(&pair.server).queue_pairs_failed, 1);
}

#[test]
fn the_reason_is_given_where_there_is_no_library_or_no_device() {
    let test = "the_reason_is_given_where_there_is_no_library_or_no_device";
    let refusal = |builder: Builder| builder.build().unwrap_err().to_string();
    if std::env::var_os(CHILD).is_none() {
        in_child(test, &[]);
        in_child(test, &[(LIBRARY, "/nonexistent/libibverbs.so.1")]);
        return;
    }
    if std::env::var_os(LIBRARY).unwrap() == "/nonexistent/libibverbs.so.1" {
        let reason = refusal(rdma());
        assert!(reason.contains("the verbs library cannot be loaded"), "{reason}");
        assert!(reason.contains(LIBRARY), "{reason}");
        return;
    }
    let named = |name: &str| over(name.parse().unwrap(), Ipv4Addr::LOCALHOST.into());
    let reason = refusal(named("rdma:mlx5_7"));
    assert!(reason.contains("the RDMA device mlx5_7 has no active port"), "{reason}");
    assert!(reason.contains("127.0.0.1"), "the devices that there are: {reason}");
    let reason = refusal(rdma().bind("127.0.0.2".parse().unwrap()));
    assert!(reason.contains("with the address 127.0.0.2"), "{reason}");
    // Where the user allows it, packets take UDP instead.
    let pair = Pair::of(named("rdma-or-udp:mlx5_7"), named("rdma-or-udp"));
    let reason = pair.client.context.datapath_fallback().unwrap();
    assert!(reason.contains("the RDMA device mlx5_7 has no active port"), "{reason}");
    assert_eq!(pair.server.context.datapath_fallback(), None);
    exercise(&pair);
    let by_nic = [&pair.client, &pair.server].map(|side| port(side).packets_sent_by_rnic);
    assert_eq!(by_nic, [0, 0]);
    drop(pair);
    exercise_by_nic(&Pair::of(named("rdma-or-udp"), named("rdma")));
    let reason = refusal(named("rdma").bind(IpAddr::V4(Ipv4Addr::LOCALHOST)).port(0).mtu(10));
    assert!(reason.contains("mtu"), "{reason}");
}
