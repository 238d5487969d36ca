//! Paths that do not work, networks that silently drop long packets, and connections that stand
//! still.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fairway::{Context, LongPackets, PathStats, Peer};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Interval at which the peer's state is checked while nothing completes.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Payload that every IPv6 network passes: 1,280 bytes with all headers (RFC 8200).
const PASSES_EVERYWHERE: u32 = 1024;

/// Time within which a path that is out of use and works answers a probe; one is sent every 50 ms.
const PROBED: Duration = Duration::from_millis(200);

/// Number of short packets that may have been acknowledged meanwhile: probes and messages.
const SHORT_PACKETS: u64 = 64;

/// The paths of a connection that are out of use, because packets sent over them were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeadPaths {
    count: usize,
    of: usize,
    /// Local and remote UDP ports all of whose tried paths failed.
    own_ports: BTreeSet<u16>,
    remote_ports: BTreeSet<u16>,
}

impl DeadPaths {
    /// Returns the paths of a peer that are out of use. Waits up to 0.2 s for the answers to probes
    /// of them: where a program has waited for its core, acknowledgements are late, and paths that
    /// work are out of use until they have answered a probe.
    pub(crate) fn of(peer: &Peer) -> DeadPaths {
        let begun = Instant::now();
        DeadPaths::that_stay(
            || peer.stats().paths,
            || {
                std::thread::sleep(Duration::from_millis(5));
                peer.is_alive() && begun.elapsed() < PROBED
            },
        )
    }

    /// Looks at the paths until none is out of use, or until `wait` returns false.
    fn that_stay(
        mut look: impl FnMut() -> Vec<PathStats>,
        mut wait: impl FnMut() -> bool,
    ) -> DeadPaths {
        loop {
            let dead = DeadPaths::among(&look());
            if dead.count == 0 || !wait() {
                return dead;
            }
        }
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

    /// The paths of two connections together.
    pub(crate) fn with(mut self, mut other: DeadPaths) -> DeadPaths {
        self.count += other.count;
        self.of += other.of;
        self.own_ports.append(&mut other.own_ports);
        self.remote_ports.append(&mut other.remote_ports);
        self
    }

    /// Description as text; `None` if all paths work or the peer is dead.
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

/// Number of acknowledged packets of a connection at the start of an operation.
pub(crate) struct Watch {
    acknowledged: u64,
}

impl Watch {
    pub(crate) fn new(peer: &Peer) -> Watch {
        Watch { acknowledged: acknowledged(peer) }
    }

    /// Explains why nothing has completed since the start, if the network drops long packets:
    /// probes of full size were not answered (see [`LongPackets`]), and hardly any packet was
    /// acknowledged, although the peer answers. The lack of completions alone proves nothing,
    /// because a host whose cores are busy is equally silent.
    pub(crate) fn black_hole(&self, peer: &Peer, size: u64, waited: Duration) -> Option<Failure> {
        let mtu = peer.mtu();
        let are_lost = peer.long_packets() == LongPackets::AreLost
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

/// Longest time for which nothing may cross a connection while operations are under way.
pub(crate) const STANDSTILL: Duration = Duration::from_secs(20);
/// Most of the time between two calls that counts: a process that was stopped for a while does not
/// know what the network has done meanwhile.
const SEEN_MAX: Duration = Duration::from_millis(500);

/// Measures for how long nothing has crossed a connection. An operation may take any time to
/// complete over a slow network; but then its packets are acknowledged.
pub(crate) struct Progress {
    /// Largest number of packets so far that have crossed.
    crossed: u64,
    /// Time that has been spent waiting since then.
    still: Duration,
    /// Times of the last call, and of the last look at the number of packets.
    called_at: Instant,
    looked_at: Instant,
}

impl Progress {
    pub(crate) fn new(now: Instant) -> Progress {
        Progress { crossed: 0, still: Duration::ZERO, called_at: now, looked_at: now }
    }

    /// Notes that an operation has completed.
    pub(crate) fn note(&mut self, now: Instant) {
        (self.still, self.called_at) = (Duration::ZERO, now);
    }

    /// Returns how long nothing has crossed. `crossed`, which is called at intervals, returns the
    /// number of packets that have.
    pub(crate) fn standstill(&mut self, now: Instant, crossed: impl FnOnce() -> u64) -> Duration {
        self.still += now.saturating_duration_since(self.called_at).min(SEEN_MAX);
        self.called_at = now;
        if now.saturating_duration_since(self.looked_at) >= LOOK_EVERY {
            self.looked_at = now;
            let crossed = crossed();
            if crossed > self.crossed {
                (self.crossed, self.still) = (crossed, Duration::ZERO);
            }
        }
        self.still
    }
}

/// Number of data packets that have crossed the only connection of a context, in both directions.
pub(crate) fn crossed(context: &Context, peer: &Peer) -> u64 {
    let engine = context.counters().engine;
    // A packet that is repeated as a tail loss probe is not declared lost first; and a packet that
    // was declared lost may arrive after all.
    let sent = acknowledged(peer).saturating_sub(engine.tail_probes) + engine.lost_revoked;
    sent + engine.data_received
}

/// Number of packets that the peer has acknowledged.
fn acknowledged(peer: &Peer) -> u64 {
    let stats = peer.stats();
    stats.sent.saturating_sub(stats.lost).saturating_sub(u64::from(stats.in_flight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_answers_a_probe_is_not_dead() {
        let looks = |answers_at: u32| {
            let mut count = 0;
            let look = || {
                count += 1;
                vec![PathStats { usable: count >= answers_at, ..PathStats::default() }]
            };
            let mut waits = 0;
            let wait = || {
                waits += 1;
                waits < 40
            };
            let dead = DeadPaths::that_stay(look, wait).count;
            (dead, count)
        };
        assert_eq!([looks(1), looks(10), looks(40)], [(0, 1), (0, 10), (0, 40)]);
        assert_eq!(looks(41), (1, 40));
    }

    /// Regression test: a copy over a link of 4 Mb/s ended because none of its 16 MiB under way was
    /// complete after 20 seconds.
    #[test]
    fn connection_whose_packets_cross_does_not_stand_still() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        let mut at = |ms, crossed| {
            progress.standstill(start + Duration::from_millis(ms), || crossed).as_millis()
        };
        for second in 1..60 {
            assert_eq!(at(second * 1000, 1 + second), 0, "a packet each second");
        }
        assert_eq!(at(3_600_000, 60), 500, "the process was stopped for an hour");
        assert_eq!(at(3_600_100, 61), 600, "too early for another look");
        assert_eq!(at(3_600_500, 61), 0);
        assert_eq!((at(3_601_000, 0), at(3_601_500, 61)), (500, 1000), "nothing more has crossed");
        progress.note(start + Duration::from_millis(3_601_600));
        let later = start + Duration::from_millis(3_601_700);
        assert_eq!(progress.standstill(later, || 0), Duration::from_millis(100));
    }

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
