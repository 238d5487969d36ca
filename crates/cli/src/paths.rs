//! Paths that do not work, and networks that drop long packets without a word.

use std::collections::BTreeSet;
use std::time::Duration;

use fairway::{LongPackets, PathStats, Peer};
use serde_json::{Value, json};

use crate::failure::Failure;

/// While nothing completes, the peer's state is looked at so often.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Every network of ours passes packets of this payload: 1,280 bytes with all headers (RFC 8200).
const PASSES_EVERYWHERE: u32 = 1024;

/// Short packets of ours that may have been acknowledged meanwhile: probes and messages.
const SHORT_PACKETS: u64 = 64;

/// The paths of a connection that are out of use, because what was sent over them got lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeadPaths {
    count: usize,
    of: usize,
    /// UDP ports, here and there, over which no path works although some were tried.
    own_ports: BTreeSet<u16>,
    remote_ports: BTreeSet<u16>,
}

impl DeadPaths {
    pub(crate) fn of(peer: &Peer) -> DeadPaths {
        DeadPaths::among(&peer.stats().paths)
    }

    fn among(paths: &[PathStats]) -> DeadPaths {
        let ports = |end: fn(&PathStats) -> u16| -> BTreeSet<u16> {
            let working: BTreeSet<u16> = paths.iter().filter(|path| path.usable).map(end).collect();
            let dead = paths.iter().filter(|path| !path.usable).map(end);
            dead.filter(|port| !working.contains(port)).collect()
        };
        DeadPaths {
            count: paths.iter().filter(|path| !path.usable).count(),
            of: paths.len(),
            own_ports: ports(|path| path.own_port),
            remote_ports: ports(|path| path.remote_port),
        }
    }

    /// For people, if there is anything to say.
    pub(crate) fn text(&self, peer: &Peer) -> Option<String> {
        let DeadPaths { count, of, own_ports, remote_ports } = self;
        if *count == 0 || !peer.is_alive() {
            return None;
        }
        let list = |ports: &BTreeSet<u16>| -> String {
            ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
        };
        let ends = match (own_ports.is_empty(), remote_ports.is_empty()) {
            (_, false) => {
                format!(": UDP ports {} of {}", list(remote_ports), peer.address().ip())
            }
            (false, true) => format!(": own UDP ports {}", list(own_ports)),
            (true, true) => String::new(),
        };
        Some(format!(
            "{count} of {of} paths to {} do not work{ends}; check that firewalls let these through",
            peer.address()
        ))
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "count": self.count,
            "own_ports": self.own_ports,
            "remote_ports": self.remote_ports,
        })
    }
}

/// What had been acknowledged of a connection when something began.
pub(crate) struct Watch {
    acknowledged: u64,
}

impl Watch {
    pub(crate) fn new(peer: &Peer) -> Watch {
        Watch { acknowledged: acknowledged(peer) }
    }

    /// Why nothing has completed since, if the network drops packets as long as ours: probes of
    /// full size were not answered (see [`LongPackets`]), and hardly a packet was acknowledged,
    /// although the peer answers. That nothing completes proves nothing by itself, because a host
    /// whose cores are busy is as silent.
    pub(crate) fn black_hole(&self, peer: &Peer, size: u64, waited: Duration) -> Option<Failure> {
        let mtu = peer.mtu();
        let are_lost = peer.long_packets() == LongPackets::Vanish
            && acknowledged(peer) < self.acknowledged + SHORT_PACKETS;
        let are_long = mtu > PASSES_EVERYWHERE && size > u64::from(PASSES_EVERYWHERE);
        if !are_lost || !are_long || !peer.is_alive() {
            return None;
        }
        let longest = size.min(u64::from(mtu));
        Some(Failure::failed(format!(
            "{} answers, but no packet of {longest} bytes has got through in {:.1} s: the \
             network seems to drop packets longer than its path MTU without reporting it. Use \
             --mtu {PASSES_EVERYWHERE}, or set the MTU of the interface here to that of the path",
            peer.address(),
            waited.as_secs_f64()
        )))
    }
}

/// Packets that the peer has acknowledged.
fn acknowledged(peer: &Peer) -> u64 {
    let stats = peer.stats();
    stats.sent.saturating_sub(stats.lost).saturating_sub(u64::from(stats.in_flight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_ports_are_those_without_a_working_path() {
        let path = |own_port, remote_port, usable| PathStats {
            own_port,
            remote_port,
            usable,
            ..PathStats::default()
        };
        let paths = [
            path(1, 11, true),
            path(1, 12, false),
            path(2, 11, true),
            path(2, 12, false),
            path(3, 13, true),
            path(3, 11, false),
        ];
        let dead = DeadPaths::among(&paths);
        assert_eq!((dead.count, dead.of), (3, 6));
        assert_eq!(dead.remote_ports, BTreeSet::from([12]));
        assert_eq!(dead.own_ports, BTreeSet::new());
        assert_eq!(dead.json()["remote_ports"], json!([12]));
    }
}
