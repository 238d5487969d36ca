//! Programs of two hosts whose interfaces have an MTU of 1500 bytes. The hosts are network
//! namespaces, which need the superuser and the `ip` tool.

mod common;
#[allow(dead_code)] // Only some of these functions are used here.
#[path = "../../../crates/rdma/tests/verbs_roce/namespaces.rs"]
mod namespaces;

use common::{Running, alone, command, compile, free_port, skip};
use namespaces::Namespaces;

/// Packets of RDMA have 1024 bytes at this MTU, and both programs request 4096.
#[test]
fn path_mtu_above_that_of_the_interface_is_cut_to_it() {
    let Some(program) = compile("exchange") else { return };
    let _alone = alone();
    let Some(hosts) = Namespaces::new("mtu") else {
        return skip("network namespaces need the superuser and the ip tool");
    };
    for provider in ["roce", "fairway"] {
        let port = free_port();
        let half = || {
            let mut half = command(&program);
            half.env("FAIRWAY_DEVICES", "wire").env("FAIRWAY_PROVIDER", provider);
            half.args(["-g", "0", "-m", "4096", "-n", "40", "-p", &port.to_string()]);
            half
        };
        let server = hosts.inside(1, || Running::server(half()));
        server.listens(&format!("tcp {port}"));
        let client = hosts.inside(0, || {
            let mut client = half();
            client.arg("10.77.0.2");
            Running::start(client)
        });
        let text = client.outcome().succeeded();
        server.outcome().succeeded();
        assert!(text.contains("40 operations each way"), "{provider}: {text}");
    }
}

/// Waits until the kernel has found that no other host has the link-local address.
fn wait_for_link_local() {
    for _ in 0..100 {
        let mut list = std::process::Command::new("ip");
        list.args(["-6", "addr", "show", "dev", "wire", "scope", "link", "-tentative"]);
        let shown = list.output().expect("the ip tool made the namespaces").stdout;
        if String::from_utf8_lossy(&shown).contains("fe80::") {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("the interface has no link-local address after ten seconds");
}

/// The interface has an IPv4 address, an IPv6 address and a link-local address; the last is
/// ambiguous without its interface.
#[test]
fn programs_reach_each_other_by_every_address_of_an_interface() {
    let Some(program) = compile("exchange") else { return };
    let _alone = alone();
    let Some(hosts) = Namespaces::new("gids") else {
        return skip("network namespaces need the superuser and the ip tool");
    };
    (0..2).for_each(|n| hosts.inside(n, wait_for_link_local));
    for (provider, gid) in
        ["roce", "fairway"].iter().flat_map(|it| (0..3).map(move |gid| (it, gid)))
    {
        let gid = gid.to_string();
        let port = free_port();
        let half = || {
            let mut half = command(&program);
            half.env("FAIRWAY_DEVICES", "wire").env("FAIRWAY_PROVIDER", provider);
            half.args(["-g", &gid, "-n", "40", "-p", &port.to_string()]);
            half
        };
        let server = hosts.inside(1, || Running::server(half()));
        server.listens(&format!("tcp {port}"));
        let client = hosts.inside(0, || {
            let mut client = half();
            client.arg("10.77.0.2");
            Running::start(client)
        });
        let text = client.outcome().succeeded();
        server.outcome().succeeded();
        assert!(text.contains("40 operations each way"), "{provider} {gid}: {text}");
    }
}
