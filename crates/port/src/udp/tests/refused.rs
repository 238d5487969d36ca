//! Calls and destinations that the kernel refuses.

use super::*;

/// Makes the kernel refuse a call of this thread by EPERM.
fn forbid(call: libc::c_long) {
    let rule = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal, end) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let mut rules = [
        rule(load, 0, 0, 0), // The number of the call is the first word of what a filter is given.
        rule(equal, 0, 1, call as u32),
        rule(end, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        rule(end, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
    // SAFETY: the filter concerns this thread alone, and the kernel copies it.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn container_that_forbids_short_waits_has_longer_ones() {
    std::thread::spawn(|| {
        forbid(libc::SYS_epoll_pwait2);
        let pair = Pair::new(V4);
        let short = Some(Duration::from_micros(1500));
        let mut ready = Vec::new();
        for _ in 0..3 {
            pair.waiter.wait(short, &mut ready).expect("another call waits");
        }
    })
    .join()
    .unwrap();
}

#[test]
fn forbidden_destination_does_not_end_trains_to_others() {
    let mut pair = Pair::new(V4);
    let packets = Packets::new(&[PAYLOAD; 4]);
    let mut train = pair.left.new_train();
    packets.load(&mut train);
    // The kernel refuses broadcasts of sockets that have not asked for them.
    let broadcast = Address::from(SocketAddr::from(([127, 255, 255, 255], 9)));
    for _ in 0..10 {
        let error = pair.left.send(0, &broadcast, &train).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    }
    let calls = pair.left.counters().send_calls;
    pair.send(&packets);
    assert_eq!(pair.left.counters().send_calls, calls + 1);
    assert_eq!(pair.receive_packets(4), packets.whole());
}
