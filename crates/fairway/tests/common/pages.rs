//! Memory that a test maps, and unmaps while it is registered.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::Command;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pages at an address where nothing else is mapped, even when they are gone: the kernel chooses
/// addresses far above.
pub struct Pages {
    pub start: NonNull<u8>,
    pub length: usize,
    /// The file behind them, if they are mapped from one.
    pub file: Option<File>,
}

impl Pages {
    /// Pages of zeros.
    pub fn new(length: usize) -> Pages {
        Pages::map(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, None)
    }

    /// Pages of a file.
    pub fn of_file(length: usize) -> Pages {
        // SAFETY: the name is a C string, and the file that is made is the test's alone.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"pages".as_ptr(), 0)) };
        file.set_len(length as u64).unwrap();
        Pages::map(length, libc::MAP_SHARED, Some(file))
    }

    fn map(length: usize, flags: i32, file: Option<File>) -> Pages {
        static NEXT: AtomicUsize = AtomicUsize::new(0x10_0000_0000);
        let place = NEXT.fetch_add(length.next_multiple_of(1 << 21), Ordering::Relaxed);
        let flags = flags | libc::MAP_FIXED_NOREPLACE;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let number = file.as_ref().map_or(-1, |file| file.as_raw_fd());
        // SAFETY: nothing that exists is replaced.
        let start = unsafe { libc::mmap(place as *mut _, length, both, flags, number, 0) };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        assert_ne!(start, null_mut());
        Pages { start: NonNull::new(start.cast()).unwrap(), length, file }
    }

    /// Removes all but the first `kept` bytes: by truncating the file, if there is one.
    pub fn take_away(&self, kept: usize) {
        match &self.file {
            Some(file) => file.set_len(kept as u64).unwrap(),
            None => self.unmap(kept),
        }
    }

    /// Unmaps all but the first `kept` bytes. A file keeps its contents.
    pub fn unmap(&self, kept: usize) {
        // SAFETY: of the pages that the test has mapped, of which no references exist.
        let unmapped =
            unsafe { libc::munmap(self.start.as_ptr().add(kept).cast(), self.length - kept) };
        assert_eq!(unmapped, 0);
    }
}

/// Runs a test, given its full name, in a separate process, so that a signal fails only this test.
pub fn in_child(name: &str, body: impl FnOnce()) {
    const CHILD: &str = "FAIRWAY_TEST_PAGES";
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        return body();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, name)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{}\n{text}\n{errors}", child.status);
    assert!(text.contains("1 passed"), "no test is called {name}\n{text}");
}
