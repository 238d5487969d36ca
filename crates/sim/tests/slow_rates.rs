//! Links and hosts that are much slower than the network: rates, time-outs, and the end of a run.

use fairway_sim::{Report, Settings, Simulation};

fn simulation(lines: &str) -> Simulation {
    let mut settings = Settings::default();
    settings.read("topology leaf-spine\nhosts-per-leaf 2\nnodes 2").expect("settings");
    settings.read(&lines.replace('|', "\n")).expect("settings");
    Simulation::new(settings.build(1).expect("a scenario"), 1).expect("a run")
}

fn run(lines: &str) -> Report {
    simulation(lines).run(u32::MAX, |_| ())
}

#[test]
fn rates_below_a_megabit_are_not_rounded_to_zero() {
    let report = run("workload streams|stream 0-1 size=64 depth=1|link 1M|end 100ms");
    let stream = report.streams[0];
    let expected = stream.placed_bytes as f64 * 8e6 / stream.span_ps() as f64;
    assert!(expected > 0.0 && expected < 1.0, "{stream:?}");
    assert_eq!(stream.megabits(), expected);
    assert_eq!(report.goodput_mbps(), None, "streams have no flows");
    let flows = run("workload incast|bytes 4K|link 1M");
    let megabits = flows.goodput_mbps().expect("flows have goodput");
    assert!(megabits > 0.1 && megabits < 1.0, "{megabits}");
}

/// A time-out is between the shortest and the longest one.
#[test]
fn shortest_time_out_raises_the_longest_and_the_first() {
    let times = |lines: &str| {
        let profile = simulation(lines).scenario().profile.expect("a profile");
        [profile.timeout_min, profile.timeout_initial, profile.timeout_max]
            .map(|time| time.as_ps() / 1_000_000)
    };
    assert_eq!(times("timeout-min 2s"), [2_000_000; 3]);
    assert_eq!(times("timeout-min 200us"), [200, 200, 500]);
    assert_eq!(times("timeout-min 60us"), [60, 100, 500]);
}

#[test]
fn a_run_over_a_link_that_was_slowed_down_a_lot_completes() {
    let report = run("workload incast|bytes 1M|degrade host-0@0us:10M|end 100s");
    assert!(report.is_complete(), "{} bytes short at {}", report.dropped, report.end_ps);
    assert!(report.timeouts < 100, "{} time-outs", report.timeouts);
}

#[test]
fn a_run_whose_hosts_drain_slowly_goes_on_to_its_end() {
    let mut run = simulation("workload permutation|bytes 1M|drain all:1M|end 5s");
    let report = run.run(u32::MAX, |_| ());
    assert_eq!(report.end_ps, 5_000_000_000_000);
    let missing = run.shortfall().expect("a megabyte takes eight seconds");
    assert!(!missing.is_livelock && missing.to_string().ends_with("more --end"), "{missing}");
}

#[test]
fn rates_that_slow_nothing_change_no_time_out() {
    let usual = simulation("workload incast").scenario().timing();
    for line in ["degrade host-0@0us:400G", "drain all:500G", "drain 0:100G", "fail 0-2@1ms..2ms"] {
        let other = simulation(&format!("workload incast|{line}")).scenario().timing();
        assert_eq!(usual, other, "{line}");
    }
}
