//! A relay between programs, with impaired paths.
//!
//! Each listening port stands for a target. For every client that sends to it the relay opens
//! another socket towards the target, so that answers find their way back, as a router with address
//! translation does. Like some of these routers it preserves the client's port number if possible
//! (at the relay's own address), because Fairway's hosts send each other their port numbers, and
//! answer to those.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::emulate::shaper::{Shaper, ShaperCounters};
use crate::emulate::spec::Spec;
use crate::memory::RawSlice;
use crate::udp::{
    Address, Doorbell, PortCounters, ReceiveBuffer, Train, UdpConfig, UdpPort, Waiter,
};

/// Configuration of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Pairs of a listening address and the target to which packets are forwarded. At least one
    /// pair, all of one address family.
    pub routes: Vec<(SocketAddr, SocketAddr)>,
    /// Impairments of the paths. The path number of a packet, in either direction, is the ordinal
    /// of its route, plus the number of routes times the ordinal of its client (clients are
    /// numbered as they appear, by address and port).
    pub spec: Spec,
    /// Seed of the paths' decisions.
    pub seed: u64,
    /// Maximum number of pairs of client and route; packets of further pairs are dropped and
    /// counted.
    pub flows_max: usize,
    /// Idle time after which a pair may be replaced by another.
    pub idle_after: Duration,
    /// Size of the send and receive buffers to request, in bytes per socket.
    pub buffer_bytes: usize,
}

/// Counters of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCounters {
    /// Packets from clients.
    pub forward: u64,
    /// Packets from targets.
    pub backward: u64,
    /// Packets from another address than a flow's target, dropped.
    pub strays: u64,
    /// Packets dropped because there were [`RelayConfig::flows_max`] flows, none of which was idle.
    pub turned_away: u64,
    /// Trains that the kernel refused.
    pub refused: u64,
    /// Counters of the paths.
    pub paths: ShaperCounters,
    /// Counters of the sockets.
    pub port: PortCounters,
}

/// A relay: call [`Relay::bind`], then [`Relay::run`].
#[derive(Debug)]
pub struct Relay {
    config: RelayConfig,
    /// The listening sockets, then one socket for each flow.
    port: UdpPort,
    waiter: Waiter,
    shaper: Shaper,
    buffer: ReceiveBuffer,
    train: Train,
    flows: Vec<Flow>,
    by_client: HashMap<(Address, usize), usize>,
    /// Clients by ordinal; a client without flows frees its place.
    clients: Vec<Option<(Address, usize)>>,
    origin: Instant,
    counters: RelayCounters,
}

#[derive(Debug)]
struct Flow {
    client: Address,
    client_ordinal: usize,
    route: usize,
    target: Address,
    used_ns: u64,
}

/// Interval at which the relay checks whether it is to stop, if its doorbell is not rung.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// Maximum number of arrivals received from one socket before the next is served.
const TURN: usize = 16;

impl Relay {
    /// Opens the listening sockets. The times of blackholes count from this call.
    ///
    /// # Errors
    /// No route, families that differ, or an address that can't be listened on (which it names).
    pub fn bind(config: RelayConfig) -> io::Result<Self> {
        let (first, _) = *config.routes.first().ok_or_else(|| invalid("no route to relay"))?;
        let ipv6 = first.is_ipv6();
        if config.routes.iter().any(|(a, b)| a.is_ipv6() != ipv6 || b.is_ipv6() != ipv6) {
            return Err(invalid("a relay's addresses must be all IPv4 or all IPv6"));
        }
        let mut port = UdpPort::bind(&UdpConfig {
            bind: first.ip(),
            first_port: first.port(),
            sockets: 1,
            buffer_bytes: config.buffer_bytes,
        })?;
        for (listen, _) in &config.routes[1..] {
            port.add_socket(*listen)?;
        }
        Ok(Relay {
            waiter: port.waiter()?,
            shaper: Shaper::new(config.spec.clone(), config.seed, 0, 2),
            buffer: ReceiveBuffer::new(),
            train: port.new_train(),
            flows: Vec::new(),
            by_client: HashMap::new(),
            clients: Vec::new(),
            origin: Instant::now(),
            counters: RelayCounters::default(),
            port,
            config,
        })
    }

    /// The listening addresses, in the order of the routes.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.port.local_addrs()[..self.config.routes.len()]
    }

    /// Returns a doorbell that wakes a running relay, so that it checks at once whether it is to
    /// stop.
    pub fn doorbell(&self) -> Doorbell {
        self.waiter.doorbell()
    }

    /// Counters of the relay.
    pub fn counters(&self) -> RelayCounters {
        let mut counters = self.counters;
        counters.paths = self.shaper.counters();
        counters.port = *self.port.counters();
        counters
    }

    /// Relays until `stop` is set.
    ///
    /// # Errors
    /// The kernel fails to wait or to receive. What it refuses to send is counted and dropped.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut ready = Vec::new();
        while !stop.load(Ordering::Acquire) {
            let timeout = match self.shaper.next_release_ns() {
                Some(due) => {
                    Duration::from_nanos(due.saturating_sub(self.now_ns())).min(STOP_CHECK)
                }
                None => STOP_CHECK,
            };
            self.waiter.wait(Some(timeout), &mut ready)?;
            for &socket in &ready {
                self.relay_from(socket)?;
            }
            let now_ns = self.now_ns();
            if self.shaper.release_due(now_ns, &mut self.port).is_err() {
                self.counters.refused += 1;
            }
        }
        Ok(())
    }

    /// Receives the arrivals of a socket, up to the limit per turn.
    fn relay_from(&mut self, socket: usize) -> io::Result<()> {
        for _ in 0..TURN {
            let now_ns = self.now_ns();
            let Some(arrival) = self.port.receive(socket, &mut self.buffer)? else {
                return Ok(());
            };
            let (from, packets) = (*arrival.from(), arrival.segments());
            let whole = (arrival.ecn(), arrival.len(), arrival.segment_size());
            let Some(leg) = self.leg(now_ns, socket, from, packets as u64)? else {
                continue;
            };
            self.pass_on(now_ns, leg, whole);
        }
        Ok(())
    }

    /// Returns the destination of packets from `from` that arrived on `socket`, if there is one.
    fn leg(
        &mut self,
        now_ns: u64,
        socket: usize,
        from: Address,
        packets: u64,
    ) -> io::Result<Option<Leg>> {
        let routes = self.config.routes.len();
        let (flow, direction) = if socket < routes {
            let Some(flow) = self.flow_of(now_ns, from, socket)? else {
                self.counters.turned_away += packets;
                return Ok(None);
            };
            self.counters.forward += packets;
            (flow, 0)
        } else {
            let flow = socket - routes;
            if self.flows[flow].target != from {
                self.counters.strays += packets;
                return Ok(None);
            }
            self.counters.backward += packets;
            (flow, 1)
        };
        let entry = &mut self.flows[flow];
        entry.used_ns = now_ns;
        let path = entry.route + routes * entry.client_ordinal;
        let (socket, to) = if direction == 0 {
            (routes + flow, entry.target)
        } else {
            (entry.route, entry.client)
        };
        Ok(Some(Leg { lane: 2 * path + direction, socket, to }))
    }

    /// Sends the packets in the receive buffer.
    fn pass_on(&mut self, now_ns: u64, leg: Leg, whole: (crate::Ecn, usize, usize)) {
        let (ecn, len, segment_size) = whole;
        let mut at = 0;
        self.train.clear();
        self.train.set_ecn(ecn);
        while at < len {
            let size = segment_size.min(len - at);
            // SAFETY: the buffer is not received into again before the train is sent.
            let packet = unsafe { RawSlice::new(self.buffer.received(at, size).as_ptr(), size) };
            if self.train.push(&[], packet).is_err() {
                if self.train.is_empty() {
                    self.counters.refused += 1;
                    return;
                }
                self.send_train(now_ns, leg);
                self.train.set_ecn(ecn);
                continue;
            }
            at += size;
        }
        self.send_train(now_ns, leg);
    }

    fn send_train(&mut self, now_ns: u64, leg: Leg) {
        let route = (leg.socket, &leg.to);
        let result = self.shaper.send(now_ns, leg.lane, &mut self.port, route, &self.train);
        self.counters.refused += u64::from(result.is_err());
        self.train.clear();
    }

    /// Returns the flow of a client and a route, which is created if needed and if there is room.
    fn flow_of(&mut self, now_ns: u64, client: Address, route: usize) -> io::Result<Option<usize>> {
        if let Some(&flow) = self.by_client.get(&(client, route)) {
            return Ok(Some(flow));
        }
        let any = SocketAddr::new(unspecified(client.is_ipv6()), 0);
        let (listen, target) = self.config.routes[route];
        let same = SocketAddr::new(listen.ip(), SocketAddr::from(client).port());
        let routes = self.config.routes.len();
        let flow = if self.flows.len() < self.config.flows_max {
            // The port number is taken if the client is on this machine and bound to every address.
            if self.port.add_socket_towards(same, target).is_err() {
                self.port.add_socket(any)?;
            }
            self.flows.len()
        } else if let Some(idle) = self.most_idle(now_ns) {
            let index = routes + idle;
            if self.port.replace_socket_towards(index, same, target).is_err() {
                self.port.replace_socket(index, any)?;
            }
            self.forget(idle);
            idle
        } else {
            return Ok(None);
        };
        self.waiter.watch(self.port.socket_fd(routes + flow), routes + flow)?;
        let entry = Flow {
            client,
            client_ordinal: self.enrol(client),
            route,
            target: self.config.routes[route].1.into(),
            used_ns: now_ns,
        };
        if flow == self.flows.len() {
            self.flows.push(entry)
        } else {
            self.flows[flow] = entry
        }
        self.by_client.insert((client, route), flow);
        Ok(Some(flow))
    }

    fn most_idle(&self, now_ns: u64) -> Option<usize> {
        let idle_ns = u64::try_from(self.config.idle_after.as_nanos()).unwrap_or(u64::MAX);
        let (index, flow) = self.flows.iter().enumerate().min_by_key(|(_, flow)| flow.used_ns)?;
        (now_ns.saturating_sub(flow.used_ns) >= idle_ns).then_some(index)
    }

    fn forget(&mut self, flow: usize) {
        let Flow { client, client_ordinal, route, .. } = self.flows[flow];
        self.by_client.remove(&(client, route));
        let place = &mut self.clients[client_ordinal];
        *place = place.map(|(client, flows)| (client, flows - 1)).filter(|(_, flows)| *flows > 0);
    }

    /// Returns the ordinal of a client, and counts one more flow for it.
    fn enrol(&mut self, client: Address) -> usize {
        let known = |place: &Option<(Address, usize)>| place.is_some_and(|(c, _)| c == client);
        let ordinal = self.clients.iter().position(known);
        let ordinal = ordinal.or_else(|| self.clients.iter().position(Option::is_none));
        let ordinal = ordinal.unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        let flows = self.clients[ordinal].map_or(0, |(_, flows)| flows);
        self.clients[ordinal] = Some((client, flows + 1));
        ordinal
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// One direction of a flow: the lane whose model decides, and the socket and destination of its
/// packets.
#[derive(Clone, Copy)]
struct Leg {
    lane: usize,
    socket: usize,
    to: Address,
}

fn unspecified(ipv6: bool) -> IpAddr {
    if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
