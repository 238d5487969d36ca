//! Epochs: what is placed, when one is done, what is reported, and when its buffer is free.

use super::record::{Buffer, Mailbox, Stage};
use super::{Mailboxes, Ticket};
use crate::api::{EpochDone, MailboxId, SetupError};
use crate::pool::Index;

impl Mailboxes {
    /// True if further packets of this put may be placed. Otherwise its buffer was rewound or
    /// released: its bytes are dropped, and it counts as done. The caller checks before each
    /// placement.
    pub(crate) fn is_live(&self, ticket: Ticket) -> bool {
        self.live_buffer(ticket).is_some()
    }

    /// The buffer that a ticket is for, unless the buffer's record has been reused.
    fn live_buffer(&self, ticket: Ticket) -> Option<Index<Buffer>> {
        ticket.buffer.filter(|&buffer| {
            self.buffers.get(buffer).is_some_and(|record| record.serial == ticket.serial)
        })
    }

    /// Counts `bytes` of the put as placed.
    pub(crate) fn placed(&mut self, ticket: Ticket, bytes: u32) {
        if let Some(buffer) = self.live_buffer(ticket) {
            let buffer = &mut self.buffers[buffer];
            buffer.placed = buffer.placed.saturating_add(u64::from(bytes));
        }
    }

    /// Ends a put that has been placed completely: the ticket is used up. An empty put is finished
    /// at once.
    pub(crate) fn finish(&mut self, ticket: Ticket) {
        self.end(ticket, 0);
    }

    /// Ends a put that will never be finished, because its sender is gone: the ticket is used up.
    /// The put's room counts as used, and what was placed stays.
    pub(crate) fn cancel(&mut self, ticket: Ticket) {
        self.end(ticket, 1);
    }

    fn end(&mut self, ticket: Ticket, cancelled: u32) {
        if let Some(index) = self.live_buffer(ticket) {
            let buffer = &mut self.buffers[index];
            assert!(buffer.unfinished > 0, "a put of buffer {index:?} ended twice");
            buffer.unfinished -= 1;
            buffer.cancelled += cancelled;
            let Buffer { mailbox, epoch, unfinished, .. } = *buffer;
            if unfinished == 0 && epoch == self.records[mailbox].first {
                self.advance(mailbox);
            }
        }
    }

    /// Ends the current epoch before its threshold (`RVMA_Win_inc_epoch`, RVMA §III-C): it takes no
    /// more puts, and is done as soon as those that belong to it have ended. Returns its number.
    ///
    /// If the epoch has taken all its puts already, and only waits for them to end, nothing
    /// changes.
    ///
    /// # Errors
    /// `Missing` if there is no such mailbox; `Parameter("buffer")` if the epoch has none.
    pub(crate) fn increment_epoch(&mut self, id: MailboxId) -> Result<u64, SetupError> {
        let mailbox = self.named(id).ok_or(SetupError::Missing)?;
        let record = self.records[mailbox];
        let epoch = record.first;
        let index = self.buffer(mailbox, epoch).ok_or(SetupError::Parameter("buffer"))?;
        let buffer = &mut self.buffers[index];
        let waits_for_puts = record.open == epoch && !buffer.is_full(&record);
        if waits_for_puts || buffer.reserved_puts > 0 {
            buffer.early = true;
            buffer.reserved_puts = 0;
            buffer.reserved_bytes = 0;
            let record = &mut self.records[mailbox];
            record.ended = epoch + 1;
            record.open = record.open.max(epoch + 1);
            self.advance(mailbox);
        }
        Ok(epoch)
    }

    /// Ends the epochs that are done, oldest first. Each of them is ended once.
    pub(super) fn advance(&mut self, mailbox: Index<Mailbox>) {
        loop {
            let record = self.records[mailbox];
            let Some(index) = self.buffer(mailbox, record.first) else { return };
            let buffer = &self.buffers[index];
            let takes_puts = record.open == record.first && !buffer.is_full(&record);
            if takes_puts || buffer.reserved_puts > 0 || buffer.unfinished > 0 {
                return;
            }
            debug_assert!(buffer.reserved_bytes == 0, "room is kept for no put");
            self.buffers[index].stage = Stage::Done;
            self.done.push_back(&mut self.buffers, index);
            self.records[mailbox].first += 1;
            self.records[mailbox].open = record.open.max(record.first + 1);
            self.trim(mailbox);
        }
    }

    /// The next epoch that is done; epochs of one mailbox are returned in order.
    pub(crate) fn poll_done(&mut self) -> Option<EpochDone> {
        let index = self.done.pop_front(&mut self.buffers)?;
        self.buffers[index].stage = Stage::Retired;
        let done = self.report(&self.buffers[index]);
        self.trim(self.buffers[index].mailbox);
        Some(done)
    }

    pub(super) fn report(&self, buffer: &Buffer) -> EpochDone {
        let record = &self.records[buffer.mailbox];
        let not_made = u64::from(buffer.unfinished) + u64::from(buffer.cancelled);
        EpochDone {
            mailbox: self.id(buffer.mailbox),
            epoch: buffer.epoch,
            id: buffer.id,
            buffer: buffer.range(),
            bytes: buffer.placed,
            operations: buffer.used_puts - not_made,
            address: if buffer.used_puts == 0 { record.address } else { buffer.address },
            early: buffer.early,
            cancelled: buffer.cancelled,
            extent: buffer.append,
        }
    }

    /// Releases the buffers of done epochs that were reported and need not be kept.
    fn trim(&mut self, mailbox: Index<Mailbox>) {
        loop {
            let record = self.records[mailbox];
            if record.first - record.kept <= u64::from(record.retired) {
                return;
            }
            match self.buffer(mailbox, record.kept) {
                Some(index) if self.buffers[index].stage == Stage::Retired => {
                    self.release_buffer(index);
                    self.records[mailbox].kept += 1;
                }
                _ => return,
            }
        }
    }

    /// Releases a buffer from its mailbox: tickets for it become void.
    pub(super) fn release_buffer(&mut self, index: Index<Buffer>) {
        let Buffer { mailbox, epoch, stage, .. } = self.buffers[index];
        if stage == Stage::Done {
            self.done.unlink(&mut self.buffers, index);
        }
        self.by_epoch.remove(&mut self.buffers, super::epoch_hash(mailbox, epoch), index);
        self.serial = self.serial.wrapping_add(1);
        self.buffers[index].serial = self.serial;
        self.buffers[index].stage = Stage::Released;
        self.released.push_back(&mut self.buffers, index);
    }

    /// The segment of a released buffer: the caller drops the reference that it took with
    /// [`Mailboxes::post_buffer`]. The buffer's record is free after this call and not before.
    pub(crate) fn poll_released(&mut self) -> Option<u32> {
        let index = self.released.pop_front(&mut self.buffers)?;
        self.buffers.remove(index);
        Some(self.buffers[index].segment)
    }
}
