//! Mailboxes: memory whose buffers the receiver chooses (RVMA).

use crate::epoch::{Epoch, EpochNote, Notification};
use crate::options::MailboxOptions;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fairway_ub::{MailboxId, RemoteMailbox};

use crate::completion::WrId;
use crate::core::{Core, WaitCondition};
use crate::error::Error;
use crate::record::EpochRecord;
use crate::segment::LocalSlice;
use crate::shared::Handle;

/// Maximum number of epochs that one [`Mailbox::poll`] returns.
const POLL_MAX: usize = 256;

/// Memory that peers put into without its addresses (RVMA): they name the mailbox, and the
/// application posts buffers. Each buffer receives the puts of one *epoch*; when the epoch is
/// complete, the next buffer takes over under the same address. In whatever order packets arrive,
/// no byte is stored in the wrong epoch, and the puts of one Jetty to one mailbox fill epochs in
/// the order in which they were posted.
///
/// All methods may be called from any thread. Dropping a mailbox closes it and returns its buffers
/// to the application.
///
/// ```no_run
/// # fn example(context: &fairway::Context) -> Result<(), fairway::Error> {
/// use fairway::{MailboxOptions, Memory, Rights, Threshold};
/// use std::time::Duration;
///
/// let memory = context.register(Memory::zeroed(1 << 20)?, Rights::NONE)?;
/// let options =
///     MailboxOptions::default().address(0x11ff_0011).threshold(Threshold::Bytes(4096));
/// let mailbox = context.create_mailbox(&options)?;
/// for buffer in 0..4 {
///     mailbox.post(memory.slice(buffer * 4096..(buffer + 1) * 4096), buffer)?;
/// }
/// let full = mailbox.wait(Duration::from_secs(5))?;
/// println!("epoch {} is in buffer {}", full.epoch, full.id);
/// # Ok(())
/// # }
/// ```
pub struct Mailbox {
    handle: Arc<Handle>,
    id: MailboxId,
    address: Option<u64>,
    nack: bool,
}

impl Mailbox {
    pub(crate) fn new(handle: Arc<Handle>, id: MailboxId, options: &MailboxOptions) -> Self {
        Mailbox { handle, id, address: options.address, nack: options.nack }
    }

    /// The mailbox's address; `None` if it is the catch-all.
    pub fn address(&self) -> Option<u64> {
        self.address
    }

    /// Adds a buffer. It belongs to the mailbox until [`Mailbox::poll`] or [`Mailbox::wait`]
    /// returns its epoch.
    ///
    /// # Errors
    /// The range leaves its segment, or can't be written; the mailbox is closed; or a limit.
    pub fn post<'a>(
        &self,
        buffer: impl Into<LocalSlice<'a>>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        self.post_notifying(buffer.into(), id, Notification::Queue)
    }

    /// As [`Mailbox::post`], but stores the end of the epoch in `record` instead of returning it
    /// from polls.
    ///
    /// # Errors
    /// As [`Mailbox::post`].
    pub fn post_recorded<'a>(
        &self,
        buffer: impl Into<LocalSlice<'a>>,
        id: impl Into<WrId>,
        record: &Arc<EpochRecord>,
    ) -> Result<(), Error> {
        self.post_notifying(buffer.into(), id, Notification::Record(record.clone()))
    }

    /// As [`Mailbox::post_recorded`], for memory that the caller manages.
    ///
    /// # Safety
    /// What `note` points to is aligned and may be stored to, by any thread, until the epoch is
    /// over, [`Mailbox::rewind`] has gone back to it or beyond, or the mailbox was dropped.
    ///
    /// # Errors
    /// As [`Mailbox::post`].
    pub unsafe fn post_noted<'a>(
        &self,
        buffer: impl Into<LocalSlice<'a>>,
        id: impl Into<WrId>,
        note: EpochNote,
    ) -> Result<(), Error> {
        self.post_notifying(buffer.into(), id, Notification::Note(note))
    }

    fn post_notifying(
        &self,
        buffer: LocalSlice<'_>,
        id: impl Into<WrId>,
        notification: Notification,
    ) -> Result<(), Error> {
        let (id, range) = (id.into().value(), buffer.range(&self.handle, true)?);
        self.handle.live()?.with(|core| core.post_buffer(self.id, id, range, notification))
    }

    /// Runs a poll of the NIC, then appends the epochs that have ended to `out`, and returns their
    /// number (at most 256 at a time). It may sleep as [`crate::Jetty::poll`] does.
    pub fn poll(&self, out: &mut Vec<Epoch>) -> usize {
        self.handle.here().poll(|core| {
            let epochs = std::iter::from_fn(|| core.take_epoch(self.id)).take(POLL_MAX);
            let before = out.len();
            out.extend(epochs);
            out.len() - before
        })
    }

    /// Returns the next epoch that has ended. Polls for a moment, then sleeps until there is one.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::ShutDown`] when the context was shut down and all epochs have
    /// been returned.
    pub fn wait(&self, timeout: Duration) -> Result<Epoch, Error> {
        let what = Some(WaitCondition::Epoch(self.id.index()));
        let next = |core: &mut Core| core.next_epoch(self.id);
        self.handle.live()?.wait_for("epoch", Some(timeout), what, next)?
    }

    /// Number of the current epoch, from 0: the oldest that has not ended.
    pub fn epoch(&self) -> u64 {
        self.handle.here().with(|core| core.mailbox_epoch(self.id)).unwrap_or_default()
    }

    /// Ends the current epoch before it is complete: it accepts no more puts, and ends as soon as
    /// the puts under way have ended. Returns its number.
    ///
    /// # Errors
    /// It has no buffer, or the context was shut down.
    pub fn increment_epoch(&self) -> Result<u64, Error> {
        self.handle.live()?.with(|core| core.increment_epoch(self.id))
    }

    /// Goes back by `back` epochs, where 1 is the newest that has ended. Returns the report of that
    /// epoch, whose bytes are still in its buffer; the next buffer that is posted is used for that
    /// epoch again. All buffers from that epoch on belong to the application. The senders should
    /// have stopped, and their puts should have completed, before the next buffer is posted.
    ///
    /// # Errors
    /// That epoch is not kept: see [`MailboxOptions::retired`].
    pub fn rewind(&self, back: u32) -> Result<Epoch, Error> {
        self.handle.live()?.with_quiesced(|core| core.rewind(self.id, back))
    }

    /// Closes the mailbox: it accepts no more puts. If `nack`, their senders receive an error;
    /// otherwise such puts complete with success and are discarded. Puts under way still arrive,
    /// and epochs that they complete are reported.
    ///
    /// # Errors
    /// None as long as the context lives.
    pub fn close(&self, nack: bool) -> Result<(), Error> {
        self.handle.live()?.with(|core| core.close_mailbox(self.id, nack))
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if let Ok(shared) = self.handle.live() {
            shared.with_quiesced(|core| core.drop_mailbox(self.id, self.nack));
        }
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A place in a mailbox of a peer, for a put or a get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxAddress {
    /// The mailbox's address.
    pub address: u64,
    /// The mailbox's key.
    pub key: u32,
    /// Offset of the first byte in the mailbox's buffer; ignored by a stream.
    pub offset: u64,
    /// The epoch, modulo 2^32. A put that names an epoch goes to that epoch or is refused; a get
    /// that names one may address a retired epoch. `None`: the current epoch.
    pub epoch: Option<u32>,
}

impl MailboxAddress {
    /// Addresses the current buffer of this mailbox.
    pub fn new(address: u64, key: u32) -> MailboxAddress {
        MailboxAddress { address, key, ..MailboxAddress::default() }
    }

    /// Sets the offset of the first byte.
    #[must_use]
    pub fn offset(self, offset: u64) -> MailboxAddress {
        MailboxAddress { offset, ..self }
    }

    /// Sets the epoch.
    #[must_use]
    pub fn epoch(self, epoch: u32) -> MailboxAddress {
        MailboxAddress { epoch: Some(epoch), ..self }
    }

    pub(crate) fn mailbox(&self) -> RemoteMailbox {
        RemoteMailbox { address: self.address, key: self.key }
    }
}
