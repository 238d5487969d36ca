//! A process of this host to which packets go through memory.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use fairway_port::{Address, Arrival, Doorbell, ReceiveBuffer, Train, Watched};

use super::attach::{self, Received};
use super::ring::{Broken, FILE_BYTES, Head, Pushed, Reader, Writer};
use crate::memory::{Memory, file_limit};

/// Time for which a full ring whose reader does not move delays packets, in nanoseconds. After that
/// they are dropped, as a network would, so that a stopped process delays no packets to others.
const PATIENCE_NS: u64 = 100_000_000;

/// The two ends of a link's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The side that has made the file writes to its first ring.
    Connecting,
    /// The other side.
    Accepting,
}

/// A process of this host to which packets go through memory.
pub(super) struct Link {
    /// Its end shows that the other process has ended or left.
    stream: Watched<UnixStream>,
    /// Readable once the other process has ended, even if a child of it keeps the stream open.
    process: Option<Watched<OwnedFd>>,
    writer: Writer,
    reader: Reader,
    /// Wakes the other process.
    bell: Doorbell,
    /// Addresses of the own sockets, by index, as the other side sees them.
    own: Vec<Option<Address>>,
    /// While the ring is full: what its reader had read when it filled, and the time.
    full_since: Option<(u64, u64)>,
    /// True once the other process has ended or left, or has broken the rules of the ring.
    has_ended: bool,
    /// True once the other process has broken the rules of the ring. Nothing more is read.
    is_broken: bool,
}

/// The result of an attempt to send through memory.
pub(super) enum Put {
    /// The packets are in the ring.
    Done,
    /// The ring is full, and its reader works.
    Blocked,
    /// The packets were dropped, because the reader does not work.
    Dropped,
    /// Memory of a payload has been unmapped.
    Gone,
    /// The packets have to go through the sockets: the other side does not know this socket, or has
    /// broken the rules of the ring.
    Impossible,
}

impl Link {
    pub(super) fn new(
        (stream, process): (Watched<UnixStream>, Option<Watched<OwnedFd>>),
        memory: &Arc<Memory>,
        end: End,
        bell: Doorbell,
        own: Vec<Option<Address>>,
        local: Option<IpAddr>,
    ) -> Link {
        let accepts = end == End::Accepting;
        let mut reader = Reader::new(memory, !accepts);
        reader.set_local(local);
        Link {
            stream,
            process,
            writer: Writer::new(memory, accepts),
            reader,
            bell,
            own,
            full_since: None,
            has_ended: false,
            is_broken: false,
        }
    }

    /// Checks whether the other process has ended or left.
    pub(super) fn check(&mut self) {
        let is_dead = self.process.as_ref().is_some_and(|process| is_readable(process));
        if is_dead || !matches!(attach::receive(&self.stream), Received::Nothing) {
            self.has_ended = true;
        }
    }

    /// True once the other process has ended or left, or has broken the rules of the ring. What it
    /// has written is still read, unless the rules are broken.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Writes a train from the own socket number `from` to the other side's socket number `to`.
    pub(super) fn put(&mut self, now_ns: u64, from: usize, to: usize, train: &Train) -> Put {
        let Some(Some(address)) = self.own.get(from) else { return Put::Impossible };
        match self.writer.push(to, address, train) {
            Pushed::Yes { wakes } => {
                self.full_since = None;
                if wakes {
                    self.bell.ring();
                }
                Put::Done
            }
            Pushed::Full => self.wait_or_drop(now_ns),
            Pushed::Gone => Put::Gone,
            Pushed::Broken => {
                self.give_up();
                Put::Impossible
            }
        }
    }

    fn wait_or_drop(&mut self, now_ns: u64) -> Put {
        let read = self.writer.read();
        let (before, since) = *self.full_since.get_or_insert((read, now_ns));
        if before != read {
            self.full_since = Some((read, now_ns));
            return Put::Blocked;
        }
        match now_ns.saturating_sub(since) < PATIENCE_NS {
            true => Put::Blocked,
            false => Put::Dropped,
        }
    }

    /// Returns the head of the next record, which is for one of `sockets` sockets. `None` if there
    /// is none, or if the link is at its end.
    #[inline]
    pub(super) fn peek(&mut self, sockets: usize) -> Option<Head> {
        if self.is_broken {
            return None;
        }
        match self.reader.peek() {
            Ok(None) => None,
            Ok(Some(head)) if head.socket < sockets => Some(head),
            Ok(Some(_)) | Err(Broken) => {
                self.give_up();
                None
            }
        }
    }

    /// Returns the packets of the next record ([`Reader::pop`]).
    pub(super) fn pop<'b>(&mut self, buffer: &'b mut ReceiveBuffer) -> Option<Arrival<'b>> {
        match self.reader.pop(buffer) {
            Ok(arrival) => Some(arrival),
            Err(Broken) => {
                self.give_up();
                None
            }
        }
    }

    /// Requests to be woken by the next record. Returns true if there is one already.
    pub(super) fn arm(&mut self) -> bool {
        !self.is_broken && self.reader.arm()
    }

    /// Ends the request of [`Link::arm`].
    pub(super) fn disarm(&self) {
        self.reader.disarm();
    }

    /// Ends the link, because the other process has broken the rules of the ring.
    #[cold]
    fn give_up(&mut self) {
        (self.has_ended, self.is_broken) = (true, true);
    }
}

#[cfg(test)]
impl Link {
    /// The connection, and the process at its other end.
    pub(super) fn files(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        let process = self.process.iter().map(|process| process.as_fd());
        std::iter::once(self.stream.as_fd()).chain(process)
    }
}

fn is_readable(file: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

/// Checks that this process may have the file of a link.
pub(super) fn check_file_limit() -> io::Result<()> {
    file_limit::check(FILE_BYTES as u64)
}

/// Makes the file of a link. Returns it mapped.
pub(super) fn make_file() -> io::Result<Arc<Memory>> {
    Memory::shared(FILE_BYTES).map(Arc::new).map_err(io::Error::other)
}

/// Maps the file of a link that another process has made. `None`: it is no such file, or could be
/// truncated.
pub(super) fn map_file(file: OwnedFd) -> Option<Arc<Memory>> {
    let file = File::from(file);
    let memory = Memory::has_fixed_length(&file).then(|| Memory::map_file(&file, true).ok())??;
    (memory.len() >= FILE_BYTES).then(|| Arc::new(memory))
}
