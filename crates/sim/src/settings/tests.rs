use super::*;
use crate::Change;

mod refused;

#[test]
fn a_scenario_file_is_read() {
    let text = "# two tiers\nworkload incast\nnodes = 64\ntopology leaf-spine\nlink 100G\n\
                latency 500ns # short\nbytes 1M\nsenders 9\nmtu 8K\nchunk policy\necn threshold:64K\n\
                overflow trim\nrouting adaptive\npaths 16\npolicy cc=cubic\ncheck on\nend 5ms\n";
    let mut settings = Settings::default();
    settings.read(text).expect("a good file");
    let scenario = settings.build(3).expect("a scenario");
    assert_eq!((scenario.network.hosts, scenario.flows.len(), scenario.mtu), (64, 9, 8192));
    assert_eq!(scenario.network.links[0].megabits, 100_000);
    assert_eq!(scenario.queue.marking, Marking::Threshold { bytes: 65_536 });
    assert_eq!((scenario.queue.overflow, scenario.routing), (Overflow::Trim, Routing::Adaptive));
    assert_eq!((scenario.chunk, scenario.paths, scenario.seed), (None, 16, 3));
    assert_eq!((scenario.check, scenario.end_ps), (true, 5_000_000_000));
}

#[test]
fn other_networks_and_what_happens_to_them() {
    let mut settings = Settings::default();
    let text = "topology torus\nsizes 4x3\nhosts-per-switch 2\nnodes 24\nworkload ring-allreduce\n\
                collectives flows\n\
                routing dimension\npfc 100K:80K\nshared-buffer 1M:2000\nfail 24-25@5us..9us\n\
                degrade 24-0@1ms:100G\n";
    settings.read(text).expect("a good file");
    let scenario = settings.build(1).expect("a scenario");
    assert_eq!((scenario.network.hosts, scenario.network.nodes()), (24, 36));
    assert_eq!(scenario.flows.len(), 24 * 46);
    let rates: Vec<u64> = scenario.changes.iter().map(|change| change.megabits).collect();
    assert_eq!(rates, [0, 0, 400_000, 400_000, 100_000, 100_000]);
    settings.set("fail", "0-1@5us").expect("fine by itself");
    assert!(settings.build(1).expect_err("no link").to_string().contains("no link joins 0 and 1"));
    let mut settings = Settings::default();
    settings.read("topology dragonfly\ndragonfly 4:2:9\nnodes 36\nrouting ugal").expect("fine");
    assert_eq!(settings.build(1).expect("a scenario").network.hosts, 36);
    settings.set("nodes", "64").expect("fine by itself");
    let error = settings.build(1).expect_err("other than there are").to_string();
    assert!(error.contains("nodes 64: this dragonfly has 36 hosts"), "{error}");
    let mut settings = Settings::default();
    settings.read("topology fat-tree\nnodes 16\nrouting ugal").expect("fine");
    assert!(settings.build(1).expect_err("no such routing").to_string().contains("ugal"));
}

/// Returns the links that a `fail` setting takes down, as pairs of nodes.
fn failed(network: &str, links: &str) -> Result<Vec<(u32, u32)>, String> {
    let mut settings = Settings::default();
    settings.read(network).expect("a network");
    settings.set("fail", &format!("{links}@5us")).expect("fine by itself");
    let scenario = settings.build(1).map_err(|error| error.to_string())?;
    let ends = |change: &Change| {
        let link = scenario.network.links[change.link as usize];
        (link.from, link.to)
    };
    Ok(scenario.changes.iter().map(ends).filter(|(from, to)| from < to).collect())
}

#[test]
fn nodes_fail_by_number_and_by_name() {
    let two = "topology leaf-spine\nnodes 16\nhosts-per-leaf 4";
    let third_spine = Ok(vec![(16, 22), (17, 22), (18, 22), (19, 22)]);
    for name in ["spine-2", "22", "switch-6"] {
        assert_eq!(failed(two, name), third_spine, "{name}");
    }
    assert_eq!(failed(two, "host-5"), Ok(vec![(5, 17)]));
    assert_eq!(failed(two, "leaf-0").map(|links| links.len()), Ok(8));
    let three = "topology fat-tree\nnodes 16";
    assert_eq!(failed(three, "core-3").map(|links| links.len()), Ok(4));
    assert_eq!(failed(three, "aggregation-7").map(|links| links.len()), Ok(4));
    let error = failed(three, "spine-0").expect_err("no spines").to_string();
    assert!(error.contains("aggregation-0 to aggregation-7 are 24 to 31"), "{error}");
    assert!(
        failed(two, "spine-4").expect_err("too many").to_string().contains("spine-0 to spine-3")
    );
    for far in ["spine-4294967295", "switch-4294967295", "4294967295"] {
        assert!(
            failed(two, far).expect_err("too many").to_string().contains("there is no"),
            "{far}"
        );
    }
    assert!(failed(two, "24").expect_err("too many").to_string().contains("there is no node 24"));
    let torus = "topology torus\nsizes 4x3";
    assert_eq!(failed(torus, "switch-0").map(|links| links.len()), Ok(1 + 4));
}

#[test]
fn wrong_settings_are_named_in_the_error() {
    for (text, word) in [
        ("nodes 1", "hosts"),
        ("link 400", "as 400G"),
        ("latency 0us", "as 1us"),
        ("\nbanana 3", "line 2"),
        ("ecn red:9:3", "red:LOW:HIGH"),
        ("mtu 33K", "as 4K"),
        ("bytes 4G", "as 64M"),
        ("compute 18000000s", "sweep3d"),
        ("host-latency 1001s", "rank"),
        ("path spray,cc=cubic", "spray, p2c"),
        ("policy-swap 18000000s:cc=x", "1ms"),
        ("end 1001s", "simulated"),
        ("pfc 10K:0", "1 to PAUSE"),
        ("pfc 10K:11K", "1 to PAUSE"),
        ("fail host-0@5us..1us", "which is later"),
        ("fail host-0@5us..5us", "which is later"),
        ("window 64", "128 to 32768"),
    ] {
        let error = Settings::default().read(text).expect_err(text).to_string();
        assert!(error.contains(word), "{error}");
    }
    let mut settings = Settings::default();
    settings.read("nodes 16\nsenders 16\nworkload incast").expect("each for itself is fine");
    assert!(settings.build(1).expect_err("too many").to_string().contains("16 senders"));
    for (lines, words) in [
        ("workload streams\nstream 0-1\nmeasure 2ms\nend 1ms", ["measure 2000 us", "1000 us"]),
        ("drain 0:25G\nreceive-queue 4K", ["receive-queue 4096", "4262 bytes"]),
        ("policy-swap 1ms:cc=nscc", ["'cc=nscc' names no module", "cc=./new.wasm"]),
    ] {
        let mut settings = Settings::default();
        settings.read(&format!("nodes 16\n{lines}")).expect("each for itself is fine");
        let error = settings.build(1).expect_err(lines).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

#[test]
fn chances_are_read_as_people_write_them() {
    for (text, expected) in
        [("0", Some(0)), ("0.25", Some(1 << 30)), ("25%", Some(1 << 30)), ("0.01%", Some(429_496))]
    {
        assert_eq!(crate::quantity::chance(text), expected, "{text}");
    }
    for wrong in ["", "%", "-1", "0.6", "1e-4", ".5", "0.0000000001"] {
        assert_eq!(crate::quantity::chance(wrong), None, "{wrong}");
    }
}

#[test]
fn slow_links_and_long_ones_are_read_and_limits_are_named() {
    let mut settings = Settings::default();
    let text = "topology leaf-spine\nnodes 4\nhosts-per-leaf 2\nlink 0.5G\nlatency 5ms\n\
                degrade 4-6@0us:1M\ndegrade 4-7@0:2.5Gbps\ndelay 4-6@0us:40.5ms\n\
                fail 4-7@0\u{b5}s..0.25s\n";
    settings.read(text).expect("a good file");
    let scenario = settings.build(1).expect("a scenario");
    let link = scenario.network.links[0];
    assert_eq!((link.megabits, link.latency_ps), (500, 5_000_000_000));
    let changes = scenario.changes.iter().map(|change| (change.at_ps, change.megabits));
    let changes: Vec<_> = changes.collect();
    let quarter = 250_000_000_000;
    assert_eq!(
        changes,
        [(0, 1), (0, 1), (0, 2500), (0, 2500), (0, 0), (0, 0), (quarter, 500), (quarter, 500)]
    );
    assert_eq!(scenario.delays[0].latency_ps, 40_500_000_000);
    for (text, limit) in [
        ("link 0.5M", "1M to 100T"),
        ("link 1.0005G", "whole megabits"),
        ("link 101T", "1M to 100T"),
        ("link .5G", "as 400G or 0.5G"),
        ("link 5.G", "as 400G or 0.5G"),
        ("latency 1.1s", "1ps to 1s"),
        ("latency 0", "1ps to 1s"),
        ("latency 0.5ps", "1ps to 1s"),
        ("degrade 4-6@0us:0M", "1M to 100T"),
        ("delay 4-6@0us:2s", "at most 1s"),
    ] {
        let error = Settings::default().read(text).expect_err(text).to_string();
        assert!(error.contains(limit), "{error}");
    }
}

/// Every documented setting is accepted.
#[test]
fn every_setting_is_known() {
    for (name, ..) in SETTINGS {
        let error = Settings::default().set(name, "?").expect_err("no value").to_string();
        assert!(error.starts_with(name), "{error}");
    }
}

#[test]
fn numbers_are_taken_within_the_limits_that_are_documented_and_not_beyond() {
    let mut checked = 0;
    for (name, _, meaning) in SETTINGS.iter().filter(|setting| setting.1 == "N") {
        let Some((before, after)) = meaning.split_once(" to ") else { continue };
        let least = before.rsplit(' ').next().and_then(|word| word.parse::<u64>().ok());
        let digits = after.split(|letter: char| !letter.is_ascii_digit()).next();
        let most = digits.and_then(|word| word.parse::<u64>().ok());
        let (Some(least), Some(most)) = (least, most) else { continue };
        checked += 1;
        let set = |number: u64| Settings::default().set(name, &number.to_string());
        assert!(set(least).is_ok() && set(most).is_ok(), "{name} takes {least} to {most}");
        for wrong in [least - 1, most + 1] {
            let error = set(wrong).expect_err("beyond the limits").to_string();
            assert!(error.contains(&format!("{least} to {most}")), "{error}");
        }
    }
    assert!(checked >= 10, "only {checked} settings say what they take");
    for wrong in ["0", "4294967296", "1T"] {
        let error =
            Settings::default().set("bytes", wrong).expect_err("beyond the limits").to_string();
        assert!(error.contains("1 to 4294967295"), "{error}");
    }
    Settings::default().set("bytes", "4294967295").expect("within the limits");
}

#[test]
fn settings_of_fairway_are_refused_on_roce() {
    for line in ["paths 16", "path p2c", "chunk 4K", "policy-swap 1ms:cc=cubic"] {
        for stack in ["roce", "roce-irn"] {
            let mut settings = Settings::default();
            settings.read(&format!("nodes 8\n{line}\nstack {stack}")).expect("each is fine");
            let error = settings.build(1).expect_err("it would have no effect").to_string();
            assert!(error.contains(line) && error.contains("leave it out"), "{error}");
        }
        let mut settings = Settings::default();
        settings.read(&format!("nodes 8\n{line}")).expect("fine");
        // A policy swap names a module, which does not exist here.
        let built = settings.build(1);
        assert!(built.is_ok() || line.starts_with("policy-swap"), "with Fairway's own stack");
    }
}

#[test]
fn every_workload_has_hosts_that_suit_it() {
    for (name, _) in WORKLOADS.iter().filter(|known| !["matrix", "trace"].contains(&known.0)) {
        let mut settings = Settings::default();
        settings.set("workload", name).expect("it is known");
        match settings.build(1) {
            Ok(scenario) => assert!(scenario.network.hosts >= 32, "{name}"),
            // These workloads need a file or streams.
            Err(error) => assert!(["sizes", "streams"].contains(name), "{name}: {error}"),
        }
    }
}
