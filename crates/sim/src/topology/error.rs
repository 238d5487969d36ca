//! Errors of building a network.

use crate::scenario::LATENCY_MAX_PS;
use thiserror::Error;

/// Returns the possible numbers of hosts next to one that is not.
fn neighbours(below: Option<u64>, above: Option<u64>) -> String {
    match (below, above) {
        (Some(below), Some(above)) => {
            format!("the next smaller one has {below}, the next larger one {above}")
        }
        (None, Some(above)) => format!("the smallest one has {above}"),
        (below, None) => format!("the largest one has {}", below.unwrap_or_default()),
    }
}

/// Why a network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// No three-tier tree of whole pods has this number of hosts.
    #[error(
        "no three-tier fat tree of whole pods has {hosts} hosts: {}: choose such a number, or \
         topology leaf-spine",
        neighbours(*below, *above)
    )]
    ThreeTiers {
        /// Number of hosts requested.
        hosts: u32,
        /// The next smaller number of hosts that is possible; `None` if there is none.
        below: Option<u64>,
        /// The next larger number of hosts that is possible; `None` if there is none.
        above: Option<u64>,
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
    /// The sizes of a torus, HyperX or dragonfly make a network that is too large.
    #[error("{count} {what} are too many: at most {most} are possible, so take smaller sizes")]
    Size {
        /// What there is too much of: hosts, switches or links.
        what: &'static str,
        /// Their number.
        count: u64,
        /// The largest possible number.
        most: u64,
    },
    /// The sizes give one host, which has no other to send to.
    #[error(
        "a network of 1 host has no second one to send to: take larger sizes, or more \
         hosts-per-switch"
    )]
    OneHost,
    /// A switch has more ports than events can number.
    #[error("a switch of {ports} ports: at most {most}")]
    Ports {
        /// Ports of the switch.
        ports: usize,
        /// Maximum number of ports of a switch.
        most: usize,
    },
}
