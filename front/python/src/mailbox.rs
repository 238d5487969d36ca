//! Mailboxes: memory whose buffers the receiver chooses.

use fairway::{Context, Epoch};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{exception, not_forked};
use crate::memory::Local;
use crate::waiting::{in_slices, limit};

/// A mailbox: peers put into it, and this side posts the buffers.
#[pyclass(frozen, module = "fairway._fairway")]
pub(crate) struct Mailbox {
    mailbox: fairway::Mailbox,
    context: Context,
}

impl Mailbox {
    pub(crate) fn new(mailbox: fairway::Mailbox, context: Context) -> Mailbox {
        Mailbox { mailbox, context }
    }
}

#[pymethods]
impl Mailbox {
    /// Adds a buffer, with a number.
    fn post(&self, py: Python<'_>, local: &Local, id: u64) -> PyResult<()> {
        local.with(py, |local| self.mailbox.post(local, id))
    }

    /// Waits for the end of the next epoch, and returns its fields.
    #[pyo3(signature = (timeout=None))]
    fn wait<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyDict>> {
        let timeout = limit(py, timeout)?;
        let epoch: Epoch = in_slices(py, timeout, |slice| self.mailbox.wait(slice))?;
        let to = PyDict::new(py);
        to.set_item("number", epoch.epoch)?;
        to.set_item("id", epoch.id.value())?;
        to.set_item("bytes", epoch.bytes)?;
        to.set_item("puts", epoch.operations)?;
        to.set_item("early", epoch.early)?;
        to.set_item("cancelled", epoch.cancelled)?;
        to.set_item("extent", epoch.extent)?;
        Ok(to)
    }

    /// Number of the current epoch.
    #[getter]
    fn epoch(&self, py: Python<'_>) -> PyResult<u64> {
        not_forked(py, self.context.is_forked())?;
        Ok(self.mailbox.epoch())
    }

    /// Ends the current epoch before it is complete, and returns its number.
    fn end_epoch(&self, py: Python<'_>) -> PyResult<u64> {
        self.mailbox.increment_epoch().map_err(|error| exception(py, &error))
    }

    /// Closes the mailbox; later puts are refused. Does nothing in a forked child.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.context.is_forked() {
            return Ok(());
        }
        self.mailbox.close(true).map_err(|error| exception(py, &error))
    }
}
