//! Derives findings from readings. Nothing is read here, so that every verdict can be tested.

mod environment;

use super::finding::{Finding, Verdict, fine};
use fairway_port::NicFeature;

use super::readings::{
    Buffers, Clock, Connection, Interface, PeerReading, Permissions, Processors, RdmaPort,
    Readings, RocePort, Udp, Verbs,
};
use crate::net::{PERF, SERVE, SOCKETS};
use crate::quantity;
use crate::verbs::NoLibrary;

/// Largest payload of a packet in bytes, if the path's MTU permits.
const PAYLOAD_BYTES: usize = 8856;
/// Largest total of the IP, UDP and Fairway headers in front of the payload, in bytes.
const HEADER_BYTES: usize = 140;
/// Interface MTU from which packets have the largest payload.
const MTU_ENOUGH: usize = PAYLOAD_BYTES + HEADER_BYTES;
/// Interface MTU to set where packets are shorter: that of jumbo frames, which switches know.
const MTU_WANTED: usize = 9000;
/// The smallest MTU that IPv6 allows, which suffices for connection set-up.
const MTU_MIN: usize = 1280;
/// Time of a clock reading in nanoseconds above which the clock is a system call or slow hardware.
const CLOCK_NS: u64 = 100;
/// Smallest sufficient limit of locked memory, because programs that use verbs lock what they
/// register.
const LOCKED_BYTES: u64 = 64 << 20;
/// Sufficient number of open files: a context has some tens of descriptors, servers more.
const OPEN_FILES: u64 = 256;
/// Bytes of `/dev/shm` that MPI libraries and others use.
const SHM_BYTES: u64 = 64 << 20;
/// Numbers of capabilities (`linux/capability.h`).
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;

/// Judges all readings, section by section.
pub(crate) fn judge(readings: &Readings) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(peer(readings.peer.as_ref()));
    findings.extend(datapaths(readings));
    if let Ok(udp) = &readings.udp {
        findings.extend(offloads(udp));
    }
    findings.extend(readings.interfaces.iter().filter_map(nic_offloads));
    if let Ok(udp) = &readings.udp {
        findings.extend(buffers(&udp.buffers));
    }
    findings.extend(readings.interfaces.iter().filter_map(interface));
    for route in &readings.routes {
        let found = format!("MTU {} by the route over {}", route.mtu, route.interface);
        let remedy =
            format!("sudo ip route change {} dev {} mtu {MTU_WANTED}", route.to, route.interface);
        findings.push(by_mtu(fine("mtu", format!("route {}", route.to), found), route.mtu, remedy));
    }
    findings.push(clock(&readings.clock));
    findings.extend(processors(&readings.processors));
    findings.extend(permissions(&readings.permissions));
    findings.extend(rdma_programs(&readings.verbs, readings.roce_port, &readings.permissions));
    findings.extend(environment::environment(&readings.environment));
    findings.push(tcp(readings));
    findings
}

fn datapaths(readings: &Readings) -> Vec<Finding> {
    const SECTION: &str = "datapath";
    let udp = match &readings.udp {
        Ok(_) => fine(
            SECTION,
            "udp",
            "chosen for all other peers: sockets can be opened, and packets arrive",
        ),
        Err(error) => fine(SECTION, "udp", format!("does not work: {error}"))
            .but(Verdict::Broken, "sudo ip link set lo up; let this process open UDP sockets"),
    };
    let shared = match &readings.shared_memory {
        Ok(()) => fine(
            SECTION,
            "shared memory",
            "chosen for peers that the same user runs on this host: packets, \
             and loads, stores and atomics on memory that is allocated as shared",
        ),
        Err(error) => fine(SECTION, "shared memory", format!("not used: {error}")).but(
            Verdict::Slower,
            "allow memfd_create and abstract Unix sockets; the network carries it meanwhile",
        ),
    };
    let af_xdp = match &readings.af_xdp {
        Ok(()) => {
            fine(SECTION, "af_xdp", "can be used, with --datapath xdp and an address to bind")
        }
        Err(error) => fine(SECTION, "af_xdp", format!("cannot be used: {error}")).but(
            Verdict::Missing,
            "UDP carries everything; for --datapath xdp run as root, or \
             sudo setcap cap_net_raw,cap_net_admin,cap_bpf=ep PROGRAM",
        ),
    };
    vec![udp, shared, af_xdp, rdma_devices(readings)]
}

fn rdma_devices(readings: &Readings) -> Finding {
    let found = |text: String| fine("datapath", "rdma devices", text);
    let seen = readings.rdma_devices.join(", ");
    match &readings.rdma_ports {
        Ok(ports) if ports.iter().any(|port| port.is_active) => {
            let ports: Vec<String> = ports.iter().map(rdma_port).collect();
            let ports = ports.join(", ");
            found(format!("not chosen by itself, but by --datapath rdma[:DEVICE[:PORT]]: {ports}"))
        }
        Ok(_) | Err(_) if readings.rdma_devices.is_empty() => {
            found("none seen, and none needed".into())
        }
        Ok(ports) if ports.is_empty() => found(format!("seen, but not usable: {seen}")).but(
            Verdict::Missing,
            "UDP carries everything; for --datapath rdma install the device's verbs provider \
             (ibverbs-providers), and let this process open /dev/infiniband/uverbs*",
        ),
        Ok(_) => found(format!("seen, but no link is up: {seen}")),
        Err(error) => found(format!("seen, but not usable: {seen}: {error}")).but(
            Verdict::Missing,
            "UDP carries everything; for --datapath rdma install libibverbs1 and ibverbs-providers",
        ),
    }
}

fn rdma_port(port: &RdmaPort) -> String {
    let state = if port.is_active { "" } else { ", down" };
    format!("{} ({}{state})", port.name, port.addresses.join(" "))
}

fn offloads(udp: &Udp) -> Vec<Finding> {
    const SECTION: &str = "offloads";
    const KERNEL: &str = "boot Linux 5.0 or later, without a filter of setsockopt";
    let sending = match udp.segmentation {
        true => fine(
            SECTION,
            "UDP_SEGMENT",
            format!("works: one call sent {} packets (at most {})", udp.sent, udp.segments_max),
        ),
        false => fine(SECTION, "UDP_SEGMENT", "does not work: a call for every packet")
            .but(Verdict::Slower, KERNEL),
    };
    let receiving = match udp.received_at_once {
        0 | 1 => fine(SECTION, "UDP_GRO", "does not work: a call for every packet")
            .but(Verdict::Slower, KERNEL),
        packets => fine(SECTION, "UDP_GRO", format!("works: one call returned {packets} packets")),
    };
    let fragments = match udp.unfragmented {
        true => fine(SECTION, "fragmentation", "off: packets are never cut on the way"),
        false => {
            fine(SECTION, "fragmentation", "cannot be switched off: a lost fragment loses all")
                .but(Verdict::Slower, "boot a kernel with IP_PMTUDISC_PROBE")
        }
    };
    vec![sending, receiving, fragments]
}

fn buffers(buffers: &Buffers) -> Vec<Finding> {
    let one = |name: &str, granted: usize, max: Option<u64>, setting: &str| {
        // The kernel reports twice the granted size.
        let usable = granted / 2;
        let max = max.map_or("unknown".to_owned(), quantity::show_size);
        let found = format!(
            "got {} of the {} requested (net.core.{setting} {max})",
            quantity::show_size(usable as u64),
            quantity::show_size(buffers.requested as u64)
        );
        let finding = fine("socket buffers", name, found);
        match usable >= buffers.requested {
            true => finding,
            false => finding.but(
                Verdict::Slower,
                format!("sudo sysctl -w net.core.{setting}={}", buffers.requested),
            ),
        }
    };
    vec![
        one("receive", buffers.receive, buffers.receive_max, "rmem_max"),
        one("send", buffers.send, buffers.send_max, "wmem_max"),
    ]
}

/// Offloads of an interface's NIC. The loopback interface has no NIC.
fn nic_offloads(interface: &Interface) -> Option<Finding> {
    let Interface { name, is_up, is_loopback, offloads, .. } = interface;
    if !is_up || *is_loopback || offloads.is_empty() {
        return None;
    }
    let names = |wanted: fn(&NicFeature) -> bool| -> Vec<&str> {
        offloads.iter().filter(|one| wanted(one)).map(|one| one.name.as_str()).collect()
    };
    let (on, fixed) = (names(|one| one.is_on), names(|one| !one.is_on && !one.can_switch));
    let off = names(|one| !one.is_on && one.can_switch);
    let parts = [("on", &on), ("off", &off), ("not offered by the NIC", &fixed)];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    let found: Vec<String> =
        parts.map(|(state, names)| format!("{state}: {}", names.join(", "))).collect();
    let finding = fine("offloads", format!("{name} offloads"), found.join("; "));
    if off.is_empty() {
        return Some(finding);
    }
    let switch = off.iter().map(|name| format!(" {name} on")).collect::<String>();
    Some(finding.but(Verdict::Slower, format!("sudo ethtool -K {name}{switch}")))
}

/// Finding for an interface that is up. The loopback interface carries packets of any length.
fn interface(interface: &Interface) -> Option<Finding> {
    let Interface { name, mtu, is_up, is_loopback, .. } = interface;
    if !is_up {
        return None;
    }
    let finding =
        fine("mtu", name, format!("MTU {mtu}, {} bytes of payload a packet", payload(*mtu)));
    if *is_loopback {
        return Some(finding);
    }
    Some(by_mtu(finding, *mtu, format!("sudo ip link set {name} mtu {MTU_WANTED}")))
}

/// Largest payload of packets that fit an MTU, in bytes.
fn payload(mtu: usize) -> usize {
    (mtu.saturating_sub(HEADER_BYTES) & !7).min(PAYLOAD_BYTES)
}

fn by_mtu(finding: Finding, mtu: usize, command: String) -> Finding {
    match mtu {
        ..MTU_MIN => finding.but(
            Verdict::Missing,
            format!("{command} (below {MTU_MIN} neither IPv6 nor the set-up of connections works)"),
        ),
        MTU_MIN..MTU_ENOUGH => finding.but(
            Verdict::Slower,
            format!("{command}, if every switch on the way and the peer take such packets"),
        ),
        _ => finding,
    }
}

fn clock(clock: &Clock) -> Finding {
    let source = clock.source.as_deref().unwrap_or("unknown");
    let finding = fine("clock", "source", format!("{source}, {} ns to read", clock.read_ns));
    if clock.read_ns <= CLOCK_NS {
        return finding;
    }
    let better = clock.offered.iter().find(|offered| {
        offered.as_str() != source
            && matches!(offered.as_str(), "tsc" | "kvm-clock" | "arch_sys_counter")
    });
    finding.but(
        Verdict::Slower,
        match better {
            Some(better) => format!(
                "echo {better} | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
            ),
            None => "this machine offers no faster clock; every packet reads it".to_owned(),
        },
    )
}

fn processors(processors: &Processors) -> Vec<Finding> {
    const SECTION: &str = "processors";
    let Processors { online, allowed, quota, governor } = processors;
    let cores = fine(SECTION, "cores", format!("{allowed} of {online} may be used"));
    let cores = match allowed {
        0 | 1 if *online > 1 => cores.but(
            Verdict::Slower,
            format!(
                "taskset --cpu-list 0-{} PROGRAM (a program and its peer share one core now)",
                online - 1
            ),
        ),
        0 | 1 => cores.but(Verdict::Slower, "a program and its peer share the one core"),
        _ => cores,
    };
    let quota_finding = match quota {
        None => fine(SECTION, "cgroup quota", "none"),
        Some(quota) => {
            let finding = fine(SECTION, "cgroup quota", format!("{quota:.2} cores"));
            match *quota < *allowed as f64 {
                true => finding.but(
                    Verdict::Slower,
                    format!(
                        "raise cpu.max of the group, or start the container with --cpus \
                        {allowed}: at the quota's end a polling program stops for the period"
                    ),
                ),
                false => finding,
            }
        }
    };
    let frequency = governor.as_ref().map(|governor| {
        let finding = fine(SECTION, "frequency governor", governor.as_str());
        match governor.as_str() {
            "powersave" | "conservative" => {
                finding.but(Verdict::Slower, "sudo cpupower frequency-set --governor performance")
            }
            _ => finding,
        }
    });
    [Some(cores), Some(quota_finding), frequency].into_iter().flatten().collect()
}

fn permissions(permissions: &Permissions) -> Vec<Finding> {
    const SECTION: &str = "permissions";
    let files = permissions.open_files;
    let shown = files.map_or("no limit".to_owned(), |files| files.to_string());
    let open_files = fine(SECTION, "open files", shown);
    let open_files = match files {
        Some(..OPEN_FILES) => open_files.but(Verdict::Slower, "ulimit -n 4096"),
        _ => open_files,
    };
    let calls = match permissions.refused_calls.as_slice() {
        [] => fine(
            SECTION,
            "system calls",
            format!(
                "all that Fairway uses are allowed ({})",
                match permissions.seccomp {
                    Some(0) => "seccomp is off",
                    Some(_) => "a seccomp filter is on",
                    None => "the state of seccomp is hidden",
                }
            ),
        ),
        refused => {
            let list: Vec<String> =
                refused.iter().map(|(call, error)| format!("{call} ({error})")).collect();
            fine(SECTION, "system calls", format!("refused: {}", list.join(", "))).but(
                Verdict::Broken,
                "allow them in the seccomp profile (docker run --security-opt seccomp=FILE)",
            )
        }
    };
    let network = fine(
        SECTION,
        "network namespace",
        match permissions.initial_network {
            Some(true) => "that of the machine",
            Some(false) => "its own: the interfaces above are the container's",
            None => "not known: process 1 is hidden",
        },
    );
    vec![open_files, calls, network, emulation(permissions)]
}

/// Requirements of `fairway emulate --topology` and of captures.
fn emulation(permissions: &Permissions) -> Finding {
    let mut lacking = Vec::new();
    for (capability, name) in [
        (CAP_NET_ADMIN, "CAP_NET_ADMIN"),
        (CAP_NET_RAW, "CAP_NET_RAW"),
        (CAP_SYS_ADMIN, "CAP_SYS_ADMIN"),
    ] {
        if !permissions.has(capability) {
            lacking.push(name.to_owned());
        }
    }
    if let Err(error) = &permissions.tun {
        lacking.push(format!("/dev/net/tun ({error})"));
    }
    match lacking.is_empty() {
        true => fine("permissions", "emulated networks", "namespaces and TUN can be made"),
        false => fine(
            "permissions",
            "emulated networks",
            format!("fairway emulate --topology, and it alone, lacks {}", lacking.join(", ")),
        )
        .but(Verdict::Missing, "run it as root, with modprobe tun; the rest needs no privilege"),
    }
}

/// Requirements of programs under `fairway run`.
fn rdma_programs(verbs: &Verbs, port: RocePort, permissions: &Permissions) -> Vec<Finding> {
    const SECTION: &str = "rdma programs";
    let library = match &verbs.folder {
        Ok(folder) => fine(SECTION, "verbs library", folder.display().to_string()),
        Err(NoLibrary { reason, remedy }) => {
            fine(SECTION, "verbs library", reason).but(Verdict::Missing, *remedy)
        }
    };
    let loaded = match &verbs.loaded {
        None => None,
        Some(Ok(())) => {
            Some(fine(SECTION, "loading it", "a program under fairway run has it loaded"))
        }
        Some(Err(error)) => Some(
            fine(SECTION, "loading it", format!("a program under fairway run lacks it: {error}"))
                .but(Verdict::Missing, "build it on this distribution: make verbs"),
        ),
    };
    let port = match port {
        RocePort::Free => fine(SECTION, "UDP port 4791", "free for RoCE"),
        RocePort::Shared => fine(SECTION, "UDP port 4791", "shared by programs of this user"),
        RocePort::Taken => fine(SECTION, "UDP port 4791", "taken: RoCE cannot be carried").but(
            Verdict::Missing,
            "ss -lunp 'sport = :4791' shows the program (the kernel's soft-RoCE shows none: sudo \
             modprobe -r rdma_rxe), or use fairway run --provider fairway",
        ),
    };
    let locked = permissions.locked_bytes;
    let shown = locked.map_or("no limit".to_owned(), quantity::show_size);
    let memlock = fine(SECTION, "locked memory", format!("{shown} (Fairway itself locks none)"));
    let memlock = match locked {
        Some(..LOCKED_BYTES) => memlock.but(
            Verdict::Slower,
            "ulimit -l unlimited, for programs that check the limit before they register memory",
        ),
        _ => memlock,
    };
    let shm = match &permissions.shm_free {
        Ok(free) if *free >= SHM_BYTES => {
            fine(SECTION, "/dev/shm", format!("{}M free", free >> 20))
        }
        Ok(free) => fine(SECTION, "/dev/shm", format!("{free} bytes free")).but(
            Verdict::Slower,
            "sudo mount -o remount,size=1G /dev/shm (docker run --shm-size 1g), for MPI libraries",
        ),
        Err(error) => fine(SECTION, "/dev/shm", format!("cannot be written: {error}")).but(
            Verdict::Slower,
            "sudo chmod 1777 /dev/shm, for MPI libraries; Fairway itself does not use it",
        ),
    };
    [Some(library), loaded, Some(port), Some(memlock), Some(shm)].into_iter().flatten().collect()
}

fn tcp(readings: &Readings) -> Finding {
    let tcp = &readings.tcp;
    let used = tcp.congestion_control.as_deref().unwrap_or("unknown");
    let found = format!(
        "{used} (offered: {}); name it beside every comparison with TCP",
        tcp.offered.join(", ")
    );
    fine("for comparisons", "TCP", found)
}

fn peer(peer: Option<&PeerReading>) -> Vec<Finding> {
    let Some(PeerReading { host, port, result }) = peer else { return Vec::new() };
    let error = match result {
        Ok(connection) => return reached(connection),
        Err(error) => error,
    };
    let command = match *port == Some(SERVE.port) {
        true => SERVE.command,
        false => PERF.command,
    };
    let first = port.unwrap_or(PERF.port);
    let last = first.saturating_add(SOCKETS - 1);
    vec![fine("peer", host, error.as_str()).but(
        Verdict::Broken,
        format!("start {command} there; let UDP ports {first} to {last} through firewalls"),
    )]
}

fn reached(connection: &Connection) -> Vec<Finding> {
    const SECTION: &str = "peer";
    let Connection { address, server, set_up, mtu, route_mtu, paths, answered, .. } = connection;
    let mut findings = vec![fine(
        SECTION,
        "connection",
        format!("{server} at {address} answered; set up in {:.1} ms", 1e3 * set_up.as_secs_f64()),
    )];
    let route = route_mtu.map_or("unknown".to_owned(), |mtu| mtu.to_string());
    let length =
        format!("{mtu} bytes of payload crossed in both directions (MTU of the route {route})");
    let length = fine(SECTION, "path MTU", length);
    findings.push(match connection.long_packets {
        Some(false) => length.but(
            Verdict::Broken,
            "longer packets are lost on other paths: add --mtu 1024, or correct the MTU on the path",
        ),
        _ if (*mtu as usize) < PAYLOAD_BYTES => length.but(
            Verdict::Slower,
            format!("raise the MTU to {MTU_WANTED} here, there, and on every switch between"),
        ),
        _ => length,
    });
    let found = format!("{answered} of {paths} answered");
    findings.push(match answered == paths {
        true => fine(SECTION, "paths", found),
        false => {
            let ports: Vec<String> = connection.silent_ports.iter().map(u16::to_string).collect();
            let verdict = if *answered == 0 { Verdict::Broken } else { Verdict::Slower };
            fine(SECTION, "paths", found).but(
                verdict,
                match ports.is_empty() {
                    true => {
                        "look at the firewalls on both sides: some pairs of ports are lost".into()
                    }
                    false => format!(
                        "let UDP ports {} of {} through firewalls",
                        ports.join(", "),
                        address.ip()
                    ),
                },
            )
        }
    });
    let trips = &connection.round_trips;
    if let (Some(least), Some(median)) = (trips.first(), trips.get(trips.len() / 2)) {
        let us = |time: &std::time::Duration| 1e6 * time.as_secs_f64();
        findings.push(fine(
            SECTION,
            "round trip",
            format!(
                "{:.1} us at least, {:.1} us in the median of {}",
                us(least),
                us(median),
                trips.len()
            ),
        ));
    }
    findings
}
