//! Moves a thread to another core.
//!
//! Two threads that wake each other by turns often end up on one core, because the kernel wakes a
//! thread near the thread that wakes it. While both poll, each waits for the other's time slice,
//! and the kernel's load balancing sees one busy core where there could be two.

use std::mem::size_of;

/// Makes the kernel move the calling thread to another one of the cores that it may use. Nothing
/// happens if it may use one only, or if the kernel refuses.
pub(crate) fn leave_core() {
    let Some(allowed) = allowed() else { return };
    // SAFETY: the call takes no memory.
    let here = unsafe { libc::sched_getcpu() };
    let Ok(here) = usize::try_from(here) else { return };
    // SAFETY: `CPU_COUNT` reads the set only.
    let several = unsafe { libc::CPU_COUNT(&allowed) } > 1;
    if !several || here >= libc::CPU_SETSIZE as usize {
        return;
    }
    let mut others = allowed;
    // SAFETY: `here` is a number within the set.
    unsafe { libc::CPU_CLR(here, &mut others) };
    // The thread may use all cores again as soon as it has moved.
    if allow(&others) {
        allow(&allowed);
    }
}

/// The cores that the calling thread may use; `None` if the kernel knows more than a set holds.
fn allowed() -> Option<libc::cpu_set_t> {
    // SAFETY: a set of cores is an array of integers, for which zeros are a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the size of `set`.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    (result == 0).then_some(set)
}

/// Restricts the calling thread to a set of cores. False if the kernel refuses.
fn allow(set: &libc::cpu_set_t) -> bool {
    // SAFETY: the kernel reads `set`.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the cores in a set.
    fn cores(set: &libc::cpu_set_t) -> Vec<usize> {
        // SAFETY: the numbers are within the set.
        (0..libc::CPU_SETSIZE as usize).filter(|at| unsafe { libc::CPU_ISSET(*at, set) }).collect()
    }

    #[test]
    fn thread_that_leaves_its_core_may_use_the_same_cores_as_before() {
        let before = allowed().expect("the kernel says which cores this thread may use");
        for _ in 0..100 {
            leave_core();
            assert_eq!(cores(&allowed().unwrap()), cores(&before));
        }
    }

    #[test]
    fn thread_moves_if_it_may_use_several_cores() {
        let several = cores(&allowed().unwrap()).len() > 1;
        // The kernel may move the thread back between two of these calls, but not each time.
        let moved = (0..100).filter(|_| {
            // SAFETY: the calls take no memory.
            let before = unsafe { libc::sched_getcpu() };
            leave_core();
            before != unsafe { libc::sched_getcpu() }
        });
        assert_eq!(moved.count() > 0, several);
    }
}
