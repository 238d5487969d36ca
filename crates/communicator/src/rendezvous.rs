//! How the ranks of a group find each other.

use crate::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// First bytes of a connection to rank 0.
const MAGIC: [u8; 4] = *b"FWR\x01";
/// Maximum length of a record and of a group's name, in bytes.
const RECORD_MAX: u32 = 4096;
/// Time after which a connection that sends nothing is closed.
const IDLE: Duration = Duration::from_secs(5);
/// Time between two attempts to reach rank 0.
const RETRY: Duration = Duration::from_millis(20);

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
        while records.iter().any(Option::is_none) {
            if let Ok((stream, _)) = listener.accept() {
                if let Ok((rank, record)) = self.receive(&stream)
                    && records[rank as usize].is_none()
                {
                    records[rank as usize] = Some(record);
                    streams.push(stream);
                }
            } else if Instant::now() > deadline {
                let missing: Vec<_> = (0..self.ranks)
                    .filter(|rank| records[*rank as usize].is_none())
                    .map(|rank| rank.to_string())
                    .collect();
                return Err(Error::Rendezvous(format!(
                    "ranks {} of {} did not come to {} in time: start them with this address",
                    missing.join(", "),
                    self.ranks,
                    self.address
                )));
            } else {
                std::thread::sleep(RETRY);
            }
        }
        let records: Vec<_> = records.into_iter().flatten().collect();
        for mut stream in streams {
            let all = records.iter().try_for_each(|record| write_record(&mut stream, record));
            all.map_err(|error| self.failed("answer a rank", &error))?;
        }
        Ok(records)
    }

    /// Reads the record of a rank. Strangers are refused.
    fn receive(&self, stream: &TcpStream) -> io::Result<(u32, Vec<u8>)> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(IDLE))?;
        stream.set_write_timeout(Some(IDLE))?;
        let mut stream = stream;
        let mut magic = [0; 4];
        stream.read_exact(&mut magic)?;
        if magic != MAGIC || read_record(&mut stream)? != self.group.as_bytes() {
            return Err(io::Error::other("a stranger"));
        }
        let mut rank = [0; 4];
        stream.read_exact(&mut rank)?;
        let rank = u32::from_be_bytes(rank);
        let record = read_record(&mut stream)?;
        match (1..self.ranks).contains(&rank) {
            true => Ok((rank, record)),
            false => Err(io::Error::other("no such rank")),
        }
    }

    /// Another rank: sends its record to rank 0, and waits for those of all.
    fn ask(&self, record: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, Error> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.try_ask(record, left) {
                Ok(records) => return Ok(records),
                Err(error) if left.is_zero() => return Err(self.failed("find rank 0", &error)),
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    fn try_ask(&self, record: &[u8], left: Duration) -> io::Result<Vec<Vec<u8>>> {
        let mut addresses = self.address.to_socket_addrs()?;
        let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let address = addresses.next().ok_or_else(none)?;
        let left = left.max(Duration::from_millis(1));
        let mut stream = TcpStream::connect_timeout(&address, left)?;
        // Rank 0 answers when all ranks have come.
        stream.set_read_timeout(Some(left))?;
        stream.write_all(&MAGIC)?;
        write_record(&mut stream, self.group.as_bytes())?;
        stream.write_all(&self.rank.to_be_bytes())?;
        write_record(&mut stream, record)?;
        (0..self.ranks).map(|_| read_record(&mut stream)).collect()
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

fn write_record(stream: &mut impl Write, record: &[u8]) -> io::Result<()> {
    stream.write_all(&(record.len() as u32).to_be_bytes())?;
    stream.write_all(record)
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
