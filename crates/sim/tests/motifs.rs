//! Programs of ranks on simulated hosts: every message arrives whole, by every protocol.

use fairway_sim::{Report, Settings, Simulation};

fn run_in(lines: &str, parts: u32) -> Report {
    let mut settings = Settings::default();
    // The sizes of a dragonfly determine its number of hosts.
    let nodes = if lines.contains("dragonfly") { "" } else { "nodes 16" };
    settings.read(nodes).expect("settings");
    settings.read("latency 140ns\npaths 4\ncells 30x30x30\nmtu 2K").expect("settings");
    settings.read(&lines.replace('|', "\n")).expect("settings");
    let scenario = settings.build(1).expect("a scenario");
    let report = Simulation::new(scenario, parts).expect("a run").run(u32::MAX, |_| ());
    assert!(report.is_complete(), "{lines}: {} of a time {} us", report.messages, report.end_ps);
    report
}

fn run(lines: &str) -> Report {
    run_in(lines, 1)
}

const PROTOCOLS: [&str; 4] = ["rvma", "rdma", "rdma-ordered", "rendezvous"];

/// The number of messages is that of the pattern, over every protocol, with one rank per host and
/// with several. The ranks themselves check that each message has the expected length.
#[test]
fn every_message_comes_by_every_protocol() {
    for protocol in PROTOCOLS {
        let paths = if protocol == "rdma-ordered" { "paths 1|" } else { "" };
        for ranks in [1, 4] {
            let lines = |workload| {
                format!("{paths}workload {workload}|protocol {protocol}|ranks-per-node {ranks}")
            };
            let sweep = run(&(lines("sweep3d") + "|grid 4x4"));
            // 24 pairs of neighbours, with three steps of four sweeps in each direction.
            assert_eq!(sweep.messages, 2 * 24 * 12, "{protocol}, {ranks} on a host");
            let halo = run(&(lines("halo3d") + "|grid 4x2x2|cells 60x60x60|iterations 2"));
            assert_eq!(halo.messages, 2 * (2 * (12 + 8 + 8) + 2 * 15));
            let all = run(&(lines("halo3d26") + "|grid 2x2x4"));
            // 28 pairs share faces, 32 edges and 12 corners.
            assert_eq!(all.messages, 2 * (28 + 32 + 12));
            for report in [&sweep, &halo, &all] {
                assert_eq!(report.not_ready, 0, "{protocol}: no message waits for a buffer");
            }
        }
    }
}

/// One message alone on the network takes the sum of its parts' times.
#[test]
fn a_mailbox_spares_the_trips_that_an_address_takes() {
    let time = |protocol: &str| {
        let lines = "workload halo3d26|grid 2x1x1|cells 8x4x4|compute 0ns|paths 1|nodes 2\
                     |topology leaf-spine|hosts-per-leaf 2|protocol ";
        run(&format!("{lines}{protocol}")).completion_ps().expect("complete")
    };
    let (rvma, ordered, rdma) = (time("rvma"), time("rdma-ordered"), time("rdma"));
    // Command, two links, event; a packet of 128 bytes takes less than 6 ns on each link.
    let trip = 150_000 + 2 * 140_000 + 150_000;
    assert!((trip..trip + 12_000).contains(&rvma), "{rvma}");
    // The address first takes a trip of its own.
    assert!((2 * trip..2 * trip + 24_000).contains(&ordered), "{ordered}");
    assert!((ordered..ordered + 12_000).contains(&rdma), "{rdma} beside {ordered}");
}

#[test]
fn mailboxes_are_faster_and_adaptive_networks_carry_them() {
    for network in [
        "topology torus|sizes 4x4|routing adaptive",
        "topology hyperx|sizes 4x4|routing ugal",
        "topology dragonfly|dragonfly 4:1:5|routing ugal",
        "routing spray",
    ] {
        let time = |protocol| {
            let lines = format!("workload sweep3d|grid 4x4|{network}|protocol {protocol}");
            run(&lines).completion_ps().expect("complete")
        };
        let (rvma, rdma) = (time("rvma"), time("rdma"));
        assert!(2 * rdma > 3 * rvma, "{network}: {rdma} beside {rvma}");
    }
}

#[test]
fn partitions_do_not_change_the_result() {
    for protocol in PROTOCOLS {
        let lines = format!(
            "workload halo3d|grid 4x4x2|ranks-per-node 2|topology dragonfly|dragonfly 4:1:5\
             |routing ugal|protocol {protocol}"
        );
        if protocol != "rdma-ordered" {
            let alone = run(&lines);
            assert!([2, 3, 5].iter().all(|parts| run_in(&lines, *parts) == alone), "{protocol}");
        }
    }
}

#[test]
fn conflicting_settings_are_refused() {
    for lines in
        ["workload sweep3d|layers 7", "workload sweep3d|grid 2x2x2", "workload halo3d|grid 17"]
    {
        let mut settings = Settings::default();
        settings.read(&format!("nodes 16\n{}", lines.replace('|', "\n"))).expect("settings");
        assert!(settings.build(1).is_err(), "{lines}");
    }
}

/// If a link is down for longer than NICs wait for a peer, the run ends and reports that, by every
/// protocol and with flows.
#[test]
fn a_peer_that_is_given_up_ends_the_run_and_is_reported() {
    let lines = "fail 0-16@10us|end 20s|nodes 16";
    let halo = "halo3d|paths 1|grid 4x2x2|cells 60x60x60|iterations 5";
    let workloads = PROTOCOLS.map(|name| format!("{halo}|protocol {name}"));
    let others = ["ring-allreduce|bytes 4M", "all-to-all|bytes 4M"];
    for workload in workloads.iter().map(String::as_str).chain(others) {
        let mut settings = Settings::default();
        let text = format!("workload {workload}|{lines}").replace('|', "\n");
        settings.read(&text).expect("settings");
        let scenario = settings.build(1).expect("a scenario");
        let report = Simulation::new(scenario, 1).expect("a run").run(u32::MAX, |_| ());
        assert!(report.failed > 0 && !report.is_complete(), "{workload}: {}", report.failed);
        assert!(report.end_ps < 20_000_000_000_000, "{workload}: it ends with the last time-out");
    }
}
