//! The addresses of a host's interfaces.

use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::ethtool::Request;
use crate::udp::{Address, check};

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceAddress {
    /// The interface's name.
    pub name: CString,
    /// The interface's flags, such as `IFF_UP` (netdevice(7)).
    pub flags: libc::c_uint,
    /// The address.
    pub address: IpAddr,
}

/// Returns the IP addresses of all interfaces of this network namespace, in the kernel's order.
///
/// # Errors
/// The system refuses a socket.
pub fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the list is written to `first`, and freed below.
    check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let (mut next, mut found) = (first, Vec::new());
    // SAFETY: the elements live until the list is freed, and the last one has no next.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: the name is a string; the address is null, or as long as its family says.
        let (name, address) =
            unsafe { (CStr::from_ptr(entry.ifa_name), Address::read(entry.ifa_addr)) };
        found.extend(address.map(|address| InterfaceAddress {
            name: name.to_owned(),
            flags: entry.ifa_flags,
            address: SocketAddr::from(address).ip(),
        }));
    }
    // SAFETY: the list that the call above has made, to which nothing refers any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Returns the name of an interface's driver, such as `veth`.
///
/// # Errors
/// There is no such interface, or it has no driver that says its name, as the loopback interface.
pub fn interface_driver(interface: &str) -> io::Result<String> {
    Request::new(interface)?.driver()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_have_names_and_missing_interfaces_have_none() {
        for one in interface_addresses().expect("the system lists its interfaces") {
            let name = one.name.to_str().expect("an ASCII name");
            let driver = interface_driver(name);
            assert!(driver.is_err() || driver.is_ok_and(|driver| driver.is_ascii()), "{name}");
        }
        assert!(interface_driver("no-such-nic").is_err());
    }

    #[test]
    fn loopback_interface_has_its_address() {
        let all = interface_addresses().expect("the system lists its interfaces");
        let own = all.iter().find(|one| one.address.is_loopback()).expect("an address");
        assert_eq!(own.name.to_str(), Ok("lo"));
        assert_ne!(own.flags & libc::IFF_LOOPBACK as libc::c_uint, 0);
    }
}
