//! Thin, checked wrappers of the socket calls.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::udp::address::Address;

/// Converts a result of -1 to the error of the system call.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Opens a non-blocking UDP socket of the family of `address`, bound to it.
pub(super) fn bound_socket(address: &Address) -> io::Result<OwnedFd> {
    let socket = free_socket(address)?;
    bind(&socket, address)?;
    Ok(socket)
}

/// Opens a non-blocking UDP socket on a port of all addresses of this host, IPv6 and IPv4.
pub(super) fn open_socket(address: &Address) -> io::Result<OwnedFd> {
    let socket = free_socket(address)?;
    set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
    bind(&socket, address)?;
    Ok(socket)
}

/// Opens a non-blocking UDP socket between `address`, which others of this kind may share, and
/// `remote`.
pub(super) fn shared_socket(address: &Address, remote: SocketAddr) -> io::Result<OwnedFd> {
    let socket = free_socket(address)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    bind(&socket, address)?;
    let remote = Address::from(remote);
    // SAFETY: the address is valid for its length.
    check(unsafe { libc::connect(socket.as_raw_fd(), remote.as_ptr(), remote.len()) })?;
    Ok(socket)
}

/// Opens a non-blocking UDP socket on an address and port that other sockets of this user may use,
/// too.
pub(super) fn common_socket(address: &Address) -> io::Result<OwnedFd> {
    let socket = free_socket(address)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    bind(&socket, address)?;
    Ok(socket)
}

fn bind(socket: &OwnedFd, address: &Address) -> io::Result<()> {
    // SAFETY: the address is valid for its length.
    check(unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr(), address.len()) })?;
    Ok(())
}

/// Opens a non-blocking UDP socket of the family of `address`, not bound yet.
fn free_socket(address: &Address) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed; a result that is not -1 is a descriptor we now own.
    let socket = unsafe {
        let fd = check(libc::socket(address.family(), kind, libc::IPPROTO_UDP))?;
        OwnedFd::from_raw_fd(fd)
    };
    if address.is_ipv6() {
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        // RoCE adapters and soft-RoCE send zero as UDP's checksum, as RFC 6935 allows a protocol
        // with its own check; without this option the kernel drops their packets over IPv6.
        set(&socket, libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_RX, 1)?;
    }
    Ok(socket)
}

/// Returns the address to which a socket is bound.
pub(super) fn local_address(socket: &OwnedFd) -> io::Result<Address> {
    let mut address = Address::UNSPECIFIED;
    let mut len = Address::capacity();
    // SAFETY: at most `len` bytes are written to the address, which has that many.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), address.as_mut_ptr(), &mut len) })?;
    address.filled(len);
    Ok(address)
}

/// Returns the MTU, in bytes, of the route from `local` to `remote`.
pub(super) fn route_mtu(local: SocketAddr, remote: &Address) -> io::Result<usize> {
    let socket = connected_socket(local, remote)?;
    let mtu = if remote.is_ipv6() {
        get(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)?
    } else {
        get(&socket, libc::IPPROTO_IP, libc::IP_MTU)?
    };
    usize::try_from(mtu).map_err(|_| io::Error::other("the kernel reports a negative MTU"))
}

/// Opens a non-blocking UDP socket at any port of `local`, connected to `remote`. If `local` is of
/// the other family, it is that of a socket of both families, and the system chooses the source
/// address.
pub(super) fn connected_socket(mut local: SocketAddr, remote: &Address) -> io::Result<OwnedFd> {
    // A link-local address keeps its link.
    local.set_port(0);
    let local = match (local, remote.is_ipv6()) {
        (SocketAddr::V6(_), false) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        (SocketAddr::V4(_), true) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        (local, _) => local,
    };
    let socket = bound_socket(&local.into())?;
    // SAFETY: the address is valid for its length.
    check(unsafe { libc::connect(socket.as_raw_fd(), remote.as_ptr(), remote.len()) })?;
    Ok(socket)
}

/// Sets an integer socket option.
pub(super) fn set(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `len` bytes of `value` are read.
    check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), len)
    })?;
    Ok(())
}

/// Makes the kernel drop packets that other hosts send to a socket.
///
/// The filter is in classic BPF. It accepts packets from the loopback interface, which delivers
/// everything that this host sends to its own addresses, and which has index 1 in every network
/// namespace.
pub(super) fn keep_to_this_host(socket: &OwnedFd) -> io::Result<()> {
    const LOOPBACK_INDEX: u32 = 1;
    let step = |code: u32, yes, no, k| libc::sock_filter { code: code as u16, jt: yes, jf: no, k };
    let interface = (libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX) as u32;
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, interface),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, LOOPBACK_INDEX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, and the steps that it points to.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Reads an integer socket option.
pub(super) fn get(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: at most `len` bytes are written to `value`.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &mut len)
    })?;
    Ok(value)
}

/// Returns a message header with everything unset. (On some targets it has private padding.)
pub(super) fn empty_message() -> libc::msghdr {
    // SAFETY: all fields are integers and pointers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// Sends one message. Returns the number of bytes accepted.
///
/// # Safety
/// Everything `message` points at must be valid for the call.
pub(super) unsafe fn send_message(
    socket: BorrowedFd<'_>,
    message: &libc::msghdr,
) -> io::Result<usize> {
    // SAFETY: the caller's promise.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives one message. Returns its number of bytes.
///
/// # Safety
/// Everything `message` points at must be writable for the call.
pub(super) unsafe fn receive_message(
    socket: BorrowedFd<'_>,
    message: &mut libc::msghdr,
) -> io::Result<usize> {
    // SAFETY: the caller's promise.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), message, 0) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}
