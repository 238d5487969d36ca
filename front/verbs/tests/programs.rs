//! Programs that were written for RDMA hardware: those of rdma-core and perftest.

mod common;

use common::{alone, command, compile, has, lossy_pair, pair, run};
use std::process::Command;

const PROVIDERS: [&str; 2] = ["roce", "fairway"];

/// A command with arguments and a TCP port.
fn half(program: &str, arguments: &[&str], port: u16) -> Command {
    let mut half = command(program);
    half.args(arguments).args(["-p", &port.to_string()]);
    half
}

#[test]
fn the_devices_are_listed() {
    if !has("ibv_devices") || !has("ibv_devinfo") {
        return;
    }
    let list = run(command("ibv_devices")).succeeded();
    assert!(list.contains("fairway0"), "{list}");
    let mut verbose = command("ibv_devinfo");
    verbose.arg("-v");
    let text = run(verbose).succeeded();
    for part in [
        "PORT_ACTIVE",
        "active_mtu:\t\t4096",
        "Ethernet",
        "::ffff:127.0.0.1, RoCE v2",
        "ATOMIC_HCA",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_wrong_setting_is_named_with_its_remedy() {
    if !has("ibv_devices") || !has("ibv_rc_pingpong") {
        return;
    }
    let mut list = command("ibv_devices");
    list.env("FAIRWAY_DEVICES", "eth0,,lo");
    let text = run(list).output;
    assert!(text.contains("FAIRWAY_DEVICES=eth0,,lo: ") && text.contains("^docker"), "{text}");
    let mut program = command("ibv_rc_pingpong");
    program.env("FAIRWAY_PROVIDER", "tcp");
    let outcome = run(program);
    assert!(!outcome.status.success());
    let text = outcome.output;
    assert!(text.contains("FAIRWAY_PROVIDER=tcp: set it to roce or fairway"), "{text}");
}

/// Runs the pingpong programs, which compare the buffers where they can.
fn pingpong(program: &str, variants: &[&[&str]]) {
    if !has(program) {
        return;
    }
    let _alone = alone();
    for variant in variants {
        let arguments = [&["-g", "0", "-n", "200"], *variant].concat();
        let half = |port| half(program, &arguments, port);
        let text = if is_lossy(program, variant) { lossy_pair(half) } else { pair(half) };
        assert!(text.contains("200 iters in"), "{program} {variant:?}: {text}");
        assert!(!text.contains("invalid data"), "{program} {variant:?}: {text}");
    }
}

#[test]
fn rc_pingpong() {
    pingpong("ibv_rc_pingpong", &[&[], &["-e"], &["-c"], &["-t"], &["-N"], &["-s", "100000"]]);
}

#[test]
fn uc_pingpong() {
    pingpong("ibv_uc_pingpong", &[&[], &["-e"], &["-c"]]);
}

#[test]
fn ud_pingpong() {
    pingpong("ibv_ud_pingpong", &[&[], &["-e"], &["-c"]]);
}

#[test]
fn srq_pingpong() {
    pingpong("ibv_srq_pingpong", &[&[], &["-e"], &["-c"], &["-q", "4"]]);
}

/// Whether the program uses a service that may lose messages.
fn is_lossy(program: &str, arguments: &[&str]) -> bool {
    let service = |name: &str| name == "UC" || name == "UD";
    program.contains("_uc_") || program.contains("_ud_") || arguments.iter().any(|a| service(a))
}

/// Runs a perftest program; `columns` are the first words of the rows that it prints.
fn perftest(program: &str, variants: &[&[&str]]) {
    if !has(program) {
        return;
    }
    let _alone = alone();
    for variant in variants {
        let arguments = [&["-F"], *variant].concat();
        let half = |port| half(program, &arguments, port);
        let text = if is_lossy(program, variant) { lossy_pair(half) } else { pair(half) };
        let rows = text.lines().filter(|line| {
            line.split_whitespace().next().is_some_and(|word| word.parse::<u64>().is_ok())
        });
        let expected = if variant.contains(&"-a") { 2 } else { 1 };
        assert!(rows.count() >= expected, "{program} {variant:?}: {text}");
    }
}

#[test]
fn write_bw() {
    let few: &[&str] = &["-n", "200"];
    let unreliable: &[&str] = &["-n", "200", "-c", "UC"];
    let both: &[&str] = &["-n", "200", "-b"];
    perftest(
        "ib_write_bw",
        &[few, unreliable, both, &["-q", "4", "-n", "100"], &["-a", "-n", "5"]],
    );
}

#[test]
fn read_bw() {
    perftest("ib_read_bw", &[&["-n", "200"], &["-n", "100", "-b"], &["-q", "4", "-n", "50"]]);
}

#[test]
fn send_bw() {
    perftest(
        "ib_send_bw",
        &[
            &["-n", "200"],
            &["-n", "200", "-c", "UC"],
            &["-n", "200", "-c", "UD"],
            &["-n", "100", "-b"],
            &["-n", "100", "-e"],
            &["-n", "100", "-q", "4"],
            &["-n", "100", "-r", "64", "--use-srq"],
            &["-a", "-n", "5"],
        ],
    );
}

#[test]
fn atomic_bw() {
    perftest(
        "ib_atomic_bw",
        &[&["-n", "200"], &["-n", "200", "-A", "CMP_AND_SWAP"], &["-n", "100", "-q", "2", "-b"]],
    );
}

#[test]
fn write_lat() {
    perftest(
        "ib_write_lat",
        &[&["-n", "200"], &["-n", "100", "-I", "64", "-s", "64"], &["-a", "-n", "5"]],
    );
}

#[test]
fn read_lat() {
    perftest("ib_read_lat", &[&["-n", "200"], &["-n", "100", "-s", "4096"]]);
}

#[test]
fn send_lat() {
    perftest(
        "ib_send_lat",
        &[
            &["-n", "200"],
            &["-n", "200", "-c", "UC"],
            &["-n", "200", "-c", "UD"],
            &["-n", "100", "-e"],
        ],
    );
}

#[test]
fn atomic_lat() {
    perftest("ib_atomic_lat", &[&["-n", "200"]]);
}

/// Every operation of a reliable connection, with every byte compared; also under loss.
#[test]
fn every_byte_arrives() {
    let Some(program) = compile("exchange") else { return };
    let program = program.to_string_lossy().into_owned();
    let _alone = alone();
    for (arguments, emulate) in [
        (&["-m", "1024"][..], ""),
        (&["-m", "4096", "-e"], ""),
        (&["-m", "1024", "-n", "50"], "loss=1%"),
    ] {
        pair(|port| {
            let mut half = half(&program, arguments, port);
            half.env("FAIRWAY_EMULATE", emulate);
            half
        });
    }
}

/// C programs of this repository against the library alone: wrong calls, and two queue pairs of one
/// process.
#[test]
fn calls_right_and_wrong() {
    for name in ["errors", "loop"] {
        let Some(program) = compile(name) else { return };
        let _alone = alone();
        let text = run(command(program)).succeeded();
        assert!(text.contains("all fine"), "{name}: {text}");
    }
}

/// Only a call that sleeps for events is a cancellation point, and the thread ends there; a child
/// of `fork` that uses no verbs exits.
#[test]
fn threads_are_cancelled_where_they_sleep_for_events_and_nowhere_else() {
    let Some(program) = compile("cancelled") else { return };
    let _alone = alone();
    for provider in PROVIDERS {
        let mut program = command(&program);
        program.env("FAIRWAY_PROVIDER", provider);
        assert!(run(program).succeeded().contains("all fine"), "{provider}");
    }
}

/// Runs a program with both providers.
fn run_over_both(name: &str) {
    let Some(program) = compile(name) else { return };
    let _alone = alone();
    for provider in PROVIDERS {
        let mut program = command(&program);
        program.env("FAIRWAY_PROVIDER", provider);
        assert!(run(program).succeeded().contains("all fine"), "{provider}");
    }
}

/// The threads use queue pairs of their own and a shared one, memory, objects, and one sleeps for
/// events.
#[test]
fn threads_use_one_context_at_the_same_time() {
    run_over_both("threads");
}

/// A program that counts its requests never overruns its completion queues.
#[test]
fn requests_hold_their_places_until_their_completions_are_polled() {
    run_over_both("outstanding");
}

/// Attributes that change while a queue pair is ready take effect, or are refused.
#[test]
fn attributes_of_ready_queue_pairs_change() {
    run_over_both("attributes");
}

/// Asynchronous events of refused requests are for the end that has refused them.
#[test]
fn refused_requests_raise_no_event_at_their_initiator() {
    run_over_both("refused");
}

/// A cancellation during a call leaves no lock held.
#[test]
fn polling_threads_are_cancelled_a_thousand_times() {
    run_over_both("polled");
}

/// Memory that is unmapped or truncated while it is registered causes completions with errors.
#[test]
fn missing_memory_is_an_error_and_no_signal() {
    run_over_both("missing");
}

/// Receives that a shared receive queue accepts and reports, with both providers.
#[test]
fn a_receive_without_memory_is_reported_when_it_is_used() {
    let Some(program) = compile("protection") else { return };
    let _alone = alone();
    for provider in PROVIDERS {
        let mut program = command(&program);
        program.env("FAIRWAY_PROVIDER", provider);
        assert!(run(program).succeeded().contains("all fine"), "{provider}");
    }
}

/// Each address of a device is a GID, and both families work over both providers.
#[test]
fn perftest_at_either_family() {
    if !has("ib_write_bw") {
        return;
    }
    let _alone = alone();
    for provider in PROVIDERS {
        for (program, service, gid) in
            [("ib_write_bw", "RC", "0"), ("ib_write_bw", "RC", "1"), ("ib_send_bw", "UD", "1")]
        {
            let arguments = ["-F", "-n", "100", "-s", "1024", "-c", service, "-x", gid];
            let half = |port| {
                let mut half = half(program, &arguments, port);
                half.env("FAIRWAY_PROVIDER", provider);
                half
            };
            let text = if service == "UD" { lossy_pair(half) } else { pair(half) };
            let there = if gid == "1" { "00:00:00:00:01" } else { "127:00:00:01" };
            assert!(text.contains(there), "{provider} {program} {gid}: {text}");
        }
    }
}

/// The library does not disturb a program that uses no verbs, and leaves no files behind.
#[test]
fn other_programs_are_not_disturbed() {
    let mut shell = command("sh");
    shell.args(["-c", "cat /proc/self/status >/dev/null && ls / && test -d /tmp"]);
    let text = run(shell).succeeded();
    assert!(text.contains("tmp"), "{text}");
    let mut files = command("sh");
    files.args([
        "-c",
        "cat /sys/class/infiniband/fairway0/ports/1/gid_attrs/types/0; \
        ls /sys/class/infiniband_verbs; test -c /dev/infiniband/uverbs0 && echo character device",
    ]);
    let text = run(files).succeeded();
    for part in ["RoCE v2", "uverbs0", "abi_version", "character device"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
