//! Socket addresses in the kernel's format.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Prefix of an IPv6 address that contains an IPv4 address (RFC 4291, 2.5.5.2).
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF];

/// An IPv4 or IPv6 address and port, encoded as the kernel requires.
///
/// Sending needs no conversion, and the source of an arrival is compared with the address of a
/// known peer byte by byte. IPv6 flow labels are left out, because they differ between packets of
/// one peer.
///
/// It may also name the local address at which a peer reaches this host
/// ([`Address::reached_at`]), which is no part of comparisons.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
pub struct Address {
    /// A `sockaddr_in` or `sockaddr_in6`; unused bytes are zero.
    bytes: [u8; Address::BYTES],
    len: u32,
    /// The local address, IPv4 inside IPv6; all zero if none is named.
    local: [u8; 16],
}

impl PartialEq for Address {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.len == other.len
    }
}

impl Eq for Address {}

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
        self.len.hash(state);
    }
}

impl Address {
    /// Size of the longer of the two encodings.
    const BYTES: usize = size_of::<libc::sockaddr_in6>();

    /// The unset address, to be filled by the kernel.
    pub(crate) const UNSPECIFIED: Address =
        Address { bytes: [0; Self::BYTES], len: 0, local: [0; 16] };

    /// Length of [`Address::to_bytes`].
    pub const ENCODED_BYTES: usize = 32;

    /// Encodes the address for another process of this host.
    pub fn to_bytes(&self) -> [u8; Address::ENCODED_BYTES] {
        let mut bytes = [0; Address::ENCODED_BYTES];
        let (address, len) = bytes.split_first_chunk_mut().expect("room for an address");
        *address = self.bytes;
        *len.first_chunk_mut().expect("room for its length") = self.len.to_ne_bytes();
        bytes
    }

    /// Decodes an address that another process has encoded. Returns `None` if the bytes are none.
    pub fn from_bytes(bytes: &[u8; Address::ENCODED_BYTES]) -> Option<Address> {
        let (encoded, len) = bytes.split_at(Self::BYTES);
        let mut address = Address::UNSPECIFIED;
        address.bytes.copy_from_slice(encoded);
        address.len = u32::from_ne_bytes(len.try_into().ok()?);
        // Only what the conversion from a socket address gives has the bytes that peers compare.
        let known = matches!(address.family(), libc::AF_INET | libc::AF_INET6);
        (known && Address::from(SocketAddr::from(address)) == address).then_some(address)
    }

    /// The local address to which a peer's packet was sent. A socket that is bound to all addresses
    /// reports it, unless it is a link-local one.
    pub fn local(&self) -> Option<IpAddr> {
        (self.local != [0; 16]).then(|| IpAddr::from(self.local).to_canonical())
    }

    /// Returns the same address with a local one, from which packets to it leave; `None` leaves the
    /// choice to the kernel.
    pub fn reached_at(mut self, local: Option<IpAddr>) -> Address {
        self.local = match local {
            None => [0; 16],
            Some(IpAddr::V4(local)) => local.to_ipv6_mapped().octets(),
            Some(IpAddr::V6(local)) => local.octets(),
        };
        self
    }

    /// True for IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.family() == libc::AF_INET6
    }

    /// The port number.
    pub fn port(&self) -> u16 {
        // In both encodings the port follows the two-byte family, in network order.
        u16::from_be_bytes([self.bytes[2], self.bytes[3]])
    }

    /// Number of bytes of the IP and UDP headers of a packet to this address.
    pub(crate) fn header_overhead(&self) -> usize {
        if self.is_ipv6() { 48 } else { 28 }
    }

    /// Reads an address as the kernel reports it. Returns `None` if it is neither IPv4 nor IPv6.
    ///
    /// # Safety
    /// `address` is null or points to a socket address that is as long as its family demands.
    pub(crate) unsafe fn read(address: *const libc::sockaddr) -> Option<Address> {
        if address.is_null() {
            return None;
        }
        // SAFETY: as the caller says, there is a family.
        let len = match libc::c_int::from(unsafe { (*address).sa_family }) {
            libc::AF_INET => size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
            _ => return None,
        };
        let mut read = Address::UNSPECIFIED;
        // SAFETY: as the caller says; the room has the size of the longer of both.
        unsafe { std::ptr::copy_nonoverlapping(address.cast(), read.bytes.as_mut_ptr(), len) };
        read.filled(len as libc::socklen_t);
        Some(read)
    }

    pub(crate) fn family(&self) -> libc::c_int {
        libc::c_int::from(u16::from_ne_bytes([self.bytes[0], self.bytes[1]]))
    }

    pub(crate) fn as_ptr(&self) -> *const libc::sockaddr {
        self.bytes.as_ptr().cast()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        self.bytes.as_mut_ptr().cast()
    }

    pub(crate) const fn capacity() -> libc::socklen_t {
        Self::BYTES as libc::socklen_t
    }

    pub(crate) fn len(&self) -> libc::socklen_t {
        self.len
    }

    /// Sets the length that the kernel reported, and clears the parts that vary between packets. An
    /// IPv4 address inside an IPv6 one, as sockets of both families report it, becomes plain IPv4.
    pub(crate) fn filled(&mut self, len: libc::socklen_t) {
        self.len = len.min(Self::capacity());
        if !self.is_ipv6() {
            return;
        }
        self.bytes[4..8].fill(0);
        if self.bytes[8..20] == MAPPED {
            let [a, b, c, d] = [self.bytes[20], self.bytes[21], self.bytes[22], self.bytes[23]];
            *self = SocketAddr::from(([a, b, c, d], self.port())).into();
        }
    }

    /// Returns the address in the form that a socket of both families requires: IPv4 inside IPv6.
    pub(crate) fn for_both_families(&self) -> Address {
        if self.is_ipv6() {
            return *self;
        }
        let mut mapped = Address::UNSPECIFIED;
        mapped.bytes[0..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        mapped.bytes[2..4].copy_from_slice(&self.bytes[2..4]);
        mapped.bytes[8..20].copy_from_slice(&MAPPED);
        mapped.bytes[20..24].copy_from_slice(&self.bytes[4..8]);
        mapped.len = size_of::<libc::sockaddr_in6>() as u32;
        mapped.local = self.local;
        mapped
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let mut encoded = Address::UNSPECIFIED;
        let port = address.port().to_be_bytes();
        encoded.bytes[2..4].copy_from_slice(&port);
        let family = match address {
            SocketAddr::V4(v4) => {
                encoded.bytes[4..8].copy_from_slice(&v4.ip().octets());
                encoded.len = size_of::<libc::sockaddr_in>() as u32;
                libc::AF_INET
            }
            SocketAddr::V6(v6) => {
                encoded.bytes[8..24].copy_from_slice(&v6.ip().octets());
                encoded.bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                encoded.len = size_of::<libc::sockaddr_in6>() as u32;
                libc::AF_INET6
            }
        };
        encoded.bytes[0..2].copy_from_slice(&(family as u16).to_ne_bytes());
        encoded
    }
}

impl From<Address> for SocketAddr {
    fn from(address: Address) -> Self {
        let bytes = &address.bytes;
        if address.is_ipv6() {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bytes[8..24]);
            let scope = u32::from_ne_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]);
            SocketAddrV6::new(Ipv6Addr::from(octets), address.port(), 0, scope).into()
        } else {
            let octets = [bytes[4], bytes[5], bytes[6], bytes[7]];
            SocketAddrV4::new(Ipv4Addr::from(octets), address.port()).into()
        }
    }
}

impl From<(IpAddr, u16)> for Address {
    fn from(pair: (IpAddr, u16)) -> Self {
        SocketAddr::from(pair).into()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == 0 { f.write_str("(none)") } else { SocketAddr::from(*self).fmt(f) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_addresses_are_decoded_and_other_bytes_are_refused() {
        for text in ["10.1.2.3:4810", "[fe80::1%7]:9", "[::]:1", "0.0.0.0:0"] {
            let address = Address::from(text.parse::<SocketAddr>().unwrap());
            assert_eq!(Address::from_bytes(&address.to_bytes()), Some(address));
        }
        let mut bytes = Address::from(SocketAddr::from(([10, 1, 2, 3], 4810))).to_bytes();
        bytes[27] = 1;
        assert_eq!(Address::from_bytes(&bytes), None, "a byte behind the address");
        assert_eq!(Address::from_bytes(&[0; Address::ENCODED_BYTES]), None);
        assert_eq!(Address::from_bytes(&[0xFF; Address::ENCODED_BYTES]), None);
    }
}
