//! Registered memory of Python objects, and names for places in it and in a peer's memory.

use fairway::embed::HomeProcess;
use fairway::{Error, Memory, RemoteSlice, Rights, Segment, SegmentKey};
use pyo3::prelude::*;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::error::{exception, invalid, not_forked};
use crate::waiting::in_slices;

/// Why an operation on a closed segment fails.
pub(crate) const CLOSED: &str = "the segment has been closed: register the memory again";

/// Drops an object from a thread that need not be attached to the interpreter. At the end of the
/// process, when there is no interpreter any more, the object stays.
pub(crate) fn release(object: Py<PyAny>) {
    let mut held = Some(object);
    Python::try_attach(|_| drop(held.take()));
    std::mem::forget(held);
}

/// Memory of a Python object that is registered with a NIC. The object is held until the
/// registration has ended and no operation can touch the memory.
#[pyclass(frozen, module = "fairway._fairway")]
pub(crate) struct Registration {
    held: Arc<Held>,
    key: SegmentKey,
}

/// What a registration and the operations on it share. It can be dropped by a thread that is not
/// attached to the interpreter.
pub(crate) struct Held {
    registered: Mutex<Option<Registered>>,
    home: HomeProcess,
}

impl Held {
    fn new(segment: Segment, owner: Py<PyAny>) -> Arc<Held> {
        let registered = Mutex::new(Some(Registered { segment, owner }));
        Arc::new(Held { registered, home: HomeProcess::this() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Registered>> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `act` with the segment, which must not be cloned; `None` if it has been closed.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&Segment) -> T) -> Option<T> {
        self.lock().as_ref().map(|registered| act(&registered.segment))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let registered = self.registered.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(registered) = registered.take() else { return };
        match self.home.is_this() {
            true => _ = registered.end(),
            // The parent's registration stays; the object in this process is dropped.
            false => release(registered.owner),
        }
    }
}

struct Registered {
    segment: Segment,
    owner: Py<PyAny>,
}

impl Registered {
    /// Ends the registration on a thread of its own, which waits for operations under way and then
    /// drops the owner.
    fn end(self) -> Receiver<()> {
        let (sender, receiver) = mpsc::channel();
        let Registered { segment, owner } = self;
        let work = move || {
            // No clone of the segment exists, so this cannot fail. If it did, the memory might
            // still be in use: the owner stays for ever.
            match segment.into_memory() {
                Ok(memory) => {
                    drop(memory);
                    release(owner);
                }
                Err(_) => std::mem::forget(owner),
            }
            // The receiver is gone if no call waits.
            let _ = sender.send(());
        };
        let started = thread::Builder::new().name("fairway-release".into()).spawn(work);
        // Without a thread the closure is dropped with all that it holds. Memory that operations
        // may touch must not be freed, and aborting is the only other way to prevent that.
        started.expect("the system has a thread for the release of memory");
        receiver
    }
}

/// Memory to be registered, with the object that keeps it.
pub(crate) struct Lent {
    pub(crate) address: usize,
    pub(crate) length: usize,
    pub(crate) owner: Py<PyAny>,
}

impl Registration {
    /// Registers memory.
    ///
    /// # Safety
    /// The bytes exist and are writable as long as the owner does.
    pub(crate) unsafe fn new(
        context: &fairway::Context,
        lent: Lent,
        rights: Rights,
    ) -> Result<Registration, Error> {
        let Lent { address, length, owner } = lent;
        let start = NonNull::new(address as *mut u8).unwrap_or(NonNull::dangling());
        // SAFETY: the owner is held until `into_memory` has returned the memory, and no code makes
        // Rust references to it. Python code may write to the bytes while a peer does, which mixes
        // the bytes of both, as it may for shared memory of any kind.
        let memory = unsafe { Memory::from_raw(start, length) };
        let segment = context.register(memory, rights)?;
        let key = segment.key();
        Ok(Registration { held: Held::new(segment, owner), key })
    }

    /// Registers `length` bytes of zeros that processes on this host may map. Also returns the file
    /// behind them, so that Python has a mapping of its own.
    pub(crate) fn shared(
        py: Python<'_>,
        context: &fairway::Context,
        length: usize,
        rights: Rights,
    ) -> Result<(Registration, OwnedFd), Error> {
        let memory = Memory::shared(length)?;
        let io = |source| Error::Io { doing: "share memory".into(), source };
        let file = memory.file().map(|file| file.try_clone_to_owned().map_err(io));
        let file = file.ok_or(Error::MemoryGone)??;
        let segment = context.register(memory, rights)?;
        let key = segment.key();
        Ok((Registration { held: Held::new(segment, py.None()), key }, file))
    }

    /// Calls `act` with the segment, which must not be cloned.
    pub(crate) fn with<T>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&Segment) -> Result<T, Error>,
    ) -> PyResult<T> {
        not_forked(py, !self.held.home.is_this())?;
        match self.held.with(act) {
            Some(done) => done.map_err(|error| exception(py, &error)),
            None => Err(invalid(py, CLOSED)),
        }
    }
}

#[pymethods]
impl Registration {
    /// The key with which peers can access the memory.
    #[getter]
    fn key(&self) -> Key {
        Key { key: self.key }
    }

    /// Whether the registration has ended.
    #[getter]
    fn closed(&self) -> bool {
        self.held.home.is_this() && self.held.lock().is_none()
    }

    /// Ends the registration, and waits until no operation can touch the memory. Does nothing in a
    /// forked child.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.held.home.is_this() {
            return Ok(());
        }
        let Some(registered) = self.held.lock().take() else { return Ok(()) };
        let ended = Mutex::new(registered.end());
        in_slices(py, Duration::MAX, |slice| {
            let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            match ended.recv_timeout(slice) {
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    Err(Error::Timeout { awaited: "release of the segment", waited: slice })
                }
                Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => Ok(()),
            }
        })
    }
}

/// A range of registered memory: the local side of an operation.
#[pyclass(frozen, module = "fairway._fairway")]
pub(crate) struct Local {
    registration: Py<Registration>,
    offset: u64,
    length: u64,
}

impl Local {
    /// Calls `act` with the range.
    pub(crate) fn with<T>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(fairway::LocalSlice<'_>) -> Result<T, Error>,
    ) -> PyResult<T> {
        let range = self.offset..self.offset.saturating_add(self.length);
        self.registration.get().with(py, |segment| act(segment.slice(range)))
    }

    /// The memory, and the range of it.
    pub(crate) fn held(&self) -> (Arc<Held>, Range<u64>) {
        let range = self.offset..self.offset.saturating_add(self.length);
        (self.registration.get().held.clone(), range)
    }
}

#[pymethods]
impl Local {
    #[new]
    fn new(registration: Py<Registration>, offset: u64, length: u64) -> Local {
        Local { registration, offset, length }
    }

    fn __len__(&self) -> usize {
        self.length as usize
    }
}

/// The key to a segment of a peer. `str(key)` is text of 48 hexadecimal digits, and `Key(text)` is
/// the key again.
#[pyclass(frozen, eq, hash, module = "fairway")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    key: SegmentKey,
}

impl Key {
    pub(crate) fn key(&self) -> SegmentKey {
        self.key
    }
}

#[pymethods]
impl Key {
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Key> {
        let key =
            text.parse().map_err(|error| invalid(py, &format!("{text:?} is no key: {error}")))?;
        Ok(Key { key })
    }

    /// The place `offset` bytes from the start of the segment.
    fn at(&self, offset: u64) -> Place {
        Place { place: self.key.at(offset) }
    }

    /// Length of the segment in bytes.
    fn __len__(&self) -> usize {
        self.key.length as usize
    }

    fn __str__(&self) -> String {
        self.key.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Key('{}')", self.key)
    }

    /// Keys are pickled as their text.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, pyo3::types::PyType>, (String,)) {
        (slf.get_type(), (slf.get().key.to_string(),))
    }
}

/// A place in a segment of a peer.
#[pyclass(frozen, module = "fairway._fairway")]
#[derive(Clone, Copy)]
pub(crate) struct Place {
    place: RemoteSlice,
}

impl Place {
    pub(crate) fn slice(&self) -> RemoteSlice {
        self.place
    }
}

/// Parses rights: letters of `r` (READ), `w` (WRITE) and `a` (atomics), in any order.
pub(crate) fn rights(py: Python<'_>, text: &str) -> PyResult<Rights> {
    text.chars().try_fold(Rights::NONE, |rights, letter| match letter {
        'r' => Ok(rights.with(Rights::READ)),
        'w' => Ok(rights.with(Rights::WRITE)),
        'a' => Ok(rights.with(Rights::ATOMIC)),
        _ => Err(invalid(
            py,
            &format!("rights can't be {text:?}: give letters of r (READ), w (WRITE), a (atomics)"),
        )),
    })
}
