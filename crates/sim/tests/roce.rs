//! Hosts with RoCEv2: the queue pairs that run live beneath verbs, on simulated networks.

use fairway_sim::{
    Clos, Flow, FlowResult, Report, Scenario, Settings, SettingsError, Simulation, Stack,
};

fn scenario(lines: &str) -> Result<Scenario, SettingsError> {
    let mut settings = Settings::default();
    settings.read("nodes 16\ncheck on\nstack roce").expect("settings");
    settings.read(&lines.replace('|', "\n")).expect("settings");
    settings.build(1)
}

/// Runs a scenario, whether or not it completes.
fn ended(lines: &str) -> Report {
    let scenario = scenario(lines).expect("a scenario");
    Simulation::new(scenario, 1).expect("a run").run(u32::MAX, |_| ())
}

fn run(lines: &str) -> Report {
    let report = ended(lines);
    assert!(report.is_complete(), "{lines}: not complete after {} ps", report.end_ps);
    report
}

/// Number of data packets if none is lost.
fn packets(report: &Report, mtu: u32) -> u64 {
    report.flows.iter().map(|flow| u64::from(flow.bytes.div_ceil(mtu))).sum()
}

/// Every byte is placed once and at its place (`check on`), with losses or late packets.
#[test]
fn lost_packets_are_retransmitted() {
    for loss in ["0", "0.1%", "1%"] {
        let [all, missing] = ["roce", "roce-irn"].map(|stack| {
            let report = run(&format!("bytes 4M|queue 64M|ecn off|loss {loss}|stack {stack}"));
            assert_eq!(report.data_sent - report.resent, packets(&report, 4096), "{stack}");
            assert_eq!(report.resent > 0, loss != "0", "{stack}: {} resent", report.resent);
            assert_eq!(report.dropped, 0);
            report
        });
        // Go-back-N retransmits everything in flight.
        if loss != "0" {
            assert!(all.resent > 4 * missing.resent, "{} and {}", all.resent, missing.resent);
            let [all, missing] = [all, missing].map(|report| report.completion_times().p50);
            assert!(all > missing, "{loss}: {all} {missing}");
        }
    }
}

/// The counts of data packets mean the same for every stack: all that were sent, and those of them
/// that were retransmissions.
#[test]
fn retransmissions_are_among_the_data_packets_sent() {
    for stack in ["fairway", "roce", "roce-irn"] {
        let report = run(&format!("bytes 1M|queue 64M|ecn off|loss 1%|stack {stack}"));
        assert!(report.resent > 0, "{stack}");
        assert_eq!(report.data_sent - report.resent, packets(&report, 4096), "{stack}");
    }
}

/// Go-back-N treats packets that overtake each other as losses; selective repeat does not.
#[test]
fn reordering_costs_go_back_n_only() {
    let busy = |stack| run(&format!("bytes 1M|queue 64M|ecn off|routing spray|stack {stack}"));
    let [all, missing] = ["roce", "roce-irn"].map(busy);
    assert!(all.resent > 1000, "{} resent", all.resent);
    assert!(missing.resent < 10, "{} resent", missing.resent);
    assert!(
        all.completion_ps().expect("complete") > 2 * missing.completion_ps().expect("complete")
    );
}

/// A queue pair has one path. With several queue pairs to a peer, flows use them in turn.
#[test]
fn a_queue_pair_keeps_to_one_path() {
    let uplinks = |stack, split| {
        let network = Clos::three_tiers(128, 1).expect("a tree").build(400_000, 1_000_000);
        let edge = network.links[network.first_port[0] as usize].to;
        let ports = network.ports_of(edge).filter(|p| network.links[*p as usize].to >= 128);
        let ports: Vec<u32> = ports.collect();
        let mut scenario = Scenario::new(network, vec![Flow::new(0, 127, 1 << 20); 8]);
        (scenario.stack, scenario.split, scenario.check) = (stack, split, true);
        let report = Simulation::new(scenario, 1).expect("a run").run(u32::MAX, |_| ());
        assert!(report.is_complete());
        ports.iter().filter(|port| report.ports[**port as usize].bytes > 100_000).count()
    };
    assert_eq!(uplinks(Stack::Roce, 1), 1);
    assert!((2..=4).contains(&uplinks(Stack::Roce, 8)));
    assert_eq!(uplinks(Stack::Fairway, 1), 4);
}

/// PFC prevents losses; DCQCN keeps queues short, so that fewer packets are dropped.
#[test]
fn pauses_keep_everything_and_rates_keep_queues_short() {
    let incast = "workload incast|senders 12|bytes 8M|pfc 100K:80K|ecn red:50K:150K";
    let rates = run(incast);
    let none = run(&format!("{incast}|policy cc=fixed:4M"));
    for report in [&rates, &none] {
        assert_eq!((report.dropped, report.resent, report.timeouts), (0, 0, 0));
        assert!(report.pauses() > 0);
    }
    let line_ps = 12 * 8 * 1024 * 1024 * 20;
    assert!(2 * rates.pauses() < none.pauses(), "{} and {}", rates.pauses(), none.pauses());
    // Without rate control, the receiver's link is busy all the time.
    assert!(
        none.completion_ps().expect("complete") < line_ps * 115 / 100,
        "{}",
        none.completion_ps().expect("complete")
    );
}

/// If a peer is cut off for good, the operations in flight to it and those posted later fail, and
/// no others.
#[test]
fn flow_to_an_unreachable_host_fails() {
    let network = scenario("bytes 1").expect("a scenario").network;
    let switch = network.links[network.first_port[5] as usize].to;
    let report = ended(&format!("workload all-to-all|bytes 2M|split 2|fail 5-{switch}@20us"));
    let touches = |flow: &FlowResult| flow.source == 5 || flow.destination == 5;
    assert_eq!(report.failed, 30);
    for flow in &report.flows {
        assert_eq!(flow.completed_ps.is_none(), touches(flow), "{flow:?}");
    }
}

#[test]
fn settings_that_roce_lacks_are_refused() {
    for (lines, word) in [
        ("workload halo3d|grid 4x2x2", "stack fairway"),
        ("workload streams|stream 0-1 size=64K|check off", "stack fairway"),
        ("mtu 3000", "256"),
        ("policy cc=swift", "policy cc=swift"),
        ("policy cc=dcqcn:line=1Gbps", "without parameters"),
        ("policy cc=dcqcn,path=spray", "path=spray"),
        ("policy cc=dcqcn,loss=rack", "no other policies"),
        ("policy cc=fixed:1M,sched=static:line=1Gbps", "no other policies"),
        ("bytes 2G|mtu 256", "1073741824"),
        ("bytes 3G|mtu 4K", "2147483648"),
    ] {
        let scenario = scenario(lines).expect("a scenario");
        let error = Simulation::new(scenario, 1).err().expect("it cannot be");
        assert!(error.to_string().contains(word), "{lines}: {error}");
    }
}

/// A queue that is too short for an incast drops until senders take turns: each waits for several
/// time-outs, which are longer than a hundred round trips of a short network.
#[test]
fn time_outs_of_a_short_network_are_waited_for() {
    for (latency, seed) in [("100ns", 4), ("10ns", 1)] {
        let mut settings = Settings::default();
        let lines = "workload incast\nnodes 16\nstack roce\nqueue 64K\nbytes 1M";
        settings.read(&format!("{lines}\nlatency {latency}")).expect("settings");
        let scenario = settings.build(seed).expect("a scenario");
        let mut simulation = Simulation::new(scenario, 1).expect("a run");
        let report = simulation.run(u32::MAX, |_| ());
        let missing = simulation.shortfall();
        assert!(report.is_complete(), "{latency}: {}", missing.expect("an incomplete run"));
    }
}
