//! The sender of a forwarded datagram, as the kernel reports it.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;

use super::SLOT_NAME;

/// Bytes of the control message that contains credentials. There is no room for more, so the kernel
/// discards descriptors that a datagram carries.
const CONTROL_BYTES: usize = {
    // SAFETY: the macro's function computes a number.
    (unsafe { libc::CMSG_SPACE(size_of::<libc::ucred>() as u32) }) as usize
};

/// Room for that control message, as aligned as the kernel requires.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// The sender of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The user of the process; `None` if the kernel has not reported it.
    user: Option<u32>,
    /// The slot whose socket has sent it, if it was a slot's.
    pub(crate) slot: Option<u8>,
}

impl Origin {
    /// True if the sender is a process of this process's user, or of the superuser.
    pub(crate) fn is_trusted(self) -> bool {
        // SAFETY: the call has no preconditions.
        let own = unsafe { libc::geteuid() };
        self.user.is_some_and(|user| user == 0 || user == own)
    }
}

/// Makes the kernel report the sender of each datagram of a Unix socket.
pub(super) fn request(socket: RawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: four bytes of `on` are read.
    let result = unsafe {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PASSCRED);
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(socket, level, option, (&raw const on).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives a datagram. Returns its length and its sender.
pub(super) fn receive(socket: &UnixDatagram, buffer: &mut [u8]) -> io::Result<(usize, Origin)> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all fields of both are integers and pointers, for which zero is a value.
    let (mut from, mut message): (libc::sockaddr_un, libc::msghdr) = unsafe { zeroed() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: everything that the message points at is valid for the call, with its length.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let name_at = std::mem::offset_of!(libc::sockaddr_un, sun_path);
    let name_length = (message.msg_namelen as usize).saturating_sub(name_at);
    let name: Vec<u8> = from.sun_path.iter().take(name_length).map(|byte| *byte as u8).collect();
    Ok((length, Origin { user: user_of(&message), slot: slot_of_name(&name) }))
}

/// Returns the user in the credentials that came with a message.
fn user_of(message: &libc::msghdr) -> Option<u32> {
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return None;
    }
    // SAFETY: the kernel has filled the control bytes, whose length is in the message.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return None;
    }
    // SAFETY: the header is within the control bytes.
    let kind = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
    if kind != (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) {
        return None;
    }
    // SAFETY: a control message of this type contains a `ucred`, which may be unaligned.
    let credentials = unsafe { libc::CMSG_DATA(header).cast::<libc::ucred>().read_unaligned() };
    Some(credentials.uid)
}

/// Returns the slot to which an abstract name, with its leading zero, belongs.
fn slot_of_name(name: &[u8]) -> Option<u8> {
    let text = name.strip_prefix(&[0])?.strip_prefix(SLOT_NAME.as_bytes())?;
    let number: u8 = std::str::from_utf8(text).ok()?.parse().ok()?;
    // Another process may have bound a name in which the number is written differently.
    (number.to_string().as_bytes() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    use super::*;

    fn named(name: &str) -> SocketAddr {
        SocketAddr::from_abstract_name(name).unwrap()
    }

    #[test]
    fn sender_is_reported_with_user_and_slot() {
        let own = format!("fairway-origin-{}", std::process::id());
        let receiver = UnixDatagram::bind_addr(&named(&own)).unwrap();
        request(receiver.as_raw_fd()).unwrap();
        UnixDatagram::unbound().unwrap().send_to_addr(b"12345", &named(&own)).unwrap();
        let mut buffer = [0; 8];
        let (length, origin) = receive(&receiver, &mut buffer).unwrap();
        assert_eq!((length, &buffer[..5], origin.slot), (5, &b"12345"[..], None));
        assert!(origin.is_trusted());
    }

    #[test]
    fn only_names_of_slots_are_slots() {
        assert_eq!(slot_of_name(b"\0fairway-verbs-0"), Some(0));
        assert_eq!(slot_of_name(b"\0fairway-verbs-255"), Some(255));
        for name in [
            "",
            "\0",
            "fairway-verbs-1",
            "\0fairway-verbs-",
            "\0fairway-verbs-256",
            "\0fairway-verbs-+1",
            "\0fairway-verbs-01",
        ] {
            assert_eq!(slot_of_name(name.as_bytes()), None, "{name:?}");
        }
        assert_eq!(slot_of_name(b"\0fairway-verbs-service-1"), None);
    }

    #[test]
    fn other_users_are_not_trusted() {
        // SAFETY: the call has no preconditions.
        let own = unsafe { libc::geteuid() };
        let of = |user| Origin { user, slot: Some(3) };
        assert!(of(Some(0)).is_trusted() && of(Some(own)).is_trusted());
        assert!(!of(Some(own + 1)).is_trusted() && !of(None).is_trusted());
    }
}
