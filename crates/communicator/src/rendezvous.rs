//! How the ranks of a group find each other.

mod address;
mod roll;
mod visitors;

use crate::error::Error;
pub use address::address_towards;
use roll::Roll;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use visitors::{VISITORS_MAX, Visitors};

/// First bytes of a connection to rank 0.
const MAGIC: [u8; 4] = *b"FWR\x02";
/// First bytes of an answer to a rank that was started with another number of ranks, in the place
/// of a record's length. The number of rank 0 follows.
const REFUSAL: [u8; 4] = [0xFF; 4];
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
        let listener = address::listen(&self.address);
        let listener = listener.map_err(|error| self.failed("listen", &error))?;
        listener.set_nonblocking(true).map_err(|error| self.failed("listen", &error))?;
        let mut roll = Roll::new(self.ranks, record);
        let mut visitors = Visitors::new();
        let mut other = None;
        while !roll.is_complete() {
            let now = Instant::now();
            let accepted = accept(&listener, &mut visitors, now);
            let greetings = visitors.poll_greetings(now, self.group.as_bytes());
            // A rank that has ended meanwhile may come again.
            roll.drop_closed();
            for (greeting, mut stream) in greetings {
                if greeting.ranks == self.ranks {
                    roll.add(greeting, stream);
                } else {
                    // The connection is new, so its buffer has room.
                    let _ = stream.write_all(&refuse(self.ranks));
                    other = Some(greeting);
                }
            }
            if now > deadline && !roll.is_complete() {
                return Err(self.missing(&roll.missing(), other));
            }
            if accepted == 0 {
                std::thread::sleep(if visitors.is_empty() { RETRY } else { STEP });
            }
        }
        let (records, streams) = roll.finish();
        match answer(streams, &records, deadline) {
            Ok(()) => Ok(records),
            Err((rank, error)) => Err(Error::Rendezvous(format!(
                "rank {rank} of {} has gone before it learnt of the others: {error}; \
                 start all ranks again",
                self.ranks
            ))),
        }
    }

    /// The error of rank 0 if ranks are missing; `other` came from a group of another size.
    fn missing(&self, missing: &[u32], other: Option<Greeting>) -> Error {
        let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
        let remedy = match other {
            None => String::from("start them with this address"),
            Some(Greeting { rank, ranks, .. }) => format!(
                "rank {rank} came, but was started as one of {ranks} ranks; start all ranks with \
                 the same number of ranks"
            ),
        };
        Error::Rendezvous(format!(
            "ranks {} of {} did not come to {} in time: {remedy}",
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
                Ok(Asked::Records(records)) => return Ok(records),
                Ok(Asked::Refused(ranks)) => {
                    return Err(Error::Rendezvous(format!(
                        "rank {} was started as one of {} ranks, but rank 0 at {} as one of \
                         {ranks}; start all ranks with the same number of ranks",
                        self.rank, self.ranks, self.address
                    )));
                }
                Err(error) if is_last => return Err(self.failed("find rank 0", &error)),
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    /// The address of this host at which the other ranks can reach it: the one from which it
    /// reaches rank 0. Ranks other than 0 wait until rank 0 listens, for at most `timeout`.
    ///
    /// # Errors
    /// Rank 0 was not reached in time, or its name has no address.
    pub fn own_address(&self, timeout: Duration) -> Result<IpAddr, Error> {
        let deadline = deadline(timeout);
        let own = match self.rank {
            0 => address::towards(&self.address),
            _ => loop {
                let is_last = Instant::now() >= deadline;
                // Rank 0 takes a connection without a greeting for a stranger's.
                match self.connect(deadline).and_then(|stream| stream.local_addr()) {
                    Err(_) if !is_last => std::thread::sleep(RETRY),
                    found => break found.map(|address| address.ip()),
                }
            },
        };
        let own = own.map_err(|error| self.failed("find rank 0", &error))?;
        match own.is_loopback() && address::is_shadowed(&self.address) {
            true => address::outside(own),
            false => Ok(own),
        }
    }

    /// Connects to the first address of rank 0 at which it listens.
    fn connect(&self, deadline: Instant) -> io::Result<TcpStream> {
        let addresses: Vec<_> = self.address.to_socket_addrs()?.collect();
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for (at, address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            // An address that does not answer leaves time for the others.
            let share = left / (addresses.len() - at) as u32;
            match TcpStream::connect_timeout(address, share.max(Duration::from_millis(1))) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn try_ask(&self, record: &[u8], deadline: Instant) -> io::Result<Asked> {
        let stream = self.connect(deadline)?;
        // Rank 0 answers when all ranks have come.
        let mut stream = Timed { stream, deadline };
        let own = (self.rank, self.ranks);
        stream.write_all(&greet(self.group.as_bytes(), own, record))?;
        let mut first = [0; 4];
        stream.read_exact(&mut first)?;
        if first == REFUSAL {
            let mut ranks = [0; 4];
            stream.read_exact(&mut ranks)?;
            return Ok(Asked::Refused(u32::from_be_bytes(ranks)));
        }
        let mut answer = first.chain(stream);
        let records: io::Result<_> = (0..self.ranks).map(|_| read_record(&mut answer)).collect();
        records.map(Asked::Records)
    }
}

/// The answer of rank 0.
enum Asked {
    /// The records of all ranks.
    Records(Vec<Vec<u8>>),
    /// The number of ranks with which rank 0 was started, which is another one.
    Refused(u32),
}

/// Accepts connections. Returns their number.
fn accept(listener: &TcpListener, visitors: &mut Visitors<TcpStream>, now: Instant) -> usize {
    let mut accepted = 0;
    while accepted < VISITORS_MAX
        && let Ok((stream, _)) = listener.accept()
    {
        accepted += 1;
        if stream.set_nonblocking(true).is_ok() {
            visitors.add(now, stream);
        }
    }
    accepted
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

/// Sends all records to all ranks at once, so that no rank delays the others. An error names the
/// rank whose connection fails.
fn answer<S: Write>(
    streams: Vec<(u32, S)>,
    records: &[Vec<u8>],
    deadline: Instant,
) -> Result<(), (u32, io::Error)> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| put_record(&mut bytes, record));
    let mut left: Vec<(u32, S, &[u8])> =
        streams.into_iter().map(|(rank, stream)| (rank, stream, &bytes[..])).collect();
    let mut failed = None;
    loop {
        let now = Instant::now();
        left.retain_mut(|(rank, stream, rest)| match stream.write(rest) {
            Ok(length) => {
                *rest = &rest[length..];
                !rest.is_empty()
            }
            Err(error) if is_temporary(&error) => true,
            Err(error) => {
                failed.get_or_insert((*rank, error));
                false
            }
        });
        let Some((rank, ..)) = left.first() else { return failed.map_or(Ok(()), Err) };
        if now > deadline {
            return Err(failed.unwrap_or((*rank, io::ErrorKind::TimedOut.into())));
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
    /// The number of ranks with which it was started.
    ranks: u32,
    record: Vec<u8>,
}

/// The bytes of a [`Greeting`] to a group's rank 0.
fn greet(group: &[u8], (rank, ranks): (u32, u32), record: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    put_record(&mut bytes, group);
    bytes.extend_from_slice(&rank.to_be_bytes());
    bytes.extend_from_slice(&ranks.to_be_bytes());
    put_record(&mut bytes, record);
    bytes
}

/// The answer to a rank that was started with another number of ranks than rank 0.
fn refuse(ranks: u32) -> Vec<u8> {
    [REFUSAL, ranks.to_be_bytes()].concat()
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
        let (mut rank, mut ranks) = ([0; 4], [0; 4]);
        rest.read_exact(&mut rank)?;
        rest.read_exact(&mut ranks)?;
        let (rank, ranks) = (u32::from_be_bytes(rank), u32::from_be_bytes(ranks));
        Ok(Greeting { rank, ranks, record: read_record(&mut rest)? })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_0_names_the_rank_of_a_group_of_another_size() {
        let rendezvous = TcpRendezvous::new("127.0.0.1:4820", "test", 0, 2);
        let greeting = parse(&greet(b"test", (1, 3), b"record"), b"test").expect("a rank");
        assert!(greeting.is_some());
        let error = rendezvous.missing(&[1], greeting).to_string();
        assert!(error.contains("ranks 1 of 2 did not come"), "{error}");
        assert!(error.contains("rank 1 came, but was started as one of 3 ranks"), "{error}");
    }
}
