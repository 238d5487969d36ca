//! Drops objects of Python whose memory is not registered any more, for threads that are not
//! attached to the interpreter.
//!
//! One thread of the process does that, from the first such object on. The package registers
//! [`stop_releases`] to be called at the exit of the interpreter: the thread ends, and objects that
//! come later stay for ever. A thread that attached to an interpreter while that ends would end
//! the process by a signal.

use fairway::embed::HomeProcess;
use pyo3::prelude::*;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The releases of the process that last released an object, this one or its parent. Each process
/// has its own for ever, because a lock of its parent may be held by a thread that it lacks.
static CURRENT: AtomicPtr<Releases> = AtomicPtr::new(ptr::null_mut());

struct Releases {
    home: HomeProcess,
    stage: Mutex<Stage>,
}

enum Stage {
    /// No object has been released yet.
    Idle,
    Running(Sender<Py<PyAny>>, JoinHandle<()>),
    /// The interpreter ends.
    Stopped,
}

impl Releases {
    /// Returns the releases of this process.
    fn current() -> &'static Releases {
        loop {
            let known = CURRENT.load(Ordering::Acquire);
            // SAFETY: null, or a value that is never dropped.
            if let Some(known) = unsafe { known.as_ref() }
                && known.home.is_this()
            {
                return known;
            }
            let made = Releases { home: HomeProcess::this(), stage: Mutex::new(Stage::Idle) };
            let made = Box::into_raw(Box::new(made));
            let swapped =
                CURRENT.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire);
            if swapped.is_err() {
                // SAFETY: made above, and seen by no other thread.
                drop(unsafe { Box::from_raw(made) });
            }
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops an object soon, on the thread for that. Does not wait.
pub(crate) fn release(object: Py<PyAny>) {
    let mut stage = Releases::current().stage();
    if let Stage::Idle = *stage {
        let (sender, receiver) = mpsc::channel::<Py<PyAny>>();
        let work = move || {
            for object in receiver {
                Python::attach(|_| drop(object));
            }
        };
        match thread::Builder::new().name("fairway-release".into()).spawn(work) {
            Ok(thread) => *stage = Stage::Running(sender, thread),
            // The next object may find a thread. Dropping this one here could end the process.
            Err(_) => return std::mem::forget(object),
        }
    }
    match &*stage {
        // The thread ends only when the sender is gone.
        Stage::Running(sender, _) => {
            if let Err(left) = sender.send(object) {
                std::mem::forget(left);
            }
        }
        Stage::Idle | Stage::Stopped => std::mem::forget(object),
    }
}

/// Drops the objects that were released until now, and ends the thread. Objects that are released
/// after that stay.
#[pyfunction]
pub(crate) fn stop_releases(py: Python<'_>) {
    // No thread attaches to the interpreter while it holds the lock of the stage.
    let stage = std::mem::replace(&mut *Releases::current().stage(), Stage::Stopped);
    // A thread that detaches from an interpreter which the end of the process destroys does not
    // come back, so that is done only if there is something to wait for.
    if let Stage::Running(sender, thread) = stage {
        py.detach(|| {
            drop(sender);
            // If the thread panicked, the panic was reported when it happened.
            let _ = thread.join();
        });
    }
}
