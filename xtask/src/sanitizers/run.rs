//! Runs the programs of a case, and judges the result.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::Sanitizer;
use super::cases::{Case, Expected, Manner};
use super::options::Options;
use crate::programs::{check_signals, wait_until};
use crate::verbs::launch;

/// Interval at which a process and its output are checked.
const LOOK: Duration = Duration::from_millis(50);

/// Exit status of a program that ends because of a sanitizer report.
const REPORTED: i32 = 99;

/// Settings and time limit for all cases.
pub struct Place {
    sanitizer: Sanitizer,
    timeout: Duration,
    logs: PathBuf,
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Reason of the failure; `None` if the case passed.
    pub failure: Option<String>,
    pub seconds: f64,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Code(i32),
    Signal(i32),
    /// It exceeded the time limit, and was killed.
    TimedOut,
}

impl Place {
    pub fn new(sanitizer: Sanitizer, options: &Options) -> io::Result<Place> {
        std::fs::create_dir_all(&options.logs)?;
        Ok(Place { sanitizer, timeout: options.timeout, logs: options.logs.clone() })
    }

    /// The environment variable that the runtime reads, with its settings.
    fn settings(&self, case: &Case) -> (&'static str, String) {
        let common = format!("exitcode={REPORTED}:abort_on_error=0");
        match self.sanitizer {
            // The library and `missing` handle SIGSEGV and SIGBUS themselves.
            Sanitizer::Address => (
                "ASAN_OPTIONS",
                format!(
                    "{common}:detect_leaks={}:detect_stack_use_after_return=1:\
                     allow_user_segv_handler=1:strict_string_checks=1",
                    u8::from(case.finds_leaks)
                ),
            ),
            // Children of `fork` that use the library create threads.
            Sanitizer::Thread => {
                ("TSAN_OPTIONS", format!("{common}:die_after_fork=0:second_deadlock_stack=1"))
            }
        }
    }
}

/// Runs a case, whose program has been compiled.
pub fn run(case: &Case, program: &Path, place: &Place) -> io::Result<Verdict> {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let file: String = case.name().chars().map(plain).collect();
    let log = place.logs.join(format!("{}-{file}.log", place.sanitizer.name()));
    drop(File::create(&log)?);
    let start = Instant::now();
    let ends = processes(case, program, place, &log)?;
    let output = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    let failure = failure(case.expected, &ends, &output);
    Ok(Verdict { failure, seconds: start.elapsed().as_secs_f64() })
}

/// Runs the processes of a case to their ends.
fn processes(case: &Case, program: &Path, place: &Place, log: &Path) -> io::Result<Vec<End>> {
    let deadline = Instant::now() + place.timeout;
    let port = launch::free_port()?;
    let start = |address: Option<&str>| -> io::Result<Process> {
        let number = port.to_string();
        let output = OpenOptions::new().append(true).open(log)?;
        let mut command = Command::new(program);
        let arguments = case.arguments.iter();
        command.args(arguments.map(|word| if *word == "PORT" { number.as_str() } else { word }));
        let (variable, settings) = place.settings(case);
        command.args(address).envs(case.variables.iter().copied()).env(variable, settings);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // The process gets its own process group, which can be killed as a whole.
        Ok(Process(command.process_group(0).spawn()?))
    };
    let mut first = start(None)?;
    match case.manner {
        Manner::Alone => Ok(vec![first.end(deadline)?]),
        Manner::Pair => {
            first.until(deadline, || launch::listens_at(port))?;
            let mut second = start(Some("127.0.0.1"))?;
            Ok(vec![second.end(deadline)?, first.end(deadline)?])
        }
        Manner::Endless(watched) => {
            let is_ready = || std::fs::read(log).is_ok_and(|text| text.starts_with(b"ready"));
            first.until(deadline, is_ready)?;
            let is_over = Instant::now() + watched;
            first.until(is_over, || false)?;
            first.terminate()?;
            Ok(vec![first.end(deadline)?])
        }
    }
}

/// A process that leads its own process group. The group is killed if the process is still running
/// when this value is dropped.
struct Process(Child);

impl Process {
    /// Waits until a condition holds, the process has ended, or the deadline has passed.
    fn until(&mut self, deadline: Instant, mut holds: impl FnMut() -> bool) -> io::Result<()> {
        while !holds() && Instant::now() < deadline {
            check_signals()?;
            if wait_until(&mut self.0, deadline.min(Instant::now() + LOOK))?.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Waits for the end of the process until the deadline.
    fn end(&mut self, deadline: Instant) -> io::Result<End> {
        self.until(deadline, || false)?;
        let Some(status) = self.0.try_wait()? else { return Ok(End::TimedOut) };
        Ok(End::of(status))
    }

    /// Sends SIGTERM, unless the process has ended, because its process id may have been reused.
    fn terminate(&mut self) -> io::Result<()> {
        if self.0.try_wait()?.is_none() {
            // SAFETY: no pointers. The process has not been waited for.
            unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // SAFETY: no pointers. The leader of the group has not been waited for.
            unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
            let _ = self.0.wait();
        }
    }
}

impl End {
    fn of(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (Some(code), _) => End::Code(code),
            (None, signal) => End::Signal(signal.unwrap_or(0)),
        }
    }
}

/// Why a case has failed; `None` if it has passed. `ends` holds how the processes ended, and
/// `output` everything that they printed.
pub fn failure(expected: Expected, ends: &[End], output: &str) -> Option<String> {
    let reports: Vec<&str> = output.lines().filter(|line| is_summary(line)).collect();
    if let Expected::Report(text) = expected {
        let found = reports.iter().any(|line| line.contains(text));
        return if found { None } else { Some(format!("no report of the injected {text}")) };
    }
    if let Some(first) = reports.first() {
        let more = reports.len() - 1;
        let more = if more > 0 { format!(" (and {more} more reports)") } else { String::new() };
        return Some(format!("{}{more}", first.trim()));
    }
    let wanted = match expected {
        Expected::Terminated => End::Signal(libc::SIGTERM),
        _ => End::Code(0),
    };
    if let Some(end) = ends.iter().find(|end| **end != wanted) {
        return Some(match end {
            End::Code(REPORTED) => "a report without a summary".to_owned(),
            End::Code(code) => format!("status {code}"),
            End::Signal(signal) => format!("ended by signal {signal}"),
            End::TimedOut => "it took too long".to_owned(),
        });
    }
    match expected {
        Expected::Success(text) if !output.contains(text) => {
            Some(format!("no {text:?} in its output"))
        }
        _ => None,
    }
}

/// The last line of a sanitizer's report.
fn is_summary(line: &str) -> bool {
    line.contains("SUMMARY: ") && line.contains("Sanitizer: ")
}
