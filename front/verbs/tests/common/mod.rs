//! The libraries in the form that programs use, and programs that run with them. The tests of
//! librdmacm (`front/rdmacm`) use this module, too.
#![allow(dead_code)] // Every test file uses some of these functions.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

#[path = "../../../../crates/cli/tests/common/children.rs"]
mod children;
#[path = "../../launch.rs"]
pub mod launch;
#[path = "../../link.rs"]
mod link;

#[allow(unused_imports)] // Not every test file waits for children itself.
pub use children::ended_within;

/// Far longer than any program runs.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Prints what is skipped, even if the output of successful tests is hidden.
pub fn skip(what: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}

/// Whether this program is installed. If not, prints what is skipped.
pub fn has(program: &str) -> bool {
    let there = launch::find(program).is_some();
    if !there {
        skip(&format!("{program}: it is not installed"));
    }
    there
}

/// The folder with `libibverbs.so.1` and `librdmacm.so.1`, built and linked now.
pub fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| link::library().unwrap_or_else(|error| panic!("{error}")))
}

/// Lock that lets one pair of programs run at a time, because most of them poll, and there may be
/// only two cores.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A command that runs a program with the library, on the loopback device, which every machine has.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let library = library();
    let mut command = Command::new(program);
    command
        .env("LD_LIBRARY_PATH", library)
        .env("LD_PRELOAD", library.join("libibverbs.so.1"))
        .env("FAIRWAY_DEVICES", "=lo")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A TCP port that no program uses.
pub fn free_port() -> u16 {
    launch::free_port().expect("a socket")
}

/// Result of a finished program.
pub struct Outcome {
    pub what: String,
    pub status: ExitStatus,
    pub output: String,
}

impl Outcome {
    /// Asserts that the program succeeded, and returns its output.
    pub fn succeeded(self) -> String {
        assert!(self.status.success(), "{}: {}\n{}", self.what, self.status, self.output);
        self.output
    }
}

/// A running program.
pub struct Running {
    what: String,
    child: Child,
    /// Output of each of the two streams, received once the stream is closed.
    printed: Receiver<(usize, String)>,
    /// For a server: reports of where it listens, from the preloaded `listening.c`.
    listening: Option<Receiver<String>>,
    since: Instant,
    timeout: Duration,
}

/// Reads a stream to its end, and then sends the text.
fn collect(number: usize, stream: Option<impl Read + Send + 'static>, to: Sender<(usize, String)>) {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        // If the test has failed, no thread receives the text.
        let _ = to.send((number, String::from_utf8_lossy(&bytes).into_owned()));
    });
}

impl Running {
    pub fn start(command: Command) -> Running {
        Running::start_with(command, TIMEOUT)
    }

    fn start_with(mut command: Command, timeout: Duration) -> Running {
        let what = format!("{command:?}");
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        let (to, printed) = channel();
        collect(0, child.stdout.take(), to.clone());
        collect(1, child.stderr.take(), to);
        Running { what, child, printed, listening: None, since: Instant::now(), timeout }
    }

    /// Starts a program that is going to listen; [`Running::listens`] waits until it does.
    pub fn server(command: Command) -> Running {
        Running::server_with(command, TIMEOUT)
    }

    fn server_with(mut command: Command, timeout: Duration) -> Running {
        let (reports, writer) = std::io::pipe().expect("a pipe");
        let preloaded = [reporter(), &library().join("libibverbs.so.1")];
        let preloaded = preloaded.map(|file| file.to_str().expect("text"));
        command.env("LD_PRELOAD", preloaded.join(":")).stdin(writer);
        let mut running = Running::start_with(command, timeout);
        let (to, listening) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(reports).lines().map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        running.listening = Some(listening);
        running
    }

    /// Waits until the program listens as `wanted` describes (`tcp PORT`, or `rdma`), or has ended.
    pub fn listens(&self, wanted: &str) {
        let reports = self.listening.as_ref().expect("it was started as a server");
        let left = || self.timeout.saturating_sub(self.since.elapsed());
        while reports.recv_timeout(left()).is_ok_and(|line| line != wanted) {}
    }

    /// Waits until the program ends, which closes its output; kills it if that takes too long.
    pub fn outcome(mut self) -> Outcome {
        let mut output = [String::new(), String::new()];
        for _ in 0..output.len() {
            let left = self.timeout.saturating_sub(self.since.elapsed());
            let left = left.max(Duration::from_secs(1));
            match self.printed.recv_timeout(left) {
                Ok((number, text)) => output[number] = text,
                Err(_) => self.child.kill().expect("a child of ours"),
            }
        }
        let status = self.child.wait().expect("a child of ours");
        Outcome { what: self.what, status, output: output.concat() }
    }
}

/// Runs a program to its end.
pub fn run(command: Command) -> Outcome {
    Running::start(command).outcome()
}

/// Runs a server and then a client that connects to it. Both must succeed. Returns the client's
/// output.
pub fn pair(half: impl Fn(u16) -> Command) -> String {
    attempt(&half, TIMEOUT).unwrap_or_else(|error| panic!("{error}"))
}

/// Like [`pair`], for a service that may lose messages. The programs then wait for ever, so they
/// are stopped, and run again.
pub fn lossy_pair(half: impl Fn(u16) -> Command) -> String {
    let mut attempts = (0..4).map(|_| attempt(&half, TIMEOUT / 6));
    attempts.find_map(Result::ok).unwrap_or_else(|| pair(half))
}

fn attempt(half: &impl Fn(u16) -> Command, timeout: Duration) -> Result<String, String> {
    let port = free_port();
    let server = Running::server_with(half(port), timeout);
    server.listens(&format!("tcp {port}"));
    let mut client = half(port);
    client.arg("127.0.0.1");
    let client = Running::start_with(client, timeout).outcome();
    let server = server.outcome();
    if client.status.success() && server.status.success() {
        return Ok(client.output);
    }
    Err(format!(
        "{}: {}\n{}\n---- the other: {}\n{}",
        client.what, client.status, client.output, server.status, server.output
    ))
}

/// Returns `listening.c` compiled as a library to be preloaded, linked by the same command as the
/// library under test.
fn reporter() -> &'static Path {
    static REPORTER: OnceLock<PathBuf> = OnceLock::new();
    REPORTER.get_or_init(|| {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("verbs-listening.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../verbs/tests/c/listening.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]);
        let result = compiler.arg("-o").arg(&file).arg(source).arg("-ldl").output();
        let result = result.expect("the compiler runs");
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
        file
    })
}

/// Compiles a C program against the installed header and the library. `None`, with a line that
/// reports it, where that is impossible.
pub fn compile(name: &str) -> Option<PathBuf> {
    compile_with("cc", name)
}

/// Like [`compile`], with another compiler command.
pub fn compile_with(compiler: &str, name: &str) -> Option<PathBuf> {
    let header = Command::new(compiler)
        .args(["-xc", "-fsyntax-only", "-include", "infiniband/verbs.h", "/dev/null"])
        .output();
    if !header.is_ok_and(|result| result.status.success()) {
        skip(&format!("{name}.c: {compiler} does not work, or libibverbs-dev is not installed"));
        return None;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("verbs-{name}"));
    // Another test may compile or start the same program: it is replaced as a whole.
    static COMPILED: AtomicUsize = AtomicUsize::new(0);
    let number = COMPILED.fetch_add(1, Ordering::Relaxed);
    let fresh = program.with_extension(format!("{}-{number}", std::process::id()));
    let result = Command::new(compiler)
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&fresh)
        .arg(here.join(format!("../verbs/tests/c/{name}.c")))
        .arg(library().join("libibverbs.so.1"))
        .output()
        .expect("the compiler runs");
    assert!(result.status.success(), "{name}.c: {}", String::from_utf8_lossy(&result.stderr));
    std::fs::rename(&fresh, &program).expect("both are in one folder");
    Some(program)
}
