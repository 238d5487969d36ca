//! Puts and gets in progress.
//!
//! All use one Jetty, so the puts of a process to a mailbox keep their order. Completions are taken
//! by any thread that polls or waits: one waiting thread is the leader and sleeps on the Jetty, and
//! the others sleep on a condition variable until the leader has a completion for them or stops
//! waiting.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use fairway::{Completion, Context, Error, Jetty, JettyOptions, MailboxAddress, Peer};

use crate::guard::{Deadline, lock};
use crate::registry::Lease;
use crate::slots::Slots;
use crate::status::{Failure, Result, Status};

/// Largest number of operations in progress.
const DEPTH: u32 = 32_768;
/// Kind of request handles, different from that of window handles.
const KIND: usize = 2;
/// Longest wait for room for one more operation, in milliseconds.
const MOMENT_MS: i64 = 10;
/// Longest single sleep, in case a notification was missed.
const NAP: Duration = Duration::from_millis(200);

/// Direction of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Put,
    Get,
}

/// The operations of this process.
pub(crate) struct Operations {
    jetty: Jetty,
    table: Mutex<Table>,
    /// Notified when an operation has ended, or when the leader has stopped waiting.
    changed: Condvar,
}

struct Table {
    slots: Slots<Operation>,
    /// Whether a leader sleeps on the Jetty. No other thread takes completions then, because the
    /// sleeping thread would not wake for a completion that was taken from it.
    led: bool,
    /// Number of operations that have ended.
    ended: u64,
    next_serial: u64,
    /// Serial numbers of operations in progress that have no request.
    detached: BTreeSet<u64>,
    /// The first failure of a detached operation since the last `RVMA_Flush`.
    first_failure: Option<Failure>,
    completions: Vec<Completion>,
}

struct Operation {
    /// Keeps the registration of the operation's memory.
    _lease: Lease,
    serial: u64,
    detached: bool,
    what: What,
    result: Option<Status>,
}

/// Description of an operation, for the message if it fails.
#[derive(Clone, Copy, Debug)]
struct What {
    direction: Direction,
    mailbox: u64,
    peer: SocketAddr,
}

impl Operations {
    pub(crate) fn new(context: &Context) -> Result<Operations> {
        let jetty = context.create_jetty(JettyOptions::default().depth(DEPTH))?;
        let table = Table {
            slots: Slots::new(KIND),
            led: false,
            ended: 0,
            next_serial: 0,
            detached: BTreeSet::new(),
            first_failure: None,
            completions: Vec::new(),
        };
        Ok(Operations { jetty, table: Mutex::new(table), changed: Condvar::new() })
    }

    /// Begins an operation, and returns its handle. A `detached` operation has no request, and only
    /// a flush reports its result.
    pub(crate) fn begin(
        &self,
        direction: Direction,
        peer: &Peer,
        lease: &Lease,
        to: MailboxAddress,
        detached: bool,
    ) -> Result<usize> {
        let what = What { direction, mailbox: to.address, peer: peer.address() };
        let handle = lock(&self.table).insert(lease.clone(), detached, what);
        loop {
            let posted = match direction {
                Direction::Put => self.jetty.put(peer, lease.slice(), to, handle as u64),
                Direction::Get => self.jetty.get(peer, lease.slice(), to, handle as u64),
            };
            let Err(error) = posted else { return Ok(handle) };
            let is_full =
                matches!(error, Error::QueueFull | Error::TooManyOperations | Error::TooManyPuts);
            if !is_full || !self.make_room() {
                lock(&self.table).forget(handle);
                return Err(error.into());
            }
        }
    }

    /// Waits up to [`MOMENT_MS`] for an operation to end; true if one has.
    fn make_room(&self) -> bool {
        let before = lock(&self.table).ended;
        let ended = |table: &mut Table| (table.ended != before).then_some(());
        self.wait_for(Deadline::after_ms(MOMENT_MS), ended).is_ok()
    }

    /// The result of an operation, if it has ended; its handle is then invalid.
    pub(crate) fn test(&self, handle: usize) -> Result<Option<Result<()>>> {
        let mut table = lock(&self.table);
        if table.take_completions(&self.jetty) {
            self.changed.notify_all();
        }
        table.take_result(handle)
    }

    /// Waits for the end of an operation. The inner result is the operation's.
    pub(crate) fn wait(&self, handle: usize, deadline: Deadline) -> Result<Result<()>> {
        self.wait_for(deadline, |table| table.take_result(handle).transpose())?
    }

    /// Waits for the end of all operations that were begun without a request.
    pub(crate) fn flush(&self, deadline: Deadline) -> Result<()> {
        let end = lock(&self.table).next_serial;
        self.wait_for(deadline, |table| {
            let first = table.detached.first();
            first.is_none_or(|serial| *serial >= end).then(|| table.first_failure.take())
        })?
        .map_or(Ok(()), Err)
    }

    fn wait_for<R>(
        &self,
        deadline: Deadline,
        mut take: impl FnMut(&mut Table) -> Option<R>,
    ) -> Result<R> {
        let mut table = lock(&self.table);
        loop {
            if table.take_completions(&self.jetty) {
                self.changed.notify_all();
            }
            if let Some(result) = take(&mut table) {
                return Ok(result);
            }
            if deadline.is_over() {
                return Err(Failure::of(Status::Timeout));
            }
            let nap = deadline.left(NAP);
            if table.led {
                let woken = self.changed.wait_timeout(table, nap);
                table = woken.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                continue;
            }
            table.led = true;
            drop(table);
            let completion = self.jetty.wait(nap);
            table = lock(&self.table);
            table.led = false;
            match completion {
                Ok(completion) => table.record_completion(&completion),
                Err(fairway::Error::ShutDown) => {
                    self.changed.notify_all();
                    return Err(Failure::of(Status::Cancelled));
                }
                Err(_) => {}
            }
            // Waiting threads check for ended operations, and one of them becomes leader if this
            // thread was it.
            self.changed.notify_all();
        }
    }

    /// Cancels all operations in progress, because the NIC is closed.
    pub(crate) fn cancel_all(&self) {
        let mut table = lock(&self.table);
        table.take_completions(&self.jetty);
        for operation in table.slots.iter_mut() {
            operation.result.get_or_insert(Status::Cancelled);
        }
        if !table.detached.is_empty() {
            table.first_failure.get_or_insert(Failure::of(Status::Cancelled));
            table.detached.clear();
        }
        self.changed.notify_all();
    }
}

impl Table {
    fn insert(&mut self, lease: Lease, detached: bool, what: What) -> usize {
        let serial = self.next_serial;
        self.next_serial += 1;
        if detached {
            self.detached.insert(serial);
        }
        self.slots.insert(Operation { _lease: lease, serial, detached, what, result: None })
    }

    fn forget(&mut self, handle: usize) {
        if let Some(operation) = self.slots.remove(handle) {
            self.detached.remove(&operation.serial);
        }
    }

    /// Polls the NIC, unless there is a leader, and handles completions. Returns whether there were
    /// any.
    fn take_completions(&mut self, jetty: &Jetty) -> bool {
        if self.led {
            return false;
        }
        let before = self.ended;
        let mut completions = std::mem::take(&mut self.completions);
        while jetty.poll(&mut completions) > 0 {
            completions.drain(..).for_each(|completion| self.record_completion(&completion));
        }
        self.completions = completions;
        self.ended != before
    }

    fn record_completion(&mut self, completion: &Completion) {
        self.ended += 1;
        let handle = completion.id.value() as usize;
        let status = Status::of_completion(completion.status);
        let Some(operation) = self.slots.get_mut(handle) else { return };
        operation.result = Some(status);
        if operation.detached {
            let result = operation.outcome(status);
            self.forget(handle);
            if let Err(failure) = result {
                self.first_failure.get_or_insert(failure);
            }
        }
    }

    /// The result of an ended operation, `None` if it has not ended. Fails if there is no such
    /// request.
    fn take_result(&mut self, handle: usize) -> Result<Option<Result<()>>> {
        let operation = self.slots.get_mut(handle).filter(|operation| !operation.detached);
        let operation = operation.ok_or_else(|| Failure::of(Status::Request))?;
        let Some(status) = operation.result else { return Ok(None) };
        let result = operation.outcome(status);
        self.forget(handle);
        Ok(Some(result))
    }
}

impl Operation {
    fn outcome(&self, status: Status) -> Result<()> {
        if status == Status::Success {
            return Ok(());
        }
        let What { direction, mailbox, peer } = self.what;
        let meaning = Status::meaning(status as i32).to_string_lossy();
        let what = match direction {
            Direction::Put => format!("the put to mailbox {mailbox:#x}"),
            Direction::Get => format!("the get from mailbox {mailbox:#x}"),
        };
        Err(Failure::new(status, format!("{what} at {peer} failed: {meaning}")))
    }
}

/// Converts a mailbox address from C.
pub(crate) fn mailbox_address(virtual_addr: *mut c_void) -> u64 {
    virtual_addr as usize as u64
}
