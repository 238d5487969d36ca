//! Where the ranks run: on this host, or each on a host of a network.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use super::bridge::Bridge;
use crate::bench::networks::Emulator;
use crate::bench::place::ip;

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
    /// Hosts that a bridge connects, without a limit of rate.
    Veth,
    /// Hosts of a leaf-spine network that loses so many packets per million.
    LeafSpine { loss: u32 },
    /// The same without losses, but with a slow link between a leaf and a spine.
    SlowPath,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::Host,
        Kind::Veth,
        Kind::LeafSpine { loss: 0 },
        Kind::LeafSpine { loss: 1000 },
        Kind::LeafSpine { loss: 10_000 },
        Kind::SlowPath,
    ];

    /// The name that the option takes.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::Veth => "veth",
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
            Kind::Veth => "veth network".to_string(),
            Kind::LeafSpine { loss: 0 } => network,
            Kind::LeafSpine { loss } => format!("{network}, {} % loss", f64::from(loss) / 10_000.0),
            Kind::SlowPath => format!("{network}, one of its paths {SLOW_MEGABITS} Mb/s"),
        }
    }

    /// True if each rank has a network namespace of its own.
    pub fn is_network(self) -> bool {
        self != Kind::Host
    }

    /// True if the links have a rate.
    pub fn is_emulated(self) -> bool {
        !matches!(self, Kind::Host | Kind::Veth)
    }

    /// The time that the link of the busiest rank needs for the payload that an operation must move
    /// over it, in microseconds; `None` if links have no rate, or the operation is unknown.
    pub fn ideal_us(self, operation: &str, ranks: u32, bytes: u64) -> Option<f64> {
        let others = f64::from(ranks - 1) / f64::from(ranks);
        let share = match operation {
            // Each part of a rank is combined elsewhere, and comes back.
            "all-reduce" => 2.0 * others,
            "all-gather" | "reduce-scatter" | "all-to-all" => others,
            // The root sends all once; ranks that have received can send on.
            "broadcast" => 1.0,
            _ => return None,
        };
        let bits = share * bytes as f64 * 8.0;
        self.is_emulated().then(|| bits / f64::from(MEGABITS))
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

/// A network of hosts.
enum Network {
    Emulated(Emulator),
    Bridged(Bridge),
}

/// A place. Its network is removed on drop.
pub struct Place {
    pub kind: Kind,
    network: Option<Network>,
}

impl Place {
    /// Creates the network of the place for so many ranks, which requires root.
    pub fn make(kind: Kind, ranks: u32) -> io::Result<Place> {
        let network = match kind {
            Kind::Host => None,
            Kind::Veth => Some(Network::Bridged(Bridge::make(ranks)?)),
            _ => Some(Network::Emulated(Emulator::of_topology(&kind.topology(), MTU)?)),
        };
        Ok(Place { kind, network })
    }

    /// The namespace of a rank. Consecutive ranks are on different leaves.
    pub fn namespace(&self, rank: u32) -> Option<String> {
        self.network.as_ref().map(|network| match network {
            Network::Emulated(network) => network.namespace(host(rank)),
            Network::Bridged(network) => network.namespace(rank),
        })
    }

    /// The address of a rank.
    pub fn address(&self, rank: u32) -> IpAddr {
        match self.network {
            Some(Network::Emulated(_)) => Emulator::address(host(rank)).into(),
            Some(Network::Bridged(_)) => Bridge::address(rank).into(),
            None => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Lets TCP between the hosts of so many ranks use this congestion control; `None`: that of the
    /// system. A namespace can't have a default that the system does not allow to all programs, so
    /// the route has it.
    pub fn set_congestion_control(&self, ranks: u32, name: Option<&str>) -> io::Result<()> {
        for rank in 0..ranks {
            let (Some(namespace), IpAddr::V4(address)) = (self.namespace(rank), self.address(rank))
            else {
                continue;
            };
            let [a, b, c, _] = address.octets();
            let (network, own) = (format!("{a}.{b}.{c}.0/24"), address.to_string());
            let mut route = vec![
                "-n", &namespace, "route", "replace", &network, "dev", "fairway0", "src", &own,
            ];
            name.into_iter().for_each(|name| route.extend(["congctl", name]));
            ip(&route)?;
        }
        Ok(())
    }
}

fn host(rank: u32) -> usize {
    [0, 2, 1, 3][rank as usize % Emulator::HOSTS]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideal_time_is_that_of_the_payload() {
        let network = Kind::LeafSpine { loss: 0 };
        // 1.5 times 8 MiB at 200 Mb/s.
        let all_reduce = network.ideal_us("all-reduce", 4, 8 << 20).expect("known");
        assert_eq!(all_reduce.round(), 503_316.0);
        let broadcast = network.ideal_us("broadcast", 2, 1_000_000).expect("known");
        assert_eq!(broadcast.round(), 40_000.0);
        assert_eq!(network.ideal_us("training-step", 2, 1), None);
        assert_eq!(Kind::Veth.ideal_us("broadcast", 2, 1), None);
    }

    #[test]
    fn every_place_is_found_by_its_name() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse::<Kind>().ok(), Some(kind));
        }
    }
}
