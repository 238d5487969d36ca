//! The file that a client copies.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, PermissionsExt};
use std::path::Path;

use crate::failure::Failure;

/// Most bytes of a file whose length the kernel does not tell.
const UNTOLD_BYTES_MAX: u64 = 1 << 28;

pub(super) struct Source {
    pub(super) file: File,
    pub(super) size: u64,
    pub(super) mode: u32,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let failed = |error: std::io::Error| Failure::io(format!("read '{shown}'"), &error);
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(Failure::failed(format!(
                "'{shown}' is a directory: copy its files one by one, or an archive of it (tar)"
            )));
        }
        let kind = metadata.file_type();
        if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
            return Err(Failure::failed(format!(
                "'{shown}' is no ordinary file: save what it holds to one first"
            )));
        }
        let mut file = File::open(path).map_err(failed)?;
        let mode = metadata.permissions().mode() & 0o777;
        let mut size = file.metadata().map_err(failed)?.len();
        if !is_told(&file, size).map_err(failed)? {
            (file, size) = whole(&file).map_err(failed)?;
            if size > UNTOLD_BYTES_MAX {
                return Err(Failure::failed(format!(
                    "'{shown}' does not tell its length, and holds more than {UNTOLD_BYTES_MAX} \
                     bytes: save what it holds to another file first"
                )));
            }
        }
        Ok(Source { file, size, mode })
    }
}

/// True if a file ends where its length says. The kernel makes the files of `/proc` and `/sys` when
/// they are read: the former have a length of 0, and the latter often one of a page.
fn is_told(file: &File, size: u64) -> std::io::Result<bool> {
    let mut byte = [0];
    match size.checked_sub(1) {
        None => Ok(file.read_at(&mut byte, 0)? == 0),
        Some(last) => Ok(file.read_at(&mut byte, last)? == 1),
    }
}

/// Reads a file to its end, or to one byte more than is copied. Returns a file in memory with these
/// bytes, and their number.
fn whole(file: &File) -> std::io::Result<(File, u64)> {
    // SAFETY: the name is a C string.
    let descriptor = unsafe { libc::memfd_create(c"fairway-copy".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    let mut copy = unsafe { File::from_raw_fd(descriptor) };
    let size = std::io::copy(&mut file.take(UNTOLD_BYTES_MAX + 1), &mut copy)?;
    Ok((copy, size))
}
