//! A port with emulated impairments of its paths.

use std::io;

use crate::emulate::shaper::{Shaper, ShaperCounters};
use crate::emulate::spec::Spec;
use crate::udp::{Address, Arrival, ReceiveBuffer, Sent, Train, UdpPort, Waiter};

/// Index by which waiters report descriptors of a datapath that are not sockets.
pub const ATTEND: usize = 1 << 20;

/// The interface of a port, whether its paths are impaired or not.
///
/// Times are in nanoseconds, on one clock that the owner chooses.
///
/// The default methods forward to the port itself.
pub trait Datapath: Send {
    /// The sockets.
    fn port(&self) -> &UdpPort;

    /// The sockets, mutable, to send and receive.
    fn port_mut(&mut self) -> &mut UdpPort;

    /// Sends `train` from `socket` to `to`, as traffic of path number `path`.
    ///
    /// # Errors
    /// As [`UdpPort::send`].
    #[inline]
    fn transmit(
        &mut self,
        _now_ns: u64,
        _path: usize,
        socket: usize,
        to: &Address,
        train: &Train,
    ) -> io::Result<Sent> {
        self.port_mut().send(socket, to, train)
    }

    /// True if packets of a train to this address may be filled ([`Train::fill_last`]).
    fn may_fill(&self, _to: &Address) -> bool {
        true
    }

    /// As [`UdpPort::receive`].
    ///
    /// # Errors
    /// As [`UdpPort::receive`].
    #[inline]
    fn receive<'b>(
        &mut self,
        socket: usize,
        buffer: &'b mut ReceiveBuffer,
    ) -> io::Result<Option<Arrival<'b>>> {
        self.port_mut().receive(socket, buffer)
    }

    /// Sends the packets that have been delayed until now. Call it at
    /// [`Datapath::next_release_ns`], or whenever convenient: it costs one comparison if nothing is
    /// due.
    ///
    /// # Errors
    /// As [`UdpPort::send`].
    #[inline]
    fn release_due(&mut self, _now_ns: u64) -> io::Result<()> {
        Ok(())
    }

    /// Returns a waiter that watches all descriptors of the datapath: the sockets by their index,
    /// others as [`ATTEND`].
    ///
    /// # Errors
    /// As [`UdpPort::waiter`].
    fn waiter(&self) -> io::Result<Waiter> {
        self.port().waiter()
    }

    /// Deals with the descriptors that a waiter has reported as [`ATTEND`].
    fn attend(&mut self) {}

    /// True if the datapath has descriptors beside the sockets.
    fn has_other_descriptors(&self) -> bool {
        false
    }

    /// Largest packet in bytes that takes the way for which the datapath was chosen; longer ones
    /// take the sockets. `None`: as long as the sockets' interface allows.
    fn packet_max(&self) -> Option<usize> {
        None
    }

    /// Why all packets take the sockets, if another way was requested.
    fn fallback(&self) -> Option<&str> {
        None
    }

    /// Returns the sockets for which packets wait in memory, one bit each; they are received
    /// without a system call. `None`: no memory is shared with a peer now.
    #[inline]
    fn ready(&mut self) -> Option<u64> {
        None
    }

    /// Receives the next arrival for `socket` from memory. Returns `None` if there is none.
    fn receive_ready<'b>(
        &mut self,
        _socket: usize,
        _buffer: &'b mut ReceiveBuffer,
    ) -> Option<Arrival<'b>> {
        None
    }

    /// Requests that a packet in memory make one of the waiters return. Called before a thread
    /// sleeps on one. Returns true if a packet is there already: the thread must not sleep. The
    /// request ends with the next [`Datapath::ready`].
    #[inline]
    fn arm(&mut self) -> bool {
        false
    }

    /// Time at which delayed packets are due, if there are any. The owner must not sleep longer.
    #[inline]
    fn next_release_ns(&self) -> Option<u64> {
        None
    }
}

impl Datapath for UdpPort {
    #[inline]
    fn port(&self) -> &UdpPort {
        self
    }

    #[inline]
    fn port_mut(&mut self) -> &mut UdpPort {
        self
    }
}

/// A port whose packets take the sockets, although another way was requested.
#[derive(Debug)]
pub struct FallenBack {
    port: UdpPort,
    reason: String,
}

impl FallenBack {
    /// Uses the sockets, for this reason.
    pub fn new(port: UdpPort, reason: String) -> FallenBack {
        FallenBack { port, reason }
    }
}

impl Datapath for FallenBack {
    fn port(&self) -> &UdpPort {
        &self.port
    }

    fn port_mut(&mut self) -> &mut UdpPort {
        &mut self.port
    }

    fn fallback(&self) -> Option<&str> {
        Some(&self.reason)
    }
}

/// A port that impairs the packets it sends according to a [`Spec`]. Received packets are not
/// impaired: wrap both ends to impair both directions.
#[derive(Debug)]
pub struct Impaired {
    port: UdpPort,
    shaper: Shaper,
}

impl Impaired {
    /// Impairs the packets that `port` sends. The times of blackholes count from `start_ns`.
    pub fn new(port: UdpPort, spec: &Spec, seed: u64, start_ns: u64) -> Self {
        Impaired { port, shaper: Shaper::new(spec.clone(), seed, start_ns, 1) }
    }

    /// Counters of the paths.
    pub fn counters(&self) -> ShaperCounters {
        self.shaper.counters()
    }
}

impl Datapath for Impaired {
    fn port(&self) -> &UdpPort {
        &self.port
    }

    fn port_mut(&mut self) -> &mut UdpPort {
        &mut self.port
    }

    /// Never blocked, unless the path is clean: packets for which the kernel has no room are stored
    /// here.
    fn transmit(
        &mut self,
        now_ns: u64,
        path: usize,
        socket: usize,
        to: &Address,
        train: &Train,
    ) -> io::Result<Sent> {
        self.shaper.send(now_ns, path, &mut self.port, (socket, to), train)
    }

    fn release_due(&mut self, now_ns: u64) -> io::Result<()> {
        self.shaper.release_due(now_ns, &mut self.port)
    }

    fn next_release_ns(&self) -> Option<u64> {
        self.shaper.next_release_ns()
    }
}
