//! A NIC as the verbs see it, whatever carries them.
//!
//! **What it is.** [`Provider`] is what `front/verbs` (libibverbs) asks of a NIC: memory regions,
//! completion queues, queue pairs, receives, management datagrams. Its words are those of
//! [`roce`](fairway_roce). There are two: real RoCEv2 packets on UDP port 4791, and
//! queue pairs mapped onto Jetties over shared TP channels. A program can't tell them apart.
//!
//! **Numbers.** Many processes of a host share its addresses. Each claims a *slot* (0 to 255) when
//! it opens a provider (another for each), and the upper 8 bits of its queue pairs' numbers are
//! that slot ([`slot_of`]). So address and queue pair number of a peer say which process it is: on
//! the same host, RoCE packets go to the UDP port [`roce_port`]; from elsewhere they come by port
//! 4791, and the process of the host that receives them hands them on. A Fairway provider listens
//! at [`fairway_port()`]. Slots are claimed by an abstract Unix socket, so they belong to the
//! network namespace and are free again when a process dies.
//!
//! **May import:** `fairway-runtime`, `fairway-roce`, `fairway-engine` (and through it `wire` and
//! `policy`), `fairway-device`, `fairway-port`, `fairway` (by its module `embed`),
//! `crc32fast`, `libc`.
//!
//! **Invariants.** No protocol decision is made here. When a call that takes memory away has
//! returned, nothing touches that memory any more. A program's listeners are called without a lock.
//!
//! **How to test:** `cargo test -p fairway-rdma` (providers of one process, of several, and packets
//! on a virtual wire); `cargo test -p fairway-verbs` for the library above.
#![warn(unsafe_op_in_unsafe_fn)]

mod addresses;
mod fairway;
mod forwarded;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod management;
mod roce;
mod slot;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use fairway_engine::wire::Qpn;
use fairway_engine::{CompletionQueueId, Rights, SegmentId};
use fairway_roce::{
    Change, ChangeError, Completion, Counters, Event, MemoryRegion, MemoryRequest, PostError,
    QueuePairConfig, QueuePairState, ReceiveQueueId, ReceiveRequest, WorkRequest,
};

pub mod devices;

/// UDP port of RoCEv2 (InfiniBand Architecture, annex A17).
pub const ROCE_PORT: u16 = 4791;

/// Processes of a host that can have queue pairs at once.
pub const SLOTS: u32 = 256;

/// Addresses of a device at most: each takes two sockets.
pub const DEVICE_ADDRESSES: usize = 32;

/// Bits of a queue pair's number below those of the slot.
pub const LOCAL_BITS: u32 = 16;

/// Which process of its host a queue pair belongs to.
pub const fn slot_of(number: Qpn) -> u8 {
    (number.value() >> LOCAL_BITS) as u8
}

/// How long a thread that ends the process waits for the lock of a provider: the thread that has it
/// may have been interrupted, and never release it.
pub const LEAVING: Duration = Duration::from_millis(10);

/// Where the process of this slot takes RoCE packets from processes of the same address.
pub const fn roce_port(slot: u8) -> u16 {
    24_576 + slot as u16
}

/// Where the process of this slot listens for Fairway peers, if its verbs go that way.
pub const fn fairway_port(slot: u8) -> u16 {
    24_832 + slot as u16
}

/// An address as verbs have it: 16 bytes in network order, an IPv4 one mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Gid {
        match address {
            IpAddr::V4(address) => Gid(address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => Gid(address.octets()),
        }
    }
}

impl Gid {
    /// The IP address.
    pub fn ip(self) -> IpAddr {
        let address = Ipv6Addr::from(self.0);
        address.to_ipv4_mapped().map_or(IpAddr::V6(address), |v4: Ipv4Addr| IpAddr::V4(v4))
    }
}

/// Memory of the application, by address. It is never lent out as a Rust reference.
#[derive(Clone, Copy, Debug)]
pub struct ForeignMemory {
    start: *mut u8,
    length: usize,
}

// SAFETY: an address and a length; what is there is shared by nature, and only copied to and from
// as memory that others may write at the same time.
unsafe impl Send for ForeignMemory {}
// SAFETY: likewise.
unsafe impl Sync for ForeignMemory {}

impl ForeignMemory {
    /// Names `length` bytes from `start`.
    ///
    /// # Safety
    ///
    /// While it is registered the bytes are the caller's (readable; writable too, if local or
    /// remote writing was granted), and there are no Rust references to them but as atomics. They
    /// may be unmapped before, if nothing else is mapped there instead: operations on them fail
    /// then.
    pub unsafe fn new(start: *mut u8, length: usize) -> ForeignMemory {
        fairway_runtime::survive_missing_memory();
        ForeignMemory { start, length }
    }

    /// Its first byte.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// The Q_Key of management datagrams (InfiniBand Architecture, 3.5.3).
pub const MANAGEMENT_Q_KEY: u32 = 0x8001_0000;

/// What happened to packets before the protocol saw them, or after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Packets that came with a wrong ICRC.
    pub damaged: u64,
    /// Packets that are none of RoCE's, or for no process of this host.
    pub malformed: u64,
    /// Packets and management datagrams for another process, forwarded to it.
    pub forwarded: u64,
    /// Those that it had no room for, or whose process was gone.
    pub not_forwarded: u64,
    /// Packets and management datagrams that another process has forwarded to this one.
    pub forwarded_here: u64,
    /// Packets to addresses that there is no way to.
    pub unroutable: u64,
    /// Packets that the operating system refused to send.
    pub send_errors: u64,
    /// Payloads, words and packets for or from registered memory that the program has unmapped, or
    /// whose file was truncated.
    pub memory_gone: u64,
    /// Turns of the background thread.
    pub background_polls: u64,
}

/// Why something could not be made, changed or removed. Nothing has happened.
#[derive(Debug)]
pub enum ProviderError {
    /// There is no such object.
    Missing,
    /// Others still use it.
    Busy,
    /// All of this kind, which the provider has only so many of, are taken.
    Limit(&'static str),
    /// The parameter of this name is out of range.
    Parameter(&'static str),
    /// There is no way to this address.
    Unreachable(IpAddr),
    /// This provider does not offer it.
    Unsupported(&'static str),
    /// The operating system refused; what was tried is said.
    Io(&'static str, std::io::Error),
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProviderError::Missing => write!(f, "there is no such object"),
            ProviderError::Busy => write!(f, "others still use it"),
            ProviderError::Limit(name) => write!(f, "all {name} are taken"),
            ProviderError::Parameter(name) => write!(f, "{name} is out of range"),
            ProviderError::Unreachable(address) => write!(f, "there is no way to {address}"),
            ProviderError::Unsupported(name) => write!(f, "this provider does not offer {name}"),
            ProviderError::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for ProviderError {}

/// A management datagram (a MAD to queue pair 1, as connection managers exchange).
#[derive(Clone, Copy, Debug)]
pub struct Management<'a> {
    /// The network address it is from, as [`Provider::resolve`] numbers them.
    pub source: u64,
    /// The same as an address.
    pub from: IpAddr,
    /// Its bytes: 256.
    pub bytes: &'a [u8],
    /// False if it was to be handed on as [`Routed`] said, and no such process was there: then
    /// this process refuses it.
    pub deliverable: bool,
}

/// Whose a management datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed {
    /// It was for this process, or for no process of this host.
    Here,
    /// The process of this slot.
    Slot(u8),
    /// The process that has claimed this service ([`Provider::claim_service`]).
    Service(u64),
}

/// Receives the events of a provider. Called by the thread that drives the provider, without any
/// lock of the provider, so that the provider may be called from within; must not block.
pub trait Listener: Send + Sync {
    /// A completion came to a queue that was armed ([`Provider::arm`]); it no longer is.
    fn completion(&self, queue: CompletionQueueId);
    /// Something happened that no operation asked for.
    fn event(&self, event: Event);
    /// A management datagram came.
    fn management(&self, datagram: &Management<'_>) -> Routed;
}

/// A service of the connection manager that this process offers, until it is dropped.
pub trait ServiceClaim: Send + Sync {}

/// A NIC as the verbs see it. It makes progress by itself, also while the program does not call it.
pub trait Provider: Send + Sync {
    /// `roce` or `fairway`.
    fn name(&self) -> &'static str;

    /// Its addresses, the IPv4 one first.
    fn gids(&self) -> &[Gid];

    /// Payload bytes of a packet, at most: 256, 512, 1024, 2048 or 4096.
    fn mtu(&self) -> u32;

    /// The slot of this process.
    fn slot(&self) -> u8;

    /// What was counted so far, as far as it applies.
    fn counters(&self) -> Counters;

    /// What was counted of the network below, as far as it applies.
    fn network_counters(&self) -> NetworkCounters {
        NetworkCounters::default()
    }

    // ---- memory ----

    /// Registers memory. Its key is new: one of an earlier registration opens nothing. L_Key and
    /// R_Key are the same number.
    fn register(
        &self,
        memory: ForeignMemory,
        request: &MemoryRequest,
    ) -> Result<MemoryRegion, ProviderError>;

    /// Changes the protection domain of memory, and what peers may do with it. The key stays. What
    /// peers have under way and may not do any more is refused.
    fn change_memory(
        &self,
        segment: SegmentId,
        rights: Rights,
        domain: u32,
    ) -> Result<(), ProviderError>;

    /// Refuses every access from now on, and returns when no operation uses the memory any more.
    fn deregister(&self, segment: SegmentId) -> Result<(), ProviderError>;

    // ---- completion queues ----

    /// Makes a completion queue for `depth` completions. More than that many unpolled ones are an
    /// overrun: reported as an event, and an error for the queue pairs that use it.
    fn create_completion_queue(&self, depth: u32) -> Result<CompletionQueueId, ProviderError>;

    /// Changes how many completions it is for.
    fn resize_completion_queue(
        &self,
        queue: CompletionQueueId,
        depth: u32,
    ) -> Result<(), ProviderError>;

    /// Removes a completion queue that no queue pair uses.
    fn destroy_completion_queue(&self, queue: CompletionQueueId) -> Result<(), ProviderError>;

    /// Takes completions, the oldest first, and lets the provider make progress. How many.
    fn poll(&self, queue: CompletionQueueId, out: &mut [Completion]) -> usize;

    /// Completions of a queue pair wait to be polled. False once it is destroyed.
    fn has_completions(&self, number: Qpn) -> bool;

    /// The next completion that is added is to be told to the listener; if `solicited_only`, the
    /// next that is solicited, or an error.
    fn arm(&self, queue: CompletionQueueId, solicited_only: bool) -> Result<(), ProviderError>;

    // ---- queue pairs ----

    /// Makes a shared receive queue.
    fn create_receive_queue(
        &self,
        domain: u32,
        depth: u32,
    ) -> Result<ReceiveQueueId, ProviderError>;

    /// An event is to be raised, once, when fewer than `limit` receives are left in it.
    fn limit_receive_queue(&self, queue: ReceiveQueueId, limit: u32) -> Result<(), ProviderError>;

    /// Removes a shared receive queue that no queue pair uses.
    fn destroy_receive_queue(&self, queue: ReceiveQueueId) -> Result<(), ProviderError>;

    /// Makes a queue pair, in the state Reset.
    fn create_queue_pair(&self, config: &QueuePairConfig) -> Result<Qpn, ProviderError>;

    /// Removes a queue pair. What is posted is forgotten; when this returns, none of its memory is
    /// touched any more.
    fn destroy_queue_pair(&self, number: Qpn) -> Result<(), ProviderError>;

    /// Takes a step in the life of a queue pair.
    fn modify(&self, number: Qpn, change: &Change) -> Result<(), ChangeError>;

    /// Where in its life a queue pair is.
    fn state(&self, number: Qpn) -> Option<QueuePairState>;

    /// This provider's number for a network address.
    fn resolve(&self, gid: Gid) -> Result<u64, ProviderError>;

    /// The network address of a number.
    fn gid_of(&self, address: u64) -> Option<Gid>;

    /// The address of this device that packets to another host are sent from. `None` for an address
    /// of this host.
    fn leaves_from(&self, address: u64) -> Option<Gid>;

    // ---- data path ----

    /// Posts sends, in order. How many were taken, and what was wrong with the next.
    fn post_send(&self, number: Qpn, requests: &[WorkRequest]) -> (usize, Option<PostError>);

    /// Posts receives to a queue pair's own queue, likewise.
    fn post_receive(&self, number: Qpn, requests: &[ReceiveRequest]) -> (usize, Option<PostError>);

    /// Posts receives to a shared queue, likewise.
    fn post_shared_receive(
        &self,
        queue: ReceiveQueueId,
        requests: &[ReceiveRequest],
    ) -> (usize, Option<PostError>);

    /// Connections to other processes that all queue pairs share, if it has any.
    fn channels(&self) -> Option<usize> {
        None
    }

    /// Sends acknowledgements that wait for something to leave with, because the process is about
    /// to end. Without effect if another thread keeps this provider's lock for longer than
    /// [`LEAVING`].
    fn acknowledge(&self);

    // ---- management ----

    /// Sends a management datagram (256 bytes) to queue pair 1 at an address.
    fn send_management(&self, to: u64, bytes: &[u8; 256]) -> Result<(), ProviderError>;

    /// From now on, management datagrams for this service come to this process.
    fn claim_service(&self, service: u64) -> Result<Box<dyn ServiceClaim>, ProviderError>;
}

/// Which protocol carries the verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProviderKind {
    /// RoCEv2.
    #[default]
    Roce,
    /// Jetties over shared TP channels.
    Fairway,
}

/// How a provider is made.
#[derive(Clone, Debug)]
pub struct ProviderOptions {
    /// The addresses of its device, at least one.
    pub addresses: Vec<IpAddr>,
    /// Payload bytes of a packet: 256, 512, 1024, 2048 or 4096.
    pub mtu: u32,
    /// Let the kernel cut runs of packets. (A capture on a virtual interface shows them uncut.)
    pub segmentation: bool,
    /// A network worse than the one at hand, and the seed of its chances.
    pub emulate: Option<(fairway_port::Spec, u64)>,
    /// RoCE: take packets out of order, and resend only what is missing.
    pub out_of_order: bool,
    /// RoCE: DCQCN paces every queue pair.
    pub dcqcn: bool,
    /// Fairway: the policy by name (`docs/policies.md`); `None` for the default.
    pub policy: Option<String>,
    /// Fairway: paths of a channel; `None` for the default.
    pub paths: Option<u32>,
}

impl ProviderOptions {
    /// The defaults, for a device with these addresses.
    pub fn new(addresses: Vec<IpAddr>, mtu: u32) -> ProviderOptions {
        ProviderOptions {
            addresses,
            mtu,
            segmentation: true,
            emulate: None,
            out_of_order: false,
            dcqcn: false,
            policy: None,
            paths: None,
        }
    }
}

/// Makes a provider.
pub fn open(
    kind: ProviderKind,
    options: &ProviderOptions,
    listener: std::sync::Arc<dyn Listener>,
) -> Result<std::sync::Arc<dyn Provider>, ProviderError> {
    match kind {
        ProviderKind::Roce => Ok(roce::open(options, listener)?),
        ProviderKind::Fairway => fairway::open(options, listener),
    }
}

/// A random number.
fn random() -> Result<u64, ProviderError> {
    fairway_runtime::clock::random()
        .map_err(|error| ProviderError::Io("draw random bytes", error.source))
}
