//! The file descriptors of this process.

use crate::udp::check;

/// Returns the maximum number of file descriptors of this process (the soft limit of
/// `RLIMIT_NOFILE`), and how many are open. `None`: the system does not say.
pub fn descriptors() -> Option<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the call, which writes to it.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }).ok()?;
    // The list contains the descriptor by which it is read.
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    Some((limit.rlim_cur, open as u64))
}

#[cfg(test)]
mod tests {
    use super::descriptors;

    #[test]
    fn open_files_count() {
        let before = descriptors().expect("Linux reports both");
        let files: Vec<_> = (0..32).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let after = descriptors().unwrap();
        // Other tests of this process open and close files meanwhile.
        assert_eq!(after.0, before.0);
        assert!(after.1 <= after.0 && after.1 >= files.len() as u64, "{before:?} {after:?}");
    }
}
