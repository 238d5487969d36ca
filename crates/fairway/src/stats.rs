//! Statistics of a context, served on request: to `fairway top`, and to Prometheus.
//!
//! A context that was built with [`Builder::stats`](crate::Builder::stats), or in whose process
//! FAIRWAY_STATS is 1, listens at a socket with an abstract name; a process of the same user that
//! connects receives [`Stats`] as a line of JSON ([`list`], [`ask`]). With
//! [`Builder::prometheus`](crate::Builder::prometheus) it answers HTTP as well. Both serve one
//! client after the other, on a thread each, and hold the context's lock only while numbers are
//! copied.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fairway_observe::HostSignals;
use fairway_ub::control::ProcessorStats;
use fairway_ub::{ChannelId, FlowView};

use crate::core::Core;
use crate::counters::Counters;
use crate::peer::PeerStats;

mod http;
mod json;
mod prometheus;
mod server;
mod visitors;

pub use server::{Process, ask, list};
pub(crate) use {http::Exporter, server::Server};

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
    /// The flows.
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

/// A flow, and the connection that carries it.
#[derive(Clone, Debug)]
pub struct FlowEntry {
    /// The flow.
    pub view: FlowView,
    /// The first channel of its connection, as in [`PeerEntry`].
    pub peer: Option<ChannelId>,
}

impl Stats {
    pub(crate) fn of(core: &Core, uptime: Duration) -> Stats {
        let states = core.peer_states();
        let peers = states.iter().map(|state| PeerEntry {
            channel: state.channel,
            address: state.address,
            stats: PeerStats::of(core, state),
        });
        let alive = |channel| {
            let state = core.peer_state(channel)?;
            state.alive.load(Ordering::Acquire).then_some(state.channel)
        };
        let flows = core.nic.flows().map(|view| FlowEntry { peer: alive(view.channel), view });
        Stats {
            pid: std::process::id(),
            program: program(),
            uptime,
            policy: core.policy.to_string(),
            addresses: core.local_addrs().to_vec(),
            counters: core.counters(),
            scheduler: core.scheduler_stats(),
            congestion: core.congestion_stats(),
            host: core.host,
            peers: peers.collect(),
            flows: flows.collect(),
        }
    }
}

/// Returns the name of this process's program.
fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
