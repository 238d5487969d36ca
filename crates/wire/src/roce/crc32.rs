//! The CRC-32 of Ethernet (IEEE 802.3): reflected, polynomial 0x04C11DB7.
//!
//! Sixteen tables of 256 words process sixteen bytes at a time with look-ups that do not depend on
//! one another ("slicing", Kounavis and Berry 2005). The compiler computes the tables.

const POLYNOMIAL: u32 = 0xedb8_8320;
const SLICES: usize = 16;

/// `TABLES[k][b]`: the contribution of byte `b` when `k` more bytes follow it.
static TABLES: [[u32; 256]; SLICES] = tables();

const fn tables() -> [[u32; 256]; SLICES] {
    let mut tables = [[0; 256]; SLICES];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            remainder = remainder >> 1 ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut slice = 1;
    while slice < SLICES {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[slice - 1][byte];
            tables[slice][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        slice += 1;
    }
    tables
}

/// A CRC-32 that is being computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32(u32);

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

impl Crc32 {
    /// The CRC-32 of no bytes.
    pub const fn new() -> Crc32 {
        Crc32(u32::MAX)
    }

    /// Continues behind bytes whose CRC-32 is `value`.
    pub const fn from_value(value: u32) -> Crc32 {
        Crc32(!value)
    }

    /// Adds more bytes. How they are divided among calls makes no difference.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut state = self.0;
        let (blocks, rest) = bytes.as_chunks::<SLICES>();
        for block in blocks {
            let mut block = *block;
            for (byte, old) in block.iter_mut().zip(state.to_le_bytes()) {
                *byte ^= old;
            }
            let mut sum = 0;
            for (byte, table) in block.iter().zip(TABLES.iter().rev()) {
                sum ^= table[usize::from(*byte)];
            }
            state = sum;
        }
        for byte in rest {
            state = state >> 8 ^ TABLES[0][usize::from(state as u8 ^ byte)];
        }
        self.0 = state;
    }

    /// The CRC-32 of all bytes so far.
    pub const fn value(self) -> u32 {
        !self.0
    }
}

/// Returns the value that must be exclusive-ored into the four bytes that lie `distance` bytes
/// before the end (counted from the first of them), the first byte in the lowest bits, to change a
/// CRC by `difference`.
///
/// A CRC is linear: the contribution of those bytes is multiplied by x^8 for every byte behind
/// them.
pub(super) fn injected(difference: u32, distance: usize) -> u32 {
    let mut result = difference;
    for (power, inverse) in INVERSES.iter().enumerate() {
        if distance >> power & 1 == 1 {
            result = multiplied(result, *inverse);
        }
    }
    result
}

/// `INVERSES[k]`: x to the power of −8·2^k.
static INVERSES: [u32; 17] = inverses();

const fn inverses() -> [u32; 17] {
    // x^−1: the polynomial without its last term, divided by x. In a reflected word, bit 31 is 1.
    let x = POLYNOMIAL << 1 | 1;
    let mut power = x;
    let mut doubling = 0;
    while doubling < 3 {
        power = multiplied(power, power);
        doubling += 1;
    }
    let mut inverses = [0; 17];
    let mut k = 0;
    while k < inverses.len() {
        inverses[k] = power;
        power = multiplied(power, power);
        k += 1;
    }
    inverses
}

/// The product of two polynomials modulo the CRC's polynomial; all are reflected.
const fn multiplied(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        if a >> bit & 1 == 1 {
            product ^= b;
        }
        b = b >> 1 ^ if b & 1 == 1 { POLYNOMIAL } else { 0 };
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The CRC-32 computed one bit at a time, from the definition.
    fn by_definition(bytes: &[u8]) -> u32 {
        let mut state = u32::MAX;
        for byte in bytes {
            state ^= u32::from(*byte);
            for _ in 0..8 {
                state = state >> 1 ^ if state & 1 == 1 { POLYNOMIAL } else { 0 };
            }
        }
        !state
    }

    fn crc(bytes: &[u8]) -> u32 {
        let mut crc = Crc32::new();
        crc.update(bytes);
        crc.value()
    }

    #[test]
    fn the_published_check_value_comes_out() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc(b""), 0);
    }

    proptest! {
        #[test]
        fn slices_agree_with_the_definition(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0usize..200,
        ) {
            let (a, b) = bytes.split_at(cut.min(bytes.len()));
            let mut crc = Crc32::new();
            crc.update(a);
            crc.update(b);
            prop_assert_eq!(crc.value(), by_definition(&bytes));
        }

        #[test]
        fn a_change_is_found_by_what_it_does(
            bytes in proptest::collection::vec(any::<u8>(), 4..5000),
            at in any::<proptest::sample::Index>(),
            change in any::<u32>(),
        ) {
            let at = at.index(bytes.len() - 3);
            let mut changed = bytes.clone();
            for (byte, other) in changed[at..].iter_mut().zip(change.to_le_bytes()) {
                *byte ^= other;
            }
            let difference = crc(&bytes) ^ crc(&changed);
            prop_assert_eq!(injected(difference, bytes.len() - at), change);
        }
    }
}
