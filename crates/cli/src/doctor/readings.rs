//! The readings of `fairway doctor`, as plain values that a test can construct.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fairway_port::NicFeature;

use crate::verbs::NoLibrary;

/// All readings. A reading that failed holds the system's error.
#[derive(Clone, Debug)]
pub(crate) struct Readings {
    /// Release of the kernel, such as `6.1.0-18-amd64`.
    pub(crate) kernel: String,
    pub(crate) udp: Result<Udp, String>,
    /// Whether two processes of this user can share memory that Fairway allocates.
    pub(crate) shared_memory: Result<(), String>,
    /// Whether AF_XDP sockets can be opened, and the program for them loaded.
    pub(crate) af_xdp: Result<(), String>,
    /// Names of the RDMA devices that the kernel has.
    pub(crate) rdma_devices: Vec<String>,
    /// Ports of RDMA devices that the verbs library of this system offers.
    pub(crate) rdma_ports: Result<Vec<RdmaPort>, String>,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) routes: Vec<Route>,
    pub(crate) clock: Clock,
    pub(crate) processors: Processors,
    pub(crate) permissions: Permissions,
    pub(crate) tcp: Tcp,
    pub(crate) verbs: Verbs,
    pub(crate) roce_port: RocePort,
    /// Names and values of the environment variables that begin with `FAIRWAY_`, by name.
    pub(crate) environment: Vec<(String, String)>,
    /// Readings of the other machine, if one was named.
    pub(crate) peer: Option<PeerReading>,
}

/// A port of an RDMA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RdmaPort {
    /// Name of the device and number of the port, as `mlx5_0:1`.
    pub(crate) name: String,
    pub(crate) is_active: bool,
    /// Its IP addresses, over Ethernet.
    pub(crate) addresses: Vec<String>,
}

/// Results of a pair of UDP sockets on the loopback interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Udp {
    /// Number of packets passed to the kernel in one call.
    pub(crate) sent: usize,
    /// Whether the kernel segmented that call's data into packets (`UDP_SEGMENT`), and all of them
    /// arrived intact.
    pub(crate) segmentation: bool,
    /// Largest number of packets that one receive call returned (`UDP_GRO`); 1 without the offload.
    pub(crate) received_at_once: usize,
    /// Largest number of packets that one send call may carry.
    pub(crate) segments_max: usize,
    /// Whether the kernel refuses packets that are too long instead of fragmenting them.
    pub(crate) unfragmented: bool,
    pub(crate) buffers: Buffers,
}

/// Socket buffers, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffers {
    /// Size that Fairway requests for each direction.
    pub(crate) requested: usize,
    /// Size of the send buffer that the kernel reports: twice the granted size, for its own
    /// records.
    pub(crate) send: usize,
    /// Size of the receive buffer that the kernel reports, likewise doubled.
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
    /// The offloads that help Fairway, as far as the kernel reports them.
    pub(crate) offloads: Vec<NicFeature>,
}

/// An IPv4 route that sets an MTU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Destination, as `10.0.0.0/8` or `default`.
    pub(crate) to: String,
    pub(crate) interface: String,
    pub(crate) mtu: usize,
}

/// The clock by which every packet is timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// The kernel's clock source, such as `tsc`.
    pub(crate) source: Option<String>,
    /// The clock sources that the kernel offers.
    pub(crate) offered: Vec<String>,
    /// Time of one reading in nanoseconds.
    pub(crate) read_ns: u64,
}

/// Processors that this process may use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Processors {
    /// Number of cores that are online.
    pub(crate) online: usize,
    /// Number of cores on which this process may run.
    pub(crate) allowed: usize,
    /// CPU time that the control group may use, in cores; `None` without a quota.
    pub(crate) quota: Option<f64>,
    /// Frequency governor of the first core, such as `powersave`.
    pub(crate) governor: Option<String>,
}

/// Limits and permissions of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permissions {
    /// Largest number of bytes locked in memory; `None`: no limit.
    pub(crate) locked_bytes: Option<u64>,
    /// Largest number of open files and sockets; `None`: no limit.
    pub(crate) open_files: Option<u64>,
    /// Free bytes in `/dev/shm`, if this process can write there.
    pub(crate) shm_free: Result<u64, String>,
    /// Bit mask of the effective capabilities.
    pub(crate) capabilities: u64,
    /// Whether `/dev/net/tun` can be opened.
    pub(crate) tun: Result<(), String>,
    /// `Seccomp` of `/proc/self/status`: 0 off, 1 strict, 2 filtered.
    pub(crate) seccomp: Option<u32>,
    /// System calls that Fairway uses and that failed in the test, with their errors.
    pub(crate) refused_calls: Vec<(&'static str, String)>,
    /// Whether this process is in the network namespace of process 1; `None` if that is hidden.
    pub(crate) initial_network: Option<bool>,
}

impl Permissions {
    /// Whether this process has a capability, such as the one for raw sockets, which `fairway
    /// emulate --topology` and captures open.
    pub(crate) fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }
}

/// Congestion control of TCP connections on this host, with which Fairway is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub(crate) congestion_control: Option<String>,
    pub(crate) offered: Vec<String>,
}

/// The verbs library of `fairway run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verbs {
    /// Folder of the library, or why there is none.
    pub(crate) folder: Result<PathBuf, NoLibrary>,
    /// Whether a program had the library loaded when it was started as `fairway run` does it;
    /// `None` without a library.
    pub(crate) loaded: Option<Result<(), String>>,
}

/// State of UDP port 4791, which RDMA programs use for RoCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RocePort {
    Free,
    /// Programs of this user under `fairway run` have the port, and share it with further ones.
    Shared,
    /// A program that does not share the port, or the kernel, has it.
    Taken,
}

/// A machine that was named on the command line.
#[derive(Clone, Debug)]
pub(crate) struct PeerReading {
    /// The host as given on the command line.
    pub(crate) host: String,
    /// The first port of the server, if it was given.
    pub(crate) port: Option<u16>,
    /// Measurements of the connection, or why there is none.
    pub(crate) result: Result<Connection, String>,
}

/// Measurements of a connection to another machine.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) address: SocketAddr,
    /// The command that serves there.
    pub(crate) server: &'static str,
    /// Time from the call until the connection was established.
    pub(crate) set_up: Duration,
    /// Negotiated payload of a packet, in bytes.
    pub(crate) mtu: u32,
    /// MTU of the route to the machine, in bytes.
    pub(crate) route_mtu: Option<usize>,
    /// Whether packets with that payload arrive on further paths; `None` if unknown.
    pub(crate) long_packets: Option<bool>,
    pub(crate) paths: u32,
    pub(crate) answered: u32,
    /// UDP ports of the peer that no acknowledged packet was sent to.
    pub(crate) silent_ports: Vec<u16>,
    /// Times from posting a message of 8 bytes to its acknowledgement, in ascending order.
    pub(crate) round_trips: Vec<Duration>,
}
