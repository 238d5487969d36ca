//! An input read as a script: a sequence of small numbers.

/// Takes numbers from the front of an input. After its end all numbers are 0.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    /// Makes a script of these bytes.
    pub fn new(bytes: &'a [u8]) -> Script<'a> {
        Script { rest: bytes }
    }

    /// True if nothing is left.
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes the next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// Takes a number below `end`, which is at most 256.
    pub fn below(&mut self, end: u32) -> u32 {
        u32::from(self.byte()) % end
    }

    /// Takes one of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// Takes a Boolean value.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// Takes a number of 32 bits; most scripts contain small ones and those near the end of the
    /// range.
    pub fn number(&mut self) -> u32 {
        match self.byte() {
            small @ 0..=127 => u32::from(small),
            large @ 128..=191 => u32::MAX - u32::from(large - 128),
            192..=223 => u32::from(self.byte()) << 8 | u32::from(self.byte()),
            _ => u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }

    /// Takes a number of 64 bits, likewise.
    pub fn long(&mut self) -> u64 {
        let low = self.number();
        if low & 3 == 3 { u64::from(self.number()) << 32 | u64::from(low) } else { low.into() }
    }
}
