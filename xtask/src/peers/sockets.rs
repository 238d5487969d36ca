//! The few socket options and calls that the standard library lacks.

use std::io;
use std::net::UdpSocket;
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

/// Lets every send be cut into packets of `bytes`.
pub(super) fn segment(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes as libc::c_int)
}

/// Lets a receive take many packets at once.
pub(super) fn coalesce(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Asks for socket buffers, past the system's limit where that is allowed.
pub(super) fn buffers(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    let bytes = bytes as libc::c_int;
    for (plain, force) in
        [(libc::SO_SNDBUF, libc::SO_SNDBUFFORCE), (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE)]
    {
        set(socket, libc::SOL_SOCKET, plain, bytes)?;
        // Only the privileged may; for others the limit stands.
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
