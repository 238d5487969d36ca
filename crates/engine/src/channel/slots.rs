//! Slots at the peer: numbers 0..n (n ≤ 256), each free or with the message of ours that has it.

use crate::message::Message;
use crate::pool::Index;
use alloc::boxed::Box;

/// The slots of one kind, and which message has each.
#[derive(Debug)]
pub(crate) struct SlotTable {
    free: Slots,
    /// By slot: the message that has it, unless it is free.
    owners: Box<[Option<Index<Message>>]>,
}

impl SlotTable {
    pub(crate) fn new(count: u32) -> SlotTable {
        let owners = alloc::vec![None; count as usize].into_boxed_slice();
        SlotTable { free: Slots::new(count), owners }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.owners.len() as u32
    }

    /// How many are free.
    pub(crate) fn free(&self) -> u32 {
        self.free.free()
    }

    /// Gives a message a slot, if one is free.
    pub(crate) fn take(&mut self, message: Index<Message>) -> Option<u8> {
        let slot = self.free.take()?;
        self.pass(slot, message);
        Some(slot)
    }

    /// Passes a slot that is taken on to another message.
    pub(crate) fn pass(&mut self, slot: u8, message: Index<Message>) {
        self.owners[usize::from(slot)] = Some(message);
    }

    pub(crate) fn give_back(&mut self, slot: u8) {
        self.owners[usize::from(slot)] = None;
        self.free.give_back(slot);
    }

    /// The message that has a slot. The peer names the slot, so there may be no such slot.
    pub(crate) fn owner(&self, slot: u8) -> Option<Index<Message>> {
        self.owners.get(usize::from(slot)).copied().flatten()
    }

    /// The messages that have a slot.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Index<Message>> + '_ {
        self.owners.iter().copied().flatten()
    }
}

#[derive(Clone, Copy, Debug)]
struct Slots {
    free: [u64; 4],
}

impl Slots {
    fn new(count: u32) -> Self {
        let mut free = [0; 4];
        for slot in 0..count.min(256) {
            free[(slot / 64) as usize] |= 1 << (slot % 64);
        }
        Slots { free }
    }

    fn take(&mut self) -> Option<u8> {
        let word = self.free.iter().position(|&word| word != 0)?;
        let bit = self.free[word].trailing_zeros();
        self.free[word] &= self.free[word] - 1;
        Some((word as u32 * 64 + bit) as u8)
    }

    fn free(&self) -> u32 {
        self.free.iter().map(|word| word.count_ones()).sum()
    }

    fn give_back(&mut self, slot: u8) {
        let bit = 1 << (slot % 64);
        assert!(self.free[usize::from(slot / 64)] & bit == 0, "slot {slot} given back twice");
        self.free[usize::from(slot / 64)] |= bit;
    }
}
