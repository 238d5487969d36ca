//! How long packets may be.

/// The longest payload that fits a train and a field of the set-up messages.
pub(crate) const MTU_MAX: usize = 32 * 1024;

/// IPv6 and UDP headers.
pub(crate) const IP_UDP_BYTES: usize = 48;

/// Headers of our longest packet with payload: the first one of a PUT that is in an order.
pub(crate) const HEADER_BYTES: usize = 92;

/// The longest payload that fits a link of this MTU.
pub(crate) fn payload_mtu(link_mtu: usize) -> u16 {
    let room = link_mtu.saturating_sub(IP_UDP_BYTES + HEADER_BYTES) & !7;
    room.clamp(8, MTU_MAX) as u16
}
