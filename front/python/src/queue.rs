//! Operations that a program starts and waits for later, by a thread or by an event loop.
//!
//! All of them run on one Jetty of the context. A thread takes the completions while any operation
//! is under way, and sleeps otherwise. It marks operations as done and wakes the threads that wait
//! for them; for tasks of asyncio it makes a descriptor readable that the event loop watches. An
//! operation of many pieces has one number for all of them, and ends with the last one.

use fairway::embed::HomeProcess;
use fairway::{Completion, Context, Error, Jetty, JettyOptions, RemoteMemory};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::copies::{self, Copy};
use crate::error::{exception, failed, invalid, not_forked};
use crate::memory::CLOSED;
use crate::pieces::{Backlog, Job};
use crate::waiting::{in_slices, limit};

/// Capacity of the queue: operations under way at a time.
const DEPTH: u32 = 4096;
/// Longest time for which the thread does not notice that the context was closed.
const ROUND: Duration = Duration::from_millis(100);

/// The queue of a context.
pub(crate) struct Queue {
    jetty: Jetty,
    pending: Mutex<Pending>,
    /// Signalled when an operation is posted, and when the queue is closed.
    changed: Condvar,
    /// Pieces that wait until others have completed.
    backlog: Mutex<Backlog>,
    /// The thread that copies, once it is needed.
    copies: Mutex<Option<Sender<Copy>>>,
}

#[derive(Default)]
struct Pending {
    next: u64,
    operations: HashMap<u64, Arc<State>>,
    closed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// Creates the Jetty and starts the thread.
    pub(crate) fn start(context: &Context) -> Result<Arc<Queue>, Error> {
        let jetty = context.create_jetty(JettyOptions::default().depth(DEPTH))?;
        let (pending, backlog, copies) = Default::default();
        let queue = Arc::new(Queue { jetty, pending, changed: Condvar::new(), backlog, copies });
        let own = queue.clone();
        let named = thread::Builder::new().name("fairway-queue".into());
        let doing = "start a thread that takes completions";
        let started = named.spawn(move || own.run());
        started.map_err(|source| Error::Io { doing: doing.into(), source })?;
        Ok(queue)
    }

    /// Posts an operation by `post`, which receives the Jetty and the operation's number.
    pub(crate) fn begin(
        &self,
        py: Python<'_>,
        post: impl FnOnce(&Jetty, u64) -> PyResult<()>,
    ) -> PyResult<Operation> {
        // The number is in the table before the completion can arrive.
        let (id, state) = self.enter(py, None)?;
        if let Err(error) = post(&self.jetty, id) {
            lock(&self.pending).operations.remove(&id);
            return Err(error);
        }
        self.changed.notify_all();
        Ok(Operation { id, state })
    }

    /// Starts an operation of many pieces.
    pub(crate) fn begin_many(&self, py: Python<'_>, job: Job) -> PyResult<Operation> {
        let (id, state) = self.enter(py, Some(job.pieces_left()))?;
        let operation = Operation { id, state: state.clone() };
        py.detach(|| {
            lock(&self.backlog).push(id, state, job);
            self.post_pieces();
            self.changed.notify_all();
        });
        Ok(operation)
    }

    /// Starts an operation of many pieces that are copied from mapped memory.
    pub(crate) fn begin_copy(
        self: &Arc<Self>,
        py: Python<'_>,
        job: Job,
        memory: RemoteMemory,
    ) -> PyResult<Operation> {
        let (id, state) = self.enter(py, Some(job.pieces_left()))?;
        let operation = Operation { id, state: state.clone() };
        let sent = py.detach(|| {
            let mut copies = lock(&self.copies);
            let sender = match &mut *copies {
                Some(sender) => sender,
                none => none.insert(copies::start(self.clone())?),
            };
            sender.send(Copy { id, state, job, memory }).map_err(|_| Error::ShutDown)
        });
        if let Err(error) = sent {
            lock(&self.pending).operations.remove(&id);
            return Err(exception(py, &error));
        }
        Ok(operation)
    }

    /// Takes the result of a copy: how many pieces it has moved, and their bytes. The others are
    /// posted.
    pub(crate) fn copied(&self, (id, state): (u64, Arc<State>), job: Job, done: (usize, u64)) {
        if state.copied(id, done) {
            lock(&self.pending).operations.remove(&id);
        }
        if job.pieces_left() > 0 {
            lock(&self.backlog).push(id, state, job);
            self.post_pieces();
            self.changed.notify_all();
        }
    }

    /// Gives an operation a number. `pieces` is how many it has, if one call starts many.
    fn enter(&self, py: Python<'_>, pieces: Option<usize>) -> PyResult<(u64, Arc<State>)> {
        let mut pending = lock(&self.pending);
        if pending.closed {
            return Err(exception(py, &Error::ShutDown));
        }
        pending.next += 1;
        let (id, state) = (pending.next, Arc::new(State::new(pieces)));
        pending.operations.insert(id, state.clone());
        Ok((id, state))
    }

    fn post_pieces(&self) {
        let ended = lock(&self.backlog).post(&self.jetty);
        for id in ended {
            lock(&self.pending).operations.remove(&id);
        }
    }

    /// Ends the thread. Operations that have not completed by then fail.
    pub(crate) fn close(&self) {
        lock(&self.pending).closed = true;
        lock(&self.copies).take();
        self.changed.notify_all();
    }

    fn run(&self) {
        let mut done = Vec::new();
        while self.await_operations() {
            match self.jetty.wait(ROUND) {
                Ok(completion) => {
                    done.push(completion);
                    self.jetty.poll(&mut done);
                }
                Err(Error::Timeout { .. }) => {}
                // Nothing follows: the operations that are left were not posted.
                Err(_) => break,
            }
            let pieces = done.drain(..).filter(|completion| self.complete(*completion)).count();
            lock(&self.backlog).land(pieces);
            // Also after a wait in vain, because other Jetties may have made room.
            self.post_pieces();
        }
        lock(&self.backlog).clear();
        let left = std::mem::take(&mut lock(&self.pending).operations);
        for (id, state) in left {
            state.end(id, Outcome::Lost);
        }
    }

    /// Passes a completion to its operation. Returns whether it is that of a piece.
    fn complete(&self, completion: Completion) -> bool {
        let id = completion.id.value();
        let Some(state) = lock(&self.pending).operations.get(&id).cloned() else { return false };
        if state.complete(id, completion) {
            lock(&self.pending).operations.remove(&id);
        }
        state.is_many
    }

    /// Sleeps until an operation is under way. Returns false once the queue is closed.
    fn await_operations(&self) -> bool {
        let mut pending = lock(&self.pending);
        while pending.operations.is_empty() && !pending.closed {
            pending = self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
        !pending.closed
    }
}

/// How an operation ended.
#[derive(Clone)]
pub(crate) enum Outcome {
    Done(Completion),
    /// All pieces have moved: this many bytes.
    Moved(u64),
    /// Pieces could not be posted.
    Refused(Arc<Error>),
    /// The segment was closed before all pieces were posted.
    SegmentClosed,
    /// The context was closed first.
    Lost,
}

pub(crate) struct State {
    ending: Mutex<Ending>,
    ended: Condvar,
    /// Whether one call started many pieces.
    is_many: bool,
    home: HomeProcess,
}

struct Ending {
    outcome: Option<Outcome>,
    /// Completions to come, and pieces to post.
    left: usize,
    /// Bytes of the pieces that have moved.
    bytes: u64,
    /// The first failure of a piece. The operation ends with it when nothing is left.
    failure: Option<Outcome>,
    /// The event loops to wake.
    reactors: Vec<Arc<Signal>>,
}

impl State {
    fn new(pieces: Option<usize>) -> State {
        let (outcome, failure, reactors) = (None, None, Vec::new());
        let ending = Ending { outcome, left: pieces.unwrap_or(1), bytes: 0, failure, reactors };
        let (ending, ended) = (Mutex::new(ending), Condvar::new());
        State { ending, ended, is_many: pieces.is_some(), home: HomeProcess::this() }
    }

    /// Takes a completion. Returns whether the operation has ended.
    fn complete(&self, id: u64, completion: Completion) -> bool {
        if !self.is_many {
            self.end(id, Outcome::Done(completion));
            return true;
        }
        let mut ending = lock(&self.ending);
        ending.left -= 1;
        if completion.is_success() {
            ending.bytes += u64::from(completion.bytes);
        } else {
            ending.failure.get_or_insert(Outcome::Done(completion));
        }
        self.end_many(ending, id)
    }

    /// Notes that pieces were copied, and their bytes. Returns whether the operation has ended.
    fn copied(&self, id: u64, (pieces, bytes): (usize, u64)) -> bool {
        let mut ending = lock(&self.ending);
        ending.left -= pieces;
        ending.bytes += bytes;
        self.end_many(ending, id)
    }

    /// Notes that the last `pieces` will not be posted. Returns whether the operation has ended.
    pub(crate) fn refuse(&self, id: u64, pieces: usize, outcome: Outcome) -> bool {
        let mut ending = lock(&self.ending);
        ending.left -= pieces;
        ending.failure.get_or_insert(outcome);
        self.end_many(ending, id)
    }

    /// Ends the operation if nothing is left.
    fn end_many(&self, mut ending: MutexGuard<'_, Ending>, id: u64) -> bool {
        if ending.left > 0 {
            return false;
        }
        let outcome = ending.failure.take().unwrap_or(Outcome::Moved(ending.bytes));
        drop(ending);
        self.end(id, outcome);
        true
    }

    fn end(&self, id: u64, outcome: Outcome) {
        let mut ending = lock(&self.ending);
        ending.outcome = Some(outcome);
        for signal in ending.reactors.drain(..) {
            signal.raise(id);
        }
        self.ended.notify_all();
    }

    /// Waits for at most `slice`.
    fn wait(&self, slice: Duration) -> Result<Outcome, Error> {
        let started = Instant::now();
        let mut ending = lock(&self.ending);
        loop {
            if let Some(outcome) = &ending.outcome {
                return Ok(outcome.clone());
            }
            let left = slice.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(Error::Timeout { awaited: "completion", waited: slice });
            }
            let waited = self.ended.wait_timeout(ending, left);
            ending = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Returns the result of a completion: the previous value of a word for atomics, otherwise the
/// number of bytes.
pub(crate) fn value(py: Python<'_>, completion: Completion) -> PyResult<u64> {
    let done = completion.result().map_err(|error| failed(py, error))?;
    let atomic = matches!(done.kind, fairway::CompletionKind::Atomic);
    Ok(if atomic { done.value } else { u64::from(done.bytes) })
}

/// An operation that was started.
#[pyclass(frozen, module = "fairway._fairway")]
pub(crate) struct Operation {
    id: u64,
    state: Arc<State>,
}

impl Operation {
    /// Fails in a child process that was forked after the operation was started.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        not_forked(py, !self.state.home.is_this())
    }
}

#[pymethods]
impl Operation {
    /// The operation's number, by which a reactor names it.
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// Whether the operation has ended, in success or failure.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.check(py)?;
        Ok(lock(&self.state.ending).outcome.is_some())
    }

    /// Waits for the end of the operation and returns its result.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<u64> {
        self.check(py)?;
        let timeout = limit(py, timeout)?;
        match in_slices(py, timeout, |slice| self.state.wait(slice))? {
            Outcome::Done(completion) => value(py, completion),
            Outcome::Moved(bytes) => Ok(bytes),
            Outcome::Refused(error) => Err(exception(py, &error)),
            Outcome::SegmentClosed => Err(invalid(py, CLOSED)),
            Outcome::Lost => Err(exception(py, &Error::ShutDown)),
        }
    }

    /// Lets the end of the operation wake an event loop. Returns true if it has ended already; then
    /// nothing is woken.
    fn watch(&self, py: Python<'_>, reactor: &Reactor) -> PyResult<bool> {
        self.check(py)?;
        let mut ending = lock(&self.state.ending);
        let is_done = ending.outcome.is_some();
        if !is_done {
            ending.reactors.push(reactor.signal.clone());
        }
        Ok(is_done)
    }
}

/// What wakes one event loop.
struct Signal {
    event: OwnedFd,
    ended: Mutex<Vec<u64>>,
}

impl Signal {
    fn raise(&self, id: u64) {
        let mut ended = lock(&self.ended);
        ended.push(id);
        if ended.len() == 1 {
            let one = 1_u64;
            // SAFETY: the descriptor is open, and the value has eight bytes. The counter of the
            // event is at most the number of calls, so the write succeeds.
            unsafe { libc::write(self.event.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }
}

/// The descriptor of an event loop, readable when operations have ended.
#[pyclass(frozen, module = "fairway._fairway")]
pub(crate) struct Reactor {
    signal: Arc<Signal>,
}

#[pymethods]
impl Reactor {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Reactor> {
        // SAFETY: has no conditions.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            let source = io::Error::last_os_error();
            return Err(exception(py, &Error::Io { doing: "make an eventfd".into(), source }));
        }
        // SAFETY: just opened, and owned by nothing else.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        Ok(Reactor { signal: Arc::new(Signal { event, ended: Mutex::default() }) })
    }

    /// The descriptor.
    fn fileno(&self) -> i32 {
        self.signal.event.as_raw_fd()
    }

    /// Returns the numbers of the operations that have ended since the last call.
    fn take(&self) -> Vec<u64> {
        let mut ended = lock(&self.signal.ended);
        let mut count = 0_u64;
        // SAFETY: the descriptor is open, and the value has room for eight bytes. It does not
        // block; without an event nothing is read.
        unsafe { libc::read(self.signal.event.as_raw_fd(), (&raw mut count).cast(), 8) };
        std::mem::take(&mut *ended)
    }
}
