//! Records of mailboxes and of their buffers.

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
    /// The oldest epoch whose buffer is still kept.
    pub(super) kept: u64,
    /// The current epoch: the oldest that isn't done.
    pub(super) first: u64,
    /// The epoch that takes the next put that names none. Decreases only by a rewind.
    pub(super) open: u64,
    /// The epoch of the next buffer to be posted.
    pub(super) end: u64,
    /// Room in epochs before this one isn't kept any more, because they were ended early.
    pub(super) ended: u64,
    pub(super) key: u32,
    pub(super) retired: u32,
    pub(super) chain: Option<Index<Mailbox>>,
    pub(super) generation: u16,
    pub(super) steering: Steering,
    pub(super) when_empty: WhenEmpty,
    pub(super) life: Life,
    pub(super) catch_all: bool,
    /// True if the mailbox was rewound, and no buffer has been posted since.
    pub(super) fenced: bool,
}

/// Whether a mailbox takes puts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// The mailbox takes puts.
    Open,
    /// Puts are refused, and their senders are notified.
    Refusing,
    /// Puts are discarded, and their senders are not notified.
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

    /// True if the mailbox's epochs take a number of puts, whatever their bytes. Then the epoch of
    /// a put is known by its number alone.
    pub(super) fn counts_puts(&self) -> bool {
        matches!((self.threshold, self.steering), (Threshold::Operations(_), Steering::Sender))
    }

    /// The epoch that a put or get names by the lower 32 bits of its number: the one nearest to the
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

/// A buffer of a mailbox, which is filled during one epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    /// The caller's number for the buffer.
    pub(super) id: u64,
    pub(super) epoch: u64,
    /// First byte, from the start of the segment.
    pub(super) offset: u64,
    /// Bytes of the puts that belong to this buffer.
    pub(super) used_bytes: u64,
    /// Number of puts that belong to this buffer.
    pub(super) used_puts: u64,
    /// Bytes that have been placed.
    pub(super) placed: u64,
    /// The address that the last put named.
    pub(super) address: u64,
    /// Bytes kept free for puts that are missing.
    pub(super) reserved_bytes: u64,
    /// Number of missing puts for which room is kept here.
    pub(super) reserved_puts: u32,
    pub(super) segment: u32,
    pub(super) length: u32,
    /// Stream mode: offset of the next put.
    pub(super) append: u32,
    /// Puts that belong to this buffer and are neither finished nor cancelled.
    pub(super) unfinished: u32,
    pub(super) cancelled: u32,
    /// Distinguishes this use of the record from earlier ones.
    pub(super) serial: u32,
    pub(super) mailbox: Index<Mailbox>,
    pub(super) chain: Option<Index<Buffer>>,
    pub(super) links: Links<Index<Buffer>>,
    pub(super) stage: Stage,
    /// True if the application ended the epoch before its threshold.
    pub(super) early: bool,
}

/// Stages of a buffer's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The buffer is posted, or being filled.
    Filling,
    /// The buffer's epoch is done, and has not been reported to the application.
    Done,
    /// The epoch has been reported to the application; the buffer is kept for a rewind.
    Retired,
    /// The buffer is not needed any more; the caller has not dropped its reference to the segment.
    Released,
}

/// Where in a buffer a put goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The put fits, at this offset.
    At(u32),
    /// There is too little room left (stream mode).
    NotHere,
    /// The put does not fit the buffer, even if that is empty.
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

    /// True if a put would still belong here after `bytes` and `puts` more before it (RVMA §III-B).
    ///
    /// In stream mode room is never freed, so the next free byte decides, and a buffer without a
    /// free byte is full whatever the threshold says.
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

    /// Number of further puts that belong here, in a mailbox that counts them.
    pub(super) fn puts_left(&self, mailbox: &Mailbox) -> u64 {
        let used = self.used_puts + u64::from(self.reserved_puts);
        match mailbox.threshold {
            Threshold::Operations(threshold) => threshold.saturating_sub(used),
            Threshold::Bytes(_) => 0,
        }
    }

    /// True if the buffer takes no more puts except those for which room is kept.
    pub(super) fn is_full(&self, mailbox: &Mailbox) -> bool {
        !self.takes_after(mailbox, 0, 0)
    }

    /// The place of a put of `length` bytes that comes after `gap` bytes yet missing.
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

    /// Counts a put as belonging here, and returns the ticket for its further packets and its end.
    pub(super) fn assign(&mut self, index: Index<Buffer>, address: u64, length: u32) -> Ticket {
        self.used_bytes = self.used_bytes.saturating_add(u64::from(length));
        self.used_puts += 1;
        self.unfinished += 1;
        self.address = address;
        Ticket { buffer: Some(index), serial: self.serial }
    }

    /// Frees room that was kept for puts which are not missing any more.
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
