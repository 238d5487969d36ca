//! Mailboxes behind the lock.

use crate::epoch::{Epoch, EpochNote, Notification};
use crate::options::MailboxOptions;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use fairway_ub::{EpochDone, LocalRange, MailboxId, SegmentId};

use super::Core;
use crate::error::{Error, PostedTo};

/// The mailboxes of the application, by index.
#[derive(Default)]
pub(super) struct Mailboxes {
    live: Vec<Option<Record>>,
}

struct Record {
    id: MailboxId,
    address: Option<u64>,
    /// Number of the epoch in which the mailbox was when the context was shut down.
    last_epoch: u64,
    /// Buffers that are posted, by a local number that grows.
    posted: BTreeMap<u64, Posted>,
    next: u64,
    /// Epochs that have ended, with their buffer's number.
    done: VecDeque<(u64, Epoch)>,
    /// The numbers of buffers that the mailbox retains, with the application's numbers for them.
    kept: VecDeque<(u64, u64)>,
    retired: usize,
}

struct Posted {
    /// The application's number.
    id: u64,
    notification: Notification,
}

impl Mailboxes {
    fn get(&mut self, id: MailboxId) -> Option<&mut Record> {
        self.live.get_mut(id.index())?.as_mut().filter(|record| record.id == id)
    }

    pub(super) fn has_epoch(&self, index: usize) -> bool {
        let record = self.live.get(index).and_then(Option::as_ref);
        record.is_some_and(|record| !record.done.is_empty())
    }
}

impl Core {
    pub(crate) fn create_mailbox(&mut self, options: &MailboxOptions) -> Result<MailboxId, Error> {
        self.check_running()?;
        let id = self
            .nic
            .create_mailbox(&options.config())
            .map_err(|error| Error::mailbox(error, options.address))?;
        let live = &mut self.mailboxes.live;
        if live.len() <= id.index() {
            live.resize_with(id.index() + 1, || None);
        }
        live[id.index()] = Some(Record {
            id,
            address: options.address,
            last_epoch: 0,
            posted: BTreeMap::new(),
            next: 0,
            done: VecDeque::new(),
            kept: VecDeque::new(),
            retired: options.retired as usize,
        });
        Ok(id)
    }

    pub(crate) fn post_buffer(
        &mut self,
        mailbox: MailboxId,
        id: u64,
        range: LocalRange,
        notification: Notification,
    ) -> Result<(), Error> {
        self.check_running()?;
        let record = self.mailboxes.get(mailbox).ok_or(Error::MailboxClosed)?;
        let number = record.next;
        self.nic.post_buffer(mailbox, number, range).map_err(|error| Error::post(error, None))?;
        record.next += 1;
        record.posted.insert(number, Posted { id, notification });
        Ok(())
    }

    pub(crate) fn take_epoch(&mut self, mailbox: MailboxId) -> Option<Epoch> {
        self.mailboxes.get(mailbox)?.done.pop_front().map(|(_, epoch)| epoch)
    }

    pub(crate) fn has_epoch(&self, index: usize) -> bool {
        self.mailboxes.has_epoch(index)
    }

    pub(crate) fn increment_epoch(&mut self, mailbox: MailboxId) -> Result<u64, Error> {
        self.check_running()?;
        let ended = self.nic.increment_epoch(mailbox);
        self.drain_epochs();
        ended.map_err(|error| Error::mailbox(error, None))
    }

    pub(crate) fn rewind(&mut self, mailbox: MailboxId, back: u32) -> Result<Epoch, Error> {
        self.teardown_epoch = self.teardown_epoch.wrapping_add(1);
        let done = self.nic.rewind(mailbox, back).map_err(|error| Error::mailbox(error, None))?;
        let mut epoch = self.epoch_of(&done);
        if let Some(record) = self.mailboxes.get(mailbox) {
            // Epochs and buffers after this one are discarded.
            let known = record.kept.iter().find(|(number, _)| *number == done.id);
            epoch.id = known.map_or(epoch.id, |(_, id)| (*id).into());
            record.posted.retain(|number, _| *number < done.id);
            record.done.retain(|(number, _)| *number < done.id);
            record.kept.retain(|(number, _)| *number < done.id);
        }
        self.changes += 1;
        self.drain_events();
        Ok(epoch)
    }

    pub(crate) fn close_mailbox(&mut self, mailbox: MailboxId, nack: bool) -> Result<(), Error> {
        if self.is_shut_down() {
            return Ok(());
        }
        let closed = self.nic.close_mailbox(mailbox, nack);
        self.drain_epochs();
        closed.map_err(|error| Error::mailbox(error, None))
    }

    pub(crate) fn drop_mailbox(&mut self, mailbox: MailboxId, nack: bool) {
        // The mailbox exists, and is closed when it is released, so neither can fail.
        let _ = self.nic.close_mailbox(mailbox, nack);
        let _ = self.nic.release_mailbox(mailbox);
        self.teardown_epoch = self.teardown_epoch.wrapping_add(1);
        if let Some(record) = self.mailboxes.live.get_mut(mailbox.index()) {
            *record = None;
        }
        self.changes += 1;
        self.wants_send = true;
        self.drain_events();
    }

    /// Takes the buffers of all mailboxes back, and ends the mailboxes. Epochs that have ended
    /// before can still be polled.
    pub(super) fn release_mailboxes(&mut self) {
        self.drain_epochs();
        for record in self.mailboxes.live.iter_mut().flatten() {
            record.last_epoch = self.nic.mailbox_epoch(record.id).unwrap_or(record.last_epoch);
            // A mailbox that was released before is not there any more.
            let _ = self.nic.close_mailbox(record.id, true);
            let _ = self.nic.release_mailbox(record.id);
        }
        self.teardown_epoch = self.teardown_epoch.wrapping_add(1);
    }

    /// Number of the current epoch of a mailbox.
    pub(crate) fn mailbox_epoch(&mut self, mailbox: MailboxId) -> Option<u64> {
        let epoch = self.nic.mailbox_epoch(mailbox);
        epoch.or_else(|| Some(self.mailboxes.get(mailbox)?.last_epoch))
    }

    /// Returns a mailbox that has a buffer in this segment.
    pub(super) fn mailbox_with_buffer_in(&self, segment: SegmentId) -> Option<PostedTo> {
        let mut live = self.mailboxes.live.iter().flatten();
        let record = live.find(|record| self.nic.has_buffer_in(record.id, segment))?;
        Some(PostedTo::Mailbox { address: record.address })
    }

    /// Reports the epochs that have ended.
    pub(crate) fn drain_epochs(&mut self) {
        while let Some(done) = self.nic.poll_epoch() {
            self.changes += 1;
            let mut epoch = self.epoch_of(&done);
            let Some(record) = self.mailboxes.get(done.mailbox) else { continue };
            let Some(posted) = record.posted.remove(&done.id) else { continue };
            epoch.id = posted.id.into();
            record.kept.push_back((done.id, posted.id));
            while record.kept.len() > record.retired {
                record.kept.pop_front();
            }
            match posted.notification {
                Notification::Queue => record.done.push_back((done.id, epoch)),
                Notification::Record(cell) => cell.store(&epoch),
                Notification::Note(note) => store(&note, &epoch),
            }
        }
    }

    fn epoch_of(&self, done: &EpochDone) -> Epoch {
        let LocalRange { offset, length, .. } = done.buffer;
        Epoch {
            epoch: done.epoch,
            id: done.id.into(),
            offset,
            length,
            pointer: self.memories.address_of(&done.buffer).unwrap_or_default(),
            bytes: done.bytes,
            operations: done.operations,
            address: done.address,
            early: done.early,
            cancelled: done.cancelled,
            extent: done.extent,
        }
    }
}

fn store(note: &EpochNote, epoch: &Epoch) {
    // SAFETY: the caller that posted the buffer has vouched that both may be stored to until now,
    // and a record has the layout of the C header.
    unsafe {
        if let Some(record) = note.record.as_ref() {
            record.store(epoch);
        }
        if !note.pointer.is_null() {
            let pointer = AtomicPtr::from_ptr(note.pointer);
            pointer.store(epoch.pointer as *mut c_void, Ordering::Release);
        }
    }
}
