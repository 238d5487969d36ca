//! Lengths of packets.

/// The longest payload of a packet, in bytes: the limit of a train of packets and of a field of the
/// set-up messages.
pub const MTU_MAX: usize = 32 * 1024;

/// IPv6 and UDP headers.
const IP_UDP_BYTES: usize = 48;

/// Bytes of the headers of the longest packet with payload: the first packet of an ordered PUT.
const HEADER_BYTES: usize = 92;

/// The longest payload in bytes, in whole words, of packets that fit a link of this MTU.
pub fn payload_mtu(link_mtu: usize) -> u16 {
    let room = link_mtu.saturating_sub(IP_UDP_BYTES + HEADER_BYTES) & !7;
    room.clamp(8, MTU_MAX) as u16
}

/// Length in bytes of the longest packets with `mtu_bytes` of payload, without headers of IP and
/// UDP.
pub(super) fn packet_length(mtu_bytes: u16) -> usize {
    usize::from(mtu_bytes) + HEADER_BYTES
}
