//! The NIC of a device: a context of Fairway, bound to the interface's address.

use std::net::SocketAddr;
use std::sync::{Mutex, Weak};
use std::time::Duration;

use fairway::{Context, Jetty, JettyOptions, Memory, Peer, Rights, Segment, without_signals};

use crate::guard::lock;
use crate::interfaces::Interface;
use crate::limits::QUEUE_DEPTH;
use crate::log;
use crate::settings;
use crate::status::{Failure, Result, Status};

/// Longest wait for senders to close the connections whose receivers have been closed.
const LINGER: Duration = Duration::from_secs(2);
/// Longest wait at the end for peers to acknowledge the farewell.
const FAREWELL: Duration = Duration::from_secs(1);

/// One end of a connection, as its NIC sees it.
pub(crate) trait End: Send + Sync {
    /// Ends the connection if open requests use the memory of this number.
    fn abandon_memory(&self, number: u64);
}

/// A context, and what outlives single connections.
pub(crate) struct Nic {
    context: Context,
    /// Memory for operations that move no bytes.
    nothing: Segment,
    /// Connections whose receivers have been closed here. The sender closes them, because it knows
    /// when all of its data has been acknowledged.
    lingering: Mutex<Vec<Peer>>,
    ends: Mutex<Vec<Weak<dyn End>>>,
}

impl Nic {
    pub(crate) fn open(interface: &Interface) -> Result<Nic> {
        let builder = settings::builder()?.bind(interface.address);
        let context = without_signals(|| builder.build())?;
        if let Some(shortage) = context.socket_shortage() {
            log::warn(&shortage.to_string());
        }
        let nothing = context.register(Memory::zeroed(64)?, Rights::WRITE)?;
        let name = interface.name.to_string_lossy();
        log::info(&format!("opened {name}: {}", interface.address));
        let (lingering, ends) = (Mutex::default(), Mutex::default());
        Ok(Nic { context, nothing, lingering, ends })
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Memory for operations that move no bytes.
    pub(crate) fn nothing(&self) -> &Segment {
        &self.nothing
    }

    /// The address to which peers connect.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        let first = self.context.local_addrs().first().copied();
        first.ok_or_else(|| Failure::new(Status::Internal, "the context has no socket"))
    }

    /// Creates an endpoint to which only peers that know its random token can send.
    pub(crate) fn endpoint(&self) -> Result<(Jetty, u32)> {
        let token = u32::from_ne_bytes(random()?);
        let options = JettyOptions::default().depth(QUEUE_DEPTH).token(token);
        Ok((self.context.create_jetty(options)?, token))
    }

    /// Registers `length` bytes of zeros that peers cannot access.
    pub(crate) fn scratch(&self, length: usize) -> Result<Segment> {
        Ok(self.context.register(Memory::zeroed(length)?, Rights::NONE)?)
    }

    /// Adds an end of a connection.
    pub(crate) fn add_end(&self, end: Weak<dyn End>) {
        let mut ends = lock(&self.ends);
        ends.retain(|end| end.strong_count() > 0);
        ends.push(end);
    }

    /// Ends connections whose open requests use the memory of this number.
    pub(crate) fn abandon_memory(&self, number: u64) {
        let ends = lock(&self.ends).clone();
        for end in ends.iter().filter_map(Weak::upgrade) {
            end.abandon_memory(number);
        }
    }

    /// Keeps a connection open until its sender closes it.
    pub(crate) fn linger(&self, peer: Peer) {
        lock(&self.lingering).push(peer);
    }

    /// Forgets lingering connections that have been closed.
    pub(crate) fn forget_closed(&self) {
        lock(&self.lingering).retain(Peer::is_alive);
    }

    /// Closes everything. No thread of the context is left afterwards.
    pub(crate) fn end(&self) {
        let lingering = std::mem::take(&mut *lock(&self.lingering));
        let all_closed = || lingering.iter().all(|peer| !peer.is_alive());
        if self.context.wait_until(all_closed, LINGER).is_err() {
            log::info("closed connections that their senders have left open");
        }
        let counters = self.context.counters().engine;
        let (sent, resent) = (counters.data_sent, counters.data_resent);
        log::info(&format!("closed: {sent} data packets, {resent} retransmissions"));
        // Peers that do not answer are not notified again; all connections are closed anyway.
        let _ = self.context.shutdown(FAREWELL);
    }
}

/// Returns random bytes from the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: room for N bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if got == N as isize {
        return Ok(bytes);
    }
    let error = std::io::Error::last_os_error();
    Err(Failure::new(Status::System, format!("get random bytes: {error}")))
}
