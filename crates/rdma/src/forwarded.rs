//! Datagrams that processes of one host forward to each other: packets that arrived at the wrong
//! process, and management datagrams.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use fairway_ub::wire::Ecn;

/// Length of the longest forwarded datagram: a packet of the largest MTU with all headers, and the
/// forwarding header.
pub(crate) const FORWARDED_BYTES_MAX: usize = 4096 + 256;

/// Length of a management datagram in bytes.
pub(crate) const MANAGEMENT_BYTES: usize = 256;

/// First byte of a forwarded packet: an opcode that RoCE does not use, so that no RoCE packet
/// begins with it.
pub(crate) const PACKET: u8 = 0xf7;
const MANAGEMENT: u8 = 0xf8;
/// Length of an address and a port in bytes.
const END_BYTES: usize = 18;

/// A datagram that one process of a host forwards to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardedDatagram<'a> {
    /// A RoCE packet, as it was received.
    Packet { source: SocketAddr, destination: SocketAddr, ecn: Ecn, datagram: &'a [u8] },
    /// A management datagram.
    Management { from: IpAddr, bytes: &'a [u8; MANAGEMENT_BYTES] },
}

impl<'a> ForwardedDatagram<'a> {
    /// Encodes the datagram to `out` and returns its length. `None` if it is too long.
    pub(crate) fn write(&self, out: &mut [u8; FORWARDED_BYTES_MAX]) -> Option<usize> {
        let mut length = 0;
        let mut put = |bytes: &[u8]| -> Option<()> {
            out.get_mut(length..length + bytes.len())?.copy_from_slice(bytes);
            length += bytes.len();
            Some(())
        };
        match self {
            ForwardedDatagram::Packet { source, destination, ecn, datagram } => {
                put(&[PACKET, ecn_code(*ecn)])?;
                put(&end(source.ip(), source.port()))?;
                put(&end(destination.ip(), destination.port()))?;
                put(datagram)?;
            }
            ForwardedDatagram::Management { from, bytes } => {
                put(&[MANAGEMENT, 0])?;
                put(&end(*from, 0))?;
                put(&bytes[..])?;
            }
        }
        Some(length)
    }

    /// Decodes a forwarded datagram. Any bytes are either one or refused.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<ForwardedDatagram<'a>> {
        let (&[kind, ecn], rest) = bytes.split_first_chunk()?;
        let (source, rest) = rest.split_first_chunk::<END_BYTES>()?;
        match kind {
            PACKET => {
                let (destination, datagram) = rest.split_first_chunk::<END_BYTES>()?;
                let ecn = match ecn {
                    0 => Ecn::NotCapable,
                    3 => Ecn::Congested,
                    _ => Ecn::Capable,
                };
                let (source, destination) = (read_end(source), read_end(destination));
                Some(ForwardedDatagram::Packet { source, destination, ecn, datagram })
            }
            MANAGEMENT => {
                let bytes = rest.try_into().ok()?;
                Some(ForwardedDatagram::Management { from: read_end(source).ip(), bytes })
            }
            _ => None,
        }
    }
}

fn ecn_code(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotCapable => 0,
        Ecn::Capable => 2,
        Ecn::Congested => 3,
    }
}

fn end(ip: IpAddr, port: u16) -> [u8; END_BYTES] {
    let mut bytes = [0; END_BYTES];
    let octets = match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    bytes[..16].copy_from_slice(&octets);
    bytes[16..].copy_from_slice(&port.to_be_bytes());
    bytes
}

fn read_end(bytes: &[u8; END_BYTES]) -> SocketAddr {
    let &[ref octets @ .., p1, p0] = bytes;
    let address = Ipv6Addr::from(*octets);
    let ip = address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4);
    SocketAddr::new(ip, u16::from_be_bytes([p1, p0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_datagram_reads_back_the_same() {
        let mut out = [0; FORWARDED_BYTES_MAX];
        let packet = ForwardedDatagram::Packet {
            source: "10.1.2.3:24577".parse().unwrap(),
            destination: "[fe80::1]:4791".parse().unwrap(),
            ecn: Ecn::Congested,
            datagram: &[7; 300],
        };
        let management =
            ForwardedDatagram::Management { from: "192.0.2.1".parse().unwrap(), bytes: &[9; 256] };
        for forwarded in [packet, management] {
            let length = forwarded.write(&mut out).unwrap();
            assert_eq!(ForwardedDatagram::read(&out[..length]), Some(forwarded));
        }
        let long = [0; FORWARDED_BYTES_MAX];
        let ForwardedDatagram::Packet { source, destination, ecn, .. } = packet else {
            unreachable!()
        };
        let packet = ForwardedDatagram::Packet { source, destination, ecn, datagram: &long };
        assert_eq!(packet.write(&mut out), None);
    }

    #[test]
    fn nonsense_is_no_letter() {
        for length in 0..400 {
            for kind in [0, 1, PACKET, MANAGEMENT, 0xff] {
                let mut bytes = vec![0xa5; length];
                if let Some(first) = bytes.first_mut() {
                    *first = kind;
                }
                let read = ForwardedDatagram::read(&bytes);
                match kind {
                    PACKET => assert_eq!(read.is_some(), length >= 2 + 2 * END_BYTES),
                    MANAGEMENT => assert_eq!(read.is_some(), length == 2 + END_BYTES + 256),
                    _ => assert_eq!(read, None),
                }
            }
        }
    }
}
