//! Conversion of numbers to and from bytes, for the tool's own messages.

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
    /// The version, the kind and the fields of a message of this protocol.
    pub(crate) fn message(protocol: [u8; 4], bytes: &'a [u8]) -> Option<(u8, u8, Self)> {
        let mut reader = Reader(bytes.strip_prefix(&protocol)?);
        Some((reader.u8()?, reader.u8()?, reader))
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
