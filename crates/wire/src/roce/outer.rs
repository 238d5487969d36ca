//! The IP and UDP headers around a RoCEv2 datagram, as far as the ICRC covers them.

use super::{OuterError, UDP_PORT};
use crate::Ecn;

const UDP_LEN: usize = 8;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
const UDP: u8 = 17;
/// IPv4 "don't fragment", as a value of the field that also holds the fragment's offset.
const DONT_FRAGMENT: u16 = 0x4000;

/// Addresses, ports, and the other fields of the IP header that no router changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// The IP header.
    pub network: Network,
    /// UDP's source port: the entropy that chooses a path.
    pub source_port: u16,
    /// UDP's destination port.
    pub destination_port: u16,
}

/// An IP header without the fields that routers change and those that follow from the lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// An IPv4 header without options.
    V4 {
        /// The sender's address.
        source: [u8; 4],
        /// The receiver's address.
        destination: [u8; 4],
        /// The identification field: covered by the ICRC, although UDP sockets do not show it.
        identification: u16,
        /// Flags and fragment offset, which the ICRC also covers.
        fragment: u16,
    },
    /// An IPv6 header without extension headers.
    V6 {
        /// The sender's address.
        source: [u8; 16],
        /// The receiver's address.
        destination: [u8; 16],
    },
}

/// The result of [`Outer::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enclosed<'a> {
    /// The headers.
    pub outer: Outer,
    /// The ECN bits of the IP header.
    pub ecn: Ecn,
    /// The UDP payload, without the padding of a short Ethernet frame.
    pub datagram: &'a [u8],
}

impl Outer {
    /// From one IPv4 address to another, to RoCE's port, with identification 0 and "don't
    /// fragment".
    pub const fn v4(source: [u8; 4], destination: [u8; 4], source_port: u16) -> Outer {
        let network =
            Network::V4 { source, destination, identification: 0, fragment: DONT_FRAGMENT };
        Outer { network, source_port, destination_port: UDP_PORT }
    }

    /// From one IPv6 address to another, to RoCE's port.
    pub const fn v6(source: [u8; 16], destination: [u8; 16], source_port: u16) -> Outer {
        let network = Network::V6 { source, destination };
        Outer { network, source_port, destination_port: UDP_PORT }
    }

    /// Reads the headers of an IP packet that begins with `bytes`. Parsing is total: any bytes give
    /// headers or an error. Checksums are not verified.
    pub fn parse(bytes: &[u8]) -> Result<Enclosed<'_>, OuterError> {
        match bytes.first().ok_or(OuterError::TooShort)? >> 4 {
            4 => parse_v4(bytes),
            6 => parse_v6(bytes),
            other => Err(OuterError::Version(other)),
        }
    }

    /// The pseudo header of the ICRC: eight bytes of ones for the missing LRH, then IP and UDP
    /// headers in which the fields that may change on the way are ones (Annex A17). `content`
    /// receives the pieces in order.
    pub(super) fn pseudo_header(&self, datagram_len: usize, mut content: impl FnMut(&[u8])) {
        content(&[0xff; 8]);
        let udp_len = (UDP_LEN + datagram_len) as u16;
        match self.network {
            Network::V4 { source, destination, identification, fragment } => {
                let total = (V4_LEN as u16).wrapping_add(udp_len);
                content(&[0x45, 0xff]);
                content(&total.to_be_bytes());
                content(&identification.to_be_bytes());
                content(&fragment.to_be_bytes());
                content(&[0xff, UDP, 0xff, 0xff]);
                content(&source);
                content(&destination);
            }
            Network::V6 { source, destination } => {
                content(&[0x6f, 0xff, 0xff, 0xff]);
                content(&udp_len.to_be_bytes());
                content(&[UDP, 0xff]);
                content(&source);
                content(&destination);
            }
        }
        content(&self.source_port.to_be_bytes());
        content(&self.destination_port.to_be_bytes());
        content(&udp_len.to_be_bytes());
        content(&[0xff, 0xff]);
    }
}

fn parse_v4(bytes: &[u8]) -> Result<Enclosed<'_>, OuterError> {
    let (&[version, tos, l1, l0, i1, i0, f1, f0, _, protocol, _, _, ref addresses @ ..], rest) =
        bytes.split_first_chunk::<V4_LEN>().ok_or(OuterError::TooShort)?;
    let &[s0, s1, s2, s3, d0, d1, d2, d3] = addresses;
    if version != 0x45 {
        return Err(OuterError::NotUdp(0));
    }
    if protocol != UDP {
        return Err(OuterError::NotUdp(protocol));
    }
    let fragment = u16::from_be_bytes([f1, f0]);
    if fragment & 0x3fff != 0 {
        return Err(OuterError::Fragment);
    }
    let total = usize::from(u16::from_be_bytes([l1, l0]));
    let inner = total.checked_sub(V4_LEN).ok_or(OuterError::Length)?;
    let network = Network::V4 {
        source: [s0, s1, s2, s3],
        destination: [d0, d1, d2, d3],
        identification: u16::from_be_bytes([i1, i0]),
        fragment,
    };
    parse_udp(network, tos, rest.get(..inner).ok_or(OuterError::TooShort)?)
}

fn parse_v6(bytes: &[u8]) -> Result<Enclosed<'_>, OuterError> {
    let (header, rest) = bytes.split_first_chunk::<V6_LEN>().ok_or(OuterError::TooShort)?;
    let &[class1, class0, _, _, l1, l0, protocol, _, ref addresses @ ..] = header;
    if protocol != UDP {
        return Err(OuterError::NotUdp(protocol));
    }
    let (mut source, mut destination) = ([0; 16], [0; 16]);
    source.copy_from_slice(&addresses[..16]);
    destination.copy_from_slice(&addresses[16..]);
    let inner = usize::from(u16::from_be_bytes([l1, l0]));
    let network = Network::V6 { source, destination };
    let traffic_class = class1 << 4 | class0 >> 4;
    parse_udp(network, traffic_class, rest.get(..inner).ok_or(OuterError::TooShort)?)
}

fn parse_udp(network: Network, tos: u8, bytes: &[u8]) -> Result<Enclosed<'_>, OuterError> {
    let (&[s1, s0, d1, d0, l1, l0, _, _], datagram) =
        bytes.split_first_chunk::<UDP_LEN>().ok_or(OuterError::TooShort)?;
    if usize::from(u16::from_be_bytes([l1, l0])) != bytes.len() {
        return Err(OuterError::Length);
    }
    let outer = Outer {
        network,
        source_port: u16::from_be_bytes([s1, s0]),
        destination_port: u16::from_be_bytes([d1, d0]),
    };
    let ecn = match tos & 0b11 {
        0b00 => Ecn::NotCapable,
        0b11 => Ecn::Congested,
        _ => Ecn::Capable,
    };
    Ok(Enclosed { outer, ecn, datagram })
}
