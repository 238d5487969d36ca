//! What `fairway doctor` has read of this machine, as plain values that a test can make up.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fairway_port::NicFeature;

/// Everything that was read. What could not be read says why, as the system reported it.
#[derive(Clone, Debug)]
pub(crate) struct Readings {
    /// Release of the kernel, such as `6.1.0-18-amd64`.
    pub(crate) kernel: String,
    pub(crate) udp: Result<Udp, String>,
    /// Whether two processes of this user can share memory that Fairway allocates.
    pub(crate) shared_memory: Result<(), String>,
    /// Names of the RDMA devices that the kernel has.
    pub(crate) rdma_devices: Vec<String>,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) routes: Vec<Route>,
    pub(crate) clock: Clock,
    pub(crate) processors: Processors,
    pub(crate) permissions: Permissions,
    pub(crate) tcp: Tcp,
    pub(crate) verbs: Verbs,
    pub(crate) roce_port: RocePort,
    /// The other machine, if one was named.
    pub(crate) peer: Option<PeerReading>,
}

/// What a pair of UDP sockets on the loopback interface did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Udp {
    /// Packets that were given to the kernel in one call.
    pub(crate) sent: usize,
    /// The kernel cut that one call into packets (`UDP_SEGMENT`), and all of them arrived intact.
    pub(crate) segmentation: bool,
    /// Most packets that one receiving call returned (`UDP_GRO`); 1 without the offload.
    pub(crate) received_at_once: usize,
    /// Most packets that one sending call may carry.
    pub(crate) segments_max: usize,
    /// The kernel refuses packets that are too long instead of cutting them into fragments.
    pub(crate) unfragmented: bool,
    pub(crate) buffers: Buffers,
}

/// Socket buffers, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffers {
    /// What Fairway asks for, for each direction.
    pub(crate) asked: usize,
    /// What the kernel reports; it doubles what it grants, for its own records.
    pub(crate) send: usize,
    /// As `send`, for packets that arrive.
    pub(crate) receive: usize,
    /// `net.core.rmem_max`.
    pub(crate) receive_max: Option<u64>,
    /// `net.core.wmem_max`.
    pub(crate) send_max: Option<u64>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) mtu: usize,
    pub(crate) is_up: bool,
    pub(crate) is_loopback: bool,
    /// The offloads that Fairway gains from, as far as the kernel reports them.
    pub(crate) offloads: Vec<NicFeature>,
}

/// A route of IPv4 that has an MTU of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Destination, as `10.0.0.0/8` or `default`.
    pub(crate) to: String,
    pub(crate) interface: String,
    pub(crate) mtu: usize,
}

/// The clock that every packet is timed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// The kernel's clock source, such as `tsc`.
    pub(crate) source: Option<String>,
    /// The sources that the kernel offers.
    pub(crate) offered: Vec<String>,
    /// What reading it costs, in nanoseconds.
    pub(crate) read_ns: u64,
}

/// What of the machine's processors this process may use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Processors {
    /// Cores that are switched on.
    pub(crate) online: usize,
    /// Cores that this process may run on.
    pub(crate) allowed: usize,
    /// CPU time that the control group may use, in cores; `None` without a quota.
    pub(crate) quota: Option<f64>,
    /// How the first core chooses its frequency, such as `powersave`.
    pub(crate) governor: Option<String>,
}

/// What this process may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permissions {
    /// Bytes that may be locked in memory; `None`: no limit.
    pub(crate) locked_bytes: Option<u64>,
    /// Files and sockets that may be open; `None`: no limit.
    pub(crate) open_files: Option<u64>,
    /// Bytes that are free in `/dev/shm`, if this process can write there.
    pub(crate) shm_free: Result<u64, String>,
    /// Bits of the effective capabilities.
    pub(crate) capabilities: u64,
    /// Whether `/dev/net/tun` can be opened.
    pub(crate) tun: Result<(), String>,
    /// `Seccomp` of `/proc/self/status`: 0 off, 1 strict, 2 filtered.
    pub(crate) seccomp: Option<u32>,
    /// System calls that Fairway uses and that failed when they were tried, and how.
    pub(crate) refused_calls: Vec<(&'static str, String)>,
    /// Whether this process is in the network namespace of process 1; `None` if that is hidden.
    pub(crate) initial_network: Option<bool>,
}

impl Permissions {
    /// May this process open raw sockets, as `fairway emulate --topology` and captures do?
    pub(crate) fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }
}

/// How TCP connections of this host are controlled, beside which Fairway is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub(crate) congestion_control: Option<String>,
    pub(crate) offered: Vec<String>,
}

/// The verbs library of `fairway run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verbs {
    /// Its folder, or why there is none.
    pub(crate) folder: Result<PathBuf, String>,
    /// Whether a program that was started as `fairway run` starts it had the library loaded; `None`
    /// without a library.
    pub(crate) loaded: Option<Result<(), String>>,
}

/// UDP port 4791, on which RDMA programs speak RoCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RocePort {
    Free,
    /// Programs of this user under `fairway run` have it, and share it with further ones.
    Shared,
    /// A program that does not share it, or the kernel, has it.
    Taken,
}

/// A machine that was named on the command line.
#[derive(Clone, Debug)]
pub(crate) struct PeerReading {
    /// As it was named.
    pub(crate) host: String,
    /// What the connection showed, or why there is none.
    pub(crate) result: Result<Connection, String>,
}

/// What a connection to another machine showed.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) address: SocketAddr,
    /// The command that serves there.
    pub(crate) server: &'static str,
    /// From the call to the connection.
    pub(crate) set_up: Duration,
    /// Payload of a packet, in bytes, as agreed.
    pub(crate) mtu: u32,
    /// The MTU of the route to it, in bytes.
    pub(crate) route_mtu: Option<usize>,
    /// Packets of that payload arrive on further paths: yes, no, or not known.
    pub(crate) long_packets: Option<bool>,
    pub(crate) paths: u32,
    pub(crate) answered: u32,
    /// UDP ports of the peer on no path of which a packet was acknowledged.
    pub(crate) silent_ports: Vec<u16>,
    /// Times from posting a message of 8 bytes to its acknowledgement, shortest first.
    pub(crate) round_trips: Vec<Duration>,
}
