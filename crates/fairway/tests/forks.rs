//! Children of `fork`: contexts of their parent are of no use to them, and unharmed by them.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{Pair, Side, TIMEOUT, bytes, content};
use fairway::{Error, JettyOptions, Memory, Post, Rights, Segment};

/// Runs `work` in a forked child, and returns its exit status: 0, or 1 if it panicked.
fn in_child(work: impl FnOnce()) -> i32 {
    // SAFETY: the child uses nothing that other threads may have locked, which is what is tested,
    // and memory of the C library, which is usable after a fork.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "the system has a process");
    if child == 0 {
        let status = i32::from(catch_unwind(AssertUnwindSafe(work)).is_err());
        // SAFETY: has no conditions. No destructor of the parent's objects runs.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the status has room for the result.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child was killed: {status}");
    libc::WEXITSTATUS(status)
}

fn assert_forked<T>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::Forked)));
}

/// Calls what fails in a child, and then drops everything.
fn use_and_drop(client: Side, local: Segment, remote: fairway::SegmentKey) {
    let Side { context, peer, jetty } = client;
    assert!(context.is_forked());
    assert_forked(jetty.write(&peer, &local, remote, 1));
    assert_forked(jetty.write_all(&peer, &local, remote, TIMEOUT));
    assert_forked(jetty.batch(|batch| batch.write(&peer, &local, remote, 2)));
    assert_forked(jetty.post_receive(&local, 3));
    assert_forked(jetty.wait(TIMEOUT));
    assert_forked(context.register(Memory::from_vec(vec![0; 8]), Rights::NONE));
    assert_forked(context.create_jetty(JettyOptions::default()));
    assert_forked(context.connect("127.0.0.1:9", TIMEOUT));
    assert_forked(context.wait_event(TIMEOUT));
    assert_forked(context.shutdown(TIMEOUT));
    assert_forked(peer.close());
    assert!(catch_unwind(AssertUnwindSafe(|| context.poll())).is_err());
    assert!(!format!("{context:?}").is_empty());
    drop((local, peer, jetty, context));
}

#[test]
fn forked_child_is_refused_and_leaves_the_connection_of_its_parent_alone() {
    let Pair { client, server } = Pair::new();
    let remote = server.open_segment(1 << 16);
    let key = remote.key();
    let local = client.filled(1 << 16, 1);
    client.jetty.write_all(&client.peer, &local, key, TIMEOUT).unwrap();
    let status = in_child(|| {
        // SAFETY: the child does not use the originals after this, and ends without dropping them.
        let (client, local) = unsafe { (std::ptr::read(&client), std::ptr::read(&local)) };
        use_and_drop(client, local, key);
    });
    assert_eq!(status, 0, "the child panicked");
    assert!(client.peer.is_alive() && !client.context.is_forked());
    let other = client.filled(1 << 16, 2);
    for _ in 0..100 {
        client.jetty.write_all(&client.peer, &other, key, TIMEOUT).unwrap();
    }
    assert!(content(&remote) == bytes(1 << 16, 2), "what the parent wrote is in place");
    client.context.shutdown(TIMEOUT).unwrap();
}

#[test]
fn forked_child_builds_a_context_of_its_own() {
    let Pair { client, server } = Pair::new();
    let remote = server.open_segment(64);
    let local = client.filled(64, 1);
    let (key, address) = (remote.key(), server.context.local_addrs()[0]);
    let status = in_child(|| {
        let context = common::builder().build().unwrap();
        let peer = context.connect(address, TIMEOUT).unwrap();
        let own = common::side(context, peer);
        let data = own.filled(64, 3);
        own.jetty.write_all(&own.peer, &data, key, TIMEOUT).unwrap();
        assert_forked(client.jetty.write(&client.peer, &local, key, 1));
        own.context.shutdown(TIMEOUT).unwrap();
    });
    assert_eq!(status, 0, "the child panicked");
    assert!(content(&remote) == bytes(64, 3));
}
