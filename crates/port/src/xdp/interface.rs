//! A network interface as AF_XDP sockets use it.

use std::ffi::CString;
use std::io;
use std::net::IpAddr;

use super::redirect::QUEUES_MAX;
use crate::ethtool::Request;
use crate::interfaces::interface_addresses;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Number of its receive queues.
    pub queues: u32,
}

impl Interface {
    /// Returns the Ethernet interface that has an IP address.
    ///
    /// # Errors
    /// No interface has it, or it is not an Ethernet interface, such as `lo`. The error says so.
    pub fn with_address(address: IpAddr) -> io::Result<Interface> {
        let name = name_of(address)?.ok_or_else(|| {
            let text =
                format!("no interface has the address {address}: use one that `ip address` shows");
            io::Error::new(io::ErrorKind::AddrNotAvailable, text)
        })?;
        let mut request = Request::new(&name)?;
        let mac = request.ethernet_address()?.ok_or_else(|| {
            let text = format!(
                "the interface {name} of {address} is not an Ethernet interface: use the datapath \
                 udp or auto there"
            );
            io::Error::new(io::ErrorKind::Unsupported, text)
        })?;
        let index = index_of(&name)?;
        let queues = request.receive_queues().min(QUEUES_MAX);
        Ok(Interface { name, index, mac, queues })
    }
}

fn index_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the name is a string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Returns the name of the interface that has an address.
fn name_of(wanted: IpAddr) -> io::Result<Option<String>> {
    let found = interface_addresses()?.into_iter().find(|found| found.address == wanted);
    Ok(found.map(|found| found.name.to_string_lossy().into_owned()))
}
