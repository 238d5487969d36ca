//! Checks that nothing is allocated while data is transferred. This is a separate program, without
//! the test harness, because it counts the allocations of all threads.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use common::{Pair, TIMEOUT};
use fairway::{LongPackets, NotifyTarget, Order, Post, Rights, ServiceMode};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(1 << 20, 1);
    let remote = server.segment(1 << 20, Rights::ALL);
    let inbox = server.open_segment(1 << 20);
    let mut done = Vec::with_capacity(1024);
    let mut round = |id: u64| {
        client.jetty.write(&client.peer, &local, remote.key(), id).unwrap();
        client.jetty.read(&client.peer, &local, remote.key(), id).unwrap();
        server.jetty.post_receive(&inbox, id).unwrap();
        let notify = NotifyTarget::new(server.jetty.number(), id);
        client.jetty.send_immediate(&client.peer, notify, local.slice(0..5000), id).unwrap();
        let strict = client.jetty.ordered(Order::strict(ServiceMode::Rot));
        strict.write(&client.peer, local.slice(0..100), remote.key(), id).unwrap();
        strict.fetch_add(&client.peer, remote.key().at(8).word64(), 1, id).unwrap();
        client.jetty.load(&client.peer, local.slice(0..8), remote.key(), id).unwrap();
        client.jetty.store(&client.peer, local.slice(0..8), remote.key(), id).unwrap();
        let posted = client.jetty.batch(|batch| {
            (0..16)
                .try_for_each(|_| batch.write(&client.peer, local.slice(0..64), remote.key(), id))
        });
        assert_eq!(posted.unwrap(), 16);
        done.clear();
        // Both ways to receive completions: polling and sleeping.
        while done.len() < 10 {
            client.jetty.poll(&mut done);
        }
        while done.len() < 23 {
            done.push(client.jetty.wait(TIMEOUT).unwrap());
        }
        let _ = server.jetty.wait(TIMEOUT).unwrap();
    };
    (0..200).for_each(&mut round);
    // Shortly after a connection the client probes it once with packets of full size, by sockets of
    // their own. That is part of the set-up.
    let probed_by = Instant::now() + TIMEOUT;
    while client.peer.long_packets() == LongPackets::Unknown {
        assert!(Instant::now() < probed_by, "the length of packets was never probed");
        round(200);
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..200).for_each(&mut round);
    let after = ALLOCATIONS.load(Ordering::Relaxed);
    assert_eq!(after - before, 0, "allocations in 200 rounds");
    println!("200 rounds without an allocation");
}
