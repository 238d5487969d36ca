//! A program that runs in the background, and its output lines, with time limits.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::programs::check_signals;

/// Longest delay until an interrupt is noticed.
const LOOK: Duration = Duration::from_millis(100);

/// A program with its output. Killed on drop, if it is still running.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    name: String,
}

impl Running {
    /// Starts the program, which errors call `name`.
    pub fn start(command: &mut Command, name: &str) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let (sender, lines) = channel();
        // The thread ends with the output, and so with the program.
        std::thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .map_while(Result::ok)
                .all(|line| sender.send(line).is_ok())
        });
        Ok(Running { child, lines, name: name.to_owned() })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The program's next line; `None` at the end of its output.
    ///
    /// # Errors
    /// No line arrived within `limit`, or this program was interrupted.
    pub fn line(&self, limit: Duration) -> io::Result<Option<String>> {
        let start = Instant::now();
        loop {
            check_signals()?;
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if start.elapsed() < limit => {}
                Err(RecvTimeoutError::Timeout) => {
                    let name = &self.name;
                    return Err(io::Error::other(format!("{name}: no result within {limit:?}")));
                }
            }
        }
    }

    /// Waits for a successful end, and returns the last line.
    ///
    /// # Errors
    /// The program failed, printed nothing, or took longer than `limit`.
    pub fn last_line(mut self, limit: Duration) -> io::Result<String> {
        let mut last = None;
        while let Some(line) = self.line(limit)? {
            last = Some(line);
        }
        let status = self.wait()?;
        let name = &self.name;
        match last {
            _ if !status.success() => Err(io::Error::other(format!("{name}: {status}"))),
            None => Err(io::Error::other(format!("{name}: ended without a result"))),
            Some(line) => Ok(line),
        }
    }

    /// Waits for the end of the program. Call it after the end of its output.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have ended by itself; then these calls have no effect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
