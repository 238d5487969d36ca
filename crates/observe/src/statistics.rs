//! Statistics of a context, served on request: to `fairway top`, and to Prometheus.
//!
//! A [`StatsServer`] listens at a socket with an abstract name; a process of the same user that
//! connects receives [`Stats`] as a line of JSON ([`list`], [`query`]). A [`StatsExporter`] answers
//! HTTP. Both serve one client after the other, on a thread each, and call the function that they
//! were given for each answer.

use std::net::SocketAddr;
use std::time::Duration;

use fairway_ub::control::ProcessorStats;
use fairway_ub::{ChannelId, FlowView};

use crate::HostSignals;

mod counters;
mod http;
mod json;
mod prometheus;
mod server;
mod visitors;

pub use counters::{Counters, NicCounters};
pub use http::StatsExporter;
pub use server::{Process, StatsServer, list, query};

/// Statistics of a context at one moment. Counters only grow.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// The process identifier.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// Time since the context was built.
    pub uptime: Duration,
    /// The policies, as text.
    pub policy: String,
    /// The addresses of the sockets.
    pub addresses: Vec<SocketAddr>,
    /// Counters of the context.
    pub counters: Counters,
    /// Statistics of the scheduler, if there is one.
    pub scheduler: Option<ProcessorStats>,
    /// Statistics of the congestion controls, if they run on a separate thread.
    pub congestion: Option<ProcessorStats>,
    /// Resources that the host is short of, if they are measured.
    pub host: Option<HostSignals>,
    /// The connections.
    pub peers: Vec<PeerEntry>,
    /// The flows, and those that have ended, by Jetty and channel.
    pub flows: Vec<FlowEntry>,
}

/// Statistics of one connection.
#[derive(Clone, Debug)]
pub struct PeerEntry {
    /// The connection's first channel.
    pub channel: ChannelId,
    /// The peer's address.
    pub address: SocketAddr,
    /// Statistics of the connection.
    pub stats: PeerStats,
}

/// What a Jetty sends over a channel, and the connection that carries it.
#[derive(Clone, Debug)]
pub struct FlowEntry {
    /// The present flow, or the last one. Its counters are those of all flows of the Jetty and the
    /// channel.
    pub view: FlowView,
    /// Whether there is a flow at present.
    pub is_present: bool,
    /// The first channel of its connection, as in [`PeerEntry`].
    pub peer: Option<ChannelId>,
}

/// Statistics of a connection.
#[derive(Clone, Debug, Default)]
pub struct PeerStats {
    /// Payload bytes per packet, as agreed at set-up.
    pub mtu: u32,
    /// Packets sent, including retransmissions.
    pub sent: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets that a congested switch has marked.
    pub marked: u64,
    /// Packets in flight now.
    pub in_flight: u32,
    /// Smoothed round trip, all paths of the first channel together; zero before the first sample.
    pub rtt: Duration,
    /// Bytes that congestion control allows in flight now.
    pub window_bytes: u64,
    /// Number of channels: the smaller number of engines of the two sides.
    pub channels: usize,
    /// Paths, by number: those of the first channel, then those of the next.
    pub paths: Vec<PathStats>,
}

/// Statistics of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Local UDP port of the path; zero once the connection is gone.
    pub own_port: u16,
    /// Remote UDP port of the path.
    pub remote_port: u16,
    /// Smoothed round trip; zero before the first sample.
    pub rtt: Duration,
    /// Mean deviation of the round trip.
    pub rtt_deviation: Duration,
    /// Packets sent.
    pub sent: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets that a congested switch has marked.
    pub marked: u64,
    /// Packets in flight now.
    pub in_flight: u32,
    /// True if the path is considered to work.
    pub usable: bool,
}
