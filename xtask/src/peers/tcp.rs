//! A TCP flow whose receiver measures for a given time, and whose sender reports retransmissions;
//! and a TCP ping-pong.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::roles::{Arguments, WARM_UP_PART, say_times};
use super::say;
use super::sockets::{choose_tcp_controller, tcp_counts};

/// Indices of both roles' settings.
const BYTES: usize = 0;
const WARM_UP: usize = 1;
const MEASURED: usize = 2;
const AFTER: usize = 3;
/// Index in the benchmark's list of congestion controls.
const CONTROLLER: usize = 4;

/// Largest number of bytes of a write or read.
const BYTES_MAX: usize = 1 << 20;

fn buffer(arguments: &Arguments) -> io::Result<Vec<u8>> {
    match arguments.setting(BYTES)? {
        bytes @ 1..=BYTES_MAX => Ok(vec![7; bytes]),
        _ => Err(io::Error::other("a write has 1 byte to 1 MiB")),
    }
}

/// Sends for the sum of the three times. Prints the numbers of data packets, of retransmitted
/// packets, and of those that the receiver reports as duplicates.
pub(super) fn flow(arguments: &Arguments, out: &mut dyn Write) -> io::Result<()> {
    let memory = buffer(arguments)?;
    let times = [WARM_UP, MEASURED, AFTER].map(|index| arguments.duration(index));
    let [warm_up, measured, after] = times;
    let total = warm_up? + measured? + after?;
    let mut stream = TcpStream::connect(arguments.to)?;
    choose_tcp_controller(&stream, arguments.setting(CONTROLLER)?)?;
    let start = Instant::now();
    while start.elapsed() < total {
        stream.write_all(&memory)?;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // The receiver answers when it has received everything.
    stream.read_exact(&mut [0])?;
    let [packets, again, for_nothing] = tcp_counts(&stream)?;
    say(out, format_args!("{packets} {again} {for_nothing}"))
}

/// Receives until the end. Prints the bytes of the measured time, which begins a warm-up time after
/// the first byte.
pub(super) fn meter(arguments: &Arguments, out: &mut dyn Write) -> io::Result<()> {
    let mut memory = buffer(arguments)?;
    let (warm_up, measured) = (arguments.duration(WARM_UP)?, arguments.duration(MEASURED)?);
    let listener = TcpListener::bind(arguments.bind)?;
    say(out, format_args!("{}", listener.local_addr()?))?;
    let (mut stream, _) = listener.accept()?;
    let mut first = None;
    let mut bytes = 0u64;
    loop {
        let received = stream.read(&mut memory)?;
        if received == 0 {
            break;
        }
        let since: Duration = first.get_or_insert_with(Instant::now).elapsed();
        if (warm_up..warm_up + measured).contains(&since) {
            bytes += received as u64;
        }
    }
    stream.write_all(&[0])?;
    say(out, format_args!("{bytes}"))
}

/// Reads exactly `buffer.len()` bytes without sleeping in the kernel. `Ok(false)` at the end of the
/// stream.
fn poll_exact(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<bool> {
    let mut at = 0;
    while at < buffer.len() {
        match stream.read(&mut buffer[at..]) {
            Ok(0) => return Ok(false),
            Ok(count) => at += count,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// A message of a ping-pong, which is so short that a socket's buffer always has room for it.
fn message(arguments: &Arguments) -> io::Result<Vec<u8>> {
    match arguments.setting(0)? {
        bytes @ 1..=4096 => Ok(vec![7; bytes]),
        _ => Err(io::Error::other("a message has 1 byte to 4 KiB")),
    }
}

/// Prepares a socket for short messages: sent at once, and polled for.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

/// Returns every message at once, until the end of the stream. Polls without sleeping.
pub(super) fn echo(arguments: &Arguments, out: &mut dyn Write) -> io::Result<()> {
    let mut message = message(arguments)?;
    let listener = TcpListener::bind(arguments.bind)?;
    say(out, format_args!("{}", listener.local_addr()?))?;
    let (mut stream, _) = listener.accept()?;
    prepare(&stream)?;
    while poll_exact(&mut stream, &mut message)? {
        stream.write_all(&message)?;
    }
    say(out, format_args!("done"))
}

/// Measures round trips of a message. Polls without sleeping. Prints the summary of the times.
pub(super) fn ping(arguments: &Arguments, out: &mut dyn Write) -> io::Result<()> {
    let mut message = message(arguments)?;
    let duration = arguments.duration(1)?;
    let mut stream = TcpStream::connect(arguments.to)?;
    prepare(&stream)?;
    let mut round_trip = || {
        let start = Instant::now();
        stream.write_all(&message)?;
        if !poll_exact(&mut stream, &mut message)? {
            return Err(io::Error::other("the other side closed the connection"));
        }
        Ok(start.elapsed())
    };
    let mut times = Vec::with_capacity(10_000_000);
    let warm = Instant::now();
    while warm.elapsed() < duration / WARM_UP_PART {
        round_trip()?;
    }
    let start = Instant::now();
    while start.elapsed() < duration && times.len() < times.capacity() {
        times.push(u32::try_from(round_trip()?.as_nanos()).unwrap_or(u32::MAX));
    }
    say_times(&mut times, 0, out)
}
