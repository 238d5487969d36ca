//! Slots at the peer: numbers 0..n (n ≤ 256), each free or taken by a local message; and the
//! messages that wait for one.

use crate::list::List;
use crate::message::{Message, MessagePlace};
use crate::order::Initiator;
use crate::pool::{Index, Pool};
use alloc::boxed::Box;
use fairway_wire::{Msn, ServiceMode};

/// The slots that a channel's messages need at the peer, and the messages that wait for them.
#[derive(Debug)]
pub(super) struct MessageSlots {
    /// Slots of local messages of several packets.
    of_messages: SlotTable,
    /// Slots of local messages that await an answer.
    of_reads: SlotTable,
    /// By slot of a message of several packets: the number of the last message that had it. The
    /// peer may still have a record of that message.
    numbers: Box<[Option<Msn>]>,
    awaiting_message_slot: List<Index<Message>>,
    awaiting_read_slot: List<Index<Message>>,
}

impl MessageSlots {
    pub(super) fn new(messages: u32, reads: u32) -> MessageSlots {
        MessageSlots {
            of_messages: SlotTable::new(messages),
            of_reads: SlotTable::new(reads),
            numbers: alloc::vec![None; messages as usize].into_boxed_slice(),
            awaiting_message_slot: List::default(),
            awaiting_read_slot: List::default(),
        }
    }

    /// Number of read slots, free or not.
    #[inline]
    pub(super) fn reads(&self) -> u32 {
        self.of_reads.count()
    }

    /// Read slots reserved for messages that wait for nothing at the target, however many Jetties
    /// have their share.
    fn kept_for_first(&self) -> u32 {
        (self.of_reads.count() / 4).max(1)
    }

    /// The message that has a read slot. The peer names the slot, so it may not exist.
    pub(super) fn read_slot_owner(&self, slot: u8) -> Option<Index<Message>> {
        self.of_reads.owner(slot)
    }

    /// The messages of several packets that have a slot.
    pub(super) fn messages(&self) -> impl Iterator<Item = Index<Message>> + '_ {
        self.of_messages.owners()
    }

    /// Notes the number of a message that has a slot for several packets. False if the last message
    /// with the slot had the same number: the peer would take one for the other.
    pub(super) fn note_number(&mut self, slot: u8, number: Msn) -> bool {
        self.numbers[usize::from(slot)].replace(number) != Some(number)
    }

    /// Takes the slots that a message needs; false if one is not available. The last read slots are
    /// reserved for messages that wait for nothing at the target (`first`): a message held there
    /// keeps its slot until the operations that it follows have been executed, and those may also
    /// need slots.
    pub(super) fn acquire(
        &mut self,
        message: &mut Message,
        index: Index<Message>,
        first: bool,
    ) -> bool {
        if message.is_answer() || message.order.mode() == ServiceMode::Uno {
            return true;
        }
        let needs_read_slot = needs_read_slot(message);
        if needs_read_slot && !first && self.of_reads.free() <= self.kept_for_first() {
            return false;
        }
        if message.awaits_answer() && !message.is_fetch() && !message.slots.has_request() {
            let Some(slot) = self.of_reads.take(index) else { return false };
            message.slots.take_request(slot);
        }
        if message.slots.has_slot() {
            return true;
        }
        let slots = if message.is_fetch() {
            &mut self.of_reads
        } else if message.progress.is_multi() {
            &mut self.of_messages
        } else {
            return true;
        };
        let Some(slot) = slots.take(index) else { return false };
        message.slots.take(slot);
        true
    }

    /// Queues a message that did not get a slot.
    pub(super) fn wait(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        let message = &mut messages[index];
        if needs_read_slot(message) {
            message.place = MessagePlace::AwaitingReadSlot;
            self.awaiting_read_slot.push_back(messages, index);
        } else {
            message.place = MessagePlace::AwaitingSlot;
            self.awaiting_message_slot.push_back(messages, index);
        }
    }

    /// Removes a message from those that wait for a slot; false if it did not wait.
    pub(super) fn withdraw(&mut self, messages: &mut Pool<Message>, index: Index<Message>) -> bool {
        let list = match messages[index].place {
            MessagePlace::AwaitingSlot => &mut self.awaiting_message_slot,
            MessagePlace::AwaitingReadSlot => &mut self.awaiting_read_slot,
            _ => return false,
        };
        list.unlink(messages, index);
        true
    }

    /// Passes the slot of a message of several packets on to the message that has waited longest
    /// for one, which is returned and has to be queued for sending again.
    pub(super) fn pass(
        &mut self,
        messages: &mut Pool<Message>,
        slot: u8,
    ) -> Option<Index<Message>> {
        let next = self.awaiting_message_slot.pop_front(messages);
        match next {
            None => self.of_messages.release(slot),
            Some(next) => {
                self.of_messages.pass(slot, next);
                messages[next].slots.take(slot);
            }
        }
        next
    }

    /// Passes a read slot on to the message that has waited longest for one and may have it, which
    /// is returned and has to be queued for sending again.
    pub(super) fn pass_read(
        &mut self,
        messages: &mut Pool<Message>,
        initiator: &Initiator,
        slot: u8,
    ) -> Option<Index<Message>> {
        let is_kept = self.of_reads.free() < self.kept_for_first();
        let mut waiting = self.awaiting_read_slot.head();
        while let Some(at) = waiting
            && is_kept
            && !initiator.is_first_in_order(messages, at)
        {
            waiting = messages[at].links.next();
        }
        match waiting {
            None => self.of_reads.release(slot),
            Some(at) => self.grant_read(messages, at, slot),
        }
        waiting
    }

    /// Gives a message that waits for a read slot one, if one is free; true if it did.
    pub(super) fn grant_slot(
        &mut self,
        messages: &mut Pool<Message>,
        index: Index<Message>,
    ) -> bool {
        if messages[index].place == MessagePlace::AwaitingReadSlot
            && let Some(slot) = self.of_reads.take(index)
        {
            self.grant_read(messages, index, slot);
            return true;
        }
        false
    }

    /// Gives a read slot to a message that waits for it.
    fn grant_read(&mut self, messages: &mut Pool<Message>, index: Index<Message>, slot: u8) {
        self.awaiting_read_slot.unlink(messages, index);
        self.of_reads.pass(slot, index);
        let message = &mut messages[index];
        if message.is_fetch() {
            message.slots.take(slot);
        } else {
            message.slots.take_request(slot);
        }
    }

    /// True if no message has a slot or waits for one.
    pub(super) fn are_free(&self) -> bool {
        self.of_messages.free() == self.of_messages.count()
            && self.of_reads.free() == self.of_reads.count()
            && self.awaiting_message_slot.is_empty()
            && self.awaiting_read_slot.is_empty()
    }

    /// Empties the lists of waiting messages when the channel ends. Slots are released with the
    /// messages that have them.
    pub(super) fn flush(&mut self) {
        self.awaiting_message_slot = List::default();
        self.awaiting_read_slot = List::default();
    }
}

/// True if a message lacks a read slot.
fn needs_read_slot(message: &Message) -> bool {
    message.awaits_answer() && !message.slots.has_any()
}

/// The slots of one kind, and the message that has each.
#[derive(Debug)]
struct SlotTable {
    free: Slots,
    /// By slot: the message that has it, unless it is free.
    owners: Box<[Option<Index<Message>>]>,
}

impl SlotTable {
    fn new(count: u32) -> SlotTable {
        let owners = alloc::vec![None; count as usize].into_boxed_slice();
        SlotTable { free: Slots::new(count), owners }
    }

    /// Number of slots.
    fn count(&self) -> u32 {
        self.owners.len() as u32
    }

    /// Number of free slots.
    fn free(&self) -> u32 {
        self.free.free()
    }

    /// Gives a message a slot, if one is free.
    fn take(&mut self, message: Index<Message>) -> Option<u8> {
        let slot = self.free.take()?;
        self.pass(slot, message);
        Some(slot)
    }

    /// Passes a taken slot on to another message.
    fn pass(&mut self, slot: u8, message: Index<Message>) {
        self.owners[usize::from(slot)] = Some(message);
    }

    fn release(&mut self, slot: u8) {
        self.owners[usize::from(slot)] = None;
        self.free.release(slot);
    }

    /// The message that has a slot. The peer names the slot, so it may not exist.
    fn owner(&self, slot: u8) -> Option<Index<Message>> {
        self.owners.get(usize::from(slot)).copied().flatten()
    }

    /// The messages that have a slot.
    fn owners(&self) -> impl Iterator<Item = Index<Message>> + '_ {
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

    fn release(&mut self, slot: u8) {
        let bit = 1 << (slot % 64);
        assert!(self.free[usize::from(slot / 64)] & bit == 0, "slot {slot} given back twice");
        self.free[usize::from(slot / 64)] |= bit;
    }
}
