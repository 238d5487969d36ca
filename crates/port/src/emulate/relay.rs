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

use crate::descriptors::descriptors;
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
    /// counted. Each pair has a socket, so the process's limit of file descriptors is another
    /// maximum.
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
    /// Packets dropped because there were [`RelayConfig::flows_max`] flows, none of which was idle,
    /// or because no socket could be opened for a further flow.
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
    /// By ordinal of their sockets. `None`: the socket is not watched, and its place is free.
    flows: Vec<Option<Flow>>,
    /// Maximum number of flows.
    flows_max: usize,
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

/// Number of file descriptors that flows leave free: a socket is opened before the one that it
/// replaces is closed, and the program opens files.
const DESCRIPTORS_LEFT: u64 = 16;

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
        let waiter = port.waiter()?;
        let most = descriptors().map_or(u64::MAX, |(limit, open)| {
            limit.saturating_sub(open).saturating_sub(DESCRIPTORS_LEFT).max(1)
        });
        Ok(Relay {
            waiter,
            flows_max: config.flows_max.min(usize::try_from(most).unwrap_or(usize::MAX)),
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
            let Some(leg) = self.leg(now_ns, socket, from, packets as u64) else {
                continue;
            };
            self.pass_on(now_ns, leg, whole);
        }
        Ok(())
    }

    /// Returns the destination of packets from `from` that arrived on `socket`, if there is one.
    fn leg(&mut self, now_ns: u64, socket: usize, from: Address, packets: u64) -> Option<Leg> {
        let routes = self.config.routes.len();
        let (flow, direction) = match socket.checked_sub(routes) {
            None => match self.flow_of(now_ns, from, socket) {
                Some(flow) => (flow, 0),
                None => {
                    self.counters.turned_away += packets;
                    return None;
                }
            },
            Some(flow) => (flow, 1),
        };
        let Some(entry) =
            self.flows[flow].as_mut().filter(|entry| direction == 0 || entry.target == from)
        else {
            self.counters.strays += packets;
            return None;
        };
        entry.used_ns = now_ns;
        let path = entry.route + routes * entry.client_ordinal;
        let (socket, to) = match direction {
            0 => {
                self.counters.forward += packets;
                (routes + flow, entry.target)
            }
            _ => {
                self.counters.backward += packets;
                (entry.route, entry.client)
            }
        };
        Some(Leg { lane: 2 * path + direction, socket, to })
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

    /// Returns the flow of a client and a route, which is created if needed, if there is room, and
    /// if the system gives it a socket.
    fn flow_of(&mut self, now_ns: u64, client: Address, route: usize) -> Option<usize> {
        if let Some(&flow) = self.by_client.get(&(client, route)) {
            return Some(flow);
        }
        let routes = self.config.routes.len();
        let flow = match self.free_place(now_ns) {
            Some(place) => {
                self.replace_socket(routes + place, client, route).ok()?;
                self.forget(place);
                place
            }
            None if self.flows.len() < self.flows_max => {
                self.add_socket(client, route).ok()?;
                self.flows.push(None);
                self.flows.len() - 1
            }
            None => return None,
        };
        // A socket that can't be watched is replaced when the next client needs a place.
        self.waiter.watch(self.port.socket_fd(routes + flow), routes + flow).ok()?;
        self.flows[flow] = Some(Flow {
            client,
            client_ordinal: self.enrol(client),
            route,
            target: self.config.routes[route].1.into(),
            used_ns: now_ns,
        });
        self.by_client.insert((client, route), flow);
        Some(flow)
    }

    /// Opens a socket for a new flow. Without a connection to the target if need be: the client's
    /// port number is taken if the client is on this machine and bound to every address.
    fn add_socket(&mut self, client: Address, route: usize) -> io::Result<usize> {
        let (same, target) = self.ends(client, route);
        let added = self.port.add_socket_towards(same, target);
        added.or_else(|_| self.port.add_socket(any(client)))
    }

    /// As [`Relay::add_socket`], in the place of another socket, which is still there after a
    /// failure.
    fn replace_socket(&mut self, index: usize, client: Address, route: usize) -> io::Result<()> {
        let (same, target) = self.ends(client, route);
        let replaced = self.port.replace_socket_towards(index, same, target);
        replaced.or_else(|_| self.port.replace_socket(index, any(client)))
    }

    /// The address at which a client's packets leave, with its own port number, and their target.
    fn ends(&self, client: Address, route: usize) -> (SocketAddr, SocketAddr) {
        let (listen, target) = self.config.routes[route];
        (SocketAddr::new(listen.ip(), SocketAddr::from(client).port()), target)
    }

    /// Returns a place without a flow; or, if there is room for no more, that of the most idle one.
    fn free_place(&self, now_ns: u64) -> Option<usize> {
        let free = self.flows.iter().position(Option::is_none);
        free.or_else(|| self.most_idle(now_ns).filter(|_| self.flows.len() >= self.flows_max))
    }

    fn most_idle(&self, now_ns: u64) -> Option<usize> {
        let idle_ns = u64::try_from(self.config.idle_after.as_nanos()).unwrap_or(u64::MAX);
        let used = |flow: &Option<Flow>| flow.as_ref().map(|flow| flow.used_ns);
        let (index, flow) = self.flows.iter().enumerate().min_by_key(|(_, flow)| used(flow))?;
        (now_ns.saturating_sub(used(flow)?) >= idle_ns).then_some(index)
    }

    /// Frees the place of a flow, if it has one.
    fn forget(&mut self, place: usize) {
        let Some(Flow { client, client_ordinal, route, .. }) = self.flows[place].take() else {
            return;
        };
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

/// Any address and port of a client's family.
fn any(client: Address) -> SocketAddr {
    let address: IpAddr = match client.is_ipv6() {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(address, 0)
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
