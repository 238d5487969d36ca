//! A TCP flow whose receiver measures for a given time, and whose sender reports retransmissions.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::roles::Arguments;
use super::say;
use super::sockets::{choose_tcp_law, tcp_counts};

/// Indices of both roles' settings.
const BYTES: usize = 0;
const WARM_UP: usize = 1;
const MEASURED: usize = 2;
const AFTER: usize = 3;
/// Index in the benchmark's list of congestion controls.
const LAW: usize = 4;

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
    choose_tcp_law(&stream, arguments.setting(LAW)?)?;
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
