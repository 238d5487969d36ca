//! What the two ends of a connection exchange, as bytes.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use fairway::{SegmentKey, To};

use crate::limits::GROUP_MAX;
use crate::status::{Failure, Result};

#[cfg(test)]
mod tests;

/// Length of the handle that NCCL carries from the listener to the connecting side.
pub(crate) const HANDLE_BYTES: usize = 128;
/// The first bytes of a handle. The last digit is the version of all formats in this file.
const HANDLE_MAGIC: [u8; 8] = *b"FWNCCL01";
/// Length of a hello.
pub(crate) const HELLO_BYTES: usize = 32;
const HELLO_MAGIC: [u8; 8] = *b"FWHELO01";
/// Length of an announcement with the largest number of buffers.
pub(crate) const ANNOUNCEMENT_BYTES: usize = HEAD_BYTES + GROUP_MAX * BUFFER_BYTES;
const HEAD_BYTES: usize = 16;
const BUFFER_BYTES: usize = 32;
/// Bits of an announcement's number that a notification carries.
pub(crate) const NUMBER_MASK: u32 = 0xff_ffff;

/// A place in a message at which the next field begins.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((first, rest)) = self.0.split_first_chunk::<N>() else { return [0; N] };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    fn long(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }
}

/// The content of a handle: how to reach a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) address: SocketAddr,
    /// The listener's endpoint.
    pub(crate) to: To,
    /// A secret that the hello repeats.
    pub(crate) secret: [u8; 16],
    /// The number of the attempt that is under way with this handle; 0: none. The connecting side
    /// keeps it here, between its calls of `connect`.
    pub(crate) attempt: u64,
}

impl Handle {
    pub(crate) fn to_bytes(self) -> [u8; HANDLE_BYTES] {
        let mut bytes = Vec::with_capacity(HANDLE_BYTES);
        bytes.extend(HANDLE_MAGIC);
        bytes.extend(self.attempt.to_be_bytes());
        bytes.extend(match self.address.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        });
        bytes.extend(self.secret);
        bytes.extend(self.to.jetty.to_be_bytes());
        bytes.extend(self.to.token.to_be_bytes());
        bytes.extend(self.address.port().to_be_bytes());
        bytes.resize(HANDLE_BYTES, 0);
        let mut handle = [0; HANDLE_BYTES];
        handle.copy_from_slice(&bytes);
        handle
    }

    pub(crate) fn from_bytes(bytes: &[u8; HANDLE_BYTES]) -> Result<Handle> {
        let mut fields = Fields(bytes);
        if fields.take() != HANDLE_MAGIC {
            let remedy = "use the same release of the plug-in on all hosts";
            return Err(Failure::argument(format!("the handle is of another plug-in: {remedy}")));
        }
        let attempt = fields.long();
        let ip = Ipv6Addr::from(fields.take::<16>()).to_canonical();
        let secret = fields.take();
        let to = To::new(fields.word()).token(fields.word());
        let address = SocketAddr::new(ip, u16::from_be_bytes(fields.take()));
        Ok(Handle { address, to, secret, attempt })
    }
}

/// The first message of a connection, from the sender to the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The secret of the handle.
    pub(crate) secret: [u8; 16],
    /// The sender's endpoint.
    pub(crate) from: To,
}

impl Hello {
    pub(crate) fn to_bytes(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&HELLO_MAGIC);
        bytes[8..24].copy_from_slice(&self.secret);
        bytes[24..28].copy_from_slice(&self.from.jetty.to_be_bytes());
        bytes[28..].copy_from_slice(&self.from.token.to_be_bytes());
        bytes
    }

    /// `None` if these are the bytes of something else.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Hello> {
        let mut fields = Fields(bytes);
        (bytes.len() == HELLO_BYTES && fields.take() == HELLO_MAGIC).then(|| Hello {
            secret: fields.take(),
            from: To::new(fields.word()).token(fields.word()),
        })
    }
}

/// A buffer that the receiver has posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Buffer {
    pub(crate) tag: i32,
    pub(crate) token_id: u32,
    pub(crate) token_value: u32,
    /// Offset from the start of the receiver's segment, in bytes.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) size: u64,
}

impl Buffer {
    /// The key to the segment, as far as a WRITE needs it.
    pub(crate) fn key(&self) -> SegmentKey {
        let (token_id, token_value) = (self.token_id, self.token_value);
        let length = self.offset.saturating_add(self.size);
        SegmentKey { token_id, token_value, address: 0, length }
    }
}

/// Buffers that one call of `irecv` posts, from the receiver to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// Counts the announcements of a connection from 0, and wraps.
    pub(crate) number: u32,
    /// The receiver's endpoint, which notifications address.
    pub(crate) notify: To,
    pub(crate) count: usize,
    pub(crate) buffers: [Buffer; GROUP_MAX],
}

impl Announcement {
    /// Encodes the announcement, and returns its length.
    pub(crate) fn write(&self, bytes: &mut [u8; ANNOUNCEMENT_BYTES]) -> usize {
        let head = [self.number, self.notify.jetty, self.notify.token, self.count as u32];
        for (place, word) in bytes.chunks_exact_mut(4).zip(head) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        let places = bytes[HEAD_BYTES..].chunks_exact_mut(BUFFER_BYTES);
        for (place, buffer) in places.zip(&self.buffers[..self.count]) {
            place[..4].copy_from_slice(&buffer.tag.to_be_bytes());
            place[4..8].copy_from_slice(&buffer.token_id.to_be_bytes());
            place[8..12].copy_from_slice(&buffer.token_value.to_be_bytes());
            place[16..24].copy_from_slice(&buffer.offset.to_be_bytes());
            place[24..].copy_from_slice(&buffer.size.to_be_bytes());
        }
        HEAD_BYTES + self.count * BUFFER_BYTES
    }

    /// `None` if these are the bytes of something else.
    pub(crate) fn read(bytes: &[u8]) -> Option<Announcement> {
        let mut fields = Fields(bytes);
        let (number, jetty, token) = (fields.word(), fields.word(), fields.word());
        let count = fields.word() as usize;
        if !(1..=GROUP_MAX).contains(&count) || bytes.len() != HEAD_BYTES + count * BUFFER_BYTES {
            return None;
        }
        let mut buffers = [Buffer::default(); GROUP_MAX];
        for buffer in &mut buffers[..count] {
            let (tag, token_id) = (fields.word() as i32, fields.word());
            let (token_value, _unused) = (fields.word(), fields.word());
            let (offset, size) = (fields.long(), fields.long());
            *buffer = Buffer { tag, token_id, token_value, offset, size };
        }
        Some(Announcement { number, notify: To::new(jetty).token(token), count, buffers })
    }
}

/// Reports to the receiver that a buffer has been filled: the immediate data of the WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notification {
    /// The announcement's number, as far as [`NUMBER_MASK`] reaches.
    pub(crate) number: u32,
    /// Index of the buffer in the announcement.
    pub(crate) buffer: usize,
    /// Bytes that were written.
    pub(crate) size: u32,
}

impl Notification {
    pub(crate) fn to_immediate(self) -> u64 {
        let number = u64::from(self.number & NUMBER_MASK);
        number << 40 | (self.buffer as u64 & 0xff) << 32 | u64::from(self.size)
    }

    pub(crate) fn from_immediate(immediate: u64) -> Notification {
        Notification {
            number: (immediate >> 40) as u32,
            buffer: (immediate >> 32) as usize & 0xff,
            size: immediate as u32,
        }
    }
}
