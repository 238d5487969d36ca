//! Runs every command that the README, the documents and the tool's own help print, as it is
//! printed, in a folder with the files that it names.
//!
//! Capitals are placeholders: HOST is this machine, FILE, NAME and DIR are in that folder, PID is a
//! program that reports statistics, and so on (`fill_in`). A measurement without a duration is
//! given a short one, because the default of two seconds a row would take minutes in all. Commands
//! that are not run as printed are in the table `EXCEPTIONS`, with the reason; an entry that no
//! text needs any more fails the test, and so does a command that neither runs nor is in the table.
//!
//! Where the system permits it, all commands run in a separate network namespace, so that ports are
//! free.

mod common;

use common::{Scratch, ended_within, fairway, spawn};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest duration of a command.
const LONGEST: Duration = Duration::from_secs(60);
/// Longest wait until a program reports that it listens.
const STARTED: Duration = Duration::from_secs(30);

/// Lines that a measurement prints once it reports statistics, and once it serves metrics.
const REPORTED: &str = "statistics are reported";
const SERVED: &str = "metrics are served";

/// Replacement for running a command as it is printed.
enum Instead {
    /// Run this command instead.
    Run(&'static str),
    /// Do not run it.
    Nothing,
}

/// Commands by their text, without comments, and why they are not run as printed.
const EXCEPTIONS: &[(&str, Instead, &str)] = &[
    (
        "cargo build --release --package fairway-cli --features compiled-policies",
        Instead::Nothing,
        "a build of minutes, of the tool with an engine that this one does not have",
    ),
    (
        "FAIRWAY_POLICY_ENGINE=compiled fairway perf write --policy cc=./mine.wasm",
        Instead::Run(
            "FAIRWAY_POLICY_ENGINE=interpreted fairway perf write --policy cc=./mine.wasm",
        ),
        "this tool is built without the compiling engine",
    ),
    (
        "fairway sim incast --nodes 64 --policy cc=compiled:./mine.wasm,path=interpreted:./paths.wasm",
        Instead::Run(
            "fairway sim incast --nodes 64 --policy cc=interpreted:./mine.wasm,path=./paths.wasm",
        ),
        "this tool is built without the compiling engine",
    ),
    (
        "fairway sim permutation --nodes 1024 --link 400G --bytes 64M --mtu 4K --paths 256",
        Instead::Run(
            "fairway sim permutation --nodes 1024 --link 400G --bytes 1M --mtu 4K --paths 256",
        ),
        "64M for each of 1,024 hosts are most of a minute; 1M runs the same code",
    ),
    (
        "fairway sim --topology dragonfly --dragonfly 8:4:33 --hosts-per-switch 4 --routing ugal --cores 2",
        Instead::Run(
            "fairway sim --topology dragonfly --dragonfly 8:4:33 --hosts-per-switch 4 --routing ugal --cores 2 --bytes 256K",
        ),
        "1,056 hosts with messages of the default length are ten seconds",
    ),
    (
        "fairway sim websearch --nodes 128 --load 60 --series queues.csv --fail 128-160@50us..200us",
        Instead::Run(
            "fairway sim websearch --nodes 128 --load 60 --series queues.csv --fail 128-160@50us..200us --flows 500",
        ),
        "10,000 flows are 13 seconds",
    ),
    (
        "fairway sim streams --stream '0-1 size=64K depth=4 count=8'",
        Instead::Run("fairway sim streams --stream '0-1 size=64K depth=4 count=8' --end 1ms"),
        "streams go on to the end of the run, which is far away by default: ten seconds",
    ),
    (
        "fairway collective all-reduce --ranks 4 --sizes 8..256M",
        Instead::Run("fairway collective all-reduce --ranks 4 --sizes 8..64K --iters 5"),
        "26 rows of up to 256M in four processes are a minute and 5 GB",
    ),
    (
        "fairway collective broadcast --rank 0 --ranks 2 --rendezvous host1:29500",
        Instead::Nothing,
        "names another machine; tests of `collective` start single ranks",
    ),
    (
        "fairway collective broadcast --rank 1 --ranks 2 --rendezvous host1:29500",
        Instead::Nothing,
        "names another machine; tests of `collective` start single ranks",
    ),
    (
        "fairway collective all-reduce --hostfile hosts --sizes 1K..64M",
        Instead::Nothing,
        "starts programs on other machines by ssh",
    ),
    (
        "make run",
        Instead::Nothing,
        "builds the tool; `xtask demo` is tested by being the demonstration",
    ),
    ("make test", Instead::Nothing, "this test is part of it"),
    ("make verbs", Instead::Nothing, "builds a library, whose own tests (front/verbs) do the same"),
    (
        "make install-verbs PREFIX=/usr/local",
        Instead::Nothing,
        "writes to the system's directories",
    ),
    ("make nccl", Instead::Nothing, "builds a library, whose own tests (front/nccl) do the same"),
    ("make install-nccl PREFIX=/usr/local", Instead::Nothing, "writes to the system's directories"),
    ("make bench-nccl", Instead::Nothing, "builds a library with all optimisations, for minutes"),
    (
        "python3 repro/openurma.py",
        Instead::Nothing,
        "takes minutes, and needs numpy and matplotlib (repro/requirements.txt)",
    ),
];

/// Prefixes of commands that require a program, or a library built beside the tool, that may be
/// missing; the tests of front/verbs run such programs.
const RDMA: &[&str] = &["fairway run "];

/// Beginning of commands that need the package of Python, and numpy.
const PYTHON: &str = "python3 examples/python/";

/// A command, and the places where it is printed.
struct Example {
    text: String,
    place: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether this is the beginning of a command, after assignments of variables.
fn is_command(line: &str) -> bool {
    let word = line.split_whitespace().find(|word| !is_setting(word));
    matches!(word, Some("fairway" | "make" | "python3" | "pip" | "cargo" | "curl" | "sudo" | "ip"))
}

fn is_setting(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    word.contains('=') && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// A command without its comment, with single spaces.
fn plain(line: &str) -> String {
    let line = line.split(" #").next().unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The commands in `lines`; a line that ends with a backslash is continued.
fn commands<'a>(lines: impl Iterator<Item = &'a str>, place: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut begun = String::new();
    for line in lines {
        let whole = format!("{begun} {}", line.trim());
        begun.clear();
        if !is_command(whole.trim()) {
            continue;
        }
        match whole.strip_suffix('\\') {
            Some(part) => part.trim().clone_into(&mut begun),
            None => examples.push(Example { text: plain(&whole), place: place.to_owned() }),
        }
    }
    examples
}

/// The commands of a document: the lines of its code blocks, and the code spans in its text that
/// are more than the name of a command.
fn of_document(path: &Path) -> Vec<Example> {
    let text = std::fs::read_to_string(path).expect("a document");
    let place = path.file_name().expect("a name").to_string_lossy().into_owned();
    let (mut blocks, mut prose) = (Vec::new(), String::new());
    let mut inside = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if inside {
            blocks.push(line);
        } else {
            prose += line;
            prose.push('\n');
        }
    }
    assert!(!inside, "{place}: a block does not end");
    let mut examples = commands(blocks.into_iter(), &place);
    for span in prose.split('`').skip(1).step_by(2) {
        let span = span.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_example = span.starts_with("fairway ") && span.split(' ').nth(2).is_some();
        if is_example && !span.contains(['…', '[']) && !span.contains("...") {
            examples.push(Example { text: plain(&span), place: format!("{place}, in its text") });
        }
    }
    examples
}

/// The commands in the help of a command and of its subcommands. The manual pages have the same
/// text.
fn of_help(command: &clap::Command, path: &[&str]) -> Vec<Example> {
    let arguments: Vec<&str> = path.iter().copied().chain(["--help"]).collect();
    let help = fairway(&arguments).ok().out;
    let place = format!("fairway {}", arguments.join(" "));
    let examples = help.lines().skip_while(|line| !line.starts_with("Example"));
    let usage = |line: &&str| !line.trim().starts_with("fairway") || line.starts_with("  ");
    let mut found = commands(examples.filter(usage), &place);
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        let path: Vec<&str> = path.iter().copied().chain([below.get_name()]).collect();
        found.extend(of_help(below, &path));
    }
    found
}

/// Every command once, with all the places where it is printed.
fn all_examples() -> BTreeMap<String, String> {
    let mut documents = vec![root().join("README.md")];
    for entry in std::fs::read_dir(root().join("docs")).expect("the documents") {
        let path = entry.expect("an entry").path();
        // Changes and plans are not instructions.
        let is_plan = path.ends_with("roadmap.md");
        if path.extension().is_some_and(|ending| ending == "md") && !is_plan {
            documents.push(path);
        }
    }
    let mut examples: Vec<Example> = documents.iter().flat_map(|path| of_document(path)).collect();
    examples.extend(of_help(&fairway_cli::command(), &[]));
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for Example { text, place } in examples {
        let places = all.entry(text).or_default();
        if !places.is_empty() {
            places.push_str(", ");
        }
        places.push_str(&place);
    }
    all
}

/// A folder with the files that the commands name, and with the tool in PATH.
struct Workshop {
    scratch: Scratch,
}

impl Workshop {
    fn new() -> Workshop {
        let scratch = Scratch::new();
        let write = |name: &str, text: &str| std::fs::write(scratch.path(name), text).expect(name);
        for name in ["big.img", "FILE"] {
            scratch.file(name, 300_000);
        }
        std::fs::create_dir_all(scratch.path("in/backups")).expect("a folder");
        std::fs::create_dir(scratch.path("bin")).expect("a folder");
        let tool = env!("CARGO_BIN_EXE_fairway");
        std::os::unix::fs::symlink(tool, scratch.path("bin/fairway")).expect("a link");
        std::os::unix::fs::symlink(root().join("examples"), scratch.path("examples"))
            .expect("a link");
        let policies = root().join("examples/policies/c");
        for (name, from) in [
            ("mine.wasm", "aimd.wasm"),
            ("running.wasm", "aimd.wasm"),
            ("better.wasm", "aimd.wasm"),
            ("paths.wasm", "p2c.wasm"),
        ] {
            std::fs::copy(policies.join(from), scratch.path(name)).expect("an example of a policy");
        }
        write("my.scenario", "workload permutation\nnodes 16\nbytes 64K\nrouting adaptive\n");
        write("payload.sweep", "stack=ub-urma,roce-dma payload=8,64\n");
        write("perm1024.cm", &matrix(1024));
        write("my-test.sh", "#!/bin/sh\nexec test -n \"$FAIRWAY_NAMESPACES\"\n");
        let script = scratch.path("my-test.sh");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(script, mode).expect("a script of ours");
        Workshop { scratch }
    }

    /// A shell that runs this command in the folder, in its own process group.
    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("sh");
        let path = std::env::var("PATH").unwrap_or_default();
        shell.args(["-c", command]).current_dir(self.scratch.path(""));
        shell.env("PATH", format!("{}:{path}", self.scratch.path("bin").display()));
        shell.env("HOME", self.scratch.path("")).stdin(Stdio::null()).process_group(0);
        shell
    }

    /// Runs a command to its end; returns what it printed if it failed.
    fn run(&self, command: &str) -> Result<(), String> {
        let log = self.scratch.path("output");
        let open = || std::fs::File::create(&log).expect("a file of ours");
        let out = open();
        let error = out.try_clone().expect("a descriptor");
        let mut child = self.shell(command).stdout(out).stderr(error).spawn().expect("sh");
        let Some(status) = ended_within(&mut child, LONGEST) else {
            end_group(&mut child, libc::SIGKILL);
            return Err(format!("it was still running after {LONGEST:?}"));
        };
        if status.success() {
            return Ok(());
        }
        let printed = std::fs::read_to_string(&log).unwrap_or_default();
        let last: Vec<&str> = printed.lines().rev().take(8).collect();
        Err(format!("{status}: {}", last.into_iter().rev().collect::<Vec<_>>().join("\n    ")))
    }

    /// Starts a command in the background, and waits until it has printed `word`.
    fn start(&self, command: &str, word: &str) -> Result<Running, String> {
        let (child, lines) = spawn(&mut self.shell(&format!("exec {command}")));
        let running = Running(child);
        let mut printed = String::new();
        while let Ok(line) = lines.recv_timeout(STARTED) {
            if line.contains(word) {
                return Ok(running);
            }
            printed += &line;
        }
        Err(format!("it did not print '{word}': {printed}"))
    }
}

/// A background program with all processes that it has started. Stopped on drop.
struct Running(Child);

impl Running {
    /// Stops the program as Ctrl-C does, and waits for its end.
    fn end(mut self) -> Result<(), String> {
        // SAFETY: the group that was made for it, whose leader has not been waited for.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGINT) };
        if let Some(status) = ended_within(&mut self.0, STARTED) {
            let ended = status.success().then_some(());
            return ended.ok_or_else(|| format!("after Ctrl-C it ended with {status}"));
        }
        Err("it did not end at Ctrl-C".into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end_group(&mut self.0, libc::SIGKILL);
    }
}

fn end_group(child: &mut Child, signal: libc::c_int) {
    if child.try_wait().is_ok_and(|status| status.is_none()) {
        // SAFETY: the group that was made for it, whose leader has not been waited for.
        unsafe { libc::kill(-(child.id() as i32), signal) };
        let _ = child.wait();
    }
}

/// A connection matrix in which each node sends to the next.
fn matrix(nodes: usize) -> String {
    let mut text = format!("Nodes {nodes}\nConnections {nodes}\n");
    for node in 0..nodes {
        text += &format!("{node}->{} start 0 size 65536\n", (node + 1) % nodes);
    }
    text
}

/// The command with its placeholders filled in, and a duration for measurements that have none.
fn fill_in(command: &str) -> String {
    const TRACE: &str = "examples/traces/training-step.trace";
    const TOPOLOGY: &str = "examples/topologies/leaf-spine.txt";
    let begins = |words: &str| command.starts_with(words);
    let mut words: Vec<String> = command
        .split(' ')
        .map(|word| match word {
            "DIR" => "in".into(),
            "SHELL" => "bash".into(),
            "COMMAND" => "perf".into(),
            "NAME" => "drr".into(),
            "FILE[:PARAMETERS]" => "mine.wasm:ai=2:min=64K".into(),
            "PROGRAM" => "true".into(),
            "NEW" => "better.wasm".into(),
            "RUNNING" => "running.wasm".into(),
            "FILE" if begins("fairway sim trace") => TRACE.into(),
            "FILE" if begins("fairway emulate") => TOPOLOGY.into(),
            word => word.replace("HOST", "127.0.0.1"),
        })
        .collect();
    let is_measurement = words.windows(2).any(|pair| pair[0] == "fairway" && pair[1] == "perf");
    let timed = words.iter().any(|word| word == "--duration" || word == "--server");
    if is_measurement && !timed && !words.contains(&"--help".into()) {
        words.push("--duration".into());
        words.push(if command.contains("--sizes") { "20ms" } else { "200ms" }.into());
    }
    words.join(" ")
}

/// Enters a new network namespace, if the system permits it; otherwise the ports have to be free.
fn own_network() {
    // SAFETY: it concerns this thread, and those and the processes that it starts from now on.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.is_ok_and(|status| status.success()), "the loopback interface comes up");
    }
}

/// Whether networks can be emulated here.
fn has_namespaces() -> bool {
    let name = format!("fwdoc{}", std::process::id());
    let ip = |arguments: &[&str]| {
        let output = Command::new("ip").args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    let possible = Path::new("/dev/net/tun").exists() && ip(&["netns", "add", &name]);
    possible && ip(&["netns", "delete", &name])
}

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|found| found.status.success())
}

/// Runs one command, together with the programs that its kind requires.
fn check(workshop: &Workshop, command: &str) -> Result<(), String> {
    let filled = fill_in(command);
    let begins = |words: &str| filled.starts_with(words);
    let has_words = |words: &str| filled.contains(words);
    if let Some(server) = filled.strip_suffix(" &") {
        // A command that keeps running for the next ones.
        return match server.contains("serve") {
            true => workshop.start(server, "listening")?.end(),
            false => {
                let _running = workshop.start(server, REPORTED)?;
                workshop.run("fairway top --json --count 1 --interval 50ms")
            }
        };
    }
    if let Some((first, then)) = filled.split_once(" & ") {
        let _first = workshop.start(first, SERVED)?;
        return workshop.run(then);
    }
    if begins("fairway serve") || (begins("fairway perf") && has_words("--server")) {
        return workshop.start(&filled, "listening")?.end();
    }
    if begins("fairway emulate --listen") {
        return workshop.start(&filled, "listening")?.end();
    }
    if begins("fairway emulate --topology") && !has_words(" -- ") {
        return workshop.start(&filled, "fw-0")?.end();
    }
    if begins("fairway copy") && has_words("127.0.0.2/") {
        let _server =
            workshop.start("fairway serve --keep-free 0 --dir in --bind 127.0.0.1", "listening")?;
        let relay = "fairway emulate --listen 127.0.0.2 --to 127.0.0.1:4800-4803";
        let _relay = workshop.start(relay, "4803")?;
        return workshop.run(&filled);
    }
    if begins("fairway copy") {
        let _server = workshop.start("fairway serve --keep-free 0 --dir in", "listening")?;
        let name = filled.rsplit('/').next().unwrap_or_default();
        let _ = std::fs::remove_file(workshop.scratch.path("in").join(name));
        return workshop.run(&filled);
    }
    if begins("fairway perf") && has_words("--connect") {
        let _server = workshop.start("fairway perf --server", "listening")?;
        return workshop.run(&filled);
    }
    if begins("fairway doctor") && has_words("127.0.0.1") {
        let _server = workshop.start("fairway perf --server", "listening")?;
        return workshop.run(&filled);
    }
    if begins("fairway top") {
        let watched = "fairway perf write --stats --duration 1m --size 64K";
        let watched = workshop.start(watched, REPORTED)?;
        let pid = watched.0.id().to_string();
        let once = if has_words("--count") { "" } else { " --count 1" };
        let top = format!("{}{once}", filled.replace("PID", &pid));
        return workshop.run(&format!("{top} --interval 50ms"));
    }
    if begins("fairway completions") {
        std::fs::create_dir_all(workshop.scratch.path(".local/share/bash-completion/completions"))
            .expect("a folder of ours");
    }
    workshop.run(&filled)
}

/// Why a command can't be run on this machine; `None` if it can.
fn missing(command: &str) -> Option<&'static str> {
    if command.starts_with("fairway emulate --topology") && !has_namespaces() {
        return Some("there are no namespaces, no `ip`, or no /dev/net/tun here");
    }
    if command.contains(" ping ") && !has("ping") {
        return Some("there is no `ping` here");
    }
    if command.contains("curl ") && !has("curl") {
        return Some("there is no `curl` here");
    }
    if command.starts_with(PYTHON) {
        return Some("needs the package of Python, whose tests run the examples");
    }
    RDMA.iter().find(|start| command.contains(**start)).map(
        |_| "runs RDMA programs with the library of front/verbs, whose tests run such programs",
    )
}

fn is_simulated(command: &str) -> bool {
    command.starts_with("fairway sim ") || command.starts_with("fairway nic ")
}

/// Runs those commands for which `wanted` is true.
fn run_all(wanted: impl Fn(&str) -> bool) {
    let workshop = Workshop::new();
    let mut failures = Vec::new();
    for (command, places) in all_examples().iter().filter(|(command, _)| wanted(command)) {
        let exception = EXCEPTIONS.iter().find(|(text, ..)| text == command);
        let start = Instant::now();
        let result = match exception {
            Some((_, Instead::Nothing, reason)) => {
                println!("not run: {command}: {reason}");
                Ok(())
            }
            Some((_, Instead::Run(other), _)) => check(&workshop, other),
            None => match missing(command) {
                Some(reason) => {
                    println!("not run: {command}: {reason}");
                    Ok(())
                }
                None => check(&workshop, command),
            },
        };
        println!("{:6.2} s  {command}", start.elapsed().as_secs_f64());
        if let Err(error) = result {
            failures.push(format!("{command}\n  (in {places})\n  {error}"));
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn documented_live_commands_work() {
    own_network();
    run_all(|command| !is_simulated(command));
}

#[test]
fn documented_simulations_work() {
    run_all(is_simulated);
}

#[test]
fn exceptions_are_of_commands_that_are_printed() {
    let all = all_examples();
    for (command, _, reason) in EXCEPTIONS {
        assert!(all.contains_key(*command), "no text prints '{command}' any more");
        assert!(reason.len() > 10, "{command}: say why");
    }
    // Some commands that are known to be in the texts, to check that the texts are read.
    for command in [
        "fairway perf write --size 64K --duration 5s",
        "fairway serve --dir DIR",
        "fairway emulate --topology examples/topologies/leaf-spine.txt --set routing=spray -- ip \
         netns exec fw-0 ping -c 3 10.83.0.4",
        "fairway policy check mine.wasm:ai=2:min=64K --json",
    ] {
        assert!(all.contains_key(command), "'{command}' is not found: {:#?}", all.keys());
    }
    assert!(all.len() > 60, "only {} commands are found", all.len());
}

#[test]
fn placeholders_are_filled_in() {
    assert_eq!(plain("fairway top   # a comment"), "fairway top");
    assert_eq!(fill_in("fairway copy FILE HOST/NAME"), "fairway copy FILE 127.0.0.1/NAME");
    assert_eq!(fill_in("fairway perf read"), "fairway perf read --duration 200ms");
    assert!(is_command("FAIRWAY_STATS=1 fairway run -- true") && !is_command("Fairway runs"));
}
