//! Temporary files that a killed server has left behind.
//!
//! A server holds a lock (`flock`) on each file that it receives, from before its first byte to its
//! end. The kernel releases the lock when the process ends, for any reason. So if a file has the
//! name of a temporary one and its lock can be taken, the server that created it has ended.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::printable::printable;
use crate::process::{self, say};

/// The name of a temporary file. It contains 64 random bits, so that no other process can create a
/// file or a link of that name in advance.
///
/// # Errors
/// If the system has no random bytes.
pub(super) fn name(number: u64) -> io::Result<String> {
    let random = process::random()?;
    Ok(format!(".fairway-{}-{number}-{random:016x}.part", std::process::id()))
}

/// Takes the lock of a file that was just created. False if another server considered the file
/// stale in the moment before, and has removed it.
pub(super) fn claim(file: &File) -> io::Result<bool> {
    // On a file system without locks, no stale files are removed either.
    let _ = lock(file, libc::LOCK_EX);
    Ok(file.metadata()?.nlink() > 0)
}

/// Removes the temporary files in `directory` and below that no server holds, and prints a line for
/// each. Files that can't be read or removed are skipped. Links are not followed.
pub(super) fn remove(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() {
            remove(&path);
        } else if kind.is_file()
            && is_temporary(&entry.file_name().to_string_lossy())
            && is_free(&path)
            && fs::remove_file(&path).is_ok()
        {
            say(&removed(&path));
        }
    }
}

/// The line for a file that was removed. Clients may have chosen the names of folders.
fn removed(path: &Path) -> String {
    let shown = printable(path.as_os_str().as_bytes());
    format!("fairway serve: removed '{shown}', which a server that was killed had left")
}

/// Whether this is the name of a temporary file. The names of earlier releases had no random part.
pub(super) fn is_temporary(name: &str) -> bool {
    let numbers = name.strip_prefix(".fairway-").and_then(|rest| rest.strip_suffix(".part"));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let random = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((process, rest)) = numbers.and_then(|numbers| numbers.split_once('-')) else {
        return false;
    };
    let is_named = match rest.split_once('-') {
        Some((file, rest)) => number(file) && random(rest),
        None => number(rest),
    };
    number(process) && is_named
}

/// Whether no process holds the file's lock.
fn is_free(path: &Path) -> bool {
    let mut options = File::options();
    let opened = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    opened.is_ok_and(|file| lock(&file, libc::LOCK_EX | libc::LOCK_NB).is_ok())
}

fn lock(file: &File, how: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    match unsafe { libc::flock(file.as_raw_fd(), how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_names_are_printed_without_control_characters() {
        let line = removed(Path::new("a\u{1b}[2J\n'b/.fairway-1-2.part"));
        assert!(line.contains(r"'a\u{1b}[2J\u{a}\'b/.fairway-1-2.part'"), "{line}");
    }

    #[test]
    fn only_names_of_temporary_files_are_temporary() {
        let (one, other) = (name(3).expect("a name"), name(3).expect("a name"));
        assert!(is_temporary(&one) && is_temporary(".fairway-6774-2.part"));
        assert_ne!(one, other, "by chance");
        for other in [
            "x.part",
            ".fairway-1.part",
            ".fairway--1.part",
            ".fairway-a-1.part",
            ".fairway-1-2-0123456789abcde.part",
            "",
        ] {
            assert!(!is_temporary(other), "{other}");
        }
    }

    #[test]
    fn a_file_is_removed_when_its_owner_has_gone_and_not_before() {
        let folder = std::env::temp_dir().join(format!("fairway-stale-{}", std::process::id()));
        let below = folder.join("a/b");
        fs::create_dir_all(&below).expect("a folder");
        let name = |number| name(number).expect("a name");
        let paths = [folder.join(name(1)), below.join(name(2)), below.join("mine.part")];
        let files = paths.clone().map(|path| File::create(path).expect("a file"));
        assert!(claim(&files[0]).expect("metadata") && claim(&files[1]).expect("metadata"));
        remove(&folder);
        assert!(paths.iter().all(|path| path.exists()), "their owner lives");
        drop(files);
        remove(&folder);
        assert_eq!(paths.map(|path| path.exists()), [false, false, true]);
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
