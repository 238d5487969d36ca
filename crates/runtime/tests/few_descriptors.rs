//! Shared memory in a process that has no file descriptor left. The only test of its process,
//! because the limit of descriptors is that of the whole process.

use std::net::Ipv4Addr;

use fairway_port::{Address, Datapath, RawSlice, Train, UdpConfig, UdpPort};
use fairway_runtime::{SharedMemory, addresses};

const NOW_NS: u64 = 1_000_000_000;

fn datapath() -> SharedMemory {
    let bind = Ipv4Addr::LOCALHOST.into();
    let config = UdpConfig { bind, first_port: 0, sockets: 1, buffer_bytes: 1 << 20 };
    SharedMemory::alone(UdpPort::bind(&config).unwrap()).unwrap()
}

fn hello() -> Train {
    static BYTES: [u8; 5] = *b"hello";
    let mut train = Train::new(64);
    // SAFETY: the bytes are there for ever.
    train.push(b"h", unsafe { RawSlice::new(BYTES.as_ptr(), BYTES.len()) }).unwrap();
    train
}

/// Sets the limit of file descriptors, and returns the one before.
fn limit_descriptors(limit: libc::rlim_t) -> libc::rlim_t {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct outlives both calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limits), 0);
        let before = std::mem::replace(&mut limits.rlim_cur, limit);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limits), 0);
        before
    }
}

#[test]
fn connection_without_a_descriptor_waits_and_wakes_no_sleeper_meanwhile() {
    let (mut one, mut other) = (datapath(), datapath());
    let to: Address = other.port().local_addrs()[0].into();
    let waiter = other.waiter().unwrap();
    let mut ready = Vec::new();
    assert!(one.transmit(NOW_NS, 0, 0, &to, &hello()).is_err(), "not attached yet");
    assert_eq!(waiter.ready_now(&mut ready).unwrap().sockets, 1, "the connection");

    // Every new descriptor would have a number of at least 0.
    let before = limit_descriptors(0);
    other.attend();
    let woken = waiter.ready_now(&mut ready).unwrap();
    let near = addresses::is_of_this_host(to.into());
    limit_descriptors(before);
    assert!(near.is_err(), "the process cannot find out: {near:?}");
    assert_eq!(woken.sockets, 0, "the connection can't be accepted");

    let again_ns = other.next_release_ns().expect("the time of the next attempt");
    other.release_due(again_ns.wrapping_sub(1)).unwrap();
    assert_eq!(waiter.ready_now(&mut ready).unwrap().sockets, 0, "too early");
    other.release_due(again_ns).unwrap();
    assert_eq!(other.next_release_ns(), None);
    assert_eq!(waiter.ready_now(&mut ready).unwrap().sockets, 1, "the connection");
    other.attend();
    one.attend();
    assert!(one.transmit(NOW_NS, 0, 0, &to, &hello()).is_ok(), "attached");
}
