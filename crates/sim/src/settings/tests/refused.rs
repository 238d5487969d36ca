//! Settings that a run would ignore, and combinations that cannot run.

use crate::settings::{SETTINGS, Settings, WORKLOADS};

/// The error of settings that are each valid.
fn refused(lines: &str) -> String {
    let mut settings = Settings::default();
    settings.read(lines).expect("each for itself is fine");
    settings.build(1).expect_err(lines).to_string()
}

fn is_built(lines: &str) -> bool {
    let mut settings = Settings::default();
    settings.read(lines).expect("each for itself is fine");
    settings.build(1).is_ok()
}

/// A setting of other workloads or topologies, with a value that it takes, and one of those.
const OTHERS: [(&str, &str); 32] = [
    ("load 20", "websearch"),
    ("flows 9", "hadoop"),
    ("senders 3", "incast-permutation"),
    ("tokens 4", "moe"),
    ("experts 16:2", "moe"),
    ("skew 9", "moe"),
    ("messages 2", "incast-permutation"),
    ("placement random", "collective operations"),
    ("collectives flows", "collective operations"),
    ("slot 64K", "trace"),
    ("rounds 2", "collective operations"),
    ("slots 4", "collective operations"),
    ("combine 1G", "collective operations"),
    ("direct-from 1K", "collective operations"),
    ("ranks-per-node 2", "halo3d"),
    ("host-latency 1us", "sweep3d"),
    ("copy 1G", "sweep3d"),
    ("iterations 2", "halo3d26"),
    ("eager 4K", "halo3d"),
    ("grid 2x2", "sweep3d"),
    ("protocol rdma", "halo3d"),
    ("cells 10x10x10", "sweep3d"),
    ("layers 5", "sweep3d"),
    ("buffers 4", "halo3d"),
    ("measure 1us", "streams"),
    ("control 1:1us", "streams"),
    ("stream 0-1", "streams"),
    ("plane leaf-spine", "dual-plane"),
    ("sizes 2x2", "torus and hyperx"),
    ("dragonfly 4:2:9", "dragonfly"),
    ("rails 2", "rail"),
    ("hosts-per-switch 2", "torus, hyperx and dragonfly"),
];

#[test]
fn settings_of_other_workloads_and_topologies_are_refused() {
    for (line, of) in OTHERS {
        let error = refused(&format!("nodes 16\n{line}"));
        let name = line.split(' ').next().unwrap_or_default();
        assert!(error.starts_with(&format!("{name} is for ")), "{error}");
        assert!(error.contains(of) && error.contains("leave it out"), "{error}");
    }
    let error = refused("workload websearch\nnodes 16\nbytes 1K");
    assert!(error.contains("workloads other than websearch"), "{error}");
    let error = refused("workload incast\nnodes 16\npieces 2");
    assert!(error.contains("pieces is for permutation"), "{error}");
    let error = refused("workload ring-allreduce\ncollectives flows\ncopy 1G");
    assert!(error.contains("collectives ranks"), "{error}");
}

#[test]
fn workloads_take_their_own_settings() {
    for lines in [
        "workload hadoop\nload 20\nflows 9\nnodes 16",
        "workload incast-permutation\nsenders 3\nmessages 2\nnodes 16\nbytes 1K",
        "workload moe\ntokens 4\nexperts 16:2\nskew 9\nbytes 1K\nnodes 16",
        "workload all-gather\nplacement random\nslot 64K\nrounds 2\ncopy 1G\nranks-per-node 2\nnodes 16",
        "workload all-gather\ncollectives flows\nslot 64K\nplacement random\nnodes 16",
        "workload sweep3d\ngrid 4x4\ncells 10x10x10\nlayers 5\neager 4K\ndepth 2\nnodes 16",
        "workload halo3d26\nprotocol rendezvous\niterations 2\nhost-latency 1us\nnodes 16",
        "workload streams\nstream 0-1\nmeasure 1us\ncontrol 1:1us\ncoalescing slots\nnodes 16",
        "pieces 3\nbytes 1K\nnodes 16",
        "topology dual-plane\nplane leaf-spine\nhosts-per-leaf 4\nnodes 16",
        "topology hyperx\nsizes 2x2\nhosts-per-switch 2\nrouting dimension",
    ] {
        assert!(is_built(lines), "{lines}");
    }
    // Each workload is in the table by a name that exists.
    for (_, of) in OTHERS {
        let known = |name: &str| {
            WORKLOADS.iter().any(|workload| workload.0 == name)
                || SETTINGS.iter().any(|setting| setting.2.contains(name))
        };
        assert!(of.split([',', ' ']).any(known), "{of}");
    }
}

#[test]
fn routings_of_direct_networks_are_refused_on_trees() {
    for routing in ["dimension", "valiant", "ugal"] {
        for topology in ["fat-tree", "leaf-spine", "rail", "dual-plane"] {
            let rails = if topology == "rail" { "\nrails 1" } else { "" };
            let error =
                refused(&format!("nodes 16\ntopology {topology}\nrouting {routing}{rails}"));
            assert!(error.contains("need a torus, hyperx or dragonfly"), "{error}");
        }
    }
}

#[test]
fn a_trace_has_no_live_ranks() {
    let trace = |line: &str| {
        let mut settings = Settings::default();
        settings.set_trace("ranks 2\nall-reduce all 1K").expect("a trace");
        settings.read(&format!("topology leaf-spine\nhosts-per-leaf 2\n{line}")).expect("fine");
        settings.build(1).map(drop).map_err(|error| error.to_string())
    };
    let error = trace("collectives ranks").expect_err("no effect");
    assert!(error.contains("traces, which run as flows: leave it out"), "{error}");
    let error = trace("rounds 2").expect_err("no effect");
    assert!(!error.contains("take collectives ranks"), "{error}");
    assert!(trace("bytes 1").is_err() && trace("copy 1G").is_err());
    assert_eq!(trace("collectives flows\nslot 64K"), Ok(()));
}

#[test]
fn the_number_of_nodes_of_a_matrix_is_not_overruled() {
    let mut settings = Settings::default();
    settings.read("topology leaf-spine\nhosts-per-leaf 2\nnodes 8").expect("fine");
    settings.set_matrix(String::from("Nodes 4\n0->1 size 9\n"));
    let error = settings.build(1).expect_err("differs").to_string();
    assert!(error.contains("nodes 8: the matrix has 4"), "{error}");
    settings.set("nodes", "4").expect("fine");
    assert!(settings.build(1).is_ok());
}

#[test]
fn a_wrong_part_of_a_stream_is_named() {
    for (value, why) in [
        ("0", "'0' is not two hosts"),
        ("0-1 banana=3", "'banana' is no part of a stream; they are verb, size"),
        ("0-1 size", "'size' is not NAME=VALUE"),
        ("0-1 depth=5000", "depth cannot be '5000': it is a number from 1 to 4096"),
        ("0-1 count=0", "count cannot be '0': it is a number from 1 to 65536"),
        ("0-1 weight=65536", "weight cannot be '65536': it is a number from 1 to 65535"),
        ("0-1 size=64K size=4K", "size is given twice"),
        ("0-1 start=1ms end=500us", "start is not before end"),
        ("0-1 rate=10G every=1us", "every is the time between the starts of several streams"),
        ("0-1 mode=roi", "mode has no effect without an order"),
        ("0-1 mode=rol order=none", "mode has no effect without an order"),
    ] {
        let error = Settings::default().set("stream", value).expect_err(value).to_string();
        assert!(error.contains(why), "{error}");
    }
    for value in ["0-1 every=1us count=2", "0-1 mode=roi order=strict"] {
        assert!(Settings::default().set("stream", value).is_ok(), "{value}");
    }
}

#[test]
fn a_stream_that_would_send_nothing_or_share_nothing_is_refused() {
    let streams = "workload streams\nnodes 16";
    let error = refused(&format!("{streams}\nstream 0-1 start=3ms\nend 2ms"));
    assert!(error.contains("starts at 3000 us, and the run ends at 2000 us"), "{error}");
    for share in ["weight=5", "tenant=1", "tenant-weight=2"] {
        let error = refused(&format!("{streams}\nstream 0-1 {share}"));
        assert!(error.contains("no effect without a scheduler"), "{error}");
        let with = format!("{streams}\npolicy cc=nscc,sched=drr\nstream 0-1 {share}");
        assert!(is_built(&with), "{share}");
    }
}

/// The refused runs would have to build billions of flows, which the test would not survive.
#[test]
fn more_flows_than_fit_into_memory_are_refused_before_they_are_made() {
    let wide = "topology leaf-spine\nhosts-per-leaf 512\nnodes 262144\nbytes 1\nworkload";
    for (lines, flows) in [
        (format!("{wide} all-to-all"), "68719214592 flows"),
        (format!("{wide} ring-allreduce\ncollectives flows"), "137438953472 flows"),
        (
            String::from("workload incast-permutation\nnodes 1024\nmessages 65536"),
            "134152192 flows",
        ),
        (
            String::from("topology leaf-spine\nhosts-per-leaf 256\nnodes 65536\npieces 4096"),
            "268435456 flows",
        ),
    ] {
        let error = refused(&lines);
        assert!(error.contains(flows) && error.contains("33554432 at most"), "{error}");
    }
    let most = "topology leaf-spine\nhosts-per-leaf 64\nnodes 4096\nbytes 1\nworkload";
    for (workload, flows) in [("all-to-all", 16_773_120), ("ring-allreduce", 33_554_432)] {
        let mut settings = Settings::default();
        settings.read(&format!("{most} {workload}")).expect("settings");
        assert_eq!(settings.flow_count(4096, 4095), flows);
        assert!(flows <= crate::settings::FLOWS_MAX, "{workload}");
    }
}

#[test]
fn limits_are_in_the_errors() {
    for (line, limit) in [
        ("loss 0.9", "at most 50%"),
        ("ecn red:1K:2K:2000", "0 to 1000"),
        ("burst 0", "1 to 1024"),
        ("layers 0", "1 to 65536"),
        ("buffers 257", "1 to 256"),
    ] {
        let error = Settings::default().read(line).expect_err(line).to_string();
        assert!(error.contains(limit), "{error}");
    }
    let error = refused("topology torus\nsizes 1x1");
    assert!(error.contains("larger sizes, or more hosts-per-switch"), "{error}");
}
