//! Fill of the kernel's queues of a port's sockets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::udp::port::UdpPort;
use crate::udp::sys::check;

/// The option that reads a socket's memory accounts: Linux, `SO_MEMINFO`, since 4.12.
const SO_MEMINFO: libc::c_int = 55;
/// Number of accounts, the last of which counts drops.
const ACCOUNTS: usize = libc::SK_MEMINFO_DROPS as usize + 1;

/// The queues of a socket, as the kernel accounts for them: including its overhead for each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueUse {
    /// Bytes that have arrived and were not received yet. The kernel subtracts received bytes late,
    /// but the error is always below a quarter of the limit.
    pub receive_bytes: u32,
    /// Number of bytes from which arriving packets are dropped.
    pub receive_limit: u32,
    /// Bytes that were sent and have not left the host: they wait in the socket, in the queue of
    /// the interface or in that of the NIC.
    pub transmit_bytes: u32,
    /// Number of bytes from which sending is refused.
    pub transmit_limit: u32,
    /// Datagrams that were dropped since the socket was opened, most of them for lack of room. The
    /// counter wraps.
    pub dropped: u32,
}

impl QueueUse {
    /// Fill of the receive queue, 0 to 100 %.
    pub fn receive_percent(&self) -> u8 {
        percent(self.receive_bytes, self.receive_limit)
    }

    /// Fill of the transmit queue, 0 to 100 %.
    pub fn transmit_percent(&self) -> u8 {
        percent(self.transmit_bytes, self.transmit_limit)
    }
}

fn percent(part: u32, whole: u32) -> u8 {
    // The last packet may exceed the limit.
    (u64::from(part) * 100).checked_div(u64::from(whole)).unwrap_or(0).min(100) as u8
}

/// Reads the queues of a port's sockets without the port, from any thread. The sockets stay open as
/// long as this exists.
#[derive(Debug)]
pub struct QueueWatch {
    sockets: Vec<OwnedFd>,
}

impl UdpPort {
    /// Returns a reader of the queues of the existing sockets.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn queue_watch(&self) -> io::Result<QueueWatch> {
        let sockets = self.sockets.iter().map(|socket| socket.as_fd().try_clone_to_owned());
        Ok(QueueWatch { sockets: sockets.collect::<io::Result<_>>()? })
    }
}

impl QueueWatch {
    /// Returns the queues of each socket, by index.
    ///
    /// # Errors
    /// The kernel does not report it: Linux does since 4.12.
    pub fn read(&self) -> impl Iterator<Item = io::Result<QueueUse>> {
        self.sockets.iter().map(accounts)
    }
}

fn accounts(socket: &OwnedFd) -> io::Result<QueueUse> {
    let mut values = [0_u32; ACCOUNTS];
    let mut len = size_of_val(&values) as libc::socklen_t;
    // SAFETY: at most `len` bytes are written to `values`, for which any bits are a value.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &mut len,
        )
    })?;
    if (len as usize) < size_of_val(&values) {
        return Err(io::Error::other("the kernel does not count what a socket drops"));
    }
    let value = |account: libc::c_int| values[account as usize];
    Ok(QueueUse {
        receive_bytes: value(libc::SK_MEMINFO_RMEM_ALLOC),
        receive_limit: value(libc::SK_MEMINFO_RCVBUF),
        transmit_bytes: value(libc::SK_MEMINFO_WMEM_ALLOC),
        transmit_limit: value(libc::SK_MEMINFO_SNDBUF),
        dropped: value(libc::SK_MEMINFO_DROPS),
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    fn port() -> UdpPort {
        UdpPort::bind_one((Ipv4Addr::LOCALHOST, 0).into(), 64 * 1024).expect("a port")
    }

    fn read(watch: &QueueWatch) -> QueueUse {
        watch.read().next().expect("a socket").expect("the kernel reports it")
    }

    #[test]
    fn receive_queue_fills_and_overflows_until_it_is_read() {
        let port = port();
        let watch = port.queue_watch().unwrap();
        let empty = read(&watch);
        assert_eq!((empty.receive_percent(), empty.dropped), (0, 0), "{empty:?}");
        assert_eq!(empty.receive_limit as usize, port.granted().receive_bytes);
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for _ in 0..2000 {
            sender.send_to(&[1; 1000], port.local_addrs()[0]).unwrap();
        }
        // On the loopback interface a packet has arrived, or was dropped, when the call returns.
        let full = read(&watch);
        assert!(full.receive_percent() > 90 && full.dropped > 0, "{full:?}");
        let mut buffer = [0_u8; 2048];
        let receiver = UdpSocket::from(port.sockets[0].try_clone().unwrap());
        while receiver.recv(&mut buffer).is_ok() {}
        let drained = read(&watch);
        assert_eq!(drained.dropped, full.dropped);
        assert!(drained.receive_percent() <= 25, "{drained:?}");
    }

    #[test]
    fn a_transmit_queue_counts_what_has_not_left() {
        let port = port();
        let watch = port.queue_watch().unwrap();
        assert_eq!(read(&watch).transmit_percent(), 0);
        corked(&port, 60_000);
        let waiting = read(&watch);
        assert!(waiting.transmit_bytes >= 60_000, "{waiting:?}");
        assert!(waiting.transmit_percent() > 40, "{waiting:?}");
    }

    /// Makes the kernel store `bytes` bytes of an incomplete datagram.
    fn corked(port: &UdpPort, bytes: usize) {
        let sender = UdpSocket::from(port.sockets[0].try_clone().unwrap());
        sender.connect((Ipv4Addr::LOCALHOST, 9)).unwrap();
        let data = vec![0_u8; bytes];
        // SAFETY: `data` outlives the call and has so many bytes.
        let sent =
            unsafe { libc::send(sender.as_raw_fd(), data.as_ptr().cast(), bytes, libc::MSG_MORE) };
        assert_eq!(sent, bytes as isize, "{}", io::Error::last_os_error());
    }

    #[test]
    fn shares_do_not_pass_a_hundred() {
        assert_eq!([percent(0, 0), percent(7, 0), percent(1, 3), percent(9, 3)], [0, 0, 33, 100]);
        assert_eq!(percent(u32::MAX, u32::MAX), 100);
    }
}
