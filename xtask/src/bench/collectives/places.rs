//! Where the ranks run: on this host, or each on a host of an emulated network.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use crate::bench::networks::Emulator;

/// Rate of each link in Mb/s, and the rate of the slow one.
const MEGABITS: u32 = 200;
const SLOW_MEGABITS: u32 = 50;
/// Latency of a link: a round trip between two leaves crosses eight.
const LATENCY_US: u32 = 50;
/// Length of a switch's queue in bytes: about three times what is in flight on an idle path.
const QUEUE_BYTES: u32 = 64 << 10;
/// Longest packet of a host.
const MTU: u32 = 4300;

/// A place, without its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Processes of this host, which share memory.
    Host,
    /// Hosts of a leaf-spine network that loses so many packets per million.
    LeafSpine { loss: u32 },
    /// The same without losses, but with a slow link between a leaf and a spine.
    SlowPath,
}

impl Kind {
    pub const ALL: [Kind; 5] = [
        Kind::Host,
        Kind::LeafSpine { loss: 0 },
        Kind::LeafSpine { loss: 1000 },
        Kind::LeafSpine { loss: 10_000 },
        Kind::SlowPath,
    ];

    /// The name that the option takes.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::LeafSpine { loss: 0 } => "leaf-spine",
            Kind::LeafSpine { loss: 1000 } => "loss-0.1",
            Kind::LeafSpine { .. } => "loss-1",
            Kind::SlowPath => "slow-path",
        }
    }

    /// The heading of the place's table.
    pub fn title(self) -> String {
        let network = format!("leaf-spine network of four hosts, {MEGABITS} Mb/s");
        match self {
            Kind::Host => "this host".to_string(),
            Kind::LeafSpine { loss: 0 } => network,
            Kind::LeafSpine { loss } => format!("{network}, {} % loss", f64::from(loss) / 10_000.0),
            Kind::SlowPath => format!("{network}, one of its paths {SLOW_MEGABITS} Mb/s"),
        }
    }

    pub fn is_network(self) -> bool {
        self != Kind::Host
    }

    fn topology(self) -> String {
        let (loss, slow) = match self {
            // Each packet crosses one link from a host, where losses happen.
            Kind::LeafSpine { loss } => (f64::from(loss) / 1e6, String::new()),
            _ => (0.0, format!("degrade 4-6@0us:{SLOW_MEGABITS}M\n")),
        };
        format!(
            "topology leaf-spine\nnodes {}\nhosts-per-leaf 2\nlink {MEGABITS}M\n\
             latency {LATENCY_US}us\nqueue {QUEUE_BYTES}\necn off\nloss {loss:.6}\n{slow}",
            Emulator::HOSTS
        )
    }
}

/// No place has this name.
#[derive(Debug)]
pub struct UnknownPlace;

impl FromStr for Kind {
    type Err = UnknownPlace;

    fn from_str(text: &str) -> Result<Self, UnknownPlace> {
        Kind::ALL.into_iter().find(|kind| kind.name() == text).ok_or(UnknownPlace)
    }
}

/// A place. Its network is removed on drop.
pub struct Place {
    pub kind: Kind,
    network: Option<Emulator>,
}

impl Place {
    /// Creates the network of the place, which requires root.
    pub fn make(kind: Kind) -> io::Result<Place> {
        let network = match kind.is_network() {
            true => Some(Emulator::of_topology(&kind.topology(), MTU)?),
            false => None,
        };
        Ok(Place { kind, network })
    }

    /// The namespace of a rank. Consecutive ranks are on different leaves.
    pub fn namespace(&self, rank: u32) -> Option<String> {
        self.network.as_ref().map(|network| network.namespace(host(rank)))
    }

    /// The address of a rank.
    pub fn address(&self, rank: u32) -> IpAddr {
        match self.network {
            Some(_) => Emulator::address(host(rank)).into(),
            None => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

fn host(rank: u32) -> usize {
    [0, 2, 1, 3][rank as usize % Emulator::HOSTS]
}
