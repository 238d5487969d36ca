//! Streams: the share of a NIC that tenants get under each scheduler, and the cost of control.

use fairway_sim::{Report, Settings, Simulation, StreamSample, Verb};
use fairway_ub::wire::Duration;

fn simulation(lines: &str, parts: u32) -> Simulation {
    let mut settings = Settings::default();
    let usual = "workload streams\ntopology leaf-spine\nhosts-per-leaf 4\nnodes 4\nlink 100G\n\
                 latency 200ns\npaths 1\nend 2ms\nmeasure 500us\npolicy cc=fixed:1M";
    settings.read(usual).expect("settings");
    settings.read(&lines.replace('|', "\n")).expect("settings");
    Simulation::new(settings.build(1).expect("a scenario"), parts).expect("a run")
}

fn run(lines: &str) -> Report {
    let report = simulation(lines, 1).run(u32::MAX, |_| ());
    assert!(report.is_complete(), "{lines}: {} failed", report.failed);
    report
}

fn gbps(report: &Report, stream: usize) -> f64 {
    report.streams[stream].megabits() / 1e3
}

/// Little's law: the bytes in flight are the rate times the time that each message takes.
#[test]
fn a_stream_keeps_its_depth_under_way() {
    for (size, depth) in [(256u32, 4u32), (4096, 1), (4096, 4), (65_536, 8), (1 << 20, 4)] {
        let report = run(&format!("stream 0-1 size={size} depth={depth}"));
        let latency = report.streams[0].latency.p50 as f64 / 1e3;
        let under_way = gbps(&report, 0) * latency / 8.0;
        let wanted = f64::from(size * depth);
        assert!((under_way / wanted - 1.0).abs() < 0.03, "{size} x {depth}: {under_way}");
        assert!(gbps(&report, 0) < 98.0, "no more than the line carries");
        let read = run(&format!("stream 0-1 size={size} depth={depth} verb=read"));
        let latency = read.streams[0].latency.p50 as f64 / 1e3;
        let under_way = gbps(&read, 0) * latency / 8.0;
        assert!((under_way / wanted - 1.0).abs() < 0.03, "{size} x {depth} read: {under_way}");
    }
}

#[test]
fn rates_starts_and_ends_are_kept() {
    let report = run("stream 0-1 size=64K rate=20G depth=64|stream 2-1 size=16K rate=5G start=1ms\
                      |stream 3-2 size=64K end=1ms");
    assert!((gbps(&report, 0) - 20.0).abs() < 0.5, "{}", gbps(&report, 0));
    assert!((gbps(&report, 1) - 5.0).abs() < 0.2, "{}", gbps(&report, 1));
    assert_eq!(report.streams[1].span_ps(), report.end_ps - 1_000_000_000);
    // Four messages of 64 KiB were in flight when it ended, and 100 Gb/s place them in 21 us.
    let span = report.streams[2].span_ps();
    assert!((510_000_000..525_000_000).contains(&span), "{span}");
    assert!(gbps(&report, 2) > 60.0, "{}", gbps(&report, 2));
}

#[test]
fn schedulers_divide_a_line_by_their_rule() {
    let two = "stream 0-1 size=16K depth=16|stream 0-1 size=1M depth=16";
    let ratio = |sched: &str| {
        let report = run(&format!("policy cc=fixed:1M,sched={sched}|{two}"));
        assert!(gbps(&report, 0) + gbps(&report, 1) > 90.0, "{sched} leaves the line unused");
        gbps(&report, 1) / gbps(&report, 0)
    };
    for sched in ["static:line=100Gbps", "water-filling:line=100Gbps", "drr"] {
        assert!((0.9..1.15).contains(&ratio(sched)), "{sched}: {}", ratio(sched));
    }
    let weighted = "stream 0-1 size=64K depth=16|stream 0-1 size=64K depth=16 weight=3";
    let report = run(&format!("policy cc=fixed:1M,sched=drr|{weighted}"));
    let ratio = gbps(&report, 1) / gbps(&report, 0);
    assert!((2.8..3.2).contains(&ratio), "{ratio}");
}

/// READs are paced where their data is sent: at the responder.
#[test]
fn schedulers_share_out_what_is_read() {
    let two = "stream 0-1 size=16K depth=16 verb=read|stream 0-1 size=1M depth=16 verb=read";
    let rates = |sched: &str, streams: &str| {
        let report = run(&format!("policy cc=fixed:1M,sched={sched}|{streams}"));
        assert!(report.streams.iter().all(|stream| stream.verb == Verb::Read));
        (0..report.streams.len()).map(|stream| gbps(&report, stream)).collect::<Vec<_>>()
    };
    for sched in ["static:line=100Gbps", "water-filling:line=100Gbps", "drr"] {
        let [small, large] = rates(sched, two)[..] else { panic!("two streams") };
        assert!(small + large > 90.0, "{sched} leaves the line unused: {small} and {large}");
        assert!((0.9..1.15).contains(&(large / small)), "{sched}: {small} and {large}");
    }
    let [small, large] = rates("greedy|chunk 32K", two)[..] else { panic!("two streams") };
    assert!(large / small > 1.5, "a chunk of each message in turn: {small} and {large}");
    // A responder has one line for all initiators, whose Jetties may have the same numbers.
    let three = "nodes 4|stream 0-1 verb=read|stream 0-2 verb=read|stream 0-3 verb=read size=1M";
    let lines = format!("policy cc=fixed:1M,sched=static:line=30Gbps|{three}");
    for rate in rates("static:line=30Gbps", three) {
        assert!((9.0..10.1).contains(&rate), "a third of 30 Gb/s less headers: {rate}");
    }
    let mut simulation = simulation(&lines, 1);
    while simulation.step() && simulation.progress().now_ps < 1_000_000_000 {}
    for sample in simulation.streams() {
        let rate = sample.dequeue_rate.expect("a rate") as f64 * 8e-9;
        assert!((rate - 10.0).abs() < 0.1, "{rate}");
    }
}

/// Hints sent while streams run, in virtual time.
#[test]
fn hints_are_weights_where_schedulers_are_to_heed_them() {
    let two = |policy: &str, first: &str, second: &str| {
        let stream = "stream 0-1 size=64K depth=16";
        let lines = format!("policy cc=fixed:1M,sched={policy}|{stream} {first}|{stream} {second}");
        let report = run(&lines);
        assert!(gbps(&report, 0) + gbps(&report, 1) > 90.0, "{lines} leaves the line unused");
        [gbps(&report, 0), gbps(&report, 1)]
    };
    for sched in ["static:line=100Gbps", "water-filling:line=100Gbps", "drr"] {
        let heeding = format!("{sched}:hints=weight");
        let [one, three] = two(&heeding, "", "hint=3@100us");
        assert!((2.7..3.3).contains(&(three / one)), "{heeding}: {one} {three}");
        // There is no hint, or the scheduler ignores hints.
        let [one, other] = two(&heeding, "hint=0", "hint=0@100us");
        assert!((0.9..1.1).contains(&(other / one)), "{heeding}: {one} {other}");
        let [one, other] = two(sched, "", "hint=3@100us");
        assert!((0.9..1.1).contains(&(other / one)), "{sched}: {one} {other}");
        // A stream that requests everything gets what it can use. With rates, the others keep a
        // 65,536th, which is less than a message in this time; with turns, they keep what this
        // depth leaves of each round.
        let [modest, greedy] = two(&heeding, "", "hint=18446744073709551615@100us");
        assert!(greedy > 4.0 * modest, "{heeding}: {modest} {greedy}");
        assert_eq!(modest > 0.0, sched == "drr", "{heeding}: {modest} {greedy}");
    }
}

#[test]
fn a_processor_that_takes_its_time_sees_events_come_together() {
    let control = |flows: u32, control: &str| {
        let lines = format!(
            "policy cc=fixed:1M,sched=water-filling:line=100Gbps|coalescing slots|{control}\
             |stream 0-1 size=64K depth=4 count={flows}"
        );
        run(&lines).control
    };
    let granularity = |flows: u32, threads: u32| {
        // Turns of one packet, so that the packets of all flows alternate on the line.
        let control = control(flows, &format!("control {threads}:2us|chunk packet"));
        assert!(control.busy_ps <= u64::from(threads) * 1_510_000_000, "{}", control.busy_ps);
        control.bytes as f64 / control.transmits as f64
    };
    // Bytes per event: the line's rate, 12.5 GB/s, over the events per second, which are 2 or 4 in
    // 2 us.
    for (threads, bytes) in [(2, 12_500.0), (4, 6_250.0)] {
        for flows in [8, 32, 128] {
            let found = granularity(flows, threads);
            assert!((found / bytes - 1.0).abs() < 0.1, "{flows} on {threads}: {found}");
        }
    }
    // One thread handles all events of a stream.
    assert!(granularity(1, 64) > 20_000.0, "{}", granularity(1, 64));
    // Only when rates have settled does the scheduler request more bytes per event.
    let slots = control(8, "control 4:2us|end 5ms|measure 3ms");
    let coalesced = control(8, "control 4:2us|end 5ms|measure 3ms|coalescing until-threshold");
    assert!(
        coalesced.bytes / coalesced.transmits > 2 * (slots.bytes / slots.transmits),
        "{coalesced:?}"
    );
    assert!(2 * coalesced.busy_ps < slots.busy_ps, "{coalesced:?} {slots:?}");
    assert_eq!(control(8, "").busy_ps, 0, "in line with the data path it takes no time");
}

#[test]
fn flows_that_share_a_thread_have_half_the_events_of_flows_with_a_thread_each() {
    let events = |flows: u32, threads: u32| {
        let control = run(&format!(
            "policy cc=fixed:1M,sched=water-filling:line=100Gbps|coalescing slots|chunk packet\
             |control {threads}:4us|stream 0-1 size=64K depth=4 count={flows}"
        ));
        control.control.transmits as f64
    };
    let (shared, apart) = (events(2, 1), events(2, 2));
    assert!((apart / shared - 2.0).abs() < 0.1, "{shared} {apart}");
    // Threads without flows do nothing.
    assert_eq!(events(2, 2), events(2, 64));
    // Three flows on two threads: the thread of one flow is as busy as that of two.
    let uneven = events(3, 2);
    assert!((uneven / apart - 1.0).abs() < 0.1, "{uneven} {apart}");
}

#[test]
fn a_longer_link_is_seen_by_the_paths_that_have_it() {
    let lines = "nodes 8|hosts-per-leaf 4|paths 4|routing source|delay 8-10@1ms:10200ns\
                 |stream 0-4 size=4K depth=1";
    let mut simulation = simulation(lines, 1);
    let mut before: Vec<StreamSample> = Vec::new();
    while simulation.step() {
        if simulation.progress().now_ps < 1_000_000_000 {
            before = simulation.streams();
        }
    }
    let after = simulation.streams();
    let grown = before[0].paths.iter().zip(&after[0].paths);
    let grown: Vec<u64> = grown.map(|(then, now)| now.0.saturating_sub(then.0)).collect();
    // One of four spines is slower; data takes one way, and acknowledgements may take another.
    assert!(grown.iter().any(|ps| *ps > 8_000_000), "{grown:?}");
    assert!(grown.iter().any(|ps| *ps < 1_000_000), "{grown:?}");
}

/// Microseconds until eight flows of 4 KB to 512 KB messages, which start at 0.5 Gb/s of a line of
/// 100 Gb/s, all have dequeue rates that stay within 10 % of an eighth; the whole run if they do
/// not. `burst` is the pacing burst of a NIC.
fn settling_us(step_bits: u64, mtu: &str, burst: Duration) -> u64 {
    let streams: String =
        (0..8).map(|at| format!("|stream 0-1 size={}K depth=4", 4 << at)).collect();
    let mut settings = Settings::default();
    let lines = format!(
        "workload streams|topology leaf-spine|hosts-per-leaf 2|nodes 2|link 100G|latency 200ns\
         |paths 1|mtu {mtu}|chunk 32K|end 2ms|measure 1ms|policy cc=fixed:1M,path=spray,sched=\
         water-filling:line=100Gbps:floor=0:step={step_bits}bps:start=500Mbps:join=reset{streams}"
    );
    settings.read(&lines.replace('|', "\n")).expect("settings");
    let mut scenario = settings.build(1).expect("a scenario");
    scenario.profile = Some(scenario.timing().pacing_burst(burst));
    let mut simulation = Simulation::new(scenario, 1).expect("a run");
    let (mut settled, mut seen) = (0, 0);
    while simulation.step() {
        let samples = simulation.streams();
        let rates = samples.iter().filter_map(|sample| sample.dequeue_rate);
        seen = seen.max(rates.clone().count());
        let fair = 12_500_000_000 / 8;
        if rates.into_iter().any(|rate| rate.abs_diff(fair) > fair / 10) {
            settled = simulation.progress().now_ps / 1_000_000;
        }
    }
    assert_eq!(seen, 8, "every stream has a dequeue rate");
    settled
}

/// SCR, Table 5: the steps in bits per second, and the published times.
#[test]
fn water_filling_from_low_rates_settles_as_fast_as_published() {
    for (step_bits, published_us) in [(160_000_000, 294), (400_000_000, 122), (800_000_000, 49)] {
        for mtu in ["4K", "1K"] {
            let us = settling_us(step_bits, mtu, Duration::from_us(4));
            let bounds = published_us * 7 / 10..=published_us * 13 / 10;
            assert!(bounds.contains(&us), "{step_bits} b/s, {mtu}: {us} us, not {published_us}");
        }
    }
}

#[test]
fn partitions_do_not_change_the_result() {
    let lines = "nodes 16|hosts-per-leaf 4|paths 8|stream 0-9 size=4K..1M count=20 depth=2\
                 |stream 5-9 size=64K rate=30G|stream 9-5 size=32K count=5 verb=read|stream 9-0 size=16K|stream 12-3 paths=1 size=1M\
                 |policy cc=swift:target=20us,sched=water-filling:line=100Gbps|control 4:1us";
    let digest = |parts| simulation(lines, parts).run(u32::MAX, |_| ()).digest();
    let one = digest(1);
    assert_eq!([digest(2), digest(5)], [one, one]);
}

#[test]
fn impossible_settings_are_refused() {
    let mut settings = Settings::default();
    for wrong in [
        "0",
        "0-1 size=0",
        "0-1 size=2K..1K",
        "0-1 rate=1",
        "0-1 depth=0",
        "0-1 banana=3",
        "0-1 verb=send",
        "0-1 hint=-1",
        "0-1 hint=18446744073709551616",
        "0-1 hint=1@now",
    ] {
        let error = settings.set("stream", wrong).expect_err(wrong).to_string();
        assert!(error.contains("may be repeated"), "{error}");
    }
    settings.read("workload streams\ntopology leaf-spine\nnodes 4").expect("fine by itself");
    assert!(settings.build(1).expect_err("none").to_string().contains("--stream"));
    settings.read("stream 0-9").expect("fine by itself");
    let refused = Simulation::new(settings.build(1).expect("a scenario"), 1);
    assert!(refused.err().expect("no such host").to_string().contains("hosts 0 to 3"));
    let mut settings = Settings::default();
    settings.read("workload streams\ntopology leaf-spine\nnodes 4").expect("fine by itself");
    for option in ["weight=2", "hint=2"] {
        let mut settings = settings.clone();
        settings.read(&format!("stream 0-1 verb=read {option}")).expect("fine by itself");
        let refused = Simulation::new(settings.build(1).expect("a scenario"), 1);
        assert!(refused.err().expect("answers carry neither").to_string().contains("leave weight"));
    }
    let delay = "delay 0-4@1us:1ns";
    let mut settings = Settings::default();
    settings.read(&format!("topology leaf-spine\nnodes 8\n{delay}")).expect("fine by itself");
    settings.build(1).expect_err("shorter than it was, or no such link");
}

/// Packets overtake each other on four paths. Messages of strict order wait at their target for
/// their turn, those of relaxed order do not, and both have the same rate.
#[test]
fn strict_messages_wait_at_their_target() {
    let with = |order: &str| {
        let streams: String = (0..4)
            .map(|host| {
                format!("|stream {host}-{} size=4K depth=64 order={order} mode=rot", host + 4)
            })
            .collect();
        run(&format!("nodes 8|paths 4|small-messages 0|policy cc=fixed:1M,path=spray{streams}"))
    };
    let (relaxed, strict) = (with("relaxed"), with("strict"));
    assert!(relaxed.early_packets_max > 1 && relaxed.deferred_packets_max == 0);
    assert!(strict.early_packets_max > 1);
    assert!((1..64).contains(&strict.deferred_packets_max), "{}", strict.deferred_packets_max);
    let all = |report: &Report| (0..4).map(|stream| gbps(report, stream)).sum::<f64>();
    assert!((all(&strict) / all(&relaxed) - 1.0).abs() < 0.1);
}

/// Every Jetty with order has a record at both ends: more of them than one, at either end, find
/// room.
#[test]
fn hosts_have_room_for_the_order_of_all_their_streams() {
    let ordered = |order: &str, streams: [&str; 3]| {
        let each = streams.map(|ends| format!("|stream {ends} order={order} depth=16"));
        let report = run(&format!("end 600us|measure 0us{}", each.concat()));
        for (number, stream) in report.streams.iter().enumerate() {
            assert!(stream.placed_bytes > 1 << 20, "{order} {streams:?}: stream {number} stands");
        }
    };
    for mode in ["roi", "rot", "rol"] {
        ordered(&format!("strict mode={mode}"), ["0-1", "0-1", "0-2"]);
        ordered(&format!("strict mode={mode}"), ["1-0", "2-0", "3-0"]);
        ordered(&format!("relaxed mode={mode} verb=read"), ["1-0", "2-0", "1-0"]);
        ordered(&format!("strict mode={mode} verb=read"), ["0-1", "0-2", "0-3"]);
    }
}

/// A host has a record for each message of its streams and for each of its parts.
#[test]
fn hosts_have_room_for_the_parts_of_their_messages() {
    for streams in ["size=1M depth=64", "size=1M depth=64 verb=read count=3"] {
        for split in [2, 16] {
            let report = run(&format!("split {split}|end 600us|measure 0us|stream 0-1 {streams}"));
            let bytes = report.streams.iter().map(|stream| stream.placed_bytes).sum::<u64>();
            assert!(bytes > 4 << 20, "{streams}, split {split}: {bytes}");
        }
    }
}
