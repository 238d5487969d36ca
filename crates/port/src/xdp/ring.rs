//! The rings that an AF_XDP socket shares with the kernel: one side adds entries, the other takes
//! them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory that the kernel maps for this process, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it is an address range that belongs to this value alone.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` bytes of memory of its own, filled with zeros.
    pub(crate) fn anonymous(length: usize) -> io::Result<Mapping> {
        Mapping::new(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn new(length: usize, flags: i32, file: i32, offset: libc::off_t) -> io::Result<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                access,
                flags | libc::MAP_POPULATE,
                file,
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, length })
    }

    /// Returns the address of `length` bytes from `at` on.
    ///
    /// # Panics
    /// They are not within the mapping.
    pub(crate) fn at(&self, at: usize, length: usize) -> *mut u8 {
        let within = at.checked_add(length).is_some_and(|end| end <= self.length);
        assert!(within, "{length} bytes at {at} of {}", self.length);
        // SAFETY: within the mapping, as was checked.
        unsafe { self.start.as_ptr().add(at) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// An entry of a ring: an address in the frame memory, or a descriptor of a frame. Any bits are a
/// value of it.
pub(super) trait Entry: Copy {}

impl Entry for u64 {}

/// A frame to send or that was received (`struct xdp_desc`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    /// Offset in the frame memory.
    pub(super) address: u64,
    /// Bytes of the frame.
    pub(super) length: u32,
    pub(super) options: u32,
}

impl Entry for Descriptor {}

/// One side of a ring. Each ring has one end here and one in the kernel.
#[derive(Debug)]
pub(super) struct Ring<T> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    mask: u32,
    /// Position of this side.
    here: u32,
    /// Position of the kernel's side, as last read.
    there: u32,
    kind: std::marker::PhantomData<T>,
}

impl<T: Entry> Ring<T> {
    /// Maps the ring of `size` entries, a power of two, at `offset` of a socket's file.
    pub(super) fn map(
        socket: &OwnedFd,
        offset: libc::off_t,
        places: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Ring<T>> {
        let length = places.desc as usize + size as usize * size_of::<T>();
        let mapping = Mapping::new(length, libc::MAP_SHARED, socket.as_raw_fd(), offset)?;
        Ok(Ring {
            mapping,
            producer: places.producer as usize,
            consumer: places.consumer as usize,
            flags: places.flags as usize,
            entries: places.desc as usize,
            mask: size - 1,
            here: 0,
            there: 0,
            kind: std::marker::PhantomData,
        })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        let word = self.mapping.at(at, size_of::<u32>()).cast();
        // SAFETY: within the mapping, which lives as long as `self`; the kernel aligns these words
        // and both sides access them atomically.
        unsafe { AtomicU32::from_ptr(word) }
    }

    fn entry(&self, position: u32) -> *mut T {
        let index = (position & self.mask) as usize;
        self.mapping.at(self.entries + index * size_of::<T>(), size_of::<T>()).cast()
    }

    /// True if the kernel asks for a system call to go on.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Number of entries that can be added, of a ring that this side fills.
    pub(super) fn room(&mut self) -> u32 {
        let room = |there: u32| self.mask + 1 - self.here.wrapping_sub(there);
        if room(self.there) == 0 {
            self.there = self.word(self.consumer).load(Ordering::Acquire);
        }
        self.mask + 1 - self.here.wrapping_sub(self.there)
    }

    /// Adds an entry, which the kernel sees after [`Ring::publish`]. There has to be room.
    pub(super) fn push(&mut self, entry: T) {
        // SAFETY: within the mapping; the kernel does not read this entry before it is published.
        unsafe { self.entry(self.here).write(entry) };
        self.here = self.here.wrapping_add(1);
    }

    /// Passes the entries that were pushed to the kernel.
    pub(super) fn publish(&self) {
        self.word(self.producer).store(self.here, Ordering::Release);
    }

    /// True if the kernel has not taken all entries that were published.
    pub(super) fn is_behind(&self) -> bool {
        self.word(self.consumer).load(Ordering::Acquire) != self.here
    }

    /// Returns the next entry of a ring that the kernel fills.
    pub(super) fn peek(&mut self) -> Option<T> {
        if self.there == self.here {
            self.there = self.word(self.producer).load(Ordering::Acquire);
            if self.there == self.here {
                return None;
            }
        }
        // SAFETY: within the mapping; the kernel has published this entry and leaves it alone until
        // it is released. Any bits are a value of `T`.
        Some(unsafe { self.entry(self.here).read() })
    }

    /// Releases the entry that [`Ring::peek`] has returned.
    pub(super) fn pop(&mut self) {
        self.here = self.here.wrapping_add(1);
        self.word(self.consumer).store(self.here, Ordering::Release);
    }
}
