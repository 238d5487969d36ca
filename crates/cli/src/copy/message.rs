//! Messages between client and server of a file copy.
//!
//! `Open` → `Opened`, the WRITEs, `Done` → `Hash`, `Commit` → `Stored`; the server may answer any
//! of them with `Refusal`, and the client may send `Abort` instead. Every message begins with
//! [`PROTOCOL`], the version and its kind; fields are big-endian.

use fairway::SegmentKey;

use crate::codec::{MessageError, Reader, Writer};

/// Number of the server's Jetty for these messages.
pub(super) const JETTY: u32 = 1001;
/// Length of the longest message in bytes.
pub(super) const MESSAGE_BYTES: u64 = 8192;
/// Length of the longest name in bytes.
pub(super) const NAME_BYTES: usize = 4096;

const PROTOCOL: [u8; 4] = *b"FwCp";
const VERSION: u8 = 1;

/// A message of client or server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// From the client: requests space for this file.
    Open { size: u64, mode: u32, overwrite: bool, name: Vec<u8> },
    /// From the server: the key of the memory to write to.
    Opened { key: SegmentKey },
    /// From the client: all bytes are written.
    Done,
    /// From the server: the hash of the file's contents.
    Hash([u8; 16]),
    /// From the client: the hash is correct, and the file is to be stored.
    Commit,
    /// From the client: the file is to be dropped.
    Abort,
    /// From the server: the file is on the disk, under its name.
    Stored,
    /// From the server: the request is refused, for this reason.
    Refusal(String),
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let start = |kind| Writer::message(PROTOCOL, VERSION, kind);
        let mut out = match self {
            Message::Open { .. } => start(1),
            Message::Opened { .. } => start(2),
            Message::Done => start(3),
            Message::Hash(_) => start(4),
            Message::Commit => start(5),
            Message::Abort => start(6),
            Message::Stored => start(7),
            Message::Refusal(_) => start(8),
        };
        match self {
            Message::Open { size, mode, overwrite, name } => {
                out.u64(*size);
                out.u32(*mode);
                out.u8(u8::from(*overwrite));
                out.bytes(name);
            }
            Message::Opened { key } => out.bytes(&key.to_bytes()),
            Message::Hash(hash) => out.bytes(hash),
            Message::Refusal(reason) => out.bytes(reason.as_bytes()),
            Message::Done | Message::Commit | Message::Abort | Message::Stored => {}
        }
        out.finish()
    }

    /// Decodes the message in `bytes`, or returns why there is none.
    pub(super) fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
        let (kind, fields) = Reader::message("fairway copy", PROTOCOL, VERSION, bytes)?;
        Self::fields(kind, fields).ok_or(MessageError::Kind(kind))
    }

    fn fields(kind: u8, mut fields: Reader<'_>) -> Option<Message> {
        let message = match kind {
            1 => Message::Open {
                size: fields.u64()?,
                mode: fields.u32()?,
                overwrite: fields.u8()? != 0,
                name: fields.rest().to_vec(),
            },
            2 => Message::Opened { key: SegmentKey::from_bytes(&fields.array()?) },
            3 => Message::Done,
            4 => Message::Hash(fields.array()?),
            5 => Message::Commit,
            6 => Message::Abort,
            7 => Message::Stored,
            8 => Message::Refusal(String::from_utf8_lossy(fields.rest()).into_owned()),
            _ => return None,
        };
        fields.end(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_and_any_bytes_are_a_message_or_an_error() {
        let key = SegmentKey { token_id: 1, token_value: 2, address: 3, length: 4 };
        let messages = [
            Message::Open { size: 1, mode: 0o644, overwrite: true, name: b"a/b".to_vec() },
            Message::Opened { key },
            Message::Done,
            Message::Hash([7; 16]),
            Message::Commit,
            Message::Abort,
            Message::Stored,
            Message::Refusal("no".into()),
        ];
        for message in messages {
            let bytes = message.encode();
            for end in 0..bytes.len() {
                let _ = Message::decode(&bytes[..end]);
            }
            assert_eq!(Message::decode(&bytes), Ok(message));
        }
        assert!(Message::decode(b"FwPf\x01\x03").is_err());
        assert!(
            Message::decode(b"FwCp\x02\x03")
                .is_err_and(|error| error.to_string().contains("version 2"))
        );
        assert!(Message::decode(b"FwCp\x01\x03more").is_err());
        assert!(Message::decode(b"FwCp\x01\x63").is_err());
    }
}
