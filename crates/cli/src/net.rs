//! Options that all network commands share: addresses, paths, policy, emulation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use fairway::{
    Builder, Context, DatapathKind, Dscp, Error, HostPressure, Peer, Policies, ServerAddress, Spec,
};

use crate::failure::Failure;
use crate::process;
use crate::quantity::{self, ValueError};
use crate::zone::Zoned;

mod service;

pub(crate) use service::{PERF, SERVE, SOCKETS, Service};

/// Meaning of `--host-pressure` without a value.
const HOST_PRESSURE: &str = "cpu,memory,receive-queue,transmit-queue";

/// Settings of this side's sockets and of the transport over them.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetOptions {
    /// Local address, optionally with the first port; [::] means all addresses of IPv6 and IPv4
    /// [default: all]
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = listen)]
    pub(crate) bind: Option<Listen>,

    /// Number of paths, 1 to 256; the smaller value of both sides counts. Each path is a pair of
    /// UDP ports
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) paths: u32,

    /// Number of engines (threads with sockets of their own), 1 to 16; the smaller value of both
    /// sides counts
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) engines: u32,

    /// Sockets of each engine, 1 to 16, on consecutive ports [default: as many as give each path a
    /// pair of ports of its own: 4 for up to 16 paths, 8 for 64, 16 for 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) sockets: Option<u32>,

    /// Congestion control, path choice, loss detection and scheduler, as cc=swift,path=spray. The
    /// built-in ones are cc=fixed|swift|cubic|timely|dcqcn|caqm|eqds|homa|backpressure|nscc|hpcc,
    /// path=spray|p2c|plb|mp-rdma|bitmap|reps|least-rtt|flowlet,
    /// loss=path-order|sack|receiver|rack and sched=greedy|static|water-filling|drr. Each kind may
    /// also name a WebAssembly file: cc=./mine.wasm
    #[arg(long, value_name = "NAME", value_parser = policy)]
    pub(crate) policy: Option<Policies>,

    /// Most bytes of payload in a packet [default: 8856, or fewer if the path carries fewer]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=32_768))]
    pub(crate) mtu: Option<u32>,

    /// Way of the packets: udp; shm, memory shared with a peer of the same user on this host; xdp,
    /// frames past the kernel's network stack (needs --bind and capabilities), else udp;
    /// rdma[:DEVICE[:PORT]], queue pairs of an RDMA NIC to peers that have it, too, else udp;
    /// rdma-uc, the same with connections (UC); rdma-or-udp, as rdma, but udp where there is no
    /// NIC; or auto, shm where that is possible, else udp
    /// [default: FAIRWAY_DATAPATH, or auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) datapath: Option<DatapathKind>,

    /// Code point (DSCP) of acknowledgements and other control packets, 0 to 63, or off: everything
    /// is sent as best effort [default: FAIRWAY_DSCP, or 48]
    #[arg(long, value_name = "N|off")]
    pub(crate) dscp: Option<Dscp>,

    /// Impair the packets that this side sends, as delay=50us,loss=1%,reorder=64
    #[arg(long, value_name = "SPEC", value_parser = spec)]
    pub(crate) emulate: Option<Spec>,

    /// Seed of the emulation
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Publish statistics for `fairway top` (as FAIRWAY_STATS=1 does for any program)
    #[arg(long)]
    pub(crate) stats: bool,

    /// Watch resources of this host, and have peers slow down while one is short: cpu, memory, pcie
    /// (few NICs report it), receive-queue and transmit-queue, each optionally with its percentage,
    /// checked every 100ms or at another interval. Without a value:
    /// cpu=50,memory=10,receive-queue=50,transmit-queue=75,every=100ms. A full transmit queue slows
    /// down this side
    #[arg(long, value_name = "WHAT[=PERCENT],..", num_args = 0..=1, require_equals = true,
          default_missing_value = HOST_PRESSURE, value_parser = host_pressure)]
    pub(crate) host_pressure: Option<HostPressure>,

    /// Serve metrics for Prometheus at http://ADDRESS:PORT/metrics; with a port alone, to this host
    /// only
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics)]
    pub(crate) prometheus: Option<SocketAddr>,
}

/// How a client waits for its server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct ConnectOptions {
    /// Longest wait for the server's answer to the connection request
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "5s")]
    pub(crate) connect_timeout: Duration,
}

/// An address with an optional port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) address: IpAddr,
    pub(crate) port: Option<u16>,
}

/// An address and consecutive ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    pub(crate) address: IpAddr,
    /// First and last port.
    pub(crate) ports: Option<(u16, u16)>,
}

/// Cores to which processes are pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pins {
    /// The processes are not pinned.
    Free,
    /// Core of this process, and core of the other side's process if it is started here.
    Cores(usize, Option<usize>),
}

impl NetOptions {
    /// Returns a builder with these settings. Servers pass their port, clients 0 and the server's
    /// address.
    pub(crate) fn builder(&self, port: u16, towards: Option<IpAddr>) -> Builder {
        let mut builder = Context::builder()
            .port(self.first_port(port))
            .engines(self.engines as usize)
            .paths(self.paths)
            .host_pressure(self.host_pressure)
            .stats(self.stats);
        // A client's sockets have the address family of its server; a server's sockets have both.
        let anywhere = towards.map(|server| match server {
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        });
        if let Some(address) = self.bind.map(|listen| listen.address).or(anywhere) {
            builder = builder.bind(address);
        }
        if let Some(sockets) = self.sockets {
            builder = builder.sockets(sockets as usize);
        }
        if let Some(address) = self.prometheus {
            builder = builder.prometheus(address);
        }
        if let Some(policy) = &self.policy {
            builder = builder.policy(policy.clone());
        }
        if let Some(mtu) = self.mtu {
            builder = builder.mtu(mtu as usize);
        }
        if let Some(datapath) = self.datapath {
            builder = builder.datapath(datapath);
        }
        if let Some(dscp) = self.dscp {
            builder = builder.dscp(dscp);
        }
        if let Some(spec) = &self.emulate {
            builder = builder.emulate(spec.clone(), self.seed);
        }
        builder
    }

    /// The first port of this side, `port` unless the options name one.
    pub(crate) fn first_port(&self, port: u16) -> u16 {
        self.bind.and_then(|listen| listen.port).unwrap_or(port)
    }

    /// The names of the policies, including defaults.
    pub(crate) fn policy_text(&self) -> String {
        self.policy.clone().unwrap_or_default().to_string()
    }

    /// Refuses options that would have no effect.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let last = self.emulate.as_ref().and_then(Spec::last_path);
        match last.filter(|last| *last >= self.paths as usize) {
            None => Ok(()),
            Some(last) => Err(Failure::usage(format!(
                "--emulate names path {last}, and --paths {} has paths 0 to {}: raise --paths, or \
                 name a path that there is",
                self.paths,
                self.paths - 1
            ))),
        }
    }

    /// Warns on standard error of settings without effect: an emulation of paths that the server
    /// does not have, and paths with the same pair of ports as others.
    fn warn_of_paths(&self, context: &Context, peer: &Peer) {
        let (paths, pairs) = (peer.paths(), peer.port_pairs());
        if paths > pairs {
            let own = context.local_addrs().len() as u32 / self.engines;
            let needed = fairway_wire::sockets_for(paths);
            process::say(&format!(
                "fairway: {paths} paths have {pairs} pairs of UDP ports ({own} sockets here, {} at \
                 the server), so some take the same way through the network: both sides need \
                 {needed} sockets, which --paths {paths} opens if --sockets is left out; or use at \
                 most {pairs} --paths",
                pairs / own.max(1)
            ));
        }
        let last = self.emulate.as_ref().and_then(Spec::last_path);
        if let Some(last) = last.filter(|last| *last >= peer.paths() as usize) {
            process::say(&format!(
                "fairway: --emulate names path {last}, which does not exist: the server agreed to \
                 {} paths",
                peer.paths()
            ));
        }
    }

    /// Prints on standard error how the statistics of this program can be viewed.
    fn print_where_to_look(&self, context: &Context) {
        if self.stats {
            let process = std::process::id();
            process::say(&format!(
                "fairway: statistics are reported: `fairway top {process}` shows them"
            ));
        }
        if let Some(address) = context.prometheus_addr() {
            process::say(&format!("fairway: metrics are served at http://{address}/metrics"));
        }
    }

    /// Creates a client's context, and connects it to `host`.
    pub(crate) fn connect(
        &self,
        host: &str,
        to: &Service,
        options: &ConnectOptions,
    ) -> Result<(Context, Peer), Failure> {
        self.connect_with(host, 0, to, options, |builder| builder)
    }

    /// Like [`connect`](Self::connect), with further settings, and to a port that is `offset`
    /// behind the one that `host` names. If no program listens at an address of the host, its next
    /// address is tried.
    pub(crate) fn connect_with(
        &self,
        host: &str,
        offset: u16,
        to: &Service,
        options: &ConnectOptions,
        with: impl Fn(Builder) -> Builder,
    ) -> Result<(Context, Peer), Failure> {
        let servers = resolve(host, to.port, self.bind.map(|listen| listen.address))?;
        let mut refused = None;
        for mut server in servers {
            server.set_port(port_behind(server.port(), offset)?);
            let context = open(with(self.builder(0, Some(server.ip()))))?;
            match context.connect(server, options.connect_timeout) {
                Ok(peer) => {
                    self.warn_of_paths(&context, &peer);
                    if let Some(text) =
                        self.mtu.and_then(|requested| shorter(requested, peer.mtu()))
                    {
                        process::say(&format!("fairway: {text}"));
                    }
                    self.print_where_to_look(&context);
                    return Ok((context, peer));
                }
                Err(error @ Error::NoListener { .. }) => refused = refused.or(Some(error)),
                Err(error) => return Err(to.explain(error)),
            }
        }
        Err(refused.map_or_else(|| Failure::failed("the host has no address"), |e| to.explain(e)))
    }
}

/// The port that is `offset` behind another; 0, for any port, stays 0.
pub(crate) fn port_behind(port: u16, offset: u16) -> Result<u16, Failure> {
    match port {
        0 => Ok(0),
        port => port.checked_add(offset).ok_or_else(|| {
            Failure::usage(format!(
                "no port is {offset} behind {port}: choose a port of at most {}",
                u16::MAX - offset
            ))
        }),
    }
}

/// Builds a context, and warns on standard error if it has fewer sockets than its paths need, or
/// not the requested datapath.
pub(crate) fn open(builder: Builder) -> Result<Context, Error> {
    let context = builder.build()?;
    if let Some(shortage) = context.socket_shortage() {
        process::say(&format!("fairway: {shortage}"));
    }
    if let Some(reason) = context.datapath_fallback() {
        process::say(&format!("fairway: packets take UDP: {reason}"));
    }
    Ok(context)
}

/// A note if the negotiated MTU is smaller than the one requested with `--mtu`.
fn shorter(requested: u32, agreed: u32) -> Option<String> {
    (agreed < requested).then(|| {
        format!(
            "packets have up to {agreed} bytes of payload, not the {requested} of --mtu: no longer \
             ones got through to the server and back, or the link or the server takes none"
        )
    })
}

/// The addresses of `HOST[:PORT]`, of the same family as `bind` if that is given. (`::` serves both
/// families.)
pub(crate) fn resolve(
    text: &str,
    default_port: u16,
    bind: Option<IpAddr>,
) -> Result<Vec<SocketAddr>, Failure> {
    let (host, port) = split(text)?;
    let port = port.unwrap_or(default_port);
    let zoned = Zoned::parse(host).map_err(|error| Failure::usage(error.to_string()))?;
    if zoned.is_none() && host.contains(':') {
        return Err(Failure::usage(format!(
            "'{text}' is no server: write an IPv6 address in brackets if a port follows, as \
             [::1]:{default_port}"
        )));
    }
    let server = match zoned {
        Some(zoned) => ServerAddress::from(zoned.with_port(port)),
        None => ServerAddress::from((host, port)),
    };
    let found = server.resolve()?;
    let bind = bind.filter(|bind| *bind != Ipv6Addr::UNSPECIFIED);
    let fits = |address: &SocketAddr| bind.is_none_or(|bind| bind.is_ipv4() == address.is_ipv4());
    let found: Vec<SocketAddr> = found.into_iter().filter(fits).collect();
    if found.is_empty() {
        return Err(Failure::failed(format!(
            "'{host}' has no address of the family of --bind: leave --bind out"
        )));
    }
    Ok(found)
}

/// The host and the port of `HOST[:PORT]`, `IPV6` or `[IPV6][:PORT]`.
pub(crate) fn split(text: &str) -> Result<(&str, Option<u16>), Failure> {
    let wrong = || {
        Failure::usage(format!(
            "'{text}' is no server: write HOST, HOST:PORT, or [IPV6]:PORT, as storage1:4800"
        ))
    };
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err(wrong()),
            }
        }
        // An address of IPv6 without brackets has no port.
        None if text.matches(':').count() > 1 => (text, None),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port: Option<u16> = port.map(str::parse).transpose().map_err(|_| wrong())?;
    if host.is_empty() || port == Some(0) {
        return Err(wrong());
    }
    Ok((host, port))
}

/// Parses `ADDRESS` or `ADDRESS:PORT`. The library finds the zone of a link-local address among
/// those of this host, so one that is given has to exist, and is left out.
pub(crate) fn listen(text: &str) -> Result<Listen, ValueError> {
    let wrong = || ValueError::LocalAddress(text.to_owned());
    if let Some(Zoned { address, .. }) = Zoned::parse(bare(text))? {
        return Ok(Listen { address, port: None });
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = Some(port.parse().map_err(|_| wrong())?);
    match Zoned::parse(bare(host))? {
        Some(Zoned { address, .. }) if address.is_ipv6() == host.starts_with('[') => {
            Ok(Listen { address, port })
        }
        _ => Err(wrong()),
    }
}

/// Parses `ADDRESS`, `ADDRESS:PORT` or `ADDRESS:FIRST-LAST`.
pub(crate) fn ports(text: &str) -> Result<PortRange, ValueError> {
    let wrong = || ValueError::Ports(text.to_owned());
    if let Ok(address) = bare(text).parse() {
        return Ok(PortRange { address, ports: None });
    }
    let (address, ports) = text.rsplit_once(':').ok_or_else(wrong)?;
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let first: u16 = first.parse().map_err(|_| wrong())?;
    let last: u16 = last.parse().map_err(|_| wrong())?;
    if first > last || last - first >= 64 {
        return Err(wrong());
    }
    let address = bare(address).parse().map_err(|_| wrong())?;
    Ok(PortRange { address, ports: Some((first, last)) })
}

/// Parses a description of emulated paths.
pub(crate) fn spec(text: &str) -> Result<Spec, ValueError> {
    Ok(Spec::from_str(text)?)
}

/// Parses the resources that `--host-pressure` watches.
fn host_pressure(text: &str) -> Result<HostPressure, ValueError> {
    Ok(HostPressure::from_str(text)?)
}

/// Parses `PORT` or `ADDRESS:PORT`.
fn metrics(text: &str) -> Result<SocketAddr, ValueError> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| ValueError::Metrics(text.to_owned()))
}

/// Parses `none`, `CORE` or `CORE,CORE`.
pub(crate) fn pins(text: &str) -> Result<Pins, ValueError> {
    let wrong = || ValueError::Cores(text.to_owned());
    if text == "none" {
        return Ok(Pins::Free);
    }
    let (own, other) = match text.split_once(',') {
        Some((own, other)) => (own, Some(other.parse().map_err(|_| wrong())?)),
        None => (text, None),
    };
    Ok(Pins::Cores(own.parse().map_err(|_| wrong())?, other))
}

fn policy(text: &str) -> Result<Policies, ValueError> {
    Ok(Policies::from_str(text)?)
}

/// The text without the brackets that an IPv6 address may have.
fn bare(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

/// Parses the prefix of namespace names.
pub(crate) fn prefix(text: &str) -> Result<String, ValueError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if (1..=32).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err(ValueError::Prefix(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtu_that_was_not_agreed_on_is_named() {
        let text = shorter(4096, 1272).expect("it is shorter");
        assert!(text.contains("1272") && text.contains("the 4096 of --mtu"), "{text}");
        assert_eq!(shorter(1272, 1272), None);
    }

    #[test]
    fn servers_are_resolved() {
        let at = |text| resolve(text, 7, None).map(|found| found[0].to_string()).ok();
        assert_eq!(at("127.0.0.1").as_deref(), Some("127.0.0.1:7"));
        assert_eq!(at("127.0.0.1:9").as_deref(), Some("127.0.0.1:9"));
        assert_eq!(at("[::1]:9").as_deref(), Some("[::1]:9"));
        assert_eq!(at("::1").as_deref(), Some("[::1]:7"));
        assert_eq!(at("[::1]").as_deref(), Some("[::1]:7"));
        for text in ["", ":9", "127.0.0.1:x", "127.0.0.1:99999", "[::1", "[::1]9", "127.0.0.1:0"] {
            assert_eq!(at(text), None, "{text}");
        }
        // Regression test: servers print such addresses, but clients refused them.
        let lo = at("fe80::1%lo").expect("an interface");
        assert!(lo.starts_with("[fe80::1%") && !lo.contains("lo") && lo.ends_with(":7"), "{lo}");
        assert_eq!(at(&lo), Some(lo.clone()));
        assert_eq!(at("[fe80::1%lo]:9"), Some(lo.replace(":7", ":9")));
        // Regression test: the error named an address with two ports, which was not typed.
        let bare = resolve("::1:14800", 7, None).expect_err("an IPv6 address with a port");
        let bare = bare.to_string();
        assert!(bare.contains("'::1:14800'") && bare.contains("brackets"), "{bare}");
        let unknown = resolve("[fe80::1%nothing]:9", 7, None).expect_err("no interface");
        assert!(unknown.to_string().contains("as fe80::1%eth0"), "{unknown}");
    }

    #[test]
    fn the_usual_host_pressure_is_that_of_the_library() {
        assert_eq!(host_pressure(HOST_PRESSURE), Ok(HostPressure::default()));
    }

    #[test]
    fn ports_and_pins_are_read() {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let range = |ports| Ok(PortRange { address, ports });
        assert_eq!(ports("127.0.0.1"), range(None));
        assert_eq!(ports("127.0.0.1:5"), range(Some((5, 5))));
        assert_eq!(ports("127.0.0.1:5-8"), range(Some((5, 8))));
        assert!(ports("127.0.0.1:8-5").is_err() && ports("x:1").is_err());
        assert_eq!(listen("127.0.0.1:5"), Ok(Listen { address, port: Some(5) }));
        let local: IpAddr = "fe80::1".parse().expect("an address");
        for (text, port) in
            [("fe80::1%lo", None), ("[fe80::1%lo]", None), ("[fe80::1%lo]:5", Some(5))]
        {
            assert_eq!(listen(text), Ok(Listen { address: local, port }), "{text}");
        }
        for text in ["localhost", "[127.0.0.1]:5", "fe80::1%lo:5", "fe80::1%nothing", "[::1]x"] {
            assert!(listen(text).is_err(), "{text}");
        }
        assert_eq!(metrics("9400"), Ok((Ipv4Addr::LOCALHOST, 9400).into()));
        assert_eq!(metrics("[::1]:9").map(|at| at.to_string()).as_deref(), Ok("[::1]:9"));
        assert!(metrics("localhost:1").is_err() && metrics("70000").is_err());
        assert_eq!(pins("none"), Ok(Pins::Free));
        assert_eq!(pins("1,0"), Ok(Pins::Cores(1, Some(0))));
        assert!(pins("a").is_err() && pins("1,").is_err());
    }
}
