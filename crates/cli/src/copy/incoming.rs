//! Files that are being received: names that stay within the directory served, and temporary files
//! that are removed after every failure.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::limits::{FileId, KeepFree, Place};
use super::message::NAME_BYTES;
use super::refusal::Refusal;
use super::stale;
use crate::printable::printable;
use crate::process;

/// Number of the next temporary file of this process.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A directory that receives files.
pub(super) struct Directory {
    descriptor: OwnedFd,
    /// Permissions that files do not get.
    umask: u32,
}

/// A file that is being received. Its temporary file is removed on drop, unless it was kept.
pub(super) struct Incoming {
    /// The directory of the file: the one served, or one below.
    parent: OwnedFd,
    temporary: CString,
    name: CString,
    /// The name that the client gave, escaped for printing.
    pub(super) shown: String,
    pub(super) file: File,
    pub(super) size: u64,
    /// Permissions of the file once it is stored.
    mode: u32,
    overwrite: bool,
    kept: bool,
}

impl Directory {
    /// Opens a directory, whose files get none of the permissions in `umask`.
    pub(super) fn open(path: &Path, umask: u32) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let descriptor = open_at(libc::AT_FDCWD, &name, libc::O_DIRECTORY | libc::O_RDONLY, 0)?;
        Ok(Directory { descriptor, umask })
    }

    /// Creates a temporary file of this size, which is to become `name`.
    pub(super) fn create(
        &self,
        name: &[u8],
        size: u64,
        mode: u32,
        overwrite: bool,
        (keep_free, place): (KeepFree, &Place),
    ) -> Result<Incoming, Refusal> {
        let shown = printable(name);
        let parts = parts(name).map_err(|wrong| Refusal::Name { name: shown.clone(), wrong })?;
        let (parent, name) = self.walk(parts, &shown)?;
        refuse_existing(&parent, &name, &shown, overwrite)?;
        if let Some(refusal) = place.refusal(keep_free.allows(&parent, size)?) {
            return Err(refusal);
        }
        let (temporary, file) = temporary(&parent).map_err(|error| Refusal::File {
            doing: "create a file for",
            name: shown.clone(),
            error,
        })?;
        let (mode, kept) = (mode & 0o777 & !self.umask, false);
        let incoming =
            Incoming { parent, temporary, name, shown, file, size, mode, overwrite, kept };
        // From here on, dropping the value removes the file.
        incoming.make_room()?;
        Ok(incoming)
    }

    /// Opens the directory of the last part, without following any link, so that no name leads out
    /// of the directory served.
    fn walk(&self, mut parts: Vec<CString>, shown: &str) -> Result<(OwnedFd, CString), Refusal> {
        let refused = |doing, error| Refusal::File { doing, name: shown.to_owned(), error };
        let name = parts
            .pop()
            .ok_or_else(|| Refusal::Name { name: shown.to_owned(), wrong: "is empty" })?;
        let mut at = self
            .descriptor
            .try_clone()
            .map_err(|error| refused("open the directory for", error))?;
        for part in parts {
            let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_RDONLY;
            at = open_at(at.as_raw_fd(), &part, flags, 0).map_err(|error| {
                let part = printable(part.as_bytes());
                Refusal::NoDirectory { part, name: shown.to_owned(), error }
            })?;
        }
        Ok((at, name))
    }
}

impl Incoming {
    /// Allocates the file's space on the disk, so that no page written later lacks it.
    fn make_room(&self) -> Result<(), Refusal> {
        if self.size == 0 {
            return Ok(());
        }
        let length = libc::off_t::try_from(self.size).map_err(|_| Refusal::Length(self.size))?;
        // SAFETY: the descriptor is open.
        match unsafe { libc::posix_fallocate(self.file.as_raw_fd(), 0, length) } {
            0 => Ok(()),
            code => Err(self.no_room(code, process::file_limit())),
        }
    }

    /// Why no space could be allocated, from the error and the longest length of a file.
    fn no_room(&self, code: i32, limit: Option<u64>) -> Refusal {
        let (size, name) = (self.size, self.shown.clone());
        match limit.filter(|limit| code == libc::EFBIG && *limit < size) {
            Some(limit) => Refusal::FileLimit { size, name, limit },
            None => Refusal::Space { size, name, error: io::Error::from_raw_os_error(code) },
        }
    }

    /// Makes the file durable and renames it to its final name. Returns which file it is, and which
    /// one it has replaced.
    pub(super) fn keep(mut self) -> Result<(FileId, Option<FileId>), Refusal> {
        let name = self.shown.clone();
        let failed = |error| Refusal::File { doing: "store", name: name.clone(), error };
        // SAFETY: the descriptor is open.
        if unsafe { libc::fchmod(self.file.as_raw_fd(), self.mode) } != 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        self.file.sync_all().map_err(failed)?;
        let metadata = self.file.metadata().map_err(failed)?;
        let found = status(&self.parent, &self.name).ok();
        let renamed = self.rename();
        if renamed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
            return Err(Refusal::Exists(name));
        }
        renamed.map_err(failed)?;
        self.kept = true;
        // SAFETY: the descriptor is open. A directory that can't be synced is no reason to say
        // that the file is not there.
        unsafe { libc::fsync(self.parent.as_raw_fd()) };
        // A file with another name still takes its space.
        let replaced = found.filter(|found| found.st_nlink == 1);
        let replaced = replaced.map(|found| FileId::new(found.st_dev, found.st_ino));
        Ok((FileId::new(metadata.dev(), metadata.ino()), replaced))
    }

    fn rename(&self) -> io::Result<()> {
        let directory = self.parent.as_raw_fd();
        let (from, to) = (self.temporary.as_ptr(), self.name.as_ptr());
        if self.overwrite {
            // SAFETY: an open descriptor and two strings that end.
            return result(unsafe { libc::renameat(directory, from, directory, to) });
        }
        // SAFETY: as above.
        let renamed = result(unsafe {
            libc::renameat2(directory, from, directory, to, libc::RENAME_NOREPLACE)
        });
        match renamed {
            // Not every file system supports that flag; a link does not replace an existing file
            // either.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
                // SAFETY: as above.
                result(unsafe { libc::linkat(directory, from, directory, to, 0) })?;
                // SAFETY: as above.
                result(unsafe { libc::unlinkat(directory, from, 0) })
            }
            other => other,
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.kept {
            // SAFETY: an open descriptor and a string that ends. What can't be removed is left.
            unsafe { libc::unlinkat(self.parent.as_raw_fd(), self.temporary.as_ptr(), 0) };
        }
    }
}

/// Creates a new temporary file, and returns its name, too.
fn temporary(parent: &OwnedFd) -> io::Result<(CString, File)> {
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(stale::name(number)?)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let file = File::from(open_at(parent.as_raw_fd(), &name, flags, 0o600)?);
        if stale::claim(&file)? {
            return Ok((name, file));
        }
    }
}

/// The parts of a name, if the name stays within the directory.
pub(super) fn parts(name: &[u8]) -> Result<Vec<CString>, &'static str> {
    const REMEDY: &str = "is no file's name: write it relative to the directory served, as a/b.img";
    if name.is_empty() {
        return Err("is empty: write HOST/NAME");
    }
    if name.len() > NAME_BYTES {
        return Err("is too long: use at most 4096 bytes");
    }
    if name.starts_with(b"/") {
        return Err("is absolute: write it relative to the directory served");
    }
    let parts = name.split(|byte| *byte == b'/').map(|part| match part {
        b".." => Err("leads upwards: write it relative to the directory served, without '..'"),
        b"" | b"." => Err(REMEDY),
        // Such a name belongs to a temporary file of another client.
        name if stale::is_temporary(&String::from_utf8_lossy(name)) => {
            Err("is one that the server gives to files that are arriving: choose another")
        }
        _ => CString::new(part).map_err(|_| "has a NUL byte in it: leave it out"),
    });
    parts.collect()
}

/// Refuses early a name under which the file could not be stored at the end.
fn refuse_existing(
    parent: &OwnedFd,
    name: &CString,
    shown: &str,
    overwrite: bool,
) -> Result<(), Refusal> {
    match status(parent, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Refusal::File { doing: "look for", name: shown.to_owned(), error }),
        Ok(found) if found.st_mode & libc::S_IFMT == libc::S_IFDIR => {
            Err(Refusal::Directory(shown.to_owned()))
        }
        Ok(_) if overwrite => Ok(()),
        Ok(_) => Err(Refusal::Exists(shown.to_owned())),
    }
}

/// What the directory has under a name. Links are not followed.
fn status(parent: &OwnedFd, name: &CString) -> io::Result<libc::stat> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: an open descriptor, a string that ends, and room for the answer.
    result(unsafe {
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        libc::fstatat(parent.as_raw_fd(), name.as_ptr(), status.as_mut_ptr(), flags)
    })?;
    // SAFETY: the call succeeded and has filled it.
    Ok(unsafe { status.assume_init() })
}

fn open_at(directory: RawFd, name: &CString, flags: i32, mode: u32) -> io::Result<OwnedFd> {
    // SAFETY: a string that ends; the descriptor is open or AT_FDCWD.
    let file = unsafe { libc::openat(directory, name.as_ptr(), flags | libc::O_CLOEXEC, mode) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened just now, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

fn result(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_no_file_can_have_is_refused_before_the_copy() {
        let parent = OwnedFd::from(File::open(std::env::temp_dir()).expect("a directory"));
        let refusal = |length: usize| {
            let name = CString::new(vec![b'a'; length]).expect("no NUL");
            refuse_existing(&parent, &name, "shown", false).map_err(|refusal| refusal.to_string())
        };
        let refused = refusal(300).expect_err("too long");
        assert!(refused.contains("could not look for 'shown'"), "{refused}");
        assert_eq!(refusal(255), Ok(()), "there is no such file");
    }

    #[test]
    fn limit_of_a_files_length_is_named() {
        let folder = std::env::temp_dir();
        let directory = Directory::open(&folder, 0).expect("a directory");
        let (parent, file) = (directory.descriptor, File::open(&folder).expect("a directory"));
        let name = || CString::new("fairway-test-nothing").expect("no NUL");
        let incoming = Incoming {
            parent,
            temporary: name(),
            name: name(),
            shown: "large".into(),
            file,
            size: 1000,
            mode: 0,
            overwrite: false,
            kept: false,
        };
        let refusal = |code, limit| incoming.no_room(code, limit).to_string();
        let limited = refusal(libc::EFBIG, Some(999));
        for word in ["'large' has 1000 bytes", "more than 999:", "ulimit -f", "LimitFSIZE="] {
            assert!(limited.contains(word), "no '{word}' in: {limited}");
        }
        for other in [refusal(libc::EFBIG, None), refusal(libc::ENOSPC, Some(999))] {
            assert!(other.contains("no room for 1000"), "{other}");
        }
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        for name in ["", "/a", "..", "../a", "a/../b", "a/..", "a//b", "a/", ".", "./a", "a\0b"] {
            assert!(parts(name.as_bytes()).is_err(), "{name:?}");
        }
        let temporary = stale::name(7).expect("a name");
        assert!(parts(format!("a/{temporary}").as_bytes()).is_err());
        for name in ["a", "a/b", "..a", "a..", ".a", "a b"] {
            assert!(parts(name.as_bytes()).is_ok(), "{name:?}");
        }
        assert!(parts(&[b'a'; NAME_BYTES + 1]).is_err());
    }
}
