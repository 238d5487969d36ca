//! Settings of a context, and how it is built from them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fairway_port::{Impaired, Spec, UdpPort};
use fairway_sandbox::Policies;
use fairway_ub::setup::MTU_MAX;
use fairway_ub::{Limits, Profile};

use crate::context::Context;
use crate::core::{Core, CoreConfig};
use crate::datapath::DatapathKind;
use crate::error::Error;
use crate::setup::Identity;
use fairway_observe::HostPressure;
use fairway_observe::{Meter, Probe};
use fairway_runtime::Dscp;
use fairway_runtime::{clock, ns};
use fairway_ub::wire::{
    self, BYPASS, CARRIED_ACKS, Cna, FILLED, GROUP_MAX, PADDED_HELLOS, PARTS, PORTS_MAX,
    Parameters, RETIRE, SLOTS_MAX, UNRELIABLE,
};
use ranges::{CONTROL_LATENCY_MAX, check};

mod opening;
mod ranges;

/// Default payload bytes of a packet, if the link allows them: what jumbo frames of 9,000 bytes
/// hold. A message of UCX's fragments (8,256 bytes) fits, too.
const MTU_DEFAULT: usize = 8856;

/// The same with the datapath xdp: what fits a frame ([`fairway_port::xdp::FRAME_MAX`]).
const MTU_OF_FRAMES: usize = 3072;

/// Most bytes of headers of a packet.
const HEADERS_MAX: usize = 128;

/// Builds a [`Context`]. Every setting has a default.
#[derive(Clone, Debug)]
pub struct Builder {
    /// Address to bind to; `None`: all addresses of both families.
    bind: Option<IpAddr>,
    port: u16,
    /// Sockets of each engine; `None`: as many as the paths need.
    sockets: Option<usize>,
    engines: usize,
    paths: u32,
    policy: Result<Policies, BadPolicy>,
    mtu: Option<usize>,
    /// Capabilities that set-up offers to peers, one bit each.
    capabilities: u16,
    evict_idle: Option<wire::Duration>,
    limits: Limits,
    profile: Profile,
    emulate: Option<(Spec, u64)>,
    /// The way that packets take; `None`: as the environment says.
    datapath: Option<DatapathKind>,
    /// Code points of packets; `None`: as the environment says.
    dscp: Option<Dscp>,
    buffer_bytes: usize,
    progress_thread: bool,
    control_threads: u32,
    control_latency_samples: usize,
    stats: bool,
    prometheus: Option<SocketAddr>,
    host_pressure: Option<HostPressure>,
    /// Only the first socket has the requested port; the others get any free ports.
    scattered: bool,
    /// Further local addresses to bind to.
    others: Vec<SocketAddr>,
}

/// What every context offers to its peers.
const OFFERED: u16 = PADDED_HELLOS | UNRELIABLE | BYPASS | PARTS | RETIRE | CARRIED_ACKS | FILLED;

/// A policy that could not be parsed: its text and the error message.
type BadPolicy = (String, String);

impl Default for Builder {
    fn default() -> Self {
        Builder {
            bind: None,
            port: 0,
            sockets: None,
            engines: 1,
            paths: 16,
            policy: Ok(Policies::default()),
            mtu: None,
            capabilities: OFFERED,
            evict_idle: Some(wire::Duration::from_secs(300)),
            limits: Limits::default(),
            profile: Profile::default(),
            emulate: None,
            datapath: None,
            dscp: None,
            buffer_bytes: 4 << 20,
            progress_thread: true,
            control_threads: 0,
            control_latency_samples: 0,
            stats: false,
            prometheus: None,
            host_pressure: None,
            scattered: false,
            others: Vec::new(),
        }
    }
}

/// The code points that the environment names, or the default.
fn dscp_of_environment() -> Result<Dscp, Error> {
    const VARIABLE: &str = "FAIRWAY_DSCP";
    let set = std::env::var_os(VARIABLE).filter(|text| !text.is_empty());
    let Some(text) = set else { return Ok(Dscp::default()) };
    let text = text.to_string_lossy();
    text.parse().map_err(|_| Error::Parameter {
        name: VARIABLE,
        value: format!("{text:?}"),
        remedy: "use off, or 0 to 63",
    })
}

impl Builder {
    /// Sets the local address to bind to. The default is all addresses of IPv6 and IPv4, or of IPv4
    /// alone if the host has no IPv6. The family of the address is the context's; `::` stands for
    /// both families. Packets to a peer that has connected leave from the address that it has
    /// contacted. A link-local address is bound on the link of the interface that has it.
    #[must_use]
    pub fn bind(mut self, address: IpAddr) -> Self {
        self.bind = Some(address);
        self
    }

    /// Sets the port of the first socket; the other sockets, of all engines, get the following
    /// numbers. 0, the default, means any port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the port of the first socket; the other sockets get any free ports.
    pub(crate) fn listen_at(self, port: u16) -> Self {
        Builder { port, scattered: true, ..self }
    }

    /// Sets further local addresses, of any family, for a context with one engine that listens
    /// ([`Builder::listen_at`]). Each of them gets as many sockets as the first, with the same port
    /// numbers. At most seven addresses are used, including the first.
    pub(crate) fn bind_also(self, others: Vec<SocketAddr>) -> Self {
        Builder { others, ..self }
    }

    /// Sets the number of sockets of each engine, 1 to 16. The network can distinguish as many
    /// routes as the product of the numbers of sockets of this side and of the peer, so the default
    /// is the least number whose square is at least that of the paths ([`Builder::paths`]), but at
    /// least 4: 4 for up to 16 paths, 8 for 64, 16 for 256. If not so many can be opened, the
    /// context has fewer ([`Context::socket_shortage`]); a number that is set here is opened, or
    /// building fails.
    #[must_use]
    pub fn sockets(mut self, sockets: usize) -> Self {
        self.sockets = Some(sockets);
        self
    }

    /// Sets the number of engines, 1 to 16 (default 1). Each has separate sockets. If a peer has
    /// several engines too, the connection has as many channels as the smaller number of engines:
    /// each operation takes the least loaded channel, a large one several channels
    /// ([`Builder::part_bytes`]), and all guarantees hold across them. With
    /// several engines, each is a thread that sends and receives in parallel with the others, and
    /// application threads leave that to them.
    #[must_use]
    pub fn engines(mut self, engines: usize) -> Self {
        self.engines = engines;
        self
    }

    /// Sets the number of paths per peer, 1 to 256 (default 16). A connection uses the smaller
    /// number of the two sides. Each path is a pair of UDP ports; the pairs are all different if
    /// both sides have enough sockets ([`Builder::sockets`], [`Peer::port_pairs`]).
    ///
    /// [`Peer::port_pairs`]: crate::Peer::port_pairs
    #[must_use]
    pub fn paths(mut self, paths: u32) -> Self {
        self.paths = paths;
        self
    }

    /// Sets the congestion control, path choice, loss detection and scheduler of this side: a
    /// [`PolicySpec`](crate::PolicySpec), or [`Policies`] with user-written modules.
    #[must_use]
    pub fn policy(mut self, policy: impl Into<Policies>) -> Self {
        self.policy = Ok(policy.into());
        self
    }

    /// Sets the same policies by name, such as `cc=swift,path=spray,loss=path-order,sched=drr`.
    /// There are `cc=fixed|swift|cubic|timely|dcqcn|caqm|eqds|homa|backpressure|nscc|hpcc`,
    /// `path=spray|p2c|plb|mp-rdma|bitmap|reps|least-rtt|flowlet`,
    /// `loss=path-order|sack|receiver|rack` and `sched=greedy|static|water-filling|drr`; each kind
    /// may be a WebAssembly file, `cc=./mine.wasm`.
    #[must_use]
    pub fn policy_named(mut self, names: &str) -> Self {
        self.policy = names.parse::<Policies>().map_err(|error| (names.into(), error.to_string()));
        self
    }

    /// Runs the scheduler and the congestion controls on a pool of `threads` threads, at most 64
    /// (default: 0, in line with the data path). A thread receives the accumulated events since it
    /// last ran, and the data path only leaves events and reads rates, windows and credit. Each
    /// channel belongs to one thread, its index modulo `threads`; the first thread alone runs the
    /// scheduler, which divides one line among all flows.
    #[must_use]
    pub fn control_threads(mut self, threads: u32) -> Self {
        self.control_threads = threads;
        self
    }

    /// Measures the reaction time of this side: from an acknowledgement to the congestion control's
    /// decision, and from data to its acknowledgement ([`Context::take_control_latency`]).
    /// `samples` is the capacity for each of the two, at 8 bytes a sample, allocated when the
    /// context is built. 0, the default, disables the measurement.
    #[must_use]
    pub fn measure_control_latency(mut self, samples: usize) -> Self {
        self.control_latency_samples = samples;
        self
    }

    /// Starts a thread that measures whether this host is short of CPU time, memory, its NIC's bus
    /// or room in the receive queues of the context's sockets. While it is, acknowledgements
    /// request that peers slow down. The thread also measures whether the transmit queues are full,
    /// which the congestion controls here treat as pressure of the receivers. Default: no such
    /// thread. Linux only: the sources are `/proc/pressure` or, for CPU time, `/proc/stat`; the
    /// sockets; and the NICs' drivers. Building fails if a requested signal cannot be measured.
    /// [`Context::host_signals`] returns the last measurements.
    #[must_use]
    pub fn host_pressure(mut self, options: Option<HostPressure>) -> Self {
        self.host_pressure = options;
        self
    }

    /// Sets the maximum payload bytes per packet (default: 8856). A connection uses fewer if the
    /// other side requests fewer, or if packets of that length do not get through in both
    /// directions: [`Peer::mtu`](crate::Peer::mtu) returns the number in use.
    #[must_use]
    pub fn mtu(mut self, payload_bytes: usize) -> Self {
        self.mtu = Some(payload_bytes);
        self
    }

    /// Sets whether unreliable messages (mode UNO) may be sent and are received (default: yes).
    /// Both sides of a connection must allow them. A program that does not use them can refuse them
    /// from peers by `false`.
    #[must_use]
    pub fn unreliable_messages(self, allowed: bool) -> Self {
        self.capability(UNRELIABLE, allowed)
    }

    /// Sets whether loads and stores may be sent and are executed (default: yes). Both sides of a
    /// connection must allow them. A program that does not use them can refuse them from peers by
    /// `false`.
    #[must_use]
    pub fn loads_and_stores(self, allowed: bool) -> Self {
        self.capability(BYPASS, allowed)
    }

    /// Sets how long a connection that a peer has opened may be idle once fewer than a sixteenth of
    /// `Limits::channels` are left, or the share of an address is used up (default: five minutes;
    /// `None`: for ever). Then each new connection closes one idle connection: the one that has
    /// been idle for longest, of the address with the most connections, in the network (24 bits of
    /// IPv4, 48 of IPv6) with the most. [`Event::Evicted`](crate::Event::Evicted) reports it.
    /// Connections of peers on this host are never closed so. Keep-alive messages do not count as
    /// use. A value above a day counts as one day.
    #[must_use]
    pub fn evict_idle(mut self, after: Option<Duration>) -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        let ms = |after: Duration| after.min(day).as_millis() as u64;
        self.evict_idle = after.map(|after| wire::Duration::from_ms(ms(after)));
        self
    }

    fn capability(mut self, bit: u16, offered: bool) -> Self {
        self.capabilities = self.capabilities & !bit | if offered { bit } else { 0 };
        self
    }

    /// Sets the capacities. (The number of engines is set by [`Builder::engines`].)
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Raises `Limits::channels`, if it is lower, so that there is room for `peers` connections,
    /// even if all come from one address, which gets only a part of the channels. Connections of
    /// several engines ([`Builder::engines`]) have as many channels. There is room for as many as a
    /// NIC can have ([`Limits::CHANNELS_MAX`]), if `peers` need more.
    #[must_use]
    pub fn room_for_peers(mut self, peers: u32) -> Self {
        let engines = u32::try_from(self.engines).unwrap_or(1);
        // An address gets three quarters; ranks of one host meet as clients and as servers.
        let of_address = peers.saturating_add(1).saturating_mul(engines);
        let needed = of_address.saturating_mul(4).div_ceil(3) + 1;
        self.limits.channels = self.limits.channels.max(needed.min(Limits::CHANNELS_MAX));
        self.limits.groups = self.limits.groups.max(peers.min(Limits::CHANNELS_MAX));
        self
    }

    /// Sets the timing profile.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the least bytes of a part of a WRITE or READ (default: 256 KiB). One of at least twice
    /// as many, without order, goes by several channels at the same time, in parts, where both
    /// sides have several engines ([`Builder::engines`]). 0 lets every operation go by one channel.
    /// Changes the profile ([`Builder::profile`]).
    #[must_use]
    pub fn part_bytes(mut self, bytes: u32) -> Self {
        self.profile = self.profile.part_bytes(bytes);
        self
    }

    /// Sets how many bytes of a message are sent before another message to the same peer has its
    /// turn (default: one chunk, so that all messages under way share the rate). Messages that are
    /// of use one by one should have turns as long as they are: if they share the rate, all arrive
    /// at the end. Changes the profile ([`Builder::profile`]).
    #[must_use]
    pub fn message_turn(mut self, bytes: u32) -> Self {
        self.profile = self.profile.message_turn_bytes(bytes);
        self
    }

    /// Sets the length, in bytes, up to which the messages to a peer all take one path (default: 16
    /// KiB): they leave with few system calls and arrive in order, at the rate of that path. Longer
    /// ones take all paths. Changes the profile ([`Builder::profile`]).
    #[must_use]
    pub fn small_messages(mut self, bytes: u32) -> Self {
        self.profile = self.profile.small_message_bytes(bytes);
        self
    }

    /// Sets the silence, despite probes, after which a peer is declared dead (default: 3 seconds).
    /// A value above a day counts as one day. Changes the profile ([`Builder::profile`]).
    #[must_use]
    pub fn peer_timeout(mut self, after: Duration) -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        let after = wire::Duration::from_ms(after.min(day).as_millis() as u64);
        self.profile = self.profile.peer_dead(after);
        self
    }

    /// Impairs the network: packets that this context sends are delayed, lost, reordered or
    /// duplicated according to `spec`, at random from `seed`.
    #[must_use]
    pub fn emulate(mut self, spec: Spec, seed: u64) -> Self {
        self.emulate = Some((spec, seed));
        self
    }

    /// Sets the way that packets take: UDP, memory shared with peers of the same user on this host,
    /// frames past the kernel's network stack, or an RDMA NIC. The default is what the environment
    /// variable `FAIRWAY_DATAPATH` names (`auto`, `udp`, `shm`, `xdp` or `rdma`), and otherwise
    /// [`DatapathKind::Auto`]. An emulated network ([`Builder::emulate`]) and the measurement of
    /// control latency always use UDP.
    #[must_use]
    pub fn datapath(mut self, datapath: DatapathKind) -> Self {
        self.datapath = Some(datapath);
        self
    }

    /// Sets the code points (DSCP) of packets: by default what the environment variable
    /// `FAIRWAY_DSCP` says (`off`, or 0 to 63 for control packets), and otherwise class selector 6
    /// (48) for control packets (acknowledgements, refusals, credit, probes) and best effort for
    /// data, unless a policy names classes of data. Networks that re-mark or drop code points need
    /// [`Dscp::OFF`].
    #[must_use]
    pub fn dscp(mut self, dscp: Dscp) -> Self {
        self.dscp = Some(dscp);
        self
    }

    /// Sets the size of the socket buffers to request, in bytes (default 4 MiB); the system may
    /// grant less.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// Sets whether a background thread drives the context when the application does not poll
    /// (default: yes). Without the thread nothing is sent or received, and no peer is served,
    /// except while some thread polls or waits.
    #[must_use]
    pub fn progress_thread(mut self, wanted: bool) -> Self {
        self.progress_thread = wanted;
        self
    }

    /// Sets whether the context reports its statistics to processes of the same user that request
    /// them, as `fairway top` does (default: no, unless FAIRWAY_STATS is 1 in the environment).
    /// Costs a thread that sleeps.
    #[must_use]
    pub fn stats(mut self, wanted: bool) -> Self {
        self.stats = wanted;
        self
    }

    /// Serves metrics for Prometheus at `address`, as `GET /metrics` (default: no). Every host that
    /// can reach the address may read them.
    #[must_use]
    pub fn prometheus(mut self, address: SocketAddr) -> Self {
        self.prometheus = Some(address);
        self
    }

    /// As [`Builder::build`], but returns the handle, for callers inside the crate.
    pub(crate) fn build_handle(self) -> Result<std::sync::Arc<crate::shared::Handle>, Error> {
        Ok(self.build()?.into_handle())
    }

    /// Opens the sockets and starts the context.
    ///
    /// # Errors
    /// A setting or one of the [`Limits`] is out of range ([`Error::Parameter`] names it), the
    /// address can't be bound, or the system refuses.
    pub fn build(mut self) -> Result<Context, Error> {
        let emulate = self.emulate.clone();
        let datapath = match self.datapath {
            // The kernel's timestamps are what control latency is measured by, and an emulated
            // network has the sockets alone.
            _ if self.control_latency_samples > 0 || emulate.is_some() => DatapathKind::Udp,
            Some(datapath) => datapath,
            None => DatapathKind::of_environment()?,
        };
        self.datapath = Some(datapath);
        self.dscp = Some(match self.dscp {
            Some(dscp) => dscp,
            None => dscp_of_environment()?,
        });
        let mut engine = 0;
        self.build_on(|port| match &emulate {
            None => datapath.open(port),
            Some((spec, seed)) => {
                let seed = seed.wrapping_add(engine);
                engine += 1;
                Ok(Box::new(Impaired::new(port, spec, seed, ns(clock::now()))))
            }
        })
    }

    /// As [`Builder::build`], but passes the sockets of each engine through `wrap` first.
    pub(crate) fn build_on(
        self,
        mut wrap: impl FnMut(UdpPort) -> io::Result<Box<dyn fairway_port::Datapath>>,
    ) -> Result<Context, Error> {
        self.check()?;
        let policy = self.policy.clone().map_err(|(value, error)| Error::Parameter {
            name: "policy",
            value: format!("{value:?} ({error})"),
            remedy: "use names that exist, such as cc=swift,path=spray",
        })?;
        let probe = (self.control_latency_samples > 0).then(|| {
            Arc::new(Probe::new(self.control_latency_samples, self.limits.channels as usize))
        });
        let mut ios = Vec::with_capacity(self.engines);
        let mut ports = Vec::with_capacity(self.engines);
        let mut plan = self.plan_sockets();
        for engine in 0..self.engines {
            let (mut io, numbers) = self.open_engine(engine, &mut plan, &mut wrap)?;
            let meter = |probe: &Arc<Probe>| Meter::new(probe.clone(), self.control_threads == 0);
            io.own.meter = probe.as_ref().map(meter).map(Box::new);
            ios.push(io);
            ports.push(numbers);
        }
        let (cna, setup_cna) = (random_cna()?, random_cna()?);
        let packet_max = ios.iter().filter_map(|io| io.sockets.datapath.packet_max()).min();
        let identity = Identity { cna, setup_cna, ports, limits: self.parameters(packet_max) };
        let queues = match &self.host_pressure {
            Some(_) => ios.iter().map(|io| io.sockets.datapath.port().queue_watch()).collect(),
            None => Ok(Vec::new()),
        };
        let queues = queues.map_err(|error| Error::io("watch the sockets' queues", error))?;
        let datapath = self.datapath.unwrap_or_default();
        let core = Core::new(CoreConfig {
            limits: self.limits,
            profile: self.profile,
            policy,
            control_threads: self.control_threads,
            probe,
            identity,
            datapath,
            is_emulated: self.emulate.is_some(),
            shortage: plan.shortage,
            detours: self.emulate.is_none() && datapath != DatapathKind::Shm,
            evict_idle: self.evict_idle,
            ios: &ios,
        })?;
        let context = Context::start(core, ios, self.progress_thread)?;
        context.publish(self.stats, self.prometheus)?;
        if let Some(options) = &self.host_pressure {
            context.watch_pressure(queues, options)?;
        }
        Ok(context)
    }

    fn check(&self) -> Result<(), Error> {
        check("sockets", self.sockets.unwrap_or(1), 1..=PORTS_MAX, "use 1 to 16")?;
        let pool = self.control_threads as usize;
        let samples = self.control_latency_samples;
        let name = "measure_control_latency";
        check(name, samples, 0..=CONTROL_LATENCY_MAX, "use up to 268,435,456 samples")?;
        check("control_threads", pool, 0..=CONTROL_THREADS_MAX, "use 0 to 64")?;
        check("engines", self.engines, 1..=usize::from(GROUP_MAX), "use 1 to 16")?;
        if self.engines > 1 && !self.progress_thread {
            return Err(Error::Parameter {
                name: "engines",
                value: self.engines.to_string(),
                remedy: "use 1, or let the context have its threads",
            });
        }
        if self.engines > 1 && self.datapath == Some(DatapathKind::Xdp) {
            return Err(Error::Parameter {
                name: "engines",
                value: self.engines.to_string(),
                remedy: "use 1 with the datapath xdp, or the datapath udp",
            });
        }
        ranges::check_limits(&self.limits, self.paths)?;
        if let Some(mtu) = self.mtu {
            check("mtu", mtu, 64..=MTU_MAX, "use 64 to 32768 bytes")?;
        }
        Ok(())
    }

    /// `packet_max`: largest packet of the datapath, headers included, if it has a limit.
    fn parameters(&self, packet_max: Option<usize>) -> Parameters {
        let small = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
        let default_mtu = match (self.datapath, packet_max) {
            (Some(DatapathKind::Xdp), _) => MTU_OF_FRAMES,
            (_, Some(packet_max)) => MTU_DEFAULT.min(packet_max - HEADERS_MAX),
            (_, None) => MTU_DEFAULT,
        };
        let keep_alive_ms = self.profile.keep_alive.as_us() / 1000;
        Parameters {
            mtu_bytes: self.mtu.unwrap_or(default_mtu) as u16,
            paths: small(self.paths),
            window_packets: small(self.limits.window_packets),
            message_slots: small(self.limits.message_slots).min(SLOTS_MAX),
            read_slots: small(self.limits.read_slots).min(SLOTS_MAX),
            keep_alive_ms: u16::try_from(keep_alive_ms).unwrap_or(u16::MAX),
            channels: self.engines as u16,
            capabilities: match self.datapath {
                // A filled packet that a switch has trimmed could not be read.
                Some(DatapathKind::Xdp) => self.capabilities & !FILLED,
                _ => self.capabilities,
            },
        }
    }
}

/// Maximum number of control threads of a context.
const CONTROL_THREADS_MAX: usize = 64;

/// Returns a random node address, which holds until the context ends. Zero means "unknown" in a
/// HELLO.
fn random_cna() -> Result<Cna, Error> {
    loop {
        let cna = Cna::new(clock::random()? as u32);
        if cna.value() != 0 {
            return Ok(cna);
        }
    }
}
