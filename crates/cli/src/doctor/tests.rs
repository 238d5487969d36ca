//! Verdicts on fictitious machines.

use std::time::Duration;

use fairway_port::NicFeature;

use super::finding::{Finding, Verdict, summary, text};
use super::judge::judge;
use super::readings::*;
use crate::verbs::NoLibrary;

/// A machine without any problem.
fn good() -> Readings {
    Readings {
        kernel: "6.9.0".into(),
        udp: Ok(Udp {
            sent: 32,
            segmentation: true,
            received_at_once: 32,
            segments_max: 128,
            unfragmented: true,
            buffers: Buffers {
                requested: 4 << 20,
                send: 8 << 20,
                receive: 8 << 20,
                receive_max: Some(4 << 20),
                send_max: Some(4 << 20),
            },
        }),
        af_xdp: Ok(()),
        shared_memory: Ok(()),
        rdma_devices: Vec::new(),
        rdma_ports: Ok(Vec::new()),
        interfaces: vec![interface("lo", 65_536, true), interface("eth0", 9000, false)],
        routes: Vec::new(),
        clock: Clock { source: Some("tsc".into()), offered: vec!["tsc".into()], read_ns: 20 },
        processors: Processors { online: 8, allowed: 8, quota: None, governor: None },
        permissions: Permissions {
            locked_bytes: None,
            open_files: Some(1024),
            shm_free: Ok(1 << 30),
            capabilities: u64::MAX,
            tun: Ok(()),
            seccomp: Some(0),
            refused_calls: Vec::new(),
            initial_network: Some(true),
        },
        tcp: Tcp { congestion_control: Some("cubic".into()), offered: vec!["cubic".into()] },
        verbs: Verbs { folder: Ok("/usr/lib/fairway".into()), loaded: Some(Ok(())) },
        roce_port: RocePort::Free,
        environment: Vec::new(),
        peer: None,
    }
}

fn interface(name: &str, mtu: usize, is_loopback: bool) -> Interface {
    Interface { name: name.into(), mtu, is_up: true, is_loopback, offloads: Vec::new() }
}

fn connection() -> Connection {
    Connection {
        address: "192.0.2.7:4820".parse().expect("an address"),
        server: "fairway perf --server",
        set_up: Duration::from_millis(3),
        mtu: 8856,
        route_mtu: Some(9000),
        long_packets: Some(true),
        paths: 16,
        answered: 16,
        silent_ports: Vec::new(),
        round_trips: [30, 40, 90].map(Duration::from_micros).to_vec(),
    }
}

fn with_peer(connection: Connection) -> Readings {
    let host = "storage1".into();
    Readings { peer: Some(PeerReading { host, port: None, result: Ok(connection) }), ..good() }
}

/// The findings that are not `ok`.
fn complaints(readings: &Readings) -> Vec<Finding> {
    judge(readings).into_iter().filter(|finding| finding.verdict != Verdict::Ok).collect()
}

/// Asserts that there is exactly one complaint about a machine, with this verdict and these words
/// in its remedy.
fn expect_one(readings: &Readings, name: &str, verdict: Verdict, remedy: &str) {
    let found = complaints(readings);
    let [finding] = found.as_slice() else { panic!("not one complaint: {found:#?}") };
    assert_eq!((finding.name.as_str(), finding.verdict), (name, verdict), "{finding:#?}");
    let given = finding.remedy.as_deref().unwrap_or_default();
    assert!(given.contains(remedy), "no '{remedy}' in: {given}");
}

fn udp(readings: &mut Readings) -> &mut Udp {
    readings.udp.as_mut().expect("it works")
}

#[test]
fn good_machine_gives_no_complaint_and_names_the_chosen_datapath() {
    assert_eq!(complaints(&good()), []);
    let report = text(&judge(&good()));
    assert!(report.contains("udp                    chosen"), "{report}");
    assert!(report.ends_with("nothing is broken: 25 ok, 0 slower, 0 missing\n"), "{report}");
}

#[test]
fn af_xdp_that_is_refused_is_missing_with_the_capabilities_that_it_needs() {
    let refused = "AF_XDP sockets (CAP_NET_RAW): Operation not permitted (os error 1)";
    let readings = Readings { af_xdp: Err(refused.into()), ..good() };
    expect_one(&readings, "af_xdp", Verdict::Missing, "cap_net_raw,cap_net_admin,cap_bpf");
    assert!(text(&judge(&readings)).contains(refused));
}

fn rdma_port(is_active: bool) -> RdmaPort {
    RdmaPort { name: "mlx5_0:1".into(), is_active, addresses: vec!["192.0.2.7".into()] }
}

#[test]
fn rdma_devices_that_can_be_used_are_named_with_their_addresses() {
    let seen = vec!["mlx5_0".to_owned()];
    let readings = Readings { rdma_devices: seen, rdma_ports: Ok(vec![rdma_port(true)]), ..good() };
    let shown = text(&judge(&readings));
    assert!(shown.contains("mlx5_0:1 (192.0.2.7)") && shown.contains("--datapath rdma"), "{shown}");
}

#[test]
fn rdma_devices_that_cannot_be_used_are_missing_with_what_to_install() {
    let seen = || vec!["mlx5_0".to_owned()];
    let readings = Readings { rdma_devices: seen(), rdma_ports: Ok(Vec::new()), ..good() };
    expect_one(&readings, "rdma devices", Verdict::Missing, "ibverbs-providers");
    let absent = "libibverbs.so.1: cannot open shared object file";
    let readings = Readings { rdma_devices: seen(), rdma_ports: Err(absent.into()), ..good() };
    expect_one(&readings, "rdma devices", Verdict::Missing, "libibverbs1");
    assert!(text(&judge(&readings)).contains(absent));
    // Without a device nothing is missing.
    let readings = Readings { rdma_ports: Err(absent.into()), ..good() };
    assert!(text(&judge(&readings)).contains("none seen, and none needed"));
    let readings =
        Readings { rdma_devices: seen(), rdma_ports: Ok(vec![rdma_port(false)]), ..good() };
    assert!(text(&judge(&readings)).contains("no link is up"));
}

#[test]
fn sockets_that_do_not_work_are_broken() {
    let readings = Readings { udp: Err("not permitted".into()), ..good() };
    expect_one(&readings, "udp", Verdict::Broken, "lo up");
    assert!(summary(&judge(&readings)).starts_with("broken: udp; "));
}

#[test]
fn offloads_that_fail_the_test_are_slower() {
    let mut readings = good();
    udp(&mut readings).segmentation = false;
    expect_one(&readings, "UDP_SEGMENT", Verdict::Slower, "5.0");
    let mut readings = good();
    udp(&mut readings).received_at_once = 1;
    expect_one(&readings, "UDP_GRO", Verdict::Slower, "5.0");
}

#[test]
fn offload_of_a_nic_is_slower_only_if_it_can_be_switched_on() {
    let feature =
        |name: &str, is_on, can_switch| NicFeature { name: name.into(), is_on, can_switch };
    let with = |segmentation| {
        let offloads = vec![feature("rx-gro", true, true), segmentation];
        let eth0 = Interface { offloads, ..interface("eth0", 9000, false) };
        Readings { interfaces: vec![eth0], ..good() }
    };
    let off = with(feature("tx-udp-segmentation", false, true));
    let remedy = "sudo ethtool -K eth0 tx-udp-segmentation on";
    expect_one(&off, "eth0 offloads", Verdict::Slower, remedy);
    for best in [(true, true), (true, false), (false, false)] {
        let readings = with(feature("tx-udp-segmentation", best.0, best.1));
        assert_eq!(complaints(&readings), []);
    }
    let fixed = text(&judge(&with(feature("tx-udp-segmentation", false, false))));
    assert!(fixed.contains("not offered by the NIC: tx-udp-segmentation"), "{fixed}");
}

#[test]
fn small_socket_buffers_name_the_setting_to_raise() {
    let mut readings = good();
    udp(&mut readings).buffers.receive = 425_984;
    expect_one(&readings, "receive", Verdict::Slower, "sysctl -w net.core.rmem_max=4194304");
    let mut readings = good();
    udp(&mut readings).buffers.send = (8 << 20) - 2;
    expect_one(&readings, "send", Verdict::Slower, "sysctl -w net.core.wmem_max=4194304");
}

#[test]
fn short_mtu_is_slower_and_one_below_that_of_ipv6_is_missing() {
    for (mtu, verdict) in
        [(8995, Verdict::Slower), (1280, Verdict::Slower), (1279, Verdict::Missing)]
    {
        let readings = Readings { interfaces: vec![interface("eth0", mtu, false)], ..good() };
        expect_one(&readings, "eth0", verdict, "ip link set eth0 mtu 9000");
    }
    let fits = Readings { interfaces: vec![interface("eth0", 8996, false)], ..good() };
    assert_eq!(complaints(&fits), []);
    let down = Interface { is_up: false, ..interface("eth0", 100, false) };
    assert_eq!(complaints(&Readings { interfaces: vec![down], ..good() }), []);
    let route = Route { to: "default".into(), interface: "eth0".into(), mtu: 1400 };
    let readings = Readings { routes: vec![route], ..good() };
    expect_one(&readings, "route default", Verdict::Slower, "ip route change default dev eth0");
}

#[test]
fn slow_clock_names_a_faster_source_if_the_kernel_offers_one() {
    let clock = |offered: &[&str]| Clock {
        source: Some("hpet".into()),
        offered: offered.iter().map(|name| (*name).to_owned()).collect(),
        read_ns: 900,
    };
    let readings = Readings { clock: clock(&["hpet", "tsc"]), ..good() };
    expect_one(&readings, "source", Verdict::Slower, "echo tsc | sudo tee");
    let readings = Readings { clock: clock(&["hpet"]), ..good() };
    expect_one(&readings, "source", Verdict::Slower, "no faster clock");
}

#[test]
fn few_cores_quotas_and_slow_frequencies_are_slower() {
    let with = |change: fn(&mut Processors)| {
        let mut readings = good();
        change(&mut readings.processors);
        readings
    };
    expect_one(&with(|p| p.allowed = 1), "cores", Verdict::Slower, "--cpu-list 0-7");
    expect_one(&with(|p| (p.allowed, p.online) = (1, 1)), "cores", Verdict::Slower, "share");
    expect_one(&with(|p| p.quota = Some(1.5)), "cgroup quota", Verdict::Slower, "--cpus 8");
    assert_eq!(complaints(&with(|p| p.quota = Some(8.0))), []);
    let slow = with(|p| p.governor = Some("powersave".into()));
    expect_one(&slow, "frequency governor", Verdict::Slower, "performance");
}

#[test]
fn missing_permissions_name_what_does_not_work() {
    let with = |change: fn(&mut Permissions)| {
        let mut readings = good();
        change(&mut readings.permissions);
        readings
    };
    let net_raw_only = with(|p| p.capabilities = 1 << 13);
    expect_one(&net_raw_only, "emulated networks", Verdict::Missing, "root");
    expect_one(
        &with(|p| p.tun = Err("no such file".into())),
        "emulated networks",
        Verdict::Missing,
        "modprobe tun",
    );
    expect_one(
        &with(|p| p.refused_calls = vec![("memfd_create", "not permitted".into())]),
        "system calls",
        Verdict::Broken,
        "seccomp",
    );
    expect_one(&with(|p| p.open_files = Some(64)), "open files", Verdict::Slower, "ulimit -n");
    expect_one(
        &with(|p| p.locked_bytes = Some(65_536)),
        "locked memory",
        Verdict::Slower,
        "ulimit -l",
    );
    expect_one(&with(|p| p.shm_free = Ok(4096)), "/dev/shm", Verdict::Slower, "remount");
    expect_one(&with(|p| p.shm_free = Err("no".into())), "/dev/shm", Verdict::Slower, "1777");
}

#[test]
fn missing_verbs_library_and_taken_port_name_their_remedies() {
    for (reason, remedy) in
        [("none is near", "build it with `make verbs`"), ("no path with a space", "elsewhere")]
    {
        let folder = Err(NoLibrary { reason: reason.into(), remedy });
        let readings = Readings { verbs: Verbs { folder, loaded: None }, ..good() };
        expect_one(&readings, "verbs library", Verdict::Missing, remedy);
        assert!(text(&judge(&readings)).contains(reason));
    }
    let verbs = Verbs { folder: Ok("/x".into()), loaded: Some(Err("GLIBC_2.38".into())) };
    expect_one(&Readings { verbs, ..good() }, "loading it", Verdict::Missing, "make verbs");
    let taken = Readings { roce_port: RocePort::Taken, ..good() };
    expect_one(&taken, "UDP port 4791", Verdict::Missing, "--provider fairway");
    assert_eq!(complaints(&Readings { roce_port: RocePort::Shared, ..good() }), []);
}

#[test]
fn peer_that_does_not_answer_is_broken() {
    for (port, words) in [
        (None, "perf --server there; let UDP ports 4820 to 4823"),
        (Some(4800), "serve there; let UDP ports 4800 to 4803"),
        (Some(5600), "perf --server there; let UDP ports 5600 to 5603"),
    ] {
        let peer = PeerReading { host: "storage1".into(), port, result: Err("no answer".into()) };
        let readings = Readings { peer: Some(peer), ..good() };
        expect_one(&readings, "storage1", Verdict::Broken, words);
    }
}

#[test]
fn peer_is_judged_by_its_paths_and_packets() {
    assert_eq!(complaints(&with_peer(connection())), []);
    let report = text(&judge(&with_peer(connection())));
    for words in ["set up in 3.0 ms", "16 of 16", "30.0 us at least, 40.0 us in the median of 3"] {
        assert!(report.contains(words), "no '{words}' in: {report}");
    }
    let short = Connection { mtu: 1360, ..connection() };
    expect_one(&with_peer(short), "path MTU", Verdict::Slower, "9000");
    let narrow = Connection { long_packets: Some(false), ..connection() };
    expect_one(&with_peer(narrow), "path MTU", Verdict::Broken, "--mtu 1024");
    let fewer = Connection { answered: 12, silent_ports: vec![4823], ..connection() };
    expect_one(&with_peer(fewer), "paths", Verdict::Slower, "UDP ports 4823 of 192.0.2.7");
    let none = Connection { answered: 0, ..connection() };
    expect_one(&with_peer(none), "paths", Verdict::Broken, "firewalls");
}
