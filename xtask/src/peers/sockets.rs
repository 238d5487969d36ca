//! Socket options and calls that the standard library lacks.

use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

/// Pins this thread to `core`.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::other(format!("there is no core {core}")));
    }
    // SAFETY: a set is an array of integers, for which zero is a value; the core is within it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        set
    };
    // SAFETY: the kernel reads the set, which has the length given.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel segment every send into packets of `bytes` (UDP_SEGMENT).
pub(super) fn segment(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes as libc::c_int)
}

/// Lets a receive call return many packets at once (UDP_GRO).
pub(super) fn coalesce(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Requests socket buffers, above the system's limit where that is permitted.
pub(super) fn buffers(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    let bytes = bytes as libc::c_int;
    for (plain, force) in
        [(libc::SO_SNDBUF, libc::SO_SNDBUFFORCE), (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE)]
    {
        set(socket, libc::SOL_SOCKET, plain, bytes)?;
        // This call requires privileges; otherwise the limit applies.
        let _ = set(socket, libc::SOL_SOCKET, force, bytes);
    }
    Ok(())
}

fn set(
    socket: &UdpSocket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `len` bytes of `value` are read.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Congestion controls of TCP by number; number 0 keeps the system's.
const TCP_CONTROLLERS: [&str; 4] = crate::bench::TCP_CONTROLLERS;

/// Sets the congestion control of a TCP socket.
pub(super) fn choose_tcp_controller(stream: &TcpStream, number: usize) -> io::Result<()> {
    let name = *TCP_CONTROLLERS
        .get(number)
        .ok_or_else(|| io::Error::other("no such congestion control"))?;
    if number == 0 {
        return Ok(());
    }
    // SAFETY: as many bytes of the name are read as it has.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Counters of a TCP socket: packets with data, retransmitted packets, and packets that the
/// receiver reports as duplicates (DSACK).
pub(super) fn tcp_counts(stream: &TcpStream) -> io::Result<[u32; 3]> {
    // Offsets of 32-bit words in `struct tcp_info` of linux/tcp.h, which only grows at its end.
    const DATA_SEGS_OUT: usize = 39;
    const TOTAL_RETRANS: usize = 25;
    const DSACK_DUPS: usize = 54;
    let mut words = [0u32; 64];
    let mut len = size_of_val(&words) as libc::socklen_t;
    // SAFETY: at most `len` bytes are written, which the array has.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            words.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok([DATA_SEGS_OUT, TOTAL_RETRANS, DSACK_DUPS].map(|word| words[word]))
}
