//! A process with a file for its output, which is ended with everything that it has started; and
//! the CPU time of ended processes.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::check_signals;

/// Interval at which signals to this program are checked while it waits.
const LOOK: Duration = Duration::from_millis(100);

/// Time that a process has to end after SIGTERM.
const FAREWELL: Duration = Duration::from_secs(2);

/// CPU time, in seconds, of all child processes that have ended and have been waited for, and of
/// the descendants that they have waited for.
pub fn ended_cpu_seconds() -> f64 {
    // SAFETY: all bit patterns of the struct are valid, and zeroes are one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live struct of the type that is requested.
    let outcome = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    assert_eq!(outcome, 0, "the usage of own children is always available");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// A process in its own process group, and the file that it prints to. The process and all its
/// descendants are ended on drop.
pub struct Process {
    /// The command.
    pub what: String,
    child: Child,
    printed: PathBuf,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a command, whose output on both streams goes to the file `printed`.
    pub fn start(mut command: Command, printed: PathBuf) -> io::Result<Process> {
        let file = File::create(&printed)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let what = format!("{command:?}");
        let child = command.spawn()?;
        Ok(Process { what, child, printed, status: None })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the status of the process, if it has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    /// Waits until the process has ended, until the deadline, or until a signal requests the end of
    /// this program. Returns the status of an ended process.
    pub fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        while self.ended()?.is_none() && Instant::now() < deadline && check_signals().is_ok() {
            let look = deadline.min(Instant::now() + LOOK);
            self.status = super::wait_until(&mut self.child, look)?;
        }
        Ok(self.status)
    }

    /// Kills the process and all its descendants, by their process ids.
    pub fn end(&mut self) -> io::Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        signal(&descendants(self.child.id()), libc::SIGTERM);
        let deadline = Instant::now() + FAREWELL;
        // The status is not recorded, because the process did not end by itself.
        if super::wait_until(&mut self.child, deadline)?.is_none() {
            signal(&descendants(self.child.id()), libc::SIGKILL);
            self.child.wait()?;
        }
        Ok(())
    }

    /// The process's output so far.
    pub fn text(&self) -> String {
        let bytes = std::fs::read(&self.printed).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that can't be killed has already ended.
        let _ = self.end();
    }
}

/// A process and all its current descendants. Jobs of Open MPI put each rank into a separate
/// process group, so that a signal to one group does not reach all of them.
fn descendants(root: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name, in parentheses, may contain any characters; the state and the parent follow it.
        let behind = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let parent = behind.split_whitespace().nth(1).and_then(|word| word.parse::<u32>().ok());
        parents.push((process, parent.unwrap_or(0)));
    }
    let mut found: Vec<u32> = vec![root];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|pair| pair.1 == parent).map(|pair| pair.0));
        at += 1;
    }
    found
}

fn signal(processes: &[u32], number: libc::c_int) {
    for process in processes {
        // SAFETY: descendants of a child that has not been waited for.
        unsafe { libc::kill(*process as libc::pid_t, number) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Scratch, sleep_until_ended};
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    #[test]
    fn every_process_that_came_from_one_is_ended_with_it() -> io::Result<()> {
        let folder = Scratch::new("process-ended")?;
        let mut command = Command::new("sh");
        // The processes are in two sessions, like a job's ranks in separate groups; both ignore
        // SIGTERM.
        command.args(["-c", "trap '' TERM; setsid sleep 600 & echo $!; wait; wait"]);
        let mut process = Process::start(command, folder.0.join("log"))?;
        let deadline = Instant::now() + Duration::from_secs(60);
        while process.text().is_empty() && Instant::now() < deadline {
            process.wait_until(Instant::now() + Duration::from_millis(5))?;
        }
        let sleeper: i32 = process.text().trim().parse().map_err(io::Error::other)?;
        let number = Pid::from_raw(sleeper).ok_or_else(|| io::Error::other("no number"))?;
        let sleeper = pidfd_open(number, PidfdFlags::empty())?;
        process.end()?;
        assert_eq!(process.status, None, "it did not end by itself");
        sleep_until_ended(&sleeper, deadline)?;
        assert!(Instant::now() < deadline, "the process that it started is left");
        Ok(())
    }

    #[test]
    fn cpu_time_of_a_waited_child_and_grandchild_is_counted() -> io::Result<()> {
        let folder = Scratch::new("process-cpu")?;
        // Each shell counts until it has used CPU time for 0.2 s, as its own clock ticks tell.
        let busy = "while read a b c d e f g h i j k l m user rest < /proc/$$/stat; \
                    [ $user -lt 20 ]; do n=0; \
                    while [ $n -lt 2000 ]; do n=$((n+1)); done; done";
        let before = ended_cpu_seconds();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("sh -c '{busy}' & wait")]);
        let mut process = Process::start(command, folder.0.join("log"))?;
        let status = process.wait_until(Instant::now() + Duration::from_secs(60))?;
        let used = ended_cpu_seconds() - before;
        assert!(status.is_some_and(|status| status.success()), "{}", process.text());
        assert!(used >= 0.15, "{used} s were counted, not 0.2");
        Ok(())
    }
}
