//! The headers of a frame: Ethernet, IP and UDP.

use std::net::{IpAddr, SocketAddr};

use fairway_wire::Ecn;

use super::checksum::Sum;
use super::redirect::FRAME_MAX;
use crate::udp::Address;

const ETHERNET: usize = 14;
const V4: usize = 20;
const V6: usize = 40;
const UDP: usize = 8;
const UDP_PROTOCOL: u8 = libc::IPPROTO_UDP as u8;
/// Time to live, the kernel's default.
const HOPS: u8 = 64;
/// "Don't fragment".
const DONT_FRAGMENT: u16 = 0x4000;

/// The headers of all packets from one UDP address to another.
#[derive(Clone, Debug)]
pub struct Flow {
    headers: [u8; ETHERNET + V6 + UDP],
    length: usize,
    /// Sum over the pseudo-header, without the length.
    pseudo: Sum,
    /// Sum over the IPv4 header, without the length and the congestion bits.
    ip: Sum,
}

impl Flow {
    /// Returns the headers of packets between two addresses, which are sent by the interface `here`
    /// to the host `next`. `None`: the addresses are of different families.
    pub fn new(here: [u8; 6], next: [u8; 6], from: SocketAddr, to: SocketAddr) -> Option<Flow> {
        let mut headers = [0; ETHERNET + V6 + UDP];
        headers[..6].copy_from_slice(&next);
        headers[6..12].copy_from_slice(&here);
        let (kind, length): (u16, _) = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let ip = &mut headers[ETHERNET..];
                ip[0] = 0x45;
                ip[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
                (ip[8], ip[9]) = (HOPS, UDP_PROTOCOL);
                ip[12..16].copy_from_slice(&from.octets());
                ip[16..20].copy_from_slice(&to.octets());
                (0x0800, ETHERNET + V4 + UDP)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let ip = &mut headers[ETHERNET..];
                ip[0] = 0x60;
                (ip[6], ip[7]) = (UDP_PROTOCOL, HOPS);
                ip[8..24].copy_from_slice(&from.octets());
                ip[24..40].copy_from_slice(&to.octets());
                (0x86dd, ETHERNET + V6 + UDP)
            }
            _ => return None,
        };
        headers[12..14].copy_from_slice(&kind.to_be_bytes());
        headers[length - 8..length - 6].copy_from_slice(&from.port().to_be_bytes());
        headers[length - 6..length - 4].copy_from_slice(&to.port().to_be_bytes());
        let addresses = if length == ETHERNET + V4 + UDP { 12..20 } else { 8..40 };
        let ip = &headers[ETHERNET..length - UDP];
        let mut pseudo = Sum::default();
        pseudo.add(&ip[addresses]);
        pseudo.add(&[0, UDP_PROTOCOL]);
        let mut sum = Sum::default();
        sum.add(ip);
        Some(Flow { headers, length, pseudo, ip: sum })
    }

    /// Bytes of all headers.
    pub fn header_bytes(&self) -> usize {
        self.length
    }

    /// Longest payload of a frame, in bytes.
    pub fn payload_max(&self) -> usize {
        FRAME_MAX - self.length
    }

    /// Completes a frame whose payload is in place behind [`Flow::header_bytes`]. `dscp` is the
    /// packet's code point, below 64.
    ///
    /// # Panics
    /// The frame is shorter than the headers.
    pub fn complete(&self, frame: &mut [u8], dscp: u8, ecn: Ecn) {
        let length = frame.len();
        frame[..self.length].copy_from_slice(&self.headers[..self.length]);
        let class = dscp << 2 | crate::udp::ecn_bits(ecn) as u8;
        if self.length == ETHERNET + V4 + UDP {
            let total = ((length - ETHERNET) as u16).to_be_bytes();
            let mut sum = self.ip;
            sum.add(&[0, class, total[0], total[1]]);
            frame[ETHERNET + 1] = class;
            frame[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&total);
            frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.checksum());
        } else {
            let rest = (length - ETHERNET - V6) as u16;
            frame[ETHERNET] = 0x60 | class >> 4;
            frame[ETHERNET + 1] = class << 4;
            frame[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&rest.to_be_bytes());
        }
        let udp = self.length - UDP;
        let udp_length = ((length - udp) as u16).to_be_bytes();
        frame[udp + 4..udp + 6].copy_from_slice(&udp_length);
        let mut sum = self.pseudo;
        sum.add(&udp_length);
        sum.add(&frame[udp..]);
        let checksum = match sum.checksum() {
            // Zero would mean that there is none.
            [0, 0] => [0xff, 0xff],
            other => other,
        };
        frame[udp + 6..udp + 8].copy_from_slice(&checksum);
    }
}

/// A UDP packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The source that the packet claims.
    pub from: Address,
    /// Its destination.
    pub to: Address,
    /// The congestion bits.
    pub ecn: Ecn,
    /// First byte of the payload in the frame.
    pub start: usize,
    /// Bytes of the payload.
    pub length: usize,
    /// Bytes of the payload that was sent, if a switch has cut off its end.
    pub cut_from: Option<usize>,
}

/// Finds the UDP packet in a frame, and checks its lengths and checksums. `None`: it is damaged, of
/// another kind, or claims a source that no packet of a network has, such as this host itself.
///
/// A switch that trims a packet cuts the frame, and leaves the length in UDP's header, which
/// therefore exceeds what has arrived; the length in the IP header may be that of the frame or the
/// old one. The checksum of such a packet covers bytes that are missing, so it is not checked: the
/// receiver has to authenticate what it reads.
pub fn parse(frame: &[u8]) -> Option<Packet> {
    let ip = frame.get(ETHERNET..)?;
    let (from, to, ecn, udp_at, end) = match frame[12..14] {
        [0x08, 0x00] => parse_v4(ip)?,
        [0x86, 0xdd] => parse_v6(ip)?,
        _ => return None,
    };
    let udp = ip.get(udp_at..end.min(ip.len())).filter(|udp| udp.len() >= UDP)?;
    let length = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    let is_cut = length > udp.len();
    let udp = udp.get(..length.min(udp.len())).filter(|udp| udp.len() >= UDP)?;
    let is_whole = end <= ip.len() && is_sound(ip, udp_at, udp);
    if !is_source(from) || from == to || !(is_cut || is_whole) {
        return None;
    }
    let port = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
    Some(Packet {
        from: Address::from((from, port(0))),
        to: Address::from((to, port(2))),
        ecn: crate::udp::ecn_from_bits(ecn.into()),
        start: ETHERNET + udp_at + UDP,
        length: udp.len() - UDP,
        cut_from: is_cut.then_some(length - UDP),
    })
}

/// Source, destination, congestion bits, and begin and end of what follows the header.
type Parsed = (IpAddr, IpAddr, u8, usize, usize);

fn parse_v4(ip: &[u8]) -> Option<Parsed> {
    let header: &[u8; V4] = ip.first_chunk()?;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    let mut sum = Sum::default();
    sum.add(header);
    let sound = sum.folded() == [0xff, 0xff];
    if header[0] != 0x45 || fragment != 0 || header[9] != UDP_PROTOCOL || !sound {
        return None;
    }
    let address =
        |at: usize| IpAddr::from(<[u8; 4]>::try_from(&header[at..at + 4]).unwrap_or_default());
    Some((address(12), address(16), header[1], V4, total))
}

fn parse_v6(ip: &[u8]) -> Option<Parsed> {
    let header: &[u8; V6] = ip.first_chunk()?;
    let total = V6 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || header[6] != UDP_PROTOCOL {
        return None;
    }
    let address =
        |at: usize| IpAddr::from(<[u8; 16]>::try_from(&header[at..at + 16]).unwrap_or_default());
    Some((address(8), address(24), header[1] >> 4, V6, total))
}

/// True if another host may have this address. The kernel checks that for packets to its sockets.
fn is_source(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(ip) if ip.is_broadcast());
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_broadcast)
}

/// Checks the checksum of a UDP packet. Packets without one are not redirected to here.
fn is_sound(ip: &[u8], udp_at: usize, udp: &[u8]) -> bool {
    let mut sum = Sum::default();
    sum.add(if udp_at == V4 { &ip[12..20] } else { &ip[8..40] });
    sum.add(&[0, UDP_PROTOCOL, udp[4], udp[5]]);
    sum.add(udp);
    sum.folded() == [0xff, 0xff]
}
