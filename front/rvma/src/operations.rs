//! Puts and gets under way.
//!
//! All go through one Jetty, so the puts of a process to a mailbox keep their order. Completions
//! are taken by whichever thread polls or waits: one waiting thread leads and sleeps on the Jetty,
//! the others on a condition until the leader has something for them or leaves.

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

/// Operations that can be under way.
const DEPTH: u32 = 32_768;
/// Distinguishes handles of requests from those of windows.
const KIND: usize = 2;
/// How long to wait for room for one operation more.
const MOMENT_MS: i64 = 10;
/// No single sleep is longer: a net under notices that were missed.
const NAP: Duration = Duration::from_millis(200);

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Put,
    Get,
}

/// The operations of this process.
pub(crate) struct Operations {
    jetty: Jetty,
    table: Mutex<Table>,
    /// Notified when an operation has ended, or when no thread leads any more.
    changed: Condvar,
}

struct Table {
    slots: Slots<Operation>,
    /// Some thread sleeps on the Jetty. No other takes completions then: the sleeper would not
    /// wake for one that was taken from it.
    led: bool,
    /// Counts operations that have ended.
    ended: u64,
    next_serial: u64,
    /// The serial numbers of operations under way that have no request.
    detached: BTreeSet<u64>,
    /// The first failure of those since the last `RVMA_Flush`.
    first_failure: Option<Failure>,
    completions: Vec<Completion>,
}

struct Operation {
    /// Keeps the registration of its memory.
    _lease: Lease,
    serial: u64,
    detached: bool,
    what: What,
    result: Option<Status>,
}

/// What an operation was to do, for the message if it fails.
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

    /// Begins an operation; its handle. `detached`: it has no request, and only a flush reports it.
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

    /// Waits a moment for something to end; has something?
    fn make_room(&self) -> bool {
        let before = lock(&self.table).ended;
        let ended = |table: &mut Table| (table.ended != before).then_some(());
        self.wait_for(Deadline::after_ms(MOMENT_MS), ended).is_ok()
    }

    /// How the operation ended, if it has; its handle is void then.
    pub(crate) fn test(&self, handle: usize) -> Result<Option<Result<()>>> {
        let mut table = lock(&self.table);
        if table.take_completions(&self.jetty) {
            self.changed.notify_all();
        }
        table.take_result(handle)
    }

    /// Waits for its end; the inner result says what it was.
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
            if let Ok(completion) = completion {
                table.record_completion(&completion);
            }
            // Waiting threads look at what has ended, and one of them leads if this thread leaves.
            self.changed.notify_all();
        }
    }

    /// Ends whatever has not ended: the NIC is gone.
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

    /// Runs a turn, unless some thread leads, and handles completions. Returns whether there were
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

    /// The outer result: is there such a request?
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

/// A mailbox address as C has it.
pub(crate) fn mailbox_address(virtual_addr: *mut c_void) -> u64 {
    virtual_addr as usize as u64
}
