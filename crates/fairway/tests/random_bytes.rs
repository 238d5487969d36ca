//! Behaviour on a system that returns no random bytes.

use std::io;

use fairway::{Context, Memory, Rights};
use fairway_runtime::clock::{random, random_bytes};

/// Makes the system refuse random bytes to this thread.
fn refuse_random_bytes() {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let jump = libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: 1,
        k: libc::SYS_getrandom as u32,
    };
    let mut filter = [
        // The kernel passes the number of the call first.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        jump,
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program outlives the calls, which change this thread alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let (set, mode) = (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER);
        let set = libc::prctl(set, mode, &raw const program);
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }
}

/// Keys used to be zero if the system returned no random bytes.
#[test]
fn without_random_bytes_there_are_errors_and_no_keys() {
    let builder = || Context::builder().bind(std::net::Ipv4Addr::LOCALHOST.into());
    let context = builder().build().expect("a context");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            refuse_random_bytes();
            assert!(random().is_err() && random_bytes::<32>().is_err());
            let memory = Memory::zeroed(64).expect("memory");
            assert!(context.register(memory, Rights::READ_WRITE).is_err(), "a key that is none");
            assert!(builder().build().is_err(), "a node without secrets");
        });
    });
    let memory = Memory::zeroed(64).expect("memory");
    context.register(memory, Rights::READ_WRITE).expect("another thread has random bytes");
}
