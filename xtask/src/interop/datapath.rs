//! The datapaths `rdma` and `rdma-uc` over soft-RoCE: Fairway's own packets through queue pairs of
//! the kernel's RDMA device, by Debian's verbs library.
//!
//! Between two guests, within one, and between a guest and this host, whose side has Fairway's own
//! verbs library. `fairway perf` compares the bytes of each operation; of copied files, hashes are
//! compared. The kernel's counters show that the packets took its queue pairs.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{Guests, Options, Results, SECONDS_MAX};
use crate::programs::{check_signals, fairway, output};

/// Payload in bytes that each packet carries at most: soft-RoCE's MTU at 1,500 bytes of Ethernet.
const PACKET_BYTES: u64 = 1024;
/// Size of a copied file.
const FILE_BYTES: u64 = 1_000_001;
/// Folder and file names in a guest and on this host.
const FOLDER: &str = "/tmp/fairway-datapath";
/// The tool, in a guest.
const TOOL: &str = "/host/fairway";

/// A side of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Guest(u32),
    Here,
}

impl Place {
    fn address(self, is_six: bool) -> String {
        let number = match self {
            Place::Guest(number) => 10 + number,
            Place::Here => 1,
        };
        if is_six { format!("fd77::{number}") } else { format!("10.77.0.{number}") }
    }
}

/// The command that is run.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// `fairway perf` with these arguments.
    Perf(&'static str),
    Copy,
}

/// A command between two sides.
struct Row {
    name: &'static str,
    work: Work,
    server: Place,
    client: Place,
    is_six: bool,
    /// Value of the option --datapath.
    datapath: &'static str,
}

impl Row {
    const fn new(name: &'static str, work: Work, server: Place, client: Place) -> Row {
        Row { name, work, server, client, is_six: false, datapath: "rdma" }
    }

    /// A row over connections.
    const fn connected(name: &'static str, work: Work, server: Place, client: Place) -> Row {
        Row { datapath: "rdma-uc", ..Row::new(name, work, server, client) }
    }

    /// The sides, as the table shows them.
    fn sides(&self) -> &'static str {
        match (self.server, self.client) {
            (Place::Here, _) => "Fairway",
            (_, Place::Here) => "the kernel",
            (server, client) if server == client => "the kernel, of itself",
            _ => "the kernel, of another",
        }
    }
}

const FIRST: Place = Place::Guest(1);
const SECOND: Place = Place::Guest(2);
const HERE: Place = Place::Here;
const WRITE: Work = Work::Perf("write --sizes 32k..64k --depth 8 --iters 24");
const READ: Work = Work::Perf("read --sizes 32k..64k --depth 8 --iters 24");
const SEND: Work = Work::Perf("send --sizes 8k..16k --iters 60");

/// All rows.
const ROWS: &[Row] = &[
    Row::new("rdma: write", WRITE, FIRST, SECOND),
    Row { is_six: true, ..Row::new("rdma: write, IPv6", WRITE, FIRST, SECOND) },
    Row::new("rdma: read", READ, FIRST, SECOND),
    Row::new("rdma: send", SEND, FIRST, SECOND),
    Row::new("rdma: put", Work::Perf("put --sizes 8k..16k --iters 60"), FIRST, SECOND),
    Row::new("rdma: write-imm", Work::Perf("write-imm --sizes 512..1k --iters 100"), FIRST, SECOND),
    Row::new("rdma: atomic-fadd", Work::Perf("atomic-fadd --iters 100"), FIRST, SECOND),
    Row::new(
        "rdma: ping-pong",
        Work::Perf("send --latency --ping-pong --size 64 --iters 100"),
        FIRST,
        SECOND,
    ),
    Row::new(
        "rdma: two engines",
        Work::Perf("write --engines 2 --depth 8 --iters 16"),
        FIRST,
        SECOND,
    ),
    Row::new("rdma: copy", Work::Copy, FIRST, SECOND),
    Row::new("rdma: write", WRITE, FIRST, FIRST),
    Row::new("rdma: copy", Work::Copy, FIRST, FIRST),
    Row::new("rdma: write", WRITE, FIRST, HERE),
    Row::new("rdma: write", WRITE, HERE, FIRST),
    Row::new("rdma: read", READ, FIRST, HERE),
    Row::new("rdma: read", READ, HERE, FIRST),
    Row::new("rdma: send", SEND, FIRST, HERE),
    Row::new("rdma: send", SEND, HERE, FIRST),
    Row::new("rdma: copy", Work::Copy, FIRST, HERE),
    Row::new("rdma: copy", Work::Copy, HERE, FIRST),
    Row::connected("rdma-uc: write", WRITE, FIRST, SECOND),
    Row { is_six: true, ..Row::connected("rdma-uc: write, IPv6", WRITE, FIRST, SECOND) },
    Row::connected("rdma-uc: send", SEND, FIRST, SECOND),
    Row::connected("rdma-uc: copy", Work::Copy, FIRST, SECOND),
    Row::connected("rdma-uc: write", WRITE, FIRST, FIRST),
    Row::connected("rdma-uc: write", WRITE, FIRST, HERE),
    Row::connected("rdma-uc: write", WRITE, HERE, FIRST),
    Row::connected("rdma-uc: copy", Work::Copy, FIRST, HERE),
    Row::connected("rdma-uc: copy", Work::Copy, HERE, FIRST),
];

/// What rows are run with.
struct Runner<'a> {
    guests: &'a Guests,
    /// The tool and the verbs library of this host.
    tool: PathBuf,
    library: PathBuf,
    /// Percentage of packets that each side loses.
    loss: u32,
}

/// Runs all rows that are wanted.
pub fn run(options: &Options, guests: &Guests, results: &mut Results) -> io::Result<()> {
    if !ROWS.iter().any(|row| options.wants(row.name)) {
        return Ok(());
    }
    let runner = Runner::new(guests, &fairway()?, options.loss_percent)?;
    for row in ROWS.iter().filter(|row| options.wants(row.name)) {
        check_signals()?;
        results.take((row.name, row.sides()), || runner.run(row).map(Some))?;
    }
    Ok(())
}

/// What a row has carried.
struct Carried {
    /// Bytes that were compared.
    bytes: u64,
    /// Packets that were sent again, as far as the command reports them.
    resent: Option<u64>,
}

/// A running server.
enum Server {
    Job(String),
    Child(Child),
}

impl Runner<'_> {
    /// Copies the tool to both guests.
    fn new<'a>(guests: &'a Guests, tool: &Path, loss: u32) -> io::Result<Runner<'a>> {
        for number in [1, 2] {
            let target = guests.share_of(number).join("fairway");
            // Without symbols, because the guest reads the file over an emulated bus.
            output(Command::new("strip").arg("-o").arg(target).arg(tool))?;
        }
        crate::verbs::run_quietly()?;
        let library = tool.with_file_name("fairway-verbs").join("libibverbs.so.1");
        Ok(Runner { guests, tool: tool.to_owned(), library, loss })
    }

    /// Runs a row. Returns what was carried.
    fn run(&self, row: &Row) -> io::Result<String> {
        let own = row.server.address(row.is_six);
        let common = format!("--datapath {} --bind {own}", row.datapath);
        let command = match row.work {
            Work::Perf(_) => format!("perf --server --engines 2 {common}"),
            Work::Copy => {
                self.shell(row.server, &format!("rm -rf {FOLDER}; mkdir {FOLDER}"))?;
                format!("serve --dir {FOLDER} {common}")
            }
        };
        let before = self.packets(row)?;
        let server = self.start(row.server, &command)?;
        let done = self.client(row);
        self.stop(server)?;
        let Carried { bytes, resent } = done?;
        let packets = self.packets(row)? - before;
        if packets < bytes / PACKET_BYTES {
            let text = format!("{bytes} bytes, but the kernel's queue pairs had {packets} packets");
            return Err(io::Error::other(text));
        }
        let resent = resent.map_or_else(String::new, |packets| format!(", {packets} sent again"));
        Ok(format!("{bytes} bytes, {packets} packets of the kernel's queue pairs{resent}"))
    }

    /// Runs the client's command.
    fn client(&self, row: &Row) -> io::Result<Carried> {
        let (own, server) = (row.client.address(row.is_six), row.server.address(row.is_six));
        let datapath = row.datapath;
        let common = format!("--json --connect-timeout 30s --datapath {datapath} --bind {own}");
        let server = if row.is_six { format!("[{server}]") } else { server };
        match row.work {
            Work::Perf(arguments) => {
                let command = format!("perf {arguments} {common} --connect {server}");
                let text = self.ask(row.client, &command)?;
                compared(&text, datapath)
            }
            Work::Copy => {
                let bytes = self.copy(row, &common, &server)?;
                Ok(Carried { bytes, resent: None })
            }
        }
    }

    /// Copies a file. Returns its length.
    fn copy(&self, row: &Row, common: &str, server: &str) -> io::Result<u64> {
        let source = "/tmp/fairway-datapath-source";
        let make = format!("head -c {FILE_BYTES} /dev/urandom > {source}");
        self.shell(row.client, &make)?;
        self.ask(row.client, &format!("copy {common} {source} {server}/copy"))?;
        let sum = |place, file: &str| {
            let line = self.shell(place, &format!("sha256sum {file} && rm {file}"))?;
            Ok::<_, io::Error>(line.split_whitespace().next().unwrap_or_default().to_owned())
        };
        let sums = [sum(row.client, source)?, sum(row.server, &format!("{FOLDER}/copy"))?];
        if sums[0] == sums[1] && sums[0].len() == 64 {
            return Ok(FILE_BYTES);
        }
        Err(io::Error::other(format!("the file's hash is {}, its copy's {}", sums[0], sums[1])))
    }

    /// Packets that have been sent and received by the queue pairs of a guest of the row.
    fn packets(&self, row: &Row) -> io::Result<u64> {
        let place = if row.server == Place::Here { row.client } else { row.server };
        let folder = "/sys/class/infiniband/rxe0/ports/1/hw_counters";
        let text = self.shell(place, &format!("cat {folder}/sent_pkts {folder}/rcvd_pkts"))?;
        Ok(text.split_whitespace().filter_map(|number| number.parse::<u64>().ok()).sum())
    }

    fn shell(&self, place: Place, command: &str) -> io::Result<String> {
        match place {
            Place::Guest(number) => self.guests.run_in(number, command),
            Place::Here => output(Command::new("sh").args(["-c", command])),
        }
    }

    /// The tool on this host, in the guests' network.
    fn here(&self, command: &str) -> Command {
        let mut here = Command::new("ip");
        here.args(["netns", "exec", &self.guests.namespace, "timeout", &SECONDS_MAX.to_string()]);
        here.arg(&self.tool).args(command.split_whitespace()).stdin(Stdio::null());
        here.env("FAIRWAY_RDMA_LIBRARY", &self.library);
        here.env("FAIRWAY_PROVIDER", "roce").env("FAIRWAY_DEVICES", "br0");
        if self.loss > 0 {
            here.env("FAIRWAY_EMULATE", format!("loss={}%", self.loss));
        }
        here
    }

    fn ask(&self, place: Place, command: &str) -> io::Result<String> {
        match place {
            Place::Guest(number) => self.guests.run_in(number, &format!("{TOOL} {command}")),
            Place::Here => output(&mut self.here(command)),
        }
    }

    /// Starts a server, and waits until it has printed that it listens.
    fn start(&self, place: Place, command: &str) -> io::Result<Server> {
        let Place::Guest(number) = place else {
            let mut child = self.here(command).stdout(Stdio::piped()).spawn()?;
            let mut line = String::new();
            if let Some(output) = child.stdout.as_mut() {
                BufReader::new(output).read_line(&mut line)?;
            }
            return Ok(Server::Child(child));
        };
        let job = self.guests.spawn_in(number, &format!("{TOOL} {command}"))?;
        let id = job.split_once('.').map_or(job.as_str(), |(_, id)| id);
        let folder = self.guests.share_of(number).join("job");
        for _ in 0..200 {
            check_signals()?;
            let mut text = String::new();
            if let Ok(mut file) = File::open(folder.join(format!("{id}.out"))) {
                file.read_to_string(&mut text)?;
            }
            if text.contains('\n') || folder.join(format!("{id}.rc")).exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Server::Job(job))
    }

    fn stop(&self, server: Server) -> io::Result<()> {
        match server {
            Server::Job(job) => {
                self.guests.kill(&job)?;
                // Its status is that of a program that was killed.
                let _ = self.guests.wait_for(&job);
            }
            Server::Child(mut child) => {
                // SIGTERM instead of SIGKILL, because `timeout` passes it on to the program.
                // SAFETY: a child of ours that has not been waited for.
                unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
                child.wait()?;
            }
        }
        Ok(())
    }
}

/// Checks what `fairway perf` has reported.
fn compared(text: &str, datapath: &str) -> io::Result<Carried> {
    let rows = text.lines().filter(|line| line.starts_with('{'));
    let rows: Vec<Value> = rows.filter_map(|line| serde_json::from_str(line).ok()).collect();
    let Some(last) = rows.last() else {
        return Err(io::Error::other("fairway perf printed no result"));
    };
    // The first packets take UDP, until the queue pairs are known.
    let way = last["datapath"].as_str().unwrap_or_default();
    let sum = |field: &str| rows.iter().filter_map(|row| row[field].as_u64()).sum();
    let (bytes, resent) = (sum("verified"), sum("packets_resent"));
    let takes_it = way.split(' ').next() == Some(datapath);
    if !takes_it || bytes == 0 || last["lost"] != 0 {
        return Err(io::Error::other(format!("{bytes} bytes compared, by '{way}': {last}")));
    }
    Ok(Carried { bytes, resent: Some(resent) })
}
