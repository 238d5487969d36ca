//! Settings of link events: failures, changes of rate, increases of latency.

use crate::error::SettingsError;
use crate::quantity::{rate, time};
use crate::scenario::{Change, Delay, LATENCY_MAX_PS};
use crate::topology::{Link, Network};

/// Names a set of links, in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ends {
    /// The links that join two nodes.
    Nodes(u32, u32),
    /// All links of a node, by its number.
    Node(u32),
    /// All links of a node, by its kind and its number among the nodes of that kind.
    Named(String, u32),
    /// All links of a plane.
    Plane(u32),
}

impl Ends {
    /// Parses `A-B`, `A`, a kind of node with its number, as `spine-0`, or `plane-N`.
    fn parse(text: &str) -> Option<Ends> {
        let Some((a, b)) = text.split_once('-') else {
            return Some(Ends::Node(text.parse().ok()?));
        };
        let b = b.parse().ok()?;
        Some(match a {
            "plane" => Ends::Plane(b),
            "host" | "leaf" | "spine" | "aggregation" | "core" | "switch" => {
                Ends::Named(a.to_owned(), b)
            }
            _ => Ends::Nodes(a.parse().ok()?, b),
        })
    }

    /// Returns the number of a node that is named by its kind.
    fn node(network: &Network, kind: &str, number: u32) -> Option<u32> {
        let mut nodes = match kind {
            "switch" => network.hosts..network.nodes(),
            _ => network.kinds().into_iter().find(|(name, _)| *name == kind)?.1,
        };
        nodes.nth(number as usize)
    }

    /// Returns the links that are named, by number.
    ///
    /// # Errors
    /// If the network has none of them.
    fn links(&self, network: &Network) -> Result<Vec<u32>, SettingsError> {
        let named = match self {
            Ends::Node(node) => Some(*node),
            Ends::Named(kind, number) => Ends::node(network, kind, *number),
            _ => None,
        };
        let is_meant = |link: &Link| match *self {
            Ends::Nodes(a, b) => (link.from, link.to) == (a, b) || (link.from, link.to) == (b, a),
            Ends::Node(_) | Ends::Named(..) => [link.from, link.to].map(Some).contains(&named),
            Ends::Plane(plane) => network.plane_of(link) == plane,
        };
        let links = network.links.iter().enumerate().filter(|(_, link)| is_meant(link));
        let links: Vec<u32> = links.map(|(number, _)| number as u32).collect();
        match self {
            _ if !links.is_empty() => Ok(links),
            Ends::Nodes(a, b) => {
                let (last, first_switch) = (network.hosts - 1, network.links[0].to);
                Err(SettingsError::NoLink { a: *a, b: *b, last, first_switch })
            }
            Ends::Node(node) => Err(no_node(format!("node {node}"), network)),
            Ends::Named(kind, number) => Err(no_node(format!("{kind}-{number}"), network)),
            Ends::Plane(plane) => {
                Err(SettingsError::NoPlane { plane: *plane, last: network.wires() - 1 })
            }
        }
    }
}

/// Returns the error for a node that a network does not have; it lists the node numbers that exist.
fn no_node(node: String, network: &Network) -> SettingsError {
    let kinds = network.kinds().into_iter().map(|(kind, nodes)| {
        let last = nodes.len() - 1;
        format!("{kind}-0 to {kind}-{last} are {} to {}", nodes.start, nodes.end - 1)
    });
    SettingsError::NoNode { node, known: kinds.collect::<Vec<_>>().join(", ") }
}

/// Link events, as they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkSettings {
    /// Links, time, and new rate in megabits per second; `u64::MAX` stands for the link's own rate.
    changes: Vec<(Ends, u64, u64)>,
    /// Links, time, and new latency in picoseconds.
    delays: Vec<(Ends, u64, u64)>,
}

impl LinkSettings {
    /// Returns `None` if the setting is of another kind, and `Some(None)` if the value is invalid.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        let changes = match name {
            "fail" => fail(value),
            "degrade" => degrade(value).map(|change| vec![change]),
            "delay" => return Some(delay(value).map(|delay| self.delays.push(delay))),
            _ => return None,
        };
        Some(changes.map(|changes| self.changes.extend(changes)))
    }

    /// Returns the changes of rate, in both directions of every link.
    ///
    /// # Errors
    /// Names nodes that no link joins, or a node or plane that does not exist.
    pub(super) fn changes(&self, network: &Network) -> Result<Vec<Change>, SettingsError> {
        let mut changes = Vec::new();
        for &(ref ends, at_ps, megabits) in &self.changes {
            changes.extend(ends.links(network)?.into_iter().map(|link| {
                let own = network.links[link as usize].megabits;
                Change { at_ps, link, megabits: if megabits == u64::MAX { own } else { megabits } }
            }));
        }
        Ok(changes)
    }

    /// Returns the increases of latency, in both directions of every link.
    ///
    /// # Errors
    /// As [`Self::changes`], or if a latency would decrease.
    pub(super) fn delays(&self, network: &Network) -> Result<Vec<Delay>, SettingsError> {
        let mut delays = Vec::new();
        for &(ref ends, at_ps, latency_ps) in &self.delays {
            for link in ends.links(network)? {
                let Link { from, to, latency_ps: own, .. } = network.links[link as usize];
                if latency_ps < own {
                    let (from, to) = (from.min(to), from.max(to));
                    return Err(SettingsError::DelayTooShort { from, to, own_ps: own });
                }
                delays.push(Delay { at_ps, link, latency_ps });
            }
        }
        Ok(delays)
    }
}

/// Parses `LINKS@TIME` or `LINKS@TIME..TIME`.
fn fail(text: &str) -> Option<Vec<(Ends, u64, u64)>> {
    let (ends, when) = text.split_once('@')?;
    let ends = Ends::parse(ends)?;
    let (from, until) = when.split_once("..").unwrap_or((when, ""));
    let from = time(from)?;
    let mut changes = vec![(ends.clone(), from, 0)];
    if !until.is_empty() {
        let until = time(until).filter(|until| from < *until)?;
        changes.push((ends, until, u64::MAX));
    }
    Some(changes)
}

/// Parses `LINKS@TIME:RATE`.
fn degrade(text: &str) -> Option<(Ends, u64, u64)> {
    let (ends, when) = text.split_once('@')?;
    let (at, new) = when.split_once(':')?;
    Some((Ends::parse(ends)?, time(at)?, rate(new)?))
}

/// Parses `LINKS@TIME:LATENCY`.
fn delay(text: &str) -> Option<(Ends, u64, u64)> {
    let (ends, when) = text.split_once('@')?;
    let (at, latency) = when.split_once(':')?;
    Some((Ends::parse(ends)?, time(at)?, latency_of(latency)?))
}

/// Parses the latency of a link, into picoseconds.
pub(super) fn latency_of(text: &str) -> Option<u64> {
    time(text).filter(|ps| (1..=LATENCY_MAX_PS).contains(ps))
}
