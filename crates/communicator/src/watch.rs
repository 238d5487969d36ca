//! Notices the end of the processes of other ranks on this host.
//!
//! A process that is killed sends nothing, and silence alone does not tell its end from a pause. A
//! descriptor of the process (pidfd_open(2)) does. All groups of this process share one for each
//! other process.

use crate::member::Member;
use std::time::{Duration, Instant};

/// Time between two looks at the processes.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// Time after the end of a process for the last packets that it has sent.
const LAST: Duration = Duration::from_millis(300);

/// The processes of other ranks.
#[derive(Debug)]
pub(crate) struct Watch {
    others: Vec<Other>,
    looked: Instant,
}

#[derive(Debug)]
struct Other {
    rank: u32,
    process: process::Process,
    ended: Option<Instant>,
}

impl Watch {
    /// Watches the ranks of this host whose processes have a number here.
    pub(crate) fn new(own: &Member, members: &[Member]) -> Watch {
        let is_other = |member: &Member| {
            let is_here = (member.host, member.processes) == (own.host, own.processes);
            is_here && member.seal.process != own.seal.process
        };
        let others = (0..).zip(members).filter(|(_, member)| is_other(member));
        let watched = others.filter_map(|(rank, member)| {
            let process = process::Process::open(member.seal.process)?;
            Some(Other { rank, process, ended: None })
        });
        Watch { others: watched.collect(), looked: Instant::now() }
    }

    /// Returns the ranks whose processes have ended, each once, when their last packets have had
    /// time to arrive.
    pub(crate) fn poll_ended(&mut self, now: Instant) -> Vec<u32> {
        if self.others.is_empty() || now.saturating_duration_since(self.looked) < LOOK {
            return Vec::new();
        }
        self.looked = now;
        for other in &mut self.others {
            if other.ended.is_none() && other.process.has_ended() {
                other.ended = Some(now);
            }
        }
        let is_over = |other: &mut Other| {
            other.ended.is_some_and(|ended| now.saturating_duration_since(ended) >= LAST)
        };
        self.others.extract_if(.., is_over).map(|other| other.rank).collect()
    }
}

#[cfg(target_os = "linux")]
mod process {
    use std::collections::HashMap;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::sync::{Arc, Mutex, PoisonError, Weak};

    /// Descriptors by the numbers of their processes.
    static OPEN: Mutex<Option<HashMap<u32, Weak<OwnedFd>>>> = Mutex::new(None);

    /// A process, by its descriptor.
    #[derive(Debug)]
    pub(super) enum Process {
        Known(Arc<OwnedFd>),
        /// It had ended before it was looked for.
        Ended,
    }

    impl Process {
        /// `None` if the kernel has no such descriptors, or no more of them.
        pub(super) fn open(number: u32) -> Option<Process> {
            let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            let open = open.get_or_insert_default();
            let known = open.get(&number).and_then(Weak::upgrade).map(Process::Known);
            // Another process may have the number of one that has ended.
            if let Some(process) = known.filter(|process| !process.has_ended()) {
                return Some(process);
            }
            // SAFETY: two numbers are passed.
            let file = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
            let file = i32::try_from(file).ok()?;
            if file < 0 {
                let error = std::io::Error::last_os_error().raw_os_error();
                return (error == Some(libc::ESRCH)).then_some(Process::Ended);
            }
            // SAFETY: the call has returned the descriptor to this thread alone.
            let file = Arc::new(unsafe { OwnedFd::from_raw_fd(file) });
            open.retain(|_, known| known.strong_count() > 0);
            open.insert(number, Arc::downgrade(&file));
            Some(Process::Known(file))
        }

        /// True if the process has ended, also before its parent has waited for it.
        pub(super) fn has_ended(&self) -> bool {
            let Process::Known(file) = self else { return true };
            let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor, without waiting.
            unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod process {
    /// No process is known here.
    #[derive(Debug)]
    pub(super) struct Process(std::convert::Infallible);

    impl Process {
        pub(super) fn open(_number: u32) -> Option<Process> {
            None
        }

        pub(super) fn has_ended(&self) -> bool {
            match self.0 {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn process_that_ended_before_it_was_watched_has_ended() {
        let mut child = Command::new("true").spawn().expect("the system has true");
        child.wait().expect("it is a child");
        let process = process::Process::open(child.id()).expect("it is known to have ended");
        let start = Instant::now();
        let mut watch =
            Watch { others: vec![Other { rank: 2, process, ended: None }], looked: start };
        let second = |second| start + Duration::from_secs(second);
        assert!(watch.poll_ended(second(1)).is_empty(), "its last packets may be on their way");
        assert_eq!(watch.poll_ended(second(2)), [2]);
    }

    #[test]
    fn killed_process_has_ended_once_and_a_stopped_one_has_not() {
        let start = Instant::now();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.as_mut().expect("the system has cat");
        let process = process::Process::open(child.id()).expect("the process runs");
        let others = vec![Other { rank: 3, process, ended: None }];
        let mut watch = Watch { others, looked: start };
        let second = |second| start + Duration::from_secs(second);
        // SAFETY: the signal goes to the child.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGSTOP) }, 0);
        assert!(watch.poll_ended(second(1)).is_empty());
        child.kill().expect("it is a child");
        let mut rest = Vec::new();
        // Its end closes the pipe. The descriptor is ready when its parent could wait for it.
        child.stdout.take().expect("a pipe").read_to_end(&mut rest).expect("nothing");
        child.wait().expect("it is a child");
        assert!(watch.poll_ended(second(2)).is_empty(), "its last packets may be on their way");
        assert!(watch.poll_ended(second(2) + Duration::from_millis(50)).is_empty());
        assert_eq!(watch.poll_ended(second(3)), [3]);
        assert!(watch.poll_ended(second(4)).is_empty());
    }
}
