//! Conversion of numbers to and from bytes, for the tool's own messages.

use thiserror::Error;

/// Reasons why bytes are not a message of one of the tool's protocols.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The bytes do not begin with the protocol's name.
    #[error("the other side does not speak {0}: check the address and the port")]
    Protocol(&'static str),
    /// The other side implements another version.
    #[error(
        "the other side speaks version {theirs} of {protocol} and this side {ours}: run the same \
         release on both"
    )]
    Version {
        /// The command whose protocol it is.
        protocol: &'static str,
        /// The version in the message.
        theirs: u8,
        /// The version of this side.
        ours: u8,
    },
    /// The kind is unknown, or the fields do not belong to it.
    #[error("a message of kind {0} makes no sense: run the same release on both sides")]
    Kind(u8),
}

/// Appends big-endian fields.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Begins a message of one of the tool's protocols: the protocol's name, its version, and the
    /// kind of message.
    pub(crate) fn message(protocol: [u8; 4], version: u8, kind: u8) -> Self {
        let mut writer = Writer(protocol.to_vec());
        writer.u8(version);
        writer.u8(kind);
        writer
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads big-endian fields from the front; `None` when no bytes are left.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The kind and the fields of a message in this version of the protocol of a command, `name`.
    pub(crate) fn message(
        name: &'static str,
        protocol: [u8; 4],
        ours: u8,
        bytes: &'a [u8],
    ) -> Result<(u8, Self), MessageError> {
        let begin = || {
            let mut reader = Reader(bytes.strip_prefix(&protocol)?);
            Some((reader.u8()?, reader.u8()?, reader))
        };
        let (theirs, kind, fields) = begin().ok_or(MessageError::Protocol(name))?;
        if theirs != ours {
            return Err(MessageError::Version { protocol: name, theirs, ours });
        }
        Ok((kind, fields))
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    /// Returns the remaining bytes.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Returns `value` if no bytes are left.
    pub(crate) fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}
