//! Going back to an earlier epoch (RVMA §IV-F), and reading from mailboxes.

use super::Mailboxes;
use super::record::{Life, Mailbox};
use crate::api::{EpochDone, LocalRange, MailboxId, SetupError, WhenEmpty};
use crate::pool::Index;
use fairway_wire::{Get, Refusal};

impl Mailboxes {
    /// Rewinds a mailbox by `back` epochs: 1 is the newest that is done. Returns the report of that
    /// epoch, so that the application can restore from its buffer; the next buffer that is posted
    /// is that epoch's again. The module's documentation describes the effect on everything else.
    ///
    /// # Errors
    /// `Missing` if there is no such mailbox; `Parameter("back")` if that is 0 or the epoch isn't
    /// kept.
    pub(crate) fn rewind(&mut self, id: MailboxId, back: u32) -> Result<EpochDone, SetupError> {
        let mailbox = self.named(id).ok_or(SetupError::Missing)?;
        let record = self.records[mailbox];
        let kept = (record.first - record.kept).min(u64::from(record.retired));
        if back == 0 || u64::from(back) > kept {
            return Err(SetupError::Parameter("back"));
        }
        let epoch = record.first - u64::from(back);
        let index = self.buffer(mailbox, epoch).ok_or(SetupError::Missing)?;
        let done = self.report(&self.buffers[index]);
        self.release_from(mailbox, epoch);
        self.cut_streams(mailbox);
        let record = &mut self.records[mailbox];
        record.first = epoch;
        record.open = epoch;
        record.end = epoch;
        record.ended = epoch;
        record.fenced = true;
        Ok(done)
    }

    /// Releases all buffers of a mailbox from this epoch on.
    pub(super) fn release_from(&mut self, mailbox: Index<Mailbox>, epoch: u64) {
        for epoch in epoch..self.records[mailbox].end {
            if let Some(index) = self.buffer(mailbox, epoch) {
                self.release_buffer(index);
            }
        }
    }

    /// The range of the bytes that a GET requests: in the current epoch's buffer, which may be
    /// partly filled, or in that of a done epoch that is kept.
    ///
    /// # Errors
    /// `NoMailbox` (unknown, closed, or another key), `Length` (outside the buffer), `Epoch` (not
    /// kept any more), and if the epoch has not begun or has no buffer yet `ReceiverNotReady`, or
    /// `Resources` where puts don't wait for a buffer either.
    pub(crate) fn get(&self, get: &Get) -> Result<LocalRange, Refusal> {
        let mailbox = self.addressed(get.mailbox).ok_or(Refusal::NoMailbox)?;
        let record = &self.records[mailbox];
        if record.life != Life::Open || record.key != get.key {
            return Err(Refusal::NoMailbox);
        }
        let epoch = match get.named {
            true => record.named_epoch(get.epoch).ok_or(Refusal::Epoch)?,
            false => record.first,
        };
        if epoch < record.kept {
            return Err(Refusal::Epoch);
        }
        let Some(index) = self.buffer(mailbox, epoch).filter(|_| epoch <= record.first) else {
            return Err(match record.when_empty {
                WhenEmpty::Wait => Refusal::ReceiverNotReady,
                WhenEmpty::Refuse => Refusal::Resources,
            });
        };
        let range = self.buffers[index].range();
        match get.offset.checked_add(u64::from(get.length)) {
            Some(end) if end <= u64::from(range.length) => Ok(LocalRange {
                segment: range.segment,
                offset: range.offset + get.offset,
                length: get.length,
            }),
            _ => Err(Refusal::Length),
        }
    }
}
