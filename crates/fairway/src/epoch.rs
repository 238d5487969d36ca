//! The ends of a mailbox's epochs, and where they are told.

use std::ffi::c_void;
use std::sync::Arc;

use crate::completion::WrId;
use crate::record::EpochRecord;

/// An epoch of a mailbox is over, and its buffer is the application's again (but for those that the
/// mailbox keeps, [`crate::MailboxOptions::retired`], which are only to be read).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Its number, from 0.
    pub epoch: u64,
    /// The number given with the buffer.
    pub id: WrId,
    /// Where the buffer begins in its segment.
    pub offset: u64,
    /// Length of the buffer in bytes.
    pub length: u32,
    /// Where the buffer begins in this process; to be compared, and not to be followed.
    pub pointer: usize,
    /// Bytes that were put.
    pub bytes: u64,
    /// Puts that were made.
    pub operations: u64,
    /// The last address that was put to: the mailbox's own, or for the catch-all the one named.
    pub address: u64,
    /// The application ended it before its threshold.
    pub early: bool,
    /// Puts that were cut off because their sender is gone.
    pub cancelled: u32,
    /// Of a stream: bytes from the start of the buffer to the end of the last put; more than
    /// `bytes` if there are holes. Otherwise 0.
    pub extent: u32,
}

/// Where the end of an epoch is stored, in memory of the caller; see
/// [`crate::Mailbox::post_noted`].
#[derive(Clone, Copy, Debug)]
pub struct EpochNote {
    /// Receives the address of the buffer's first byte, after everything else; may be null.
    pub pointer: *mut *mut c_void,
    /// Receives all there is to say; may be null.
    pub record: *mut EpochRecord,
}

/// How the end of an epoch is told.
#[derive(Clone, Debug)]
pub(crate) enum Notification {
    /// By [`Mailbox::poll`] and [`Mailbox::wait`].
    Queue,
    Record(Arc<EpochRecord>),
    Note(EpochNote),
}

// SAFETY: the caller that makes one promises that it may be stored to until the epoch is over, by
// any thread.
unsafe impl Send for EpochNote {}
