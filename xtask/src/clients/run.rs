//! Runs the processes of a case to their ends.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::case::{Case, End, Half, Proof, Ready};
use super::judge::{Ended, Finish, Verdict, judge};
use crate::programs::{Process, check_signals};
use crate::verbs::launch;

/// Interval of the checks whether a server listens.
const LOOK: Duration = Duration::from_millis(5);

/// Interval at which the server and signals to this program are checked while the client runs.
const LOOK_BESIDE: Duration = Duration::from_millis(100);

/// Time that a process may continue after the other one has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Environment in which the programs run.
#[derive(Clone, Debug)]
pub struct Place {
    /// Path of the fairway tool.
    pub tool: PathBuf,
    /// An address of this machine, and the device that has it.
    pub host: String,
    pub device: String,
    /// Usual time limit of a case.
    pub timeout: Duration,
    /// Folder that contains the cases' separate folders.
    pub scratch: PathBuf,
    /// Folder of the logs of failed cases.
    pub logs: PathBuf,
}

/// Result of one attempt.
pub struct Attempt {
    pub verdict: Verdict,
    pub seconds: f64,
    /// The commands and their output.
    pub log: String,
}

/// Whether a program listens at this port of the connection manager.
fn offers(port: u16) -> bool {
    [launch::CONNECTIONS, launch::DATAGRAMS].iter().any(|space| launch::offers_service(space, port))
}

/// Values for the placeholders of a case.
struct Values<'a> {
    place: &'a Place,
    provider: &'a str,
    port: u16,
    scratch: PathBuf,
    /// Text that the server printed after the text that shows that it is ready.
    said: String,
}

impl Values<'_> {
    fn fill(&self, text: &str) -> String {
        text.replace("{port}", &self.port.to_string())
            .replace("{host}", &self.place.host)
            .replace("{device}", &self.place.device)
            .replace("{provider}", self.provider)
            .replace("{said}", &self.said)
            .replace("{scratch}", &self.scratch.to_string_lossy())
    }

    fn command(&self, half: &Half) -> Command {
        let mut command = Command::new(&self.place.tool);
        command.args(["run", "--provider", self.provider, "--"]);
        command.args(half.words.iter().map(|word| self.fill(word)));
        command.envs(half.environment.iter().map(|(name, value)| (name, self.fill(value))));
        command.current_dir(half.folder.as_ref().unwrap_or(&self.scratch));
        command
    }

    fn is_ready(&self, ready: &Ready, server: &Process) -> bool {
        match ready {
            Ready::Listens => launch::listens_at(self.port) || offers(self.port),
            Ready::ListensAt(port) => offers(*port),
            Ready::Prints(part) => server.text().contains(part),
        }
    }
}

/// Runs a case once.
pub fn attempt(place: &Place, provider: &str, case: &Case) -> io::Result<Attempt> {
    let port = launch::free_port()?;
    let scratch = place.scratch.join(format!("{provider}-{port}"));
    std::fs::create_dir(&scratch)?;
    let said = String::new();
    let mut values = Values { place, provider, port, scratch: scratch.clone(), said };
    let begun = Instant::now();
    let limit = place.timeout * case.timeout / if case.lossy { 4 } else { 1 };
    let result = run(&mut values, case, begun + limit).map(|(ended, mut log)| {
        let proof = match &case.proof {
            Proof::Unittest { ranks: Some(folder) } => {
                let folder = values.fill(folder);
                log.push_str(&rank_files(Path::new(&folder)));
                Proof::Unittest { ranks: Some(folder) }
            }
            proof => proof.clone(),
        };
        let verdict = judge(&proof, case.refusal, &ended, limit.as_secs());
        Attempt { verdict, seconds: begun.elapsed().as_secs_f64(), log }
    });
    let removed = std::fs::remove_dir_all(&scratch);
    check_signals()?;
    let attempt = result?;
    removed?;
    Ok(attempt)
}

/// Runs the processes of a case to their ends. Returns the result and the log.
fn run(
    values: &mut Values<'_>,
    case: &Case,
    deadline: Instant,
) -> io::Result<(Vec<Ended>, String)> {
    let file = |name: &str| values.scratch.join(name);
    let mut server = None;
    if let Some(half_of_server) = &case.server {
        let mut process = Process::start(values.command(&half_of_server.half), file("server.log"))?;
        // The client starts after this time in any case, because a server may listen unnoticed.
        let timeout = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 4;
        // The kernel does not report new listeners, so they are polled.
        while !values.is_ready(&half_of_server.ready, &process)
            && Instant::now() < timeout
            && check_signals().is_ok()
            && process.wait_until(Instant::now() + LOOK)?.is_none()
        {}
        if let Ready::Prints(before) = &half_of_server.ready {
            let text = process.text();
            let said = text.split_once(before).and_then(|(_, rest)| rest.split_whitespace().next());
            values.said = said.unwrap_or_default().to_owned();
        }
        server = Some((process, half_of_server.end));
    }
    let mut main = Process::start(values.command(&case.main), file("main.log"))?;
    let main_finish = match &mut server {
        None => finish(&mut main, deadline)?,
        Some((server, _)) => finish_beside(&mut main, server, deadline)?,
    };
    let mut ended = Vec::new();
    let mut log = String::new();
    if let Some((mut process, end)) = server {
        let finish = match end {
            End::Ended if process.ended()?.is_none() => {
                process.end()?;
                Finish::Stopped
            }
            _ if main_finish.is_well() => finish(&mut process, deadline.max(soon()))?,
            _ => match finish(&mut process, soon())? {
                Finish::Late => Finish::Stopped,
                finish => finish,
            },
        };
        log.push_str(&log_of(&process, "server", finish));
        ended.push(Ended { finish, text: process.text() });
    }
    log.push_str(&log_of(&main, "main", main_finish));
    ended.push(Ended { finish: main_finish, text: main.text() });
    Ok((ended, log))
}

fn log_of(process: &Process, role: &str, finish: Finish) -> String {
    format!("==== {role}: {}\n==== {finish:?}\n{}\n", process.what, process.text())
}

fn soon() -> Instant {
    Instant::now() + AFTER_FAILURE
}

/// Waits for the end of a process until the deadline, and then kills it.
fn finish(process: &mut Process, deadline: Instant) -> io::Result<Finish> {
    match process.wait_until(deadline)? {
        Some(status) => Ok(Finish::Status(status)),
        None => {
            process.end()?;
            Ok(Finish::Late)
        }
    }
}

/// Like [`finish`], but stops soon after the process's server has failed.
fn finish_beside(
    process: &mut Process,
    server: &mut Process,
    deadline: Instant,
) -> io::Result<Finish> {
    let mut deadline = deadline;
    let mut failed = false;
    loop {
        let now = Instant::now();
        let step = (now + LOOK_BESIDE).min(deadline);
        if let Some(status) = process.wait_until(step)? {
            return Ok(Finish::Status(status));
        }
        if !failed && server.ended()?.is_some_and(|status| !status.success()) {
            failed = true;
            deadline = deadline.min(soon());
        }
        if now >= deadline || check_signals().is_err() {
            process.end()?;
            return Ok(if failed { Finish::Stopped } else { Finish::Late });
        }
    }
}

/// Output of the ranks of a job.
fn rank_files(folder: &Path) -> String {
    super::judge::rank_texts(folder)
        .iter()
        .enumerate()
        .map(|(rank, text)| format!("==== rank {rank}\n{text}\n"))
        .collect()
}

#[cfg(test)]
mod tests;
