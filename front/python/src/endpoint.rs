//! Jetties that receive messages.

use fairway::{Completion, Jetty};
use pyo3::prelude::*;

use crate::error::failed;
use crate::memory::Local;
use crate::waiting::{in_slices, limit};

/// A Jetty: peers send messages to its number.
#[pyclass(frozen, module = "fairway._fairway")]
pub(crate) struct Endpoint {
    jetty: Jetty,
}

impl Endpoint {
    pub(crate) fn new(jetty: Jetty) -> Endpoint {
        Endpoint { jetty }
    }
}

/// A message that arrived: the receive's number, length in bytes, immediate data, and the address
/// of the sender while it is connected.
type Arrived = (u64, u32, Option<u64>, Option<String>);

#[pymethods]
impl Endpoint {
    /// The number that peers send to.
    #[getter]
    fn number(&self) -> u32 {
        self.jetty.number()
    }

    /// Posts a buffer for a message, with a number.
    fn post(&self, py: Python<'_>, local: &Local, id: u64) -> PyResult<()> {
        local.with(py, |local| self.jetty.post_receive(local, id))
    }

    /// Waits for the next message.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Arrived> {
        let timeout = limit(py, timeout)?;
        let done: Completion = in_slices(py, timeout, |slice| self.jetty.wait(slice))?;
        let done = done.result().map_err(|error| failed(py, error))?;
        let sender = self.jetty.peer_of(&done).map(|peer| peer.address().to_string());
        Ok((done.id.value(), done.bytes, done.immediate, sender))
    }
}
