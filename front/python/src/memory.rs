//! Registered memory of Python objects, and names for places in it and in a peer's memory.

use fairway::embed::HomeProcess;
use fairway::{Error, Memory, RemoteSlice, Rights, Segment, SegmentKey};
use pyo3::prelude::*;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{exception, invalid, not_forked};
use crate::releases::release;
use crate::waiting::in_slices;

/// Why an operation on a closed segment fails.
pub(crate) const CLOSED: &str = "the segment has been closed: register the memory again";

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
    fn new(registered: Registered) -> Arc<Held> {
        Arc::new(Held { registered: Mutex::new(Some(registered)), home: HomeProcess::this() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Registered>> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `act` with the segment, which must not be cloned; `None` if it has been closed.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&Segment) -> T) -> Option<T> {
        self.lock().as_ref().map(|registered| act(&registered.segment))
    }
}

struct Registered {
    context: fairway::Context,
    segment: Segment,
    owner: Arc<Owner>,
}

/// The object with the memory. It is held until no operation can touch that.
#[derive(Default)]
struct Owner(Mutex<Ownership>);

#[derive(Default)]
struct Ownership {
    /// `None` if a call that closes the segment has taken it, or the memory is not an object's.
    object: Option<Py<PyAny>>,
    /// Whether no operation can touch the memory any more.
    ended: bool,
}

impl Owner {
    fn lock(&self) -> MutexGuard<'_, Ownership> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        self.lock().ended
    }
}

/// Dropped with the registered memory.
struct Keeper(Arc<Owner>);

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut owner = self.0.lock();
        owner.ended = true;
        if let Some(object) = owner.object.take() {
            release(object);
        }
    }
}

impl Registered {
    /// Registers memory whose owner is `object`, if it has one.
    fn new(
        context: &fairway::Context,
        (memory, object): (Memory, Option<Py<PyAny>>),
        rights: Rights,
    ) -> Result<Registered, Error> {
        let owner = Arc::new(Owner(Mutex::new(Ownership { object, ended: false })));
        let memory = memory.keeping(Keeper(owner.clone()));
        let segment = context.register(memory, rights)?;
        Ok(Registered { context: context.clone(), segment, owner })
    }

    /// Ends the registration, and waits until no operation can touch the memory. If the wait is
    /// interrupted, the owner is dropped later.
    fn close(self, py: Python<'_>) -> PyResult<()> {
        let Registered { context, segment, owner } = self;
        // This thread drops the object when the wait is over, so that the caller may change it.
        let object = owner.lock().object.take();
        py.detach(|| drop(segment));
        let closed = in_slices(py, Duration::MAX, |slice| {
            match context.wait_until(|| owner.has_ended(), slice) {
                // A poll or two of a context that was shut down free the memory.
                Err(Error::ShutDown) => {
                    Err(Error::Timeout { awaited: "release of the segment", waited: slice })
                }
                ended => ended,
            }
        });
        let mut ownership = owner.lock();
        if !ownership.ended {
            ownership.object = object;
        }
        closed
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
        // SAFETY: the memory keeps its owner, and no code makes Rust references to it. Python code
        // may write to the bytes while a peer does, which mixes the bytes of both, as it may for
        // shared memory of any kind.
        let memory = unsafe { Memory::from_raw(start, length) };
        let registered = Registered::new(context, (memory, Some(owner)), rights)?;
        let key = registered.segment.key();
        Ok(Registration { held: Held::new(registered), key })
    }

    /// Registers `length` bytes of zeros that processes on this host may map. Also returns the file
    /// behind them, so that Python has a mapping of its own.
    pub(crate) fn shared(
        context: &fairway::Context,
        length: usize,
        rights: Rights,
    ) -> Result<(Registration, OwnedFd), Error> {
        let memory = Memory::shared(length)?;
        let io = |source| Error::Io { doing: "share memory".into(), source };
        let file = memory.file().map(|file| file.try_clone_to_owned().map_err(io));
        let file = file.ok_or(Error::MemoryGone)??;
        let registered = Registered::new(context, (memory, None), rights)?;
        let key = registered.segment.key();
        Ok((Registration { held: Held::new(registered), key }, file))
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

    /// Ends the registration, and waits until no operation can touch the memory. Fails if memory is
    /// posted to a Jetty or a mailbox. Does nothing in a forked child.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.held.home.is_this() {
            return Ok(());
        }
        // The lock keeps others from posting the memory meanwhile.
        let mut held = self.held.lock();
        let Some(registered) = &*held else { return Ok(()) };
        if let Some(to) = registered.segment.posted_to() {
            return Err(exception(py, &Error::Posted { to }));
        }
        let registered = held.take();
        drop(held);
        registered.map_or(Ok(()), |registered| registered.close(py))
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
