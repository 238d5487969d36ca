//! Incasts whose packets are trimmed end under every congestion control.

use fairway_sim::{Report, Settings, Simulation};

/// Runs an incast of one megabyte from each of `senders` hosts to one host, over links of 400 Gb/s.
fn incast(senders: u32, policy: &str) -> Report {
    let mut settings = Settings::default();
    let text = format!(
        "workload incast\nnodes 128\nsenders {senders}\nbytes 1M\noverflow trim\nend 20ms\n{policy}"
    );
    settings.read(&text).expect("settings");
    let mut run = Simulation::new(settings.build(1).expect("a scenario"), 1).expect("a run");
    let report = run.run(u32::MAX, |_| ());
    let missing = run.shortfall().map(|shortfall| shortfall.to_string());
    assert_eq!(missing, None, "{senders} senders, '{policy}'");
    assert!(report.is_complete(), "{senders} senders, '{policy}'");
    report
}

/// The example in `fairway sim --help` is the one with 100 senders and the default policy.
#[test]
fn an_incast_with_trimming_ends_under_every_congestion_control() {
    for policy in [
        "",
        "policy cc=cubic",
        "policy cc=dcqcn:line=400Gbps",
        "policy cc=homa",
        "policy cc=eqds:line=400Gbps",
        "policy cc=caqm",
        "policy cc=fixed:960K",
    ] {
        for senders in [48, 64, 100] {
            let report = incast(senders, policy);
            assert!(report.trims() > 0, "{senders} senders, '{policy}'");
        }
    }
}

/// The window of the default policy limits retransmissions, too: most packets sent are new,
/// although three in four do not fit into the receiver's link at first.
#[test]
fn retransmissions_of_the_default_policy_wait_for_room_in_the_window() {
    for (senders, share) in [(48, 1), (100, 2)] {
        let report = incast(senders, "");
        let (resent, new) = (report.resent, report.data_sent - report.resent);
        assert!(resent <= share * new, "{senders} senders: {resent} of {new} again");
    }
}

/// Switches without room for data forward headers only, and a fixed window does not react. The run
/// is stopped, and its error names what was missing.
#[test]
fn run_that_places_nothing_stops_and_reports_what_flows_wait_for() {
    let mut settings = Settings::default();
    let text = "workload incast\nnodes 128\nsenders 100\nbytes 1M\noverflow trim\nend 1s\n\
                policy cc=fixed:960K";
    settings.read(text).expect("settings");
    let mut scenario = settings.build(1).expect("a scenario");
    scenario.queue.bytes = 0;
    let mut run = Simulation::new(scenario, 1).expect("a run");
    let report = run.run(u32::MAX, |_| ());
    let shortfall = run.shortfall().expect("an incomplete run");
    assert!(!report.is_complete() && shortfall.is_livelock, "{shortfall}");
    // Four of Fairway's longest time-outs, and a window.
    let bound = 4 * run.scenario().timing().timeout_max.as_ps() + run.scenario().base_rtt_ps();
    assert!(shortfall.stopped_ps - shortfall.progress_ps < bound, "{shortfall}");
    let text = shortfall.to_string();
    for part in ["100 of 100 flows are incomplete", "switches trimmed", "of 1048576 bytes in place"]
    {
        assert!(text.contains(part), "{text}");
    }
}
