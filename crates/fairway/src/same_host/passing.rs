//! Requests and answers between processes of one host, and the files passed with them.

use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use fairway_runtime::passing::{self, SocketKind, connect_abstract};
use fairway_ub::Rights;

/// Length of a request in bytes: magic number, version, and the segment's number and secret.
pub(super) const REQUEST_BYTES: usize = 16;
const MAGIC: u32 = 0x4641_4952;
const VERSION: u32 = 1;

/// A request for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MappingRequest {
    pub(super) token_id: u32,
    pub(super) token_value: u32,
}

impl MappingRequest {
    pub(super) fn to_bytes(self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        let words = [MAGIC, VERSION, self.token_id, self.token_value];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; REQUEST_BYTES]) -> Option<MappingRequest> {
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let known = word(0) == MAGIC && word(4) == VERSION;
        known.then(|| MappingRequest { token_id: word(8), token_value: word(12) })
    }
}

/// Returns the abstract name at which the context with this node address listens.
pub(super) fn name_of(incarnation: u32) -> String {
    format!("fairway-{}-{incarnation:06x}", fairway_port::user())
}

/// Connects to that context at once or fails: a process that has the name must not delay this one.
pub(super) fn connect(incarnation: u32) -> io::Result<UnixStream> {
    let stream = connect_abstract(name_of(incarnation).as_bytes(), SocketKind::Stream)?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Answers with the rights, and with the files of the memory and its gate.
pub(super) fn send_files(
    stream: &UnixStream,
    rights: Rights,
    files: [BorrowedFd<'_>; 2],
) -> io::Result<()> {
    passing::send_files(stream, &[1 + rights_byte(rights)], &files)
}

/// Receives the answer. Returns `None` if it is a refusal.
pub(super) fn receive_files(stream: &UnixStream) -> io::Result<Option<(Rights, [OwnedFd; 2])>> {
    let mut text = [0_u8; 1];
    let (_, files) = passing::receive_files(stream, &mut text)?;
    let Ok(files) = <[OwnedFd; 2]>::try_from(files) else { return Ok(None) };
    Ok(text[0].checked_sub(1).map(|bits| (rights_of(bits), files)))
}

/// Receives a request.
pub(super) fn receive_request(stream: &mut UnixStream) -> io::Result<Option<MappingRequest>> {
    let mut bytes = [0; REQUEST_BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(MappingRequest::from_bytes(&bytes))
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
