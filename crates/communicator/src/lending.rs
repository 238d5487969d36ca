//! Memory that ranks of one host lend to each other: a rank reads the bytes of a message from the
//! sender's buffer by `process_vm_readv`, so they are copied once.
//!
//! Each rank has a *seal*: a word with a random number, whose address and value the others learn at
//! the rendezvous. A rank that can read the seal of another one may read what that one lends, and
//! each read of lent bytes ends with the seal. A rank whose group fails, or that leaves it, clears
//! the seal before it returns its buffers. So bytes that were read after that are never taken for
//! those of the message, and neither are those of a process that has got the number of one that has
//! ended.

use std::sync::atomic::{AtomicU64, Ordering};

/// The word of a rank that is cleared when it lends nothing any more.
#[derive(Debug)]
pub(crate) struct Seal {
    word: Box<AtomicU64>,
    value: u64,
}

/// What the others know about a seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealKey {
    /// Number of the process.
    pub(crate) process: u32,
    /// Address of the word in the process.
    pub(crate) address: u64,
    /// Its value, which is not 0.
    pub(crate) value: u64,
}

/// Why bytes could not be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// Their owner has ended, or lends nothing any more.
    Gone,
    /// The memory at one of the two sides is missing, or the kernel refuses to read it.
    Refused(std::io::Error),
}

impl Seal {
    /// A seal with this value, of which 0 becomes 1.
    pub(crate) fn new(value: u64) -> Seal {
        let value = value.max(1);
        Seal { word: Box::new(AtomicU64::new(value)), value }
    }

    pub(crate) fn key(&self) -> SealKey {
        let address = std::ptr::from_ref(&*self.word).expose_provenance() as u64;
        SealKey { process: std::process::id(), address, value: self.value }
    }

    /// Nothing that is read from now on is taken for lent bytes.
    pub(crate) fn break_open(&self) {
        self.word.store(0, Ordering::SeqCst);
    }
}

impl Drop for Seal {
    fn drop(&mut self) {
        self.break_open();
    }
}

impl SealKey {
    /// True if this process can read the memory of the seal's owner.
    pub(crate) fn can_read(self) -> bool {
        // SAFETY: no bytes.
        unsafe { self.read(0, std::ptr::null_mut(), 0) }.is_ok()
    }

    /// Reads `length` bytes from `address` of the seal's owner to `into`.
    ///
    /// # Safety
    /// `length` bytes from `into` on are the caller's.
    #[cfg(target_os = "linux")]
    pub(crate) unsafe fn read(
        self,
        address: u64,
        into: *mut u8,
        length: usize,
    ) -> Result<(), ReadError> {
        let mut seal = 0u64;
        let word = size_of::<u64>();
        let part = |base: *mut libc::c_void, iov_len| libc::iovec { iov_base: base, iov_len };
        let remote = |address: u64| std::ptr::without_provenance_mut(address as usize);
        // The kernel reads the parts in this order.
        let own = [part(into.cast(), length), part((&raw mut seal).cast(), word)];
        let theirs = [part(remote(address), length), part(remote(self.address), word)];
        let process = self.process as libc::pid_t;
        let read = || {
            // SAFETY: both local parts are the caller's; the kernel checks the remote ones.
            unsafe { libc::process_vm_readv(process, own.as_ptr(), 2, theirs.as_ptr(), 2, 0) }
        };
        let count = loop {
            let count = read();
            let is_interrupted =
                || std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
            if count >= 0 || !is_interrupted() {
                break count;
            }
        };
        if count == (length + word) as isize {
            return if seal == self.value { Ok(()) } else { Err(ReadError::Gone) };
        }
        let error = match count {
            ..0 => std::io::Error::last_os_error(),
            _ => std::io::Error::from_raw_os_error(libc::EFAULT),
        };
        match error.raw_os_error() {
            Some(libc::ESRCH) => Err(ReadError::Gone),
            // The end of the process unmaps its memory before its number is free.
            _ if length > 0 && !self.can_read() => Err(ReadError::Gone),
            _ => Err(ReadError::Refused(error)),
        }
    }

    /// Fails: only Linux reads the memory of other processes here.
    ///
    /// # Safety
    /// None is needed.
    #[cfg(not(target_os = "linux"))]
    pub(crate) unsafe fn read(
        self,
        _address: u64,
        _into: *mut u8,
        _length: usize,
    ) -> Result<(), ReadError> {
        Err(ReadError::Refused(std::io::ErrorKind::Unsupported.into()))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn read(key: SealKey, from: &[u8], into: &mut [u8]) -> Result<(), ReadError> {
        assert_eq!(from.len(), into.len());
        // SAFETY: the length is that of the slice.
        unsafe { key.read(from.as_ptr().expose_provenance() as u64, into.as_mut_ptr(), into.len()) }
    }

    #[test]
    fn bytes_are_read_until_the_seal_is_broken() {
        let seal = Seal::new(7);
        let key = seal.key();
        assert!(key.can_read());
        let from: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        let mut into = vec![0; from.len()];
        read(key, &from, &mut into).expect("the memory is this process's own");
        assert_eq!(from, into);
        seal.break_open();
        assert!(matches!(read(key, &from, &mut into), Err(ReadError::Gone)));
        assert!(!key.can_read());
    }

    #[test]
    fn another_value_and_another_process_are_gone() {
        let seal = Seal::new(7);
        let mut into = [0; 10];
        let other = SealKey { value: 8, ..seal.key() };
        assert!(matches!(read(other, &[1; 10], &mut into), Err(ReadError::Gone)));
        // No process has the largest number.
        let ended = SealKey { process: i32::MAX as u32, ..seal.key() };
        assert!(matches!(read(ended, &[1; 10], &mut into), Err(ReadError::Gone)));
    }

    #[test]
    fn missing_memory_is_an_error_of_its_own() {
        let seal = Seal::new(7);
        let mut into = [0; 10];
        // SAFETY: `into` is as long; nothing is mapped at the first page.
        let result = unsafe { seal.key().read(64, into.as_mut_ptr(), 10) };
        let Err(ReadError::Refused(error)) = result else { panic!("not {result:?}") };
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }
}
