//! The slot of a process among those of its host, and datagrams that processes forward to each
//! other.
//!
//! Slots are claimed per provider: a process that opens several has several. A slot is the bound
//! name of an abstract Unix datagram socket, so it belongs to the network namespace, no other
//! process can have it, and it is free again when its process dies. Datagrams that arrive there
//! come from processes of this host, of any user. The kernel reports the sender of each
//! ([`Origin`]), on which depends what it may state.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fairway_ub::wire::Instant;

use self::unsent::Queue;
use super::forwarded::FORWARDED_BYTES_MAX;
use super::{ProviderError, SLOTS, ServiceClaim};

mod origin;
mod unsent;

pub(crate) use self::origin::Origin;

/// A claimed slot.
pub(crate) struct Slot {
    number: u8,
    socket: UnixDatagram,
    /// Datagrams that the receivers' queues did not accept at once.
    unsent: Mutex<Queue>,
    /// Number of unsent datagrams, so that a poll without any costs one load.
    waiting: AtomicUsize,
}

/// The process that receives a forwarded datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The process of this slot.
    Slot(u8),
    /// The process that has claimed this service.
    Service(u64),
}

/// The result of forwarding a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardResult {
    /// The datagram is in the receiver's queue.
    Sent,
    /// The receiver's queue is full; it is sent later.
    Later,
    /// There is no such process.
    NoProcess,
    /// Too many datagrams wait already; this one is dropped, as by a network.
    Full,
}

impl Slot {
    /// Claims the first free slot for which `accept` returns a value, and returns that value with
    /// it.
    pub(crate) fn claim<T>(
        mut accept: impl FnMut(u8) -> Result<Option<T>, ProviderError>,
    ) -> Result<(Slot, T), ProviderError> {
        for number in 0..SLOTS {
            let number = number as u8;
            let socket = match bind(&name(Destination::Slot(number))) {
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

    /// The slot's number.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// The socket that is readable when a datagram was forwarded to this process.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Forwards a datagram to another process of this host. If that process's queue is full, it is
    /// sent again by [`Self::retry`], which is to be called at [`Self::retry_at`].
    pub(crate) fn forward(&self, now: Instant, to: Destination, bytes: &[u8]) -> ForwardResult {
        let mut unsent = self.unsent();
        if !unsent.waits_for(to) {
            let forwarded = self.send(to, bytes);
            if forwarded != ForwardResult::Full {
                return forwarded;
            }
        }
        let forwarded = unsent.push(now, to, bytes);
        self.waiting.store(unsent.len(), Ordering::Release);
        forwarded
    }

    /// Time at which forwarded datagrams are to be sent again, if any wait.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        match self.waiting.load(Ordering::Acquire) {
            0 => None,
            _ => self.unsent().retry_at,
        }
    }

    /// Sends the forwarded datagrams again that are due.
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

    /// Number of forwarded datagrams that waited and were never accepted.
    pub(crate) fn dropped(&self) -> u64 {
        self.unsent().dropped
    }

    fn unsent(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, to: Destination, bytes: &[u8]) -> ForwardResult {
        let sent = SocketAddr::from_abstract_name(name(to))
            .and_then(|address| self.socket.send_to_addr(bytes, &address));
        match sent {
            Ok(_) => ForwardResult::Sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ForwardResult::Full,
            Err(_) => ForwardResult::NoProcess,
        }
    }

    /// Receives a forwarded datagram, if there is one. Returns its length and its sender.
    pub(crate) fn take(&self, buffer: &mut [u8; FORWARDED_BYTES_MAX]) -> Option<(usize, Origin)> {
        origin::receive(&self.socket, buffer).ok()
    }
}

/// A service of the connection manager that no other process of the host can offer until this is
/// dropped. Datagrams for it wait until the service is claimed
/// ([`Provider::claim_service`](crate::Provider::claim_service)).
#[derive(Debug)]
pub struct ServiceReservation(Service);

impl ServiceReservation {
    /// Reserves a service.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Busy`] if a process of this host has reserved or claimed it.
    pub fn new(service: u64) -> Result<ServiceReservation, ProviderError> {
        match bind(&name(Destination::Service(service))) {
            Ok(socket) => Ok(ServiceReservation(Service { socket })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(ProviderError::Busy),
            Err(error) => Err(ProviderError::Io("reserve a service", error)),
        }
    }
}

/// A reserved or claimed service: its name is bound until this is dropped.
#[derive(Debug)]
pub(crate) struct Service {
    socket: UnixDatagram,
}

impl From<ServiceReservation> for Service {
    fn from(reservation: ServiceReservation) -> Service {
        reservation.0
    }
}

impl Service {
    /// The socket that is readable when a datagram was forwarded to this process.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives a forwarded datagram, if there is one. Returns its length and its sender.
    pub(crate) fn take(&self, buffer: &mut [u8; FORWARDED_BYTES_MAX]) -> Option<(usize, Origin)> {
        origin::receive(&self.socket, buffer).ok()
    }
}

/// The application's reference to a service. The provider has only a weak one.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// Kept so that the name stays bound.
    _service: Arc<Service>,
}

impl Claimed {
    pub(crate) fn new(service: Arc<Service>) -> Claimed {
        Claimed { _service: service }
    }
}

impl ServiceClaim for Claimed {}

/// The name of a slot's socket, without the slot's number.
const SLOT_NAME: &str = "fairway-verbs-";

fn name(of: Destination) -> String {
    match of {
        Destination::Slot(number) => format!("{SLOT_NAME}{number}"),
        Destination::Service(number) => format!("fairway-verbs-service-{number:x}"),
    }
}

fn bind(name: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    socket.set_nonblocking(true)?;
    origin::request(socket.as_raw_fd())?;
    Ok(socket)
}
