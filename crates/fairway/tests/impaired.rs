//! The same bytes over networks that lose, reorder, duplicate and delay.

mod common;

use common::{Pair, TIMEOUT, builder, bytes, content};
use fairway::{Builder, NotifyTarget};

fn worse(spec: &str, seed: u64) -> Builder {
    builder().emulate(spec.parse().unwrap(), seed)
}

/// Runs all operations in both directions at once, over a network of `spec` in both directions.
fn exercise(spec: &str) {
    for seed in 0..3 {
        let pair = Pair::of(worse(spec, seed), worse(spec, seed + 100));
        let (client, server) = (&pair.client, &pair.server);
        let size = 400_003_u64;
        let mine = client.filled(size as usize, seed);
        let theirs = server.filled(size as usize, seed + 50);
        let fetched = client.open_segment(size as usize);
        let put = server.open_segment(size as usize);
        let inbox = server.open_segment(40 * 1000);
        for id in 0..40 {
            server.jetty.post_receive(inbox.slice(id * 1000..(id + 1) * 1000), id).unwrap();
        }
        client.jetty.write(&client.peer, &mine, put.key(), 1000).unwrap();
        client.jetty.read(&client.peer, &fetched, theirs.key(), 1001).unwrap();
        for id in 0..40_u64 {
            let local = mine.slice(id * 1000..id * 1000 + 900);
            let notify = NotifyTarget::new(server.jetty.number(), id);
            client.jetty.send_immediate(&client.peer, notify, local, id).unwrap();
        }
        let mut ids: Vec<u64> = (0..42).map(|_| client.succeed().id.value()).collect();
        ids.sort_unstable();
        assert!(ids.into_iter().eq((0..40).chain(1000..1002)), "{spec}, seed {seed}");
        let data = content(&mine);
        let mut seen = [false; 40];
        for _ in 0..40 {
            let received = server.succeed();
            let sent = received.immediate.unwrap() as usize;
            assert!(!std::mem::replace(&mut seen[sent], true), "send {sent} came twice");
            let expected = &data[sent * 1000..sent * 1000 + 900];
            assert!(
                inbox.compare(received.id.value() * 1000, expected).unwrap(),
                "{spec}, seed {seed}"
            );
        }
        assert_eq!(content(&put), data, "{spec}, seed {seed}");
        assert_eq!(content(&fetched), content(&theirs), "{spec}, seed {seed}");
    }
}

#[test]
fn a_clean_delay_changes_nothing() {
    exercise("delay=200us");
}

#[test]
fn losses_are_made_good() {
    exercise("delay=50us,loss=3%");
}

#[test]
fn reordering_is_put_right() {
    exercise("delay=50us,reorder=32");
}

#[test]
fn duplicates_are_dropped() {
    exercise("delay=50us,dup=10%");
}

#[test]
fn everything_at_once() {
    exercise("delay=100us,jitter=80us,loss=2%,reorder=16,dup=2%");
}

#[test]
fn paths_of_different_length_are_used_together() {
    exercise("delay=20us;1:delay=1ms;2:delay=2ms,loss=5%;3:delay=500us");
}

#[test]
fn a_dead_path_is_left_out() {
    let spec = "*:delay=20us;1:blackhole@0s..1000s;5:blackhole@0s..1000s";
    // The default would hardly try a path that has never delivered.
    let pair = Pair::of(worse(spec, 1).policy_named("path=spray"), worse(spec, 2));
    let local = pair.client.filled(4 << 20, 1);
    let remote = pair.server.open_segment(4 << 20);
    for round in 0..8 {
        pair.client.jetty.write(&pair.client.peer, &local, remote.key(), round).unwrap();
        let _ = pair.client.succeed();
    }
    assert_eq!(content(&remote), content(&local));
    let stats = pair.client.peer.stats();
    assert!(!stats.paths[1].usable && !stats.paths[5].usable);
    assert!(stats.paths.iter().filter(|path| path.usable).count() >= 12);
}

#[test]
fn a_narrow_link_is_shared_by_readers_and_writers() {
    let spec = "rate=200M,queue=256K,delay=200us";
    let pair = Pair::of(worse(spec, 1), worse(spec, 2));
    let data = bytes(2 << 20, 3);
    let local = pair.client.filled(2 << 20, 3);
    let remote = pair.server.open_segment(2 << 20);
    let back = pair.client.open_segment(2 << 20);
    pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 0).unwrap();
    let _ = pair.client.succeed();
    pair.client.jetty.read(&pair.client.peer, &back, remote.key(), 1).unwrap();
    pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 2).unwrap();
    let _ = pair.client.succeed();
    let _ = pair.client.succeed();
    assert!(back.compare(0, &data).unwrap() && remote.compare(0, &data).unwrap());
}

#[test]
fn connections_come_about_in_spite_of_loss() {
    for seed in 0..10 {
        let spec = "loss=30%,dup=20%,reorder=2";
        let server = worse(spec, seed).build().unwrap();
        let client = worse(spec, seed + 100).build().unwrap();
        let peer = client.connect(server.local_addrs()[0], TIMEOUT).unwrap();
        assert!(peer.is_alive());
        assert_eq!(client.peers().len(), 1);
        assert_eq!(server.peers().len(), 1, "one connection, whatever was repeated");
    }
}
