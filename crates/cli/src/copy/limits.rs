//! What clients together may take of a server: files, bytes, the disk, and lines of its log.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::quantity::{self, show_size};

/// Refusals that the server prints within [`STRETCH`]. It counts further ones, and prints their
/// number before the next refusal.
const LINES: u32 = 20;
const STRETCH: Duration = Duration::from_secs(1);

/// What may be arriving at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Files.
    pub(super) files: u32,
    /// Bytes of all of them together.
    pub(super) bytes: u64,
    /// What stays free on the disk.
    pub(super) keep_free: KeepFree,
}

impl Limits {
    /// Takes a place for a file of `size` bytes, if there is one beside what is arriving.
    pub(super) fn admit(&self, taken: &Arc<Taken>, size: u64) -> Result<Place, String> {
        let files = taken.files.load(Ordering::Relaxed);
        let bytes = taken.bytes.load(Ordering::Relaxed);
        if files >= self.files {
            return Err(format!(
                "as many files are arriving as this server takes at once ({}): try again later, or \
                 have it started with a larger --max-files",
                self.files
            ));
        }
        if size > self.bytes.saturating_sub(bytes) {
            return Err(format!(
                "{} more are too many: files of {} are arriving, and this server takes {} at once: \
                 try again later, or have it started with a larger --max-bytes",
                show_size(size),
                show_size(bytes),
                show_size(self.bytes)
            ));
        }
        taken.files.fetch_add(1, Ordering::Relaxed);
        taken.bytes.fetch_add(size, Ordering::Relaxed);
        Ok(Place { taken: Arc::clone(taken), size })
    }
}

/// What is arriving. Only the thread of the server takes places; any may give one back.
#[derive(Debug, Default)]
pub(super) struct Taken {
    files: AtomicU32,
    bytes: AtomicU64,
}

/// A place for a file, until it is stored or dropped. Given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    taken: Arc<Taken>,
    size: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.files.fetch_sub(1, Ordering::Relaxed);
        self.taken.bytes.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// What of a disk stays free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepFree {
    /// Bytes.
    Bytes(u64),
    /// Hundredths of the file system.
    Percent(u8),
}

impl KeepFree {
    /// `5%`, or a size.
    pub(crate) fn parse(text: &str) -> Result<KeepFree, String> {
        let Some(number) = text.strip_suffix('%') else {
            return quantity::size(text).map(KeepFree::Bytes);
        };
        match number.parse() {
            Ok(percent @ 0..=100) => Ok(KeepFree::Percent(percent)),
            _ => Err(format!("{text} is no share of a disk: write it as 5% (0 to 100), or 10G")),
        }
    }

    /// Checks that the file system of `directory` keeps this much free after a file of `size` bytes
    /// is stored. A file system that does not report its size passes.
    pub(super) fn allows(self, directory: &OwnedFd, size: u64) -> Result<(), String> {
        let Ok((total, free)) = space(directory) else { return Ok(()) };
        let kept = match self {
            KeepFree::Bytes(bytes) => bytes,
            KeepFree::Percent(percent) => total / 100 * u64::from(percent),
        };
        if free.saturating_sub(size) >= kept || size == 0 {
            return Ok(());
        }
        Err(format!(
            "no room for {}: {} of {} are free on the server, and {} have to stay free: delete files \
             there, or have it started with a smaller --keep-free",
            show_size(size),
            show_size(free),
            show_size(total),
            show_size(kept)
        ))
    }
}

/// All bytes of a file system, and those that may be taken.
fn space(directory: &OwnedFd) -> io::Result<(u64, u64)> {
    let mut space = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open, and there is room for the answer.
    if unsafe { libc::fstatvfs(directory.as_raw_fd(), space.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled it in.
    let space = unsafe { space.assume_init() };
    let bytes = |blocks: libc::fsblkcnt_t| blocks.saturating_mul(space.f_frsize);
    Ok((bytes(space.f_blocks), bytes(space.f_bavail)))
}

/// Keeps clients from filling a log.
#[derive(Debug)]
pub(super) struct Lines {
    began: Instant,
    printed: u32,
    left_out: u64,
}

impl Lines {
    pub(super) fn new(now: Instant) -> Lines {
        Lines { began: now, printed: 0, left_out: 0 }
    }

    /// May a line be printed? If so, and lines were left out before it, how many.
    pub(super) fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.began) >= STRETCH {
            (self.began, self.printed) = (now, 0);
        }
        if self.printed == LINES {
            self.left_out += 1;
            return None;
        }
        self.printed += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_bytes_are_limited_by_themselves() {
        let limits = Limits { files: 3, bytes: 1000, keep_free: KeepFree::Percent(5) };
        let taken = Arc::new(Taken::default());
        let admit = |size| limits.admit(&taken, size);
        let first = admit(900).expect("a place");
        let bytes = admit(101).expect_err("too large");
        assert!(bytes.contains("101") && bytes.contains("--max-bytes"), "{bytes}");
        let (_second, third) = (admit(100).expect("a place"), admit(0).expect("a place"));
        let files = admit(0).expect_err("too many");
        assert!(files.contains("(3)") && files.contains("--max-files"), "{files}");
        drop(third);
        assert!(admit(u64::MAX).expect_err("too large").contains("--max-bytes"));
        drop(first);
        admit(900).expect("what was given back");
    }

    #[test]
    fn a_part_of_the_disk_stays_free() {
        assert_eq!(KeepFree::parse("5%"), Ok(KeepFree::Percent(5)));
        assert_eq!(KeepFree::parse("2K"), Ok(KeepFree::Bytes(2048)));
        for wrong in ["101%", "-1%", "%", "x"] {
            assert!(KeepFree::parse(wrong).is_err(), "{wrong}");
        }
        let directory = OwnedFd::from(std::fs::File::open("/").expect("a directory"));
        let (total, free) = space(&directory).expect("known");
        assert!(free <= total && total > 0);
        assert_eq!(KeepFree::Bytes(0).allows(&directory, free / 2), Ok(()));
        let refused = KeepFree::Percent(100).allows(&directory, 1).expect_err("not a byte");
        assert!(refused.contains("--keep-free"), "{refused}");
        assert_eq!(KeepFree::Percent(100).allows(&directory, 0), Ok(()));
    }

    #[test]
    fn a_log_has_so_many_lines_a_second_and_says_what_it_left_out() {
        let start = Instant::now();
        let mut lines = Lines::new(start);
        for _ in 0..LINES {
            assert_eq!(lines.admit(start), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(lines.admit(start + STRETCH / 2), None);
        }
        assert_eq!(lines.admit(start + STRETCH), Some(7));
        assert_eq!(lines.admit(start + STRETCH), Some(0));
    }
}
