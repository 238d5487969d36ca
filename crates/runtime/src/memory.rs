//! Memory that can be registered: where it comes from, and how it is given back.

mod guard;
mod sanitizer;
mod shared_bytes;

use std::fmt;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::NonNull;

pub use guard::install as survive_missing_memory;
pub use shared_bytes::{Gone, SharedBytes};

use crate::error::SystemError;

/// A piece of memory that a NIC may read and write.
///
/// Once it is registered its bytes change at any time, so nothing hands out a `&[u8]` to them:
/// they are copied in and out (`Segment::read_at`, `Segment::write_at`). To get a vector back, see
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
}

/// How to give memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    /// A mapping of our own.
    Mapped,
    /// A mapping of a file in memory, which is this.
    Shared { file: i32 },
    /// A vector, of this capacity.
    Vector { capacity: usize },
    /// Memory of another owner.
    Borrowed,
    /// Nothing to give back.
    Empty,
}

// SAFETY: the memory is owned (or vouched for), and is only accessed by relaxed atomics and by the
// kernel, from whatever thread.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Bytes that are read at a time where some may be missing: a page, or part of one.
const PAGE: usize = 4096;

/// A file in memory that can be given a fixed length, and goes with the program.
const MEMORY_FILE: u32 = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
const FIXED_LENGTH: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

impl Memory {
    /// `length` bytes of zeros, on pages of their own.
    pub fn zeroed(length: usize) -> Result<Memory, SystemError> {
        map(length, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    /// `length` bytes of zeros that peers on this host may map: their `RemotePtr`s then
    /// work without packets. Otherwise as [`Memory::zeroed`], at the price of an open file each.
    ///
    /// # Errors
    /// The system has no memory, or no file, left.
    pub fn shared(length: usize) -> Result<Memory, SystemError> {
        // SAFETY: the name is a C string, and the file that is made is ours alone.
        let file = unsafe { libc::memfd_create(c"fairway".as_ptr(), MEMORY_FILE) };
        if file < 0 {
            return Err(SystemError::new("make a file in memory", std::io::Error::last_os_error()));
        }
        // SAFETY: as above.
        let owned = unsafe { OwnedFd::from_raw_fd(file) };
        let file = File::from(owned);
        let sized = file.set_len(length as u64);
        sized.map_err(|error| SystemError::new(format!("take {length} bytes"), error))?;
        // SAFETY: has no conditions. Were it to fail, peers would not map it.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, FIXED_LENGTH) };
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let mut memory = map(length, both, libc::MAP_SHARED, file.as_raw_fd())?;
        if memory.backing == Backing::Mapped {
            memory.backing = Backing::Shared { file: file.into_raw_fd() };
        }
        Ok(memory)
    }

    /// Is it a file in memory that cannot be truncated, so that touching it ends no process?
    pub fn has_fixed_length(file: &File) -> bool {
        // SAFETY: has no conditions.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        seals >= 0 && seals & FIXED_LENGTH == FIXED_LENGTH
    }

    /// The file behind it, if it can be shared.
    pub fn file(&self) -> Option<i32> {
        match self.backing {
            Backing::Shared { file } => Some(file),
            _ => None,
        }
    }

    /// Where a file of this process can be opened again.
    pub fn path_of(file: i32) -> String {
        format!("/proc/self/fd/{file}")
    }

    /// The bytes of a vector, without copying. [`Memory::into_vec`] is the way back.
    pub fn from_vec(vector: Vec<u8>) -> Memory {
        guard::install();
        let mut vector = ManuallyDrop::new(vector);
        let backing = Backing::Vector { capacity: vector.capacity() };
        let start = NonNull::new(vector.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Memory { start, length: vector.len(), writable: true, backing }
    }

    /// A whole file. What is written to it, here or by peers, is written to the file if
    /// `writable`; otherwise it can only be read.
    ///
    /// Other processes may change the file meanwhile. If one truncates it, operations on what is
    /// gone fail.
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

    /// Memory that the caller provides.
    ///
    /// # Safety
    /// `length` bytes from `start` must be the caller's, readable and writable, until the value has
    /// been dropped (for registered memory: until `Segment::into_memory` returned it),
    /// and there may be no Rust references to them until then. They may be unmapped before, if
    /// nothing else is mapped there instead: operations on them fail then.
    pub unsafe fn from_raw(start: NonNull<u8>, length: usize) -> Memory {
        guard::install();
        Memory { start, length, writable: true, backing: Backing::Borrowed }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// May it be written?
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The bytes as a vector: without copying if they came from one. Bytes of a file that was
    /// truncated are zeros.
    pub fn into_vec(self) -> Vec<u8> {
        if let Backing::Vector { capacity } = self.backing {
            let memory = ManuallyDrop::new(self);
            // SAFETY: these are the parts of a vector that `from_vec` forgot, and `memory`, which
            // would free them, is forgotten in turn. Registered memory is held by the NIC, so a
            // `Memory` that can be moved here is not in use any more.
            return unsafe { Vec::from_raw_parts(memory.start.as_ptr(), memory.length, capacity) };
        }
        let mut bytes = vec![0; self.length];
        for (index, piece) in bytes.chunks_mut(PAGE).enumerate() {
            if self.bytes(index * PAGE, piece.len()).read(piece).is_err() {
                piece.fill(0);
            }
        }
        bytes
    }

    /// The bytes `offset..offset + length`.
    ///
    /// # Panics
    /// The range leaves the memory.
    pub fn bytes(&self, offset: usize, length: usize) -> SharedBytes<'_> {
        assert!(self.contains(offset as u64, length), "a range outside its memory");
        // SAFETY: within the memory, which stays as it is while `self` is borrowed. No references
        // to the memory exist. Memory that is read-only is not written: the access fails.
        unsafe { SharedBytes::new(self.start.add(offset), length) }
    }

    /// True if `length` bytes from `offset` on lie within the memory.
    pub fn contains(&self, offset: u64, length: usize) -> bool {
        offset.checked_add(length as u64).is_some_and(|end| end <= self.length as u64)
    }

    /// The first byte.
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
        return Ok(Memory { start, length, writable, backing: Backing::Empty });
    }
    // SAFETY: the kernel chooses the address, so nothing existing is replaced.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file, 0) };
    match NonNull::new(start.cast::<u8>()) {
        Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => {
            Ok(Memory { start, length, writable, backing: Backing::Mapped })
        }
        _ => Err(SystemError::new(format!("map {length} bytes"), std::io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests;
