//! The socket at which processes of the same user ask for stats, and how they find it.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Stats;
use super::visitors::Visitors;
use crate::same_host::is_ours;
use crate::shared::Shared;

/// How long a visitor may take.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The longest answer that is believed.
const ANSWER_MAX: u64 = 64 << 20;

/// A context that tells of itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its process.
    pub pid: u32,
    /// Which of the process's contexts.
    pub context: u32,
}

impl Process {
    fn prefix() -> String {
        // SAFETY: has no conditions.
        let user = unsafe { libc::geteuid() };
        format!("fairway-top-{user}-")
    }

    fn address(&self) -> io::Result<SocketAddr> {
        let name = format!("{}{}-{:06x}", Self::prefix(), self.pid, self.context);
        SocketAddr::from_abstract_name(name)
    }

    /// From what comes after the prefix.
    fn read(text: &str) -> Option<Process> {
        let (pid, context) = text.split_once('-')?;
        Some(Process { pid: pid.parse().ok()?, context: u32::from_str_radix(context, 16).ok()? })
    }
}

/// The contexts of this user, in this network namespace, that tell of themselves.
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
    // A socket that is connected has the name of the one that accepted it.
    found.dedup();
    Ok(found)
}

/// What a context tells: [`Stats::to_json`].
///
/// # Errors
/// It is gone, does not answer within a second, or belongs to another user.
pub fn ask(process: &Process) -> io::Result<String> {
    let stream = UnixStream::connect_addr(&process.address()?)?;
    if !is_ours(&stream) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Waits at the context's name, on a thread of its own, until it is dropped.
pub(crate) struct Server {
    name: SocketAddr,
    visitors: Visitors,
}

impl Server {
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Server> {
        let context = shared.with(|core| core.nic.address().value());
        let name = Process { pid: std::process::id(), context }.address()?;
        let listener = UnixListener::bind_addr(&name)?;
        let (shared, begun) = (shared.clone(), Instant::now());
        let accept = move || listener.accept().map(|(stream, _)| stream);
        // A reader that closes early has no further use for it.
        let serve = move |stream| _ = send_statistics(&shared, stream, begun);
        Ok(Server { name, visitors: Visitors::start("fairway-stats", accept, serve)? })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.visitors.end(|| UnixStream::connect_addr(&self.name));
    }
}

fn send_statistics(shared: &Shared, mut stream: UnixStream, begun: Instant) -> io::Result<()> {
    if !is_ours(&stream) {
        return Ok(());
    }
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut text = snapshot(shared, begun).to_json();
    text.push('\n');
    stream.write_all(text.as_bytes())
}

/// Copies the numbers; the text is made without the lock.
pub(super) fn snapshot(shared: &Shared, begun: Instant) -> Stats {
    // The sockets' counters are as of now.
    let counters = shared.counters();
    let locked = shared.lock();
    let stats = Stats::of(&locked.core, begun.elapsed());
    drop(locked);
    Stats { counters, ..stats }
}
