//! Windows: a mailbox, the buffers posted to it, and the epochs already reported to its owner.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairway::{Context, Epoch, EpochNote, EpochRecord, Error, Mailbox, MailboxOptions};

use crate::guard::{Deadline, lock};
use crate::registry::Lease;
use crate::status::{Failure, Result, Status};
use crate::types::{EPOCH_EARLY, EpochInfo};

/// Largest number of ended epochs that are kept until the program requests them; the oldest are
/// dropped first.
const UNREPORTED_MAX: usize = 4096;
/// Longest single sleep, in case a notification was missed.
const NAP: Duration = Duration::from_secs(1);

/// A mailbox of this process.
pub(crate) struct Window {
    context: Context,
    nack: bool,
    freed: AtomicBool,
    /// Incremented by changes after which calls that wait for an epoch check again.
    changes: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// Dropped when the window is freed, and before `posted`, to whose records it stores.
    mailbox: Option<Mailbox>,
    /// Buffers whose epochs have not been found ended, oldest first.
    posted: VecDeque<Posted>,
    /// Ended epochs that were not reported to the owner.
    unreported: VecDeque<EpochInfo>,
    /// Epoch of the next buffer.
    next_epoch: u64,
    /// Number of the next buffer.
    number: u64,
}

struct Posted {
    /// Keeps the registration, so that it exists when the buffer is posted again.
    _lease: Lease,
    size: i64,
    epoch: u64,
    end: End,
}

/// How the library detects that an epoch has ended.
enum End {
    /// By the library's own record; `wait` and `take` report the epoch to the owner.
    Record(Arc<EpochRecord>),
    /// By a pointer, because the owner passed a record of its own.
    Pointer(Arc<AtomicPtr<c_void>>),
}

// Waiting calls use these while they hold the NIC's lock, so nothing here may lock the window.
impl End {
    fn is_over(&self) -> bool {
        match self {
            End::Record(record) => record.is_done(),
            End::Pointer(pointer) => !pointer.load(Ordering::Acquire).is_null(),
        }
    }
}

/// Location of the owner's notification.
#[derive(Clone, Copy)]
pub(crate) enum Notify {
    Pointer(*mut *mut c_void),
    Record(*mut EpochRecord),
}

impl Window {
    pub(crate) fn new(context: &Context, options: &MailboxOptions) -> Result<Window> {
        let mailbox = context.create_mailbox(options).map_err(explain)?;
        let state = State {
            mailbox: Some(mailbox),
            posted: VecDeque::new(),
            unreported: VecDeque::new(),
            next_epoch: 0,
            number: 0,
        };
        Ok(Window {
            context: context.clone(),
            nack: options.nack,
            freed: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            state: Mutex::new(state),
        })
    }

    /// Adds a buffer.
    ///
    /// # Safety
    /// The lease is for a buffer that may be written, and `notify` points to what may be stored to,
    /// until the buffer is handed back.
    pub(crate) unsafe fn post(&self, lease: Lease, notify: Notify) -> Result<()> {
        let mut state = lock(&self.state);
        state.collect();
        let (note, end) = match notify {
            Notify::Pointer(pointer) => {
                let record = Arc::new(EpochRecord::new());
                let ours = Arc::as_ptr(&record).cast_mut();
                (EpochNote { pointer, record: ours }, End::Record(record))
            }
            Notify::Record(record) => {
                let pointer = Arc::new(AtomicPtr::new(ptr::null_mut()));
                (EpochNote { pointer: pointer.as_ptr(), record }, End::Pointer(pointer))
            }
        };
        let (number, size) = (state.number, lease.slice().len() as i64);
        // SAFETY: the owner's part as the caller vouches; ours is kept in `posted` until the epoch
        // has ended, was rewound past, or the mailbox is gone.
        unsafe { state.mailbox()?.post_noted(lease.slice(), number, note) }.map_err(explain)?;
        let epoch = state.next_epoch;
        state.posted.push_back(Posted { _lease: lease, size, epoch, end });
        state.next_epoch += 1;
        state.number += 1;
        self.changes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub(crate) fn close(&self, nack: Option<bool>) -> Result<()> {
        let state = lock(&self.state);
        state.mailbox()?.close(nack.unwrap_or(self.nack)).map_err(explain)
    }

    /// Frees the window. No buffer belongs to the library any more.
    pub(crate) fn free(&self) {
        let mut state = lock(&self.state);
        self.freed.store(true, Ordering::Release);
        // Dropping the mailbox returns its buffers, and wakes waiting calls.
        drop(state.mailbox.take());
        state.posted.clear();
        state.unreported.clear();
    }

    pub(crate) fn increment_epoch(&self) -> Result<()> {
        lock(&self.state).mailbox()?.increment_epoch().map(|_| ()).map_err(explain)
    }

    pub(crate) fn epoch(&self) -> Result<u64> {
        Ok(lock(&self.state).mailbox()?.epoch())
    }

    pub(crate) fn rewind(&self, back: i64) -> Result<EpochInfo> {
        let back = u32::try_from(back).ok().filter(|back| *back > 0).ok_or_else(|| {
            Failure::argument("the epochs to go back", back, "1 is the newest that has ended")
        })?;
        let mut state = lock(&self.state);
        let done = state.mailbox()?.rewind(back).map_err(explain)?;
        state.posted.retain(|posted| posted.epoch < done.epoch);
        state.unreported.retain(|info| info.epoch < done.epoch as i64);
        state.next_epoch = done.epoch;
        self.changes.fetch_add(1, Ordering::Release);
        Ok(info(&done))
    }

    /// The next ended epoch that was not reported to the owner, if there is one.
    pub(crate) fn take(&self) -> Result<Option<EpochInfo>> {
        let mut state = lock(&self.state);
        state.mailbox()?;
        state.collect();
        Ok(state.unreported.pop_front())
    }

    /// Waits for the next ended epoch that was not reported to the owner.
    pub(crate) fn wait(&self, deadline: Deadline) -> Result<EpochInfo> {
        loop {
            let seen = self.changes.load(Ordering::Acquire);
            if let Some(info) = self.take()? {
                return Ok(info);
            }
            let next = lock(&self.state).awaited();
            let stirred = || {
                self.freed.load(Ordering::Acquire)
                    || self.changes.load(Ordering::Acquire) != seen
                    || next.as_ref().is_some_and(|record| record.is_done())
            };
            sleep(&self.context, deadline, stirred)?;
        }
    }
}

/// Sleeps until `stirred` returns true, or for a limited time, after which the caller checks again.
/// Fails at the deadline.
pub(crate) fn sleep(
    context: &Context,
    deadline: Deadline,
    stirred: impl FnMut() -> bool,
) -> Result<()> {
    match context.wait_until(stirred, deadline.left(NAP)) {
        Err(Error::Timeout { .. }) if deadline.is_over() => Err(Failure::of(Status::Timeout)),
        Ok(()) | Err(Error::Timeout { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl State {
    fn mailbox(&self) -> Result<&Mailbox> {
        self.mailbox.as_ref().ok_or_else(|| Failure::of(Status::Cancelled))
    }

    /// Processes the epochs that have ended. They end in the order of their buffers.
    fn collect(&mut self) {
        while self.posted.front().is_some_and(|posted| posted.end.is_over()) {
            let Some(posted) = self.posted.pop_front() else { return };
            let End::Record(record) = &posted.end else { continue };
            let Some(done) = record.get() else { continue };
            if self.unreported.len() == UNREPORTED_MAX {
                self.unreported.pop_front();
            }
            self.unreported.push_back(EpochInfo {
                buffer: done.buffer as *mut c_void,
                size: posted.size,
                length: done.length as i64,
                bytes: done.bytes as i64,
                epoch: done.epoch as i64,
                operations: done.operations as i64,
                virtual_addr: done.address as *mut c_void,
                cancelled: done.cancelled,
                flags: if done.early { EPOCH_EARLY } else { 0 },
            });
        }
    }

    /// The record of the next epoch that will be reported to the owner.
    fn awaited(&self) -> Option<Arc<EpochRecord>> {
        self.posted.iter().find_map(|posted| match &posted.end {
            End::Record(record) => Some(record.clone()),
            End::Pointer(_) => None,
        })
    }
}

fn info(epoch: &Epoch) -> EpochInfo {
    EpochInfo {
        buffer: epoch.pointer as *mut c_void,
        size: i64::from(epoch.length),
        length: epoch.bytes.max(u64::from(epoch.extent)) as i64,
        bytes: epoch.bytes as i64,
        epoch: epoch.epoch as i64,
        operations: epoch.operations as i64,
        virtual_addr: epoch.address as *mut c_void,
        cancelled: epoch.cancelled,
        flags: if epoch.early { EPOCH_EARLY } else { 0 },
    }
}

/// Converts an error of a mailbox to a failure for C.
fn explain(error: Error) -> Failure {
    let status = match &error {
        Error::Parameter { name: "mailbox address", .. } => Status::AddressUsed,
        Error::NoBuffer | Error::EpochNotKept => Status::NoEpoch,
        _ => return error.into(),
    };
    Failure::new(status, error.to_string())
}
