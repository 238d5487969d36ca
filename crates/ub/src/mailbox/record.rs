//! What is kept of mailboxes and of their buffers.

use super::Ticket;
use super::hash_index::Chained;
use crate::api::{LocalRange, MailboxConfig, SegmentId, Steering, Threshold, WhenEmpty};
use crate::list::{Links, ListRecord};
use crate::pool::Index;

/// A mailbox. Its epochs from `kept` up to, not including, `end` have a buffer each:
///
/// ```text
///   kept ..... first ..... open ...... end
///    | done,    | closed,   | takes     | no buffer
///    | retired  | not done  | puts      | yet
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct Mailbox {
    pub(super) address: u64,
    pub(super) threshold: Threshold,
    /// The oldest epoch whose buffer is still known.
    pub(super) kept: u64,
    /// The current epoch: the oldest that isn't done.
    pub(super) first: u64,
    /// The epoch that takes the next put that names none. Never steps back, but by a rewind.
    pub(super) open: u64,
    /// The epoch of the next buffer to be posted.
    pub(super) end: u64,
    /// Room kept in epochs before this one isn't kept any more: they were ended early.
    pub(super) ended: u64,
    pub(super) key: u32,
    pub(super) retired: u32,
    pub(super) chain: Option<Index<Mailbox>>,
    pub(super) generation: u16,
    pub(super) steering: Steering,
    pub(super) when_empty: WhenEmpty,
    pub(super) life: Life,
    pub(super) catch_all: bool,
    /// Rewound, and no buffer posted since.
    pub(super) fenced: bool,
}

/// Does a mailbox take puts?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Yes.
    Open,
    /// No, and their senders are told.
    Refusing,
    /// No, and their senders are not told.
    Discarding,
    /// There is no such mailbox.
    Free,
}

impl Mailbox {
    pub(super) fn new(config: &MailboxConfig, generation: u16) -> Self {
        Mailbox {
            address: config.address.unwrap_or(0),
            threshold: config.threshold,
            kept: 0,
            first: 0,
            open: 0,
            end: 0,
            ended: 0,
            key: config.key,
            retired: config.retired,
            chain: None,
            generation,
            steering: config.steering,
            when_empty: config.when_empty,
            life: Life::Open,
            catch_all: config.address.is_none(),
            fenced: false,
        }
    }

    /// Do its epochs take a number of puts, whatever their bytes? Then the epoch of a put is known
    /// by its number alone.
    pub(super) fn counts_puts(&self) -> bool {
        matches!((self.threshold, self.steering), (Threshold::Operations(_), Steering::Sender))
    }

    /// The epoch that a put or get means by 32 bits of its number, as the one nearest to the
    /// current epoch; `None` if it's before epoch 0.
    pub(super) fn named_epoch(&self, epoch: u32) -> Option<u64> {
        let distance = epoch.wrapping_sub(self.first as u32) as i32;
        self.first.checked_add_signed(i64::from(distance))
    }
}

impl Chained for Mailbox {
    fn chain(&mut self) -> &mut Option<Index<Mailbox>> {
        &mut self.chain
    }
    fn next(&self) -> Option<Index<Mailbox>> {
        self.chain
    }
}

/// A buffer of a mailbox: what one epoch is filled into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    /// The caller's number.
    pub(super) id: u64,
    pub(super) epoch: u64,
    /// First byte, from the start of the segment.
    pub(super) offset: u64,
    /// Bytes of the puts that belong here.
    pub(super) used_bytes: u64,
    /// Puts that belong here.
    pub(super) used_puts: u64,
    /// Bytes that are in place.
    pub(super) placed: u64,
    /// The address that the last put named.
    pub(super) address: u64,
    /// Bytes kept free for puts that are missing.
    pub(super) reserved_bytes: u64,
    /// Puts that are missing and belong here.
    pub(super) reserved_puts: u32,
    pub(super) segment: u32,
    pub(super) length: u32,
    /// Stream mode: where the next put goes.
    pub(super) append: u32,
    /// Puts that belong here and are neither finished nor cancelled.
    pub(super) unfinished: u32,
    pub(super) cancelled: u32,
    /// Tells this use of the record from earlier ones.
    pub(super) serial: u32,
    pub(super) mailbox: Index<Mailbox>,
    pub(super) chain: Option<Index<Buffer>>,
    pub(super) links: Links<Index<Buffer>>,
    pub(super) stage: Stage,
    /// The application ended the epoch before its threshold.
    pub(super) early: bool,
}

/// Where a buffer is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Posted, or being filled.
    Filling,
    /// Its epoch is done, and the application has not been told.
    Done,
    /// The application has been told; it's kept for a rewind.
    Retired,
    /// It is not needed any more; the caller has not been told that its segment is free.
    Released,
}

/// Where in a buffer a put goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// At this byte.
    At(u32),
    /// There is too little left (stream mode).
    NotHere,
    /// It leaves the buffer, however empty that is.
    Never,
}

impl Buffer {
    pub(super) fn new(
        id: u64,
        epoch: u64,
        range: LocalRange,
        mailbox: Index<Mailbox>,
        serial: u32,
    ) -> Self {
        Buffer {
            id,
            epoch,
            offset: range.offset,
            used_bytes: 0,
            used_puts: 0,
            placed: 0,
            address: 0,
            reserved_bytes: 0,
            reserved_puts: 0,
            segment: range.segment.number(),
            length: range.length,
            append: 0,
            unfinished: 0,
            cancelled: 0,
            serial,
            mailbox,
            chain: None,
            links: Links::UNLINKED,
            stage: Stage::Filling,
            early: false,
        }
    }

    pub(super) fn range(&self) -> LocalRange {
        LocalRange {
            segment: SegmentId::new(self.segment),
            offset: self.offset,
            length: self.length,
        }
    }

    /// Would a put still belong here if `bytes` and `puts` more came before it (RVMA §III-B)?
    ///
    /// In stream mode room is never given back, so it's the next free byte that counts, and a
    /// buffer without a free byte is full whatever the threshold says.
    pub(super) fn takes_after(&self, mailbox: &Mailbox, bytes: u32, puts: u32) -> bool {
        match (mailbox.threshold, mailbox.steering) {
            (Threshold::Bytes(threshold), Steering::Sender) => {
                let used = self.used_bytes.saturating_add(self.reserved_bytes);
                used.saturating_add(u64::from(bytes)) < threshold
            }
            (Threshold::Bytes(threshold), Steering::Receiver) => {
                let threshold = threshold.min(u64::from(self.length).max(1));
                u64::from(self.append) + u64::from(bytes) < threshold
            }
            (Threshold::Operations(threshold), steering) => {
                let used = self.used_puts + u64::from(self.reserved_puts);
                let end = u64::from(self.append) + u64::from(bytes);
                let has_room = steering == Steering::Sender || end < u64::from(self.length).max(1);
                used + u64::from(puts) < threshold && has_room
            }
        }
    }

    /// How many more puts belong here, in a mailbox that counts them.
    pub(super) fn puts_left(&self, mailbox: &Mailbox) -> u64 {
        let used = self.used_puts + u64::from(self.reserved_puts);
        match mailbox.threshold {
            Threshold::Operations(threshold) => threshold.saturating_sub(used),
            Threshold::Bytes(_) => 0,
        }
    }

    /// Does it take no more puts, but those that room is kept for?
    pub(super) fn is_full(&self, mailbox: &Mailbox) -> bool {
        !self.takes_after(mailbox, 0, 0)
    }

    /// Where a put of `length` bytes goes that comes after `gap` bytes yet missing.
    pub(super) fn fit(&self, steering: Steering, offset: u64, gap: u32, length: u32) -> Fit {
        match steering {
            Steering::Sender => match offset.checked_add(u64::from(length)) {
                Some(end) if end <= u64::from(self.length) => Fit::At(offset as u32),
                _ => Fit::Never,
            },
            Steering::Receiver if length > self.length => Fit::Never,
            Steering::Receiver => {
                let start = u64::from(self.append) + u64::from(gap);
                match start + u64::from(length) <= u64::from(self.length) {
                    true => Fit::At(start as u32),
                    false => Fit::NotHere,
                }
            }
        }
    }

    /// Counts a put in, and gives what its further packets and its end are reported with.
    pub(super) fn assign(&mut self, index: Index<Buffer>, address: u64, length: u32) -> Ticket {
        self.used_bytes = self.used_bytes.saturating_add(u64::from(length));
        self.used_puts += 1;
        self.unfinished += 1;
        self.address = address;
        Ticket { buffer: Some(index), serial: self.serial }
    }

    /// Gives room back that was kept for puts which are not missing any more.
    pub(super) fn unreserve(&mut self, bytes: u32, puts: u32) {
        debug_assert!(self.reserved_bytes >= u64::from(bytes) && self.reserved_puts >= puts);
        self.reserved_bytes = self.reserved_bytes.saturating_sub(u64::from(bytes));
        self.reserved_puts = self.reserved_puts.saturating_sub(puts);
    }
}

impl Chained for Buffer {
    fn chain(&mut self) -> &mut Option<Index<Buffer>> {
        &mut self.chain
    }
    fn next(&self) -> Option<Index<Buffer>> {
        self.chain
    }
}

impl ListRecord for Buffer {
    fn links(&mut self) -> &mut Links<Index<Buffer>> {
        &mut self.links
    }
}

const _: () = assert!(size_of::<Mailbox>() <= 88);
const _: () = assert!(size_of::<Buffer>() <= 112);
