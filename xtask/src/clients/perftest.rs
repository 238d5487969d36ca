//! perftest: its programs with their options, single and combined.

use super::case::{Case, Client, Half, Proof, Ready};

const BANDWIDTH: &[&str] = &["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"];
const LATENCY: &[&str] = &["ib_write_lat", "ib_read_lat", "ib_send_lat", "ib_atomic_lat"];
/// Programs whose messages have a size; an atomic has 8 bytes.
const SIZED: &[&str] =
    &["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat"];
const SIZED_BANDWIDTH: &[&str] = &["ib_write_bw", "ib_read_bw", "ib_send_bw"];
const SIZED_LATENCY: &[&str] = &["ib_write_lat", "ib_read_lat", "ib_send_lat"];
const UNRELIABLE: &[&str] = &["ib_write_bw", "ib_send_bw", "ib_write_lat", "ib_send_lat"];
const SEND: &[&str] = &["ib_send_bw", "ib_send_lat"];
const PUSH: &[&str] = &["ib_write_bw", "ib_send_bw", "ib_write_lat", "ib_send_lat"];
const WRITE: &[&str] = &["ib_write_bw"];

/// Options, and the programs that run with each of them.
const TABLE: &[(&[&str], &[&str])] = &[
    (BANDWIDTH, &["", "-R", "-z", "-b", "-q 4"]),
    (LATENCY, &["", "-R", "-z"]),
    (SIZED, &["-a"]),
    (SIZED_BANDWIDTH, &["-s 1", "-s 1048576", "-q 4 -b -l 4"]),
    (SIZED_LATENCY, &["-s 65536"]),
    // Unreliable services.
    (UNRELIABLE, &["-c UC"]),
    (SEND, &["-c UD", "-c UD -R"]),
    (&["ib_send_bw"], &["-c UD -q 4", "-c UD -b", "-c UC -b"]),
    // Completions by events.
    (&["ib_read_bw", "ib_send_bw", "ib_atomic_bw"], &["-e"]),
    (&["ib_read_lat", "ib_send_lat", "ib_atomic_lat"], &["-e"]),
    (&["ib_send_bw"], &["-e -X 0", "-e -q 4 -b"]),
    // Packet sizes, inline data, queues.
    (WRITE, &["-m 256", "-m 1024", "-m 4096", "-l 16", "-Q 16", "-q 4 --mr_per_qp"]),
    (PUSH, &["-I 64 -s 64"]),
    (&["ib_send_bw"], &["-r 64", "--use-srq", "--use-srq -q 4"]),
    (&["ib_send_bw"], &["--inline_recv=64 -s 64", "-R --use-srq -q 4"]),
    (&["ib_send_lat"], &["--use-srq"]),
    (&["ib_read_bw", "ib_read_lat", "ib_atomic_bw"], &["-o 1"]),
    (&["ib_atomic_bw", "ib_atomic_lat"], &["-A CMP_AND_SWAP"]),
    // Addresses and attributes.
    (WRITE, &["-x 1", "-x 2", "-d {device}", "-S 3", "-u 18"]),
    (WRITE, &["--pkey_index=0", "-R -T 96", "-R -q 16"]),
    // Measured quantities, and their reports.
    (WRITE, &["-D 1", "-N", "--report_gbits", "--report-both -b"]),
    (WRITE, &["--reversed", "--output=bandwidth", "--out_json", "--use_old_post_send"]),
    (WRITE, &["--disable_pcie_relaxed", "--rate_limit=1 --rate_limit_type=SW"]),
    (&["ib_read_bw"], &["--perform_warm_up"]),
    (&["ib_write_lat"], &["-H", "--latency_gap=10"]),
    (&["ib_read_lat"], &["-C"]),
    (&["ib_send_lat"], &["-U"]),
    // Options that need something absent, or that perftest itself refuses.
    (WRITE, &["-e", "-c XRC", "--odp", "-W counters/port_xmit_data", "-O", "-n 2"]),
    (WRITE, &["--report-per-port -D 1", "--use_hugepages", "--dont_xchg_versions"]),
    (&["ib_send_bw"], &["-c DC", "-c SRD", "-c UD -g", "-c UD -g -M 224.0.0.9", "--ipv6"]),
    (&["raw_ethernet_bw", "raw_ethernet_lat"], &["-d {device}"]),
];

/// Options that need something absent, and perftest's message for each. The first five are calls
/// that the library does not offer; the others need what this machine lacks, or are refused by
/// perftest's own checks.
const REFUSED: &[(&str, &str)] = &[
    ("-c XRC", "error opening xrc domain"),
    ("-c DC", "unable to create qp"),
    ("-c SRD", "unable to create qp"),
    ("-d {device}", "unable to create qp"),
    ("-c UD -g", "couldn't attach qp to multicast group"),
    ("-W counters/port_xmit_data", "unable to access performance counters"),
    ("-O", "unable to query port 2 attributes"),
    ("--report-per-port -D 1", "report per port"),
    ("--use_hugepages", "failed to allocate hugepages"),
    ("-n 2", "iteration num should be between"),
];

/// Option for a number of iterations that shows that a program runs, even on a busy machine.
fn iterations(program: &str, options: &str) -> &'static str {
    let has = |option: &str| options.split(' ').any(|word| word == option);
    match () {
        // The number is given by a time, or by the options.
        () if has("-D") || has("-n") => "",
        // A multiple of the list's length.
        () if has("-l") => "-n 320",
        () if has("-a") => "-n 5",
        () if has("1048576") => "-n 20",
        () if program.ends_with("_lat") => "-n 500",
        () => "-n 200",
    }
}

fn proof(options: &str) -> Proof {
    match options {
        // Sizes from 2 to 2^23.
        "-a" => Proof::Rows(23),
        "--output=bandwidth" => Proof::Number,
        _ => Proof::Rows(1),
    }
}

fn case(program: &str, options: &str) -> Case {
    let name = format!("{program} {options}");
    let raw = program.starts_with("raw_");
    let common = format!("{name} {} -F -p {{port}}", iterations(program, options));
    let (server, main) = if raw {
        // These use an Ethernet address instead of a host.
        let at = "--dest_mac 02:00:00:00:00:01 --source_mac 02:00:00:00:00:02";
        (format!("{common} --server {at}"), format!("{common} --client {at}"))
    } else {
        (common.clone(), format!("{common} {{host}}"))
    };
    let (server, main) = (Half::new(&server), Half::new(&main));
    let timeout = if options.contains("-a") { 2 } else { 1 };
    let shown = name.trim().replace("{device}", "DEVICE");
    let case = Case::pair("perftest", &shown, (server, Ready::Listens), main, proof(options));
    let short = [
        ("ib_write_bw", ""),
        ("ib_send_bw", "-c UD"),
        ("ib_read_lat", "-R"),
        ("ib_send_bw", "--use-srq -q 4"),
        ("ib_atomic_bw", ""),
        ("ib_write_bw", "-c XRC"),
    ];
    let mut case = case.patient(timeout);
    case.refusal = REFUSED.iter().find(|(refused, _)| *refused == options).map(|pair| pair.1);
    let case = if options.contains("-c U") { case.may_lose() } else { case };
    if short.contains(&(program, options)) { case.in_short_selection() } else { case }
}

/// perftest's cases.
pub fn client() -> Client {
    let mut cases = Vec::new();
    for (programs, variants) in TABLE {
        for options in *variants {
            cases.extend(programs.iter().map(|program| case(program, options)));
        }
    }
    Client { name: "perftest", install: "apt install perftest".to_owned(), absent: None, cases }
}
