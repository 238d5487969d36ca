//! The ends of a mailbox's epochs, and the ways to report them.

use std::ffi::c_void;
use std::sync::Arc;

use crate::completion::WrId;
use crate::record::EpochRecord;

/// End of an epoch of a mailbox. Its buffer belongs to the application again, except that buffers
/// which the mailbox retains ([`crate::MailboxOptions::retired`]) may only be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The epoch's number, from 0.
    pub epoch: u64,
    /// The number that the caller gave with the buffer.
    pub id: WrId,
    /// Offset of the buffer in its segment, in bytes.
    pub offset: u64,
    /// Length of the buffer in bytes.
    pub length: u32,
    /// Address of the buffer in this process. It may be compared but not dereferenced.
    pub pointer: usize,
    /// Number of bytes that were put.
    pub bytes: u64,
    /// Number of puts.
    pub operations: u64,
    /// The address that the last put named: the mailbox's own, or for the catch-all any other.
    pub address: u64,
    /// True if the application ended the epoch before its threshold.
    pub early: bool,
    /// Number of puts that were cut off because their sender is gone.
    pub cancelled: u32,
    /// For a stream: bytes from the start of the buffer to the end of the last put; more than
    /// `bytes` if there are holes. Otherwise 0.
    pub extent: u32,
}

/// Pointers to the caller's memory where the end of an epoch is stored; see
/// [`crate::Mailbox::post_noted`].
#[derive(Clone, Copy, Debug)]
pub struct EpochNote {
    /// Receives the address of the buffer's first byte, after everything else has been stored; may
    /// be null.
    pub pointer: *mut *mut c_void,
    /// Receives all fields of the epoch; may be null.
    pub record: *mut EpochRecord,
}

/// The way in which the end of an epoch is reported.
#[derive(Clone, Debug)]
pub(crate) enum Notification {
    /// Returned by [`Mailbox::poll`] and [`Mailbox::wait`].
    Queue,
    Record(Arc<EpochRecord>),
    Note(EpochNote),
}

// SAFETY: the caller that makes one promises that it may be stored to until the epoch is over, by
// any thread.
unsafe impl Send for EpochNote {}
