//! Connects to a machine with a server, and sends messages over each of its paths.
//!
//! The messages are for a Jetty that does not exist, so that all of Fairway's servers answer them
//! in the same way without doing any work: a refusal returns like an acknowledgement.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use fairway::{
    Context, Error, Jetty, JettyOptions, LocalSlice, LongPackets, Memory, PathStats, Peer, Rights,
    Status, To,
};
use fairway_port::mtu_towards;

use crate::doctor::readings::{Connection, PeerReading};
use crate::failure::Failure;
use crate::net::{PERF, SERVE, Service, resolve, split};

/// A Jetty that none of Fairway's servers has.
const NO_JETTY: u32 = 0xf_fff0;
/// Number of messages that are timed one by one.
const TIMED: usize = 64;
/// Largest number of messages at a time, so that they use many paths.
const BURST: u64 = 64;
/// Longest wait for answers of paths, and for the test of long packets.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of a message whose round trip is measured.
const MESSAGE_BYTES: u64 = 8;
/// Bytes of a message for which a path is chosen. Messages up to 16 KiB all take the first one.
const LONG_MESSAGE_BYTES: u64 = 17 * 1024;

/// Connects to `host` and measures the connection. Without a port in its name the ports of both
/// servers are tried.
pub(in crate::doctor) fn probe(host: &str, timeout: Duration) -> Result<PeerReading, Failure> {
    // An invalid name is a usage error, not a finding.
    let (_, port) = split(host)?;
    let reading = |result| Ok(PeerReading { host: host.to_owned(), port, result });
    let mut unreached: Option<Unreached> = None;
    for service in services(port) {
        match connect(&resolve(host, service.port, None)?, service, timeout) {
            Ok(connection) => return reading(Ok(connection)),
            Err(error) if unreached.as_ref().is_none_or(|first| first.tells_less(&error)) => {
                unreached = Some(error);
            }
            Err(_) => {}
        }
    }
    let failure = unreached.map(|unreached| unreached.failure.to_string());
    reading(Err(failure.unwrap_or_default()))
}

/// The servers that may listen at this port: with a port, one connection shows what is there.
fn services(port: Option<u16>) -> &'static [&'static Service] {
    match port {
        None => &[&PERF, &SERVE],
        Some(port) if port == SERVE.port => &[&SERVE],
        Some(_) => &[&PERF],
    }
}

/// Why there is no connection.
struct Unreached {
    /// Whether the host has answered that nothing listens there.
    is_refused: bool,
    failure: Failure,
}

impl Unreached {
    /// Whether another attempt shows more: that nothing listens at one port is no surprise where
    /// the other server runs.
    fn tells_less(&self, other: &Unreached) -> bool {
        self.is_refused && !other.is_refused
    }
}

impl From<Failure> for Unreached {
    fn from(failure: Failure) -> Unreached {
        Unreached { is_refused: false, failure }
    }
}

impl From<Error> for Unreached {
    fn from(error: Error) -> Unreached {
        Failure::from(error).into()
    }
}

fn connect(
    servers: &[SocketAddr],
    service: &Service,
    timeout: Duration,
) -> Result<Connection, Unreached> {
    let mut unreached = Unreached::from(Failure::failed("the host has no address"));
    for server in servers {
        // Every path has its turn.
        let context = Context::builder().paths(16).policy_named("path=spray").build()?;
        let start = Instant::now();
        match context.connect(*server, timeout) {
            Ok(peer) => {
                let set_up = start.elapsed();
                let connection = examine(&context, &peer, service, set_up)?;
                // The farewell's answer is not needed, because everything has been measured.
                let _ = context.shutdown(Duration::from_secs(1));
                return Ok(connection);
            }
            Err(error) => {
                let is_refused = matches!(error, Error::NoListener { .. });
                unreached = Unreached { is_refused, failure: service.explain(error) };
            }
        }
    }
    Err(unreached)
}

fn examine(
    context: &Context,
    peer: &Peer,
    service: &Service,
    set_up: Duration,
) -> Result<Connection, Failure> {
    let options = JettyOptions::default().depth(BURST as u32);
    let jetty = context.create_jetty(options)?;
    let memory = Memory::zeroed(LONG_MESSAGE_BYTES as usize).map_err(fairway::Error::from)?;
    let memory = context.register(memory, Rights::NONE)?;
    let mut round_trips = Vec::with_capacity(TIMED);
    for _ in 0..TIMED {
        let start = Instant::now();
        exchange(&jetty, peer, memory.slice(0..MESSAGE_BYTES), 1)?;
        round_trips.push(start.elapsed());
    }
    round_trips.sort();
    let start = Instant::now();
    let is_known = || {
        let paths = peer.stats().paths;
        peer.long_packets() != LongPackets::Unknown && paths.iter().all(has_answered)
    };
    while !is_known() && start.elapsed() < TIMEOUT && peer.is_alive() {
        exchange(&jetty, peer, memory.slice(0..LONG_MESSAGE_BYTES), BURST)?;
    }
    let paths = peer.stats().paths;
    let anywhere = match peer.address() {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    Ok(Connection {
        address: peer.address(),
        server: service.command,
        set_up,
        mtu: peer.mtu(),
        route_mtu: mtu_towards(anywhere, &peer.address()).ok(),
        long_packets: match peer.long_packets() {
            LongPackets::Unknown => None,
            found => Some(found == LongPackets::Arrive),
        },
        paths: peer.paths(),
        answered: paths.iter().filter(|path| has_answered(path)).count() as u32,
        silent_ports: silent_ports(&paths),
        round_trips,
    })
}

/// Sends `count` messages, and waits until all are refused.
fn exchange(jetty: &Jetty, peer: &Peer, bytes: LocalSlice<'_>, count: u64) -> Result<(), Error> {
    for id in 0..count {
        jetty.send(peer, To::new(NO_JETTY), bytes, id)?;
    }
    for _ in 0..count {
        let done = jetty.wait(TIMEOUT)?;
        if done.status != Status::RemoteNoJetty && done.status != Status::Success {
            return Err(Error::Failed { operation: "message", status: done.status });
        }
    }
    Ok(())
}

/// Whether a packet sent over this path was acknowledged: then its round trip was measured. Packets
/// that are neither lost nor in flight prove nothing, because some are sent again by another path
/// without having been declared lost.
fn has_answered(path: &PathStats) -> bool {
    !path.rtt.is_zero()
}

/// Ports of the peer none of whose paths has answered.
fn silent_ports(paths: &[PathStats]) -> Vec<u16> {
    let answering: BTreeSet<u16> =
        paths.iter().filter(|path| has_answered(path)).map(|path| path.remote_port).collect();
    let all: BTreeSet<u16> = paths.iter().map(|path| path.remote_port).collect();
    all.difference(&answering).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_silent_when_no_path_to_it_has_answered() {
        let path = |remote_port, sent, us| PathStats {
            remote_port,
            sent,
            rtt: Duration::from_micros(us),
            ..PathStats::default()
        };
        // Regression test: a packet that was taken from its path without being declared lost, to be
        // sent again by another one, counted as acknowledged.
        let paths = [path(1, 4, 0), path(1, 4, 9), path(2, 2, 0), path(2, 0, 0), path(3, 9, 70)];
        assert_eq!(silent_ports(&paths), [2]);
    }

    #[test]
    fn named_port_is_tried_once() {
        let commands = |port| services(port).iter().map(|it| it.command).collect::<Vec<_>>();
        assert_eq!(commands(None), [PERF.command, SERVE.command]);
        assert_eq!(commands(Some(SERVE.port)), [SERVE.command]);
        assert_eq!(commands(Some(5600)), [PERF.command]);
    }

    #[test]
    fn silence_of_one_server_tells_more_than_the_absence_of_the_other() {
        let failure = |is_refused| Unreached { is_refused, failure: Failure::failed("") };
        assert!(failure(true).tells_less(&failure(false)));
        assert!(!failure(false).tells_less(&failure(true)));
        assert!(!failure(true).tells_less(&failure(true)));
    }
}
