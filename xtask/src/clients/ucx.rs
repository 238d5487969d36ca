//! UCX: `ucx_perftest` over the connected service and over datagrams alone, its lower layer, and
//! `io_demo`, which compares the data.

use super::case::{Case, Client, Half, Proof, Ready};

/// UCX's transports: connections, which UCX sets up by datagrams; and datagrams alone.
const RC: &str = "rc_verbs,ud_verbs";
const UD: &str = "ud_verbs";

/// Tests of the upper layer whose messages have a size.
const SIZED: &[&str] = &[
    "tag_lat",
    "tag_bw",
    "tag_sync_lat",
    "tag_sync_bw",
    "ucp_put_lat",
    "ucp_put_bw",
    "ucp_get",
    "stream_bw",
    "stream_lat",
    "ucp_am_lat",
    "ucp_am_bw",
];
const SIZES: &[u32] = &[8, 4096, 65536, 1_048_576];
const ATOMICS: &[&str] = &["ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"];

/// A test with its options and environment variables.
struct Spec<'a> {
    test: &'a str,
    bytes: &'a str,
    transports: &'a str,
    options: &'a str,
    variables: &'a [(&'static str, &'a str)],
}

fn case(spec: &Spec<'_>) -> Case {
    let Spec { test, bytes, transports, options, variables } = spec;
    let bytes_all: u32 = bytes.split(',').filter_map(|part| part.parse::<u32>().ok()).sum();
    let iterations = match bytes_all {
        0..=8192 => 200,
        8193..=262_144 => 50,
        262_145..=2_097_152 => 20,
        _ => 5,
    };
    let mut half =
        Half::new(&format!("ucx_perftest -t {test} -s {bytes} {options} -n {iterations} -w 5"))
            .arguments("-p {port}")
            .variable("UCX_NET_DEVICES", "{device}:1")
            // For the lower layer, an option gives the transport.
            .variable("UCX_TLS", if transports.is_empty() { RC } else { transports });
    let mut name = format!("-t {test} -s {bytes} {options}");
    for (variable, value) in *variables {
        half = half.variable(variable, *value);
        name.push_str(&format!(" {}={value}", variable.trim_start_matches("UCX_")));
    }
    name.push_str(&format!(" {transports}"));
    let name = name.replace("{device}", "DEVICE");
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let main = half.clone().argument("{host}");
    let case = Case::pair("ucx", &name, (half, Ready::Listens), main, Proof::Rows(1));
    let short = ["-t tag_bw -s 65536", "-t ucp_put_bw -s 65536", "-t ucp_fadd -s 8"]
        .map(|start| format!("{start} {RC}"));
    if short.contains(&case.name) { case.in_short_selection() } else { case }
}

fn plain<'a>(test: &'a str, bytes: &'a str, transports: &'a str, options: &'a str) -> Spec<'a> {
    Spec { test, bytes, transports, options, variables: &[] }
}

/// Every test of the upper layer with each of its sizes.
fn upper(cases: &mut Vec<Case>) {
    for transports in [RC, UD] {
        for test in SIZED {
            for bytes in SIZES {
                cases.push(case(&plain(test, &bytes.to_string(), transports, "")));
            }
        }
        for test in ATOMICS {
            for bytes in ["4", "8"] {
                cases.push(case(&plain(test, bytes, transports, "")));
            }
        }
    }
}

/// Tests of the lower layer, each with one transport and one data layout.
fn lower(cases: &mut Vec<Case>) {
    let uct = |test: &str, layout: &str, transport: &str, bytes: &str| {
        let layout = if layout.is_empty() { String::new() } else { format!("-D {layout} ") };
        let options = format!("{layout}-d {{device}}:1 -x {transport}");
        case(&plain(test, bytes, "", &options))
    };
    for (transport, tests) in [
        ("rc_verbs", &["am_lat", "am_bw", "put_lat", "put_bw"][..]),
        ("ud_verbs", &["am_lat", "am_bw"]),
    ] {
        for test in tests {
            for (layout, bytes) in [("short", "8"), ("bcopy", "1000"), ("zcopy", "1000")] {
                cases.push(uct(test, layout, transport, bytes));
            }
        }
    }
    cases.push(uct("put_bw", "zcopy", "rc_verbs", "65536"));
    for (layout, bytes) in [("bcopy", "1000"), ("zcopy", "4096")] {
        cases.push(uct("get", layout, "rc_verbs", bytes));
    }
    for test in ["fadd", "cswap", "add_lat", "add_mr"] {
        cases.push(uct(test, "", "rc_verbs", "8"));
    }
}

/// Protocols for long messages, threads, scattered memory, sleeping, error handling.
fn features(cases: &mut Vec<Case>) {
    for scheme in ["get_zcopy", "put_zcopy", "am"] {
        for (test, sizes) in [
            ("tag_bw", &["65536", "1048576", "16777216"][..]),
            ("ucp_am_bw", &["65536", "1048576", "16777216"]),
            ("tag_lat", &["1048576"]),
        ] {
            for bytes in sizes {
                let variables = &[("UCX_RNDV_SCHEME", scheme), ("UCX_RNDV_THRESH", "1024")];
                cases.push(case(&Spec { variables, ..plain(test, bytes, RC, "") }));
            }
        }
    }
    for (options, tests, bytes) in [
        ("-T 2 -M multi", &["tag_bw", "ucp_am_bw", "ucp_put_bw"][..], "4096"),
        ("-M serialized", &["tag_lat", "tag_bw"], "4096"),
        ("-D iov,iov", &["tag_lat", "tag_bw", "stream_bw"], "100,200,3000"),
        ("-E sleep", &["tag_lat", "ucp_am_lat", "stream_lat"], "1000"),
        ("-I", &["tag_bw"], "4096"),
        ("-e", &["tag_lat", "ucp_put_lat", "ucp_am_lat"], "65536"),
        ("-C", &["tag_lat"], "4096"),
        ("-U", &["tag_lat"], "4096"),
        ("-r recv_data", &["stream_bw", "stream_lat"], "4096"),
        ("-O 64", &["tag_bw", "ucp_get"], "4096"),
        ("-z", &["ucp_am_bw"], "65536"),
        ("-o", &["ucp_put_bw"], "4096"),
    ] {
        for transports in [RC, UD] {
            // Over datagrams, one-sided access needs a target that keeps running.
            let options = if (options, transports) == ("-o", UD) { "-O 16" } else { options };
            for test in tests {
                cases.push(case(&plain(test, bytes, transports, options)));
            }
        }
    }
}

/// `io_demo`: connections by addresses, with every block compared (`-q`).
fn storage(cases: &mut Vec<Case>) {
    for transports in [RC, UD] {
        for (way, option) in [("tags", ""), ("active messages", "-A")] {
            let sizes = "-d 4096:1048576 -o write,read -q";
            let half = Half::new(&format!("io_demo -p {{port}} {option} {sizes}"))
                .variable("UCX_NET_DEVICES", "{device}:1")
                .variable("UCX_TLS", transports)
                .variable("UCX_SOCKADDR_TLS_PRIORITY", "rdmacm");
            // A single report at the end. By default there is one each second, with the total since
            // the last one.
            let main = half.clone().arguments("-i 50 -P 600 {host}");
            let name = format!("io_demo by {way} {transports}");
            let server = (half, Ready::Listens);
            let proof = Proof::Texts(
                ["total:50 ", "Client exit with status 'OK'"].map(str::to_owned).into(),
            );
            cases.push(Case::pair("ucx", &name, server, main, proof).served_for_ever());
        }
    }
}

/// UCX's cases.
pub fn client() -> Client {
    let mut cases = Vec::new();
    upper(&mut cases);
    lower(&mut cases);
    features(&mut cases);
    storage(&mut cases);
    Client { name: "ucx", install: "apt install ucx-utils".to_owned(), absent: None, cases }
}
