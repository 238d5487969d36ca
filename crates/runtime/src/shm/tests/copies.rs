//! Connections that end while a child, which was forked, keeps copies of their descriptors.

use std::os::fd::AsFd;

use super::*;
use crate::passing::accept;
use crate::shm::attach;

/// Returns true if a thread that waits for packets to `datapath` would be woken now.
fn wakes(datapath: &SharedMemory) -> bool {
    let woken = datapath.waiter().unwrap().ready_now(&mut Vec::new()).unwrap();
    woken.sockets > 0
}

#[test]
fn ended_link_with_copies_of_its_descriptors_wakes_no_sleeper() {
    let (one, mut other) = attached();
    let copies = other.copies();
    assert_eq!(copies.len(), 2, "the connection and the process");
    drop(one);
    assert!(wakes(&other), "the end of the link");
    other.attend();
    assert_eq!(other.ready(), None, "the link is gone");
    assert!(!wakes(&other), "with {} copies", copies.len());
}

#[test]
fn refused_connection_with_a_copy_of_its_descriptor_wakes_no_sleeper() {
    let mut datapath = SharedMemory::alone(port()).unwrap();
    let to: SocketAddr = datapath.port().local_addrs()[0];
    let stream = attach::connect(&to).expect("the datapath listens");
    datapath.attend();
    let copies = datapath.copies();
    assert_eq!(copies.len(), 1, "the connection, whose greeting has not arrived");
    std::io::Write::write_all(&mut &stream, b"no greeting").unwrap();
    datapath.attend();
    assert_eq!(datapath.copies().len(), 0, "the connection is refused");
    drop(stream);
    assert!(!wakes(&datapath), "with {} copies", copies.len());
}

#[test]
fn request_that_is_refused_with_a_copy_of_its_descriptor_wakes_no_sleeper() {
    let mut datapath = SharedMemory::alone(port()).unwrap();
    let elsewhere = port();
    let to: SocketAddr = elsewhere.local_addrs()[0];
    let listener = attach::listen(&to).unwrap();
    assert!(datapath.transmit(NOW, 0, 0, &to.into(), &train(b"first", &[b""])).is_err());
    let copies = datapath.copies();
    assert_eq!(copies.len(), 1, "the request");
    drop(accept(listener.as_fd()).unwrap().expect("the request"));
    assert!(wakes(&datapath), "the end of the connection");
    datapath.attend();
    assert!(!wakes(&datapath), "with {} copies", copies.len());
}
