//! The same program over every provider of the verbs, compared with UCX over TCP and plain TCP:
//! perftest's own bandwidth and latency, on a clean network, with loss, and with reordered packets.
//!
//! Two processes over the loopback interface, a core each. perftest does not check data, but a test
//! runs its counterpart `exchange`, which does, over the same providers.

mod guests;
mod scale;

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::table::Spread;
use super::transactions::Section;
use crate::peers::{self, Sides};
use crate::programs::{check_signals, fairway};

/// Bytes of a message in bandwidth measurements.
const BULK: &str = "65536";
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Time in seconds after which a program is considered hung.
const SECONDS_MAX: &str = "60";

/// Stack that carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stack {
    /// perftest under `fairway run`, with these options.
    Verbs(&'static [&'static str]),
    /// UCX's own benchmark over TCP.
    UcxTcp,
    /// Raw sockets.
    Kernel,
}

/// The stack that no network carries, so that none can impair its packets.
const SHARED_MEMORY: Stack = Stack::Verbs(&["--provider", "fairway", "--datapath", "shm"]);

const STACKS: &[(&str, Stack)] = &[
    ("verbs over RoCE, go-back-N", Stack::Verbs(&["--provider", "roce"])),
    ("verbs over RoCE, out of order", Stack::Verbs(&["--provider", "roce", "--out-of-order"])),
    ("verbs over Fairway, UDP", Stack::Verbs(&["--provider", "fairway", "--datapath", "udp"])),
    ("verbs over Fairway, shared memory", SHARED_MEMORY),
    ("UCX over TCP", Stack::UcxTcp),
    ("one TCP stream; UDP ping-pong", Stack::Kernel),
];

/// Bytes of a message that is long compared with the reordering distance, as in ORNIC's comparison.
const LONG: &str = "8388608";

/// A measurement: a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Gb/s of messages of this size, on a network with this impairment.
    Bandwidth(&'static str, &'static str, Option<&'static str>),
    /// Half a round trip (a whole one for READ), in µs: the typical value, or on an impaired
    /// network the average.
    Latency(&'static str, Option<&'static str>),
}

const LOSS: Option<&str> = Some("loss=1%");
const REORDER: Option<&str> = Some("reorder=64");

const COLUMNS: &[(&str, What)] = &[
    ("WRITE 64 KiB, Gb/s", What::Bandwidth("write", BULK, None)),
    ("READ 64 KiB, Gb/s", What::Bandwidth("read", BULK, None)),
    ("SEND 64 KiB, Gb/s", What::Bandwidth("send", BULK, None)),
    ("WRITE 64 KiB, 1 % loss", What::Bandwidth("write", BULK, LOSS)),
    ("WRITE 64 KiB, 64-packet reordering", What::Bandwidth("write", BULK, REORDER)),
    ("SEND 64 KiB, 1 % loss", What::Bandwidth("send", BULK, LOSS)),
    ("SEND 64 KiB, 64-packet reordering", What::Bandwidth("send", BULK, REORDER)),
    ("WRITE 8 MiB, Gb/s", What::Bandwidth("write", LONG, None)),
    ("WRITE 8 MiB, 1 % loss", What::Bandwidth("write", LONG, LOSS)),
    ("WRITE 8 MiB, 64-packet reordering", What::Bandwidth("write", LONG, REORDER)),
    ("WRITE 8 B, us", What::Latency("write", None)),
    ("SEND 8 B, us", What::Latency("send", None)),
    ("READ 8 B, us", What::Latency("read", None)),
    ("SEND 8 B, 1 % loss, mean us", What::Latency("send", LOSS)),
    ("SEND 8 B, 64-packet reordering, mean us", What::Latency("send", REORDER)),
];

/// Selection of rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Rows and columns whose name contains this text.
    pub row: Option<String>,
    pub column: Option<String>,
    /// Script that boots guests, for soft-RoCE between two of them.
    pub peer: Option<PathBuf>,
}

impl Choice {
    fn wants(text: &Option<String>, name: &str) -> bool {
        let name = name.to_lowercase();
        text.as_ref().is_none_or(|text| name.contains(&text.to_lowercase()))
    }

    /// Whether this cell is selected.
    fn wants_cell(&self, row: &str, column: &str) -> bool {
        Choice::wants(&self.row, row) && Choice::wants(&self.column, column)
    }

    /// Whether the cost of queue pairs is selected, which has a table of its own.
    fn wants_scale(&self) -> bool {
        self.row.is_none() && Choice::wants(&self.column, SCALE)
    }

    /// Fails with the possible names, if nothing is selected.
    fn check(&self) -> io::Result<()> {
        let any_cell = STACKS
            .iter()
            .any(|(row, _)| COLUMNS.iter().any(|(column, _)| self.wants_cell(row, column)));
        if any_cell || self.wants_scale() || self.peer.is_some() {
            return Ok(());
        }
        let quoted = |text: &Option<String>| text.as_deref().unwrap_or("any").to_owned();
        let list = |names: Vec<&str>| names.join("'; '");
        let rows = list(STACKS.iter().map(|(name, _)| *name).collect());
        let columns = list(COLUMNS.iter().map(|(name, _)| *name).chain([SCALE]).collect());
        Err(io::Error::other(format!(
            "there is nothing with '{}' in its row and '{}' in its column: part of a row's name is \
             wanted ('{rows}'), and part of a column's ('{columns}', which has rows of its own)",
            quoted(&self.row),
            quoted(&self.column),
        )))
    }
}

/// Measures all stacks in alternation.
pub fn run(repeats: usize, duration: Duration, choice: &Choice) -> io::Result<Section> {
    choice.check()?;
    let mut samples = vec![vec![Vec::new(); COLUMNS.len()]; STACKS.len()];
    let mut notes = Vec::new();
    for repeat in 0..repeats {
        for (column, (what, measured)) in COLUMNS.iter().enumerate() {
            for (row, (name, stack)) in STACKS.iter().enumerate() {
                check_signals()?;
                if !choice.wants_cell(name, what) {
                    continue;
                }
                eprint!("\rverbs: {} of {repeats}: {what}, {name:<40}", repeat + 1);
                match measure(*stack, *measured, duration) {
                    Ok(None) => {}
                    Ok(Some(value)) => samples[row][column].push(value),
                    Err(error) => notes.push(format!("{name}, {what}: {error}")),
                }
            }
        }
    }
    eprint!("\r{:90}\r", "");
    let mut section = section(&samples, &notes, choice);
    if choice.wants_scale() {
        let (markdown, rows) = scale::run(repeats, duration / 4)?;
        section.markdown += &format!("\n{markdown}");
        section.json["queue_pairs"] = rows;
    }
    if let Some(script) = &choice.peer {
        let (markdown, rows) = guests::run(script, repeats)?;
        section.markdown += &format!("\n{markdown}");
        section.json["guests"] = rows;
    }
    Ok(section)
}

/// Name by which the cost of queue pairs is selected, in addition to the columns.
const SCALE: &str = "queue pairs";

fn measure(stack: Stack, what: What, duration: Duration) -> io::Result<Option<f64>> {
    match (stack, what) {
        (SHARED_MEMORY, What::Bandwidth(_, _, Some(_)) | What::Latency(_, Some(_))) => Ok(None),
        (Stack::Verbs(options), What::Bandwidth(verb, bytes, network)) => {
            let seconds = duration.as_secs().max(1).to_string();
            let mut arguments =
                vec!["-F", "-s", bytes, "-D", &seconds, "-m", "4096", "--report_gbits"];
            if bytes == LONG {
                // With the usual number of messages in flight, too much memory would have to be
                // registered.
                arguments.extend(["-t", "8"]);
            }
            let row = perftest(&format!("ib_{verb}_bw"), &arguments, options, network)?;
            // #bytes #iterations peak average rate
            value(&row, 3).map(Some)
        }
        (Stack::Verbs(options), What::Latency(verb, network)) => {
            // #bytes #iterations min max typical average ...
            let (count, column) = if network.is_some() { ("1000", 5) } else { ("20000", 4) };
            let arguments = ["-F", "-s", "8", "-n", count, "-m", "4096"];
            let row = perftest(&format!("ib_{verb}_lat"), &arguments, options, network)?;
            value(&row, column).map(Some)
        }
        (Stack::UcxTcp, What::Bandwidth(verb, bytes, None)) => {
            let test = match verb {
                "write" => "ucp_put_bw",
                "read" => "ucp_get",
                _ => "tag_bw",
            };
            let count = if bytes == LONG { "200" } else { "20000" };
            let row = ucx(&["-t", test, "-s", bytes, "-n", count, "-w", "100"])?;
            // The sixth number of the last line is the average over all, in MB/s (2^20).
            Ok(Some(value(&row, 5)? * 8.0 * 1.048_576e-3))
        }
        (Stack::UcxTcp, What::Latency(verb, None)) => {
            let test = match verb {
                "write" => "ucp_put_lat",
                "read" => "ucp_get",
                _ => "tag_lat",
            };
            let row = ucx(&["-t", test, "-s", "8", "-n", "20000", "-w", "1000"])?;
            value(&row, 1).map(Some)
        }
        (Stack::Kernel, What::Bandwidth("send", BULK, None)) => {
            let rate = peers::tcp_stream(&Sides::local(LOOPBACK), 65_536, duration)?;
            Ok(Some(rate.received_gbps))
        }
        (Stack::Kernel, What::Latency("send", None)) => {
            let round = peers::udp_ping_pong(&Sides::local(LOOPBACK), 8, duration)?;
            Ok(Some(round.p50_us / 2.0))
        }
        // UCX over TCP has no such operation, or nothing in this kernel can impair the traffic.
        (Stack::UcxTcp | Stack::Kernel, _) => Ok(None),
    }
}

fn value(row: &[String], column: usize) -> io::Result<f64> {
    let text = row.get(column).ok_or_else(|| io::Error::other(format!("{row:?} is too short")))?;
    text.parse().map_err(|_| io::Error::other(format!("{text} is no number")))
}

/// The row of figures that perftest prints.
fn perftest(
    program: &str,
    arguments: &[&str],
    options: &[&str],
    network: Option<&str>,
) -> io::Result<Vec<String>> {
    let tool = fairway()?;
    let port = free_port()?.to_string();
    let side = |core: &str| {
        let mut command = Command::new("timeout");
        command.args([SECONDS_MAX, "taskset", "-c", core]).arg(&tool).arg("run").args(options);
        command.args(["--device", "lo"]);
        command.args(network.map(|spec| format!("--emulate={spec}")));
        command.args(["--", program, "-p", &port]).args(arguments);
        command
    };
    let mut client = side("1");
    client.arg("127.0.0.1");
    let text = run_pair(&mut side("0"), &mut client, &port)?;
    figures(&text)
}

fn ucx(arguments: &[&str]) -> io::Result<Vec<String>> {
    let port = free_port()?.to_string();
    let side = |core: &str| {
        let mut command = Command::new("timeout");
        command.args([SECONDS_MAX, "taskset", "-c", core, "ucx_perftest", "-f", "-p", &port]);
        command.env("UCX_TLS", "tcp").env("UCX_NET_DEVICES", "lo").args(arguments);
        command
    };
    let mut client = side("1");
    client.arg("127.0.0.1");
    let text = run_pair(&mut side("0"), &mut client, &port)?;
    figures(&text)
}

/// The last line that consists of numbers.
fn figures(text: &str) -> io::Result<Vec<String>> {
    let is_row = |line: &&str| {
        let mut words = line.split_whitespace().peekable();
        words.peek().is_some() && words.all(|word| word.parse::<f64>().is_ok())
    };
    let row = text.lines().rfind(is_row);
    let row = row.ok_or_else(|| io::Error::other(format!("no figures in: {}", tail(text))))?;
    Ok(row.split_whitespace().map(str::to_owned).collect())
}

fn tail(text: &str) -> &str {
    text.trim().lines().next_back().unwrap_or("silence")
}

/// Runs server and client, and returns the client's output.
fn run_pair(server: &mut Command, client: &mut Command, port: &str) -> io::Result<String> {
    let quiet = |command: &mut Command| -> io::Result<Child> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    };
    let mut server = quiet(server)?;
    let result = wait_for_listener(&mut server, port)
        .and_then(|()| client.stdin(Stdio::null()).stderr(Stdio::piped()).output());
    let ended = result.as_ref().is_ok_and(|output| output.status.success());
    if !ended {
        // The server would wait for ever.
        server.kill()?;
    }
    let mut rest = String::new();
    if let Some(mut output) = server.stdout.take() {
        output.read_to_string(&mut rest)?;
    }
    server.wait()?;
    let output = result?;
    if !ended {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{}: {}", output.status, tail(&text))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits until the server listens at this TCP port.
fn wait_for_listener(server: &mut Child, port: &str) -> io::Result<()> {
    let number: u16 = port.parse().map_err(io::Error::other)?;
    let wanted = format!(":{number:04X} ");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            let text = std::fs::read_to_string(table)?;
            if text.lines().any(|line| line.contains(&wanted) && line.contains(" 0A ")) {
                return Ok(());
            }
        }
        if let Some(status) = server.try_wait()? {
            return Err(io::Error::other(format!("the server ended: {status}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(io::Error::other("the server did not come up"))
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((LOOPBACK, 0))?.local_addr()?.port())
}

/// The selected results: a line for each column, because there are more columns than stacks.
fn section(samples: &[Vec<Vec<f64>>], notes: &[String], choice: &Choice) -> Section {
    let stacks: Vec<usize> =
        (0..STACKS.len()).filter(|row| Choice::wants(&choice.row, STACKS[*row].0)).collect();
    let names: Vec<&str> = stacks.iter().map(|row| STACKS[*row].0).collect();
    let mut text = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for (column, (what, _)) in COLUMNS.iter().enumerate() {
        let show =
            |row: &usize| Spread::of(&samples[*row][column]).map_or_else(String::new, Spread::show);
        if Choice::wants(&choice.column, what) {
            let cells: Vec<String> = stacks.iter().map(show).collect();
            text += &format!("| {what} | {} |\n", cells.join(" | "));
        }
    }
    let mut list = Vec::new();
    for ((name, _), row) in STACKS.iter().zip(samples) {
        let values: serde_json::Map<String, serde_json::Value> = COLUMNS
            .iter()
            .zip(row)
            .map(|((what, _), samples)| ((*what).to_owned(), json!(samples)))
            .collect();
        list.push(json!({ "stack": name, "samples": values }));
    }
    for note in notes {
        text += &format!("\nfailed: {note}\n");
    }
    Section { name: "verbs", markdown: text, json: json!({ "rows": list, "failed": notes }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_choice_is_refused_and_the_choices_are_named() {
        let choice = |row: Option<&str>, column: Option<&str>| Choice {
            row: row.map(str::to_owned),
            column: column.map(str::to_owned),
            peer: None,
        };
        for (row, column) in
            [(None, None), (Some("roce"), Some("reordering")), (None, Some("Queue Pairs"))]
        {
            assert!(choice(row, column).check().is_ok(), "{row:?} {column:?}");
        }
        assert!(!choice(None, Some("write")).wants_scale());
        for (row, column) in [(Some("infiniband"), None), (Some("roce"), Some("queue pairs"))] {
            let error = choice(row, column).check().expect_err("nothing").to_string();
            assert!(error.contains("verbs over Fairway") && error.contains("queue pairs"));
        }
    }

    #[test]
    fn figures_are_the_last_row_of_numbers() {
        let text = " #bytes     #iterations    BW peak[Gb/sec]\n 65536      5000  0.00  12.34  0.02\n\
                    ---------------------\n";
        let row = figures(text).expect("a row");
        assert_eq!(value(&row, 3).expect("a number"), 12.34);
        assert!(value(&row, 5).is_err());
        assert!(figures("Couldn't connect to 127.0.0.1:18515\n").is_err());
    }
}
