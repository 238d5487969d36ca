//! Why a network cannot be made.

use crate::scenario::LATENCY_MAX_PS;
use thiserror::Error;

/// Why a network cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Three full tiers have other numbers of hosts.
    #[error("no three-tier fat tree has {hosts} hosts: one has {below}, another {above}")]
    ThreeTiers {
        /// The number that was asked for.
        hosts: u32,
        /// The next smaller number that there is.
        below: u64,
        /// The next larger one.
        above: u64,
    },
    /// Leaves would not be full.
    #[error("{hosts} hosts do not fill leaves: choose the hosts of a leaf so that they do")]
    TwoTiers {
        /// The number that was asked for.
        hosts: u32,
    },
    /// Rails take all leaves in turn.
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
    /// A link is too fast, too slow or too long.
    #[error(
        "the link from {from} to {to} has {megabits} Mb/s and {latency_ps} ps: a link has 1 to \
         100000000 Mb/s, and takes {LATENCY_MAX_PS} ps at most"
    )]
    Link {
        /// The node that sends.
        from: u32,
        /// The node that receives.
        to: u32,
        /// Its rate, in Mb/s.
        megabits: u64,
        /// Its latency, in picoseconds.
        latency_ps: u64,
    },
    /// A switch has more ports than events can name.
    #[error("a switch of {ports} ports: at most {most}")]
    Ports {
        /// Ports of the switch.
        ports: usize,
        /// Ports that a switch may have.
        most: usize,
    },
}
