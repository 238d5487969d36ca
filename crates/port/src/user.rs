//! The user of this process, and of a process at the other end of a Unix socket.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The effective user identifier of this process.
pub fn user() -> u32 {
    // SAFETY: has no conditions.
    unsafe { libc::geteuid() }
}

/// True if the other end is a process of the same user.
pub fn is_same_user(stream: &UnixStream) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` has `length` bytes, and both outlive the call.
    unsafe {
        let answer = libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        );
        answer == 0 && peer.uid == user()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_pair_of_this_process_has_the_same_user() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(is_same_user(&one));
    }
}
