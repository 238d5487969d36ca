//! RDMA devices: which there are, and the choice of a device, a port and an address of it.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::abi::{
    IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V2, IBV_LINK_LAYER_ETHERNET, IBV_PORT_ACTIVE, ibv_context,
    ibv_device, ibv_gid, ibv_gid_entry, ibv_port_attr,
};
use super::library::Library;

/// Maximum length of a device's name (`IBV_SYSFS_NAME_MAX`).
const NAME_MAX: usize = 64;
/// Maximum number of addresses of a port that are looked at.
const GIDS_MAX: usize = 256;
/// Maximum number of ports of a device.
const PORTS_MAX: u8 = 8;

/// An address of a port in the form of InfiniBand: 16 bytes. Over Ethernet an IP address, IPv4
/// inside IPv6.
pub type Gid = [u8; 16];

/// The device and port that the user has chosen, as `mlx5_0:1`. Without a name, the device that has
/// the context's IP address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RnicChoice {
    name: [u8; NAME_MAX],
    length: usize,
    port: Option<u8>,
}

impl RnicChoice {
    /// Any device and port.
    pub const ANY: RnicChoice = RnicChoice { name: [0; NAME_MAX], length: 0, port: None };

    /// The device's name, if one was chosen.
    pub fn name(&self) -> Option<&str> {
        std::str::from_utf8(&self.name[..self.length]).ok().filter(|name| !name.is_empty())
    }

    /// The port's number, if one was chosen.
    pub fn port(&self) -> Option<u8> {
        self.port
    }

    fn takes(&self, port: &FoundPort) -> bool {
        self.name().is_none_or(|name| name == port.device)
            && self.port.is_none_or(|number| number == port.number)
    }
}

/// Error for a text that is no choice of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDeviceName;

impl FromStr for RnicChoice {
    type Err = NoDeviceName;

    /// Reads `DEVICE` or `DEVICE:PORT`.
    fn from_str(text: &str) -> Result<RnicChoice, NoDeviceName> {
        let (name, port) = match text.split_once(':') {
            None => (text, None),
            Some((name, port)) => (name, Some(port.parse().map_err(|_| NoDeviceName)?)),
        };
        let is_sound = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        if !is_sound || name.len() >= NAME_MAX || port == Some(0) {
            return Err(NoDeviceName);
        }
        let mut choice = RnicChoice { length: name.len(), port, ..RnicChoice::ANY };
        choice.name[..name.len()].copy_from_slice(name.as_bytes());
        Ok(choice)
    }
}

impl fmt::Display for RnicChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or_default())?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Debug for RnicChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A port of an RDMA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPort {
    /// Name of the device.
    pub device: String,
    /// Number of the port, from 1 on.
    pub number: u8,
    /// True if the link is up.
    pub is_active: bool,
    /// True over Ethernet (RoCE), false over InfiniBand and others.
    pub is_ethernet: bool,
    /// Largest datagram in bytes.
    pub mtu: usize,
    /// Local identifier of an InfiniBand port.
    pub(super) lid: u16,
    /// Addresses that can be used, with their indices: over Ethernet those of RoCE v2.
    pub(super) gids: Vec<(u8, Gid)>,
}

impl FoundPort {
    /// The IP addresses of the port, over Ethernet.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let gids = if self.is_ethernet { self.gids.as_slice() } else { &[] };
        gids.iter().map(|(_, gid)| ip_of(gid))
    }

    /// Returns the address, and its index, of a socket that is bound to `local`.
    pub(super) fn gid_for(&self, local: IpAddr) -> Option<(u8, Gid)> {
        let first = || self.gids.iter().find(|(_, gid)| !is_link_local(gid)).or(self.gids.first());
        match self.is_ethernet && !local.is_unspecified() {
            true => self.gids.iter().find(|(_, gid)| ip_of(gid) == local.to_canonical()).copied(),
            false => first().copied(),
        }
    }
}

/// Returns the IP address that an address over Ethernet is.
pub(super) fn ip_of(gid: &Gid) -> IpAddr {
    IpAddr::from(*gid).to_canonical()
}

fn is_link_local(gid: &Gid) -> bool {
    Ipv6Addr::from(*gid).is_unicast_link_local()
}

/// An open device, and the port of it that is used.
#[derive(Debug)]
pub(super) struct OpenPort {
    pub(super) library: Library,
    pub(super) context: *mut ibv_context,
    pub(super) port: FoundPort,
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        // SAFETY: this value's own context; all objects that were made with it are gone.
        unsafe { (self.library.close_device)(self.context) };
    }
}

/// Lists the ports of all RDMA devices of the verbs library.
///
/// # Errors
/// There is no verbs library.
pub fn ports() -> io::Result<Vec<FoundPort>> {
    let mut found = Vec::new();
    each_port(Library::load()?, |_, port| {
        found.push(port);
        None::<()>
    })?;
    Ok(found)
}

/// Opens the port that the choice and the address of the first socket name.
///
/// # Errors
/// There is no such port, or its link is down. The error lists the ports that there are.
pub(super) fn open(choice: &RnicChoice, local: IpAddr) -> io::Result<OpenPort> {
    let library = Library::load()?;
    let mut others = Vec::new();
    // For an address that belongs to no interface, the first port with an address that is not of
    // the loopback interface; and that one if there is no other.
    let is_free = local.is_unspecified() && choice.name().is_none();
    for may_be_loopback in [false, true] {
        others.clear();
        let found = each_port(library, |context, port| {
            let is_loopback = port.addresses().all(|address| address.is_loopback());
            let is_wanted = choice.takes(&port)
                && port.is_active
                && port.gid_for(local).is_some()
                && (may_be_loopback || !is_free || !is_loopback || !port.is_ethernet);
            if !is_wanted {
                others.push(described(&port));
                return None;
            }
            Some(OpenPort { library, context, port })
        })?;
        match found {
            Some(open) => return Ok(open),
            None if !is_free => break,
            None => {}
        }
    }
    let wanted = match (choice.name(), local.is_unspecified()) {
        (None, true) => "no RDMA device has an active port".to_owned(),
        (None, false) => format!("no RDMA device has an active port with the address {local}"),
        (Some(_), true) => format!("the RDMA device {choice} has no active port"),
        (Some(_), false) => {
            format!("the RDMA device {choice} has no active port with the address {local}")
        }
    };
    let there_are = match others.as_slice() {
        [] => "there is no RDMA device".to_owned(),
        others => format!("there are {}", others.join(", ")),
    };
    let text = format!("{wanted}: {there_are}; choose one of its addresses (--bind), or UDP");
    Err(io::Error::new(io::ErrorKind::NotFound, text))
}

fn described(port: &FoundPort) -> String {
    let addresses: Vec<String> = port.addresses().map(|address| address.to_string()).collect();
    let state = if port.is_active { "" } else { ", down" };
    format!("{}:{} ({}{state})", port.device, port.number, addresses.join(" "))
}

/// Opens one device after the other, and calls `visit` for each port until it returns something.
/// A context that `visit` does not return something for is closed.
fn each_port<T>(
    library: Library,
    mut visit: impl FnMut(*mut ibv_context, FoundPort) -> Option<T>,
) -> io::Result<Option<T>> {
    let mut count = 0;
    // SAFETY: the number is written to `count`.
    let list = unsafe { (library.get_device_list)(&mut count) };
    if list.is_null() {
        // Without RDMA in the kernel, libibverbs reports "not implemented".
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ENOSYS | libc::ENOENT | libc::EPERM) => Ok(None),
            _ => Err(error),
        };
    }
    let mut found = None;
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has so many elements, and is freed only after the loop.
        let device = unsafe { *list.add(index) };
        // SAFETY: an element of the list.
        let context = unsafe { (library.open_device)(device) };
        if context.is_null() {
            continue;
        }
        let name = name_of(&library, device);
        let ports = (1..=PORTS_MAX).map_while(|number| look(&library, context, &name, number));
        found = ports.into_iter().find_map(|port| visit(context, port));
        if found.is_some() {
            break;
        }
        // SAFETY: opened above, and nothing was made with it.
        unsafe { (library.close_device)(context) };
    }
    // SAFETY: made above. Open devices stay usable.
    unsafe { (library.free_device_list)(list) };
    Ok(found)
}

fn name_of(library: &Library, device: *mut ibv_device) -> String {
    // SAFETY: an element of the list of devices, whose name is a string.
    unsafe { CStr::from_ptr((library.get_device_name)(device)) }.to_string_lossy().into_owned()
}

/// Reads the attributes of a port. `None`: the device has no such port.
fn look(
    library: &Library,
    context: *mut ibv_context,
    device: &str,
    number: u8,
) -> Option<FoundPort> {
    let mut attributes = ibv_port_attr::default();
    // SAFETY: an open device; the attributes are written, for which there is room.
    if unsafe { (library.query_port)(context, number, &mut attributes) } != 0 {
        return None;
    }
    let is_ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    let exponent = attributes.active_mtu.clamp(1, 5);
    let table_length = usize::try_from(attributes.gid_tbl_len).unwrap_or(0).min(GIDS_MAX);
    let gids = usable(library, context, number, is_ethernet, table_length);
    Some(FoundPort {
        device: device.to_owned(),
        number,
        is_active: attributes.state == IBV_PORT_ACTIVE,
        is_ethernet,
        mtu: 128 << exponent,
        lid: attributes.lid,
        gids,
    })
}

/// Returns the addresses of a port that can be used, with their indices.
fn usable(
    library: &Library,
    context: *mut ibv_context,
    port: u8,
    is_ethernet: bool,
    table_length: usize,
) -> Vec<(u8, Gid)> {
    let kind = if is_ethernet { IBV_GID_TYPE_ROCE_V2 } else { IBV_GID_TYPE_IB };
    if let Some(query) = library.query_gid_table {
        let mut table = vec![ibv_gid_entry::default(); GIDS_MAX];
        let size = size_of::<ibv_gid_entry>();
        // SAFETY: an open device; at most as many entries are written as there are.
        let count = unsafe { query(context, table.as_mut_ptr(), GIDS_MAX, 0, size) };
        let entries = table.iter().take(usize::try_from(count).unwrap_or(0));
        let entries = entries.filter(|entry| {
            let is_here = entry.port_num == u32::from(port) && entry.gid_type == kind;
            is_here && entry.gid_index < 256 && entry.gid.raw() != [0; 16]
        });
        return entries.map(|entry| (entry.gid_index as u8, entry.gid.raw())).collect();
    }
    // The type is unknown: where an address appears twice, drivers list RoCE v1 first.
    let mut gids: Vec<(u8, Gid)> = Vec::new();
    for index in 0..table_length {
        let mut gid = ibv_gid::default();
        // SAFETY: an open device; the address is written.
        let status = unsafe { (library.query_gid)(context, port, index as i32, &mut gid) };
        if status == 0 && gid.raw() != [0; 16] {
            gids.retain(|(_, other)| *other != gid.raw());
            gids.push((index as u8, gid.raw()));
        }
    }
    gids
}
