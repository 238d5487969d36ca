//! IPv6 addresses with a zone, the interface at which they are valid: `fe80::1%eth0` or `fe80::1%2`
//! (RFC 4007, section 11).

use std::ffi::CString;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::quantity::ValueError;

/// An address, and the number of the interface at which it is valid; 0 if it is valid at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zoned {
    pub(crate) address: IpAddr,
    pub(crate) zone: u32,
}

impl Zoned {
    /// Parses an address without brackets; `None` if the text is none.
    ///
    /// # Errors
    /// [`ValueError::Zone`]: this host has no such interface.
    pub(crate) fn parse(text: &str) -> Result<Option<Zoned>, ValueError> {
        let Some((address, name)) = text.split_once('%') else {
            let address: Option<IpAddr> = text.parse().ok();
            return Ok(address.map(|address| Zoned { address, zone: 0 }));
        };
        let Ok(address) = address.parse::<Ipv6Addr>() else { return Ok(None) };
        let zone = interface(name).ok_or_else(|| ValueError::Zone(text.to_owned()))?;
        // Packets from any other address come without a zone.
        let zone = if is_link_local(address) { zone } else { 0 };
        Ok(Some(Zoned { address: address.into(), zone }))
    }

    /// The address with a port.
    pub(crate) fn with_port(self, port: u16) -> SocketAddr {
        match self.address {
            IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, self.zone).into(),
            IpAddr::V4(address) => (address, port).into(),
        }
    }
}

fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// The number of the interface with this name or number, if there is one.
fn interface(name: &str) -> Option<u32> {
    // The kernel takes a colon for the beginning of an alias, which has no number of its own.
    let name_text = CString::new(name).ok().filter(|_| !name.contains(':'))?;
    // SAFETY: a string that ends.
    match unsafe { libc::if_nametoindex(name_text.as_ptr()) } {
        0 => {}
        number => return Some(number),
    }
    let number: u32 = name.parse().ok()?;
    let mut found = [0; libc::IF_NAMESIZE];
    // SAFETY: there is room for the longest name.
    let exists = !unsafe { libc::if_indextoname(number, found.as_mut_ptr()) }.is_null();
    exists.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_names_or_numbers_of_interfaces() {
        let lo = interface("lo").expect("every host has it");
        let parse = |text: &str| Zoned::parse(text).map(|found| found.map(|it| it.with_port(7)));
        let at = |text: &str| parse(text).expect("an interface").map(|found| found.to_string());
        let local = Some(format!("[fe80::1%{lo}]:7"));
        assert_eq!(at("fe80::1%lo"), local);
        assert_eq!(at(&format!("fe80::1%{lo}")), local);
        assert_eq!(at("fe80::1").as_deref(), Some("[fe80::1]:7"));
        assert_eq!(at("2001:db8::1%lo").as_deref(), Some("[2001:db8::1]:7"), "it has none");
        assert_eq!(at("192.0.2.1").as_deref(), Some("192.0.2.1:7"));
        for text in ["192.0.2.1%lo", "storage1", "storage1%lo", ""] {
            assert_eq!(at(text), None, "{text}");
        }
        for text in
            ["fe80::1%nothing", "fe80::1%", "fe80::1%0", "fe80::1%lo:5", "fe80::1%4294967295"]
        {
            let error = parse(text).expect_err("no interface").to_string();
            assert!(error.contains(text) && error.contains("as fe80::1%eth0"), "{error}");
        }
    }
}
