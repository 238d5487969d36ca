//! The socket that serves statistics to processes of the same user, and the way to find it.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use fairway_port::{is_same_user, user};
use fairway_runtime::passing::{SocketKind, connect_abstract};

use super::Stats;
use super::visitors::Visitors;

/// Maximum time for a client, and for the whole answer of a server.
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

    fn name(&self) -> String {
        format!("{}{}-{:06x}", Self::prefix(), self.pid, self.context)
    }

    fn address(&self) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(self.name())
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
/// It is gone, does not answer within a second, has a full queue of connections, or belongs to
/// another user.
pub fn query(process: &Process) -> io::Result<String> {
    read_answer(&process.name(), Instant::now() + TIMEOUT)
}

/// Reads what the server of an abstract name sends. Any user can listen at such a name, so the
/// connection is made at once or not at all, and bytes that arrive slowly prolong nothing.
fn read_answer(name: &str, until: Instant) -> io::Result<String> {
    let stream = connect_abstract(name.as_bytes(), SocketKind::Stream)?;
    if !is_same_user(&stream) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_nonblocking(false)?;
    let mut answer = String::new();
    Timed { stream, until }.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

/// A connection whose reads all end at one time.
struct Timed {
    stream: UnixStream,
    until: Instant,
}

impl Read for Timed {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(room)
    }
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use fairway_runtime::passing::listen_abstract;

    use super::*;

    fn name(of: &str) -> String {
        format!("fairway-observe-test-{of}-{}", std::process::id())
    }

    #[test]
    fn server_with_a_full_queue_delays_no_query() {
        let name = name("full");
        let _listener = listen_abstract(name.as_bytes(), SocketKind::Stream, 0).unwrap();
        let connect = || connect_abstract(name.as_bytes(), SocketKind::Stream);
        // The server accepts none of these connections.
        let _queue: Vec<_> = std::iter::from_fn(|| connect().ok()).collect();
        let failed = read_answer(&name, Instant::now() + Duration::from_secs(60)).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn answer_that_arrives_byte_by_byte_is_given_up_in_time() {
        let name = name("slow");
        let listener =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let (ended, end) = channel();
        std::thread::scope(|scope| {
            let query = scope.spawn(move || {
                let result = read_answer(&name, Instant::now() + Duration::from_millis(200));
                drop(ended);
                result
            });
            let (mut stream, _) = listener.accept().unwrap();
            let has_ended = (0..2000).any(|_| {
                // The query may have closed the connection.
                let _ = stream.write_all(b" ");
                let ended = end.recv_timeout(Duration::from_millis(10));
                ended == Err::<(), _>(RecvTimeoutError::Disconnected)
            });
            drop(stream);
            assert!(has_ended, "the query waits for the rest");
            let failed = query.join().unwrap().unwrap_err();
            let kinds = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
            assert!(kinds.contains(&failed.kind()), "{failed}");
        });
    }
}
