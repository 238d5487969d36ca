//! Windows: a mailbox, the buffers posted to it, and what its owner was told of them.

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

/// Ended epochs remembered until the program asks for them; the oldest are dropped first.
const UNTOLD_MAX: usize = 4096;
/// No single sleep is longer: a net under notices that were missed.
const NAP: Duration = Duration::from_secs(1);

/// A mailbox of this process.
pub(crate) struct Window {
    context: Context,
    nack: bool,
    freed: AtomicBool,
    /// Counts the changes after which calls that wait for an epoch look again.
    changes: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// Goes when the window is freed, and before `posted`, which it stores to.
    mailbox: Option<Mailbox>,
    /// Buffers whose epochs were not seen to have ended, oldest first.
    posted: VecDeque<Posted>,
    /// Ended epochs that the owner was not told of.
    untold: VecDeque<EpochInfo>,
    /// The epoch of the next buffer.
    next_epoch: u64,
    /// The number of the next buffer.
    number: u64,
}

struct Posted {
    /// Keeps the registration, so that it is there when the buffer comes again.
    _lease: Lease,
    size: i64,
    epoch: u64,
    end: End,
}

/// How the library itself learns that an epoch has ended.
enum End {
    /// `wait` and `take` report the epoch to the owner.
    Tell(Arc<EpochRecord>),
    /// The owner passed a record of its own.
    Told(Arc<AtomicPtr<c_void>>),
}

// The waits below ask these from under the NIC's lock, so nothing here may lock the window.
impl End {
    fn is_over(&self) -> bool {
        match self {
            End::Tell(record) => record.is_done(),
            End::Told(pointer) => !pointer.load(Ordering::Acquire).is_null(),
        }
    }
}

/// Where the owner wants to be told.
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
            untold: VecDeque::new(),
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
                (EpochNote { pointer, record: ours }, End::Tell(record))
            }
            Notify::Record(record) => {
                let pointer = Arc::new(AtomicPtr::new(ptr::null_mut()));
                (EpochNote { pointer: pointer.as_ptr(), record }, End::Told(pointer))
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

    /// Forgets everything: no buffer is the library's any more.
    pub(crate) fn free(&self) {
        let mut state = lock(&self.state);
        self.freed.store(true, Ordering::Release);
        // Takes its buffers back, and wakes waiting calls.
        drop(state.mailbox.take());
        state.posted.clear();
        state.untold.clear();
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
        let told = state.mailbox()?.rewind(back).map_err(explain)?;
        state.posted.retain(|posted| posted.epoch < told.epoch);
        state.untold.retain(|info| info.epoch < told.epoch as i64);
        state.next_epoch = told.epoch;
        self.changes.fetch_add(1, Ordering::Release);
        Ok(info(&told))
    }

    /// The next ended epoch that its owner was not told of, if there is one.
    pub(crate) fn take(&self) -> Result<Option<EpochInfo>> {
        let mut state = lock(&self.state);
        state.mailbox()?;
        state.collect();
        Ok(state.untold.pop_front())
    }

    /// The same, waiting for it.
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

/// Sleeps until `stirred`, or for a while: the caller looks again. Fails when the time is over.
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

    /// Takes notice of the epochs that have ended. They end in the order of their buffers.
    fn collect(&mut self) {
        while self.posted.front().is_some_and(|posted| posted.end.is_over()) {
            let Some(posted) = self.posted.pop_front() else { return };
            let End::Tell(record) = &posted.end else { continue };
            let Some(told) = record.get() else { continue };
            if self.untold.len() == UNTOLD_MAX {
                self.untold.pop_front();
            }
            self.untold.push_back(EpochInfo {
                buffer: told.buffer as *mut c_void,
                size: posted.size,
                length: told.length as i64,
                bytes: told.bytes as i64,
                epoch: told.epoch as i64,
                operations: told.operations as i64,
                virtual_addr: told.address as *mut c_void,
                cancelled: told.cancelled,
                flags: if told.early { EPOCH_EARLY } else { 0 },
            });
        }
    }

    /// The record of the next epoch that its owner is to be told of.
    fn awaited(&self) -> Option<Arc<EpochRecord>> {
        self.posted.iter().find_map(|posted| match &posted.end {
            End::Tell(record) => Some(record.clone()),
            End::Told(_) => None,
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

/// What went wrong with a mailbox, as C is told.
fn explain(error: Error) -> Failure {
    let status = match &error {
        Error::Parameter { name: "mailbox address", .. } => Status::AddressUsed,
        Error::NoBuffer | Error::EpochNotKept => Status::NoEpoch,
        _ => return error.into(),
    };
    Failure::new(status, error.to_string())
}
