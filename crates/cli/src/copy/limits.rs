//! What clients may take of a server, together and by address: files, bytes, the disk, and lines of
//! its log.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::quantity::{self, show_size};

/// Lines of a kind that the server prints within [`STRETCH`]. It counts further ones, and prints
/// their number before the next.
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
    /// Takes a place for a file of `size` bytes from `client`, if there is one beside what is
    /// arriving.
    pub(super) fn admit(
        &self,
        taken: &Arc<Taken>,
        client: IpAddr,
        size: u64,
    ) -> Result<Place, String> {
        let client = source(client);
        let mut state = taken.state();
        let Share { files, bytes } = state.all;
        let theirs = state.sources.get(&client).copied().unwrap_or_default();
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
        self.share_allows(theirs, size)?;
        state.all.add(size);
        state.sources.entry(client).or_default().add(size);
        Ok(Place { taken: Arc::clone(taken), client, size })
    }

    /// An address gets three quarters of the files at most, and further files only up to three
    /// quarters of the bytes. One file alone may have all bytes.
    fn share_allows(&self, theirs: Share, size: u64) -> Result<(), String> {
        let files = self.files - self.files / 4;
        if theirs.files >= files {
            return Err(format!(
                "as many files are arriving from this address as one address may send at once \
                 ({files}, three quarters of --max-files): try again later"
            ));
        }
        let bytes = self.bytes - self.bytes / 4;
        if theirs.files > 0 && size > bytes.saturating_sub(theirs.bytes) {
            return Err(format!(
                "{} more are too many for one address: files of {} are arriving from it, and it may \
                 send {} at once (three quarters of --max-bytes): try again later",
                show_size(size),
                show_size(theirs.bytes),
                show_size(bytes)
            ));
        }
        Ok(())
    }
}

/// What counts as one client: an IPv4 address, or the IPv6 network of 64 bits, all addresses of
/// which a host commonly has.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// Files that are arriving, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    files: u32,
    bytes: u64,
}

impl Share {
    fn add(&mut self, size: u64) {
        self.files += 1;
        self.bytes += size;
    }

    fn give_back(&mut self, size: u64) {
        self.files -= 1;
        self.bytes -= size;
    }
}

/// What is arriving. Any thread may give a place back.
#[derive(Debug, Default)]
pub(super) struct Taken(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    all: Share,
    /// Of addresses that send something.
    sources: HashMap<IpAddr, Share>,
}

impl Taken {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place for a file, until it is stored or dropped. Given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    taken: Arc<Taken>,
    client: IpAddr,
    size: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.taken.state();
        state.all.give_back(self.size);
        if let Some(share) = state.sources.get_mut(&self.client) {
            share.give_back(self.size);
            if share.files == 0 {
                state.sources.remove(&self.client);
            }
        }
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

    /// What to print for a line; `None` if there were too many.
    pub(super) fn line(&mut self, line: &str) -> Option<String> {
        let mut text = String::new();
        match self.admit(Instant::now())? {
            0 => {}
            left_out => {
                text +=
                    &format!("fairway serve: {left_out} lines like the next one are not shown\n");
            }
        }
        Some(text + "fairway serve: " + line)
    }

    /// Prints a line on standard error, unless there were too many.
    pub(super) fn print(&mut self, line: &str) {
        if let Some(text) = self.line(line) {
            eprintln!("{text}");
        }
    }

    /// May a line be printed? If so, and lines were left out before it, how many.
    fn admit(&mut self, now: Instant) -> Option<u64> {
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
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let admit = |size| limits.admit(&taken, if size < 900 { one } else { other }, size);
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
    fn one_address_leaves_a_quarter_to_others() {
        let limits = Limits { files: 8, bytes: 1000, keep_free: KeepFree::Percent(5) };
        let taken = Arc::new(Taken::default());
        let admit =
            |address: &str, size| limits.admit(&taken, address.parse().expect("an address"), size);
        let places: Vec<_> = (0..6).map(|_| admit("2001:db8::1", 1).expect("a place")).collect();
        for same in ["2001:db8::1", "2001:db8::ffff:0:0:2"] {
            let refused = admit(same, 1).expect_err("too many");
            assert!(refused.contains("(6") && refused.contains("--max-files"), "{refused}");
        }
        let first = admit("2001:db8:0:1::1", 700).expect("another network has the rest");
        let refused = admit("2001:db8:0:1::1", 51).expect_err("too large");
        assert!(refused.contains("51") && refused.contains("--max-bytes"), "{refused}");
        let second = admit("2001:db8:0:1::1", 50).expect("three quarters");
        drop((places, first, second));
        assert!(taken.state().sources.is_empty(), "nothing is kept of those who have gone");
        let mapped = admit("::ffff:192.0.2.1", 999).expect("one file alone may have all bytes");
        assert!(admit("192.0.2.1", 1).expect_err("the same address").contains("one address"));
        drop(mapped);
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
