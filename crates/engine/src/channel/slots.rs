//! Numbers 0..n (n ≤ 256), each free or taken.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    free: [u64; 4],
}

impl Slots {
    pub(crate) fn new(count: u32) -> Self {
        let mut free = [0; 4];
        for slot in 0..count.min(256) {
            free[(slot / 64) as usize] |= 1 << (slot % 64);
        }
        Slots { free }
    }

    pub(crate) fn take(&mut self) -> Option<u8> {
        let word = self.free.iter().position(|&word| word != 0)?;
        let bit = self.free[word].trailing_zeros();
        self.free[word] &= self.free[word] - 1;
        Some((word as u32 * 64 + bit) as u8)
    }

    /// How many are free.
    pub(crate) fn free(&self) -> u32 {
        self.free.iter().map(|word| word.count_ones()).sum()
    }

    pub(crate) fn give_back(&mut self, slot: u8) {
        let bit = 1 << (slot % 64);
        assert!(self.free[usize::from(slot / 64)] & bit == 0, "slot {slot} given back twice");
        self.free[usize::from(slot / 64)] |= bit;
    }
}
