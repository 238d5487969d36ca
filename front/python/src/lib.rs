//! The extension module `fairway._fairway` of the Python package `fairway`.
//!
//! **What it is.** The parts of the package that have to be native: a NIC ([`fairway::Context`])
//! and its objects as classes, a type with the buffer protocol over registered memory, DLPack, and
//! operations that the event loop of asyncio can wait for; and groups of ranks for collectives. The
//! package's modules in Python give these classes their public form
//! (`front/python/fairway/_memory.py`, `front/python/fairway/torch.py`).
//!
//! **May import:** `fairway`, `fairway-communicator`, `pyo3` and `libc`.
//!
//! **Invariants.** The extension uses the stable ABI of Python 3.9 only; the slots of the buffer
//! protocol, which joined that ABI in 3.11, are those of every version since 3.9. No thread waits
//! while it holds the interpreter: a wait runs in slices, and signals are handled between them.
//! Memory of a Python object is held until no operation can touch it, even after a time-out. One of
//! the threads that this crate starts calls into Python, to drop such objects (`releases`), and
//! ends before the interpreter does.
//!
//! **How to test:** `cargo test -p fairway-python` builds the extension and runs the tests in
//! Python under `front/python/tests`.
#![warn(unsafe_op_in_unsafe_fn)]

use pyo3::prelude::*;

mod connection;
mod copies;
mod dlpack;
mod endpoint;
mod error;
mod mailbox;
mod memory;
mod nic;
mod pieces;
mod queue;
mod ranks;
mod releases;
mod request;
mod view;
mod waiting;

/// Native classes of the package `fairway`; programs use the package itself.
#[pymodule]
fn _fairway(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("View", view::view_type(module.py())?)?;
    module.add_class::<nic::Nic>()?;
    module.add_class::<connection::Connection>()?;
    module.add_class::<endpoint::Endpoint>()?;
    module.add_class::<mailbox::Mailbox>()?;
    module.add_class::<memory::Registration>()?;
    module.add_class::<memory::Local>()?;
    module.add_class::<memory::Key>()?;
    module.add_class::<memory::Place>()?;
    module.add_class::<request::Request>()?;
    module.add_class::<queue::Operation>()?;
    module.add_class::<queue::Reactor>()?;
    module.add_class::<ranks::Ranks>()?;
    module.add_class::<ranks::Pending>()?;
    module.add_function(wrap_pyfunction!(ranks::own_address, module)?)?;
    module.add_function(wrap_pyfunction!(releases::stop_releases, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_address, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_capsule, module)?)
}
