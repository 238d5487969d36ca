//! The part of HTTP that Prometheus needs: `GET /metrics`.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Stats;
use super::visitors::Visitors;

/// Maximum duration of a connection.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a request, in bytes.
const REQUEST_MAX: usize = 8 * 1024;
/// Maximum number of connections at a time. When another one arrives, the oldest is closed, so that
/// silent clients do not block others.
const VISITORS_MAX: usize = 8;

/// Serves metrics at an address, on separate threads, until it is dropped.
#[derive(Debug)]
pub struct StatsExporter {
    address: SocketAddr,
    visitors: Visitors,
}

impl StatsExporter {
    /// Starts to serve the metrics of `snapshot` at an address; port 0 stands for a free one.
    ///
    /// # Errors
    /// The address cannot be listened at, or there is no thread.
    pub fn start(
        address: SocketAddr,
        snapshot: impl Fn() -> Stats + Send + Sync + 'static,
    ) -> io::Result<StatsExporter> {
        StatsExporter::of(address, TIMEOUT, move || snapshot().to_prometheus())
    }

    fn of(
        address: SocketAddr,
        timeout: Duration,
        metrics: impl Fn() -> String + Send + Sync + 'static,
    ) -> io::Result<StatsExporter> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let metrics = Arc::new(metrics);
        let accept = move || listener.accept().map(|(stream, _)| stream);
        let mut connections = Connections { timeout, open: VecDeque::new() };
        let serve = move |stream| {
            let metrics = metrics.clone();
            // A client that disconnects, or for which no thread can be started, connects again.
            _ = connections.admit(stream, move || metrics());
        };
        Ok(StatsExporter { address, visitors: Visitors::start("fairway-metrics", accept, serve)? })
    }

    /// Returns the address in use; port 0 was replaced by a free one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for StatsExporter {
    fn drop(&mut self) {
        let mut here = self.address;
        match here.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => here.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => here.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        self.visitors.end(|| TcpStream::connect_timeout(&here, TIMEOUT));
    }
}

/// Connections that are being answered, the oldest first.
struct Connections {
    /// Maximum duration of each.
    timeout: Duration,
    open: VecDeque<Connection>,
}

struct Connection {
    stream: TcpStream,
    is_over: Arc<AtomicBool>,
}

impl Connections {
    /// Answers a connection on a separate thread.
    fn admit(
        &mut self,
        mut stream: TcpStream,
        metrics: impl FnOnce() -> String + Send + 'static,
    ) -> io::Result<()> {
        self.open.retain(|connection| !connection.is_over.load(Ordering::Acquire));
        if self.open.len() >= VISITORS_MAX {
            self.open.pop_front();
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let connection = Connection { stream: stream.try_clone()?, is_over: is_over.clone() };
        let timeout = self.timeout;
        std::thread::Builder::new().name("fairway-metrics".into()).spawn(move || {
            // A client that disconnects is ignored. The stream has two owners, so it must be shut
            // down explicitly.
            _ = answer(&mut stream, timeout, metrics);
            _ = stream.shutdown(Shutdown::Both);
            is_over.store(true, Ordering::Release);
        })?;
        self.open.push_back(connection);
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The connection's thread sees the end of the stream, and ends. This fails if the client
        // has disconnected.
        _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn answer(
    stream: &mut TcpStream,
    timeout: Duration,
    metrics: impl FnOnce() -> String,
) -> io::Result<()> {
    let end = Instant::now() + timeout;
    stream.set_write_timeout(Some(timeout))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            count => request.extend(&part[..count]),
        }
    }
    let (status, body) = match parse_request(&request) {
        HttpRequest::Metrics => ("200 OK", metrics()),
        HttpRequest::Elsewhere => ("404 Not Found", "metrics are at /metrics\n".into()),
        HttpRequest::Otherwise => ("405 Method Not Allowed", "only GET is served\n".into()),
        HttpRequest::Nonsense => ("400 Bad Request", "this is no HTTP request\n".into()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    stream.flush()
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HttpRequest {
    Metrics,
    Elsewhere,
    Otherwise,
    Nonsense,
}

fn parse_request(request: &[u8]) -> HttpRequest {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let is_http = version.is_some_and(|version| version.starts_with(b"HTTP/1."));
    match (method, target) {
        _ if !is_http || target.is_none_or(<[u8]>::is_empty) => HttpRequest::Nonsense,
        (Some(b"GET"), Some(target)) => {
            let path = target.split(|byte| *byte == b'?').next();
            if path == Some(b"/metrics") { HttpRequest::Metrics } else { HttpRequest::Elsewhere }
        }
        _ => HttpRequest::Otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_connections_do_not_block_others() {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // The time-out is longer than this test: served one after the other, all connections would
        // be waited for.
        let timeout = Duration::from_secs(10_000);
        let exporter = StatsExporter::of(here, timeout, || "answered\n".into()).unwrap();
        let visit = || TcpStream::connect(exporter.address()).unwrap();
        let mut silent: Vec<TcpStream> = (0..50).map(|_| visit()).collect();
        let mut visitor = visit();
        visitor.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        visitor.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\nanswered\n"), "{answer:?}");
        // The oldest connection was closed.
        assert_eq!(silent[0].read(&mut [0; 8]).unwrap_or(0), 0);
    }

    #[test]
    fn requests_are_distinguished_by_path() {
        let of = |text: &str| parse_request(text.as_bytes());
        assert_eq!(of("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), HttpRequest::Metrics);
        assert_eq!(of("GET /metrics?name=x HTTP/1.0\r\n\r\n"), HttpRequest::Metrics);
        assert_eq!(of("GET / HTTP/1.1\r\n\r\n"), HttpRequest::Elsewhere);
        assert_eq!(of("GET /metricsx HTTP/1.1\r\n\r\n"), HttpRequest::Elsewhere);
        assert_eq!(of("POST /metrics HTTP/1.1\r\n\r\n"), HttpRequest::Otherwise);
        for text in ["", "GET", "GET /metrics", "\r\n\r\n", "GET  HTTP/1.1", "\u{0}\u{1}"] {
            assert_eq!(of(text), HttpRequest::Nonsense, "{text:?}");
        }
    }
}
