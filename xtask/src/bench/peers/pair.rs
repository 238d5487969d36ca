//! Runs the two programs of a measurement, or the many of a parallel one, within a time limit.

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::parse::last_line;
use crate::programs::{Process, Scratch, check_signals};

/// Interval of the checks whether a server is ready.
const LOOK: Duration = Duration::from_millis(5);
/// Longest wait for a server to become ready.
const READY: Duration = Duration::from_secs(15);
/// Interval of the checks whether a server is still well.
const LOOK_BESIDE: Duration = Duration::from_millis(100);
/// Time that the other program has after the first has ended.
const AFTER: Duration = Duration::from_secs(10);

/// Sign by which a server shows that it is ready.
#[derive(Clone, Copy, Debug)]
pub enum Ready {
    /// It listens at this TCP port.
    Listens(u16),
    /// It prints a line, whose last word is its address.
    Prints,
}

/// End of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ends by itself after its client.
    Itself,
    /// It serves for ever, and is stopped.
    Stopped,
}

/// Makes a command from the address that a server printed.
type MakeCommand = dyn FnOnce(&str) -> io::Result<Command>;

/// A server and its client.
pub struct Pair {
    pub server: Command,
    pub ready: Ready,
    pub end: End,
    /// Makes the client's command.
    pub client: Box<MakeCommand>,
}

/// Runs programs, whose output goes to files in a folder of its own.
pub struct Runner {
    scratch: Scratch,
    files: Cell<u64>,
    /// Time limit of each measurement.
    limit: Duration,
}

impl Runner {
    /// Creates the folder, which has this name.
    ///
    /// # Errors
    /// The folder can't be created.
    pub fn new(name: &str, limit: Duration) -> io::Result<Runner> {
        Ok(Runner { scratch: Scratch::new(name)?, files: Cell::new(0), limit })
    }

    fn start(&self, mut command: Command) -> io::Result<Process> {
        self.files.set(self.files.get() + 1);
        let path: PathBuf = self.scratch.0.join(format!("{}.log", self.files.get()));
        let name = command.get_program().to_string_lossy().into_owned();
        // Programs may leave files in their working directory.
        command.current_dir(&self.scratch.0);
        Process::start(command, path)
            .map_err(|error| io::Error::other(format!("could not start {name}: {error}")))
    }

    /// Runs one program to its successful end, and returns its output.
    ///
    /// # Errors
    /// The program failed, or did not end within the time limit.
    pub fn single(&self, command: Command) -> io::Result<String> {
        let mut process = self.start(command)?;
        succeed(&mut process, &mut [], Instant::now() + self.limit)?;
        Ok(process.text())
    }

    /// Runs one program until its output is sufficient, or to its successful end, and returns the
    /// output. A program that is still running is ended.
    ///
    /// # Errors
    /// As [`Runner::single`].
    pub fn until(&self, command: Command, suffices: &dyn Fn(&str) -> bool) -> io::Result<String> {
        let mut process = self.start(command)?;
        let deadline = Instant::now() + self.limit;
        while process.wait_until(Instant::now() + LOOK_BESIDE)?.is_none() {
            if suffices(&process.text()) {
                process.end()?;
                return Ok(process.text());
            }
            if Instant::now() > deadline {
                break;
            }
        }
        succeed(&mut process, &mut [], deadline)?;
        Ok(process.text())
    }

    /// Runs one pair. Returns the output of server and client.
    ///
    /// # Errors
    /// As [`Runner::pairs`].
    pub fn pair(&self, pair: Pair) -> io::Result<[String; 2]> {
        let mut texts = self.pairs(vec![pair])?;
        texts.pop().ok_or_else(|| io::Error::other("no pair"))
    }

    /// Runs several pairs at once: first all servers are started, then all clients. Returns the
    /// output of server and client of each. All processes have been waited for.
    ///
    /// # Errors
    /// A program failed, or did not end within the time limit. All of them are ended then, with the
    /// processes that they have started.
    pub fn pairs(&self, pairs: Vec<Pair>) -> io::Result<Vec<[String; 2]>> {
        let deadline = Instant::now() + self.limit;
        let (mut servers, mut ends, mut makers) = (Vec::new(), Vec::new(), Vec::new());
        for pair in pairs {
            let mut server = self.start(pair.server)?;
            let said = await_server(&mut server, pair.ready)?;
            servers.push(server);
            ends.push(pair.end);
            makers.push((pair.client, said));
        }
        let mut clients = Vec::new();
        for (client, said) in makers {
            clients.push(self.start(client(&said)?)?);
        }
        for client in &mut clients {
            succeed(client, &mut servers, deadline)?;
        }
        for (server, end) in servers.iter_mut().zip(ends) {
            match end {
                End::Stopped => server.end()?,
                End::Itself => succeed(server, &mut [], deadline.min(Instant::now() + AFTER))?,
            }
        }
        Ok(servers.iter().zip(&clients).map(|(one, other)| [one.text(), other.text()]).collect())
    }
}

/// Waits until a server is ready. Returns its address, if it prints one.
fn await_server(server: &mut Process, ready: Ready) -> io::Result<String> {
    let deadline = Instant::now() + READY;
    loop {
        check_signals()?;
        match ready {
            Ready::Listens(port) if listens(server.id(), port) => return Ok(String::new()),
            Ready::Prints => {
                let text = server.text();
                if let Some((line, _)) = text.split_once('\n') {
                    return Ok(line.rsplit(' ').next().unwrap_or_default().trim().to_owned());
                }
            }
            Ready::Listens(_) => {}
        }
        if let Some(status) = server.wait_until(Instant::now() + LOOK)? {
            let reason = last_line(&server.text());
            return Err(io::Error::other(format!("the server ended with {status}: {reason}")));
        }
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("the server was not ready within {READY:?}")));
        }
    }
}

/// Whether a program listens at this TCP port in the network namespace of the process.
fn listens(process: u32, port: u16) -> bool {
    let local = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|table| {
        let text = std::fs::read_to_string(format!("/proc/{process}/net/{table}"));
        text.unwrap_or_default().lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let here = fields.get(1).is_some_and(|at| at.ends_with(&local));
            here && fields.get(3) == Some(&"0A")
        })
    })
}

/// Waits for the successful end of a process. If one of `others` fails meanwhile, the process has
/// only a short time left.
fn succeed(process: &mut Process, others: &mut [Process], deadline: Instant) -> io::Result<()> {
    let begun = Instant::now();
    let mut deadline = deadline;
    let mut failure = None;
    loop {
        let status = process.wait_until(deadline.min(Instant::now() + LOOK_BESIDE))?;
        check_signals()?;
        match status {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let reason = last_line(&process.text());
                let reason = failure.unwrap_or(format!("{status}: {reason}"));
                return Err(io::Error::other(reason));
            }
            None if Instant::now() >= deadline => {
                let seconds = begun.elapsed().as_secs();
                let reason = failure.unwrap_or(format!("it did not end within {seconds} s"));
                return Err(io::Error::other(reason));
            }
            None => {}
        }
        for other in others.iter_mut() {
            let failed = other.ended()?.filter(|status| !status.success());
            if let Some(status) = failed.filter(|_| failure.is_none()) {
                failure = Some(format!("the server: {status}: {}", last_line(&other.text())));
                deadline = deadline.min(Instant::now() + AFTER);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn pair_returns_both_outputs_and_client_gets_the_address() -> io::Result<()> {
        let runner = Runner::new("peers-pair", Duration::from_secs(60))?;
        let pair = Pair {
            server: shell("echo listening at 192.0.2.1:7; sleep 600"),
            ready: Ready::Prints,
            end: End::Stopped,
            client: Box::new(|address| Ok(shell(&format!("echo to {address}")))),
        };
        let [server, client] = runner.pair(pair)?;
        assert_eq!(server, "listening at 192.0.2.1:7\n");
        assert_eq!(client, "to 192.0.2.1:7\n");
        Ok(())
    }

    #[test]
    fn failures_and_hanging_programs_are_errors_with_a_reason() -> io::Result<()> {
        let runner = Runner::new("peers-failure", Duration::from_secs(60))?;
        let error = runner.single(shell("echo no device; exit 3")).expect_err("status 3");
        assert_eq!(error.to_string(), "exit status: 3: no device");
        let text = runner.until(shell("echo 1; echo 2; sleep 600"), &|text| text.contains('2'))?;
        assert_eq!(text, "1\n2\n");
        let runner = Runner::new("peers-late", Duration::from_millis(300))?;
        let error = runner.single(shell("sleep 600")).expect_err("too late");
        assert!(error.to_string().starts_with("it did not end within"), "{error}");
        Ok(())
    }
}
