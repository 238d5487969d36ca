//! Pointer-like access to a peer's memory: one word at a time; each call waits for its result.

use crate::options::JettyOptions;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairway_runtime::Memory;
use fairway_ub::Status;

use crate::context::Context;
use crate::error::Error;
use crate::jetty::Jetty;
use crate::key::{RemoteSlice, SegmentKey};
use crate::peer::Peer;
use crate::same_host::Mapped;
use crate::segment::{LocalSlice, Segment};
use crate::word::{AtomicOp, RemoteWord};

mod pod;

pub use pod::{Pod, Word};

/// Default time limit of an operation.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Length of the longest value, in bytes.
const VALUE_MAX: usize = fairway_ub::wire::BYPASS_BYTES as usize;

/// A peer's segment, for access by [`RemotePtr`]s; see [`Peer::memory`].
///
/// Clones share one Jetty and one piece of scratch memory, and so work one at a time. Threads that
/// are to work in parallel should each call [`Peer::memory`].
#[derive(Clone)]
pub struct RemoteMemory {
    inner: Arc<Inner>,
    timeout: Duration,
}

struct Inner {
    peer: Peer,
    key: SegmentKey,
    /// The mapped segment, if its owner is on this host and allows the mapping.
    mapped: Option<Mapped>,
    /// `None` before it is needed for memory that is mapped, and after a time-out: the operation
    /// given up may still complete, and must not write to the scratch memory of a later one.
    lane: Mutex<Option<Lane>>,
}

/// The endpoint and the memory of an operation under way.
struct Lane {
    jetty: Jetty,
    scratch: Segment,
}

impl Lane {
    fn new(peer: &Peer) -> Result<Lane, Error> {
        let context = Context::of(peer.handle.clone());
        let jetty = context.create_jetty(JettyOptions::default().depth(2))?;
        let memory = Memory::from_vec(vec![0; VALUE_MAX]);
        let scratch = context.register(memory, fairway_ub::Rights::NONE)?;
        Ok(Lane { jetty, scratch })
    }
}

impl Peer {
    /// Returns pointer-like access to one of the peer's segments.
    ///
    /// # Errors
    /// No Jetty, completion queue or segment is left on this side. The first access shows
    /// whether the key is valid.
    pub fn memory(&self, key: SegmentKey) -> Result<RemoteMemory, Error> {
        let mapped = Mapped::request(self.incarnation(), &key);
        // Mapped memory needs no operations of the NIC, unless its owner gives it up.
        let lane = Mutex::new(if mapped.is_some() { None } else { Some(Lane::new(self)?) });
        let inner = Arc::new(Inner { peer: self.clone(), key, mapped, lane });
        Ok(RemoteMemory { inner, timeout: TIMEOUT_DEFAULT })
    }
}

impl RemoteMemory {
    /// Returns the same with another time limit of an operation (default: 5 s).
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> RemoteMemory {
        RemoteMemory { timeout, ..self }
    }

    /// True if the memory is mapped into this process. Then an access is a load or store of the
    /// CPU, without packets. That requires that the peer is a process of the same user on the same
    /// host, and that the memory is [`Memory::shared`].
    pub fn is_mapped(&self) -> bool {
        self.inner.mapped.is_some()
    }

    /// Copies bytes into the memory, from `offset` bytes from the segment's start on, if it
    /// [is mapped](RemoteMemory::is_mapped) and the peer lets this side write it. Returns false if
    /// it could not: the bytes must be written by an operation then.
    ///
    /// A message that is sent after the call arrives after the bytes.
    pub fn copy_in(&self, offset: u64, data: &[u8]) -> bool {
        self.mapped().is_some_and(|mapped| mapped.store(offset, data))
    }

    /// Returns the mapping, while the peer is alive.
    fn mapped(&self) -> Option<&Mapped> {
        self.inner.mapped.as_ref().filter(|_| self.inner.peer.is_alive())
    }

    /// The peer that owns the segment.
    pub fn peer(&self) -> &Peer {
        &self.inner.peer
    }

    /// The segment's key.
    pub fn key(&self) -> SegmentKey {
        self.inner.key
    }

    /// Fills `local` from `offset` bytes after the segment's start on, if the memory is mapped: the
    /// calling thread copies, and no packet is sent. The copy has no order with operations that
    /// were posted.
    ///
    /// Returns false if the memory is not mapped, its rights don't permit READs, its owner has
    /// deregistered it, or memory is missing on either side. Any byte of `local` may have changed
    /// then. A READ of the same range succeeds, or reports why it can't.
    ///
    /// # Errors
    /// `local` leaves its segment, belongs to another context, or can't be written.
    pub fn copy_to<'a>(
        &self,
        offset: u64,
        local: impl Into<LocalSlice<'a>>,
    ) -> Result<bool, Error> {
        let (length, room) = local.into().room(&self.inner.peer.handle)?;
        Ok(self.mapped().is_some_and(|mapped| mapped.copy_to(offset, length, room)))
    }

    /// Returns a pointer to the value at `offset` bytes from the segment's start.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]: it would leave the segment; [`Error::Parameter`]: its address is no
    /// multiple of the alignment of `T`.
    pub fn at<T: Pod>(&self, offset: u64) -> Result<RemotePtr<T>, Error> {
        const { assert!(size_of::<T>() >= 1 && size_of::<T>() <= VALUE_MAX, "1 to 64 bytes") };
        let (length, segment) = (size_of::<T>() as u64, self.inner.key.length);
        if offset.checked_add(length).is_none_or(|end| end > segment) {
            return Err(Error::OutOfBounds { offset, length, segment });
        }
        let address = self.inner.key.address.wrapping_add(offset);
        if !address.is_multiple_of(align_of::<T>() as u64) {
            return Err(Error::Parameter {
                name: "offset of a pointer",
                value: format!("{offset} for a type that is aligned to {}", align_of::<T>()),
                remedy: "choose one whose address is a multiple of the alignment",
            });
        }
        Ok(RemotePtr { memory: self.clone(), offset, value: PhantomData })
    }

    /// Posts an operation with `post` and waits for it. Returns the previous value of an atomic.
    fn run(
        &self,
        operation: &'static str,
        post: impl FnOnce(&Lane) -> Result<(), Error>,
        finish: impl FnOnce(&Lane) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut place = self.inner.lane.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = match place.take() {
            Some(lane) => lane,
            None => Lane::new(&self.inner.peer)?,
        };
        if let Err(error) = post(&lane) {
            *place = Some(lane);
            return Err(error);
        }
        // After a time-out the lane is dropped, with the operation still under way on it.
        let done = lane.jetty.wait(self.timeout)?;
        let finished = match done.status {
            Status::Success => finish(&lane).map(|()| done.value),
            status => Err(Error::Failed { operation, status }),
        };
        *place = Some(lane);
        finished
    }

    fn atomic(&self, word: RemoteWord, operation: AtomicOp) -> Result<u64, Error> {
        if let Some(mapped) = self.mapped() {
            let (operator, operand, compare) = operation.parts();
            let place = (word.place().offset, usize::from(word.width()));
            if let Some(old) = mapped.change(place, operator, operand, compare) {
                return Ok(old);
            }
        }
        let peer = &self.inner.peer;
        let post = |lane: &Lane| lane.jetty.atomic(peer, word, operation, 0);
        self.run("atomic", post, |_| Ok(()))
    }
}

impl fmt::Debug for RemoteMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteMemory")
            .field("peer", &self.inner.peer)
            .field("length", &self.inner.key.length)
            .finish_non_exhaustive()
    }
}

/// Points to a value in a peer's segment. Every access takes a packet in each direction (or none,
/// if the memory [is mapped](RemoteMemory::is_mapped)), and has succeeded or failed when the call
/// returns. After a time-out it may or may not have been executed.
///
/// Values have the representation of the owner's CPU, so both sides must have the same byte order.
/// An aligned value of 1, 2, 4 or 8 bytes is loaded and stored in one access; a concurrent reader
/// may see a longer one half old and half new.
pub struct RemotePtr<T> {
    memory: RemoteMemory,
    offset: u64,
    value: PhantomData<fn(T) -> T>,
}

impl<T: Pod> RemotePtr<T> {
    /// Offset from the segment's start, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns a pointer to the value that is `count` values of this type further on.
    ///
    /// # Errors
    /// As [`RemoteMemory::at`].
    pub fn add(&self, count: u64) -> Result<RemotePtr<T>, Error> {
        let step = count.saturating_mul(size_of::<T>() as u64);
        self.memory.at(self.offset.saturating_add(step))
    }

    /// Reads the value.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Failed`] if the peer refuses or is gone; or what keeps
    /// operations from being posted.
    pub fn load(&self) -> Result<T, Error> {
        let size = size_of::<T>();
        let mut bytes = [0; VALUE_MAX];
        let mapped = self.memory.mapped();
        if mapped.is_some_and(|mapped| mapped.load(self.offset, &mut bytes[..size])) {
            return Ok(pod::from_bytes(&bytes[..size]));
        }
        self.memory.run(
            "load",
            |lane| {
                let room = lane.scratch.slice(0..size as u64);
                lane.jetty.load(self.memory.peer(), room, self.place(), 0)
            },
            |lane| lane.scratch.read_at(0, &mut bytes[..size]),
        )?;
        Ok(pod::from_bytes(&bytes[..size]))
    }

    /// Writes the value. It is in place when the call returns.
    ///
    /// # Errors
    /// As [`RemotePtr::load`].
    pub fn store(&self, value: T) -> Result<(), Error> {
        let size = size_of::<T>();
        let mapped = self.memory.mapped();
        if mapped.is_some_and(|mapped| mapped.store(self.offset, pod::bytes_of(&value))) {
            return Ok(());
        }
        let post = |lane: &Lane| {
            lane.scratch.write_at(0, pod::bytes_of(&value))?;
            let local = lane.scratch.slice(0..size as u64);
            lane.jetty.store(self.memory.peer(), local, self.place(), 0)
        };
        self.memory.run("store", post, |_| Ok(())).map(drop)
    }

    fn place(&self) -> RemoteSlice {
        self.memory.inner.key.at(self.offset)
    }
}

/// Atomics: executed exactly once, and atomic with the owner's own. They require
/// [`crate::Rights::ATOMIC`].
///
/// Values of 1 and 2 bytes are changed by repeated compare-and-swap of the word of 4 bytes that
/// they are part of; that word must be within the segment.
impl<T: Word> RemotePtr<T> {
    /// Sets the value to `new` if it equals `current`. Returns `Ok(Ok(old))` if it did; otherwise
    /// `Ok(Err(old))`, and the value is unchanged.
    ///
    /// # Errors
    /// As [`RemotePtr::load`].
    pub fn compare_exchange(&self, current: T, new: T) -> Result<Result<T, T>, Error> {
        let (expected, wanted) = (current.to_word(), new.to_word());
        let old = match self.whole_word() {
            Some(word) => {
                let operation = AtomicOp::CompareSwap { expected, new: wanted };
                self.memory.atomic(word, operation)?
            }
            None => self.change_part(|part| (part == expected).then_some(wanted))?,
        };
        let was = T::from_word(old);
        Ok(if old == expected { Ok(was) } else { Err(was) })
    }

    /// Sets the value to `value` and returns the previous one.
    ///
    /// # Errors
    /// As [`RemotePtr::load`].
    pub fn swap(&self, value: T) -> Result<T, Error> {
        self.change(AtomicOp::Swap(value.to_word()), |_| value.to_word())
    }

    /// Adds to the value, wrapping, and returns the previous one.
    ///
    /// # Errors
    /// As [`RemotePtr::load`].
    pub fn fetch_add(&self, value: T) -> Result<T, Error> {
        let value = value.to_word();
        self.change(AtomicOp::Add(value), |old| old.wrapping_add(value))
    }

    /// Subtracts from the value, wrapping, and returns the previous one.
    ///
    /// # Errors
    /// As [`RemotePtr::load`].
    pub fn fetch_sub(&self, value: T) -> Result<T, Error> {
        let value = value.to_word();
        self.change(AtomicOp::Subtract(value), |old| old.wrapping_sub(value))
    }

    /// Applies a bitwise and, and returns the previous value.
    ///
    /// # Errors
    /// As [`RemotePtr::load`].
    pub fn fetch_and(&self, value: T) -> Result<T, Error> {
        let value = value.to_word();
        self.change(AtomicOp::And(value), |old| old & value)
    }

    /// Applies a bitwise or, and returns the previous value.
    ///
    /// # Errors
    /// As [`RemotePtr::load`].
    pub fn fetch_or(&self, value: T) -> Result<T, Error> {
        let value = value.to_word();
        self.change(AtomicOp::Or(value), |old| old | value)
    }

    /// Applies a bitwise exclusive or, and returns the previous value.
    ///
    /// # Errors
    /// As [`RemotePtr::load`].
    pub fn fetch_xor(&self, value: T) -> Result<T, Error> {
        let value = value.to_word();
        self.change(AtomicOp::Xor(value), |old| old ^ value)
    }

    /// Executes `operation`. Words too short for it are changed by `part`, which computes the same.
    fn change(&self, operation: AtomicOp, part: impl Fn(u64) -> u64) -> Result<T, Error> {
        let old = match self.whole_word() {
            Some(word) => self.memory.atomic(word, operation)?,
            None => self.change_part(|old| Some(part(old)))?,
        };
        Ok(T::from_word(old))
    }

    /// Returns the word, if the wire format has atomics of its length.
    fn whole_word(&self) -> Option<RemoteWord> {
        match size_of::<T>() {
            8 => Some(self.place().word64()),
            4 => Some(self.place().word32()),
            _ => None,
        }
    }

    /// Changes a part of a word of 4 bytes, unless `change` returns `None`, and returns its
    /// previous value.
    fn change_part(&self, change: impl Fn(u64) -> Option<u64>) -> Result<u64, Error> {
        let key = self.memory.inner.key;
        let within = key.address.wrapping_add(self.offset) % 4;
        let word = key.at(self.offset.wrapping_sub(within)).word32();
        let size = size_of::<T>() as u64;
        let shift = 8 * if cfg!(target_endian = "little") { within } else { 4 - size - within };
        let mask = (1 << (8 * size)) - 1;
        let mut seen = self.memory.atomic(word, AtomicOp::Load)?;
        loop {
            let part = seen >> shift & mask;
            let Some(changed) = change(part) else { return Ok(part) };
            let new = seen & !(mask << shift) | (changed & mask) << shift;
            let exchange = AtomicOp::CompareSwap { expected: seen, new };
            let old = self.memory.atomic(word, exchange)?;
            if old == seen {
                return Ok(part);
            }
            seen = old;
        }
    }
}

impl<T> Clone for RemotePtr<T> {
    fn clone(&self) -> Self {
        RemotePtr { memory: self.memory.clone(), offset: self.offset, value: PhantomData }
    }
}

impl<T> fmt::Debug for RemotePtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemotePtr")
            .field("memory", &self.memory)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}
