//! Which process of its host this is, and what processes of one host hand each other.
//!
//! Slots are claimed per provider: a process that opens several has several. A slot is the bound
//! name of an abstract Unix datagram socket, so it belongs to the network namespace, no other
//! process can have it, and it is free again when its process dies. What arrives there comes from
//! processes of this host, of any user, and is checked as strictly as what comes from the network.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fairway_engine::wire::Instant;

use self::unsent::Queue;
use super::forwarded::FORWARDED_BYTES_MAX;
use super::{ProviderError, SLOTS, ServiceClaim};

mod unsent;

/// A claimed slot.
pub(crate) struct Slot {
    number: u8,
    socket: UnixDatagram,
    /// What addressees did not take at once.
    unsent: Mutex<Queue>,
    /// How many forwarded datagrams that are, so that a turn without any costs one look.
    waiting: AtomicUsize,
}

/// The receiver of something that is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressee {
    /// The process of this slot.
    Slot(u8),
    /// The process that has claimed this service.
    Service(u64),
}

/// What became of what was handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handed {
    /// It is in the addressee's queue.
    Over,
    /// That queue is full at the moment: it is tried again.
    Later,
    /// No process is there.
    Nobody,
    /// Too much waits already: dropped, as a network would.
    Full,
}

impl Slot {
    /// Claims the first free slot for which `accept` holds too; what it gives is given back.
    pub(crate) fn claim<T>(
        mut accept: impl FnMut(u8) -> Result<Option<T>, ProviderError>,
    ) -> Result<(Slot, T), ProviderError> {
        for number in 0..SLOTS {
            let number = number as u8;
            let socket = match bind(&name(Addressee::Slot(number))) {
                Ok(socket) => socket,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
                Err(error) => return Err(ProviderError::Io("claim a slot", error)),
            };
            if let Some(with) = accept(number)? {
                let (unsent, waiting) = (Mutex::default(), AtomicUsize::new(0));
                return Ok((Slot { number, socket, unsent, waiting }, with));
            }
        }
        Err(ProviderError::Limit("slots of this host"))
    }

    /// Its number.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// What is readable when something was handed over.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Hands something to another process of this host. What its queue does not take now is tried
    /// again, if [`Self::retry`] is called at [`Self::retry_at`].
    pub(crate) fn hand(&self, now: Instant, to: Addressee, bytes: &[u8]) -> Handed {
        let mut unsent = self.unsent();
        if !unsent.waits_for(to) {
            let handed = self.send(to, bytes);
            if handed != Handed::Full {
                return handed;
            }
        }
        let handed = unsent.push(now, to, bytes);
        self.waiting.store(unsent.len(), Ordering::Release);
        handed
    }

    /// When forwarded datagrams are to be tried again, if any wait.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        match self.waiting.load(Ordering::Acquire) {
            0 => None,
            _ => self.unsent().retry_at,
        }
    }

    /// Tries forwarded datagrams again that it is time for.
    pub(crate) fn retry(&self, now: Instant) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut unsent = self.unsent();
        if unsent.retry_at.is_some_and(|at| now.is_at_or_after(at)) {
            unsent.retry(now, |to, bytes| self.send(to, bytes));
            self.waiting.store(unsent.len(), Ordering::Release);
        }
    }

    /// Forwarded datagrams that waited, and were never taken.
    pub(crate) fn dropped(&self) -> u64 {
        self.unsent().dropped
    }

    fn unsent(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, to: Addressee, bytes: &[u8]) -> Handed {
        let sent = SocketAddr::from_abstract_name(name(to))
            .and_then(|address| self.socket.send_to_addr(bytes, &address));
        match sent {
            Ok(_) => Handed::Over,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Handed::Full,
            Err(_) => Handed::Nobody,
        }
    }

    /// Takes what was handed over, if anything was.
    pub(crate) fn take(&self, buffer: &mut [u8; FORWARDED_BYTES_MAX]) -> Option<usize> {
        self.socket.recv(buffer).ok()
    }
}

/// A claimed service: its name is bound, until this is dropped.
#[derive(Debug)]
pub(crate) struct Service {
    socket: UnixDatagram,
}

impl Service {
    /// Claims it.
    pub(crate) fn claim(service: u64) -> Result<Service, ProviderError> {
        match bind(&name(Addressee::Service(service))) {
            Ok(socket) => Ok(Service { socket }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(ProviderError::Busy),
            Err(error) => Err(ProviderError::Io("claim a service", error)),
        }
    }

    /// What is readable when something was handed over.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes what was handed over, if anything was.
    pub(crate) fn take(&self, buffer: &mut [u8; FORWARDED_BYTES_MAX]) -> Option<usize> {
        self.socket.recv(buffer).ok()
    }
}

/// The application's hold on a service. The provider has only a weak one.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// Held, so that the name stays bound.
    _service: Arc<Service>,
}

impl Claimed {
    pub(crate) fn new(service: Arc<Service>) -> Claimed {
        Claimed { _service: service }
    }
}

impl ServiceClaim for Claimed {}

fn name(of: Addressee) -> String {
    match of {
        Addressee::Slot(number) => format!("fairway-verbs-{number}"),
        Addressee::Service(number) => format!("fairway-verbs-service-{number:x}"),
    }
}

fn bind(name: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
