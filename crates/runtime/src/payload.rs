//! Payloads that have arrived.

use crate::memory::{Gone, SharedBytes};

/// A payload that has arrived.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// It is in the receive buffer.
    Here(&'a [u8]),
    /// It is in memory that another process may change, and is copied straight to its place.
    Outside(SharedBytes<'a>),
}

impl<'a> Payload<'a> {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Payload::Here(bytes) => bytes.len(),
            Payload::Outside(bytes) => bytes.len(),
        }
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they are in the receive buffer.
    pub fn here(&self) -> Option<&'a [u8]> {
        match self {
            Payload::Here(bytes) => Some(bytes),
            Payload::Outside(_) => None,
        }
    }

    /// Copies the payload to `room`, which must have the same length.
    ///
    /// # Errors
    /// Memory is gone: that of `room`, or, because of another process, that of the payload.
    pub fn place(self, room: SharedBytes<'_>) -> Result<(), Gone> {
        match self {
            Payload::Here(bytes) => room.write(bytes),
            Payload::Outside(bytes) => room.write_from(bytes),
        }
    }

    /// Divides the payload at byte `at`.
    ///
    /// # Panics
    /// It has fewer bytes.
    pub(crate) fn split_at(self, at: usize) -> (Payload<'a>, Payload<'a>) {
        match self {
            Payload::Here(bytes) => {
                let (first, second) = bytes.split_at(at);
                (Payload::Here(first), Payload::Here(second))
            }
            Payload::Outside(bytes) => {
                let second = bytes.part(at, bytes.len() - at);
                (Payload::Outside(bytes.part(0, at)), Payload::Outside(second))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn payloads_are_placed_whole_wherever_they_are() {
        let (from, to) = (Memory::zeroed(4096).unwrap(), Memory::zeroed(4096).unwrap());
        let bytes: Vec<u8> = (0..4096_u32).map(|index| (index * 11 / 7) as u8).collect();
        from.bytes(0, 4096).write(&bytes).unwrap();
        let lengths = (0..40).chain([63, 64, 65, 1000, 2048, 3000]);
        for (length, at, place) in lengths.flat_map(|length| {
            (0..9).flat_map(move |at| (0..9).map(move |place| (length, at, place)))
        }) {
            let expected = &bytes[at..at + length];
            let payloads = [Payload::Here(expected), Payload::Outside(from.bytes(at, length))];
            for (index, payload) in payloads.into_iter().enumerate() {
                assert_eq!((payload.len(), payload.is_empty()), (length, length == 0));
                assert_eq!(payload.here().is_some(), index == 0);
                to.bytes(0, 4096).write(&[0xEE; 4096]).unwrap();
                let (first, second) = payload.split_at(length / 3);
                first.place(to.bytes(place, length / 3)).unwrap();
                second.place(to.bytes(place + length / 3, length - length / 3)).unwrap();
                let mut found = [0; 4096];
                to.bytes(0, 4096).read(&mut found).unwrap();
                assert_eq!(&found[place..place + length], expected, "{length} {at} {place}");
                assert!(
                    found[..place].iter().chain(&found[place + length..]).all(|it| *it == 0xEE)
                );
            }
        }
    }
}
