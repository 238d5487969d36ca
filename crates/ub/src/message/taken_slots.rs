//! The slots at the peer that one message has.

/// One slot at the peer.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Kept after the slot has been released: packets under way and notices still name it.
    number: u8,
    is_taken: bool,
}

impl Slot {
    const NONE: Slot = Slot { number: 0, is_taken: false };

    fn set(&mut self, number: u8) {
        *self = Slot { number, is_taken: true };
    }

    fn release(&mut self) -> Option<u8> {
        core::mem::take(&mut self.is_taken).then_some(self.number)
    }
}

/// The slots at the peer that a message has, and the numbers of those that it had.
/// [`crate::channel`] assigns and releases them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenSlots {
    /// The message slot of an operation of several packets, or the read slot of a READ, GET or
    /// atomic.
    main: Slot,
    /// The read slot in which the response to another operation is awaited.
    request: Slot,
}

impl TakenSlots {
    pub(super) const NONE: TakenSlots = TakenSlots { main: Slot::NONE, request: Slot::NONE };

    /// The slots of an answer, which takes none: it names the slot of the peer's operation.
    pub(super) fn of_answer(slot: u8) -> TakenSlots {
        TakenSlots { main: Slot { number: slot, is_taken: false }, ..TakenSlots::NONE }
    }

    /// The slot that data packets name.
    #[inline]
    pub(crate) fn number(&self) -> u8 {
        self.main.number
    }

    /// The read slot that data packets name for the response.
    #[inline]
    pub(crate) fn request_number(&self) -> u8 {
        self.request.number
    }

    /// True if the message has the slot that its data packets name.
    #[inline]
    pub(crate) fn has_slot(&self) -> bool {
        self.main.is_taken
    }

    /// True if the message has a read slot for the response.
    #[inline]
    pub(crate) fn has_request(&self) -> bool {
        self.request.is_taken
    }

    /// True if the message has any slot.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.main.is_taken || self.request.is_taken
    }

    /// Takes the slot that data packets are to name.
    #[inline]
    pub(crate) fn take(&mut self, slot: u8) {
        self.main.set(slot);
    }

    /// Takes a read slot for the response.
    pub(crate) fn take_request(&mut self, slot: u8) {
        self.request.set(slot);
    }

    /// Releases the slot that data packets name, if the message has it.
    #[inline]
    pub(crate) fn release(&mut self) -> Option<u8> {
        self.main.release()
    }

    /// Releases the read slot for the response, if the message has one.
    #[inline]
    pub(crate) fn release_request(&mut self) -> Option<u8> {
        self.request.release()
    }
}
