//! Mailboxes of a NIC: receiver-owned memory (RVMA §III, §IV).

use super::UbDevice;
use crate::api::{
    EpochDone, LocalRange, MailboxConfig, MailboxId, PostError, SegmentId, SetupError,
};

impl UbDevice {
    /// Creates a mailbox (`RVMA_Init_window`, RVMA §III-C).
    ///
    /// # Errors
    /// `Parameter("threshold")` if that is 0, `Number` if another has the address or is the
    /// catch-all, `Limit("mailboxes")`.
    pub fn create_mailbox(&mut self, config: &MailboxConfig) -> Result<MailboxId, SetupError> {
        self.shared.mailboxes.create(config)
    }

    /// Adds a buffer, known to the caller as `id`, to a mailbox: it is filled during one epoch
    /// (`RVMA_Post_buffer`, RVMA §III-C). It belongs to the mailbox until [`UbDevice::poll_epoch`]
    /// reports it; buffers of epochs that are kept for [`UbDevice::rewind`] belong to it beyond
    /// that.
    ///
    /// # Errors
    /// `NoSegment`, `OutOfBounds`, `NoMailbox`, `TooManyBuffers`.
    pub fn post_buffer(
        &mut self,
        mailbox: MailboxId,
        id: u64,
        buffer: LocalRange,
    ) -> Result<(), PostError> {
        let shared = &mut self.shared;
        match shared.segments.holds(buffer.segment.number(), buffer.offset, buffer.length) {
            None => return Err(PostError::NoSegment),
            Some(false) => return Err(PostError::OutOfBounds),
            Some(true) => {}
        }
        shared.mailboxes.post_buffer(mailbox, id, buffer)?;
        shared.segments.hold(buffer.segment.number());
        Ok(())
    }

    /// The next epoch that is done: its buffer is full, or the application ended it. Call this
    /// until it returns `None` after every input and every call that concerns mailboxes.
    pub fn poll_epoch(&mut self) -> Option<EpochDone> {
        let done = self.shared.mailboxes.poll_done();
        self.shared.counters.epochs_done += u64::from(done.is_some());
        self.let_buffers_go();
        done
    }

    /// The current epoch of a mailbox, from 0: the oldest that is not done (`RVMA_Win_get_epoch`,
    /// RVMA §III-C).
    pub fn mailbox_epoch(&self, mailbox: MailboxId) -> Option<u64> {
        self.shared.mailboxes.epoch(mailbox)
    }

    /// True if a mailbox has a buffer in this segment: one that is posted, being filled, or kept.
    pub fn has_buffer_in(&self, mailbox: MailboxId, segment: SegmentId) -> bool {
        self.shared.mailboxes.has_buffer_in(mailbox, segment.number())
    }

    /// Ends the current epoch before its threshold (`RVMA_Win_inc_epoch`, RVMA §III-C): it takes no
    /// more puts, and is done as soon as those that belong to it have ended. Returns its number.
    ///
    /// # Errors
    /// `Missing` if there is no such mailbox; `Parameter("buffer")` if the epoch has none.
    pub fn increment_epoch(&mut self, mailbox: MailboxId) -> Result<u64, SetupError> {
        self.shared.mailboxes.increment_epoch(mailbox)
    }

    /// Rewinds a mailbox by `back` epochs, 1 being the newest that is done (RVMA §IV-F). Returns
    /// the report of that epoch, and the next buffer that is posted is that epoch's again. All
    /// buffers from that epoch on belong to the application, without further report; unfinished
    /// puts into them are dropped. The senders should have been stopped, and have seen all their
    /// puts end, before the next buffer is posted.
    ///
    /// A caller that places late must first finish the placements into segments that hold buffers
    /// of the mailbox.
    ///
    /// # Errors
    /// `Missing` if there is no such mailbox; `Parameter("back")` if that is 0 or the epoch is not
    /// kept.
    pub fn rewind(&mut self, mailbox: MailboxId, back: u32) -> Result<EpochDone, SetupError> {
        let done = self.shared.mailboxes.rewind(mailbox, back);
        self.let_buffers_go();
        done
    }

    /// Closes a mailbox to new puts (`RVMA_Close_win`, RVMA §III-C): they are refused if `nack`, or
    /// else counted as done and dropped. Unfinished puts continue. A sender receives one refusal
    /// for each put, and has to confirm it: `Limits::withheld` bounds how many refusals may be
    /// unconfirmed.
    ///
    /// # Errors
    /// `Missing` if there is no such mailbox.
    pub fn close_mailbox(&mut self, mailbox: MailboxId, nack: bool) -> Result<(), SetupError> {
        self.shared.mailboxes.close(mailbox, nack)
    }

    /// Removes a closed mailbox. All its buffers belong to the application, without further report;
    /// see [`UbDevice::rewind`] for unfinished puts.
    ///
    /// # Errors
    /// `Missing` if there is no such mailbox, `Busy` if it is not closed.
    pub fn release_mailbox(&mut self, mailbox: MailboxId) -> Result<(), SetupError> {
        self.shared.mailboxes.release(mailbox)?;
        self.let_buffers_go();
        Ok(())
    }

    /// Drops the references of released mailbox buffers to their segments.
    fn let_buffers_go(&mut self) {
        while let Some(segment) = self.shared.mailboxes.poll_released() {
            self.shared.release(segment);
        }
    }
}
