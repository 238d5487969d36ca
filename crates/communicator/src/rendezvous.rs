//! How the ranks of a group find each other.

mod visitors;

use crate::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use visitors::{VISITORS_MAX, Visitors};

/// First bytes of a connection to rank 0.
const MAGIC: [u8; 4] = *b"FWR\x01";
/// Maximum length of a record and of a group's name, in bytes.
const RECORD_MAX: u32 = 4096;
/// Time between two attempts to reach rank 0, and between two looks of rank 0 for connections.
const RETRY: Duration = Duration::from_millis(20);
/// Time between two looks for bytes of connections that do not block.
const STEP: Duration = Duration::from_millis(1);

/// Exchanges one record of each rank with all others.
pub trait Rendezvous {
    /// Passes on this rank's record, and returns those of all ranks, in the order of the ranks.
    ///
    /// # Errors
    /// Not all ranks came within `timeout`.
    fn exchange(&mut self, record: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error>;
}

/// A rendezvous at a TCP port of rank 0.
#[derive(Clone, Debug)]
pub struct TcpRendezvous {
    address: String,
    group: String,
    rank: u32,
    ranks: u32,
}

impl TcpRendezvous {
    /// A rendezvous at `address`, host and port, where rank 0 listens. `group` is the same text at
    /// all ranks; connections that name another group are refused.
    pub fn new(address: &str, group: &str, rank: u32, ranks: u32) -> TcpRendezvous {
        TcpRendezvous { address: address.to_string(), group: group.to_string(), rank, ranks }
    }

    fn failed(&self, doing: &str, error: &io::Error) -> Error {
        Error::Rendezvous(format!(
            "rank {} could not {doing} at {}: {error}; \
             start all {} ranks, and pass all of them the address of rank 0",
            self.rank, self.address, self.ranks
        ))
    }

    /// Rank 0: collects the records of all others, and then sends them all of them.
    fn serve(&self, record: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, Error> {
        let listener = TcpListener::bind(&self.address);
        let listener = listener.map_err(|error| self.failed("listen", &error))?;
        listener.set_nonblocking(true).map_err(|error| self.failed("listen", &error))?;
        let mut records: Vec<Option<Vec<u8>>> = vec![None; self.ranks as usize];
        records[0] = Some(record.to_vec());
        let mut streams = Vec::new();
        let mut visitors = Visitors::new();
        while records.iter().any(Option::is_none) {
            let now = Instant::now();
            let mut accepted = 0;
            while accepted < VISITORS_MAX
                && let Ok((stream, _)) = listener.accept()
            {
                accepted += 1;
                if stream.set_nonblocking(true).is_ok() {
                    visitors.add(now, stream);
                }
            }
            for (Greeting { rank, record }, stream) in
                visitors.poll_greetings(now, self.group.as_bytes())
            {
                // A number that no rank has, or that another connection had first, is a stranger's.
                if let Some(place @ None) = records.get_mut(rank as usize) {
                    *place = Some(record);
                    streams.push(stream);
                }
            }
            if now > deadline && records.iter().any(Option::is_none) {
                return Err(self.missing(&records));
            }
            if accepted == 0 {
                std::thread::sleep(if visitors.is_empty() { RETRY } else { STEP });
            }
        }
        let records: Vec<_> = records.into_iter().flatten().collect();
        let sent = answer(streams, &records, deadline);
        sent.map_err(|error| self.failed("answer a rank", &error))?;
        Ok(records)
    }

    fn missing(&self, records: &[Option<Vec<u8>>]) -> Error {
        let missing = (0..self.ranks).filter(|rank| records[*rank as usize].is_none());
        let missing: Vec<_> = missing.map(|rank| rank.to_string()).collect();
        Error::Rendezvous(format!(
            "ranks {} of {} did not come to {} in time: start them with this address",
            missing.join(", "),
            self.ranks,
            self.address
        ))
    }

    /// Another rank: sends its record to rank 0, and waits for those of all.
    fn ask(&self, record: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, Error> {
        loop {
            let is_last = Instant::now() >= deadline;
            match self.try_ask(record, deadline) {
                Ok(records) => return Ok(records),
                Err(error) if is_last => return Err(self.failed("find rank 0", &error)),
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    fn try_ask(&self, record: &[u8], deadline: Instant) -> io::Result<Vec<Vec<u8>>> {
        let mut addresses = self.address.to_socket_addrs()?;
        let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let address = addresses.next().ok_or_else(none)?;
        let left = deadline.saturating_duration_since(Instant::now());
        let stream = TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1)))?;
        // Rank 0 answers when all ranks have come.
        let mut stream = Timed { stream, deadline };
        stream.write_all(&greet(self.group.as_bytes(), self.rank, record))?;
        (0..self.ranks).map(|_| read_record(&mut stream)).collect()
    }
}

/// A connection that ends at a time, however slowly bytes arrive or leave.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Timed {
    /// Returns the time left.
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(room)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Rendezvous for TcpRendezvous {
    fn exchange(&mut self, record: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        let deadline = deadline(timeout);
        match self.rank {
            0 => self.serve(record, deadline),
            _ => self.ask(record, deadline),
        }
    }
}

/// The end of a time that begins now; a time without a practical end ends in a year.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    Instant::now() + timeout.min(Duration::from_secs(365 * 24 * 3600))
}

/// Sends all records to all ranks at once, so that no rank delays the others.
fn answer(streams: Vec<TcpStream>, records: &[Vec<u8>], deadline: Instant) -> io::Result<()> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| put_record(&mut bytes, record));
    let mut left: Vec<(TcpStream, &[u8])> =
        streams.into_iter().map(|stream| (stream, &bytes[..])).collect();
    loop {
        let now = Instant::now();
        for (stream, rest) in &mut left {
            match stream.write(rest) {
                Ok(length) => *rest = &rest[length..],
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Err(error),
            }
        }
        left.retain(|(_, rest)| !rest.is_empty());
        if left.is_empty() {
            return Ok(());
        }
        if now > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(STEP);
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// What a rank sends to rank 0.
#[derive(Debug, PartialEq, Eq)]
struct Greeting {
    rank: u32,
    record: Vec<u8>,
}

/// The bytes of a [`Greeting`] to a group's rank 0.
fn greet(group: &[u8], rank: u32, record: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    put_record(&mut bytes, group);
    bytes.extend_from_slice(&rank.to_be_bytes());
    put_record(&mut bytes, record);
    bytes
}

/// Parses the bytes of a greeting that have arrived. `None`: more must follow.
///
/// # Errors
/// They are those of a stranger.
fn parse(bytes: &[u8], group: &[u8]) -> io::Result<Option<Greeting>> {
    let begins = bytes.len().min(MAGIC.len());
    if bytes[..begins] != MAGIC[..begins] {
        return Err(io::Error::other("a stranger"));
    }
    let mut rest = &bytes[begins..];
    let mut read = || {
        let theirs = read_record(&mut rest)?;
        if theirs != group {
            return Err(io::Error::other("a rank of another group"));
        }
        let mut rank = [0; 4];
        rest.read_exact(&mut rank)?;
        Ok(Greeting { rank: u32::from_be_bytes(rank), record: read_record(&mut rest)? })
    };
    match read() {
        Ok(greeting) => Ok(Some(greeting)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn put_record(bytes: &mut Vec<u8>, record: &[u8]) {
    bytes.extend_from_slice(&(record.len() as u32).to_be_bytes());
    bytes.extend_from_slice(record);
}

fn read_record(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > RECORD_MAX {
        return Err(io::Error::other("a record is too long"));
    }
    let mut record = vec![0; length as usize];
    stream.read_exact(&mut record)?;
    Ok(record)
}
