//! Interoperation with the Linux kernel's soft-RoCE: the same programs here, under `fairway run`,
//! and in a guest whose kernel implements RoCEv2; in both directions, with and without loss.
//!
//! Another tool provides the guest: a script that boots guests on a bridge in a network namespace
//! (`up N`, `down`, `spawn`, `exec`, `wait`, `kill`, `info`; see `shared/tools`), given by path.

mod cases;
mod datapath;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::programs::{Scratch, catch_signals, check_signals, fairway, output};
use cases::{CASES, Case, Side};

/// Addresses that the script assigns.
pub const GUEST: &str = "10.77.0.11";
const HOST: &str = "10.77.0.1";
const GUEST_V6: &str = "fd77::11";
const HOST_V6: &str = "fd77::1";

/// Time limit in seconds, far longer than any case takes in an emulated guest.
const SECONDS_MAX: u32 = 120;

/// Number of attempts to connect to a program that has no TCP port to check.
const CONNECTS_MAX: u32 = 5;

struct Options {
    peer: PathBuf,
    only: Option<String>,
    loss_percent: u32,
    json: bool,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }
}

fn parse(arguments: &[String]) -> io::Result<Options> {
    let mut options = Options { peer: PathBuf::new(), only: None, loss_percent: 0, json: false };
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let mut value =
            || rest.next().ok_or_else(|| io::Error::other(format!("{name} needs a value")));
        match name.as_str() {
            "--peer" => options.peer = PathBuf::from(value()?),
            "--case" => options.only = Some(value()?.clone()),
            "--loss" => {
                let text = value()?.trim_end_matches('%');
                options.loss_percent = text
                    .parse()
                    .map_err(|_| io::Error::other(format!("--loss {text}: a number of percent")))?;
            }
            "--json" => options.json = true,
            _ => return Err(io::Error::other(format!("there is no option {name}"))),
        }
    }
    if !options.peer.is_file() {
        let path = options.peer.display();
        return Err(io::Error::other(format!(
            "--peer {path}: the script that boots soft-RoCE guests, as in shared/tools"
        )));
    }
    Ok(options)
}

/// Runs all cases.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let options = parse(arguments)?;
    catch_signals();
    let scratch = Scratch::new("interop")?;
    let exchange = compile(&scratch.0)?;
    println!("building and starting the guests");
    let guests = Guests::start(&options.peer, &exchange)?;
    if options.loss_percent > 0 {
        let loss = options.loss_percent;
        for number in [1, 2] {
            let command = format!("tc qdisc replace dev eth0 root netem loss {loss}%");
            guests.run_in(number, &command)?;
        }
        println!("{loss} % of all packets are lost, in each direction");
    }
    let mut results = Results::default();
    println!("{:<22} {:<26} {:>7}  result", "program", "server", "s");
    cases(&options, &guests, &exchange, &mut results)?;
    datapath::run(&options, &guests, &mut results)?;
    drop(guests);
    results.end(options.json)
}

/// Runs the programs between the guest and this host.
fn cases(
    options: &Options,
    guests: &Guests,
    exchange: &Path,
    results: &mut Results,
) -> io::Result<()> {
    let recovers = |case: &&Case| case.recovers || options.loss_percent == 0;
    for case in CASES.iter().filter(|case| options.wants(case.name)).filter(recovers) {
        for server in [Side::Guest, Side::Here] {
            check_signals()?;
            let pair = Pair { guests, exchange, loss: options.loss_percent };
            results.take((case.name, server.name()), || pair.run(case, server).map(|()| None))?;
        }
    }
    Ok(())
}

/// Results of all rows.
#[derive(Default)]
struct Results(Vec<Value>);

impl Results {
    /// Runs a row, and prints its result.
    fn take(
        &mut self,
        (program, server): (&str, &str),
        run: impl FnOnce() -> io::Result<Option<String>>,
    ) -> io::Result<()> {
        let begun = Instant::now();
        let result = run();
        let seconds = begun.elapsed().as_secs_f64();
        let (good, text) = match result {
            Ok(None) => (true, "passed".to_owned()),
            Ok(Some(what)) => (true, format!("passed: {what}")),
            Err(error) => (false, format!("FAILED: {error}")),
        };
        println!("{program:<22} {server:<26} {seconds:>7.1}  {text}");
        io::stdout().flush()?;
        self.0.push(json!({
            "program": program, "listens": server, "seconds": seconds,
            "passed": good, "text": text,
        }));
        Ok(())
    }

    /// Prints the sum. Fails if a row has failed, or if there is none.
    fn end(&self, as_json: bool) -> io::Result<()> {
        let Results(results) = self;
        if as_json {
            println!("{}", serde_json::to_string_pretty(results)?);
        }
        let failed = results.iter().filter(|result| result["passed"] == false).count();
        println!("{} of {} passed", results.len() - failed, results.len());
        if results.is_empty() {
            return Err(io::Error::other("no case has this name"));
        }
        if failed > 0 { Err(io::Error::other(format!("{failed} failed"))) } else { Ok(()) }
    }
}

/// Compiles the program that compares every byte; the same file runs in the guest.
fn compile(folder: &Path) -> io::Result<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../front/verbs/tests/c/exchange.c");
    let program = folder.join("exchange");
    let mut command = Command::new("cc");
    command.args(["-O2", "-D_GNU_SOURCE", source, "-o"]).arg(&program).arg("-libverbs");
    output(&mut command)?;
    Ok(program)
}

/// Running guests, and the network namespace from which they are reached. Shut down on drop.
pub struct Guests {
    script: PathBuf,
    namespace: String,
    /// The folder that is `/host` in the guest.
    share: PathBuf,
    /// Name of a separate image and guest, and the additional packages that it contains.
    variant: Option<(String, String)>,
}

impl Guests {
    fn start(script: &Path, exchange: &Path) -> io::Result<Guests> {
        let guests = Guests::boot_many(script, 2)?;
        std::fs::copy(exchange, guests.share.join("exchange"))?;
        Ok(guests)
    }

    /// Boots a guest with additional packages.
    pub fn start_with(script: &Path, name: &str, packages: &str) -> io::Result<Guests> {
        Guests::boot_as(script, Some((name.to_owned(), packages.to_owned())), 1)
    }

    /// Boots `count` guests on one bridge.
    pub fn boot_many(script: &Path, count: usize) -> io::Result<Guests> {
        Guests::boot_as(script, None, count)
    }

    fn boot_as(
        script: &Path,
        variant: Option<(String, String)>,
        count: usize,
    ) -> io::Result<Guests> {
        let (namespace, share) = Default::default();
        let mut guests = Guests { script: script.to_owned(), namespace, share, variant };
        guests.call(&["build"])?;
        guests.call(&["up", &count.to_string()])?;
        let info = guests.call(&["info"])?;
        let value = |name: &str| {
            let words = info.split_whitespace();
            let found = words.into_iter().find_map(|word| word.strip_prefix(name));
            found.map(str::to_owned).ok_or_else(|| io::Error::other(format!("no {name} in {info}")))
        };
        guests.namespace = value("ns=")?;
        guests.share = Path::new(&value("run=")?).join("g1/share");
        Ok(guests)
    }

    /// The folder that is `/host` in the guest.
    pub fn share(&self) -> &Path {
        &self.share
    }

    /// The folder that is `/host` in guest `number`.
    fn share_of(&self, number: u32) -> PathBuf {
        let own = format!("g{number}/share");
        self.share.ancestors().nth(2).map_or_else(PathBuf::new, |run| run.join(own))
    }

    fn script(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("bash");
        command.arg(&self.script).args(arguments);
        if let Some((name, packages)) = &self.variant {
            let folder = std::env::temp_dir().join(format!("fairway-guest-{name}"));
            command.env("RXE_ID", name).env("RXE_EXTRA_DEBS", packages).env("RXE_MEM", "1500");
            command.env("RXE_DIR", folder.join("image")).env("RXE_RUN", folder.join("run"));
        }
        command
    }

    fn call(&self, arguments: &[&str]) -> io::Result<String> {
        output(&mut self.script(arguments))
    }

    /// Output of a command in the guest, whatever its status.
    pub fn guest_any(&self, command: &str) -> io::Result<String> {
        let seconds = SECONDS_MAX.to_string();
        let output = self.script(&["exec", "-g", "1", "-t", &seconds, command]).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn guest(&self, command: &str) -> io::Result<String> {
        self.run_in(1, command)
    }

    /// Output of a command in guest `number`, which must succeed.
    pub fn run_in(&self, number: u32, command: &str) -> io::Result<String> {
        let (number, seconds) = (number.to_string(), SECONDS_MAX.to_string());
        self.call(&["exec", "-g", &number, "-t", &seconds, command])
    }

    /// Starts a command in guest `number`. Returns the id of its job.
    pub fn spawn_in(&self, number: u32, command: &str) -> io::Result<String> {
        let (number, seconds) = (number.to_string(), SECONDS_MAX.to_string());
        let job = self.call(&["spawn", "-g", &number, "-t", &seconds, command])?;
        Ok(job.trim().to_owned())
    }

    /// Kills a job.
    pub fn kill(&self, job: &str) -> io::Result<()> {
        self.call(&["kill", job]).map(drop)
    }

    /// Waits until a job has ended, and returns its output.
    pub fn wait_for(&self, job: &str) -> io::Result<String> {
        self.call(&["wait", job])
    }

    /// A command on the host's side.
    fn here(&self, program: &Path, command: &str, loss: u32) -> Command {
        let mut here = Command::new("ip");
        here.args(["netns", "exec", &self.namespace, "timeout", &SECONDS_MAX.to_string()]);
        here.arg(program).args(["run", "--provider", "roce", "--device", "br0"]);
        if loss > 0 {
            here.arg("--emulate").arg(format!("loss={loss}%"));
        }
        here.arg("--").args(command.split_whitespace());
        here.stdin(Stdio::null());
        here
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        // If this fails nothing is left to try, and the script has printed the reason.
        let _ = self.call(&["down"]);
    }
}

/// A case between a guest and the host.
struct Pair<'a> {
    guests: &'a Guests,
    exchange: &'a Path,
    loss: u32,
}

impl Pair<'_> {
    fn run(&self, case: &Case, server: Side) -> io::Result<()> {
        let tool = fairway()?;
        let own = self.fill(case.server, server, server);
        let other = self.fill(case.client, server.other(), server);
        let (here, there) = match server {
            Side::Guest => (&other, &own),
            Side::Here => (&own, &other),
        };
        let (served, client) = if server == Side::Guest {
            let job = self.guests.spawn_in(1, there)?;
            let client =
                self.when_ready(case, server, || self.guests.here(&tool, here, self.loss).output());
            if client.as_ref().map_or(true, |client| !client.status.success()) {
                // The server would wait for ever.
                self.guests.kill(&job)?;
            }
            let wait =
                Command::new("bash").arg(&self.guests.script).args(["wait", &job]).output()?;
            (wait, client?)
        } else {
            let mut child = self.guests.here(&tool, here, self.loss);
            let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
            let seconds = SECONDS_MAX.to_string();
            let client = self.when_ready(case, server, || {
                self.guests.script(&["exec", "-g", "1", "-t", &seconds, there.as_str()]).output()
            });
            if client.as_ref().map_or(true, |client| !client.status.success()) {
                // SIGTERM instead of SIGKILL, because `timeout` passes it on to the program.
                // SAFETY: a child of ours that has not been waited for.
                unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
            }
            (child.wait_with_output()?, client?)
        };
        judge("client", &client, case)?;
        judge("server", &served, case)
    }

    /// Runs the client once the server listens.
    fn when_ready(
        &self,
        case: &Case,
        server: Side,
        mut request: impl FnMut() -> io::Result<Output>,
    ) -> io::Result<Output> {
        let Some(port) = case.port else {
            // Nothing shows when a connection manager listens; until then it refuses requests.
            for _ in 1..CONNECTS_MAX {
                let client = request()?;
                if client.status.success() {
                    return Ok(client);
                }
                std::thread::sleep(Duration::from_millis(500));
            }
            return request();
        };
        let look = "cat /proc/net/tcp /proc/net/tcp6";
        let wanted = format!(":{port:04X} ");
        for _ in 0..100 {
            let sockets = match server {
                Side::Guest => self.guests.guest(look)?,
                Side::Here => self.guests.call(&["host", look])?,
            };
            let listens = |line: &str| line.contains(&wanted) && line.contains(" 0A ");
            if sockets.lines().any(listens) {
                return request();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(io::Error::other(format!("no program listens at port {port}")))
    }

    /// Fills in a command's template for `side`, if `server` listens.
    fn fill(&self, template: &str, side: Side, server: Side) -> String {
        let exchange = self.exchange.to_string_lossy();
        let (gid, program, own, own_v6) = match side {
            // Soft-RoCE's first GID is the link-local address.
            Side::Guest => ("1", "/host/exchange", GUEST, GUEST_V6),
            Side::Here => ("0", exchange.as_ref(), HOST, HOST_V6),
        };
        let server = if server == Side::Guest { GUEST } else { HOST };
        template
            .replace("{gid}", gid)
            .replace("{exchange}", program)
            .replace("{own}", own)
            .replace("{own6}", own_v6)
            .replace("{server}", server)
    }
}

fn judge(who: &str, output: &Output, case: &Case) -> io::Result<()> {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("(silence)");
    if !output.status.success() {
        return Err(io::Error::other(format!("{who}: {}: {last}", output.status)));
    }
    let complains = case.bad.iter().find(|bad| text.contains(**bad));
    match complains {
        Some(bad) => Err(io::Error::other(format!("{who} says \"{bad}\""))),
        None => Ok(()),
    }
}
