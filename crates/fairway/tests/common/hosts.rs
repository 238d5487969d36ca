//! Hosts of a test: network namespaces, which require the superuser and the `ip` tool.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

/// Runs `ip`. Returns false if it is missing or fails.
pub fn run(words: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(words.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Network namespaces, which are removed on drop.
pub struct Hosts<const N: usize> {
    pub names: [String; N],
}

impl<const N: usize> Hosts<N> {
    /// Returns names for hosts that are not there yet.
    pub fn named(label: &str, hosts: [&str; N]) -> Hosts<N> {
        let pid = std::process::id();
        Hosts { names: hosts.map(|host| format!("fairway-{label}-{host}-{pid}")) }
    }

    /// Creates the hosts, without interfaces. Returns false if that is not possible here.
    pub fn create(&self) -> bool {
        self.names.iter().all(|name| run(&format!("netns add {name}")))
    }

    /// Runs `work` at a host; threads that it starts stay there.
    pub fn inside<R: Send>(&self, host: usize, work: impl FnOnce() -> R + Send) -> R {
        let file = File::open(format!("/run/netns/{}", self.names[host])).unwrap();
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                // SAFETY: the descriptor is open for the call, and no memory is passed.
                let moved = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(moved, 0, "{}", std::io::Error::last_os_error());
                work()
            });
            inside.join().unwrap()
        })
    }
}

impl<const N: usize> Drop for Hosts<N> {
    fn drop(&mut self) {
        for name in &self.names {
            run(&format!("netns del {name}"));
        }
    }
}
