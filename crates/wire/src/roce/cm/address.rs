//! Addresses and ports of a connection over IP: Annex A11 of IBTA vol 1, the RDMA IP CM service.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of port that a service has (A11.4: the protocol number in the service id; Linux calls
/// the kinds port spaces).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortSpace {
    /// Connections, with the ports of TCP.
    Tcp,
    /// Datagrams, with the ports of UDP.
    Udp,
}

impl PortSpace {
    const fn prefix(self) -> u64 {
        match self {
            PortSpace::Tcp => 0x0106_0000,
            PortSpace::Udp => 0x0111_0000,
        }
    }
}

/// The service id of a port (A11.4).
pub const fn service_id(space: PortSpace, port: u16) -> u64 {
    space.prefix() | port as u64
}

/// The port of a service id; `None` if the id is not that of a port.
pub const fn port_of_service(service: u64) -> Option<(PortSpace, u16)> {
    let port = service as u16;
    match service ^ port as u64 {
        0x0106_0000 => Some((PortSpace::Tcp, port)),
        0x0111_0000 => Some((PortSpace::Udp, port)),
        _ => None,
    }
}

/// Header at the start of the private data of REQ and SIDR_REQ (A11.5): the IP addresses of both
/// ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// The port of the requesting end.
    pub source_port: u16,
    /// The address of the requesting end.
    pub source: IpAddr,
    /// The address of the other end, of the same family.
    pub destination: IpAddr,
}

impl IpHeader {
    /// Length of the header in bytes.
    pub const LEN: usize = 36;

    /// Reads the header from the start of private data; `None` if there is no such header.
    pub fn parse(private: &[u8]) -> Option<IpHeader> {
        let (&[version, family, port1, port0], rest) = private.split_first_chunk()?;
        let (source, rest) = rest.split_first_chunk::<16>()?;
        let (destination, _) = rest.split_first_chunk::<16>()?;
        // The upper half of the first byte is the major version; minor versions only add fields.
        let address = |bytes: &[u8; 16]| match family >> 4 {
            4 => Some(IpAddr::V4(Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15]))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(*bytes))),
            _ => None,
        };
        if version >> 4 != 0 {
            return None;
        }
        Some(IpHeader {
            source_port: u16::from_be_bytes([port1, port0]),
            source: address(source)?,
            destination: address(destination)?,
        })
    }

    /// The bytes of the header. Its family is that of `source`.
    pub fn emit(&self) -> [u8; IpHeader::LEN] {
        let mut out = [0; IpHeader::LEN];
        out[1] = if self.source.is_ipv4() { 4 << 4 } else { 6 << 4 };
        out[2..4].copy_from_slice(&self.source_port.to_be_bytes());
        out[4..20].copy_from_slice(&bytes(self.source));
        out[20..].copy_from_slice(&bytes(self.destination));
        out
    }
}

/// The 16 bytes of an address field. An IPv4 address fills the last four, behind zeros.
fn bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[12..].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}
