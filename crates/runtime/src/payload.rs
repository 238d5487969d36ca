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
    /// Memory is gone: that of `room`, or that of the payload.
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
                assert!(at <= bytes.len(), "byte {at} of a payload of {}", bytes.len());
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

    /// Miri is slow.
    const ROOM: usize = if cfg!(miri) { 64 } else { 4096 };
    const SHIFTS: usize = if cfg!(miri) { 3 } else { 9 };

    /// Places a payload in two parts, and checks that nothing else was written.
    fn check(payload: Payload<'_>, expected: &[u8], to: &Memory, place: usize) {
        let length = expected.len();
        assert_eq!((payload.len(), payload.is_empty()), (length, length == 0));
        to.bytes(0, ROOM).write(&[0xEE; ROOM]).unwrap();
        let (first, second) = payload.split_at(length / 3);
        first.place(to.bytes(place, length / 3)).unwrap();
        second.place(to.bytes(place + length / 3, length - length / 3)).unwrap();
        let mut found = [0; ROOM];
        to.bytes(0, ROOM).read(&mut found).unwrap();
        assert_eq!(&found[place..place + length], expected, "{length} bytes at {place}");
        assert!(found[..place].iter().chain(&found[place + length..]).all(|byte| *byte == 0xEE));
    }

    #[test]
    fn payloads_are_placed_whole_wherever_they_are() {
        let (from, to) = (Memory::zeroed(ROOM).unwrap(), Memory::zeroed(ROOM).unwrap());
        let bytes: Vec<u8> = (0..ROOM).map(|index| (index * 11 / 7) as u8).collect();
        from.bytes(0, ROOM).write(&bytes).unwrap();
        let lengths = (0..40).chain([63, 64, 65, 1000, 2048, 3000]);
        for length in lengths.filter(|length| length + SHIFTS <= ROOM) {
            for (at, place) in (0..SHIFTS).flat_map(|at| (0..SHIFTS).map(move |to| (at, to))) {
                let expected = &bytes[at..at + length];
                check(Payload::Here(expected), expected, &to, place);
                let outside = Payload::Outside(from.bytes(at, length));
                assert!(outside.here().is_none());
                check(outside, expected, &to, place);
            }
        }
    }
}
