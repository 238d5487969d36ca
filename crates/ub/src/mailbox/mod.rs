//! Mailboxes: remote memory whose buffers the receiver chooses (RVMA §III, §IV).
//!
//! **What it is.** The receiver's side as a state machine that handles no packets, channels or
//! bytes. A put names a 64-bit address and never a buffer; the application posts buffers, and each
//! is filled during one *epoch*. [`Mailboxes::admit`] decides once per put to which epoch it
//! belongs; all packets of the put then go to that buffer, in whatever order they arrive. So no
//! byte ever falls into the wrong epoch, which the paper leaves open for networks that reorder.
//!
//! **Look-up.** One look-up, without wildcards (§III-A). A put to an address that no mailbox has
//! goes to the catch-all, if there is one (§III-C). The key has to match.
//!
//! **Epochs.** Epoch `n` is filled into the `n`-th buffer posted. It takes puts until those that
//! belong to it reach the threshold, in bytes or in puts; the put that reaches or passes it is the
//! last. In stream mode (`Steering::Receiver`, §IV-B) a put that doesn't fit what is left goes to
//! the next buffer, and no put follows a buffer's last byte, whatever the threshold says. An epoch
//! that has turned a put away never takes another, except puts for which room is kept. An epoch is
//! *done* when it takes no more puts, no room is kept in it, all its puts have ended, and all
//! earlier epochs are done. Several epochs can be filling at once.
//!
//! **The order of a sender.** A sender's puts to one address fill epochs in the order of their
//! sequence numbers. If earlier puts are missing, a put is admitted early only if it belongs to the
//! open epoch whatever the missing puts turn out to be: room is kept there for them (their number;
//! and their bytes, which the field `before` gives) and counts as used. Where an epoch takes a
//! number of puts, whatever their bytes (`Threshold::Operations` with `Steering::Sender`), every
//! put's epoch is known by counting: room is kept in as many epochs as the missing puts fill, and
//! the early put goes behind them. An epoch whose missing puts are all refused or given up is then
//! done without any. A put whose place isn't certain, or that is more than 128 behind the first
//! missing one, has to be tried again ([`Admission::OutOfOrder`]).
//!
//! Room is only kept for puts that the network alone delays. A put carries a flag
//! ([`Put::follows`]) if an earlier one may be waiting for other operations, or for an epoch that
//! it names; it then waits behind the earlier one, because what that one waits for might itself
//! need the room. Where a put without the flag waits for a buffer, the room behind it is freed
//! ([`Mailboxes::yield_room`]). *For this the sender must keep its puts from the first that is not
//! acknowledged on below 2^32 bytes together*: `before` counts modulo 2^32. A sender whose numbers
//! contradict each other has the put refused, and can spoil only its own part of an epoch.
//!
//! **A put that names its epoch** goes there or nowhere, whatever is missing before it. It is
//! refused if that epoch takes no more, and waits if the epoch has no buffer yet or is full only
//! because of room that is kept. Its number then counts as admitted. Room that had been kept for it
//! in another epoch is freed. While it waits it's missing like any other: later unnamed puts of its
//! sender are early ones.
//!
//! **Puts that never come.** The number of a put that was refused because of its own parameters is
//! over at once. For other puts the sender reports it: each put carries a flag whether everything
//! before it is over, and where no put follows, [`Mailboxes::abandon`] does this; the end of the
//! channel does it for all puts ([`Mailboxes::forget_channel`]). Room that was kept is then freed,
//! and the epoch takes other puts instead, unless it has turned one away already: then it is done
//! below its threshold. In stream mode bytes between two puts can't be freed: the room counts as
//! used and the hole stays, visible as `extent > bytes`. A put whose sender is gone in the middle
//! of it ([`Mailboxes::cancel`]) keeps its room, counts with the bytes that were placed, and is
//! reported as `cancelled`. So no epoch waits for a dead sender; but an epoch in which room is kept
//! waits for a living sender that never sends what it skipped, until the application ends it.
//!
//! **Early end** ([`Mailboxes::increment_epoch`], §III-C). The current epoch takes no more puts and
//! keeps no more room. Its unfinished puts still belong to it, also those that were admitted early.
//! Each put that was missing before those falls into whichever epoch is open when its turn comes,
//! and later puts of the same sender wait for it. This is the only case in which a put may fall
//! into a later epoch than one sent after it.
//!
//! **Rewind** (§IV-F). The `retired` newest done epochs keep their buffers. [`Mailboxes::rewind`]
//! to epoch `e` reports `e` again and removes everything from `e` on from the mailbox: later done
//! epochs, those being filled, and buffers that are only posted. All those buffers, `e`'s too,
//! belong to the application, without further report; the next buffer posted is epoch `e`'s.
//! - Puts that were admitted to any of these epochs are discarded: their tickets are void.
//! - Until the next buffer is posted every put that its sender's window allows, named or not, is
//!   refused (`Refusal::Epoch`).
//! - A put that was missing at the rewind before an admitted put is refused permanently.
//! - Any other put counts as new, though it may have been sent before: its number doesn't show
//!   that, because numbers of epochs are used again. So an application that rewinds must make its
//!   senders stop and see all their puts end, and post the first buffer after that.
//!
//! Sequence numbers continue: senders need not be notified of a rewind.
//!
//! **Closing** (§III-C). A closed mailbox refuses or silently discards puts. Unfinished puts
//! continue, and epochs that they complete are reported. The mailbox's address and buffers are free
//! once it's released.
//!
//! **Memory.** All memory is allocated in [`Mailboxes::new`]. A put takes a bounded number of
//! steps; only closing, rewinding and the end of a channel walk all records of a kind.

mod admit;
mod count;
mod epoch;
mod hash_index;
mod record;
mod rewind;
mod stream;
#[cfg(test)]
mod tests;

use self::hash_index::{HashIndex, mix};
use self::record::{Buffer, Life, Mailbox};
use self::stream::{Gap, Stream, Streams};
use crate::api::{LocalRange, MailboxConfig, MailboxId, PostError, SetupError, Threshold};
use crate::limits::Limits;
use crate::list::List;
use crate::pool::{Index, Pool};
#[cfg(doc)]
use fairway_wire::Put;
use fairway_wire::{JettyId, Refusal};

/// Bytes of a mailbox's record.
pub(crate) const MAILBOX_BYTES: usize = size_of::<Mailbox>();
/// Bytes of a buffer's record.
pub(crate) const BUFFER_BYTES: usize = size_of::<Buffer>();
/// Bytes of the record of a sender's puts to one address.
pub(crate) const STREAM_BYTES: usize = size_of::<Stream>();
/// Bytes of the record of a gap in a sender's puts.
pub(crate) const GAP_BYTES: usize = size_of::<Gap>();

/// The sender of a put: a Jetty of the peer at the other end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    /// The channel, with its generation.
    pub(crate) channel: u32,
    /// The peer's Jetty.
    pub(crate) jetty: JettyId,
}

/// Identifies an admitted put when its end is reported: once, by `finish` or `cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    buffer: Option<Index<Buffer>>,
    serial: u32,
}

impl Ticket {
    /// The ticket of a put that was discarded.
    pub(crate) const VOID: Ticket = Ticket { buffer: None, serial: 0 };
}

/// The decision about a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The put belongs to this buffer, all of it, in whatever order its packets come.
    Into {
        /// The ticket with which the put's end is reported.
        ticket: Ticket,
        /// The segment of the buffer.
        segment: u32,
        /// Offset of the put's first byte from the start of the segment.
        offset: u64,
    },
    /// There is no room for the put at present: the sender receives "receiver not ready".
    Wait,
    /// It isn't certain where the put belongs before earlier puts have been admitted: the sender
    /// has to try it again then.
    OutOfOrder,
    /// The put never will be admitted.
    Refuse(Refusal),
    /// The put counts as done, and its bytes are dropped.
    Discard,
}

/// Number of records in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) mailboxes: u32,
    /// Buffers posted, being filled, done, retired, and released but not yet polled for.
    pub(crate) buffers: u32,
    pub(crate) streams: u32,
    pub(crate) gaps: u32,
}

/// All mailboxes of a NIC.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    records: Pool<Mailbox>,
    buffers: Pool<Buffer>,
    streams: Streams,
    by_address: HashIndex<Mailbox>,
    by_epoch: HashIndex<Buffer>,
    catch_all: Option<Index<Mailbox>>,
    /// Buffers of epochs that are done and not reported yet.
    done: List<Index<Buffer>>,
    /// Released buffers whose segment references the caller has not dropped yet.
    released: List<Index<Buffer>>,
    /// Distinguishes successive uses of a buffer record.
    serial: u32,
    /// Distinguishes successive uses of a mailbox record.
    generation: u16,
}

impl Mailboxes {
    /// Allocates all memory.
    pub(crate) fn new(limits: &Limits) -> Self {
        Mailboxes {
            records: Pool::new(limits.mailboxes),
            buffers: Pool::new(limits.mailbox_buffers),
            streams: Streams::new(limits.put_streams),
            by_address: HashIndex::new(limits.mailboxes),
            by_epoch: HashIndex::new(limits.mailbox_buffers),
            catch_all: None,
            done: List::default(),
            released: List::default(),
            serial: 0,
            generation: 0,
        }
    }

    /// Makes a mailbox (`RVMA_Init_window`, §III-C).
    ///
    /// # Errors
    /// `Parameter("threshold")` if that is 0, `Number` if another has the address or is the
    /// catch-all, `Limit("mailboxes")`.
    pub(crate) fn create(&mut self, config: &MailboxConfig) -> Result<MailboxId, SetupError> {
        if matches!(config.threshold, Threshold::Bytes(0) | Threshold::Operations(0)) {
            return Err(SetupError::Parameter("threshold"));
        }
        let is_taken = match config.address {
            Some(address) => self.at(address).is_some(),
            None => self.catch_all.is_some(),
        };
        if is_taken {
            return Err(SetupError::Number);
        }
        self.generation = self.generation.wrapping_add(1);
        let mailbox = Mailbox::new(config, self.generation);
        let index = self.records.add(mailbox).ok_or(SetupError::Limit("mailboxes"))?;
        match config.address {
            Some(address) => {
                self.by_address.insert(&mut self.records, mix(address, 0), index);
            }
            None => self.catch_all = Some(index),
        }
        Ok(self.id(index))
    }

    /// Adds a buffer, known to the caller as `caller_id`, to a mailbox (`RVMA_Post_buffer`,
    /// §III-C). The caller has checked that the range lies in its segment, and takes a reference to
    /// that, which [`Mailboxes::poll_released`] ends.
    ///
    /// # Errors
    /// `NoMailbox` if there is no such mailbox or it's closed, `OutOfBounds` if the range has no
    /// end, `TooManyBuffers` if `Limits::mailbox_buffers` are in use.
    pub(crate) fn post_buffer(
        &mut self,
        id: MailboxId,
        caller_id: u64,
        range: LocalRange,
    ) -> Result<(), PostError> {
        let mailbox = self.named(id).ok_or(PostError::NoMailbox)?;
        if self.records[mailbox].life != Life::Open {
            return Err(PostError::NoMailbox);
        }
        if range.offset.checked_add(u64::from(range.length)).is_none() {
            return Err(PostError::OutOfBounds);
        }
        let epoch = self.records[mailbox].end;
        self.serial = self.serial.wrapping_add(1);
        let buffer = Buffer::new(caller_id, epoch, range, mailbox, self.serial);
        let index = self.buffers.add(buffer).ok_or(PostError::TooManyBuffers)?;
        self.by_epoch.insert(&mut self.buffers, epoch_hash(mailbox, epoch), index);
        self.records[mailbox].end = epoch + 1;
        self.records[mailbox].fenced = false;
        Ok(())
    }

    /// Closes a mailbox to new puts (`RVMA_Close_win`, §III-C), which are refused if `nack`, or
    /// else silently discarded. Unfinished puts continue. May be called again to change `nack`.
    ///
    /// # Errors
    /// `Missing` if there is no such mailbox.
    pub(crate) fn close(&mut self, id: MailboxId, nack: bool) -> Result<(), SetupError> {
        let mailbox = self.named(id).ok_or(SetupError::Missing)?;
        self.records[mailbox].life = if nack { Life::Refusing } else { Life::Discarding };
        self.end_streams(|stream| stream.mailbox == Some(mailbox));
        Ok(())
    }

    /// Removes a closed mailbox: its buffers are released, done epochs that were not reported are
    /// dropped, unfinished puts are discarded, and its address may be used again.
    ///
    /// # Errors
    /// `Missing` if there is no such mailbox, `Busy` if it isn't closed.
    pub(crate) fn release(&mut self, id: MailboxId) -> Result<(), SetupError> {
        let mailbox = self.named(id).ok_or(SetupError::Missing)?;
        let record = self.records[mailbox];
        if record.life == Life::Open {
            return Err(SetupError::Busy);
        }
        self.release_from(mailbox, record.kept);
        match record.catch_all {
            true => self.catch_all = None,
            false => self.by_address.remove(&mut self.records, mix(record.address, 0), mailbox),
        }
        self.records[mailbox].life = Life::Free;
        self.records.remove(mailbox);
        Ok(())
    }

    /// True if the mailbox has a buffer in this segment: one that is posted, being filled, or kept.
    pub(crate) fn has_buffer_in(&self, id: MailboxId, segment: u32) -> bool {
        let Some(mailbox) = self.named(id) else { return false };
        let record = &self.records[mailbox];
        let mut buffers = (record.kept..record.end).filter_map(|epoch| self.buffer(mailbox, epoch));
        buffers.any(|buffer| self.buffers[buffer].segment == segment)
    }

    /// Ends the streams of a peer that is gone. Its unfinished puts are cancelled one by one, by
    /// the caller.
    pub(crate) fn forget_channel(&mut self, channel: u32) {
        self.end_streams(|stream| stream.sender.channel == channel);
    }

    /// The current epoch, from 0 (`RVMA_Win_get_epoch`, §III-C): the oldest that isn't done.
    pub(crate) fn epoch(&self, id: MailboxId) -> Option<u64> {
        self.named(id).map(|mailbox| self.records[mailbox].first)
    }

    /// Number of records in use.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            mailboxes: self.records.in_use(),
            buffers: self.buffers.in_use(),
            streams: self.streams.records.in_use(),
            gaps: self.streams.gaps.in_use(),
        }
    }

    /// True if the mailbox that takes puts to this address is open, but has another key.
    pub(crate) fn has_other_key(&self, address: u64, key: u32) -> bool {
        self.addressed(address).is_some_and(|mailbox| {
            let record = &self.records[mailbox];
            record.life == Life::Open && record.key != key
        })
    }

    fn addressed(&self, address: u64) -> Option<Index<Mailbox>> {
        self.at(address).or(self.catch_all)
    }

    fn at(&self, address: u64) -> Option<Index<Mailbox>> {
        self.by_address.find(&self.records, mix(address, 0), |mailbox| mailbox.address == address)
    }

    fn named(&self, id: MailboxId) -> Option<Index<Mailbox>> {
        let index = Index::of(id.0 & 0xFFFF);
        let record = self.records.get(index)?;
        let is_current = record.life != Life::Free && u32::from(record.generation) == id.0 >> 16;
        is_current.then_some(index)
    }

    fn id(&self, mailbox: Index<Mailbox>) -> MailboxId {
        MailboxId(u32::from(self.records[mailbox].generation) << 16 | mailbox.number())
    }

    fn buffer(&self, mailbox: Index<Mailbox>, epoch: u64) -> Option<Index<Buffer>> {
        self.by_epoch.find(&self.buffers, epoch_hash(mailbox, epoch), |buffer| {
            buffer.mailbox == mailbox && buffer.epoch == epoch
        })
    }
}

fn epoch_hash(mailbox: Index<Mailbox>, epoch: u64) -> u64 {
    mix(epoch, u64::from(mailbox.number()))
}
