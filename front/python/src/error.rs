//! Errors of Rust as exceptions of `fairway._errors`.

use fairway::{Error, OperationError, Status};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The module that defines the exceptions.
static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// Returns the exception for an error, with the error's text.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Failed { status, .. } => class_of_status(*status),
        Error::Timeout { .. } | Error::Unanswered { .. } | Error::NoSharedMemory { .. } => {
            "Timeout"
        }
        Error::NoListener { .. } | Error::Refused { .. } => "ConnectionRefused",
        Error::PeerGone { .. } | Error::ShutDown => "PeerGone",
        Error::Io { .. } | Error::UnknownHost { .. } | Error::MemoryGone => "SystemFailure",
        Error::Limit { .. } | Error::QueueFull | Error::TooManyOperations => "LimitReached",
        Error::TooManyReceives | Error::TooManyPuts | Error::TooManyBuffers => "LimitReached",
        Error::TooManyOrders => "LimitReached",
        Error::Parameter { .. } | Error::Number { .. } | Error::OutOfBounds { .. } => "Invalid",
        Error::TooLong { .. } | Error::Width { .. } | Error::Foreign { .. } => "Invalid",
        Error::ReadOnly | Error::Forked | Error::Posted { .. } => "Invalid",
        _ => "Error",
    };
    let status = match error {
        Error::Failed { status, .. } => Some(*status),
        _ => None,
    };
    new(py, class, &text(error), status).unwrap_or_else(|failure| failure)
}

/// Returns the text of an error, with names and remedies of Python instead of Rust's.
fn text(error: &Error) -> String {
    let own = match error {
        Error::TooManyOperations | Error::QueueFull => {
            "too many operations are under way: wait for some"
        }
        Error::TooManyPuts => "too many puts are under way: wait for some",
        Error::TooManyBuffers => "too many buffers are posted to mailboxes: post fewer",
        Error::TooManyReceives => "too many buffers are posted to Jetties: post fewer",
        Error::TooManyOrders => "too many Jetties are in use: use fewer",
        Error::EpochNotKept => "the mailbox does not keep that epoch: give it more `retired`",
        Error::ShutDown => "the context has been shut down (closed): make another one",
        Error::Forked => {
            "the context belongs to the process that this one was forked from: make one after the \
             fork"
        }
        Error::Limit { name: "completions" } => {
            "no more completions: make Jetties with less `depth`, or drop some"
        }
        Error::Limit { name } => return format!("no more {name}: close or drop some"),
        _ => {
            let text = error.to_string();
            let text = text.replace("SegmentKey::length", "its length, len(key)");
            return text.replace(", or raise the peer's Limits", "");
        }
    };
    own.to_owned()
}

/// Returns the exception for an operation that failed.
pub(crate) fn failed(py: Python<'_>, error: OperationError) -> PyErr {
    exception(py, &Error::from(error))
}

/// Returns the exception for an argument that this crate refuses.
pub(crate) fn invalid(py: Python<'_>, text: &str) -> PyErr {
    new(py, "Invalid", text, None).unwrap_or_else(|failure| failure)
}

/// Fails if an object belongs to the process that this one was forked from: its locks may be held
/// by threads that do not exist here.
pub(crate) fn not_forked(py: Python<'_>, is_forked: bool) -> PyResult<()> {
    if is_forked { Err(exception(py, &Error::Forked)) } else { Ok(()) }
}

/// Returns an exception of this class of `fairway._errors`.
pub(crate) fn named(py: Python<'_>, class: &str, text: &str) -> PyErr {
    new(py, class, text, None).unwrap_or_else(|failure| failure)
}

/// Makes an exception. Fails with the exception that prevents it.
fn new(py: Python<'_>, class: &str, text: &str, status: Option<Status>) -> PyResult<PyErr> {
    let import = || Ok::<_, PyErr>(py.import("fairway._errors")?.unbind());
    let module = MODULE.get_or_try_init(py, import)?.bind(py);
    let made = module.getattr(class)?.call1((text,))?;
    if let Some(status) = status {
        made.setattr("status", format!("{status:?}"))?;
    }
    if !made.is_instance_of::<pyo3::exceptions::PyBaseException>() {
        return Err(PyRuntimeError::new_err(text.to_owned()));
    }
    Ok(PyErr::from_value(made))
}

fn class_of_status(status: Status) -> &'static str {
    match status {
        Status::RemoteAccess | Status::RemoteRights => "RemoteAccess",
        Status::RemoteNoJetty | Status::RemoteNoMailbox => "RemoteAccess",
        Status::PeerDead | Status::PeerClosed | Status::Flushed => "PeerGone",
        Status::TimedOut | Status::ReceiverNotReady => "Timeout",
        _ => "OperationFailed",
    }
}
