//! The 40 bytes in front of a received datagram, where RoCE stores the IP header.

use std::net::IpAddr;

/// Number of bytes in front of the payload in a receive of datagrams.
pub(super) const HEADER_BYTES: u32 = 40;

/// UDP header, BTH, DETH and ICRC: the bytes that RoCE would have carried around the payload.
const AROUND: u32 = 8 + 12 + 8 + 4;
const UDP: u8 = 17;

/// Returns an IPv6 header, or 20 unused bytes and an IPv4 header.
pub(super) fn header(source: IpAddr, target: IpAddr, payload: u32) -> [u8; HEADER_BYTES as usize] {
    let mut bytes = [0; HEADER_BYTES as usize];
    let length = payload.next_multiple_of(4) + AROUND;
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let header = &mut bytes[20..];
            header[0] = 0x45;
            header[2..4].copy_from_slice(&((length + 20) as u16).to_be_bytes());
            header[6] = 0x40;
            (header[8], header[9]) = (64, UDP);
            header[12..16].copy_from_slice(&source.octets());
            header[16..20].copy_from_slice(&target.octets());
            let sum = checksum(header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (source, target) => {
            let octets = |address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            bytes[0] = 0x60;
            bytes[4..6].copy_from_slice(&(length as u16).to_be_bytes());
            (bytes[6], bytes[7]) = (UDP, 64);
            bytes[8..24].copy_from_slice(&octets(source));
            bytes[24..40].copy_from_slice(&octets(target));
        }
    }
    bytes
}

fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn an_ipv4_header_is_in_the_last_20_bytes_and_sums_to_nothing() {
        let bytes = header(Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::LOCALHOST.into(), 5);
        assert_eq!(bytes[..20], [0; 20]);
        assert_eq!(checksum(&bytes[20..]), 0);
        assert_eq!(bytes[32..36], [10, 0, 0, 1]);
        assert_eq!(bytes[36..], [127, 0, 0, 1]);
        assert_eq!(bytes[22..24], [0, 8 + 32 + 20]);
    }

    #[test]
    fn an_ipv6_header_takes_all_of_it() {
        let bytes = header(Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), 0);
        assert_eq!((bytes[0], bytes[6]), (0x60, UDP));
        assert_eq!((bytes[23], bytes[39]), (1, 1));
    }
}
