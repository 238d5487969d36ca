//! C programs that load the library as NCCL does, and drive the table of each version.

mod common;

use common::{Run, SANITIZED, VERSIONS, can_sanitize, compile, library, retransmissions, skip};
use std::process::Command;

/// Silence after which the tests' peers are declared dead.
const PATIENCE: (&str, &str) = ("FAIRWAY_NCCL_PEER_TIMEOUT_MS", "1000");

/// Packets are lost, duplicated and overtake others.
const IMPAIRED: &str = "loss=2%,reorder=8,dup=1%,delay=50us";
/// Two paths deliver nothing, from the beginning and from some time on.
const DEAD_PATHS: &str = "*:loss=1%;2:blackhole@0s..600s;7:blackhole@200ms..600s";

#[test]
fn every_version_moves_messages_and_survives_misuse() {
    let Some(program) = compile("exchange", false) else { return };
    for version in VERSIONS {
        let bytes = if version == 12 { "16777216" } else { "2097152" };
        // The last uses every interface of the machine.
        let names = if version == 12 { "^none" } else { "lo" };
        let (arguments, environment) = (&[bytes][..], &[("FAIRWAY_NCCL_IFNAME", names)][..]);
        Run { program: &program, version, arguments, environment }.succeed();
    }
}

#[test]
fn processes_exchange_messages_with_every_version() {
    let Some(program) = compile("processes", false) else { return };
    for version in VERSIONS {
        for datapath in ["auto", "udp"] {
            let environment = &[("FAIRWAY_DATAPATH", datapath)][..];
            let arguments = &["exchange"][..];
            Run { program: &program, version, arguments, environment }.succeed();
        }
    }
}

#[test]
fn hundreds_of_connections_are_made_at_once() {
    let Some(program) = compile("processes", false) else { return };
    for version in [8, 12] {
        let (arguments, environment) = (&["many"][..], &[][..]);
        Run { program: &program, version, arguments, environment }.succeed();
    }
}

#[test]
fn a_dead_process_ends_the_requests_of_the_other() {
    let Some(program) = compile("processes", false) else { return };
    for (version, datapath) in [(8, "auto"), (12, "udp")] {
        for what in ["sender-dies", "receiver-dies", "nobody-listens"] {
            let environment = &[PATIENCE, ("FAIRWAY_DATAPATH", datapath)][..];
            let arguments = &[what][..];
            Run { program: &program, version, arguments, environment }.succeed();
        }
    }
}

#[test]
fn impaired_networks_do_not_stop_messages() {
    let (Some(one), Some(two)) = (compile("exchange", false), compile("processes", false)) else {
        return;
    };
    for spec in [IMPAIRED, DEAD_PATHS] {
        let environment = &[("FAIRWAY_EMULATE", spec)][..];
        let (program, arguments) = (&one, &["2097152"][..]);
        let log = Run { program, version: 12, arguments, environment }.succeed();
        assert!(retransmissions(&log) > 0, "the network was not impaired:\n{log}");
        for version in [8, 12] {
            let (program, arguments) = (&two, &["exchange"][..]);
            Run { program, version, arguments, environment }.succeed();
        }
    }
}

#[test]
fn versions_run_under_address_sanitizer() {
    let Some(program) = can_sanitize().then(|| compile("exchange", true)).flatten() else { return };
    for version in [8, 12] {
        let (arguments, environment) = (&["1048576"][..], &SANITIZED[..]);
        Run { program: &program, version, arguments, environment }.succeed();
    }
}

/// AddressSanitizer checks the application's memory in the library's system calls, so the library
/// really does not access memory that the program above has deregistered and freed.
#[test]
fn the_sanitizer_finds_an_injected_bug() {
    let Some(program) = can_sanitize().then(|| compile("injected", true)).flatten() else { return };
    let (arguments, environment) = (&[][..], &SANITIZED[..]);
    let result = Run { program: &program, version: 12, arguments, environment }.output();
    let report = String::from_utf8_lossy(&result.stderr);
    let found = !result.status.success() && report.contains("heap-use-after-free");
    assert!(found, "{report}");
}

#[test]
fn settings_that_are_illegal_are_reported() {
    let Some(program) = compile("processes", false) else { return };
    for (name, value, remedy) in [
        ("FAIRWAY_PATHS", "257", "1 to 256"),
        ("FAIRWAY_EMULATE", "loss=often", "often"),
        ("FAIRWAY_NCCL_PEER_TIMEOUT_MS", "5", "100 to 86400000, in ms"),
        ("FAIRWAY_NCCL_SPEED", "abc", "1 to 2147483647, in Mb/s"),
    ] {
        let (arguments, environment) = (&["exchange"][..], &[(name, value)][..]);
        let result = Run { program: &program, version: 12, arguments, environment }.output();
        let log = String::from_utf8_lossy(&result.stderr);
        assert!(!result.status.success() && log.contains(&format!("{name}={value}: ")), "{log}");
        assert!(log.contains(remedy), "{log}");
    }
}

#[test]
fn only_the_tables_are_exported() {
    let Ok(result) = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output()
    else {
        return skip("the check of exported symbols: there is no nm");
    };
    let text = String::from_utf8(result.stdout).expect("text");
    let mut found: Vec<&str> =
        text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    found.sort_by_key(|name| (name.len(), *name));
    let expected = VERSIONS.map(|version| format!("ncclNetPlugin_v{version}"));
    assert_eq!(found, expected);
}
