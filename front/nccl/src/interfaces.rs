//! The network interfaces that are NCCL's devices, and what the system reports of them.

use std::ffi::CString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use fairway::{InterfaceAddress, interface_addresses};

use crate::limits::DEVICES_MAX;
use crate::selection::{Family, Filter};
use crate::settings;
use crate::status::{Failure, Result, Status};

#[cfg(test)]
mod tests;

/// Speed in Mb/s of an interface whose driver reports none, as NCCL's own sockets assume.
const SPEED_DEFAULT: i32 = 10_000;

/// A device: one interface with one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    /// The interface's name.
    pub(crate) name: CString,
    /// The address to which sockets are bound.
    pub(crate) address: IpAddr,
    /// The function's folder under `/sys/devices`; `None` for virtual interfaces.
    pub(crate) pci_path: Option<CString>,
    /// A number that no other interface of this host has.
    pub(crate) guid: u64,
    pub(crate) speed_mbps: i32,
    is_loopback: bool,
}

/// The devices. NCCL keeps pointers to their names, so they are never freed.
static DEVICES: RwLock<Vec<&'static Interface>> = RwLock::new(Vec::new());

/// Lists the interfaces anew. Returns their number.
pub(crate) fn refresh() -> Result<usize> {
    let speed = settings::speed_mbps()?;
    let mut found = selected(system_interfaces(settings::family())?, &settings::filter());
    if let Some(speed) = speed {
        found.iter_mut().for_each(|interface| interface.speed_mbps = speed);
    }
    let mut devices = DEVICES.write().unwrap_or_else(PoisonError::into_inner);
    let known = std::mem::take(&mut *devices);
    for interface in found {
        let same = known.iter().copied().find(|known| **known == interface);
        devices.push(same.unwrap_or_else(|| Box::leak(Box::new(interface))));
    }
    Ok(devices.len())
}

/// The number of devices.
pub(crate) fn count() -> usize {
    DEVICES.read().unwrap_or_else(PoisonError::into_inner).len()
}

/// The device of this number.
pub(crate) fn device(number: i32) -> Result<&'static Interface> {
    let devices = DEVICES.read().unwrap_or_else(PoisonError::into_inner);
    let found = usize::try_from(number).ok().and_then(|number| devices.get(number).copied());
    found.ok_or_else(|| {
        Failure::argument(format!("device {number} of {}: there is none", devices.len()))
    })
}

fn selected(all: Vec<Interface>, filter: &Filter) -> Vec<Interface> {
    let (loopback, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.is_loopback);
    let fits = |one: &Interface| filter.selects(&one.name.to_string_lossy());
    let mut found: Vec<Interface> = others.into_iter().filter(fits).collect();
    if filter.is_given() {
        found.extend(loopback.into_iter().filter(fits));
    } else if found.is_empty() {
        found = loopback;
    }
    found.truncate(DEVICES_MAX);
    found
}

/// Interfaces that are up and have an address, in the system's order.
fn system_interfaces(family: Family) -> Result<Vec<Interface>> {
    let mut found: Vec<Interface> = Vec::new();
    let all = interface_addresses()
        .map_err(|error| Failure::new(Status::System, format!("list the interfaces: {error}")))?;
    for InterfaceAddress { name, flags, address, .. } in all {
        let flags = flags as i32;
        let both = libc::IFF_UP | libc::IFF_RUNNING;
        if flags & both != both || is_link_local(&address) {
            continue;
        }
        let preferred = address.is_ipv6() == (family == Family::V6);
        match found.iter_mut().find(|one| one.name == name) {
            Some(known) => {
                if preferred && known.address.is_ipv6() != address.is_ipv6() {
                    known.address = address;
                }
            }
            None => found.push(described(name, address, flags & libc::IFF_LOOPBACK != 0)),
        }
    }
    Ok(found)
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.segments()[0] & 0xffc0 == 0xfe80)
}

fn described(name: CString, address: IpAddr, is_loopback: bool) -> Interface {
    let folder = Path::new("/sys/class/net").join(&*name.to_string_lossy());
    let speed = read(&folder.join("speed")).and_then(|text| text.parse().ok());
    let device = std::fs::canonicalize(folder.join("device")).ok();
    let pci = device.as_deref().and_then(pci_function);
    let pci_path = pci.and_then(|path| CString::new(path.to_string_lossy().into_owned()).ok());
    let mac = read(&folder.join("address")).map_or(0, |text| mac_number(&text));
    let index = read(&folder.join("ifindex")).and_then(|text| text.parse().ok()).unwrap_or(0u64);
    let guid = if mac == 0 { 1 << 48 | index } else { mac };
    let speed_mbps = speed.filter(|speed| *speed > 0).unwrap_or(SPEED_DEFAULT);
    Interface { name, address, pci_path, guid, speed_mbps, is_loopback }
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The six bytes of an address such as `02:fc:00:00:00:01` as a number; 0 for other text.
fn mac_number(text: &str) -> u64 {
    let bytes: Option<Vec<u64>> =
        text.split(':').map(|byte| u64::from_str_radix(byte, 16).ok()).collect();
    bytes.map_or(0, |bytes| bytes.iter().fold(0, |number, byte| number << 8 | byte & 0xff))
}

/// The folder of the PCI function that a device belongs to. A virtio device, for example, is a
/// folder within it. NCCL takes the last component for a bus address, so it must be one.
fn pci_function(device: &Path) -> Option<PathBuf> {
    let is_function = |path: &&Path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| {
            let fields: Vec<&str> = name.split([':', '.']).collect();
            let lengths: Vec<usize> = fields.iter().map(|field| field.len()).collect();
            let all_hex = fields.iter().all(|field| u32::from_str_radix(field, 16).is_ok());
            lengths == [4, 2, 2, 1] && all_hex
        })
    };
    device.ancestors().find(is_function).map(Path::to_path_buf)
}
