//! Properties that the kernel publishes in files.

use std::ffi::CString;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use fairway_port::{NicFeature, nic_features};

use crate::doctor::readings::{Interface, Permissions, Route, Tcp};

/// Offloads of UDP packets, by the kernel's names: segmenting a run into packets, coalescing
/// packets into a run, and verifying checksums.
const OFFLOADS: [&str; 3] = ["tx-udp-segmentation", "rx-gro", "rx-checksum"];

pub(super) fn text(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The only line of a file.
pub(super) fn line(path: &str) -> Option<String> {
    text(path).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

pub(super) fn number(path: &str) -> Option<u64> {
    line(path)?.parse().ok()
}

/// The words of a file; empty if there is no file.
pub(super) fn words(path: &str) -> Vec<String> {
    text(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The names in a folder, sorted; empty if there is no folder.
pub(super) fn entries(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Interfaces of this network namespace. (`/sys` may show those of another one.)
pub(super) fn interfaces() -> Vec<Interface> {
    let names = fairway_port::interfaces().unwrap_or_default();
    names.into_iter().filter_map(|name| interface(name).ok()).collect()
}

fn interface(name: String) -> io::Result<Interface> {
    let socket = super::plain_socket()?;
    let ioctl = |request| -> io::Result<libc::ifreq> {
        // SAFETY: all zeros are a value of this structure of numbers and bytes.
        let mut argument: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in argument.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&socket);
        // SAFETY: the kernel reads the name and writes the answer, both in the structure.
        match unsafe { libc::ioctl(descriptor, request, &raw mut argument) } {
            0 => Ok(argument),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the field that each of the requests writes.
    let mtu = unsafe { ioctl(libc::SIOCGIFMTU)?.ifr_ifru.ifru_mtu };
    // SAFETY: likewise.
    let flags = i32::from(unsafe { ioctl(libc::SIOCGIFFLAGS)?.ifr_ifru.ifru_flags });
    Ok(Interface {
        mtu: usize::try_from(mtu).unwrap_or_default(),
        is_up: flags & libc::IFF_UP != 0,
        is_loopback: flags & libc::IFF_LOOPBACK != 0,
        offloads: offloads(&name),
        name,
    })
}

/// The offloads of an interface that matter to Fairway.
fn offloads(interface: &str) -> Vec<NicFeature> {
    let features = nic_features(interface).unwrap_or_default();
    features.into_iter().filter(|one| OFFLOADS.contains(&one.name.as_str())).collect()
}

/// The routes of `/proc/net/route` that set an MTU.
pub(super) fn routes(table: &str) -> Vec<Route> {
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [interface, to, _, _, _, _, _, mask, mtu, ..] = fields.as_slice() else { return None };
        let mtu = mtu.parse().ok().filter(|mtu| *mtu > 0)?;
        let address = |text| {
            u32::from_str_radix(text, 16).ok().map(|bits| Ipv4Addr::from(bits.to_ne_bytes()))
        };
        let (to, bits) = (address(to)?, u32::from(address(mask)?).count_ones());
        let to = if bits == 0 { "default".to_owned() } else { format!("{to}/{bits}") };
        Some(Route { to, interface: (*interface).to_owned(), mtu })
    };
    table.lines().skip(1).filter_map(route).collect()
}

pub(super) fn permissions() -> Permissions {
    let status = text("/proc/self/status").unwrap_or_default();
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let tun = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    Permissions {
        locked_bytes: limit(libc::RLIMIT_MEMLOCK),
        open_files: limit(libc::RLIMIT_NOFILE),
        shm_free: shm_free().map_err(|error| error.to_string()),
        capabilities: field(&status, "CapEff:")
            .and_then(|text| u64::from_str_radix(text, 16).ok())
            .unwrap_or_default(),
        tun: tun.map(drop).map_err(|error| error.to_string()),
        seccomp: field(&status, "Seccomp:").and_then(|text| text.parse().ok()),
        refused_calls: refused_calls(),
        initial_network: namespace("1").zip(namespace("self")).map(|(first, own)| first == own),
    }
}

/// A field of the text of `/proc/self/status`.
pub(super) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A resource limit of this process; `None` if it is unlimited.
fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: room for the answer, which outlives the call.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Free bytes in `/dev/shm`, if files can be created there.
fn shm_free() -> io::Result<u64> {
    let path = Path::new("/dev/shm").join(format!("fairway-doctor-{}", std::process::id()));
    std::fs::File::create_new(&path)?;
    std::fs::remove_file(&path)?;
    // SAFETY: all zeros are a value of this structure of numbers; the path ends with a zero.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        match libc::statvfs(c"/dev/shm".as_ptr(), &raw mut found) {
            0 => Ok(found.f_bavail * found.f_frsize),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Tests the system calls that a filter may refuse and without which contexts can't be created.
fn refused_calls() -> Vec<(&'static str, String)> {
    let name = CString::from(c"fairway-doctor");
    // SAFETY: plain numbers, and a name that ends with a zero.
    let opened = unsafe {
        [
            ("epoll_create1", libc::epoll_create1(libc::EPOLL_CLOEXEC)),
            ("eventfd", libc::eventfd(0, libc::EFD_CLOEXEC)),
            ("memfd_create", libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC)),
            (
                "socket (netlink)",
                libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE),
            ),
        ]
    };
    let mut refused = Vec::new();
    for (call, descriptor) in opened {
        if descriptor < 0 {
            refused.push((call, io::Error::last_os_error().to_string()));
        } else {
            // SAFETY: opened above, and ours alone.
            drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
    }
    refused
}

pub(super) fn tcp() -> Tcp {
    let setting = |name: &str| format!("/proc/sys/net/ipv4/tcp_{name}");
    Tcp {
        congestion_control: line(&setting("congestion_control")),
        offered: words(&setting("available_congestion_control")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_with_an_mtu_of_their_own_are_read() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n\
             eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t1400\t0\t0\n\
             eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
             eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t9000\t0\t0\n\
             cut off\n";
        let route = |to: &str, interface: &str, mtu| Route {
            to: to.into(),
            interface: interface.into(),
            mtu,
        };
        let expected = [route("default", "eth0", 1400), route("10.0.0.0/8", "eth1", 9000)];
        // The table prints addresses in the byte order of a little-endian CPU.
        if cfg!(target_endian = "little") {
            assert_eq!(routes(table), expected);
        }
    }

    #[test]
    fn fields_of_a_process_status_are_found_by_name() {
        let status = "Name:\tfairway\nCapEff:\t0000000000002000\nSeccomp:\t2\n";
        assert_eq!(field(status, "CapEff:"), Some("0000000000002000"));
        assert_eq!(field(status, "Seccomp:"), Some("2"));
        assert_eq!(field(status, "CapAmb:"), None);
    }
}
