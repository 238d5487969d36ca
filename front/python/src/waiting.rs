//! Waits that release the interpreter, and end when a signal does.

use fairway::Error;
use pyo3::prelude::*;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{exception, invalid};

/// Longest time for which a wait leaves signals unhandled.
const SLICE: Duration = Duration::from_millis(100);

/// Longest wait that can be requested; longer ones are cut to it.
const WAIT_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Converts a time limit in seconds; `None` means no limit.
pub(crate) fn limit(py: Python<'_>, seconds: Option<f64>) -> PyResult<Duration> {
    let Some(seconds) = seconds else { return Ok(WAIT_MAX) };
    if seconds.is_nan() || seconds < 0.0 {
        let text = format!("timeout can't be {seconds}: give seconds, 0 or more, or None");
        return Err(invalid(py, &text));
    }
    Ok(Duration::try_from_secs_f64(seconds).map_or(WAIT_MAX, |limit| limit.min(WAIT_MAX)))
}

/// Calls `wait` with short time limits until it returns something other than [`Error::Timeout`] or
/// `timeout` is over. The interpreter is released meanwhile; between the calls signals are handled,
/// and an exception of a handler (`KeyboardInterrupt`) ends the wait.
pub(crate) fn in_slices<T: Send>(
    py: Python<'_>,
    timeout: Duration,
    wait: impl Fn(Duration) -> Result<T, Error> + Sync,
) -> PyResult<T> {
    let started = Instant::now();
    loop {
        let left = timeout.saturating_sub(started.elapsed());
        match py.detach(|| wait(left.min(SLICE))) {
            Ok(value) => return Ok(value),
            Err(Error::Timeout { awaited, .. }) => {
                py.check_signals()?;
                if started.elapsed() >= timeout {
                    let error = Error::Timeout { awaited, waited: timeout };
                    return Err(exception(py, &error));
                }
            }
            Err(error) => return Err(exception(py, &error)),
        }
    }
}

/// Runs `work`, which takes its own time, on a thread, and waits for it likewise. If a signal's
/// handler raises an exception, the thread finishes by itself and its result is dropped.
pub(crate) fn on_thread<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    run_on_thread(py, work)?.map_err(|error| exception(py, &error))
}

/// As [`on_thread`], for work whose errors the caller converts.
pub(crate) fn run_on_thread<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::channel();
    let started = thread::Builder::new().name("fairway-wait".into()).spawn(move || {
        // The receiver is gone if the caller was interrupted.
        let _ = sender.send(work());
    });
    started.map_err(|source| {
        exception(py, &Error::Io { doing: "start a thread that waits".into(), source })
    })?;
    let receiver = std::sync::Mutex::new(receiver);
    loop {
        let received = py.detach(|| {
            let receiver = receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            receiver.recv_timeout(SLICE)
        });
        match received {
            Ok(result) => return Ok(result),
            Err(mpsc::RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(exception(py, &Error::ShutDown));
            }
        }
    }
}
