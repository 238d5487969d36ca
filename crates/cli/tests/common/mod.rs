//! Runs the real program.
#![allow(dead_code)] // Every test program uses a part of it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

mod children;

pub use children::ended_within;

/// Longest duration of anything that normally takes almost no time.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Result of a finished run.
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// Asserts success.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self
    }

    /// Asserts this exit status, and that each of these words is in the message.
    pub fn fails(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        for word in words {
            assert!(self.err.contains(word), "no '{word}' in: {}", self.err);
        }
        self
    }
}

pub fn fairway(arguments: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_fairway"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    Ended {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Starts a program, and returns it with the lines that it prints on either output. They are read
/// continuously, so that it never blocks on its output.
pub fn spawn(command: &mut Command) -> (Child, Receiver<String>) {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (sender, lines) = channel();
    let outputs: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|output| Box::new(output) as _),
        child.stderr.take().map(|output| Box::new(output) as _),
    ];
    for output in outputs.into_iter().flatten() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
    }
    (child, lines)
}

/// A running program. Killed on drop.
pub struct Running {
    pub child: Child,
    lines: Receiver<String>,
    /// Lines that were printed before the address. Each output is read by its own thread, so a
    /// later line of one may be received before an earlier line of the other.
    early: RefCell<VecDeque<String>>,
}

impl Running {
    pub fn start(arguments: &[&str]) -> Self {
        Running::start_by(Command::new(env!("CARGO_BIN_EXE_fairway")).args(arguments))
    }

    /// Starts the program by another one.
    pub fn start_by(command: &mut Command) -> Self {
        let (child, lines) = spawn(command.stdin(Stdio::null()));
        Running { child, lines, early: RefCell::default() }
    }

    /// Waits for the next line that contains this word, on either output.
    pub fn line(&self, word: &str) -> String {
        loop {
            let early = self.early.borrow_mut().pop_front();
            let line = early.unwrap_or_else(|| self.next_line(word));
            if line.contains(word) {
                return line;
            }
        }
    }

    fn next_line(&self, word: &str) -> String {
        let line = self.lines.recv_timeout(DEADLINE);
        line.unwrap_or_else(|_| panic!("no line with '{word}' came"))
    }

    /// Returns the address after "listening on".
    pub fn address(&self) -> String {
        loop {
            let line = self.next_line("listening on ");
            if let Some((_, rest)) = line.split_once("listening on ") {
                return rest.split([',', ' ']).next().expect("a word").to_owned();
            }
            self.early.borrow_mut().push_back(line);
        }
    }

    /// Stops the program by a signal, and returns its result.
    pub fn end(&mut self) -> i32 {
        let number = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &number]).status().expect("kill runs");
        assert!(sent.success());
        let status = ended_within(&mut self.child, DEADLINE);
        status.expect("it ends at SIGTERM").code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A separate directory for each test. Removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("fairway-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(path.join("in")).expect("a directory");
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("text").to_owned()
    }

    /// A file whose bytes differ from offset to offset.
    pub fn file(&self, name: &str, length: usize) -> Vec<u8> {
        let mut state = length as u64;
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        std::fs::write(self.path(name), &bytes).expect("write");
        bytes
    }

    /// Contents of the directory served, including temporary files.
    pub fn served(&self) -> Vec<String> {
        names(&self.path("in"))
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
