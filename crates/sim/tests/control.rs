//! The default policies of the simulator beside variants that lack one of their parts: each part is
//! needed for a result, and a run without it shows that the test would notice.

use fairway_sim::{Report, Settings, Simulation};

/// Runs settings with a seed; every flow has to complete.
fn run(lines: &str, seed: u64) -> Report {
    run_scenario(lines, seed, |_| ())
}

fn run_scenario(lines: &str, seed: u64, change: impl FnOnce(&mut fairway_sim::Scenario)) -> Report {
    let mut settings = Settings::default();
    settings.read(&lines.replace('|', "\n")).expect("settings");
    let mut scenario = settings.build(seed).expect("a scenario");
    change(&mut scenario);
    let mut run = Simulation::new(scenario, 1).expect("a run");
    let report = run.run(u32::MAX, |_| ());
    let missing = run.shortfall().map(|shortfall| shortfall.to_string());
    assert_eq!(missing, None, "{lines}");
    report
}

/// Completion over the time of the bytes alone on a link of 400 Gb/s.
fn over_ideal(report: &Report, bytes: u64) -> f64 {
    report.completion_ps().expect("complete") as f64 / (bytes as f64 * 8.0 * 1e12 / 400e9)
}

/// The default congestion control with other path choices and loss detectors.
fn nscc(rest: &str) -> String {
    format!("policy cc=nscc:max=938952:initial=938952,{rest}")
}

#[test]
fn permutation_needs_paths_that_are_used_as_they_deliver() {
    const RUN: &str = "workload permutation|nodes 128|bytes 8M|";
    for seed in 1..=3 {
        let default = over_ideal(&run(RUN, seed), 8 << 20);
        // Headers take 3.5 %, and the first and last packets a round trip of 13 us.
        assert!(default < 1.16, "seed {seed}: {default:.3}");
        if seed == 1 {
            let blind = run(&format!("{RUN}{}", nscc("path=spray,loss=rack")), seed);
            let blind = over_ideal(&blind, 8 << 20);
            assert!(blind > 1.1 * default, "{blind:.3} with spray, {default:.3} by default");
            let chunks = over_ideal(&run(&format!("{RUN}chunk 32K"), seed), 8 << 20);
            assert!(chunks > 1.1 * default, "{chunks:.3} in chunks, {default:.3} by default");
        }
    }
}

#[test]
fn ring_with_losses_needs_detection_by_time_across_paths() {
    const RUN: &str = "workload ring-allreduce|collectives flows|nodes 16|bytes 16000000|";
    let us = |lines: &str, seed| {
        run(&format!("{RUN}{lines}"), seed).completion_ps().expect("complete") / 1_000_000
    };
    let sound = us("", 1);
    assert!(sound < 760, "{sound} us");
    for (loss, most) in [("0.01%", 770), ("0.1%", 930), ("1%", 1180)] {
        let mut lossy: Vec<u64> = (1..=5).map(|seed| us(&format!("loss {loss}"), seed)).collect();
        lossy.sort_unstable();
        assert!(lossy[2] < most, "{loss}: {lossy:?} us");
    }
    let order = us(&format!("loss 1%|{}", nscc("path=reps,loss=path-order")), 1);
    assert!(order > 1400, "by the order of packets on each path: {order} us");
}

#[test]
fn all_to_all_needs_turns_of_a_packet() {
    // All hosts have their messages in the same order, so long turns are incasts.
    let all_to_all = |turn_bytes: Option<u32>| {
        run_scenario("workload all-to-all|nodes 32|bytes 250000", 1, |scenario| {
            scenario.flows.sort_by_key(|flow| (flow.source, flow.destination));
            let profile = scenario.profile.unwrap_or_else(|| scenario.timing());
            scenario.profile = Some(turn_bytes.map_or(profile, |bytes| profile.turn_bytes(bytes)));
        })
    };
    let default = all_to_all(None);
    assert_eq!(default.dropped, 0);
    let over = over_ideal(&default, 31 * 250_000);
    assert!(over < 1.2, "{over:.3}");
    let long = all_to_all(Some(64 * 1024));
    let (long_ps, default_ps) =
        (long.completion_ps().expect("complete"), default.completion_ps().expect("complete"));
    assert!(long.dropped > 0 && long_ps > default_ps * 11 / 10, "{long_ps} and {default_ps} ps");
}

/// Ranks pass on a span when it has arrived. If all spans of a message share the rate, all arrive
/// at the end.
#[test]
fn collectives_in_slots_need_turns_of_a_slot() {
    const TREE: &str = "workload tree-allreduce|collectives flows|nodes 16|bytes 4M|slot 256K|";
    let (turns, shared) = (run(TREE, 1), run(&format!("{TREE}turn 0"), 1));
    let (turns, shared) =
        (turns.completion_ps().expect("complete"), shared.completion_ps().expect("complete"));
    assert!(turns * 4 / 3 < shared, "{turns} and {shared} ps");
}

#[test]
fn a_ring_in_slots_keeps_its_speed_under_loss() {
    const RING: &str =
        "workload ring-allreduce|collectives flows|nodes 16|bytes 16000000|slot 256K|";
    let sound = run(RING, 1).completion_ps().expect("complete");
    // Payload alone takes 600 us.
    assert!(sound < 640_000_000, "{sound} ps");
    for (loss, percent) in [("0.01%", 97), ("0.1%", 95), ("1%", 85)] {
        for seed in 1..=3 {
            let lossy = run(&format!("{RING}loss {loss}"), seed).completion_ps().expect("complete");
            assert!(sound * 100 / lossy >= percent, "{loss}, seed {seed}: {sound} and {lossy} ps");
        }
    }
}

#[test]
fn a_dead_and_a_slow_uplink_are_avoided() {
    const RUN: &str = "workload permutation|nodes 128|bytes 4000000|";
    let sound = run(RUN, 1).completion_ps().expect("complete");
    let gone = run(&format!("{RUN}fail 160-192@20us"), 1).completion_ps().expect("complete");
    let slow = run(&format!("{RUN}degrade 160-192@0us:100G"), 1).completion_ps().expect("complete");
    assert!(gone < sound * 3 / 2, "{gone} ps instead of {sound}");
    assert!(slow < sound * 11 / 10, "{slow} ps instead of {sound}");
    let spray = nscc("path=spray,loss=rack");
    let blind = run(&format!("{RUN}degrade 160-192@0us:100G|{spray}"), 1)
        .completion_ps()
        .expect("complete");
    assert!(blind > sound * 3 / 2, "{blind} ps with spray");
}

/// A request for credit that is sent on a dead path must not be repeated there for ever.
#[test]
fn credit_is_requested_around_a_dead_uplink() {
    const RUN: &str = "workload permutation|nodes 128|bytes 4000000|fail 160-192@20us|end 100ms";
    for law in ["eqds:line=400Gbps:window=640K", "homa:window=640K"] {
        for seed in 1..=3 {
            run(&format!("{RUN}|policy cc={law},path=reps,loss=rack"), seed);
        }
    }
}

/// The windows of every law bound retransmissions, too.
#[test]
fn incasts_end_under_every_law() {
    for (law, most) in [
        ("nscc:max=938952:initial=938952", 1.2),
        ("swift", 1.4),
        ("cubic", 1.2),
        // In some runs the last flow waits for a time-out or two.
        ("caqm", 1.7),
        ("eqds:line=400Gbps:window=640K", 1.25),
        // Packets of low classes are dropped again and again, and each time-out is longer; with one
        // class of data it is below 1.4.
        ("homa:window=640K", 2.1),
        ("fixed:960K", 1.5),
        // Their slowest flows grow from 40 Mb/s by 40 Mb/s at a time.
        ("dcqcn:line=400Gbps", 8.0),
        ("backpressure:line=400Gbps", 12.0),
        ("timely", 80.0),
    ] {
        for overflow in ["drop", "trim"] {
            for senders in [48u32, 64, 100] {
                let incast =
                    format!("workload incast|nodes 128|senders {senders}|bytes 1000000|end 1s");
                let policy = format!("policy cc={law},path=reps,loss=rack");
                let report = run(&format!("{incast}|overflow {overflow}|{policy}"), 1);
                let over = over_ideal(&report, u64::from(senders) * 1_000_000);
                assert!(over < most, "{law}, {senders} senders, {overflow}: {over:.3}");
            }
        }
    }
}

#[test]
fn dead_paths_are_found_by_probes() {
    const RUN: &str = "workload permutation|topology dual-plane|nodes 16|bytes 8M|fail 0-16@30us|";
    let us = |probe: &str| {
        let policy = nscc(&format!("path=spray,loss=rack,probe={probe}"));
        let mut took: Vec<u64> = (1..=3)
            .map(|seed| {
                run(&format!("{RUN}{policy}"), seed).completion_ps().expect("complete") / 1_000_000
            })
            .collect();
        took.sort_unstable();
        took[1]
    };
    let (without, with) = (us("off"), us("anomaly:8"));
    // Without probes a packet that is sent again tries one path after the other.
    assert!(with < 400 && with < without, "{with} us, {without} without probes");
}

#[test]
fn the_target_of_swift_grows_with_the_switches_on_the_way() {
    let completion = |hop: &str| {
        let policy =
            format!("policy cc=swift:target=500ns:range=0ns:hop={hop},path=spray,loss=rack");
        run(&format!("workload permutation|nodes 128|bytes 4M|{policy}"), 1)
            .completion_ps()
            .expect("complete")
    };
    let (counted, ignored) = (completion("3us"), completion("0ns"));
    // Five switches between most hosts, and a target that is less than their delay without `hop`.
    assert!(counted * 3 < ignored, "{counted} ps, {ignored} if they are not counted");
}
