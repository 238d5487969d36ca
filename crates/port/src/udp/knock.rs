//! The network's reports about packets to one address.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use crate::udp::address::Address;
use crate::udp::sys::{connected_socket, empty_message, receive_message, send_message, set};

/// Maximum number of answers and reports that one call of [`Knock::report`] receives.
const REPORTS_MAX: usize = 16;

/// A separate socket, connected to one remote address, that receives the network's reports about
/// packets to that address: a port at which no program listens, a host that cannot be reached.
///
/// Unconnected sockets never receive these reports. The kernel passes a report only to the socket
/// whose own port the reported packet came from. Any host that can guess that port can forge a
/// report, so a report is a reason to give up an attempt that was never answered, and no reason to
/// end a working connection.
#[derive(Debug)]
pub struct Knock {
    socket: OwnedFd,
    /// A report that the system returned instead of sending.
    early: RefCell<Option<io::Error>>,
}

impl Knock {
    /// Opens the socket, at any port of the address `local`.
    ///
    /// # Errors
    /// The address is not ours, there is no route, or the kernel refuses.
    pub fn new(local: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        let socket = connected_socket(local, &Address::from(remote))?;
        // This also enables reports that a host cannot be reached, beside those about ports.
        let (level, option) = match remote {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVERR),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        };
        set(&socket, level, option, 1)?;
        Ok(Knock { socket, early: RefCell::new(None) })
    }

    /// Makes packets leave unfragmented, even if they are longer than the recorded MTU of the path
    /// (RFC 8899, 3).
    ///
    /// # Errors
    /// Of the system.
    pub fn probe_length(&self) -> io::Result<()> {
        // The socket accepts the options of its own family; a socket of both families accepts both.
        let six = set(
            &self.socket,
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        );
        let four =
            set(&self.socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
        six.or(four)
    }

    /// Sends a packet. [`Knock::report`] returns errors.
    pub fn send(&self, packet: &[u8]) {
        let mut piece =
            libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
        let mut message = empty_message();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        // SAFETY: the piece, and the bytes it names, outlive the call and are only read. A packet
        // that does not leave is like one that is lost.
        let send = || unsafe { send_message(self.socket.as_fd(), &message) };
        let Err(error) = send() else { return };
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => return,
            // Either this packet is longer than the link allows, or a router has reported that for
            // an earlier one. The first is so again, and the second is no reason to lose this one.
            Some(libc::EMSGSIZE) => {}
            // The error concerns an earlier packet, and is reported once, so this packet was not
            // sent.
            _ => _ = self.early.replace(Some(error)),
        }
        let _ = send();
    }

    /// Receives the next answer from the remote address. Returns its length, although at most the
    /// size of `bytes` was stored. `None` if nothing has arrived.
    ///
    /// # Errors
    /// A report, as [`Knock::report`] gives it.
    pub fn receive(&self, bytes: &mut [u8]) -> Option<io::Result<usize>> {
        if let Some(early) = self.early.take() {
            return Some(Err(early));
        }
        let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut message = empty_message();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        // SAFETY: the piece, and the bytes it names, outlive the call, and no other thread writes
        // them.
        match unsafe { receive_message(self.socket.as_fd(), &mut message) } {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            outcome => Some(outcome),
        }
    }

    /// Returns the latest report since the last call, if there was one: an error of the kind
    /// `ConnectionRefused` if no program listens at the remote port. Answers are dropped.
    pub fn report(&self) -> Option<io::Error> {
        let mut latest = self.early.take();
        for _ in 0..REPORTS_MAX {
            let mut message = empty_message();
            // SAFETY: nothing is to be written but the flags in the message itself.
            match unsafe { receive_message(self.socket.as_fd(), &mut message) } {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => latest = Some(error),
            }
        }
        latest
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::time::{Duration, Instant};

    use super::*;

    fn report(knock: &Knock) -> io::ErrorKind {
        let timeout = Instant::now() + Duration::from_secs(10);
        loop {
            knock.send(b"?");
            if let Some(error) = knock.report() {
                return error.kind();
            }
            assert!(Instant::now() < timeout, "no report came");
        }
    }

    /// The system returns a report from the next call, even if that call sends.
    #[test]
    fn report_that_comes_between_two_packets_is_not_lost() {
        let ip = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let program = UdpSocket::bind(ip).expect("a socket");
        let knock = Knock::new(ip, program.local_addr().expect("an address")).expect("a route");
        drop(program);
        for _ in 0..3 {
            knock.send(b"?");
            knock.send(b"??");
            let report = knock.receive(&mut [0; 8]).expect("a report").expect_err("no answer");
            assert_eq!(report.kind(), io::ErrorKind::ConnectionRefused);
        }
    }

    #[test]
    fn a_port_without_a_program_is_reported_and_one_with_a_program_is_not() {
        for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let ip = SocketAddr::new(ip, 0);
            let program = UdpSocket::bind(ip).expect("a socket");
            let at = program.local_addr().expect("an address");
            let knock = Knock::new(ip, at).expect("a route");
            knock.send(b"?");
            let (length, from) = program.recv_from(&mut [0; 8]).expect("a packet");
            assert_eq!(length, 1);
            program.send_to(b"an answer", from).expect("it leaves");
            assert!(knock.report().is_none(), "{ip}: an answer is no report");
            program.send_to(b"another", from).expect("it leaves");
            let mut answer = [0; 8];
            assert_eq!(knock.receive(&mut answer).expect("it is there").expect("no report"), 7);
            assert_eq!(&answer, b"another\0");
            assert!(knock.receive(&mut answer).is_none());
            drop(program);
            assert_eq!(report(&knock), io::ErrorKind::ConnectionRefused, "{ip}");
        }
    }
}
