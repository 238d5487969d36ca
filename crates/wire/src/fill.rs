//! Filled datagrams: bytes behind a packet that make it as long as another one.

/// Shortest datagram of a packet that may be filled, in bytes: all headers are at least this long.
const SHORTEST: usize = 32;

/// The last bytes of the fill behind a packet of `length` bytes, headers included.
///
/// # Panics
/// If no datagram of UDP is that long.
pub fn fill_end(length: usize) -> [u8; 2] {
    u16::try_from(length).expect("a datagram is shorter than 64 KiB").to_be_bytes()
}

/// The length of the packet in a filled datagram, if `datagram` may be one. The packet's header
/// check shows whether it is.
pub(crate) fn unfilled_len(datagram: &[u8]) -> Option<usize> {
    let (packet, end) = datagram.split_last_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*end));
    (SHORTEST..=packet.len()).contains(&length).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn a_filled_datagram_tells_the_length_of_its_packet() {
        for (length, whole) in [(32, 34), (32, 35), (8170, 8256), (40, 65_507)] {
            let mut datagram = vec![0; whole];
            datagram[whole - 2..].copy_from_slice(&fill_end(length));
            assert_eq!(unfilled_len(&datagram), Some(length));
        }
    }

    #[test]
    fn a_length_that_no_packet_has_is_none() {
        for (length, whole) in [(31, 100), (0, 100), (99, 100), (100, 100), (65_535, 100)] {
            let mut datagram = vec![0; whole];
            datagram[whole - 2..].copy_from_slice(&fill_end(length));
            assert_eq!(unfilled_len(&datagram), None, "{length} of {whole}");
        }
        assert_eq!(unfilled_len(&[]), None);
        assert_eq!(unfilled_len(&[1]), None);
    }
}
