//! Runs the `fairway` tool that was built beside this program, and cleans up after it.

mod process;

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;

pub use process::{Process, ended_cpu_seconds};

/// Set by SIGINT and SIGTERM.
static STOP: AtomicBool = AtomicBool::new(false);

/// Makes SIGINT and SIGTERM set a flag, so that tasks end in order and leave nothing behind.
pub fn catch_signals() {
    extern "C" fn handle(_signal: libc::c_int) {
        STOP.store(true, Ordering::Release);
    }
    let handler = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches an atomic.
        unsafe { libc::signal(signal, handler) };
    }
}

/// Fails once a signal has requested the end of the process.
pub fn check_signals() -> io::Result<()> {
    if STOP.load(Ordering::Acquire) { Err(io::Error::other("interrupted")) } else { Ok(()) }
}

/// Path of the tool, built in the same way as this program.
pub fn fairway() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("fairway");
    if path.is_file() {
        return Ok(path);
    }
    Err(io::Error::other(
        "the fairway tool is not built: run `cargo build --release -p fairway-cli` first",
    ))
}

/// A command, in a network namespace if one is given.
pub fn command(program: &Path, namespace: Option<&str>) -> Command {
    match namespace {
        None => Command::new(program),
        Some(name) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", name]).arg(program);
            command
        }
    }
}

/// A server process. Killed by its process id on drop.
pub struct Server {
    child: Child,
    /// Address at which the server listens.
    pub address: String,
    /// Kept open, so that the server can continue to print.
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server, and waits until it listens.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let mut server = Server { child, address: String::new(), _output: BufReader::new(output) };
        let mut line = String::new();
        server._output.read_line(&mut line)?;
        let (_, address) = line
            .trim()
            .rsplit_once(' ')
            .ok_or_else(|| io::Error::other("the server ended before it listened"))?;
        server.address = address.to_owned();
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended by itself; then these calls have no effect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sleeps until a process has ended, or until the deadline. Returns the status of an ended process.
pub fn wait_until(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let number = Pid::from_child(child);
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    sleep_until_ended(&pidfd_open(number, PidfdFlags::empty())?, deadline)?;
    child.try_wait()
}

/// Sleeps in the same way for any process.
pub fn sleep_until_ended(process: &OwnedFd, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)) {
            // A signal interrupted the call.
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// Runs a command to its end, and parses its output as JSON.
pub fn json(command: &mut Command) -> io::Result<Value> {
    serde_json::from_str(&output(command)?)
        .map_err(|error| io::Error::other(format!("{command:?} printed no JSON: {error}")))
}

/// Runs a command, which must succeed, and returns its output.
pub fn output(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    check_signals()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{command:?} ended with {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A temporary directory. Removed on drop.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Creates the directory.
    pub fn new(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("fairway-{name}-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that can't be removed stay.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
