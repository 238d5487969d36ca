//! Memory with patterns: the bytes that each side expects, and their comparison.
//!
//! A buffer is cut into places. A payload is a function of seed, slot and generation: eight-byte
//! words that depend on seed, slot and offset (the body), except that the first word of every block
//! is a stamp, which also holds the generation. A block is no longer than a packet, so every packet
//! that is not shorter than a block brings at least one stamp: a misplaced packet is detected by
//! its body, an outdated one by its stamp. A new generation only needs new stamps, which costs a
//! small share of moving it.

use fairway::{Context, Error, LocalSlice, Memory, Rights, Segment};

/// Largest block in bytes, which limits the cost of checking one block.
const BLOCK_MAX: u64 = 4096;
/// Alignment of places: a cache line.
const ALIGNMENT: u64 = 64;
/// Smallest payload that can identify itself: one stamp.
pub(crate) const NAMED_BYTES: u64 = 8;

/// Identity of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// Slot of the initiator's memory from which the payload came.
    pub(crate) slot: u32,
    /// Number of earlier uses of that slot.
    pub(crate) generation: u32,
}

/// Layout and seed of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) seed: u64,
    /// Bytes of a payload.
    pub(crate) size: u64,
    /// Bytes from one stamp to the next.
    pub(crate) block: u64,
    /// Whether one byte of slot 0 is deliberately wrong.
    pub(crate) damaged: bool,
}

/// A byte that differs from the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) payload: Payload,
    /// Offset in the payload.
    pub(crate) offset: u64,
    pub(crate) expected: u8,
    pub(crate) found: u8,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mismatch { payload, offset, expected, found } = self;
        write!(
            f,
            "byte {offset} of slot {}, generation {}, is 0x{found:02x} and should be 0x{expected:02x}",
            payload.slot, payload.generation
        )
    }
}

impl Pattern {
    /// The longest block for which every packet of `mtu` payload bytes contains a stamp.
    pub(crate) fn block_for(mtu: u32) -> u64 {
        // A packet at any offset contains a whole stamp if it is seven bytes longer than a block,
        // or aligned to it; the packets of a message are multiples of the MTU.
        let largest = 1 << u64::from(mtu).max(ALIGNMENT).ilog2();
        if largest <= u64::from(mtu) && u64::from(mtu) % largest == 0 {
            return largest.min(BLOCK_MAX);
        }
        if largest + NAMED_BYTES <= u64::from(mtu) { largest.min(BLOCK_MAX) } else { largest / 2 }
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.size.div_ceil(self.block)
    }

    /// The stamp of a block.
    fn stamp(&self, payload: Payload, block: u64) -> u64 {
        let Payload { slot, generation } = payload;
        let plain =
            u64::from(generation) | u64::from(slot & 0x3fff) << 32 | (block & 0x3_ffff) << 46;
        let damage = self.damaged && slot == 0 && self.size <= NAMED_BYTES;
        plain ^ mix(self.seed) ^ u64::from(damage)
    }

    /// The payload that a stamp found in block 0 identifies.
    fn named(&self, stamp: u64) -> Payload {
        let plain = stamp ^ mix(self.seed);
        Payload { slot: (plain >> 32) as u32 & 0x3fff, generation: plain as u32 }
    }

    /// Writes the payload's bytes from `offset` on, which is a multiple of eight.
    fn expect(&self, payload: Payload, offset: u64, out: &mut [u8]) {
        let seed = self.seed ^ (u64::from(payload.slot) + 1) << 40;
        for (index, word) in (offset / 8..).zip(out.chunks_mut(8)) {
            let value = if index * 8 % self.block == 0 {
                self.stamp(payload, index * 8 / self.block)
            } else {
                mix(seed ^ index)
            };
            word.copy_from_slice(&value.to_le_bytes()[..word.len()]);
        }
        let damaged = self.damaged && payload.slot == 0 && offset == 0;
        if let Some(byte) = out.get_mut(NAMED_BYTES as usize).filter(|_| damaged) {
            *byte ^= 1;
        }
    }
}

/// Places in registered memory, each with room for a payload.
pub(crate) struct Slots {
    pub(crate) segment: Segment,
    pub(crate) pattern: Pattern,
    pub(crate) count: u32,
    stride: u64,
}

impl Slots {
    /// Allocates places filled with zeros.
    pub(crate) fn new(
        context: &Context,
        pattern: Pattern,
        count: u32,
        rights: Rights,
    ) -> Result<Self, Error> {
        let stride = Self::stride(pattern.size);
        let memory = Memory::zeroed((stride * u64::from(count)) as usize)?;
        let segment = context.register(memory, rights)?;
        // The memory is touched in advance, so that no page fault occurs during the measurement.
        segment.fill_with(0..segment.len(), |_, piece| piece.fill(0))?;
        Ok(Slots { segment, pattern, count, stride })
    }

    /// Bytes from one place to the next.
    pub(crate) fn stride(size: u64) -> u64 {
        size.next_multiple_of(ALIGNMENT)
    }

    /// Offset of a place in the segment.
    pub(crate) fn offset(&self, place: u32) -> u64 {
        u64::from(place) * self.stride
    }

    /// The bytes of a place, for an operation.
    pub(crate) fn slice(&self, place: u32) -> LocalSlice<'_> {
        let start = self.offset(place);
        self.segment.slice(start..start + self.pattern.size)
    }

    /// Writes a whole payload.
    pub(crate) fn fill(&self, place: u32, payload: Payload) -> Result<(), Error> {
        let start = self.offset(place);
        self.segment.fill_with(start..start + self.pattern.size, |position, piece| {
            self.pattern.expect(payload, position - start, piece);
        })
    }

    /// Writes the stamps of a new generation to a payload that is already there.
    pub(crate) fn stamp(&self, place: u32, payload: Payload) -> Result<(), Error> {
        self.write_stamps(place, |block| self.pattern.stamp(payload, block))
    }

    /// Inverts all stamps, so that only new data can make them correct.
    pub(crate) fn spoil(&self, place: u32, payload: Payload) -> Result<(), Error> {
        self.write_stamps(place, |block| !self.pattern.stamp(payload, block))
    }

    fn write_stamps(&self, place: u32, value: impl Fn(u64) -> u64) -> Result<(), Error> {
        for block in 0..self.pattern.blocks() {
            let offset = block * self.pattern.block;
            let length = (self.pattern.size - offset).min(8) as usize;
            let bytes = value(block).to_le_bytes();
            self.segment.write_at(self.offset(place) + offset, &bytes[..length])?;
        }
        Ok(())
    }

    /// The payload that the stamp at a place identifies.
    pub(crate) fn named(&self, place: u32) -> Result<Payload, Error> {
        let mut stamp = [0; 8];
        self.segment.read_at(self.offset(place), &mut stamp)?;
        Ok(self.pattern.named(u64::from_le_bytes(stamp)))
    }

    /// Compares a whole payload.
    pub(crate) fn check(
        &self,
        place: u32,
        payload: Payload,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let mut at = 0;
        while at < self.pattern.size {
            let length = (self.pattern.size - at).min(BLOCK_MAX);
            self.check_bytes(place, payload, at..at + length, tally)?;
            at += length;
        }
        Ok(())
    }

    /// Compares the block with this number, modulo the number of blocks.
    pub(crate) fn check_block(
        &self,
        place: u32,
        payload: Payload,
        number: u64,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let start = number % self.pattern.blocks() * self.pattern.block;
        let end = (start + self.pattern.block).min(self.pattern.size);
        self.check_bytes(place, payload, start..end, tally)
    }

    /// As [`Slots::check_block`], but without the stamp, which may be changing.
    pub(crate) fn check_body(
        &self,
        place: u32,
        payload: Payload,
        number: u64,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let start = number % self.pattern.blocks() * self.pattern.block;
        let end = (start + self.pattern.block).min(self.pattern.size);
        if start + NAMED_BYTES >= end {
            return Ok(());
        }
        self.check_bytes(place, payload, start + NAMED_BYTES..end, tally)
    }

    /// Compares the stamps. With `at_least`, later generations are accepted, because the initiator
    /// may be ahead.
    pub(crate) fn check_stamps(
        &self,
        place: u32,
        payload: Payload,
        at_least: bool,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        for block in 0..self.pattern.blocks() {
            let offset = block * self.pattern.block;
            let length = (self.pattern.size - offset).min(8);
            let expected = self.pattern.stamp(payload, block);
            let mut found = [0; 8];
            self.segment.read_at(self.offset(place) + offset, &mut found[..length as usize])?;
            let found = u64::from_le_bytes(found);
            // Generations are in the low bits, and wrap; a shorter stamp can't identify later ones.
            let later = (found ^ expected) >> 32 == 0 && {
                let [found, expected] = [found, expected].map(|stamp| self.pattern.named(stamp));
                (found.generation.wrapping_sub(expected.generation) as i32) >= 0
            };
            tally.verified += length;
            if !(at_least && (later || length < 8)) {
                self.check_bytes(place, payload, offset..offset + length, tally)?;
                tally.verified -= length;
            }
        }
        Ok(())
    }

    fn check_bytes(
        &self,
        place: u32,
        payload: Payload,
        range: std::ops::Range<u64>,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        // Small payloads arrive by the million, and clearing a whole block would cost more than
        // comparing them.
        let (mut small, mut large) = ([0; 64], None);
        let length = (range.end - range.start) as usize;
        let scratch: &mut [u8] =
            if length <= small.len() { &mut small } else { large.insert([0; BLOCK_MAX as usize]) };
        let expected = &mut scratch[..length];
        self.pattern.expect(payload, range.start, expected);
        let start = self.offset(place) + range.start;
        tally.verified += length as u64;
        if self.segment.compare(start, expected)? {
            return Ok(());
        }
        let mut found = vec![0; length];
        self.segment.read_at(start, &mut found)?;
        let pairs = expected.iter().zip(&found).enumerate();
        for (at, (&expected, &found)) in pairs.filter(|(_, (expected, found))| expected != found) {
            let offset = range.start + at as u64;
            tally.mismatch(Mismatch { payload, offset, expected, found });
        }
        Ok(())
    }
}

/// Results of the checks so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Number of bytes compared.
    pub(crate) verified: u64,
    /// Number of those bytes that were wrong.
    pub(crate) mismatches: u64,
    /// The first wrong byte.
    pub(crate) first: Option<Mismatch>,
    /// Number of messages that were repeated or out of order.
    pub(crate) misplaced: u64,
}

impl Tally {
    pub(crate) fn mismatch(&mut self, mismatch: Mismatch) {
        self.mismatches += 1;
        self.first = self.first.or(Some(mismatch));
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        self.verified += other.verified;
        self.mismatches += other.mismatches;
        self.first = self.first.or(other.first);
        self.misplaced += other.misplaced;
    }

    /// True if no check failed.
    pub(crate) fn is_clean(&self) -> bool {
        self.mismatches == 0 && self.misplaced == 0
    }
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of `value`.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

mod words;

#[cfg(test)]
mod tests;
