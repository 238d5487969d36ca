//! Connections to peers.

use fairway::{Context, Error, JettyOptions, LongPackets, Peer};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, PoisonError};

use crate::copies::Maps;
use crate::error::{exception, not_forked};
use crate::memory::{Key, Local};
use crate::pieces::Job;
use crate::queue::{Operation, Queue, value};
use crate::request::Request;
use crate::waiting::{in_slices, limit};

/// Endpoints for blocking operations: each runs one at a time, and idle ones are kept.
pub(crate) struct Lanes {
    context: Context,
    idle: Mutex<Vec<fairway::Jetty>>,
}

impl Lanes {
    pub(crate) fn new(context: Context) -> Lanes {
        Lanes { context, idle: Mutex::default() }
    }

    fn take(&self) -> Result<fairway::Jetty, Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.context.create_jetty(JettyOptions::default().depth(2)), Ok)
    }

    fn put_back(&self, lane: fairway::Jetty) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
    }
}

/// A connection to another context.
#[pyclass(frozen, module = "fairway._fairway")]
pub(crate) struct Connection {
    peer: Peer,
    /// Memory of the peer that this process has mapped, if it maps any.
    maps: Option<Maps>,
    lanes: Arc<Lanes>,
    queue: Arc<Queue>,
}

impl Connection {
    pub(crate) fn new(peer: Peer, maps: bool, lanes: Arc<Lanes>, queue: Arc<Queue>) -> Connection {
        Connection { peer, maps: maps.then(Maps::default), lanes, queue }
    }
}

impl Connection {
    /// Fails in a child process that was forked after the context was made.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        not_forked(py, self.lanes.context.is_forked())
    }
}

#[pymethods]
impl Connection {
    /// Executes a request, and returns its result: the previous value of a word for atomics,
    /// otherwise the number of bytes.
    #[pyo3(signature = (request, timeout=None))]
    fn run(&self, py: Python<'_>, request: &Request, timeout: Option<f64>) -> PyResult<u64> {
        self.check(py)?;
        let timeout = limit(py, timeout)?;
        let lane = self.lanes.take().map_err(|error| exception(py, &error))?;
        if let Err(error) = request.post(py, &lane, &self.peer, 0) {
            self.lanes.put_back(lane);
            return Err(error);
        }
        let done = in_slices(py, timeout, |slice| lane.wait(slice));
        // After a time-out or a signal the operation is called off, and the lane dropped.
        if done.is_err() && request.ends_with_its_jetty() {
            // An error reports that the context has been closed.
            let _ = py.detach(|| lane.abort());
        }
        let done = done?;
        self.lanes.put_back(lane);
        value(py, done)
    }

    /// Starts a request.
    fn start(&self, py: Python<'_>, request: &Request) -> PyResult<Operation> {
        self.check(py)?;
        self.queue.begin(py, |jetty, id| request.post(py, jetty, &self.peer, id))
    }

    /// Starts READs or WRITEs (`way`) of many pieces. `rows` has three integers of 64 bits for each
    /// of them: offset in `local`, offset in the peer's segment, and length, in bytes.
    fn start_many(
        &self,
        py: Python<'_>,
        way: &str,
        local: &Local,
        key: &Key,
        rows: &[u8],
    ) -> PyResult<Operation> {
        self.check(py)?;
        let job = Job::new(py, &self.peer, (way, local), key, rows)?;
        let maps = self.maps.as_ref().filter(|_| job.reads());
        let memory = py.detach(|| maps.and_then(|maps| maps.find(&self.peer, key.key())));
        match memory {
            Some(memory) => self.queue.begin_copy(py, job, memory),
            None => self.queue.begin_many(py, job),
        }
    }

    /// Closes the connection. Does nothing in a forked child.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.lanes.context.is_forked() {
            return Ok(());
        }
        py.detach(|| self.peer.close()).map_err(|error| exception(py, &error))
    }

    /// The address of the peer.
    #[getter]
    fn address(&self) -> String {
        self.peer.address().to_string()
    }

    /// False once the connection is closed, by either side, or the peer is dead.
    #[getter]
    fn alive(&self) -> bool {
        self.peer.is_alive()
    }

    /// Statistics of the connection.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check(py)?;
        let stats = py.detach(|| self.peer.stats());
        let to = PyDict::new(py);
        to.set_item("mtu", stats.mtu)?;
        to.set_item("rtt_us", stats.rtt.as_secs_f64() * 1e6)?;
        to.set_item("window_bytes", stats.window_bytes)?;
        to.set_item("sent", stats.sent)?;
        to.set_item("lost", stats.lost)?;
        to.set_item("marked", stats.marked)?;
        to.set_item("in_flight", stats.in_flight)?;
        to.set_item("paths", self.peer.paths())?;
        to.set_item("long_packets_lost", self.peer.long_packets() == LongPackets::AreLost)?;
        Ok(to)
    }
}
