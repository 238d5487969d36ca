//! Libraries between programs and verbs: UCX, Open MPI with UCX, libfabric.

mod common;

use common::{Outcome, Running, alone, command, compile_with, has, pair, run, skip};
use std::net::UdpSocket;
use std::process::Command;

const PROVIDERS: [&str; 2] = ["roce", "fairway"];

/// A command that runs a program with UCX, limited to the given verbs transports.
fn over_ucx(program: &str, provider: &str, transports: &str) -> Command {
    let mut command = command(program);
    command
        .env("FAIRWAY_PROVIDER", provider)
        .env("UCX_TLS", transports)
        .env("UCX_NET_DEVICES", "fairway0:1");
    command
}

#[test]
fn ucx_perftest() {
    if !has("ucx_perftest") {
        return;
    }
    let _alone = alone();
    let tests: &[(&str, &str)] = &[
        ("tag_lat", "8"),
        ("tag_bw", "100000"),
        ("ucp_put_bw", "4096"),
        ("ucp_get", "20000"),
        ("ucp_fadd", "8"),
        ("ucp_cswap", "8"),
        ("stream_bw", "4096"),
    ];
    for provider in PROVIDERS {
        // The connected service, which UCX sets up by datagrams, and the datagram service alone.
        for transports in ["rc_verbs,ud_verbs", "ud_verbs"] {
            for (test, bytes) in tests {
                let text = pair(|port| {
                    let mut half = over_ucx("ucx_perftest", provider, transports);
                    half.args(["-t", test, "-s", bytes, "-n", "50", "-w", "5", "-O", "16"]);
                    half.args(["-p", &port.to_string()]);
                    half
                });
                assert!(text.contains("Final:"), "{provider} {transports} {test}: {text}");
            }
        }
    }
}

/// UCX uses the device's atomics only if the device reports the atomicity of an adapter.
#[test]
fn ucx_uses_the_atomics_of_the_device() {
    if !has("ucx_perftest") {
        return;
    }
    let _alone = alone();
    for provider in PROVIDERS {
        for test in ["fadd", "cswap"] {
            let text = pair(|port| {
                let mut half = over_ucx("ucx_perftest", provider, "rc_verbs");
                half.args(["-t", test, "-d", "fairway0:1", "-x", "rc_verbs", "-s", "8"]);
                half.args(["-n", "50", "-w", "5", "-O", "16", "-p", &port.to_string()]);
                half
            });
            assert!(text.contains("Final:"), "{provider} {test}: {text}");
        }
    }
}

/// True if Open MPI is installed with support for UCX.
fn has_open_mpi() -> bool {
    if !has("mpirun") || !has("mpicc") || !has("ompi_info") {
        return false;
    }
    let parts = Command::new("ompi_info").output().expect("it was found").stdout;
    let knows = String::from_utf8_lossy(&parts).contains("MCA pml: ucx");
    if !knows {
        skip("mpirun: this Open MPI has no way through UCX");
    }
    knows
}

/// Every word that the ranks exchange is compared.
#[test]
fn four_ranks_of_open_mpi() {
    if !has_open_mpi() {
        return;
    }
    let Some(program) = compile_with("mpicc", "ranks") else { return };
    let _alone = alone();
    for provider in PROVIDERS {
        let mut ranks = over_ucx("mpirun", provider, "rc_verbs,ud_verbs,self");
        ranks
            // In containers every user is root.
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .args(["--oversubscribe", "-n", "4", "--mca", "mpi_yield_when_idle", "1"])
            // Only UCX as transport, and no remote shells.
            .args(["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "self"])
            .args(["--mca", "plm", "isolated"])
            .arg(&program);
        let text = run(ranks).succeeded();
        assert!(text.contains("all fine: 4 ranks"), "{provider}: {text}");
    }
}

/// An address of this host that is not the loopback interface's, if it has one.
fn address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the kernel only looks up a route.
    socket.connect("198.51.100.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// Runs the server and the client of `fi_pingpong`, which compares every byte (`-c`).
fn fi_pingpong_once(provider: &str, libfabric: &str, endpoint: &str, at: &str) -> [Outcome; 2] {
    let half = |control: &str, port: u16| {
        let mut half = command("fi_pingpong");
        half.env("FAIRWAY_PROVIDER", provider).env("FAIRWAY_DEVICES", at);
        // To detect that memory is unmapped, libfabric overwrites instructions of `munmap` while
        // other threads, such as starting ones, may be executing them.
        half.env("FI_MR_CACHE_MONITOR", "disabled");
        half.args(["-p", libfabric, "-e", endpoint, "-c", "-I", "5"]);
        half.args([control, &port.to_string()]);
        half
    };
    let port = common::free_port();
    let server = Running::server(half("-B", port));
    server.listens(&format!("tcp {port}"));
    let mut client = half("-P", port);
    client.arg(at);
    let client = run(client);
    [client, server.outcome()]
}

fn fi_pingpong(libfabric: &str, endpoint: &str, at: &str) {
    for provider in PROVIDERS {
        let mut outcomes = fi_pingpong_once(provider, libfabric, endpoint, at);
        // When a peer ends, libfabric 1.17 destroys its queue pair before it polls the last
        // completions (`vrb_ep_close`), so a success that came after its previous poll is lost
        // (about 1 in 120 runs on two cores that six other processes use).
        let was_lost = |outcome: &Outcome| outcome.output.contains("Work Request Flushed Error");
        if libfabric.ends_with("ofi_rxm") && outcomes.iter().any(was_lost) {
            outcomes = fi_pingpong_once(provider, libfabric, endpoint, at);
        }
        let [text, _] = outcomes.map(Outcome::succeeded);
        // Every service supports this message size.
        assert!(text.contains("\n1k "), "{provider} {libfabric} {endpoint}: {text}");
    }
}

#[test]
fn libfabric_by_datagrams() {
    if has("fi_pingpong") {
        let _alone = alone();
        fi_pingpong("verbs", "dgram", "127.0.0.1");
    }
}

#[test]
fn libfabric_by_connections() {
    if !has("fi_pingpong") {
        return;
    }
    let Some(address) = address() else {
        skip(
            "fi_pingpong -e msg: libfabric leaves out loopback, and no other interface has a route",
        );
        return;
    };
    let _alone = alone();
    fi_pingpong("verbs", "msg", &address);
    // The end of the connection follows directly behind the last message, which has not been read
    // yet.
    fi_pingpong("verbs;ofi_rxm", "rdm", &address);
}
