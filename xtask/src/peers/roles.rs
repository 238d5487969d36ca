//! The roles of the two sides.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::sockets::{buffers, coalesce, pin, segment};
use super::{parse, say, tcp};

/// Bytes of memory that transfers use on each side: more than any cache.
const MEMORY_BYTES: usize = 64 << 20;
/// Largest number of bytes of one receive call.
const ARRIVAL_BYTES: usize = 65_536;
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Silence after which a transfer is over.
const SILENCE: Duration = Duration::from_millis(200);
/// Longest wait of a listener for the driver to begin.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which an unanswered packet counts as lost.
const LOST_AFTER: Duration = Duration::from_millis(100);
/// Fraction of the duration that precedes the measurement (1 / 10).
pub(super) const WARM_UP_PART: u32 = 10;
/// First byte of the packet that ends an echo.
const STOP: u8 = 0xff;

/// Arguments in this order: core, local address, remote address, settings.
pub(super) struct Arguments {
    /// Unpinned if `None`, which is written as `any`.
    core: Option<usize>,
    pub(super) bind: SocketAddr,
    pub(super) to: SocketAddr,
    settings: Vec<u64>,
}

impl Arguments {
    fn parse(args: &[String]) -> io::Result<Self> {
        let [core, bind, to, settings @ ..] = args else {
            return Err(io::Error::other("expected: role, core, own address, other address"));
        };
        let ip: IpAddr = parse(bind)?;
        let settings: io::Result<Vec<u64>> = settings.iter().map(|text| parse(text)).collect();
        Ok(Arguments {
            core: if core == "any" { None } else { Some(parse(core)?) },
            bind: SocketAddr::new(ip, 0),
            to: parse(to)?,
            settings: settings?,
        })
    }

    pub(super) fn setting(&self, index: usize) -> io::Result<usize> {
        let value = self.settings.get(index).copied();
        let value = value.and_then(|value| usize::try_from(value).ok());
        value.ok_or_else(|| io::Error::other(format!("setting {index} is missing")))
    }

    pub(super) fn duration(&self, index: usize) -> io::Result<Duration> {
        Ok(Duration::from_millis(self.setting(index)? as u64))
    }

    fn udp(&self) -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(self.bind)?;
        buffers(&socket, SOCKET_BUFFER_BYTES)?;
        Ok(socket)
    }
}

/// Runs the role that the first argument names; results are written to `out`.
pub(super) fn run(args: &[String], out: &mut dyn Write) -> io::Result<()> {
    let (role, rest) = args.split_first().ok_or_else(|| io::Error::other("no role"))?;
    let arguments = &Arguments::parse(rest)?;
    if let Some(core) = arguments.core {
        pin(core)?;
    }
    match role.as_str() {
        "udp-sink" => udp_sink(arguments, out),
        "udp-blast" => udp_blast(arguments, out),
        "udp-echo" => udp_echo(arguments, out),
        "udp-ping" => udp_ping(arguments, out),
        "tcp-sink" => tcp_sink(arguments, out),
        "tcp-stream" => tcp_stream(arguments, out),
        "tcp-flow" => tcp::flow(arguments, out),
        "tcp-meter" => tcp::meter(arguments, out),
        "tcp-echo" => tcp::echo(arguments, out),
        "tcp-ping" => tcp::ping(arguments, out),
        "copy" => copy(arguments, out),
        _ => Err(io::Error::other("no such role")),
    }
}

/// Memory that has been touched, so that no page fault occurs during the measurement.
fn memory() -> Vec<u8> {
    (0..MEMORY_BYTES).map(|index| index as u8).collect()
}

fn udp_blast(arguments: &Arguments, out: &mut dyn Write) -> io::Result<()> {
    let (bytes, segments) = (arguments.setting(0)?, arguments.setting(1)?);
    let duration = arguments.duration(2)?;
    let train = bytes * segments;
    if train == 0 || train > 65_507 {
        return Err(io::Error::other("a train has 1 to 65507 bytes"));
    }
    let socket = arguments.udp()?;
    if segments > 1 {
        segment(&socket, bytes)?;
    }
    socket.connect(arguments.to)?;
    let memory = memory();
    let (mut at, mut sent) = (0, 0u64);
    let start = Instant::now();
    while start.elapsed() < duration {
        match socket.send(&memory[at..at + train]) {
            Ok(count) => sent += count as u64,
            Err(error) if passes(&error) => {}
            Err(error) => return Err(error),
        }
        at = if at + 2 * train <= MEMORY_BYTES { at + train } else { 0 };
    }
    say(out, format_args!("{sent} {}", start.elapsed().as_secs_f64()))
}

fn udp_sink(arguments: &Arguments, out: &mut dyn Write) -> io::Result<()> {
    let socket = arguments.udp()?;
    coalesce(&socket)?;
    let mut memory = memory();
    let mut count = Count::default();
    say(out, format_args!("{}", socket.local_addr()?))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let mut at = 0;
    loop {
        let received = match socket.recv(&mut memory[at..at + ARRIVAL_BYTES]) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if is_timeout(&error) => break,
            Err(error) => return Err(error),
        };
        if count.bytes == 0 {
            socket.set_read_timeout(Some(SILENCE))?;
        }
        count.add(received);
        at = if at + received + ARRIVAL_BYTES <= MEMORY_BYTES { at + received } else { 0 };
    }
    count.say(out)
}

fn tcp_stream(arguments: &Arguments, out: &mut dyn Write) -> io::Result<()> {
    let (bytes, duration) = (arguments.setting(0)?, arguments.duration(1)?);
    if bytes == 0 || bytes > MEMORY_BYTES {
        return Err(io::Error::other("a write has 1 byte to 64 MiB"));
    }
    let mut stream = TcpStream::connect(arguments.to)?;
    let memory = memory();
    let (mut at, mut sent) = (0, 0u64);
    let start = Instant::now();
    while start.elapsed() < duration {
        stream.write_all(&memory[at..at + bytes])?;
        sent += bytes as u64;
        at = if at + 2 * bytes <= MEMORY_BYTES { at + bytes } else { 0 };
    }
    say(out, format_args!("{sent} {}", start.elapsed().as_secs_f64()))
}

fn tcp_sink(arguments: &Arguments, out: &mut dyn Write) -> io::Result<()> {
    let listener = TcpListener::bind(arguments.bind)?;
    let bytes = arguments.setting(0)?;
    if bytes == 0 || bytes > MEMORY_BYTES {
        return Err(io::Error::other("a read has 1 byte to 64 MiB"));
    }
    let mut memory = memory();
    let mut count = Count::default();
    say(out, format_args!("{}", listener.local_addr()?))?;
    let (mut stream, _) = listener.accept()?;
    let mut at = 0;
    loop {
        let received = stream.read(&mut memory[at..at + bytes])?;
        if received == 0 {
            break;
        }
        count.add(received);
        at = if at + received + bytes <= MEMORY_BYTES { at + received } else { 0 };
    }
    count.say(out)
}

fn udp_echo(arguments: &Arguments, out: &mut dyn Write) -> io::Result<()> {
    let socket = arguments.udp()?;
    socket.set_nonblocking(true)?;
    say(out, format_args!("{}", socket.local_addr()?))?;
    let mut packet = [0; ARRIVAL_BYTES];
    let mut timeout = Patience::new();
    loop {
        match socket.recv_from(&mut packet) {
            Ok((_, _)) if packet[0] == STOP => break,
            Ok((len, from)) => {
                socket.send_to(&packet[..len], from)?;
                timeout.renewed = true;
            }
            Err(error) if passes(&error) => timeout.check()?,
            Err(error) => return Err(error),
        }
    }
    say(out, format_args!("done"))
}

fn udp_ping(arguments: &Arguments, out: &mut dyn Write) -> io::Result<()> {
    let (bytes, duration) = (arguments.setting(0)?.clamp(1, 65_507), arguments.duration(1)?);
    let socket = arguments.udp()?;
    socket.connect(arguments.to)?;
    socket.set_nonblocking(true)?;
    let mut packet = vec![0; bytes];
    let mut answer = vec![0; ARRIVAL_BYTES];
    let mut times = Vec::with_capacity(10_000_000);
    let mut lost = 0u64;
    let warm = Instant::now();
    while warm.elapsed() < duration / WARM_UP_PART {
        round_trip(&socket, &packet, &mut answer)?;
    }
    let start = Instant::now();
    while start.elapsed() < duration && times.len() < times.capacity() {
        match round_trip(&socket, &packet, &mut answer)? {
            Some(time) => times.push(u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)),
            None => lost += 1,
        }
    }
    packet[0] = STOP;
    socket.send(&packet)?;
    say_times(&mut times, lost, out)
}

/// Prints the summary of round-trip times in nanoseconds, their number, and that of lost packets.
pub(super) fn say_times(times: &mut [u32], lost: u64, out: &mut dyn Write) -> io::Result<()> {
    let Summary { min_us, p50_us, mean_us, p99_us } = summary(times);
    let count = times.len();
    say(out, format_args!("{min_us} {p50_us} {mean_us} {p99_us} {count} {lost}"))
}

/// Copies between two areas of memory, in pieces and at addresses that follow one another, without
/// any peer. Prints the number of bytes and the seconds.
fn copy(arguments: &Arguments, out: &mut dyn Write) -> io::Result<()> {
    let (bytes, duration) = (arguments.setting(0)?, arguments.duration(1)?);
    if bytes == 0 || bytes > MEMORY_BYTES {
        return Err(io::Error::other("a copy has 1 byte to 64 MiB"));
    }
    let (from, mut to) = (memory(), memory());
    let (mut at, mut copied) = (0, 0u64);
    let start = Instant::now();
    while start.elapsed() < duration {
        to[at..at + bytes].copy_from_slice(&from[at..at + bytes]);
        std::hint::black_box(&mut to);
        copied += bytes as u64;
        at = if at + 2 * bytes <= MEMORY_BYTES { at + bytes } else { 0 };
    }
    say(out, format_args!("{copied} {}", start.elapsed().as_secs_f64()))
}

/// Sends one packet and waits for its answer; `None` if none arrived.
fn round_trip(
    socket: &UdpSocket,
    packet: &[u8],
    answer: &mut [u8],
) -> io::Result<Option<Duration>> {
    let start = Instant::now();
    socket.send(packet)?;
    loop {
        match socket.recv(answer) {
            Ok(_) => return Ok(Some(start.elapsed())),
            Err(error) if !passes(&error) => return Err(error),
            Err(_) if start.elapsed() > LOST_AFTER => return Ok(None),
            Err(_) => {}
        }
    }
}

pub(super) struct Summary {
    pub(super) min_us: f64,
    pub(super) p50_us: f64,
    pub(super) mean_us: f64,
    pub(super) p99_us: f64,
}

/// Summarises times in nanoseconds (which it sorts).
pub(super) fn summary(times_ns: &mut [u32]) -> Summary {
    times_ns.sort_unstable();
    let at = |hundredths: usize| {
        let index = times_ns.len() * hundredths / 100;
        times_ns.get(index.min(times_ns.len().saturating_sub(1))).map_or(0.0, |&ns| f64::from(ns))
    };
    let total: u64 = times_ns.iter().map(|&ns| u64::from(ns)).sum();
    let mean = total as f64 / times_ns.len().max(1) as f64;
    Summary { min_us: at(0) / 1e3, p50_us: at(50) / 1e3, mean_us: mean / 1e3, p99_us: at(99) / 1e3 }
}

/// Received bytes, and the times of the first and the last arrival.
#[derive(Default)]
struct Count {
    bytes: u64,
    span: Option<(Instant, Instant)>,
}

impl Count {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        let now = Instant::now();
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
    }

    fn say(&self, out: &mut dyn Write) -> io::Result<()> {
        let seconds = self.span.map_or(0.0, |(first, last)| (last - first).as_secs_f64());
        say(out, format_args!("{} {seconds}", self.bytes))
    }
}

/// Ends a busy loop whose peer is silent. The clock is read only at intervals.
struct Patience {
    calls: u32,
    start: Instant,
    /// Whether the peer has sent something since the clock was last read.
    renewed: bool,
}

impl Patience {
    fn new() -> Self {
        Patience { calls: 0, start: Instant::now(), renewed: false }
    }

    fn check(&mut self) -> io::Result<()> {
        self.calls = self.calls.wrapping_add(1);
        if self.calls & 0xfff != 0 {
            return Ok(());
        }
        if std::mem::take(&mut self.renewed) {
            self.start = Instant::now();
        }
        if self.start.elapsed() <= TIMEOUT {
            return Ok(());
        }
        Err(io::Error::other("nothing more came"))
    }
}

/// Whether an error of a datagram socket is temporary: nothing to receive, no room, or an absent
/// peer.
fn passes(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
        || matches!(
            error.kind(),
            ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
        )
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
