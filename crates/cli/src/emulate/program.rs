//! The command that runs over an emulated network, and ends with it.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Time that a program has to end after SIGTERM.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Interval of the checks whether it has ended.
const STEP: Duration = Duration::from_millis(10);

/// A running program. Ended on drop.
pub(super) struct Program(Child);

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By itself.
    Itself(ExitStatus),
    /// By a signal from here.
    CutOff(ExitStatus),
}

impl Program {
    pub(super) fn start(command: &mut Command) -> Result<Program, Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Program).map_err(|error| Failure::io(format!("start {name}"), &error))
    }

    /// Whether the program has ended.
    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }

    /// Ends the program if it still runs: by SIGTERM, and if it is there after `grace`, by SIGKILL.
    /// Returns when it has ended.
    pub(super) fn end(&mut self, grace: Duration) -> io::Result<End> {
        if let Some(status) = self.0.try_wait()? {
            return Ok(End::Itself(status));
        }
        let number = self.0.id() as libc::pid_t;
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(number, libc::SIGTERM) };
        let since = Instant::now();
        while since.elapsed() < grace {
            if let Some(status) = self.0.try_wait()? {
                return Ok(End::CutOff(status));
            }
            std::thread::sleep(STEP);
        }
        self.0.kill()?;
        self.0.wait().map(End::CutOff)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // No caller is left for an error.
        let _ = self.end(GRACE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    /// Starts a shell, and waits until it has printed `ready`.
    fn shell(script: &str) -> Program {
        let mut command = Command::new("sh");
        let started = Program::start(command.args(["-c", script]).stdout(Stdio::piped()));
        let mut program = started.map_err(|failure| failure.to_string()).expect("it starts");
        let output = program.0.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut [0; 6]).expect("it is ready");
        program
    }

    #[test]
    fn program_is_ended_by_sigterm_and_one_that_ignores_it_by_sigkill() {
        let signal = |script, grace| match shell(script).end(grace).expect("a child") {
            End::CutOff(status) => status.signal(),
            End::Itself(status) => panic!("it ended by itself: {status}"),
        };
        let long = Duration::from_secs(60);
        assert_eq!(signal("echo ready; exec sleep 600", long), Some(libc::SIGTERM));
        let deaf = "trap '' TERM; echo ready; exec sleep 600";
        assert_eq!(signal(deaf, Duration::ZERO), Some(libc::SIGKILL));
    }

    #[test]
    fn program_that_ends_by_itself_keeps_its_status() {
        let mut program = shell("echo ready; exit 7");
        program.0.wait().expect("it ends");
        assert!(program.has_ended().expect("a child"));
        let End::Itself(status) = program.end(Duration::ZERO).expect("a child") else {
            panic!("it was cut off");
        };
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn program_does_not_outlive_its_owner() {
        let program = shell("echo ready; exec sleep 600");
        let number = program.0.id() as libc::pid_t;
        drop(program);
        // SAFETY: no signal is sent.
        assert_eq!(unsafe { libc::kill(number, 0) }, -1, "it is gone");
    }
}
