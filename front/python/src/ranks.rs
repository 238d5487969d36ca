//! Collective operations of a group of processes, by the addresses of their buffers.

use fairway_communicator::{
    Call, Communicator, Error, Failure, Message, Options, Piece, Rendezvous, address_towards,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::error::{exception, invalid, named};
use crate::waiting::{limit, run_on_thread};

/// Longest time for which a wait leaves signals unhandled.
const SLICE: Duration = Duration::from_millis(100);

/// Address and length of the input, then of the output, and what holds their memory.
type Buffers = (usize, u64, usize, u64, Py<PyAny>);
/// Names of the elements' type and of the way in which they are combined.
type Numbers = (String, String);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The exception for an error of a group, with the error's text.
fn failed(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Nic(error) => return exception(py, error),
        Error::Failed(Failure::TimedOut { .. }) => "Timeout",
        Error::Failed(Failure::Died { .. } | Failure::Aborted { .. }) => "PeerGone",
        Error::Call(_) | Error::Length { .. } | Error::Option(_) => "Invalid",
        _ => "Error",
    };
    named(py, class, &error.to_string())
}

/// A rendezvous by a function of Python: it is called with this rank's record and a time limit in
/// seconds, and returns the records of all ranks.
struct Meeting {
    exchange: Py<PyAny>,
    raised: Option<PyErr>,
}

impl Rendezvous for Meeting {
    fn exchange(&mut self, record: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        let exchanged = Python::attach(|py| {
            let arguments = (PyBytes::new(py, record), timeout.as_secs_f64());
            self.exchange.bind(py).call1(arguments)?.extract::<Vec<Vec<u8>>>()
        });
        exchanged.map_err(|error| {
            let text = error.to_string();
            self.raised = Some(error);
            Error::Rendezvous(text)
        })
    }
}

/// One rank of a group of processes.
#[pyclass(frozen, module = "fairway._fairway")]
pub(crate) struct Ranks {
    group: Mutex<Option<Arc<Communicator>>>,
}

impl Ranks {
    /// Begins a call, whose label all ranks must pass alike.
    fn begin(
        &self,
        py: Python<'_>,
        call: Call,
        buffers: Buffers,
        label: &str,
    ) -> PyResult<Pending> {
        let (input, input_bytes, output, output_bytes, keep) = buffers;
        let Some(group) = lock(&self.group).clone() else {
            return Err(invalid(py, "the group is closed: make another one"));
        };
        let begun = py.detach(|| {
            let input = (std::ptr::with_exposed_provenance(input), input_bytes);
            let output = (std::ptr::with_exposed_provenance_mut(output), output_bytes);
            // SAFETY: `fairway.torch` passes addresses of buffers that `keep` holds, and the
            // object that is made below holds it until the call has ended.
            let begun = unsafe { group.start_labelled(call, label, input, output) };
            // If the group is closed meanwhile, the interpreter is not held while it ends.
            drop(group);
            begun
        });
        let pending = begun.map_err(|error| failed(py, &error))?;
        let state = State { pending: Some(pending), outcome: Ok(()) };
        Ok(Pending { state: Mutex::new(state), keep: Some(keep) })
    }
}

#[pymethods]
impl Ranks {
    /// Joins a group as rank `rank` of `ranks`; the others are met by `exchange`.
    #[new]
    fn new(
        py: Python<'_>,
        rank: u32,
        ranks: u32,
        exchange: Py<PyAny>,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Ranks> {
        let options = options(settings)?;
        let (joined, raised) = run_on_thread(py, move || {
            let mut meeting = Meeting { exchange, raised: None };
            let joined = Communicator::new(rank, ranks, &mut meeting, options);
            (joined, meeting.raised)
        })?;
        if let Some(raised) = raised {
            return Err(raised);
        }
        let group = joined.map_err(|error| failed(py, &error))?;
        Ok(Ranks { group: Mutex::new(Some(Arc::new(group))) })
    }

    fn all_reduce(
        &self,
        py: Python<'_>,
        buffers: Buffers,
        numbers: Numbers,
        label: &str,
    ) -> PyResult<Pending> {
        let (element, reduction) = (parse(py, &numbers.0)?, parse(py, &numbers.1)?);
        self.begin(py, Call::AllReduce { bytes: buffers.1, element, reduction }, buffers, label)
    }

    fn reduce_scatter(
        &self,
        py: Python<'_>,
        buffers: Buffers,
        pieces: Vec<u64>,
        numbers: Numbers,
        label: &str,
    ) -> PyResult<Pending> {
        let (element, reduction) = (parse(py, &numbers.0)?, parse(py, &numbers.1)?);
        self.begin(py, Call::ReduceScatter { pieces, element, reduction }, buffers, label)
    }

    fn all_gather(
        &self,
        py: Python<'_>,
        buffers: Buffers,
        pieces: Vec<u64>,
        label: &str,
    ) -> PyResult<Pending> {
        self.begin(py, Call::AllGather { pieces }, buffers, label)
    }

    fn broadcast(
        &self,
        py: Python<'_>,
        buffers: Buffers,
        root: u32,
        label: &str,
    ) -> PyResult<Pending> {
        self.begin(py, Call::Broadcast { bytes: buffers.3, root }, buffers, label)
    }

    fn reduce(
        &self,
        py: Python<'_>,
        buffers: Buffers,
        numbers: Numbers,
        root: u32,
        label: &str,
    ) -> PyResult<Pending> {
        let (element, reduction) = (parse(py, &numbers.0)?, parse(py, &numbers.1)?);
        self.begin(py, Call::Reduce { bytes: buffers.1, element, reduction, root }, buffers, label)
    }

    fn gather(
        &self,
        py: Python<'_>,
        buffers: Buffers,
        pieces: Vec<u64>,
        root: u32,
        label: &str,
    ) -> PyResult<Pending> {
        self.begin(py, Call::Gather { pieces, root }, buffers, label)
    }

    fn scatter(
        &self,
        py: Python<'_>,
        buffers: Buffers,
        pieces: Vec<u64>,
        root: u32,
        label: &str,
    ) -> PyResult<Pending> {
        self.begin(py, Call::Scatter { pieces, root }, buffers, label)
    }

    /// Sends consecutive parts of the input to the ranks, and receives parts of the output, of
    /// these lengths in bytes.
    fn all_to_all(
        &self,
        py: Python<'_>,
        buffers: Buffers,
        sent: Vec<u64>,
        received: Vec<u64>,
        label: &str,
    ) -> PyResult<Pending> {
        let (sends, receives) = (messages(&sent), messages(&received));
        self.begin(py, Call::Exchange { is_collective: true, sends, receives }, buffers, label)
    }

    /// Sends the input to a rank.
    fn send(&self, py: Python<'_>, buffers: Buffers, to: u32) -> PyResult<Pending> {
        let piece = Piece { offset: 0, bytes: buffers.1 };
        let (sends, receives) = (vec![Message { rank: to, piece }], Vec::new());
        self.begin(py, Call::Exchange { is_collective: false, sends, receives }, buffers, "")
    }

    /// Receives the output from a rank.
    fn receive(&self, py: Python<'_>, buffers: Buffers, from: u32) -> PyResult<Pending> {
        let piece = Piece { offset: 0, bytes: buffers.3 };
        let (sends, receives) = (Vec::new(), vec![Message { rank: from, piece }]);
        self.begin(py, Call::Exchange { is_collective: false, sends, receives }, buffers, "")
    }

    fn barrier(&self, py: Python<'_>) -> PyResult<Pending> {
        self.begin(py, Call::Barrier, (0, 0, 0, 0, py.None()), "")
    }

    /// Ends the group: all calls under way fail, here and at the other ranks.
    fn abort(&self, py: Python<'_>, why: &str) {
        let group = lock(&self.group).clone();
        py.detach(|| group.inspect(|group| group.abort(why)));
    }

    /// Leaves the group, when the messages of this rank have arrived.
    fn close(&self, py: Python<'_>) {
        let group = lock(&self.group).take();
        py.detach(|| drop(group));
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        let mut group = lock(&self.group).take();
        if group.is_some() {
            Python::try_attach(|py| py.detach(|| drop(group.take())));
        }
    }
}

/// The address of this host from which it reaches a host, and at which other hosts reach it; `None`
/// if it has no way there.
#[pyfunction]
pub(crate) fn own_address(py: Python<'_>, host: &str) -> PyResult<Option<String>> {
    let host = if host.contains(':') { format!("[{host}]:9") } else { format!("{host}:9") };
    let own = py.detach(|| address_towards(&host)).map_err(|error| failed(py, &error))?;
    Ok(own.map(|own| own.to_string()))
}

fn messages(lengths: &[u64]) -> Vec<Message> {
    let mut offset = 0;
    let message = |(rank, bytes): (u32, &u64)| {
        let piece = Piece { offset, bytes: *bytes };
        offset += bytes;
        Message { rank, piece }
    };
    (0..).zip(lengths).map(message).collect()
}

fn parse<T: FromStr>(py: Python<'_>, text: &str) -> PyResult<T>
where
    T::Err: fmt::Display,
{
    text.parse().map_err(|error: T::Err| invalid(py, &error.to_string()))
}

fn options(settings: &Bound<'_, PyDict>) -> PyResult<Options> {
    let py = settings.py();
    let text = |name: &str| -> PyResult<Option<String>> {
        settings.get_item(name)?.map(|value| value.extract()).transpose()
    };
    let seconds = |name: &str| -> PyResult<Option<Duration>> {
        let value = settings.get_item(name)?.map(|value| value.extract::<f64>()).transpose()?;
        value.map(|value| limit(py, Some(value))).transpose()
    };
    let mut options = Options::default();
    if let Some(bind) = text("bind")? {
        let address = bind.parse::<IpAddr>().map_err(|_| {
            invalid(py, &format!("{bind} is no IP address: bind to one of this host's addresses"))
        })?;
        options.context = options.context.bind(address);
    }
    if let Some(policy) = text("policy")? {
        options.context = options.context.policy_named(&policy);
    }
    if let Some(algorithm) = text("algorithm")? {
        options.algorithm = Some(parse(py, &algorithm)?);
    }
    options.timeout = seconds("timeout")?.unwrap_or(options.timeout);
    options.setup_timeout = seconds("setup_timeout")?.unwrap_or(options.setup_timeout);
    options.peer_timeout = seconds("peer_timeout")?.unwrap_or(options.peer_timeout);
    Ok(options)
}

/// A call that has begun. Its buffers are held until it has ended.
#[pyclass(frozen, module = "fairway._fairway")]
pub(crate) struct Pending {
    state: Mutex<State>,
    keep: Option<Py<PyAny>>,
}

struct State {
    /// `None` when the call has ended.
    pending: Option<fairway_communicator::Pending>,
    /// How it ended.
    outcome: Result<(), Arc<Error>>,
}

impl State {
    /// Waits for at most `time`. Returns true if the call has ended.
    fn wait(&mut self, time: Duration) -> bool {
        let Some(pending) = &self.pending else { return true };
        if !pending.wait_a_while(time) {
            return false;
        }
        let outcome = self.pending.take().map_or(Ok(()), fairway_communicator::Pending::wait);
        self.outcome = outcome.map_err(Arc::new);
        true
    }

    /// Ends the group, because the time of this call is up.
    fn give_up(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.outcome = pending.wait_for(Duration::ZERO).map_err(Arc::new);
        }
    }

    fn outcome(&self) -> Result<(), Arc<Error>> {
        self.outcome.clone()
    }
}

#[pymethods]
impl Pending {
    /// Whether the call has ended, in success or failure. False while another thread waits for it.
    fn done(&self, py: Python<'_>) -> bool {
        py.detach(|| match self.state.try_lock() {
            Ok(mut state) => {
                let has_ended = state.pending.as_ref().is_none_or(|pending| pending.is_done());
                has_ended && state.wait(SLICE)
            }
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => false,
        })
    }

    /// Lets the call go on while no thread waits for it.
    fn go_on(&self, py: Python<'_>) {
        py.detach(|| {
            if let Some(pending) = &lock(&self.state).pending {
                pending.continue_in_background();
            }
        });
    }

    /// Waits for the end of the call for at most `seconds`. Returns true if it has ended; if not,
    /// it goes on.
    fn wait_a_while(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let time = limit(py, Some(seconds))?;
        let ended = py.detach(|| lock(&self.state).wait(time.min(SLICE)));
        py.check_signals()?;
        Ok(ended)
    }

    /// Waits for the end of the call. If it does not end within `timeout`, ends the group.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (timeout, started) = (limit(py, timeout)?, Instant::now());
        loop {
            let ended = py.detach(|| {
                let mut state = lock(&self.state);
                let left = timeout.saturating_sub(started.elapsed());
                let ended = state.wait(left.min(SLICE));
                if !ended && started.elapsed() >= timeout {
                    state.give_up();
                }
                state.pending.is_none().then(|| state.outcome())
            });
            match ended {
                Some(outcome) => return outcome.map_err(|error| failed(py, &error)),
                None => py.check_signals()?,
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(pending) = state.pending.take() {
            let mut held = Some(pending);
            // Without an interpreter the call is waited for here.
            Python::try_attach(|py| py.detach(|| drop(held.take())));
            drop(held);
        }
        // Only now can no operation touch the buffers any more.
        drop(self.keep.take());
    }
}
