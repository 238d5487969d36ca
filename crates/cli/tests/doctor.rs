//! `fairway doctor` on the machine that runs the tests, whatever its properties.

mod common;

use common::{Running, fairway};
use serde_json::Value;

const VERDICTS: [&str; 4] = ["ok", "slower", "missing", "broken"];

fn findings(arguments: &[&str]) -> Vec<Value> {
    let ended = fairway(arguments);
    let value: Value = serde_json::from_str(&ended.out).expect("one JSON object");
    assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
    let findings = value["findings"].as_array().expect("findings").clone();
    let broken: Vec<&Value> =
        findings.iter().filter(|finding| finding["verdict"] == "broken").collect();
    assert_eq!(ended.code, i32::from(!broken.is_empty()), "{}{}", ended.out, ended.err);
    findings
}

fn named<'a>(findings: &'a [Value], name: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} among {findings:#?}"))
}

#[test]
fn json_has_a_verdict_for_everything_and_a_remedy_for_what_is_not_ok() {
    let findings = findings(&["doctor", "--json"]);
    for finding in &findings {
        let verdict = finding["verdict"].as_str().expect("a verdict");
        assert!(VERDICTS.contains(&verdict), "{finding}");
        assert_eq!(finding["remedy"].is_null(), verdict == "ok", "{finding}");
        assert!(finding["found"].as_str().is_some_and(|found| !found.is_empty()), "{finding}");
    }
    for name in [
        "udp",
        "shared memory",
        "af_xdp",
        "rdma devices",
        "UDP_SEGMENT",
        "UDP_GRO",
        "receive",
        "send",
        "lo",
        "source",
        "cores",
        "cgroup quota",
        "open files",
        "system calls",
        "network namespace",
        "emulated networks",
        "verbs library",
        "UDP port 4791",
        "locked memory",
        "/dev/shm",
        "TCP",
    ] {
        named(&findings, name);
    }
    // This test uses sockets itself, so doctor must report that they work.
    assert_eq!(named(&findings, "udp")["verdict"], "ok");
    // Whether this process may use AF_XDP depends on its capabilities.
    assert!(["ok", "missing"].contains(&named(&findings, "af_xdp")["verdict"].as_str().unwrap()));
}

#[test]
fn text_has_the_findings_of_json_and_a_last_line_with_their_numbers() {
    let ended = fairway(&["doctor"]);
    for finding in findings(&["doctor", "--json"]) {
        let name = finding["name"].as_str().expect("a name");
        assert!(ended.out.contains(&format!(" {name} ")), "no {name} in: {}", ended.out);
    }
    let last = ended.out.lines().last().unwrap_or_default();
    assert!(last.contains(" slower, ") && last.ends_with(" missing"), "{last}");
}

#[test]
fn named_peer_is_reached_on_every_path() {
    let server = Running::start(&["perf", "--server", "--bind", "127.0.0.1:0"]);
    let address = server.address();
    let findings = findings(&["doctor", "--json", &address]);
    for name in ["connection", "path MTU", "paths", "round trip"] {
        assert_eq!(named(&findings, name)["section"], "peer");
    }
    assert_eq!(named(&findings, "connection")["verdict"], "ok");
    let paths = named(&findings, "paths")["found"].as_str().unwrap_or_default().to_owned();
    assert_eq!(paths, "16 of 16 answered");
}

#[test]
fn peer_that_does_not_serve_is_broken_and_fails_the_command() {
    // The port was free a moment ago, and none of the tests' programs uses it.
    let port = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let host = port.expect("a port").to_string();
    let ended = fairway(&["doctor", &host, "--connect-timeout", "300ms"]);
    let ended = ended.fails(1, &["broken: ", &host]);
    assert!(ended.out.contains("broken"), "{}", ended.out);
    fairway(&["doctor", "127.0.0.1:x"]).fails(2, &["127.0.0.1:x", "HOST:PORT"]);
    fairway(&["doctor", "--connect-timeout", "1s"]).fails(2, &["HOST"]);
}

/// Regression test: values that every command refuses were not looked at.
#[test]
fn environment_that_is_refused_is_broken_and_fails_the_command() {
    let doctor = |name: &str, value: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fairway"));
        let command = command.args(["doctor", "--json"]).env(name, value);
        let output = command.output().expect("it starts");
        let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        let findings = value["findings"].as_array().expect("findings").clone();
        (output.status.code(), named(&findings, name).clone())
    };
    let (code, finding) = doctor("FAIRWAY_DATAPATH", "nosuch");
    assert_eq!((code, finding["verdict"].as_str()), (Some(1), Some("broken")), "{finding}");
    assert_eq!(finding["section"], "environment");
    let (_, finding) = doctor("FAIRWAY_DATPATH", "udp");
    assert_eq!(finding["verdict"], "missing");
    let remedy = finding["remedy"].as_str().unwrap_or_default();
    assert!(remedy.contains("write FAIRWAY_DATAPATH"), "{remedy}");
    let (_, finding) = doctor("FAIRWAY_DATAPATH", "udp");
    assert_eq!(finding["verdict"], "ok");
}
