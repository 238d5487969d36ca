//! The limit on the size of files (`RLIMIT_FSIZE`), which holds for files in memory, too.

use std::io;

/// Checks that this process may have a file of `length` bytes. The kernel does not only refuse a
/// longer one: by default it ends the process (SIGXFSZ).
pub(crate) fn check(length: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the call, which writes to it.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    if !is_known || length <= limit.rlim_cur {
        return Ok(());
    }
    let text = format!(
        "memory that processes share is a file of {length} bytes, and the limit on the size of \
         files is {}: raise it (ulimit -f)",
        limit.rlim_cur
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
}
