//! `fairway emulate --topology`: live programs across a network of several switches. Requires root,
//! `ip` and TUN; without them the tests print that and pass, unless FAIRWAY_TEST_SUPERUSER is
//! `demanded`.

mod common;

use common::{Running, Scratch, fairway};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const FAIRWAY: &str = env!("CARGO_BIN_EXE_fairway");

const LEAF_SPINE: &str = "topology leaf-spine\nnodes 4\nhosts-per-leaf 2\nlink 1G\nlatency 20us\n\
                          queue 256K\necn threshold:64K\n";

/// Whether namespaces and interfaces can be created here.
///
/// # Panics
/// If they cannot, and the environment demands the tests that need them, as CI does.
fn is_possible() -> bool {
    // Tests run at the same time, and there can be one namespace of this name.
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    let possible = *POSSIBLE.get_or_init(|| {
        let name = format!("fwtry{}", std::process::id());
        let ip = |arguments: &[&str]| {
            let output = Command::new("ip").args(arguments).output();
            output.is_ok_and(|output| output.status.success())
        };
        let possible = Path::new("/dev/net/tun").exists() && ip(&["netns", "add", &name]);
        possible && ip(&["netns", "delete", &name])
    });
    if !possible {
        let variable = "FAIRWAY_TEST_SUPERUSER";
        let is_demanded = std::env::var_os(variable).is_some_and(|value| value == "demanded");
        assert!(!is_demanded, "{variable}=demanded: no namespaces, no `ip`, or no /dev/net/tun");
        eprintln!("skipped: no namespaces, no `ip`, or no /dev/net/tun here");
    }
    possible
}

/// Runs a script in an emulated network: FW is the tool, NS the prefix.
fn run(name: &str, settings: &[&str], script: &str) -> (Value, String) {
    let scratch = Scratch::new();
    let file = scratch.path("network.txt");
    std::fs::write(&file, LEAF_SPINE).unwrap();
    let prefix = format!("fwt{}{name}", std::process::id());
    let mut command = Command::new(FAIRWAY);
    command.args(["emulate", "--json", "--prefix", &prefix, "--topology"]).arg(&file);
    for setting in settings {
        command.args(["--set", setting]);
    }
    command.args(["--duration", "60s", "--", "sh", "-c", script]);
    command.env("FW", FAIRWAY).env("NS", &prefix);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{error}");
    let left = std::fs::read_dir("/run/netns").unwrap();
    let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    let start = format!("{prefix}-");
    let own = |entry: &&std::ffi::OsString| entry.to_string_lossy().starts_with(&start);
    assert_eq!(left.iter().find(own), None, "namespaces are removed");
    let last = text.lines().last().unwrap_or_default();
    (serde_json::from_str(last).unwrap(), text)
}

const WRITES: &str = "ip netns exec $NS-3 $FW perf --server --bind 10.83.0.4 >/dev/null & server=$!
    for wait in 1 2 3 4 5 6 7 8 9 10; do
        sleep 0.5
        ip netns exec $NS-0 $FW perf write --size 64K --duration 1s --json \
            --connect 10.83.0.4 --bind 10.83.0.1 && break
    done
    status=$?; kill $server; exit $status";

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

#[test]
fn live_programs_cross_several_paths() {
    if !is_possible() {
        return;
    }
    let (report, text) = run("paths", &[], WRITES);
    let perf: Value = text
        .lines()
        .find_map(|line| serde_json::from_str::<Value>(line).ok().filter(|v| v["links"].is_null()))
        .unwrap_or_else(|| panic!("perf has said nothing: {text}"));
    assert!(perf.to_string().contains("verified"), "{perf}");
    assert!(number(&report, "delivered") > 100, "{report}");
    let sum =
        ["delivered", "dropped", "lost"].map(|name| number(&report, name)).iter().sum::<u64>();
    assert!(sum <= number(&report, "sent"), "{report}");
    let spines: Vec<u64> = report["links"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|link| number(link, "from") == 4 && number(link, "to") >= 6)
        .map(|link| number(link, "packets"))
        .collect();
    assert!(spines.len() == 2 && spines.iter().all(|packets| *packets > 20), "{spines:?}");
}

#[test]
fn bytes_arrive_though_packets_are_lost_and_a_link_fails() {
    if !is_possible() {
        return;
    }
    let (report, _) = run("loss", &["loss=2%", "routing=spray", "fail=4-6@500ms..2s"], WRITES);
    assert!(number(&report, "lost") > 0, "{report}");
}

/// Starts a server on host 3, and waits for its first line, which it prints when it listens.
const SERVE: &str = "serve() {
        pipe=$(mktemp -u); mkfifo $pipe
        ip netns exec $NS-3 $FW perf --server --bind 10.83.0.4 \"$@\" >$pipe & server=$!
        exec 3<$pipe; rm $pipe; read line <&3
    }
    ";

/// Ten clients, one after the other, each with different ports.
const CONNECTIONS: &str =
    "ip netns exec $NS-3 $FW perf --server --bind 10.83.0.4 >/dev/null & server=$!
    for wait in 1 2 3 4 5 6 7 8 9 10; do
        ip netns exec $NS-3 ss -Hlun | grep -q 10.83.0.4 && break
        sleep 0.5
    done
    for client in 0 1 2 3 4 5 6 7 8 9; do
        ip netns exec $NS-0 $FW perf write --size 4K --iters 100 --json --pin none \
            --connect 10.83.0.4 --bind 10.83.0.1:501$client || { kill $server; exit 1; }
    done
    kill $server";

/// Leaf 4 is not informed that spine 6 has lost its link to the other leaf, so that half of all
/// pairs of ports are cut off.
#[test]
fn connections_are_set_up_though_a_spine_has_lost_a_link() {
    if !is_possible() {
        return;
    }
    let (_, text) = run("spine", &["fail=5-6@0us"], &[SERVE, CONNECTIONS].concat());
    assert_eq!(rows(&text).len(), 10, "{text}");
}

/// Output of `fairway perf`.
fn rows(text: &str) -> Vec<Value> {
    let row = |line: &str| serde_json::from_str::<Value>(line).ok().filter(|v| !v["op"].is_null());
    text.lines().filter_map(row).collect()
}

/// Runs a client and a server for each of three congestion controllers.
const CONTROLLERS: &str = "for policy in cc=swift cc=cubic cc=eqds:line=100Mbps; do
        serve --policy $policy
        ip netns exec $NS-0 $FW perf write --size 32K --iters 300 --depth 32 --json --pin none \
            --policy $policy --connect 10.83.0.4 --bind 10.83.0.1
        status=$?; kill $server; wait $server; [ $status = 0 ] || exit $status
    done";

/// Cells of the matrix that `xtask bench --part networks` measures. Rates depend on how busy this
/// machine is, but the correctness of the bytes and the small number of needless packets do not.
#[test]
fn controllers_retransmit_little_for_nothing_over_slow_links() {
    if !is_possible() {
        return;
    }
    let link = ["link=400M", "latency=500us", "ecn=off", "queue=100K", "degrade=3-5@0us:100M"];
    for (name, more) in [("clean", "loss=0"), ("lossy", "loss=1%")] {
        let settings: Vec<&str> = link.into_iter().chain([more]).collect();
        let (_, text) = run(name, &settings, &[SERVE, CONTROLLERS].concat());
        let rows = rows(&text);
        assert_eq!(rows.len(), 3, "{text}");
        for row in rows {
            // Every slot is compared at the end, and others during the run.
            assert!(number(&row, "verified") >= 32 * 32 * 1024, "{row}");
            let (sent, nothing) = (number(&row, "packets_sent"), number(&row, "packets_duplicate"));
            assert!(nothing * 20 <= sent, "{name}: {nothing} of {sent} packets for nothing: {row}");
        }
    }
}

/// Two leaves of four hosts each, and four spines, which are nodes 10 to 13.
const FOUR_SPINES: [&str; 6] =
    ["nodes=8", "hosts-per-leaf=4", "link=200M", "latency=50us", "queue=128K", "ecn=threshold:40K"];

/// A transfer from host 0 to host 7, which takes about five seconds, by each path in turn: the
/// default prefers those that have delivered.
const LONG_WRITE: &str = "pipe=$(mktemp -u); mkfifo $pipe
    ip netns exec $NS-7 $FW perf --server --bind 10.83.0.8 --paths $PATHS >$pipe & server=$!
    exec 3<$pipe; rm $pipe; read line <&3
    ip netns exec $NS-0 $FW perf write --size 1M --iters 120 --depth 8 --json --pin none \
        --paths $PATHS --policy path=spray --connect 10.83.0.8 --bind 10.83.0.1
    status=$?; kill $server; wait $server; exit $status";

/// Every path is a pair of ports of its own, in both directions, and all spines carry data. While
/// the transfer runs, the link from the first spine to leaf 9 fails and stays so, of which leaf 8
/// is not informed: what went there is sent again by other paths, and every byte of every slot is
/// compared.
#[test]
fn transfers_over_64_and_256_paths_survive_a_link_that_fails() {
    if !is_possible() {
        return;
    }
    for paths in [64, 256] {
        let settings = [&FOUR_SPINES[..], &["fail=9-10@4s"]].concat();
        let script = format!("PATHS={paths}; {LONG_WRITE}");
        let (report, text) = run(&format!("p{paths}"), &settings, &script);
        let rows = rows(&text);
        let [row] = &rows[..] else { panic!("{text}") };
        assert_eq!((number(row, "paths"), number(row, "port_pairs")), (paths, paths), "{row}");
        assert!(number(row, "verified") >= 8 << 20, "{row}");
        assert!(number(&report, "lost") > 0, "nothing was lost on the link: {report}");
        let dead = row["paths_dead"]["count"].as_u64().unwrap_or_default();
        // A quarter of the paths, give or take what the hash of their ports does.
        assert!((paths / 8..paths / 2).contains(&dead), "{dead} of {paths} paths are dead: {row}");
        for (from, to) in [(0, 7), (7, 0)] {
            let pair = |flow: &&Value| number(flow, "from") == from && number(flow, "to") == to;
            let flows = report["flows"].as_array().unwrap().iter().find(pair).expect("flows");
            // Set-up sends from some further ports.
            let count = number(flows, "flows");
            assert!((paths..paths + 40).contains(&count), "{count} flows for {paths} paths");
        }
        let through: Vec<u64> = report["links"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|link| number(link, "from") == 8 && number(link, "to") >= 10)
            .map(|link| number(link, "packets"))
            .collect();
        assert!(through.len() == 4 && through.iter().all(|packets| *packets > 500), "{through:?}");
    }
}

/// Regression test: the command went on without its network.
#[test]
fn command_that_still_runs_at_the_end_is_ended() {
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.path("network.txt");
    std::fs::write(&file, LEAF_SPINE).unwrap();
    let prefix = format!("fwt{}end", std::process::id());
    let mut command = Command::new(FAIRWAY);
    command.args(["emulate", "--json", "--prefix", &prefix, "--topology"]).arg(&file);
    command.args(["--duration", "100ms", "--", "sh", "-c", "echo $$; exec sleep 60"]);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("it still ran") && error.contains("--duration"), "{error}");
    let text = String::from_utf8_lossy(&output.stdout);
    let [number, report] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(!Path::new("/proc").join(number).exists(), "process {number} is still there");
    let report: Value = serde_json::from_str(report).expect("the report");
    assert!(report["delivered"].is_u64(), "{report}");
}

#[test]
fn networks_that_cannot_be_emulated_are_refused_with_the_reason() {
    let scratch = Scratch::new();
    let file = scratch.path("network.txt");
    let refused = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let output = Command::new(FAIRWAY).args(["emulate", "--topology"]).arg(&file).output();
        let output = output.unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused("nodes 8192\n").contains("at most 250"));
    assert!(
        refused("topology leaf-spine\nnodes 4\nhosts-per-leaf 2\noverflow trim\n").contains("trim")
    );
    assert!(refused("nodes lots\n").contains("line 1"));
    let limits = refused("nodes 4\nlink 0.5M\n");
    assert!(limits.contains("line 2: link cannot be '0.5M'"), "{limits}");
    assert!(limits.contains("1M to 100T"), "{limits}");
}

#[test]
fn relay_prints_nothing_but_json_on_standard_output() {
    let mut command = Command::new(FAIRWAY);
    command.args(["emulate", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"]);
    let output = command.args(["--duration", "1ms", "--json"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!(report["forward"], 0, "{report}");
    assert!(error.contains("listening on 127.0.0.1:"), "{error}");
}

/// `timeout` sends its signal to the process and then to its group, and the second one ended the
/// process before it had removed the namespaces.
#[test]
fn namespaces_are_removed_at_a_repeated_signal() {
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.text("network.txt");
    std::fs::write(&file, LEAF_SPINE).unwrap();
    let prefix = format!("fwt{}sig", std::process::id());
    let mut network = Running::start(&["emulate", "--prefix", &prefix, "--topology", &file]);
    network.line(&format!("{prefix}-3"));
    let number = network.child.id().to_string();
    let signals = Command::new("kill").args(["-TERM", &number]).status();
    assert!(signals.expect("kill runs").success());
    // The second signal comes before the first one is noticed, or while namespaces are removed.
    assert_eq!(network.end(), 0);
    let left = std::fs::read_dir("/run/netns").unwrap().flatten();
    let mut left = left.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert_eq!(left.find(|name| name.starts_with(&prefix)), None);
}

#[test]
fn options_of_relay_and_topology_exclude_each_other() {
    let relay = ["emulate", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--duration", "1ms"];
    for (more, word) in [
        (&["--set", "loss=1%"][..], "--set"),
        (&["--prefix", "fw"], "--prefix"),
        (&["--", "false"], "COMMAND"),
    ] {
        fairway(&[&relay[..], more].concat()).fails(2, &[word, "cannot be used with"]);
    }
    let topology = ["emulate", "--topology", "network.txt", "--flows", "5"];
    fairway(&topology).fails(2, &["--flows", "cannot be used with"]);
    let missing = ["emulate", "--topology", "/nowhere/network.txt"];
    fairway(&missing).fails(2, &["/nowhere/network.txt", "cannot be read", "fairway sim"]);
}

#[test]
fn relay_that_could_reach_nothing_or_itself_is_refused() {
    let relay = |listen: &str, to: &str| {
        fairway(&["emulate", "--listen", listen, "--to", to, "--duration", "1ms"])
    };
    relay("127.0.0.1:0", "127.0.0.1:0").fails(2, &["--to 127.0.0.1:0", "1 to 65535"]);
    for (listen, to) in [
        ("127.0.0.1:4977", "127.0.0.1:4977"),
        ("127.0.0.1", "127.0.0.1:4977"),
        ("0.0.0.0", "127.0.0.1:4977-4978"),
        ("[::1]:4977", "[::]:4977"),
    ] {
        relay(listen, to).fails(2, &["to itself", "4977", "another port"]);
    }
    relay("127.0.0.1:0", "127.0.0.1:9").ok();
}
