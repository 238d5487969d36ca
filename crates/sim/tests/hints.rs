//! Congestion information that switches write into data packets, and the law that follows it.

use fairway_sim::{Report, Settings, Simulation};

fn settings(lines: &str) -> Settings {
    let mut settings = Settings::default();
    let usual = "topology leaf-spine\nhosts-per-leaf 4\nnodes 8\nlink 100G\nlatency 500ns\n\
                 paths 16\nqueue 256K\necn off\npolicy cc=caqm:max=1M,path=reps";
    settings.read(usual).expect("settings");
    settings.read(&lines.replace('|', "\n")).expect("settings");
    settings
}

fn run(lines: &str, parts: u32) -> Report {
    let scenario = settings(lines).build(1).expect("a scenario");
    Simulation::new(scenario, parts).expect("a run").run(u32::MAX, |_| ())
}

fn longest(report: &Report) -> u32 {
    report.ports.iter().map(|port| port.longest_bytes).max().unwrap_or(0)
}

/// Seven senders to one host, without ECN: only hints can stop the windows.
#[test]
fn windows_follow_hints_and_keep_the_queue_within_its_room() {
    let incast = "workload incast|senders 7|bytes 4000000|end 20ms|check on";
    let blind = run(&format!("{incast}|hint off"), 1);
    assert!(blind.dropped > 1000, "{}", blind.dropped);
    // With C-AQM switches write hints without being asked to.
    let hinted = run(incast, 1);
    assert!(hinted.dropped < blind.dropped / 10, "{} of {}", hinted.dropped, blind.dropped);
    assert!(hinted.end_ps < blind.end_ps, "{} {}", hinted.end_ps, blind.end_ps);
    assert_eq!(hinted, run(&format!("{incast}|hint caqm"), 2), "on two cores");
}

/// Streams of messages, of which one begins later: they share the link, which stays full, by WRITEs
/// and by READs, and the queue stays near its thresholds.
#[test]
fn streams_share_a_full_link_with_a_short_queue() {
    for verb in ["write", "read"] {
        let pair = |host| match verb {
            "write" => format!("stream {host}-0 size=64K depth=32"),
            _ => format!("stream 0-{host} verb=read size=64K depth=32"),
        };
        let lines = format!(
            "workload streams|{}|{} start=1ms|end 6ms|measure 3ms|hint caqm:25K:50K:100K",
            pair(4),
            pair(5)
        );
        let report = run(&lines, 1);
        let rates: Vec<u64> =
            report.streams.iter().map(|stream| stream.megabits() as u64).collect();
        let total: u64 = rates.iter().sum();
        assert!(total > 90_000, "{verb}: {rates:?}");
        assert!(rates.iter().all(|rate| *rate > total / 4), "{verb}: {rates:?}");
        assert!(longest(&report) < 256 << 10, "{verb}: {}", longest(&report));
        assert_eq!(report.dropped, 0, "{verb}");
    }
}

/// A window of 32 packets fills 400 Gb/s and 12 us within a few round trips, because no queue is
/// long: by four packets a round trip a permutation takes more than twice the time of its bytes.
#[test]
fn windows_grow_fast_where_no_queue_is_long() {
    let permutation = "workload permutation\nnodes 128\nbytes 8000000\nend 20ms";
    let end = |cc: &str| {
        let mut settings = Settings::default();
        let policy = format!("policy cc={cc}:max=916K,path=reps,loss=rack");
        settings.read(&format!("{permutation}\n{policy}")).expect("settings");
        let scenario = settings.build(1).expect("a scenario");
        let report = Simulation::new(scenario, 1).expect("a run").run(u32::MAX, |_| ());
        assert_eq!(report.dropped, 0, "{cc}");
        report.end_ps / 1_000_000
    };
    // The bytes alone take 160 us, headers 6, and the first packet 6.
    let (slow, fast, wide) = (end("caqm:fast=0"), end("caqm"), end("caqm:initial=916K"));
    assert!(slow > 320, "{slow}");
    assert!(fast < 240, "{fast}");
    assert!(wide < 195, "{wide}");
}

#[test]
fn hints_out_of_order_are_refused() {
    for wrong in ["caqm:2K:1K:4K", "caqm:1K:2K:2K", "caqm:1K", "utilisation", ""] {
        assert!(Settings::default().set("hint", wrong).is_err(), "{wrong}");
    }
}

/// With HPCC switches tell the use of links without being asked to: seven senders to one host drop
/// few packets and keep its link full, and two streams share a link that stays full. Without hints
/// windows shrink at losses and never grow, so that the senders leave a part of the link.
#[test]
fn hpcc_follows_the_use_of_links() {
    let incast = "workload incast|senders 7|bytes 4000000|end 20ms|check on|\
                  policy cc=hpcc:max=1M:initial=256K,path=reps";
    let blind = run(&format!("{incast}|hint off"), 1);
    let told = run(incast, 1);
    assert!(told.dropped < blind.dropped / 2, "{} of {}", told.dropped, blind.dropped);
    // The bytes alone take 2,240 us, and their headers 44.
    let [told_us, blind_us] = [told.end_ps, blind.end_ps].map(|end_ps| end_ps / 1_000_000);
    assert!(told_us < 2_350, "{told_us} us with hints");
    assert!(blind_us > 2_750, "{blind_us} us without");
    assert_eq!(told, run(&format!("{incast}|hint use"), 2), "on two cores");
    let streams = run(
        "workload streams|stream 4-0 size=64K depth=32|stream 5-0 size=64K depth=32 start=1ms|\
         end 6ms|measure 3ms|policy cc=hpcc:max=1M,path=reps",
        1,
    );
    let rates: Vec<u64> = streams.streams.iter().map(|stream| stream.megabits() as u64).collect();
    let total: u64 = rates.iter().sum();
    // It aims at 95 % of the link; the code of the use has steps of 2 %.
    assert!((88_000..97_000).contains(&total), "{rates:?}");
    assert!(rates.iter().all(|rate| *rate > total / 4), "{rates:?}");
    assert_eq!(streams.dropped, 0);
}

#[test]
fn a_round_trip_of_nothing_is_refused() {
    let mut settings = Settings::default();
    for (value, is_right) in
        [("use", true), ("use:10us", true), ("use:0us", false), ("pint", false)]
    {
        assert_eq!(settings.set("hint", value).is_ok(), is_right, "{value}");
    }
}
