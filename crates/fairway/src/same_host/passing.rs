//! Requests and answers between processes of one host, and the files passed with them.

use std::io::{self, IoSlice, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use fairway_ub::Rights;

/// Length of a request in bytes: magic number, version, and the segment's number and secret.
pub(super) const QUESTION_BYTES: usize = 16;
const MAGIC: u32 = 0x4641_4952;
const VERSION: u32 = 1;

/// A request for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) token_id: u32,
    pub(super) token_value: u32,
}

impl Question {
    pub(super) fn to_bytes(self) -> [u8; QUESTION_BYTES] {
        let mut bytes = [0; QUESTION_BYTES];
        let words = [MAGIC, VERSION, self.token_id, self.token_value];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; QUESTION_BYTES]) -> Option<Question> {
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let known = word(0) == MAGIC && word(4) == VERSION;
        known.then(|| Question { token_id: word(8), token_value: word(12) })
    }
}

/// Returns the name at which the context with this node address listens.
pub(super) fn name_of(incarnation: u32) -> io::Result<SocketAddr> {
    // SAFETY: has no conditions.
    let user = unsafe { libc::geteuid() };
    SocketAddr::from_abstract_name(format!("fairway-{user}-{incarnation:06x}"))
}

/// Connects to that context at once or fails: a process that has the name must not delay this one.
pub(super) fn connect(incarnation: u32) -> io::Result<UnixStream> {
    let name = name_of(incarnation)?;
    let text = name.as_abstract_name().unwrap_or_default();
    // SAFETY: all of it may be zeros.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as _;
    // An abstract name begins with a zero byte, and only its length terminates it.
    for (place, byte) in address.sun_path[1..].iter_mut().zip(text) {
        *place = *byte as _;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + text.len();
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the socket is ours alone; the address has `length` bytes and outlives the call.
    let (stream, connected) = unsafe {
        let socket = libc::socket(libc::AF_UNIX, kind, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let stream = UnixStream::from_raw_fd(socket);
        (stream, libc::connect(socket, (&raw const address).cast(), length as libc::socklen_t))
    };
    if connected != 0 {
        return Err(io::Error::last_os_error());
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Size of the control message for two files, in bytes.
const CONTROL_BYTES: usize = 64;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Answers with the rights, and with the files of the memory and its gate.
pub(super) fn send_files(stream: &UnixStream, rights: Rights, files: [i32; 2]) -> io::Result<()> {
    let text = [1 + rights_byte(rights)];
    let parts = [IoSlice::new(&text)];
    let mut control = Control([0; CONTROL_BYTES]);
    let bytes = size_of::<[i32; 2]>() as u32;
    // SAFETY: the header's parts outlive the call; the control message of two files fits
    // CONTROL_BYTES, which are aligned for its header.
    let sent = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = parts.as_ptr().cast_mut().cast();
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(bytes) as _;
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
        std::ptr::copy_nonoverlapping(
            files.as_ptr().cast(),
            libc::CMSG_DATA(first),
            bytes as usize,
        );
        libc::sendmsg(stream.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL)
    };
    if sent == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives the answer. Returns `None` if it is a refusal.
pub(super) fn receive_files(stream: &UnixStream) -> io::Result<Option<(Rights, [OwnedFd; 2])>> {
    let mut text = [0_u8; 1];
    let mut control = Control([0; CONTROL_BYTES]);
    let mut files = Vec::new();
    // SAFETY: as in `send_files`. What arrives as a file is ours alone from then on; messages are
    // looked at within the length that the kernel gives.
    let received = unsafe {
        let mut part = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
        let received = libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC);
        let mut next = libc::CMSG_FIRSTHDR(&raw const header);
        while received > 0 && !next.is_null() {
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
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    let Ok(files) = <[OwnedFd; 2]>::try_from(files) else { return Ok(None) };
    Ok(text[0].checked_sub(1).map(|bits| (rights_of(bits), files)))
}

/// Receives a request.
pub(super) fn receive_question(stream: &mut UnixStream) -> io::Result<Option<Question>> {
    let mut bytes = [0; QUESTION_BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(Question::from_bytes(&bytes))
}

const EACH: [Rights; 3] = [Rights::READ, Rights::WRITE, Rights::ATOMIC];

fn rights_byte(rights: Rights) -> u8 {
    let bits = EACH.iter().enumerate();
    bits.map(|(bit, right)| u8::from(rights.contains(*right)) << bit).sum()
}

fn rights_of(bits: u8) -> Rights {
    let granted = EACH.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0);
    granted.fold(Rights::NONE, |all, (_, right)| all.with(*right))
}
