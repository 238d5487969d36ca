//! Hosts that take data out of their NICs at a limited rate, and the pressure that they signal.

use fairway_sim::{Report, Settings, SettingsError, Simulation};

fn settings(lines: &str) -> Settings {
    let mut settings = Settings::default();
    let usual = "topology leaf-spine\nhosts-per-leaf 4\nnodes 8\nlink 100G\nlatency 500ns\n\
                 paths 16\npolicy cc=nscc";
    settings.read(usual).expect("settings");
    settings.read(&lines.replace('|', "\n")).expect("settings");
    settings
}

fn run(lines: &str, parts: u32) -> Report {
    let scenario = settings(lines).build(1).expect("a scenario");
    Simulation::new(scenario, parts).expect("a run").run(u32::MAX, |_| ())
}

/// A host that takes 25 of 100 Gb/s gets 25 Gb/s, and nothing is dropped by laws that react.
#[test]
fn senders_slow_down_to_the_rate_of_the_host() {
    let streams = "workload streams|stream 0-1 size=64K depth=8|end 8ms|measure 2ms|\
                   drain 1:25G";
    for law in ["nscc", "swift", "eqds", "cubic", "backpressure"] {
        let report = run(&format!("{streams}|policy cc={law},path=spray"), 1);
        let gbps = report.streams[0].megabits() / 1e3;
        // 25 Gb/s of frames are 24.3 of payload.
        assert!(gbps < 24.4, "{law}: {gbps}");
        // It halves while the queue is long, and grows slowly.
        let least = if law == "backpressure" { 8.0 } else { 22.0 };
        assert!(gbps > least, "{law}: {gbps}");
        assert!(report.pressures > 0, "{law}");
        assert_eq!((report.dropped_at_hosts, report.dropped), (0, 0), "{law}");
        assert!(report.receive_queue_bytes >= 128 * 1024, "{law}");
    }
}

/// Without a reaction, the queue overflows; what is dropped is sent again, and every byte is placed
/// once (`check`).
#[test]
fn what_a_full_queue_drops_is_sent_again() {
    let lines = "workload incast|bytes 1M|senders 7|check on|policy cc=fixed:1M,path=spray|\
                 queue 16M|drain 0:20G|receive-queue 256K";
    let report = run(lines, 1);
    assert!(report.is_complete());
    assert!(report.dropped_at_hosts > 0 && report.dropped == report.dropped_at_hosts);
    // No further packet would have fit.
    let most = 256 * 1024;
    assert!((most - 4300..=most).contains(&report.receive_queue_bytes));
    let seconds = report.completion_ps().expect("complete") as f64 / 1e12;
    let gbps = 7.0 * 8e-3 / seconds;
    assert!((12.0..20.0).contains(&gbps), "{gbps}");
    // Without a limit the same incast takes the line's rate.
    let free = run(&lines.replace("|drain 0:20G|receive-queue 256K", ""), 1);
    assert_eq!((free.dropped_at_hosts, free.receive_queue_bytes, free.pressures), (0, 0, 0));
    assert!(
        free.completion_ps().expect("complete") * 4 < report.completion_ps().expect("complete")
    );
}

/// A limit of a period ends, and then the line's rate returns.
#[test]
fn a_period_ends() {
    let lines = "workload streams|stream 0-1 size=64K depth=8|end 3ms|measure 2ms|drain all:5G";
    let always = run(lines, 1).streams[0].megabits();
    let until = run(&format!("{lines}@0us..1ms"), 1).streams[0].megabits();
    assert!(always < 5e3 && until > 8e4, "{always} {until}");
}

#[test]
fn two_cores_give_the_same_result() {
    let lines = "workload permutation|bytes 500K|drain all:30G@10us..40us|drain 3:10G";
    let (one, two) = (run(lines, 1), run(lines, 2));
    assert!(one.pressures > 0 && one.is_complete());
    assert_eq!(one, two);
}

#[test]
fn wrong_settings_are_named() {
    let error = settings("drain 8:25G").build(1).expect_err("eight hosts");
    assert_eq!(error.to_string(), "there is no host-8: host-0 to host-7");
    let error = settings("receive-queue 1M").build(1).expect_err("no drain");
    assert!(matches!(error, SettingsError::QueueWithoutDrain), "{error}");
    let mut some = Settings::default();
    let error = some.set("drain", "1:25").expect_err("no rate").to_string();
    assert!(error.contains("drain") && error.contains("HOST:RATE"), "{error}");
}
