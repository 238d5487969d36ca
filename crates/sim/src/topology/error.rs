//! Errors of building a network.

use crate::scenario::LATENCY_MAX_PS;
use thiserror::Error;

/// Why a network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// No full three-tier tree has this number of hosts.
    #[error("no three-tier fat tree has {hosts} hosts: one has {below}, another {above}")]
    ThreeTiers {
        /// Number of hosts requested.
        hosts: u32,
        /// The next smaller number of hosts that is possible.
        below: u64,
        /// The next larger number of hosts that is possible.
        above: u64,
    },
    /// Some leaves would not be full.
    #[error("{hosts} hosts do not fill leaves: choose the hosts of a leaf so that they do")]
    TwoTiers {
        /// Number of hosts requested.
        hosts: u32,
    },
    /// The number of leaves is not a multiple of the rails.
    #[error(
        "{leaves} leaves are not whole rails: choose rails, or hosts-per-leaf, so that {rails} \
         divides the leaves"
    )]
    Rails {
        /// Leaves of the tree.
        leaves: u32,
        /// Leaves of a block of servers.
        rails: u32,
    },
    /// A link's rate or latency is outside the limits.
    #[error(
        "the link from {from} to {to} has {megabits} Mb/s and {latency_ps} ps: a link has 1 to \
         100000000 Mb/s, and takes {LATENCY_MAX_PS} ps at most"
    )]
    Link {
        /// Sending node.
        from: u32,
        /// Receiving node.
        to: u32,
        /// Rate of the link, in Mb/s.
        megabits: u64,
        /// Latency of the link, in picoseconds.
        latency_ps: u64,
    },
    /// A switch has more ports than events can number.
    #[error("a switch of {ports} ports: at most {most}")]
    Ports {
        /// Ports of the switch.
        ports: usize,
        /// Maximum number of ports of a switch.
        most: usize,
    },
}
