//! Hosts with a wire into each of two networks, and traces of collective operations.

use fairway_sim::{Report, Settings, Simulation};

fn settings(lines: &str) -> Settings {
    let mut settings = Settings::default();
    settings.read("nodes 16\ncheck on\npaths 16").expect("settings");
    settings.read(&lines.replace('|', "\n")).expect("settings");
    settings
}

fn report(settings: &Settings, parts: u32) -> Report {
    let scenario = settings.build(1).expect("a scenario");
    let report = Simulation::new(scenario, parts).expect("a run").run(u32::MAX, |_| ());
    assert!(report.is_complete(), "not complete after {} ps", report.end_ps);
    report
}

fn run(lines: &str) -> Report {
    report(&settings(lines), 1)
}

/// Returns the bytes of data and control that left hosts in each plane.
fn sent(settings: &Settings, report: &Report) -> [u64; 2] {
    let network = settings.build(1).expect("a scenario").network;
    let mut bytes = [0; 2];
    for (link, port) in network.links.iter().zip(&report.ports) {
        if link.from < network.hosts {
            bytes[network.plane_of(link) as usize] += port.bytes;
        }
    }
    bytes
}

const US: u64 = 1_000_000;

/// One host sends to one other as fast as both of its wires carry, and puts the same amount on
/// each.
#[test]
fn two_wires_carry_twice_as_much() {
    for plane in ["fat-tree", "leaf-spine|hosts-per-leaf 4"] {
        let flow = "workload outcast|senders 1|bytes 16M|ecn off|queue 8M";
        let one = run(&format!("topology {plane}|{flow}")).completion_ps().expect("complete");
        let settings = settings(&format!("topology dual-plane|plane {plane}|{flow}"));
        let report = report(&settings, 1);
        let two = report.completion_ps().expect("complete");
        // Twice as fast, apart from the latency.
        assert!((one * 49 / 100..one * 54 / 100 + 10 * US).contains(&two), "{two} beside {one}");
        let [first, second] = sent(&settings, &report);
        assert!(first.abs_diff(second) * 20 < first, "{first} and {second} bytes");
        // At first nothing is known of how much later packets of one wire may arrive.
        assert_eq!(report.dropped, 0);
        assert!(report.resent * 200 < report.data_sent, "{} sent again", report.resent);
    }
}

/// A single path uses a single wire. A hash of the two hosts selects it, the same in both
/// directions.
#[test]
fn one_path_has_one_wire() {
    let settings = settings("topology dual-plane|bytes 1M|paths 1");
    let report = report(&settings, 1);
    let [first, second] = sent(&settings, &report);
    assert!(first.min(second) > 4 << 20, "{first} and {second} bytes");
    let network = settings.build(1).expect("a scenario").network;
    for flow in &report.flows {
        let data = |host: u32| {
            let wires = network.ports_of(host);
            wires.map(|port| report.ports[port as usize].bytes).collect::<Vec<_>>()
        };
        // A message of 1 MiB leaves by one wire; the other carries at most acknowledgements.
        let bytes = data(flow.source);
        assert!(bytes.iter().filter(|bytes| **bytes > 1 << 20).count() == 1, "{bytes:?}");
    }
}

/// Packets in flight in a plane that fails are lost and retransmitted by the other plane, which
/// carries everything from then on.
#[test]
fn a_plane_may_fail() {
    for plane in [0, 1] {
        let common = "topology dual-plane|bytes 4M";
        let whole = run(common).completion_ps().expect("complete");
        let settings = settings(&format!("{common}|fail plane-{plane}@20us"));
        let report = report(&settings, 1);
        assert!(report.lost_on_links > 0 && report.resent > 0);
        assert!(
            report.completion_ps().expect("complete") < 12 * whole,
            "{} us",
            report.completion_ps().expect("complete") / US
        );
        // 16 wires of 400 Gb/s carry 16 MB in 20 us, of 64 MB in total.
        let bytes = sent(&settings, &report);
        let (failed, other) = (bytes[plane], bytes[1 - plane]);
        assert!(failed < 20 << 20 && other > 44 << 20, "{failed} and {other} bytes");
        // The plane recovers.
        let lines = format!("{common}|bytes 16M|fail plane-{plane}@20us..60us");
        let again = self::settings(&lines);
        let back = sent(&again, &self::report(&again, 1));
        assert!(back[plane] > 40 << 20, "{back:?} bytes");
    }
    let mut missing = settings("topology dual-plane");
    missing.set("fail", "plane-2@5us").expect("fine by itself");
    assert!(missing.build(1).expect_err("no such plane").to_string().contains("no plane 2"));
}

// ---- traces ----

fn trace(lines: &str, text: &str) -> Settings {
    let mut settings = settings(lines);
    settings.set_trace(text).expect("a trace");
    settings
}

const LEAF: &str = "topology leaf-spine|hosts-per-leaf 16|queue 16M|ecn off";

/// Times of operations, in picoseconds.
fn times(text: &str) -> Vec<(u64, u64)> {
    let report = report(&trace(LEAF, text), 1);
    let each = report.operations.iter();
    each.map(|op| (op.started_ps.expect("begun"), op.completed_ps.expect("done"))).collect()
}

#[test]
fn ranks_compute_and_then_send() {
    let times =
        times("ranks 16\ncompute all 100us\nsend 0->1 4K\ncompute 0-1 50us\ncompute 9 5us\n");
    assert_eq!(times[0], (0, 100 * US));
    let (from, to) = times[1];
    // Two links of 1 us each way.
    assert!(from == 100 * US && (to - from).abs_diff(4 * US) < US / 2, "{from} {to}");
    // Rank 1 is done when it has the message, rank 0 when the message is acknowledged.
    let (from, end) = times[2];
    assert!(from.abs_diff(102 * US) < US / 2 && end == to + 50 * US, "{from} {end}");
    assert_eq!(times[3], (100 * US, 105 * US), "rank 9 waits for no other rank");
}

/// An operation that waits for nothing runs beside the others; one that waits for two runs after
/// the later one.
#[test]
fn operations_overlap_as_configured() {
    let text = |after: &str| {
        format!(
            "ranks 16\nsum: all-reduce 0-7 8M\nwork: compute 0-7 150us after={after}\n\
             compute 0-7 10us after=sum,work\n"
        )
    };
    let beside = times(&text("-"));
    assert_eq!(beside[1], (0, 150 * US));
    assert!(beside[0].1 > 150 * US, "the sum takes longer: {}", beside[0].1);
    assert!(beside[2].1.abs_diff(beside[0].1 + 10 * US) < US);
    let behind = times(&text("sum"));
    assert!(behind[1].1.abs_diff(beside[0].1 + 150 * US) < US);
}

/// A trace of one collective takes as long as the workload of the same name.
#[test]
fn a_collective_takes_as_long_as_alone() {
    for (name, line) in [
        ("ring-allreduce", "all-reduce all 4M"),
        ("tree-allreduce", "all-reduce all 4M tree"),
        ("all-gather", "all-gather all 4M"),
        ("reduce-scatter", "reduce-scatter all 4M"),
    ] {
        let alone = run(&format!("{LEAF}|workload {name}|collectives flows|bytes 4M"))
            .completion_ps()
            .expect("complete");
        let traced = report(&trace(LEAF, &format!("ranks 16\n{line}\n")), 1)
            .completion_ps()
            .expect("complete");
        assert_eq!(traced, alone, "{name}");
    }
}

/// A rank that enters a ring late delays the ring, and no rank outside it.
#[test]
fn a_ring_waits_for_its_last_rank() {
    let times = times(
        "ranks 16\ncompute 3 400us\nall-reduce 0-7 1M\nall-reduce 8-15 1M\nbroadcast all 1M\n\
         reduce all 1M\nall-to-all all 1M\n",
    );
    assert!(times[1].0 == 0 && times[1].1 > 400 * US && times[2].1 < 100 * US, "{times:?}");
    assert!(times[5].1 > times[1].1);
}

/// The example runs, with the same results in partitions.
#[test]
fn the_example_is_the_same_in_parts() {
    let text = include_str!("../../../examples/traces/training-step.trace");
    for lines in ["topology leaf-spine|hosts-per-leaf 4", "topology dual-plane"] {
        let settings = trace(lines, text);
        let alone = report(&settings, 1);
        assert_eq!(alone.operations.len(), 17);
        for parts in [2, 5] {
            assert!(report(&settings, parts) == alone, "{lines}: {parts} parts");
        }
    }
}

#[test]
fn a_trace_fits_its_network() {
    let text = "ranks 20\nall-reduce all 1M\n";
    assert!(trace("", text).build(1).expect_err("16 hosts").to_string().contains("too few for 20"));
    let mut settings = Settings::default();
    settings.set("workload", "trace").expect("a workload");
    assert!(settings.build(1).expect_err("no file").to_string().contains("needs a file"));
    settings.set_trace("ranks 54\nall-reduce all 1M\n").expect("a trace");
    assert_eq!(settings.build(1).expect("as many hosts as ranks").network.hosts, 54);
}
