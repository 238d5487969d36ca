//! The datapath: which packets go through memory, and the processes that attach.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use fairway_port::{
    ATTEND, Address, Arrival, Datapath, Doorbell, FallenBack, ReceiveBuffer, Sent, Train, UdpPort,
    Waiter, Watched, is_same_user, process_of,
};

use fairway_wire::{Duration, Instant};

use super::attach::{self, ADDRESSES_MAX, Greeting, Received};
use super::link::{self, End, Link, Put};
use crate::clock::{self, ns};
use crate::memory::Memory;
use crate::passing::accept;

/// Maximum number of links, which are as many processes of this host. Packets to others take the
/// sockets.
const LINKS_MAX: usize = 64;
/// Maximum number of connections whose greeting, or its answer, has not arrived. The oldest is
/// dropped first.
const WAITING_MAX: usize = 16;
/// Maximum number of addresses whose way is remembered.
const ROUTES_MAX: usize = 4096;
/// Time after which an address of this host to which no process is attached is tried again, in
/// nanoseconds.
const TRY_AGAIN_NS: u64 = 1_000_000_000;
/// Maximum number of addresses that are looked up in a period, and its length in nanoseconds.
const FINDS_MAX: u32 = 32;
const FIND_PERIOD_NS: u64 = 10_000_000;
/// Time for which connections are not accepted after the kernel has refused a descriptor for one.
const LISTEN_AGAIN: Duration = Duration::from_ms(100);
/// Index by which the waiter reports a connection; smaller ones are listeners.
const STREAM: usize = ADDRESSES_MAX;

/// The way to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// Through the sockets. The address is tried again at this time; `None`: it belongs to another
    /// host.
    Sockets { again_at_ns: Option<u64> },
    /// Through memory, to this socket of the other process.
    Memory { link: usize, socket: usize },
}

/// An address, and the local one from which packets to it leave, if that is not the kernel's choice
/// ([`Address::reached_at`]).
type Ends = (Address, Option<IpAddr>);

/// A connection that this side has made, and whose answer has not arrived.
struct Requested {
    stream: Watched<UnixStream>,
    memory: Arc<Memory>,
    greeting: Greeting,
    local: Option<IpAddr>,
}

/// UDP sockets, and memory shared with the processes of this host that can be reached so.
pub struct SharedMemory {
    port: UdpPort,
    /// True if the sockets send nothing.
    alone: bool,
    /// Watches the listeners, the connections, and the bell that other processes ring.
    watch: Arc<Waiter>,
    /// One listener for each socket, by index; `None` if another context has the name.
    listeners: Vec<Option<OwnedFd>>,
    /// Time at which the listeners are watched again; `None` while they are watched.
    listen_again_at: Option<Instant>,
    links: Vec<Option<Link>>,
    routes: HashMap<Ends, Route>,
    /// The way of the last train.
    recent: Option<(Ends, Route)>,
    /// Accepted connections whose greeting has not arrived.
    accepted: Vec<Watched<UnixStream>>,
    requested: Vec<Requested>,
    /// Addresses looked up in the current period, and its begin.
    found: u32,
    found_since_ns: u64,
    /// True if readers have requested to be woken.
    armed: bool,
    /// The link that is received from first.
    first: usize,
    /// Number of links.
    linked: usize,
    /// Buffer for indices that the waiter reports.
    ready: Vec<usize>,
}

impl SharedMemory {
    /// Uses memory to processes of this user on this host, and the sockets to all others. Without a
    /// descriptor for that, or if the process may not have files as long as the rings, all packets
    /// take the sockets.
    pub fn with_sockets(port: UdpPort) -> Box<dyn Datapath> {
        if let Err(error) = link::check_file_limit() {
            return Box::new(FallenBack::new(port, error.to_string()));
        }
        match Waiter::new() {
            Ok(watch) => Box::new(SharedMemory::open(port, watch, false)),
            Err(_) => Box::new(port),
        }
    }

    /// Uses memory alone: packets that it cannot carry are dropped.
    ///
    /// # Errors
    /// The kernel refuses another descriptor, or the process may not have files as long as the
    /// rings.
    pub fn alone(port: UdpPort) -> io::Result<SharedMemory> {
        link::check_file_limit()?;
        Ok(SharedMemory::open(port, Waiter::new()?, true))
    }

    fn open(port: UdpPort, watch: Waiter, alone: bool) -> SharedMemory {
        let mut listeners = Vec::new();
        for (index, address) in port.local_addrs().iter().take(ADDRESSES_MAX).enumerate() {
            // Without a listener, packets to this socket come through the network.
            let watched = |listener: &OwnedFd| watch.watch(listener.as_fd(), index).is_ok();
            listeners.push(attach::listen(address).ok().filter(watched));
        }
        SharedMemory {
            port,
            alone,
            watch: Arc::new(watch),
            listeners,
            listen_again_at: None,
            links: Vec::new(),
            routes: HashMap::new(),
            recent: None,
            accepted: Vec::new(),
            requested: Vec::new(),
            found: 0,
            found_since_ns: 0,
            armed: false,
            first: 0,
            linked: 0,
            ready: Vec::with_capacity(64),
        }
    }

    /// Returns the way to an address.
    #[inline]
    fn route(&mut self, now_ns: u64, socket: usize, to: &Address) -> Route {
        let ends = (*to, to.local());
        let known = match &self.recent {
            Some((recent, route)) if *recent == ends => Some(*route),
            _ => self.routes.get(&ends).copied(),
        };
        let route = match known {
            Some(Route::Sockets { again_at_ns: Some(at) }) if now_ns >= at => None,
            other => other,
        };
        let route = route.unwrap_or_else(|| self.find(now_ns, socket, to));
        self.recent = Some((ends, route));
        route
    }

    /// Finds out whether a process of this host owns an address, and connects to it.
    #[cold]
    fn find(&mut self, now_ns: u64, socket: usize, to: &Address) -> Route {
        if !self.may_find(now_ns) {
            return Route::Sockets { again_at_ns: Some(now_ns) };
        }
        // The process may have connected to this one meanwhile.
        self.attend();
        let ends = (*to, to.local());
        if let Some(route @ Route::Memory { .. }) = self.routes.get(&ends) {
            return *route;
        }
        let address = SocketAddr::from(*to);
        let source = attach::source_within_host(&address);
        if let Ok(Some(source)) = source {
            let local = self.port.local_addrs()[socket].ip();
            let source = if local.is_unspecified() { ends.1.unwrap_or(source) } else { local };
            // If that fails, packets take the sockets.
            let _ = self.request(ends, on_link_of(&address, source));
        }
        let is_elsewhere = matches!(source, Ok(None));
        let again_at_ns = (!is_elsewhere).then_some(now_ns + TRY_AGAIN_NS);
        let route = Route::Sockets { again_at_ns };
        self.remember(ends, route);
        route
    }

    /// Counts an address that is looked up. Returns false if there were too many: packets may have
    /// any source address, and each answer to a new one costs some system calls.
    fn may_find(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.found_since_ns) >= FIND_PERIOD_NS {
            (self.found_since_ns, self.found) = (now_ns, 0);
        }
        self.found += 1;
        self.found <= FINDS_MAX
    }

    /// Connects to the owner of an address, and offers it memory.
    fn request(&mut self, (target, local): Ends, source: SocketAddr) -> io::Result<()> {
        let Some(stream) = attach::connect(&target.into()) else { return Ok(()) };
        let memory = link::make_file()?;
        let greeting = Greeting { target, addresses: self.addresses_seen_at(&source) };
        let file = memory.file().ok_or(io::ErrorKind::Unsupported)?;
        greeting.send(&stream, &[&file, &self.watch.doorbell().fd()])?;
        let stream = self.watch.watch_while_open(stream, STREAM)?;
        if self.requested.len() == WAITING_MAX {
            self.requested.remove(0);
        }
        self.requested.push(Requested { stream, memory, greeting, local });
        Ok(())
    }

    /// Addresses of the own sockets for a process that sees this host as the IP address of `seen`.
    fn addresses_seen_at(&self, seen: &SocketAddr) -> Vec<Option<Address>> {
        let own = self.port.local_addrs().iter().take(ADDRESSES_MAX);
        let seen_as = |own: &SocketAddr| {
            let mut at = *seen;
            at.set_port(own.port());
            let is_any = own.ip().is_unspecified();
            let reaches = is_any && (own.is_ipv6() || seen.is_ipv4());
            (reaches || own.ip() == seen.ip()).then(|| if is_any { at } else { *own }.into())
        };
        own.map(seen_as).collect()
    }

    /// True if the sockets are at all addresses of this host.
    fn is_at_all_addresses(&self) -> bool {
        self.port.local_addrs().first().is_some_and(|local| local.ip().is_unspecified())
    }

    fn remember(&mut self, ends: Ends, route: Route) {
        if self.routes.len() >= ROUTES_MAX {
            self.routes.retain(|_, route| matches!(route, Route::Memory { .. }));
        }
        self.recent = None;
        self.routes.insert(ends, route);
    }

    fn accept_all(&mut self, listener: usize) {
        for _ in 0..WAITING_MAX {
            let Some(Some(listener)) = self.listeners.get(listener) else { return };
            let stream = match accept(listener.as_fd()) {
                Ok(Some(stream)) => stream,
                Ok(None) => return,
                // The kernel has no descriptor, or no memory, for this process.
                Err(_) => return self.pause_listeners(),
            };
            if !is_same_user(&stream) {
                continue;
            }
            let Ok(stream) = self.watch.watch_while_open(stream, STREAM) else { continue };
            if self.accepted.len() == WAITING_MAX {
                self.accepted.remove(0);
            }
            self.accepted.push(stream);
        }
    }

    /// Stops watching the listeners for a while: a connection that cannot be accepted keeps its
    /// listener readable.
    #[cold]
    fn pause_listeners(&mut self) {
        for listener in self.listeners.iter().flatten() {
            // A listener that is not watched needs nothing.
            let _ = self.watch.unwatch(listener.as_fd());
        }
        self.listen_again_at = Some(clock::now() + LISTEN_AGAIN);
    }

    /// Watches the listeners again. Those that have connections are readable at once.
    #[cold]
    fn resume_listeners(&mut self, now: Instant) {
        let watch = |(index, listener): (usize, &Option<OwnedFd>)| {
            let Some(listener) = listener else { return true };
            let watched = self.watch.watch(listener.as_fd(), index);
            watched.map_or_else(|error| error.kind() == io::ErrorKind::AlreadyExists, |()| true)
        };
        let all = self.listeners.iter().enumerate().all(watch);
        self.listen_again_at = (!all).then(|| now + LISTEN_AGAIN);
    }

    /// Looks at all connections.
    fn look_at_streams(&mut self) {
        for stream in std::mem::take(&mut self.accepted) {
            match attach::receive(&stream) {
                Received::Nothing => self.accepted.push(stream),
                Received::Greeting(greeting, files) => _ = self.answer(stream, &greeting, files),
                Received::End => {}
            }
        }
        for requested in std::mem::take(&mut self.requested) {
            match attach::receive(&requested.stream) {
                Received::Nothing => self.requested.push(requested),
                Received::Greeting(answer, files) => self.complete(requested, &answer, files),
                Received::End => {}
            }
        }
        for link in self.links.iter_mut().flatten() {
            link.check();
        }
        self.remove_ended();
    }

    /// Accepts the memory that another process offers. `None`: it is refused.
    fn answer(
        &mut self,
        stream: Watched<UnixStream>,
        greeting: &Greeting,
        files: Vec<OwnedFd>,
    ) -> Option<()> {
        let target = SocketAddr::from(greeting.target);
        let own = self.addresses_seen_at(&target);
        // The name may be that of a socket that this context has replaced.
        let is_own = own.contains(&Some(greeting.target));
        let [file, bell] = <[OwnedFd; 2]>::try_from(files).ok()?;
        let bell = Doorbell::passed(bell)?;
        // The other process is on this host, so its addresses are too, and packets to other hosts
        // never go to it.
        let mut others = greeting.addresses.iter().flatten().map(|at| SocketAddr::from(*at));
        let source = others.next()?;
        let chosen = attach::source_within_host(&source).ok().flatten()?;
        let is_near = others.all(|other| other.ip() == source.ip());
        if !is_own || !is_near || self.linked >= LINKS_MAX {
            return None;
        }
        let local = (chosen != target.ip() && self.is_at_all_addresses()).then_some(target.ip());
        let memory = link::map_file(file)?;
        let answer = Greeting { target: greeting.target, addresses: own.clone() };
        answer.send(&stream, &[&self.watch.doorbell().fd()]).ok()?;
        let peer = self.watch_process(stream)?;
        let link = Link::new(peer, &memory, End::Accepting, bell, own, local);
        self.add(link, local, &greeting.addresses);
        Some(())
    }

    /// Completes a link that this side has requested.
    fn complete(&mut self, requested: Requested, answer: &Greeting, files: Vec<OwnedFd>) {
        let Requested { stream, memory, greeting, local } = requested;
        let Ok([bell]) = <[OwnedFd; 1]>::try_from(files) else { return };
        let Some(bell) = Doorbell::passed(bell) else { return };
        let target = SocketAddr::from(greeting.target);
        let is_near = |address: &Address| SocketAddr::from(*address).ip() == target.ip();
        let is_sound = answer.target == greeting.target
            && answer.addresses.iter().flatten().all(is_near)
            && self.linked < LINKS_MAX;
        if is_sound && let Some(peer) = self.watch_process(stream) {
            let link = Link::new(peer, &memory, End::Connecting, bell, greeting.addresses, local);
            self.add(link, local, &answer.addresses);
        }
    }

    /// Watches the process at the other end of a connection. `None`: it has ended.
    fn watch_process(
        &self,
        stream: Watched<UnixStream>,
    ) -> Option<(Watched<UnixStream>, Option<Watched<OwnedFd>>)> {
        let process = process_of(&stream).ok()?;
        let watched = |process| self.watch.watch_while_open(process, STREAM).ok();
        Some((stream, process.and_then(watched)))
    }

    /// Adds a link to the process that has sockets at these addresses.
    fn add(&mut self, mut link: Link, local: Option<IpAddr>, addresses: &[Option<Address>]) {
        if self.armed {
            link.arm();
        }
        let free = self.links.iter().position(Option::is_none);
        let number = free.unwrap_or(self.links.len());
        match free {
            Some(free) => self.links[free] = Some(link),
            None => self.links.push(Some(link)),
        }
        self.linked += 1;
        for (socket, address) in addresses.iter().enumerate() {
            if let Some(address) = address {
                self.remember((*address, local), Route::Memory { link: number, socket });
            }
        }
    }

    /// Removes links that have ended and have nothing left to read. Packets take the sockets as
    /// soon as a link has ended.
    fn remove_ended(&mut self) {
        let links = &self.links;
        let has_ended = |route: &Route| match route {
            Route::Memory { link, .. } => links[*link].as_ref().is_none_or(Link::has_ended),
            Route::Sockets { .. } => false,
        };
        self.routes.retain(|_, route| !has_ended(route));
        self.recent = None;
        let sockets = self.port.socket_count();
        let is_over = |link: &mut Link| link.has_ended() && link.peek(sockets).is_none();
        for link in &mut self.links {
            if link.as_mut().is_some_and(is_over) {
                *link = None;
                self.linked -= 1;
            }
        }
    }

    /// Sends through memory. `None`: it has to go through the sockets.
    fn put(
        &mut self,
        now_ns: u64,
        from: usize,
        (link, to): (usize, usize),
        train: &Train,
    ) -> Option<io::Result<Sent>> {
        let packets = train.len() as u64;
        match self.links.get_mut(link)?.as_mut()?.put(now_ns, from, to, train) {
            Put::Done => {
                let counters = self.port.counters_mut();
                counters.packets_sent += packets;
                counters.bytes_sent += train.bytes() as u64;
                counters.packets_sent_in_memory += packets;
            }
            Put::Dropped => self.port.counters_mut().packets_dropped_in_memory += packets,
            Put::Blocked => {
                self.port.counters_mut().blocked += 1;
                return Some(Ok(Sent::Blocked { sent: 0 }));
            }
            Put::Gone => return Some(Err(io::Error::from_raw_os_error(libc::EFAULT))),
            Put::Impossible => return None,
        }
        Some(Ok(Sent::All))
    }
}

impl Datapath for SharedMemory {
    fn port(&self) -> &UdpPort {
        &self.port
    }

    fn port_mut(&mut self) -> &mut UdpPort {
        &mut self.port
    }

    fn transmit(
        &mut self,
        now_ns: u64,
        _path: usize,
        socket: usize,
        to: &Address,
        train: &Train,
    ) -> io::Result<Sent> {
        if train.is_empty() {
            return Ok(Sent::All);
        }
        if let Route::Memory { link, socket: other } = self.route(now_ns, socket, to)
            && !train.is_filled()
            && let Some(result) = self.put(now_ns, socket, (link, other), train)
        {
            return result;
        }
        if self.alone {
            return Err(unreachable(to));
        }
        self.port.send(socket, to, train)
    }

    /// Packets in memory are cut at equal distances, too, but nothing is won by filling them.
    fn may_fill(&self, to: &Address) -> bool {
        let ends = (*to, to.local());
        let route = match &self.recent {
            Some((recent, route)) if *recent == ends => Some(route),
            _ => self.routes.get(&ends),
        };
        !self.alone && !matches!(route, Some(Route::Memory { .. }))
    }

    fn waiter(&self) -> io::Result<Waiter> {
        let waiter = self.port.waiter()?;
        waiter.watch(self.watch.as_fd(), ATTEND)?;
        Ok(waiter)
    }

    fn has_other_descriptors(&self) -> bool {
        true
    }

    fn attend(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        if self.watch.ready_now(&mut ready).is_ok() {
            for index in ready.iter().filter(|index| **index < STREAM) {
                self.accept_all(*index);
            }
            // A new connection's greeting has been sent with it.
            if !ready.is_empty() {
                self.look_at_streams();
            }
        }
        self.ready = ready;
    }

    fn release_due(&mut self, now_ns: u64) -> io::Result<()> {
        let now = Instant::from_ns(now_ns);
        if self.listen_again_at.is_some_and(|at| now.is_at_or_after(at)) {
            self.resume_listeners(now);
        }
        Ok(())
    }

    fn next_release_ns(&self) -> Option<u64> {
        self.listen_again_at.map(ns)
    }

    fn ready(&mut self) -> Option<u64> {
        if self.linked == 0 {
            return None;
        }
        let sockets = self.port.socket_count();
        let (mut ready, mut ended) = (0, false);
        for link in self.links.iter_mut().flatten() {
            if self.armed {
                link.disarm();
            }
            match link.peek(sockets) {
                Some(head) => ready |= 1 << head.socket,
                None => ended |= link.has_ended(),
            }
        }
        self.armed = false;
        if ended {
            self.remove_ended();
        }
        Some(ready)
    }

    fn receive_ready<'b>(
        &mut self,
        socket: usize,
        buffer: &'b mut ReceiveBuffer,
    ) -> Option<Arrival<'b>> {
        let (count, sockets) = (self.links.len(), self.port.socket_count());
        let mut order = (0..count).map(|step| (self.first + step) % count);
        let number = order.find(|number| {
            let next = self.links[*number].as_mut().and_then(|link| link.peek(sockets));
            next.is_some_and(|head| head.socket == socket)
        })?;
        // Processes take turns, one train each.
        self.first = (number + 1) % count;
        let arrival = self.links[number].as_mut()?.pop(buffer)?;
        let counters = self.port.counters_mut();
        counters.packets_received += arrival.segments() as u64;
        counters.bytes_received += arrival.len() as u64;
        counters.packets_received_in_memory += arrival.segments() as u64;
        Some(arrival)
    }

    fn arm(&mut self) -> bool {
        self.armed = true;
        self.links.iter_mut().flatten().fold(false, |any, link| any | link.arm())
    }
}

#[cfg(test)]
impl SharedMemory {
    /// Copies the descriptors of all connections and processes, as `fork` does.
    pub(super) fn copies(&self) -> Vec<OwnedFd> {
        let copy = |file: std::os::fd::BorrowedFd<'_>| file.try_clone_to_owned().unwrap();
        let streams = self.accepted.iter().chain(self.requested.iter().map(|it| &it.stream));
        let links = self.links.iter().flatten().flat_map(Link::files);
        streams.map(|stream| stream.as_fd()).chain(links).map(copy).collect()
    }
}

/// Returns an IP address of this host as a socket address, with the link of `other` if it is
/// link-local.
fn on_link_of(other: &SocketAddr, ip: IpAddr) -> SocketAddr {
    match (other, ip) {
        (SocketAddr::V6(other), IpAddr::V6(ip)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, 0, 0, other.scope_id()).into()
        }
        _ => SocketAddr::new(ip, 0),
    }
}

/// Error for packets that memory cannot carry, where the sockets may not.
#[cold]
fn unreachable(to: &Address) -> io::Error {
    let what = "no process of this user on this host has a socket there, so shared memory does not \
                reach it: use the datapath auto or udp";
    io::Error::new(io::ErrorKind::NotConnected, format!("{to}: {what}"))
}
