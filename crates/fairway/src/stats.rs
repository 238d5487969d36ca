//! Statistics of a context, served on request: to `fairway top`, and to Prometheus.
//!
//! A context that was built with [`Builder::stats`](crate::Builder::stats), or in whose process
//! FAIRWAY_STATS is 1, listens at a socket with an abstract name; a process of the same user that
//! connects receives [`Stats`] as a line of JSON ([`list`], [`query`]). With
//! [`Builder::prometheus`](crate::Builder::prometheus) it answers HTTP as well. The context's lock
//! is held only while numbers are copied.

use std::sync::atomic::Ordering;
use std::time::Duration;

pub use fairway_observe::{FlowEntry, PeerEntry, Process, Stats, list, query};

use crate::core::Core;
use crate::peer::peer_stats;
use crate::shared::Shared;

/// Returns the statistics of a context. The counters of its sockets are those of its last poll.
pub(crate) fn statistics(core: &Core, uptime: Duration) -> Stats {
    let states = core.peer_states();
    let peers = states.iter().map(|state| PeerEntry {
        channel: state.channel,
        address: state.address(),
        stats: peer_stats(core, state),
    });
    let alive = |channel| {
        let state = core.peer_state(channel)?;
        state.alive.load(Ordering::Acquire).then_some(state.channel)
    };
    let flows = core.nic.flow_totals().map(|(view, is_present)| FlowEntry {
        peer: alive(view.channel),
        view,
        is_present,
    });
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

/// Returns the statistics of a context with the latest counters of its sockets. Copies the numbers
/// under the lock.
pub(crate) fn snapshot(shared: &Shared, uptime: Duration) -> Stats {
    // This updates the sockets' counters first.
    let counters = shared.counters();
    let stats = shared.with(|core| statistics(core, uptime));
    Stats { counters, ..stats }
}

/// Returns the name of this process's program.
fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
