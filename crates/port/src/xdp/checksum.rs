//! The checksum of Internet protocols (RFC 1071).

/// A sum of 16-bit words, in any byte order as long as all are in the same.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum(u64);

impl Sum {
    /// Adds bytes. All calls but the last add an even number of them.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<4>();
        // Each addition is below 2^32, so a frame's sum stays far below 2^64. Compilers use vectors
        // for this loop.
        let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        self.0 += sum + u64::from(u32::from_ne_bytes(last));
    }

    /// The sum folded to 16 bits, as bytes of the network.
    pub(super) fn folded(self) -> [u8; 2] {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        (sum as u16).to_ne_bytes()
    }

    /// The checksum field that makes the sum of everything all ones.
    pub(super) fn checksum(self) -> [u8; 2] {
        self.folded().map(|byte| !byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_of_words_is_that_of_the_definition() {
        let bytes: Vec<u8> = (0..255_u32).map(|at| (at * 7 + 3) as u8).collect();
        for length in 0..bytes.len() {
            let mut expected = 0_u32;
            for pair in bytes[..length].chunks(2) {
                expected += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
                expected = (expected & 0xffff) + (expected >> 16);
            }
            let mut sum = Sum::default();
            sum.add(&bytes[..(length / 2) & !1]);
            sum.add(&bytes[(length / 2) & !1..length]);
            assert_eq!(u16::from_be_bytes(sum.folded()), expected as u16, "{length} bytes");
        }
    }
}
