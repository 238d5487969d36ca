//! Conversion of socket addresses between C and Rust.

use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr::NonNull;

use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};

use fairway_verbs::abi::zeroed;
use fairway_verbs::guard::{Errno, Result};

/// A socket address that a program passes. Its length depends on its family, and the program does
/// not change it before the call returns.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Address<'a>(NonNull<sockaddr>, PhantomData<&'a sockaddr>);

impl Address<'_> {
    /// Accepts a pointer that was found in a struct instead of passed. `None` if it is null.
    ///
    /// # Safety
    ///
    /// It points to a socket address, if to any.
    pub(super) unsafe fn found(address: *const sockaddr) -> Option<Self> {
        NonNull::new(address.cast_mut()).map(|address| Address(address, PhantomData))
    }
}

/// Reads an IPv4 or IPv6 address. Other families are refused, including InfiniBand's (AF_IB).
pub(super) fn read(address: Option<Address<'_>>) -> Result<SocketAddr> {
    let address = address.ok_or(Errno(libc::EINVAL))?.0;
    // SAFETY: each branch reads the type that belongs to the family.
    unsafe {
        match i32::from((*address.as_ptr()).sa_family) {
            libc::AF_INET => {
                let address = address.cast::<sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
                Ok(SocketAddr::from((ip, u16::from_be(address.sin_port))))
            }
            libc::AF_INET6 => {
                let address = address.cast::<sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
                let (port, scope) = (u16::from_be(address.sin6_port), address.sin6_scope_id);
                Ok(SocketAddrV6::new(ip, port, 0, scope).into())
            }
            _ => Err(Errno(libc::EAFNOSUPPORT)),
        }
    }
}

/// Converts an address to the form that programs read.
pub(super) fn write(address: SocketAddr) -> sockaddr_storage {
    let mut storage: sockaddr_storage = zeroed();
    // SAFETY: each branch writes a type that fits into the storage.
    unsafe {
        match address {
            SocketAddr::V4(v4) => {
                let mut out: sockaddr_in = zeroed();
                out.sin_family = libc::AF_INET as u16;
                out.sin_port = v4.port().to_be();
                out.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
                (&raw mut storage).cast::<sockaddr_in>().write(out);
            }
            SocketAddr::V6(v6) => {
                let mut out: sockaddr_in6 = zeroed();
                out.sin6_family = libc::AF_INET6 as u16;
                out.sin6_port = v6.port().to_be();
                out.sin6_addr.s6_addr = v6.ip().octets();
                out.sin6_scope_id = v6.scope_id();
                (&raw mut storage).cast::<sockaddr_in6>().write(out);
            }
        }
    }
    storage
}

/// A socket address. A link-local one includes its interface, whose index is `scope`.
pub(super) fn scoped(ip: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, scope).into()
        }
        _ => SocketAddr::new(ip, port),
    }
}

/// The index of the interface of a link-local address; 0 if the address names none.
pub(super) fn scope(address: &SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => v6.scope_id(),
        _ => 0,
    }
}

/// The wildcard address of the same family.
pub(super) fn any(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
pub(super) fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}
