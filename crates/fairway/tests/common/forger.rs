//! Datagrams with forged source addresses, which need the superuser.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Sends datagrams with any source address.
pub struct Forger {
    socket: UdpSocket,
    pub sent: AtomicU64,
}

impl Forger {
    pub fn new() -> Forger {
        // SAFETY: no memory is passed; a result that is not -1 is a descriptor that is ours.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            UdpSocket::from(OwnedFd::from_raw_fd(fd))
        };
        Forger { socket, sent: AtomicU64::new(0) }
    }

    pub fn send(&self, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) {
        let udp = 8 + payload.len() as u16;
        // The kernel fills in length, identification and checksum of the IP header; a UDP checksum
        // of 0 means that there is none.
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, libc::IPPROTO_UDP as u8, 0, 0];
        packet.extend(from.ip().octets());
        packet.extend(to.ip().octets());
        for number in [from.port(), to.port(), udp, 0] {
            packet.extend(number.to_be_bytes());
        }
        packet.extend(payload);
        // A datagram that a full queue drops counts as not sent.
        if self.socket.send_to(&packet, SocketAddr::from((*to.ip(), 0))).is_ok() {
            let sent = self.sent.fetch_add(1, Ordering::Relaxed);
            // Other threads get some CPU time, too.
            if sent.is_multiple_of(64) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
}
