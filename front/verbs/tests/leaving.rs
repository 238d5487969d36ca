//! Programs that end while they post and poll: by `exit` in a signal's handler, by the signal, and
//! by SIGKILL. All of them must end, and the resources that they shared with other processes must
//! be free at once.

mod common;

use common::{alone, command, compile, ended_within, free_port};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::OnceLock;
use std::time::Duration;

/// A process that is still alive this long after its signal will never end. This is no bound on
/// speed.
const DEADLINE: Duration = Duration::from_secs(60);

/// Status of programs whose handler calls `exit`.
const BY_HANDLER: i32 = 7;

/// The program, compiled once for all tests, because the file of a running program can't be
/// written.
fn program() -> Option<PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("leaving")).clone()
}

/// Pseudo-random numbers that are the same in every run (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A program that posts and polls until it is stopped.
struct Poller {
    what: String,
    child: Child,
}

impl Poller {
    fn start(program: &Path, provider: &str, arguments: &[&str]) -> Poller {
        let mut command = command(program);
        command.env("FAIRWAY_PROVIDER", provider).args(arguments);
        let child = command.spawn().expect("the program starts");
        Poller { what: format!("{provider} {arguments:?}"), child }
    }

    /// Waits until the program polls.
    fn is_ready(&mut self) {
        self.says("ready\n");
    }

    /// Waits for a line, which must be the next one.
    fn says(&mut self, expected: &str) {
        let stream = self.child.stdout.as_mut().expect("a pipe");
        let mut line = vec![0; expected.len()];
        let read = stream.read_exact(&mut line);
        if read.is_err() || line != expected.as_bytes() {
            let _ = self.child.kill();
            let complaint = self.complaint();
            let line = String::from_utf8_lossy(&line);
            panic!("{} says {line:?}, not {expected:?}: {complaint}", self.what);
        }
    }

    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(stream) = &mut self.child.stderr {
            let _ = stream.read_to_string(&mut text);
        }
        text
    }

    /// Lets the program run for a random time, in which it must not end, so that a signal
    /// interrupts it at a random point.
    fn runs_on(&mut self, chance: &mut Chance, longest_us: u64) {
        let span = Duration::from_micros(chance.below(longest_us));
        if let Some(status) = ended_within(&mut self.child, span) {
            let complaint = self.complaint();
            panic!("{} ended before its signal: {status}: {complaint}", self.what);
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: no pointers; the process is a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Waits for the end of the program, and panics if it does not end.
    fn end(mut self) -> ExitStatus {
        ended_within(&mut self.child, DEADLINE).unwrap_or_else(|| {
            let state = threads(self.child.id());
            panic!("{} never ends:\n{state}", self.what)
        })
    }

    fn ends_as(self, asked: bool) {
        let what = self.what.clone();
        let status = self.end();
        match asked {
            true => assert_eq!(status.code(), Some(BY_HANDLER), "{what}: {status}"),
            false => assert_eq!(status.signal(), Some(libc::SIGTERM), "{what}: {status}"),
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // The program has ended, unless the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Describes what the threads of a process are doing.
fn threads(process: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let line = |task: std::fs::DirEntry| {
        let (name, at) = (read(task.path().join("comm")), read(task.path().join("syscall")));
        format!("{}: {}\n", name.trim(), at.trim())
    };
    tasks.map(line).collect()
}

/// One round: starts programs with a provider, sends them SIGTERM at a random point, and waits for
/// their end.
fn round(program: &Path, round: u64, chance: &mut Chance, port: &str) {
    let provider = ["roce", "fairway"][round as usize % 2];
    let by_handler = chance.below(5) > 0;
    let last = if by_handler { "exit" } else { "-" };
    let start = |arguments: &[&str]| Poller::start(program, provider, arguments);
    // Because every server can listen, the port of the previous one is free.
    let mut all = match round / 2 % 3 {
        0 => vec![start(&["plain", "-", last])],
        1 => vec![start(&["both", port, last])],
        _ => {
            let mut server = start(&["server", port, last]);
            server.is_ready();
            vec![server, start(&["client", port, last])]
        }
    };
    let last = all.last_mut().expect("there is one");
    last.is_ready();
    last.runs_on(chance, 2000);
    all[0].signal(libc::SIGTERM);
    for poller in &mut all[1..] {
        poller.runs_on(chance, 300);
        poller.signal(libc::SIGTERM);
    }
    all.into_iter().for_each(|poller| poller.ends_as(by_handler));
}

/// Number of rounds, unless the environment variable `LEAVING_ROUNDS` gives another; 1000 take two
/// minutes.
const ROUNDS: u64 = 60;

#[test]
fn polling_programs_end_wherever_a_signal_meets_them() {
    let Some(program) = program() else { return };
    let _alone = alone();
    let wanted = std::env::var("LEAVING_ROUNDS");
    let count = wanted.map_or(ROUNDS, |text| text.parse().expect("LEAVING_ROUNDS is a number"));
    let (mut chance, port) = (Chance(20), free_port().to_string());
    for number in 0..count {
        round(&program, number, &mut chance, &port);
    }
}

/// Programs that are still opening their device, or connecting, end as well.
#[test]
fn programs_end_while_they_set_up() {
    let Some(program) = program() else { return };
    let _alone = alone();
    let (mut chance, port) = (Chance(22), free_port().to_string());
    for number in 0..40 {
        let provider = ["roce", "fairway"][number % 2];
        let mut poller = Poller::start(&program, provider, &["both", &port, "exit"]);
        poller.runs_on(&mut chance, 40_000);
        poller.signal(libc::SIGTERM);
        let what = poller.what.clone();
        let status = poller.end();
        // Before the program has set its handler, the signal ends it.
        let is_expected =
            status.code() == Some(BY_HANDLER) || status.signal() == Some(libc::SIGTERM);
        assert!(is_expected, "{what}: {status}");
    }
}

/// Over the Fairway provider the farewell needs no lock that a polling program may hold.
#[test]
fn peers_receive_a_farewell_if_a_handler_exits_over_the_fairway_provider() {
    let Some(program) = program() else { return };
    let _alone = alone();
    let (mut chance, port) = (Chance(23), free_port().to_string());
    let mut server = Poller::start(&program, "fairway", &["server", &port, "exit"]);
    server.is_ready();
    for _ in 0..12 {
        let mut client = Poller::start(&program, "fairway", &["client", &port, "exit"]);
        client.is_ready();
        client.runs_on(&mut chance, 2000);
        client.signal(libc::SIGTERM);
        client.ends_as(true);
        server.says("gone\n");
    }
    server.signal(libc::SIGTERM);
    server.ends_as(true);
}

/// A process shares two resources with other processes: its slot and the port at which it listens.
#[test]
fn the_port_of_a_killed_process_is_free_at_once() {
    let Some(program) = program() else { return };
    let _alone = alone();
    let port = free_port().to_string();
    for number in 0..12 {
        let provider = ["roce", "fairway"][number % 2];
        let mut holder = Poller::start(&program, provider, &["both", &port, "exit"]);
        holder.is_ready();
        // While the first process lives, no other process can listen there.
        let second = Poller::start(&program, provider, &["server", &port, "exit"]);
        assert_eq!(second.end().code(), Some(1), "two processes listen at a port");
        holder.signal(libc::SIGKILL);
        assert_eq!(holder.end().signal(), Some(libc::SIGKILL));
        let mut next = Poller::start(&program, provider, &["both", &port, "exit"]);
        next.is_ready();
        next.signal(libc::SIGTERM);
        next.ends_as(true);
    }
}
