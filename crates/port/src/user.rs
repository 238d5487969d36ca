//! The user of this process, and of a process at the other end of a Unix socket.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// The effective user identifier of this process.
pub fn user() -> u32 {
    // SAFETY: has no conditions.
    unsafe { libc::geteuid() }
}

/// True if the other end is a process of the same user.
pub fn is_same_user(stream: &UnixStream) -> bool {
    credentials(stream).is_some_and(|peer| peer.uid == user())
}

/// Returns a descriptor that is readable once the process has ended that made the other end of a
/// connection, or listened for it. Copies of the connection in children of that process do not
/// count. `None`: the process is not visible here.
///
/// # Errors
/// The process has ended already.
pub fn process_of(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    // A process of another PID namespace has the number 0.
    let Some(peer) = credentials(stream).filter(|peer| peer.pid > 0) else { return Ok(None) };
    // SAFETY: no memory is passed; a result that is not -1 is a descriptor that is ours alone.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, peer.pid, 0);
        if process >= 0 {
            return Ok(Some(OwnedFd::from_raw_fd(process as RawFd)));
        }
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ESRCH) => Err(error),
        // Linux before 5.3, or a filter of system calls.
        _ => Ok(None),
    }
}

fn credentials(stream: &UnixStream) -> Option<libc::ucred> {
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
        (answer == 0).then_some(peer)
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
