//! Programs that connect by the connection manager: those of rdma-core, and perftest with `-R`.

#[path = "../../verbs/tests/common/mod.rs"]
mod common;

use common::{Running, alone, command, free_port, has, run};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Runs a server, then a client. Both must succeed. Returns the client's output.
fn talk(server: &[&str], client: &[&str]) -> String {
    talk_over("roce", server, client)
}

/// Like [`talk`], with a given provider.
fn talk_over(provider: &str, server: &[&str], client: &[&str]) -> String {
    let port = free_port();
    let number = ["-p", &port.to_string()];
    let (server, client) = ([server, &number].concat(), [client, &number].concat());
    talk_as(provider, &server, &client)
}

/// Like [`talk_over`], with the programs' own or default port.
fn talk_as(provider: &str, server: &[&str], client: &[&str]) -> String {
    let half = |arguments: &[&str]| {
        let mut half = command(arguments[0]);
        half.args(&arguments[1..]).env("FAIRWAY_PROVIDER", provider);
        half
    };
    let waiting = Running::server(half(server));
    waiting.listens("rdma");
    let said = run(half(client));
    waiting.outcome().succeeded();
    said.succeeded()
}

#[test]
fn rping_compares_what_it_reads_and_writes() {
    if !has("rping") {
        return;
    }
    let _alone = alone();
    for provider in ["roce", "fairway"] {
        for address in ["127.0.0.1", "::1"] {
            let server = ["rping", "-s", "-a", address, "-C", "10", "-V"];
            let client = ["rping", "-c", "-a", address, "-C", "10", "-V", "-v"];
            let text = talk_over(provider, &server, &client);
            let pings = text.matches("ping data: rdma-ping-").count();
            assert_eq!(pings, 10, "{provider} {address}: {text}");
        }
    }
}

#[test]
fn listener_without_an_address_listens_at_all_addresses() {
    if !has("rping") {
        return;
    }
    let _alone = alone();
    for (any, address) in [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("::", "127.0.0.1")] {
        let server = ["rping", "-s", "-a", any, "-C", "2"];
        talk(&server, &["rping", "-c", "-a", address, "-C", "2"]);
    }
}

/// Queue pairs of one provider cannot reach those of another one.
#[test]
fn programs_with_different_providers_are_not_connected() {
    if !has("rping") {
        return;
    }
    let _alone = alone();
    for (server, client) in [("roce", "fairway"), ("fairway", "roce")] {
        let port = free_port().to_string();
        let half = |provider: &str, side: &str| {
            let mut half = command("rping");
            half.args([side, "-a", "127.0.0.1", "-C", "1", "-d", "-p", &port]);
            half.env("FAIRWAY_PROVIDER", provider);
            half
        };
        let waiting = Running::server(half(server, "-s"));
        waiting.listens("rdma");
        let outcome = run(half(client, "-c"));
        assert!(!outcome.status.success());
        let is_refused = outcome.output.contains("RDMA_CM_EVENT_REJECTED, error 9");
        assert!(is_refused, "{server} {client}: {}", outcome.output);
        // The server still waits for a client that it can reach.
        run(half(server, "-c")).succeeded();
        let printed = waiting.outcome().succeeded();
        assert!(printed.contains("set FAIRWAY_PROVIDER to the same value"), "{printed}");
    }
}

#[test]
fn connecting_without_a_listener_is_refused() {
    if !has("rping") {
        return;
    }
    let port = free_port().to_string();
    let mut client = command("rping");
    client.args(["-c", "-a", "127.0.0.1", "-C", "1", "-d", "-p", &port]);
    let outcome = run(client);
    assert!(!outcome.status.success());
    assert!(outcome.output.contains("RDMA_CM_EVENT_REJECTED"), "{}", outcome.output);
}

#[test]
fn ucmatose_with_many_connections() {
    if !has("ucmatose") {
        return;
    }
    let _alone = alone();
    for count in ["1", "20"] {
        let common = ["-c", count, "-C", "5", "-S", "1000"];
        let server = [&["ucmatose"], &common[..]].concat();
        let client = [&["ucmatose", "-s", "127.0.0.1"], &common[..]].concat();
        let text = talk(&server, &client);
        assert!(text.contains("return status 0"), "{text}");
    }
}

#[test]
fn udaddy_finds_queue_pairs_for_datagrams() {
    if !has("udaddy") {
        return;
    }
    let _alone = alone();
    let server = ["udaddy", "-c", "3", "-C", "5"];
    let client = ["udaddy", "-s", "127.0.0.1", "-c", "3", "-C", "5"];
    // In this program, -p is not a port.
    let text = talk_as("roce", &server, &client);
    assert!(text.contains("return status 0"), "{text}");
}

#[test]
fn calls_that_wait() {
    let _alone = alone();
    for (server, client) in [("rdma_server", "rdma_client"), ("rdma_xserver", "rdma_xclient")] {
        if has(server) && has(client) {
            talk(&[server], &[client, "-s", "127.0.0.1"]);
        }
    }
}

#[test]
fn perftest_by_way_of_the_manager() {
    let _alone = alone();
    for (program, service) in
        [("ib_write_bw", &[][..]), ("ib_read_lat", &[]), ("ib_send_bw", &["-c", "RC"])]
    {
        if !has(program) {
            continue;
        }
        let common = [&[program, "-R", "-F", "-n", "100", "-s", "1024"], service].concat();
        // The programs agree on the measurement by a first connection, whatever the service.
        let text = talk(&common, &[&common[..], &["127.0.0.1"]].concat());
        let rows = text.lines().filter(|line| line.trim_start().starts_with("1024 "));
        assert_eq!(rows.count(), 1, "{program}: {text}");
    }
}

/// Names that the system's librdmacm exports, with versions.
#[test]
fn every_name_of_the_installed_library_is_there() {
    let installed = Path::new("/usr/lib/x86_64-linux-gnu/librdmacm.so.1");
    if !has("readelf") {
        return;
    }
    if !installed.exists() {
        common::skip("librdmacm's names: it is not installed");
        return;
    }
    let names = |file: &Path| -> BTreeSet<String> {
        let table = Command::new("readelf").args(["--dyn-syms", "-W"]).arg(file).output();
        let table = String::from_utf8(table.expect("readelf runs").stdout).expect("text");
        let words = table.lines().filter_map(|line| line.split_whitespace().nth(7));
        words.filter(|name| name.contains("@@RDMACM_")).map(str::to_owned).collect()
    };
    let ours = names(&common::library().join("librdmacm.so.1"));
    let theirs = names(installed);
    let missing: Vec<&String> = theirs.difference(&ours).collect();
    assert!(missing.is_empty() && theirs.len() > 60, "{missing:?}");
}
