//! The socket that serves statistics to processes of the same user, and the way to find it.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use fairway_port::{is_same_user, user};

use super::Stats;
use super::visitors::Visitors;

/// Maximum time for a client.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of an answer that is accepted, in bytes.
const ANSWER_MAX: u64 = 64 << 20;

/// A context that serves its statistics.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// The process identifier.
    pub pid: u32,
    /// The context's number within the process.
    pub context: u32,
}

impl Process {
    fn prefix() -> String {
        format!("fairway-top-{}-", user())
    }

    fn address(&self) -> io::Result<SocketAddr> {
        let name = format!("{}{}-{:06x}", Self::prefix(), self.pid, self.context);
        SocketAddr::from_abstract_name(name)
    }

    /// Parses the part of a name after the prefix.
    fn read(text: &str) -> Option<Process> {
        let (pid, context) = text.split_once('-')?;
        Some(Process { pid: pid.parse().ok()?, context: u32::from_str_radix(context, 16).ok()? })
    }
}

/// Lists the contexts of this user, in this network namespace, that serve their statistics.
///
/// # Errors
/// The system does not say which sockets there are.
pub fn list() -> io::Result<Vec<Process>> {
    let sockets = std::fs::read_to_string("/proc/net/unix")?;
    let prefix = format!("@{}", Process::prefix());
    let names = sockets.lines().filter_map(|line| line.rsplit_once(' '));
    let mut found: Vec<Process> = names
        .filter_map(|(_, name)| name.strip_prefix(prefix.as_str()).and_then(Process::read))
        .collect();
    found.sort_unstable();
    // A connected socket has the name of the one that accepted it.
    found.dedup();
    Ok(found)
}

/// Returns the statistics of a context as [`Stats::to_json`] formats them.
///
/// # Errors
/// It is gone, does not answer within a second, or belongs to another user.
pub fn query(process: &Process) -> io::Result<String> {
    let stream = UnixStream::connect_addr(&process.address()?)?;
    if !is_same_user(&stream) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Listens at the name of a context, on a separate thread, until it is dropped.
#[derive(Debug)]
pub struct StatsServer {
    name: SocketAddr,
    visitors: Visitors,
}

impl StatsServer {
    /// Starts to serve `snapshot` to processes of the same user, under the number of a context
    /// within this process.
    ///
    /// # Errors
    /// Another context of this process has the number, or there is no thread.
    pub fn start(
        context: u32,
        snapshot: impl Fn() -> Stats + Send + 'static,
    ) -> io::Result<StatsServer> {
        let name = Process { pid: std::process::id(), context }.address()?;
        let listener = UnixListener::bind_addr(&name)?;
        let accept = move || listener.accept().map(|(stream, _)| stream);
        // A client that disconnects early does not need the answer.
        let serve = move |stream| _ = send_statistics(stream, &snapshot);
        Ok(StatsServer { name, visitors: Visitors::start("fairway-stats", accept, serve)? })
    }
}

impl Drop for StatsServer {
    fn drop(&mut self) {
        self.visitors.end(|| UnixStream::connect_addr(&self.name));
    }
}

fn send_statistics(mut stream: UnixStream, snapshot: &impl Fn() -> Stats) -> io::Result<()> {
    if !is_same_user(&stream) {
        return Ok(());
    }
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut text = snapshot().to_json();
    text.push('\n');
    stream.write_all(text.as_bytes())
}
