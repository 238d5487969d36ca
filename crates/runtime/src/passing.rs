//! Messages between processes of one host, and the files that are passed with them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Maximum number of files of a message.
pub const FILES_MAX: usize = 4;

/// Size of a control message for that many files, in bytes.
const CONTROL_BYTES: usize = 64;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Kind of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// A stream of bytes.
    Stream,
    /// Messages with their boundaries kept.
    Messages,
}

impl SocketKind {
    fn flags(self) -> libc::c_int {
        let kind = match self {
            SocketKind::Stream => libc::SOCK_STREAM,
            SocketKind::Messages => libc::SOCK_SEQPACKET,
        };
        kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK
    }
}

/// Returns a Unix socket that does not block, and the abstract address `name`.
fn prepare(
    name: &[u8],
    kind: SocketKind,
) -> io::Result<(OwnedFd, libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all of it may be zeros.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if name.len() >= address.sun_path.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a name of over 107 bytes"));
    }
    address.sun_family = libc::AF_UNIX as _;
    // An abstract name begins with a zero byte, and only its length terminates it.
    for (place, byte) in address.sun_path[1..].iter_mut().zip(name) {
        *place = *byte as _;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    // SAFETY: no memory is passed; a result that is not -1 is a descriptor that is ours alone.
    let socket = unsafe {
        let socket = libc::socket(libc::AF_UNIX, kind.flags(), 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(socket)
    };
    Ok((socket, address, length as libc::socklen_t))
}

/// Connects to the abstract name at once or fails: a process that has the name must not delay this
/// one. The connection does not block.
///
/// # Errors
/// No process listens there (`ConnectionRefused`), or its queue is full.
pub fn connect_abstract(name: &[u8], kind: SocketKind) -> io::Result<UnixStream> {
    let (socket, address, length) = prepare(name, kind)?;
    // SAFETY: the address has `length` bytes and outlives the call.
    match unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) } {
        0 => Ok(UnixStream::from(socket)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Listens at an abstract name, for at most `queue` connections that have not been accepted. Does
/// not block.
///
/// # Errors
/// Another process has the name.
pub fn listen_abstract(name: &[u8], kind: SocketKind, queue: i32) -> io::Result<OwnedFd> {
    let (socket, address, length) = prepare(name, kind)?;
    // SAFETY: the address has `length` bytes and outlives the calls.
    let failed = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) != 0
            || libc::listen(socket.as_raw_fd(), queue) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

/// Accepts a connection, which does not block. Returns `None` if there is none.
///
/// # Errors
/// The process has no file descriptor left.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<UnixStream>> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let (no_address, no_length) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: no address is requested; a result that is not -1 is a descriptor that is ours alone.
    let accepted = unsafe { libc::accept4(listener.as_raw_fd(), no_address, no_length, flags) };
    if accepted >= 0 {
        // SAFETY: as above.
        return Ok(Some(unsafe { UnixStream::from_raw_fd(accepted) }));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted => Ok(None),
        _ => Err(error),
    }
}

/// Sends a message with files.
///
/// # Panics
/// There are more than [`FILES_MAX`] files.
///
/// # Errors
/// The connection has ended, or has no room for the whole message.
pub fn send_files(stream: &UnixStream, message: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    assert!(files.len() <= FILES_MAX, "{} files in a message", files.len());
    let mut control = Control([0; CONTROL_BYTES]);
    let bytes = size_of_val(files) as u32;
    let mut part =
        libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
    // SAFETY: the header's parts outlive the call; the control message of FILES_MAX files fits
    // CONTROL_BYTES, which are aligned for its header.
    let sent = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if !files.is_empty() {
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(bytes) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
            let place = libc::CMSG_DATA(first).cast::<i32>();
            for (number, file) in files.iter().enumerate() {
                place.add(number).write_unaligned(file.as_raw_fd());
            }
        }
        libc::sendmsg(stream.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL)
    };
    match usize::try_from(sent) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(sent) if sent == message.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives a message into `room`, and its files. Returns the message's length; 0 means that the
/// connection has ended, or that the message is empty.
///
/// # Errors
/// What the kernel says; `WouldBlock` if nothing has arrived and the stream does not block.
pub fn receive_files(stream: &UnixStream, room: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut files = Vec::new();
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    // SAFETY: as in `send_files`. What arrives as a file is ours alone from then on; messages are
    // looked at within the length that the kernel gives.
    let received = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
        let received = libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC);
        // An empty message may have files, too.
        let mut next = match received {
            0.. => libc::CMSG_FIRSTHDR(&raw const header),
            _ => std::ptr::null_mut(),
        };
        while !next.is_null() {
            if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*next).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                for number in 0..bytes / size_of::<i32>() {
                    let file = libc::CMSG_DATA(next).cast::<i32>().add(number).read_unaligned();
                    files.push(OwnedFd::from_raw_fd(file));
                }
            }
            next = libc::CMSG_NXTHDR(&raw const header, next);
        }
        received
    };
    match usize::try_from(received) {
        Ok(length) => Ok((length, files)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn message_arrives_with_its_files() {
        let name = format!("fairway-passing-test-{}", std::process::id());
        let listener = listen_abstract(name.as_bytes(), SocketKind::Messages, 4).unwrap();
        assert!(accept(listener.as_fd()).unwrap().is_none(), "no process has connected yet");
        let one = connect_abstract(name.as_bytes(), SocketKind::Messages).unwrap();
        let other = accept(listener.as_fd()).unwrap().expect("the connection");
        let mut room = [0; 16];
        let nothing = receive_files(&other, &mut room).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        let (mut reader, writer) = std::io::pipe().unwrap();
        send_files(&one, b"hello", &[writer.as_fd()]).unwrap();
        drop(writer);
        let (length, mut files) = receive_files(&other, &mut room).unwrap();
        assert_eq!((&room[..length], files.len()), (&b"hello"[..], 1));
        File::from(files.remove(0)).write_all(b"through the pipe").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through the pipe");
        drop(one);
        assert_eq!(receive_files(&other, &mut room).unwrap().0, 0, "the end of the connection");
    }

    #[test]
    fn files_of_an_empty_message_are_the_receivers() {
        let name = format!("fairway-passing-test-empty-{}", std::process::id());
        let listener = listen_abstract(name.as_bytes(), SocketKind::Messages, 4).unwrap();
        let one = connect_abstract(name.as_bytes(), SocketKind::Messages).unwrap();
        let other = accept(listener.as_fd()).unwrap().expect("the connection");
        let (_reader, writer) = std::io::pipe().unwrap();
        send_files(&one, b"", &[writer.as_fd()]).unwrap();
        let (length, files) = receive_files(&other, &mut [0; 16]).unwrap();
        assert_eq!((length, files.len()), (0, 1));
    }

    #[test]
    fn connection_to_a_name_without_listener_is_refused() {
        let refused = connect_abstract(b"fairway-no-such-name", SocketKind::Messages).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
