//! The NIC interface below verbs, independent of the protocol that carries them.
//!
//! **What it is.** [`Provider`] is the interface that `front/verbs` (libibverbs) requires of a NIC:
//! memory regions, completion queues, queue pairs, receives, management datagrams. Its types are
//! those of [`roce`](fairway_roce). There are two implementations: real RoCEv2 packets on UDP port
//! 4791, and queue pairs mapped onto Jetties over shared TP channels. A program cannot distinguish
//! them.
//!
//! **Numbers.** Many processes of a host share its addresses. Each claims a *slot* (0 to 255) when
//! it opens a provider (another one for each provider), and the upper 8 bits of its queue pairs'
//! numbers are that slot ([`slot_of`]). The address and queue pair number of a peer therefore
//! identify its process. Within a host, RoCE packets go to the UDP port [`roce_port`]; from other
//! hosts they arrive at port 4791, and the process that receives them forwards them to the right
//! one. A Fairway provider listens at [`fairway_port()`]. Slots are claimed by an abstract Unix
//! socket, so they belong to the network namespace and are free again when a process dies.
//!
//! **May import:** `fairway-runtime`, `fairway-roce`, `fairway-ub` (and through it `wire` and
//! `policy`), `fairway-device`, `fairway-port`, `fairway` (by its module `embed`),
//! `crc32fast`, `libc`.
//!
//! **Invariants.** No protocol decision is made here. When a call that takes memory away has
//! returned, nothing accesses that memory any more. A program's listeners are called without a
//! lock.
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
mod service_levels;
mod slot;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use ::fairway::{DatapathKind, Dscp, SocketShortage};
use fairway_roce::{
    Change, ChangeError, Completion, Counters, Event, MemoryRegion, MemoryRequest, PostError,
    QueuePairConfig, QueuePairState, ReceiveQueueId, ReceiveRequest, WorkRequest,
};
use fairway_runtime::addresses::with_scope;
use fairway_ub::wire::Qpn;
use fairway_ub::{CompletionQueueId, Rights, SegmentId};

pub mod devices;

pub use fairway_ub::policy::PolicySpec;
pub use service_levels::{ServiceLevels, ServiceLevelsError};
pub use slot::ServiceReservation;

/// UDP port of RoCEv2 (InfiniBand Architecture, annex A17).
pub const ROCE_PORT: u16 = 4791;

/// Maximum number of slots, and so of providers of a host at the same time.
pub const SLOTS: u32 = 256;

/// Maximum number of addresses of a device: each takes two sockets.
pub const DEVICE_ADDRESSES: usize = 32;

/// Number of bits of a queue pair's number below those of the slot.
pub const LOCAL_BITS: u32 = 16;

/// Returns the slot, within its host, of the process to which a queue pair belongs.
pub const fn slot_of(number: Qpn) -> u8 {
    (number.value() >> LOCAL_BITS) as u8
}

/// Time for which a thread that ends the process waits for the lock of a provider. The thread that
/// has the lock may have been interrupted, and may never release it.
pub const LEAVING: Duration = Duration::from_millis(10);

/// UDP port at which the process of this slot receives RoCE packets from processes of the same
/// address.
pub const fn roce_port(slot: u8) -> u16 {
    24_576 + slot as u16
}

/// UDP port at which the process of this slot listens for Fairway peers, if it uses the Fairway
/// provider.
pub const fn fairway_port(slot: u8) -> u16 {
    24_832 + slot as u16
}

/// A verbs address: 16 bytes in network order; an IPv4 address is mapped into IPv6.
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
    /// Returns the IP address.
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

    /// Address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if the memory has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// The Q_Key of management datagrams (InfiniBand Architecture, 3.5.3).
pub const MANAGEMENT_Q_KEY: u32 = 0x8001_0000;

/// Counters of packets before the protocol receives them, or after it has sent them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Packets received with a wrong ICRC.
    pub damaged: u64,
    /// Packets that are not RoCE packets, or are for no process of this host.
    pub malformed: u64,
    /// Packets and management datagrams for another process, forwarded to it.
    pub forwarded: u64,
    /// Packets and datagrams not forwarded because the other process had no room for them, or was
    /// gone.
    pub not_forwarded: u64,
    /// Packets and management datagrams that another process has forwarded to this one.
    pub forwarded_here: u64,
    /// Packets to addresses without a route.
    pub unroutable: u64,
    /// Packets that the operating system refused to send.
    pub send_errors: u64,
    /// Payloads, words and packets that could not be copied to or from registered memory, because
    /// the program has unmapped it or its file was truncated.
    pub memory_gone: u64,
    /// Polls run by the background thread.
    pub background_polls: u64,
}

/// The reason why an object could not be created, changed or removed. The call had no effect.
#[derive(Debug)]
pub enum ProviderError {
    /// There is no such object.
    Missing,
    /// Other objects still use it.
    Busy,
    /// The limit on objects of this kind has been reached.
    Limit(&'static str),
    /// The parameter of this name is out of range.
    Parameter(&'static str),
    /// A setting can't be used. The text names it, its value and what to use instead.
    Setting(String),
    /// There is no route to this address.
    Unreachable(IpAddr),
    /// This provider does not support the feature.
    Unsupported(&'static str),
    /// The operating system refused the named action.
    Io(&'static str, std::io::Error),
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProviderError::Missing => write!(f, "there is no such object"),
            ProviderError::Busy => write!(f, "others still use it"),
            ProviderError::Limit(name) => write!(f, "all {name} are taken"),
            ProviderError::Parameter(name) => write!(f, "{name} is out of range"),
            ProviderError::Setting(text) => f.write_str(text),
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
    /// The sender's network address, as [`Provider::resolve`] numbers it.
    pub source: u64,
    /// The sender's network address.
    pub from: IpAddr,
    /// The 256 bytes of the datagram.
    pub bytes: &'a [u8],
    /// False if the datagram was to be forwarded according to [`Routed`] and no such process
    /// exists: then this process refuses it.
    pub deliverable: bool,
}

/// The process for which a management datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed {
    /// This process, or no process of this host.
    Here,
    /// The process with this slot.
    Slot(u8),
    /// The process that has claimed this service ([`Provider::claim_service`]).
    Service(u64),
}

/// Receives the events of a provider. Methods are called by the thread that drives the provider,
/// without any lock of the provider, so they may call the provider; they must not block.
pub trait Listener: Send + Sync {
    /// Reports a completion in a queue that was armed ([`Provider::arm`]); the queue is not armed
    /// any more.
    fn completion(&self, queue: CompletionQueueId);
    /// Reports an event that no operation caused.
    fn event(&self, event: Event);
    /// Reports a received management datagram. Returns the process that it is for.
    fn management(&self, datagram: &Management<'_>) -> Routed;
}

/// A service of the connection manager that this process offers, until it is dropped.
pub trait ServiceClaim: Send + Sync {}

/// The NIC interface below verbs. A provider makes progress by itself, even while the program does
/// not call it.
pub trait Provider: Send + Sync {
    /// The provider's name: `roce` or `fairway`.
    fn name(&self) -> &'static str;

    /// The provider's addresses, the IPv4 one first.
    fn gids(&self) -> &[Gid];

    /// Maximum payload bytes of a packet: 256, 512, 1024, 2048 or 4096.
    fn mtu(&self) -> u32;

    /// The slot of this process.
    fn slot(&self) -> u8;

    /// The protocol's counters, as far as they apply.
    fn counters(&self) -> Counters;

    /// Counters of the network below, as far as they apply.
    fn network_counters(&self) -> NetworkCounters {
        NetworkCounters::default()
    }

    /// Why the provider has fewer sockets than its paths need; `None` if it has enough.
    fn socket_shortage(&self) -> Option<SocketShortage> {
        None
    }

    // ---- memory ----

    /// Registers memory under a new key, of which 12 bits are random; the key of the registration
    /// that had its number before gives no access to it. L_Key and R_Key are the same number.
    fn register(
        &self,
        memory: ForeignMemory,
        request: &MemoryRequest,
    ) -> Result<MemoryRegion, ProviderError>;

    /// Changes the protection domain of memory, and the peers' rights. The key stays. Accesses of
    /// peers that are under way and no longer allowed are refused.
    fn change_memory(
        &self,
        segment: SegmentId,
        rights: Rights,
        domain: u32,
    ) -> Result<(), ProviderError>;

    /// Refuses every access from now on, and returns when no operation uses the memory any more.
    fn deregister(&self, segment: SegmentId) -> Result<(), ProviderError>;

    // ---- completion queues ----

    /// Creates a completion queue for `depth` completions. If there are more unpolled ones, that is
    /// an overrun: it is reported as an event, and an error for the queue pairs that use the queue.
    fn create_completion_queue(&self, depth: u32) -> Result<CompletionQueueId, ProviderError>;

    /// Changes the depth of a completion queue.
    fn resize_completion_queue(
        &self,
        queue: CompletionQueueId,
        depth: u32,
    ) -> Result<(), ProviderError>;

    /// Removes a completion queue that no queue pair uses.
    fn destroy_completion_queue(&self, queue: CompletionQueueId) -> Result<(), ProviderError>;

    /// Takes completions, the oldest first, and lets the provider make progress. Returns their
    /// number.
    fn poll(&self, queue: CompletionQueueId, out: &mut [Completion]) -> usize;

    /// True if completions of a queue pair wait to be polled. False once it is destroyed.
    fn has_completions(&self, number: Qpn) -> bool;

    /// Requests that the next completion that is added is reported to the listener; if
    /// `solicited_only`, the next that is solicited, or an error.
    fn arm(&self, queue: CompletionQueueId, solicited_only: bool) -> Result<(), ProviderError>;

    // ---- queue pairs ----

    /// Creates a shared receive queue.
    fn create_receive_queue(
        &self,
        domain: u32,
        depth: u32,
    ) -> Result<ReceiveQueueId, ProviderError>;

    /// Requests one event when fewer than `limit` receives are left in the queue.
    fn limit_receive_queue(&self, queue: ReceiveQueueId, limit: u32) -> Result<(), ProviderError>;

    /// Removes a shared receive queue that no queue pair uses.
    fn destroy_receive_queue(&self, queue: ReceiveQueueId) -> Result<(), ProviderError>;

    /// Creates a queue pair, in the state Reset.
    fn create_queue_pair(&self, config: &QueuePairConfig) -> Result<Qpn, ProviderError>;

    /// Removes a queue pair. Posted work is dropped; when this returns, none of its memory is
    /// accessed any more.
    fn destroy_queue_pair(&self, number: Qpn) -> Result<(), ProviderError>;

    /// Changes the state of a queue pair.
    fn modify(&self, number: Qpn, change: &Change) -> Result<(), ChangeError>;

    /// Sets the service level of what a queue pair sends: its weight
    /// ([`ProviderOptions::service_levels`]) holds from now on. Level 0 is the initial one. Ignored
    /// if there is no such queue pair.
    fn set_service_level(&self, number: Qpn, level: u8);

    /// Returns the state of a queue pair.
    fn state(&self, number: Qpn) -> Option<QueuePairState>;

    /// True if sends that a queue pair began before [`Change::Drain`] have not completed.
    fn is_draining(&self, number: Qpn) -> bool;

    /// Returns this provider's number for a network address.
    fn resolve(&self, gid: Gid) -> Result<u64, ProviderError>;

    /// Returns the network address of a number.
    fn gid_of(&self, address: u64) -> Option<Gid>;

    /// Returns the address of this device from which packets to another host are sent. `None` for
    /// an address of this host.
    fn leaves_from(&self, address: u64) -> Option<Gid>;

    // ---- data path ----

    /// Posts sends, in order. Returns how many were accepted, and the error of the next.
    fn post_send(&self, number: Qpn, requests: &[WorkRequest]) -> (usize, Option<PostError>);

    /// Checks that [`Provider::post_send`] accepts all requests, if nothing else is posted before.
    ///
    /// # Errors
    /// Why the first request that is not accepted would be refused.
    fn check_sends(&self, number: Qpn, requests: &[WorkRequest]) -> Result<(), PostError>;

    /// Posts receives to a queue pair's own queue; returns as [`Provider::post_send`] does.
    fn post_receive(&self, number: Qpn, requests: &[ReceiveRequest]) -> (usize, Option<PostError>);

    /// Posts receives to a shared queue; returns as [`Provider::post_send`] does.
    fn post_shared_receive(
        &self,
        queue: ReceiveQueueId,
        requests: &[ReceiveRequest],
    ) -> (usize, Option<PostError>);

    /// Number of connections to other processes that all queue pairs share, if the provider has
    /// any.
    fn channels(&self) -> Option<usize> {
        None
    }

    /// Sends acknowledgements that wait for another packet, because the process is about to end.
    /// Has no effect if another thread keeps this provider's lock for longer than [`LEAVING`].
    fn acknowledge(&self);

    // ---- management ----

    /// Sends a management datagram (256 bytes) to queue pair 1 at an address.
    fn send_management(&self, to: u64, bytes: &[u8; 256]) -> Result<(), ProviderError>;

    /// Routes management datagrams for this service to this process from now on.
    fn claim_service(
        &self,
        service: ServiceReservation,
    ) -> Result<Box<dyn ServiceClaim>, ProviderError>;
}

/// The protocol that carries the verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProviderKind {
    /// RoCEv2.
    #[default]
    Roce,
    /// Jetties over shared TP channels.
    Fairway,
}

/// Maximum numbers of objects of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderLimits {
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Registered memory regions.
    pub regions: u32,
    /// Shared receive queues.
    pub receive_queues: u32,
}

impl ProviderKind {
    /// The provider's limits.
    pub fn limits(self) -> ProviderLimits {
        match self {
            ProviderKind::Roce => roce::LIMITS,
            ProviderKind::Fairway => fairway::PROVIDER_LIMITS,
        }
    }

    /// True if a provider of this kind takes a policy: RoCE takes a scheduler alone.
    pub fn takes(self, policy: &PolicySpec) -> bool {
        let scheduler_alone = PolicySpec { scheduler: policy.scheduler, ..PolicySpec::default() };
        self == ProviderKind::Fairway || *policy == scheduler_alone
    }
}

/// Options of a provider.
#[derive(Clone, Debug)]
pub struct ProviderOptions {
    /// The addresses of its device, at least one.
    pub addresses: Vec<IpAddr>,
    /// Index of the interface to which link-local addresses among them belong: another interface
    /// may have the same ones. `None` for any interface that has them.
    pub interface: Option<u32>,
    /// Payload bytes of a packet: 256, 512, 1024, 2048 or 4096.
    pub mtu: u32,
    /// True if the kernel may segment runs of packets. (A capture on a virtual interface shows them
    /// unsegmented.)
    pub segmentation: bool,
    /// Impairments of the network to emulate, and the seed of their randomness.
    pub emulate: Option<(fairway_port::Spec, u64)>,
    /// RoCE: accept packets out of order, and retransmit only missing ones.
    pub out_of_order: bool,
    /// RoCE: pace every queue pair by DCQCN.
    pub dcqcn: bool,
    /// The policy by name (`docs/policies.md`), for RoCE a scheduler alone, as `sched=drr`; `None`
    /// for the default.
    pub policy: Option<String>,
    /// Weights of service levels, for the scheduler of the policy.
    pub service_levels: ServiceLevels,
    /// Fairway: number of paths of a channel; `None` for the default.
    pub paths: Option<u32>,
    /// Fairway: the way that packets take; `None` for the default.
    pub datapath: Option<DatapathKind>,
    /// Code points (DSCP) of packets; `None` for the default.
    pub dscp: Option<Dscp>,
}

impl ProviderOptions {
    /// Returns the default options, for a device with these addresses.
    pub fn new(addresses: Vec<IpAddr>, mtu: u32) -> ProviderOptions {
        ProviderOptions {
            addresses,
            interface: None,
            mtu,
            segmentation: true,
            emulate: None,
            out_of_order: false,
            dcqcn: false,
            policy: None,
            service_levels: ServiceLevels::default(),
            paths: None,
            datapath: None,
            dscp: None,
        }
    }

    /// Returns the socket address for an address of the device, including the interface of a
    /// link-local address.
    fn socket_address(&self, ip: IpAddr, port: u16) -> SocketAddr {
        match (ip, self.interface) {
            (IpAddr::V6(v6), Some(interface)) if v6.is_unicast_link_local() => {
                SocketAddrV6::new(v6, port, 0, interface).into()
            }
            _ => with_scope(ip, port),
        }
    }
}

/// Opens a provider.
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

/// Returns a random number from the system, which no peer can predict, and which differs between
/// the children of a process.
pub fn random() -> Result<u64, ProviderError> {
    fairway_runtime::clock::random()
        .map_err(|error| ProviderError::Io("draw random bytes", error.source))
}
