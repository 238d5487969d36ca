//! Ranks of collective operations: the state machine of live ranks on simulated hosts, with every
//! algorithm, lost packets, few slots and several calls.

use fairway_sim::{Report, Settings, Simulation};

/// The collective workloads.
const WORKLOADS: [&str; 10] = [
    "ring-allreduce",
    "tree-allreduce",
    "halving-allreduce",
    "doubling-allreduce",
    "all-gather",
    "reduce-scatter",
    "broadcast",
    "reduce",
    "pairwise-alltoall",
    "direct-alltoall",
];

fn simulation(lines: &str, parts: u32) -> Simulation {
    let mut settings = Settings::default();
    settings.read("paths 16\ncheck on").expect("settings");
    settings.read(&lines.replace('|', "\n")).expect("settings");
    let scenario = settings.build(1).unwrap_or_else(|error| panic!("{lines}: {error}"));
    assert!(scenario.group.is_some() || lines.contains("flows"), "{lines}");
    Simulation::new(scenario, parts).unwrap_or_else(|error| panic!("{lines}: {error}"))
}

/// Runs to the end, at which all ranks are done. The simulation checks every byte.
fn run(lines: &str, parts: u32) -> Report {
    let mut simulation = simulation(lines, parts);
    let report = simulation.run(u32::MAX, |_| ());
    let shortfall = simulation.shortfall().map(|missing| missing.to_string());
    assert!(report.is_complete(), "{lines}: {shortfall:?}");
    report
}

#[test]
fn every_operation_ends_for_any_number_of_ranks() {
    for workload in WORKLOADS {
        for nodes in [2, 3, 5, 8, 16] {
            let lines = format!("workload {workload}|topology hyperx|sizes {nodes}x1");
            for bytes in ["8", "100", "40000", "3M"] {
                let report = run(&format!("{lines}|bytes {bytes}"), 1);
                assert_eq!(report.ranks.len(), nodes, "{lines}");
                assert_eq!(report.not_ready, 0, "{lines}: receives are posted");
            }
        }
    }
}

#[test]
fn few_slots_lost_packets_and_several_calls_change_no_byte() {
    let hard = "bytes 1M|slots 4|slot 4K|loss 1%|rounds 3";
    for workload in WORKLOADS {
        for nodes in [2, 3, 5, 8, 16] {
            let lines = format!("workload {workload}|topology hyperx|sizes {nodes}x1|{hard}");
            let report = run(&lines, 1);
            assert!(report.lost_on_links > 0, "{lines}");
            for rank in &report.ranks {
                assert_eq!(rank.calls.len(), 3, "{lines}");
                let mut before = 0;
                for (started, ended) in &rank.calls {
                    let ended = ended.expect("it is done");
                    assert!(before <= *started && *started < ended, "{lines}");
                    before = ended;
                }
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for workload in WORKLOADS {
        let lines = format!("workload {workload}|nodes 16|bytes 2M|loss 0.5%|rounds 2|split 2");
        assert_eq!(run(&lines, 1), run(&lines, 2), "{lines}");
    }
}

/// Without losses, and with ranks that take no time, ranks are as quick as flows, on one switch
/// with short links: flows do not wait for the completions of earlier messages, as steps of ranks
/// may.
#[test]
fn ranks_that_take_no_time_are_as_quick_as_flows() {
    let free = "copy 100T|combine 100T|host-latency 1ps|slots 32";
    // Slots as long as the messages into which a live rank cuts its pieces. Where several ranks
    // send to one at the same time, queues overflow, and the order of messages counts.
    for (workload, slot, percent) in [
        ("ring-allreduce", "64K", 3),
        ("tree-allreduce", "64K", 12),
        ("doubling-allreduce", "64K", 3),
        ("all-gather", "64K", 3),
        ("reduce-scatter", "64K", 3),
        ("broadcast", "256K", 3),
        ("reduce", "256K", 12),
        ("pairwise-alltoall", "256K", 5),
        ("direct-alltoall", "256K", 3),
    ] {
        let network = "topology leaf-spine|hosts-per-leaf 16|nodes 16|latency 100ns";
        let lines = format!("workload {workload}|{network}|bytes 4M|slot {slot}");
        let ranks = run(&format!("{lines}|{free}"), 1).completion_ps().expect("complete");
        let flows =
            run(&format!("{lines}|collectives flows"), 1).completion_ps().expect("complete");
        let (least, most) = (flows * (100 - percent) / 100, flows * (100 + percent) / 100);
        assert!((least..=most).contains(&ranks), "{workload}: {ranks} and {flows} ps");
    }
}

/// Time to combine and copy counts.
#[test]
fn slow_ranks_take_longer() {
    let lines = "workload ring-allreduce|nodes 8|bytes 4M";
    let [quick, slow] = ["80G", "8G"].map(|rate| {
        run(&format!("{lines}|combine {rate}|copy {rate}"), 1).completion_ps().expect("complete")
    });
    // At 8 Gb/s, 7 eighths of 4 MB take 3.5 ms to be combined.
    assert!(slow > 3_500_000_000 && quick * 4 < slow, "{quick} and {slow} ps");
}

/// Ranks of one host copy messages into each other's slots, without packets.
#[test]
fn ranks_of_one_host_use_no_network() {
    let lines = "workload ring-allreduce|topology leaf-spine|nodes 4|bytes 1M|rounds 2";
    let [one, four] = [1, 4].map(|each| run(&format!("{lines}|ranks-per-node {each}"), 1));
    assert_eq!((one.ranks.len(), four.ranks.len()), (4, 16));
    // 30 sixteenths of the buffer cross each of 4 links between hosts; 6 quarters of it before.
    assert!(four.data_sent * 100 < one.data_sent * 135, "{} and {}", one.data_sent, four.data_sent);
    for workload in WORKLOADS {
        let lines = format!("workload {workload}|topology leaf-spine|nodes 4|bytes 500K");
        run(&format!("{lines}|ranks-per-node 3|loss 0.1%"), 1);
    }
}

#[test]
fn ranks_on_hosts_drawn_at_random_have_no_neighbours() {
    let lines = "workload ring-allreduce|nodes 16|bytes 1M|placement random";
    let report = run(lines, 1);
    let mut hosts: Vec<u32> = report.ranks.iter().map(|rank| rank.host).collect();
    assert!(hosts.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() < 8, "{hosts:?}");
    hosts.sort_unstable();
    assert_eq!(hosts, (0..16).collect::<Vec<u32>>());
    run(&format!("{lines}|collectives flows"), 1);
}

/// A host whose link stays away is given up, and the report names what each rank waits for.
#[test]
fn a_lost_link_ends_the_run_and_is_explained() {
    let lines = "workload ring-allreduce|topology leaf-spine|nodes 4|bytes 4M|hosts-per-leaf 4|fail 2-4@20us|end 60s";
    let mut simulation = simulation(lines, 1);
    let report = simulation.run(u32::MAX, |_| ());
    assert!(!report.is_complete() && report.failed > 0);
    assert!(report.end_ps < 60_000_000_000_000, "it ends with the last time-out");
    let shortfall = simulation.shortfall().expect("ranks are not done");
    assert_eq!(shortfall.incomplete, (4, 4));
    let text = shortfall.to_string();
    for (rank, awaited) in [(0, 3), (1, 0), (2, 1), (3, 2)] {
        let own = shortfall.ranks.iter().find(|waiting| waiting.rank == rank).expect("it waits");
        assert!(own.awaited.contains(&awaited) && own.call == 1, "{text}");
    }
    assert!(shortfall.ranks.iter().any(|waiting| waiting.lost == Some(2)), "{text}");
    assert!(text.contains("Rank 1 has stopped: rank 2 does not answer"), "{text}");
    assert!(text.contains("Rank 0 waits, in call 1; messages are missing from 3"), "{text}");
}

#[test]
fn settings_of_ranks_are_refused_for_flows() {
    for line in ["rounds 2", "slots 8", "direct-from 1M", "combine 1T"] {
        for how in ["collectives flows", "stack roce", "workload permutation"] {
            let mut settings = Settings::default();
            let lines = format!("workload ring-allreduce\nnodes 8\n{line}\n{how}");
            settings.read(&lines).expect("each is fine");
            let error = settings.build(1).expect_err("it would have no effect").to_string();
            let name = line.split(' ').next().unwrap_or_default();
            assert!(error.contains(name) && error.contains("leave it out"), "{error}");
        }
    }
    let mut settings = Settings::default();
    settings.read("workload ring-allreduce\nstack roce\ncollectives ranks").expect("fine");
    assert!(settings.build(1).expect_err("RoCE has none").to_string().contains("collectives"));
    settings.read("stack fairway\nnodes 8192").expect("fine");
    let error = settings.build(1).expect_err("too many ranks").to_string();
    assert!(error.contains("8192 ranks: a group has 2 to 4096"), "{error}");
}
