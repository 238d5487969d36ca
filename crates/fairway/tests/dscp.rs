//! The code points (DSCP) of packets, as a third party sees them on the loopback interface.

mod common;
#[path = "common/superuser.rs"]
mod superuser;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use common::{Pair, TIMEOUT, builder, builder_v6};
use fairway::{Builder, DatapathKind, Dscp};

const UDP: u8 = libc::IPPROTO_UDP as u8;
/// TPOpcodes of acknowledgements.
const ACKS: [u8; 2] = [0x03, 0x06];
const DATA: u8 = 0x01;
/// Payloads longer than any header.
const LONG: usize = 1000;
/// Length of a WRITE.
const BYTES: usize = 1 << 14;

/// Receives every packet of this network namespace.
struct Sniffer(OwnedFd);

/// A datagram: its code point and its payload.
struct Seen {
    dscp: u8,
    bytes: Vec<u8>,
}

impl Sniffer {
    /// Returns `None` if this user may not do that.
    fn new() -> Option<Sniffer> {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is passed; a result that is not -1 is a descriptor that is ours.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, i32::from(all)) };
        if fd < 0 {
            return None;
        }
        // SAFETY: just opened.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let room: libc::c_int = 16 << 20;
        let (option, size) = (libc::SO_RCVBUFFORCE, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the value lives through the call, and has this size.
        let set = unsafe {
            libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const room).cast(), size)
        };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        Some(Sniffer(socket))
    }

    /// The datagrams so far from or to a port of a context.
    fn datagrams(&self, ports: &[u16]) -> Vec<Seen> {
        let mut packet = vec![0_u8; 1 << 17];
        let mut seen = Vec::new();
        loop {
            let (room, length) = (packet.as_mut_ptr().cast(), packet.len());
            // SAFETY: at most the packet's length is written to it.
            let length = unsafe { libc::recv(self.0.as_raw_fd(), room, length, 0) };
            let Ok(length) = usize::try_from(length) else { return seen };
            let packet = &packet[..length];
            let (dscp, udp) = match packet.first().map(|first| first >> 4) {
                Some(4) if packet[9] == UDP => (packet[1] >> 2, &packet[20..]),
                Some(6) if packet[6] == UDP => {
                    ((packet[0] << 4 | packet[1] >> 4) >> 2, &packet[40..])
                }
                _ => continue,
            };
            let port = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
            if ports.contains(&port(0)) || ports.contains(&port(2)) {
                seen.push(Seen { dscp, bytes: udp[8..].to_vec() });
            }
        }
    }
}

/// The code points of acknowledgements, and of data, that two contexts send for a few WRITEs.
fn code_points(builder: impl Fn() -> Builder) -> Option<(Vec<u8>, Vec<u8>)> {
    let sniffer = Sniffer::new()?;
    let over_udp = || builder().datapath(DatapathKind::Udp);
    let pair = Pair::of(over_udp(), over_udp());
    let target = pair.server.open_segment(BYTES);
    let source = pair.client.filled(BYTES, 3);
    for _ in 0..4 {
        let (jetty, peer) = (&pair.client.jetty, &pair.client.peer);
        jetty.write_all(peer, source.slice(0..BYTES as u64), target.key().at(0), TIMEOUT).unwrap();
    }
    let ports: Vec<u16> =
        pair.server.context.local_addrs().iter().map(|address| address.port()).collect();
    let (mut acks, mut data) = (Vec::new(), Vec::new());
    for Seen { dscp, bytes } in sniffer.datagrams(&ports) {
        // NLP of NTH: RTPH follows.
        let has_transport = bytes.len() >= 32 && bytes[14] >> 1 & 0b111 == 0b010;
        match has_transport.then(|| bytes[16] & 0x7f) {
            Some(opcode) if ACKS.contains(&opcode) => acks.push(dscp),
            Some(DATA) if bytes.len() > LONG => data.push(dscp),
            _ => {}
        }
    }
    assert!(!acks.is_empty() && !data.is_empty(), "{} and {}", acks.len(), data.len());
    acks.dedup();
    data.dedup();
    Some((acks, data))
}

#[test]
fn acknowledgements_have_class_selector_6_and_data_is_best_effort() {
    for family in [builder, builder_v6] {
        let Some(found) = code_points(family) else {
            return superuser::skip("packets of other sockets");
        };
        assert_eq!(found, (vec![48], vec![0]));
        let found = code_points(|| family().dscp("26".parse().unwrap()));
        assert_eq!(found, Some((vec![26], vec![0])));
        let found = code_points(|| family().dscp(Dscp::OFF));
        assert_eq!(found, Some((vec![0], vec![0])));
    }
}

/// Homa's messages of at most 64 KiB have the highest class of data.
#[test]
fn class_that_a_policy_names_is_the_code_point_of_data() {
    let homa = || builder().policy_named("cc=homa");
    let Some((acks, data)) = code_points(homa) else {
        return superuser::skip("packets of other sockets");
    };
    assert_eq!((acks, data), (vec![48], vec![46]));
}
