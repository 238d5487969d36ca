//! The devices that a program finds: one for each network interface with an address.
//!
//! The interface of the default route comes first, so that a program that requests no particular
//! device gets the one that leads out. The loopback interface comes last, and is present even if no
//! other interface has an address.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

#[cfg(test)]
mod tests;

/// Maximum bytes of headers and trailer around a packet's payload: IPv6 40, UDP 8, BTH 12,
/// AtomicETH 28, ICRC 4, and a reserve for options.
const HEADERS: u32 = 112;

/// Maximum number of devices, so that numbers and GID tables stay small.
pub const DEVICES: usize = 64;

/// A network interface, presented as a verbs device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The device's name: `fairway0` and so on.
    pub name: String,
    /// The interface's name.
    pub interface: String,
    /// The interface's index.
    pub index: u32,
    /// The interface's addresses, IPv4 first and link-local last: the GIDs, in order.
    pub addresses: Vec<IpAddr>,
    /// Maximum bytes of an IP packet on the interface.
    pub interface_mtu: u32,
    /// The hardware address; zeroes if there is none.
    pub hardware: [u8; 6],
    /// True if the device has a provider.
    pub running: bool,
    /// Speed in Mbit/s, if the driver reports one; that of memory for an end of a virtual cable.
    pub speed_mbps: Option<u32>,
}

/// Speed of a device whose driver reports none, in Mbit/s.
const UNKNOWN_MBPS: u32 = 10_000;

/// Speed of an interface that only the host's memory limits, in Mbit/s. No driver reports that of
/// the loopback interface, and the driver of virtual cables reports 10 Gb/s for each of them.
const IN_MEMORY_MBPS: u32 = 100_000;

/// Driver of virtual cables, whose two ends are interfaces of this host.
const VIRTUAL_CABLE: &str = "veth";

impl Device {
    /// Payload bytes of a packet: 256, 512, 1024, 2048 or 4096.
    pub fn mtu(&self) -> u32 {
        payload(self.interface_mtu)
    }

    /// Speed in Mbit/s by which programs choose how to send. From it UCX computes the size from
    /// which it lets the receiver READ a message instead of sending it through buffers.
    pub fn port_mbps(&self) -> u32 {
        self.speed_mbps.unwrap_or(if self.is_loopback() { IN_MEMORY_MBPS } else { UNKNOWN_MBPS })
    }

    fn is_loopback(&self) -> bool {
        self.addresses.iter().any(IpAddr::is_loopback)
    }

    /// A number that identifies the device among those of all hosts (an EUI-64).
    pub fn guid(&self) -> u64 {
        let mac = self.hardware;
        if mac != [0; 6] {
            let mut bytes = [mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]];
            // Interfaces of one bridge or bond share their hardware address.
            bytes[3] ^= self.index as u8;
            return u64::from_be_bytes(bytes);
        }
        // The loopback interface has no hardware address; its number is derived from the host.
        let host = std::fs::read_to_string("/etc/machine-id")
            .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/random/boot_id"))
            .unwrap_or_default();
        let hash = host.trim().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // The result is marked as locally administered, and differs between such interfaces of the
        // host.
        (hash & !(3 << 56) | 2 << 56).wrapping_add(u64::from(self.index))
    }
}

/// Returns the largest payload for packets of an interface.
fn payload(interface_mtu: u32) -> u32 {
    let room = interface_mtu.saturating_sub(HEADERS);
    [4096, 2048, 1024, 512].into_iter().find(|size| *size <= room).unwrap_or(256)
}

/// Selects the interfaces that become devices: the text of `FAIRWAY_DEVICES`.
///
/// A list with commas. `eth` selects the interfaces whose names begin with it, `=eth0` only the one
/// with that name, and an IP address the interface that has it, without its other addresses. A list
/// that begins with `^` selects all interfaces except those. Devices have the order of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    exclude: bool,
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Prefix(String),
    Exactly(String),
    Address(IpAddr),
}

impl Item {
    fn matches(&self, device: &Device) -> bool {
        match self {
            Item::Prefix(name) => device.interface.starts_with(name.as_str()),
            Item::Exactly(name) => device.interface == *name,
            Item::Address(address) => device.addresses.contains(address),
        }
    }
}

/// Error for a list with an empty entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterError;

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry is empty: give interfaces or addresses, as eth0,192.0.2.7 or ^docker")
    }
}

impl std::error::Error for FilterError {}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Filter, FilterError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Filter::default());
        }
        let (exclude, list) = match text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let item = |entry: &str| {
            let entry = entry.trim();
            let exact = entry.strip_prefix('=');
            match (entry.parse(), exact) {
                (Ok(address), _) => Ok(Item::Address(address)),
                (_, Some(name)) if !name.is_empty() => Ok(Item::Exactly(name.to_owned())),
                (_, None) if !entry.is_empty() => Ok(Item::Prefix(entry.to_owned())),
                _ => Err(FilterError),
            }
        };
        let items = list.split(',').map(item).collect::<Result<_, _>>()?;
        Ok(Filter { exclude, items })
    }
}

impl Filter {
    fn apply(&self, found: Vec<Device>) -> Vec<Device> {
        if self.items.is_empty() {
            return found;
        }
        if self.exclude {
            let excluded = |device: &Device| self.items.iter().any(|item| item.matches(device));
            return found.into_iter().filter(|device| !excluded(device)).collect();
        }
        let mut chosen: Vec<Device> = Vec::new();
        for item in &self.items {
            for device in found.iter().filter(|device| item.matches(device)) {
                let mut device = device.clone();
                if let Item::Address(address) = item {
                    device.addresses = vec![*address];
                }
                if !chosen.contains(&device) {
                    chosen.push(device);
                }
            }
        }
        chosen
    }
}

/// Lists the devices of this host.
pub fn list(filter: &Filter) -> io::Result<Vec<Device>> {
    let mut found = interfaces()?;
    let default = default_interface();
    // An interface with only a link-local address is usually the host's end of a container's link.
    found.retain(|device| device.addresses.iter().any(|address| !is_link_local(address)));
    found.sort_by_key(|device| {
        (device.is_loopback(), Some(&device.interface) != default.as_ref(), device.index)
    });
    let mut devices = filter.apply(found);
    devices.truncate(DEVICES);
    for (number, device) in devices.iter_mut().enumerate() {
        device.name = format!("fairway{number}");
        device.speed_mbps = speed(&device.interface);
    }
    Ok(devices)
}

/// Returns the interface of the default route, of IPv4 before IPv6.
fn default_interface() -> Option<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let zero = |field: &str| field.bytes().all(|digit| digit == b'0');
    let mut best: Option<(u32, String)> = None;
    for line in read("/proc/net/route").lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, destination, _, _, _, _, metric, mask, ..] = fields[..] else { continue };
        let metric = metric.parse().unwrap_or(u32::MAX);
        let better = best.as_ref().is_none_or(|(least, _)| metric < *least);
        if zero(destination) && zero(mask) && better {
            best = Some((metric, name.to_owned()));
        }
    }
    if let Some((_, name)) = best {
        return Some(name);
    }
    read("/proc/net/ipv6_route").lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (destination, length, name) = (fields.first()?, fields.get(1)?, fields.get(9)?);
        // The kernel puts an unreachable default route on the loopback interface.
        (zero(destination) && zero(length) && *name != "lo").then(|| (*name).to_owned())
    })
}

fn speed(interface: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    let reported = text.trim().parse().ok().filter(|speed| *speed > 0);
    let driver = fairway_port::interface_driver(interface).unwrap_or_default();
    credible_speed(reported, &driver)
}

/// Returns the speed of an interface whose driver reports this one.
fn credible_speed(reported: Option<u32>, driver: &str) -> Option<u32> {
    if driver == VIRTUAL_CABLE { Some(IN_MEMORY_MBPS) } else { reported }
}

/// Returns the maximum bytes of an IP packet on an interface.
fn interface_mtu(interface: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/mtu")).ok()?;
    text.trim().parse().ok()
}

/// Returns every interface that is up, with its addresses, in the kernel's order.
fn interfaces() -> io::Result<Vec<Device>> {
    let mut head: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call stores a pointer to a list there, which is freed below.
    if unsafe { libc::getifaddrs(&mut head) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut devices: Vec<Device> = Vec::new();
    let mut entry = head;
    while !entry.is_null() {
        // SAFETY: an entry of the list, which is not freed yet; its name ends with a zero byte.
        let (here, name) = unsafe { (&*entry, CStr::from_ptr((*entry).ifa_name)) };
        entry = here.ifa_next;
        let name = name.to_string_lossy();
        // An alias, such as eth0:1, is another name of the interface.
        let name = name.split(':').next().unwrap_or_default();
        if here.ifa_flags & libc::IFF_UP as u32 == 0 || here.ifa_addr.is_null() {
            continue;
        }
        let at = devices.iter().position(|device| device.interface == name).unwrap_or_else(|| {
            devices.push(unnamed(name, here.ifa_flags));
            devices.len() - 1
        });
        // SAFETY: the address of an entry is as long as its family says.
        unsafe { take_address(&mut devices[at], here.ifa_addr) };
    }
    // SAFETY: the list of the call above, once.
    unsafe { libc::freeifaddrs(head) };
    let table = std::fs::read_to_string("/proc/self/net/if_inet6").unwrap_or_default();
    for device in &mut devices {
        // An address for which duplicate detection is still running cannot be bound yet.
        device.addresses.retain(|address| !is_tentative(&table, device.index, address));
        // The sort is stable: within a kind the order is the kernel's, with the primary address
        // first. Adapters list the link-local address first; here GID 0 is the address that most
        // programs need.
        device.addresses.sort_by_key(|address| (address.is_ipv6(), is_link_local(address)));
        device.addresses.truncate(super::DEVICE_ADDRESSES);
        device.interface_mtu = interface_mtu(&device.interface).unwrap_or(1500);
    }
    Ok(devices)
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// True if duplicate address detection for an address of an interface is not finished, or has found
/// another host with it, according to `table`, the kernel's table of IPv6 addresses.
fn is_tentative(table: &str, interface: u32, address: &IpAddr) -> bool {
    const DUPLICATE: u32 = 0x08;
    const TENTATIVE: u32 = 0x40;
    let IpAddr::V6(ip) = address else { return false };
    let wanted = format!("{:032x} {interface:02x} ", u128::from(*ip));
    let line = table.lines().find(|line| line.starts_with(&wanted));
    let flags = line.and_then(|line| line.split_whitespace().nth(4));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags, 16).ok());
    flags.is_some_and(|flags| flags & (TENTATIVE | DUPLICATE) != 0)
}

fn unnamed(interface: &str, flags: u32) -> Device {
    let index = std::ffi::CString::new(interface).map_or(0, |name| {
        // SAFETY: the name ends with a zero byte.
        unsafe { libc::if_nametoindex(name.as_ptr()) }
    });
    Device {
        name: String::new(),
        interface: interface.to_owned(),
        index,
        addresses: Vec::new(),
        interface_mtu: 0,
        hardware: [0; 6],
        running: flags & libc::IFF_RUNNING as u32 != 0,
        speed_mbps: None,
    }
}

/// # Safety
///
/// `address` points to an address as long as its family says.
unsafe fn take_address(device: &mut Device, address: *const libc::sockaddr) {
    // SAFETY: as the caller says; each branch reads the type that belongs to the family.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let address = &*address.cast::<libc::sockaddr_in>();
                let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
                device.addresses.push(IpAddr::V4(ip));
            }
            libc::AF_INET6 => {
                let address = &*address.cast::<libc::sockaddr_in6>();
                let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
                device.addresses.push(IpAddr::V6(ip));
            }
            libc::AF_PACKET => {
                let address = &*address.cast::<libc::sockaddr_ll>();
                if address.sll_halen == 6 {
                    device.hardware.copy_from_slice(&address.sll_addr[..6]);
                }
            }
            _ => {}
        }
    }
}
