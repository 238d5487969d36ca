//! Memory that can be registered: its sources, and the ways to free it.

pub(crate) mod file_limit;
mod guard;
mod sanitizer;
mod shared_bytes;

use std::fmt;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

pub use guard::install as survive_missing_memory;
pub use shared_bytes::{Gone, SharedBytes};

use crate::error::SystemError;

/// A piece of memory that a NIC may read and write.
///
/// Once it is registered its bytes may change at any time, so no method returns a `&[u8]` to them:
/// they are copied in and out (`Segment::read_at`, `Segment::write_at`). To get a vector back, use
/// `Segment::into_memory` and [`Memory::into_vec`].
///
/// ```compile_fail
/// // There is no way to borrow the bytes while a NIC may change them.
/// let memory = fairway_runtime::Memory::zeroed(4096).unwrap();
/// let bytes: &[u8] = memory.as_ref();
/// ```
pub struct Memory {
    start: NonNull<u8>,
    length: usize,
    writable: bool,
    backing: Backing,
    /// The memory whose bytes these are, if they have several values ([`Memory::shares`]).
    owner: Option<Arc<Memory>>,
    /// A value that is dropped after the memory was freed ([`Memory::keeping`]).
    kept: Option<Box<dyn Send + Sync>>,
}

/// The origin of memory, which determines how it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    /// A mapping that this value owns.
    Mapped,
    /// A mapping of this file in memory.
    Shared { file: i32 },
    /// A vector with this capacity.
    Vector { capacity: usize },
    /// Memory that another value, or the caller, owns.
    Borrowed,
    /// No memory.
    Empty,
}

// SAFETY: the memory is owned (or vouched for), and is only accessed by relaxed atomics and by the
// kernel, from whatever thread.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Bytes that are read at a time when some may be missing: a page, or part of one.
const PAGE: usize = 4096;

/// Flags of a file in memory that can be given a fixed length, and is closed on exec.
const MEMORY_FILE: u32 = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
const FIXED_LENGTH: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

impl Memory {
    /// Returns `length` bytes of zeros, on separate pages.
    pub fn zeroed(length: usize) -> Result<Memory, SystemError> {
        map(length, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    /// Returns `length` bytes of zeros that peers on this host may map: their `RemotePtr`s then
    /// need no packets. Otherwise as [`Memory::zeroed`], at the cost of one open file.
    ///
    /// # Errors
    /// The system has no memory, or no file, left; or the memory is longer than a file of this
    /// process may be (`RLIMIT_FSIZE`, `ulimit -f`).
    pub fn shared(length: usize) -> Result<Memory, SystemError> {
        let refused = |error| SystemError::new(format!("take {length} bytes"), error);
        file_limit::check(length as u64).map_err(refused)?;
        // SAFETY: the name is a C string, and the file that is made is ours alone.
        let file = unsafe { libc::memfd_create(c"fairway".as_ptr(), MEMORY_FILE) };
        if file < 0 {
            return Err(SystemError::new("make a file in memory", std::io::Error::last_os_error()));
        }
        // SAFETY: as above.
        let owned = unsafe { OwnedFd::from_raw_fd(file) };
        let file = File::from(owned);
        file.set_len(length as u64).map_err(refused)?;
        // SAFETY: has no conditions. Were it to fail, peers would not map it.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, FIXED_LENGTH) };
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let mut memory = map(length, both, libc::MAP_SHARED, file.as_raw_fd())?;
        if memory.backing == Backing::Mapped {
            memory.backing = Backing::Shared { file: file.into_raw_fd() };
        }
        Ok(memory)
    }

    /// True if this is a file in memory that cannot be truncated, so that an access to it ends no
    /// process.
    pub fn has_fixed_length(file: &File) -> bool {
        // SAFETY: has no conditions.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        seals >= 0 && seals & FIXED_LENGTH == FIXED_LENGTH
    }

    /// Returns the file behind the memory, if it can be shared.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        match self.backing {
            // SAFETY: the descriptor is closed when this value is dropped, and not before.
            Backing::Shared { file } => Some(unsafe { BorrowedFd::borrow_raw(file) }),
            _ => self.owner.as_ref()?.file(),
        }
    }

    /// Returns the path by which a file of this process can be opened again.
    pub fn path_of(file: BorrowedFd<'_>) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }

    /// Wraps the bytes of a vector, without copying. [`Memory::into_vec`] returns the vector.
    pub fn from_vec(vector: Vec<u8>) -> Memory {
        guard::install();
        let mut vector = ManuallyDrop::new(vector);
        let backing = Backing::Vector { capacity: vector.capacity() };
        let start = NonNull::new(vector.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Memory { start, length: vector.len(), writable: true, backing, owner: None, kept: None }
    }

    /// Maps a whole file. If `writable`, changes to the memory, here or by peers, are written to
    /// the file; otherwise it can only be read.
    ///
    /// Other processes may change the file meanwhile. If one truncates it, operations on the
    /// missing part fail. Direct accesses to it, by [`Memory::start`] or by atomics of a segment,
    /// end the process (SIGBUS).
    pub fn map_file(file: &File, writable: bool) -> Result<Memory, SystemError> {
        let length = file
            .metadata()
            .map_err(|error| SystemError::new("read the length of the file", error))?
            .len();
        let length = usize::try_from(length).map_err(|_| {
            let remedy = "map a file that fits the address space";
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, remedy);
            SystemError::new(format!("map a file of {length} bytes"), source)
        })?;
        let protection =
            if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        map(length, protection, libc::MAP_SHARED, file.as_raw_fd())
    }

    /// Wraps memory that the caller provides.
    ///
    /// # Safety
    /// `length` bytes from `start` must be the caller's, readable and writable, until the value has
    /// been dropped (for registered memory: until `Segment::into_memory` returned it),
    /// and there may be no Rust references to them until then. They may be unmapped before, if
    /// nothing else is mapped there instead: operations on them fail then.
    pub unsafe fn from_raw(start: NonNull<u8>, length: usize) -> Memory {
        guard::install();
        Memory {
            start,
            length,
            writable: true,
            backing: Backing::Borrowed,
            owner: None,
            kept: None,
        }
    }

    /// Keeps a value, such as the owner of memory that was given to [`Memory::from_raw`], until
    /// nothing uses the memory any more, and drops it then. Any thread may do that, while it holds
    /// the lock of a context: the value's destructor must neither call a method of a context nor
    /// wait.
    #[must_use]
    pub fn keeping(mut self, value: impl Send + Sync + 'static) -> Memory {
        let before = self.kept.take();
        self.kept = Some(Box::new((value, before)));
        self
    }

    /// Returns `count` values of the same bytes, each of which can be registered with a context of
    /// its own: contexts share nothing, so a program may have one for each core that is to carry
    /// traffic. The memory is freed when the last value is dropped.
    ///
    /// Contexts access the bytes as threads do: aligned words are read and written as a whole,
    /// atomic operations are atomic among all contexts, and operations of different contexts have
    /// no order.
    ///
    /// ```
    /// # fn main() -> Result<(), fairway_runtime::SystemError> {
    /// let memory = fairway_runtime::Memory::zeroed(4096)?;
    /// let [one, other] = <[_; 2]>::try_from(memory.shares(2)).unwrap();
    /// assert_eq!(one.start(), other.start());
    /// # Ok(())
    /// # }
    /// ```
    pub fn shares(self, count: usize) -> Vec<Memory> {
        let Memory { start, length, writable, .. } = self;
        let owner = Arc::new(self);
        let share = || Memory {
            start,
            length,
            writable,
            backing: Backing::Borrowed,
            owner: Some(Arc::clone(&owner)),
            kept: None,
        };
        (0..count).map(|_| share()).collect()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if the memory has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// True if the memory may be written.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns the bytes as a vector, without copying if they came from one and have no other value
    /// ([`Memory::shares`]). Missing bytes of a truncated file are zeros.
    pub fn into_vec(mut self) -> Vec<u8> {
        match self.owner.take().map(Arc::try_unwrap) {
            Some(Ok(last)) => return last.into_vec(),
            // The bytes stay in place while they are copied.
            Some(Err(others)) => self.owner = Some(others),
            None => {}
        }
        if let Backing::Vector { capacity } = self.backing {
            let kept = self.kept.take();
            let memory = ManuallyDrop::new(self);
            // SAFETY: these are the parts of a vector that `from_vec` forgot, and `memory`, which
            // would free them, is forgotten in turn. Registered memory is held by the NIC, so a
            // `Memory` that can be moved here is not in use any more.
            let vector =
                unsafe { Vec::from_raw_parts(memory.start.as_ptr(), memory.length, capacity) };
            drop(kept);
            return vector;
        }
        let mut bytes = vec![0; self.length];
        for (index, piece) in bytes.chunks_mut(PAGE).enumerate() {
            if self.bytes(index * PAGE, piece.len()).read(piece).is_err() {
                piece.fill(0);
            }
        }
        bytes
    }

    /// Returns the bytes `offset..offset + length`.
    ///
    /// # Panics
    /// The range leaves the memory.
    pub fn bytes(&self, offset: usize, length: usize) -> SharedBytes<'_> {
        assert!(self.contains(offset as u64, length), "a range outside its memory");
        // SAFETY: within the memory, which stays as it is while `self` is borrowed. No references
        // to the memory exist. Memory that is read-only is not written: the access fails.
        unsafe { SharedBytes::new(self.start.add(offset), length) }
    }

    /// True if `length` bytes from `offset` on are within the memory.
    pub fn contains(&self, offset: u64, length: usize) -> bool {
        offset.checked_add(length as u64).is_some_and(|end| end <= self.length as u64)
    }

    /// Returns the address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self.backing {
            // SAFETY: mapped by `map` with this length, and unmapped only here.
            Backing::Mapped => unsafe {
                libc::munmap(self.start.as_ptr().cast(), self.length);
            },
            // SAFETY: as above; the file is ours, and closed only here.
            Backing::Shared { file } => unsafe {
                libc::munmap(self.start.as_ptr().cast(), self.length);
                libc::close(file);
            },
            // SAFETY: the parts of a vector that `from_vec` forgot.
            Backing::Vector { capacity } => unsafe {
                drop(Vec::from_raw_parts(self.start.as_ptr(), self.length, capacity));
            },
            Backing::Borrowed | Backing::Empty => {}
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("length", &self.length)
            .field("writable", &self.writable)
            .field("backing", &self.backing)
            .finish()
    }
}

fn map(length: usize, protection: i32, flags: i32, file: i32) -> Result<Memory, SystemError> {
    guard::install();
    let writable = protection & libc::PROT_WRITE != 0;
    if length == 0 {
        let start = NonNull::dangling();
        return Ok(Memory {
            start,
            length,
            writable,
            backing: Backing::Empty,
            owner: None,
            kept: None,
        });
    }
    // SAFETY: the kernel chooses the address, so nothing existing is replaced.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file, 0) };
    match NonNull::new(start.cast::<u8>()) {
        Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Memory {
            start,
            length,
            writable,
            backing: Backing::Mapped,
            owner: None,
            kept: None,
        }),
        _ => Err(SystemError::new(format!("map {length} bytes"), std::io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests;
