//! Emulates a whole network in real time: hosts are network namespaces, and links and switches are
//! the simulator's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fairway_port::Tun;
use fairway_sim::{Emulation, Frame, Settings, SettingsError};
use serde_json::{Value, json};

use super::flows::Flows;
use super::frame;
use super::program::{End, GRACE, Program};
use crate::args::EmulateOptions;
use crate::failure::Failure;
use crate::input;
use crate::process;
use crate::sim::inputs::check_once;

/// Largest number of hosts, because each is a namespace.
const HOSTS_MAX: u32 = 250;
/// Largest number of packets taken from one host before the next host.
const BURST: usize = 32;
/// Backlog of a host's wire in bytes above which no packets are taken from the host, so that it
/// queues or drops them itself.
const BACKLOG_BYTES: u32 = 64 << 10;
/// Longest delay until a signal, or the end of the command, is noticed.
const LOOK: Duration = Duration::from_millis(50);
/// Packets arrive later than they should by at most this part of the shortest link's latency, and
/// by at most this time, because waking for every event would occupy a core.
const LATE_PART: u32 = 2;
const LATE_MAX: Duration = Duration::from_micros(50);
/// MTU of the hosts' interfaces: a Fairway packet with 8 KiB of payload fits.
const MTU: &str = "9000";

/// Runs the command.
pub(super) fn run(options: &EmulateOptions, file: &Path) -> Result<(), Failure> {
    let mut network = build(options, file)?;
    process::catch_signals();
    process::hold_signals();
    let hosts = Hosts::make(&options.prefix, network.hosts())?;
    super::announce(&hosts.describe(), options.json)?;
    let mut program = None;
    if let Some((name, arguments)) = options.command.split_first() {
        let mut command = Command::new(name);
        command.args(arguments).env("FAIRWAY_NAMESPACES", hosts.names.join(" "));
        program = Some(Program::start(&mut command)?);
    }
    let flows = Flows::default();
    let mut relay = Relay { tuns: &hosts.tuns, flows, strays: 0, refused: 0 };
    let outcome = relay.run(&mut network, options.duration, program.as_mut());
    let end = program.as_mut().map(|program| program.end(GRACE)).transpose();
    outcome?;
    let end = end.map_err(|error| Failure::io("wait for the command", &error))?;
    relay.report(&network, options.json)?;
    let command = options.command.join(" ");
    match end {
        Some(End::Itself(status)) if !status.success() => {
            Err(Failure::failed(format!("{command}: {status}")))
        }
        Some(End::CutOff(status)) => Err(Failure::failed(format!(
            "{command}: it still ran when the emulation was to end, and was stopped ({status}): \
             give a longer --duration, or none"
        ))),
        _ => Ok(()),
    }
}

fn build(options: &EmulateOptions, file: &Path) -> Result<Emulation, Failure> {
    let text = input::read_text(file).map_err(|error| {
        Failure::usage(format!(
            "--topology {} cannot be read: {error}: name a file of settings, as `fairway sim` \
             reads them",
            file.display()
        ))
    })?;
    let mut settings = Settings::default();
    let here = |error: SettingsError| Failure::file(file.display(), error);
    settings.read(&text).map_err(here)?;
    check_once(&text).map_err(|error| Failure::file(file.display(), error))?;
    for setting in &options.set {
        let (name, value) = setting.split_once('=').ok_or_else(|| {
            Failure::usage(format!("--set {setting}: NAME=VALUE is wanted, as routing=adaptive"))
        })?;
        settings.set(name, value)?;
    }
    let scenario = settings.build(options.seed).map_err(here)?;
    let hosts = scenario.network.hosts;
    if hosts > HOSTS_MAX {
        let error = Failure::usage(format!(
            "{hosts} hosts: at most {HOSTS_MAX} are made; `nodes N` in the file says how many"
        ));
        return Err(Failure::file(file.display(), error));
    }
    Emulation::new(scenario).map_err(|error| Failure::file(file.display(), error))
}

/// Network namespaces, each with an interface whose other end is in this process. They are removed
/// on drop.
struct Hosts {
    names: Vec<String>,
    tuns: Vec<Tun>,
}

fn address4(host: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 83, 0, 0)) + host + 1)
}

fn address6(host: u32) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(Ipv6Addr::new(0xFD83, 0, 0, 0, 0, 0, 0, 0)) + u128::from(host) + 1)
}

/// The number of the host that has this address.
fn host_of(address: IpAddr, hosts: u32) -> Option<u32> {
    let number = match address {
        IpAddr::V4(address) => u32::from(address).checked_sub(u32::from(address4(0))),
        IpAddr::V6(address) => {
            let number = u128::from(address).checked_sub(u128::from(address6(0)));
            number.and_then(|number| u32::try_from(number).ok())
        }
    };
    number.filter(|host| *host < hosts)
}

impl Hosts {
    fn make(prefix: &str, count: u32) -> Result<Hosts, Failure> {
        let mut hosts = Hosts { names: Vec::new(), tuns: Vec::new() };
        for host in 0..count {
            let name = format!("{prefix}-{host}");
            if Path::new("/run/netns").join(&name).exists() {
                return Err(Failure::usage(format!(
                    "there is a namespace {name} already: give another --prefix, or remove it with \
                     `ip netns delete {name}`"
                )));
            }
            ip(&["netns", "add", &name])?;
            hosts.names.push(name.clone());
            let tun = Tun::make("fairway0", &Path::new("/run/netns").join(&name))
                .map_err(|error| Failure::io(format!("make an interface in {name}"), &error))?;
            hosts.tuns.push(tun);
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            ip(&["-n", &name, "link", "set", "fairway0", "mtu", MTU, "up"])?;
            let four = format!("{}/16", address4(host));
            ip(&["-n", &name, "address", "add", &four, "dev", "fairway0"])?;
            let six = format!("{}/64", address6(host));
            ip(&["-n", &name, "address", "add", &six, "dev", "fairway0", "nodad"])?;
        }
        Ok(hosts)
    }

    fn describe(&self) -> String {
        let line = |(host, name): (usize, &String)| {
            let host = host as u32;
            format!("  ip netns exec {name:<10} # {} and {}\n", address4(host), address6(host))
        };
        let lines: String = self.names.iter().enumerate().map(line).collect();
        format!("fairway emulate: {} hosts\n{lines}", self.names.len())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.tuns.clear();
        for name in &self.names {
            // A namespace that is already gone need not be removed.
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::null())
        // A terminal, and `timeout`, send signals to the whole group of this process.
        .process_group(0)
        .output()
        .map_err(|error| Failure::io("run ip (of iproute2)", &error))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let why = format!("ip {}: {}", arguments.join(" "), text.trim());
    let hint = if why.contains("ermitted") { " (namespaces are made by root)" } else { "" };
    Err(Failure::failed(format!("{why}{hint}")))
}

struct Relay<'a> {
    tuns: &'a [Tun],
    flows: Flows,
    /// Number of packets to addresses that no host of this network has: multicast, and unknown
    /// ones.
    strays: u64,
    /// Number of packets that a host had no room for.
    refused: u64,
}

impl Relay<'_> {
    /// Carries packets until it is stopped, or until the program, if there is one, has ended.
    fn run(
        &mut self,
        network: &mut Emulation,
        duration: Option<Duration>,
        mut program: Option<&mut Program>,
    ) -> Result<(), Failure> {
        // The kernel's default timer slack of 50 us would be as long as a long link here.
        // SAFETY: a number is handed over, and concerns this thread only.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let fds = self.tuns.iter().map(|tun| tun.as_fd().as_raw_fd());
        let mut polls: Vec<libc::pollfd> =
            fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        let start = Instant::now();
        let mut looked = start;
        let late = (network.shortest_latency() / LATE_PART).min(LATE_MAX);
        let mut buffer = vec![0; 1 << 16];
        loop {
            let took = self.take_in(network, &start, &mut buffer)?;
            let now = picoseconds(start.elapsed());
            network.advance(now, |host, bytes, marked| self.hand_out(host, bytes, marked));
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                let ended = program.as_mut().map_or(Ok(false), |program| program.has_ended());
                let is_over = ended.map_err(|error| Failure::io("wait for the command", &error))?
                    || process::stopping()
                    || duration.is_some_and(|span| start.elapsed() >= span);
                if is_over {
                    return Ok(());
                }
            }
            if !took {
                let wait = network.next_ps().map_or(LOOK, |at| {
                    let now = picoseconds(start.elapsed());
                    Duration::from_nanos(at.saturating_sub(now) / 1000).clamp(late, LOOK)
                });
                for (host, (poll, tun)) in polls.iter_mut().zip(self.tuns).enumerate() {
                    let full = network.backlog_bytes(host as u32) > BACKLOG_BYTES;
                    poll.fd = if full { -1 } else { tun.as_fd().as_raw_fd() };
                }
                sleep(&mut polls, wait)?;
            }
        }
    }

    /// Reads packets from the hosts; false if no host has sent any.
    fn take_in(
        &mut self,
        network: &mut Emulation,
        start: &Instant,
        buffer: &mut [u8],
    ) -> Result<bool, Failure> {
        let mut took = false;
        for (from, tun) in self.tuns.iter().enumerate() {
            for _ in 0..BURST {
                if network.backlog_bytes(from as u32) > BACKLOG_BYTES {
                    break;
                }
                let length =
                    tun.read(buffer).map_err(|error| Failure::io("read a packet", &error))?;
                let Some(length) = length else { break };
                took = true;
                let packet = &buffer[..length];
                let header = frame::read(packet);
                let to = header
                    .and_then(|header| host_of(header.destination, self.tuns.len() as u32))
                    .filter(|to| *to != from as u32);
                let (Some(header), Some(to)) = (header, to) else {
                    self.strays += 1;
                    continue;
                };
                let frame = Frame {
                    from: from as u32,
                    to,
                    entropy: header.entropy,
                    bytes: length as u32 + frame::ETHERNET_BYTES,
                    priority: header.priority,
                };
                self.flows.note(frame.from, frame.to, frame.entropy);
                network.send(picoseconds(start.elapsed()), &frame, packet.to_vec());
            }
        }
        Ok(took)
    }

    fn hand_out(&mut self, host: u32, mut packet: Vec<u8>, marked: bool) {
        if marked {
            frame::mark(&mut packet);
        }
        // An interface that its host has set down accepts no packets.
        let taken = self.tuns[host as usize].write(&packet).unwrap_or(false);
        self.refused += u64::from(!taken);
    }

    /// Prints the counters, the links that carried packets, and the number of flows from each host
    /// to each other.
    fn report(&self, network: &Emulation, as_json: bool) -> Result<(), Failure> {
        let counters = network.counters();
        let numbers = [
            ("sent", counters.sent),
            ("delivered", counters.delivered),
            ("dropped", counters.dropped),
            ("lost", counters.lost),
            ("marked", counters.marked),
            ("longest_queue_bytes", counters.longest_queue_bytes.into()),
            ("strays", self.strays),
            ("refused", self.refused),
        ];
        let used = network.links().filter(|link| link.3 > 0);
        if as_json {
            let mut object: serde_json::Map<_, _> =
                numbers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
            let links: Vec<Value> = used
                .map(|(from, to, bytes, packets)| {
                    json!({ "from": from, "to": to, "bytes": bytes, "packets": packets })
                })
                .collect();
            object.insert("links".into(), links.into());
            let flow = |(from, to, count)| json!({ "from": from, "to": to, "flows": count });
            object.insert("flows".into(), self.flows.counts().map(flow).collect());
            return process::print(&format!("{}\n", Value::from(object)));
        }
        let lines = numbers.iter().map(|(name, value)| format!("  {name:<20} {value:>12}\n"));
        let links = used.map(|(from, to, bytes, packets)| {
            format!("  link {from:>4} to {to:<4} {packets:>12} packets {bytes:>14} bytes\n")
        });
        let flow = |(from, to, count)| format!("  host {from:>4} to {to:<4} {count:>12} flows\n");
        let flows = self.flows.counts().map(flow);
        process::print(&lines.chain(links).chain(flows).collect::<String>())
    }
}

fn picoseconds(span: Duration) -> u64 {
    span.as_nanos() as u64 * 1000
}

/// Sleeps until a packet can be read, but at most for `wait`.
fn sleep(polls: &mut [libc::pollfd], wait: Duration) -> Result<(), Failure> {
    let span = libc::timespec {
        tv_sec: wait.as_secs() as libc::time_t,
        tv_nsec: wait.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the list is as long as is said, and the span lives through the call.
    let result = unsafe {
        libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, &span, std::ptr::null())
    };
    let error = io::Error::last_os_error();
    if result < 0 && error.kind() != io::ErrorKind::Interrupted {
        return Err(Failure::io("wait for packets", &error));
    }
    Ok(())
}
