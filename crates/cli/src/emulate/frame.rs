//! The fields of an IP packet that a switch reads, and its ECN mark.

use fairway_sim::Priority;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Preamble, Ethernet header, check sequence and gap: bytes that a packet takes on a wire in
/// addition to its own.
pub(super) const ETHERNET_BYTES: u32 = 38;

/// Fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) destination: IpAddr,
    /// Hash of addresses, protocol and ports, the same for all packets of a flow. Fragments have no
    /// ports.
    pub(super) entropy: u32,
    /// The packet's class, by its DSCP.
    pub(super) priority: Priority,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Reads an IP packet; `None` if it is not one.
pub(super) fn read(packet: &[u8]) -> Option<Header> {
    match packet.first()? >> 4 {
        4 => read4(packet),
        6 => read6(packet),
        _ => None,
    }
}

fn read4(packet: &[u8]) -> Option<Header> {
    let fixed: &[u8; 20] = packet.first_chunk()?;
    let length = usize::from(fixed[0] & 15) * 4;
    if length < 20 || packet.len() < length {
        return None;
    }
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3FFF != 0;
    let rest = if fragment { &[] } else { &packet[length..] };
    let to: [u8; 4] = *fixed[16..].first_chunk()?;
    Some(Header {
        destination: Ipv4Addr::from(to).into(),
        entropy: entropy(&fixed[12..20], fixed[9], rest),
        priority: priority_of(fixed[1] >> 2),
    })
}

fn read6(packet: &[u8]) -> Option<Header> {
    let fixed: &[u8; 40] = packet.first_chunk()?;
    let to: [u8; 16] = *fixed[24..].first_chunk()?;
    let class = fixed[0] << 4 | fixed[1] >> 4;
    Some(Header {
        destination: Ipv6Addr::from(to).into(),
        entropy: entropy(&fixed[8..40], fixed[6], &packet[40..]),
        priority: priority_of(class >> 2),
    })
}

/// The class that a switch gives a packet: that of control for network control (DSCP 48 and above),
/// the highest of data for expedited forwarding (46), and otherwise the precedence.
fn priority_of(dscp: u8) -> Priority {
    match dscp {
        48.. => Priority::CONTROL,
        46 => Priority::DATA_MAX,
        _ => Priority::of_data(dscp >> 3),
    }
}

/// FNV-1a over addresses, protocol, and ports if there are any.
fn entropy(addresses: &[u8], protocol: u8, rest: &[u8]) -> u32 {
    let ports = match protocol {
        TCP | UDP => rest.get(..4).unwrap_or(&[]),
        _ => &[],
    };
    let bytes = addresses.iter().chain([&protocol]).chain(ports);
    bytes.fold(0x811C_9DC5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Marks a packet with "congestion experienced" if its sender has declared support for ECN (RFC
/// 3168). True if it is marked.
pub(super) fn mark(packet: &mut [u8]) -> bool {
    match packet {
        [first, class, ..] if *first >> 4 == 4 && *class & 3 != 0 => *class |= 3,
        [first, class, ..] if *first >> 4 == 6 && *class & 0x30 != 0 => {
            *class |= 0x30;
            return true;
        }
        _ => return false,
    }
    let length = usize::from(packet[0] & 15) * 4;
    if let Some(header) = packet.get_mut(..length).filter(|header| header.len() >= 20) {
        header[10..12].fill(0);
        let sum = checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    true
}

/// Checksum of an IPv4 header whose checksum field is zero (RFC 791).
fn checksum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::{checksum, mark, read};

    /// An IPv4 header, followed by UDP ports.
    fn packet(tos: u8, ports: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0x45, tos, 0, 28, 0, 1, 0x40, 0, 64, 17, 0, 0];
        packet.extend([10, 83, 0, 1, 10, 83, 0, 2]);
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(ports);
        packet.extend([0; 4]);
        packet
    }

    /// Whether the header's checksum is correct: the sum over a header that includes it is zero.
    fn is_sound(packet: &[u8]) -> bool {
        checksum(&packet[..20]) == 0
    }

    #[test]
    fn a_flow_is_its_addresses_protocol_and_ports() {
        let one = read(&packet(0, [1, 2, 3, 4])).unwrap();
        assert_eq!(one.destination.to_string(), "10.83.0.2");
        assert_eq!(read(&packet(2, [1, 2, 3, 4])).unwrap().entropy, one.entropy);
        assert_ne!(read(&packet(0, [1, 2, 3, 5])).unwrap().entropy, one.entropy);
        let mut fragment = packet(0, [1, 2, 3, 5]);
        fragment[6] = 0x20;
        let mut other = packet(0, [9, 9, 9, 9]);
        other[6] = 0x20;
        assert_eq!(read(&fragment).unwrap().entropy, read(&other).unwrap().entropy);
        assert!(read(&packet(48 << 2, [0; 4])).unwrap().priority > one.priority);
    }

    #[test]
    fn congestion_marks_go_to_capable_packets_only() {
        for (tos, marked) in [(0, false), (1, true), (2, true), (3, true)] {
            let mut packet = packet(tos, [1, 2, 3, 4]);
            assert!(is_sound(&packet));
            assert_eq!(mark(&mut packet), marked);
            assert_eq!(packet[1], if marked { 3 } else { 0 });
            assert!(is_sound(&packet));
        }
        let mut six = vec![0u8; 48];
        (six[0], six[1], six[6], six[39]) = (0x60, 0x20, 17, 2);
        assert_eq!(read(&six).unwrap().destination.to_string(), "::2");
        assert!(mark(&mut six) && six[1] == 0x30);
    }

    #[test]
    fn anything_may_come() {
        let whole = packet(2, [1, 2, 3, 4]);
        for length in 0..whole.len() {
            let mut part = whole[..length].to_vec();
            assert_eq!(read(&part).is_some(), length >= 20);
            mark(&mut part);
        }
        for seed in 0..2000u32 {
            let mut random = seed.wrapping_mul(0x9E37_79B9);
            let mut next = || {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 24) as u8
            };
            let mut bytes: Vec<u8> = (0..seed % 64).map(|_| next()).collect();
            let _ = read(&bytes);
            mark(&mut bytes);
        }
    }
}
