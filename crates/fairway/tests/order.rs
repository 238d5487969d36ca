//! Order, as memory and completion queues show it, over networks that lose, duplicate and reorder.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use common::{MTU, Pair, Side, TIMEOUT, builder, content, dead_after};
use fairway::{
    AtomicOp, Builder, CompletionKind, Error, Event, NotifyTarget, Order, Post, Rights, Segment,
    ServiceMode,
};

const BAD: &str = "delay=50us,jitter=100us,loss=2%,reorder=16,dup=2%";

fn worse(spec: &str, seed: u64) -> Builder {
    builder().emulate(spec.parse().unwrap(), seed)
}

fn bad_pair(seed: u64) -> Pair {
    Pair::of(worse(BAD, seed), worse(BAD, seed + 100))
}

/// Rounds of the flag test; each has a slot of [`SLOT`] bytes.
const ROUNDS: u64 = 250;
const SLOT: u64 = 12_000;
/// Rounds under way at once.
const AHEAD: u64 = 24;

/// The byte that fills a slot once its data has arrived. Never zero.
fn byte_of(round: u64) -> u8 {
    (round % 255 + 1) as u8
}

/// Length of a round's data: one packet in some rounds, and three in others.
fn length_of(round: u64) -> u64 {
    if round.is_multiple_of(4) { SLOT - 7 } else { 2_000 }
}

/// The way in which the flag of a round is raised.
#[derive(Clone, Copy, PartialEq)]
enum Flag {
    Write,
    Add,
}

/// Reads the flag until it shows the last round. Whenever it shows a round, the data of all rounds
/// up to that one must be in place. `progress` receives that round.
fn watch(flag: &Segment, data: &Segment, progress: &AtomicU64) {
    let word = flag.atomic_u64(8).unwrap();
    let mut checked = 0;
    while checked < ROUNDS {
        let seen = word.load(Ordering::Acquire);
        assert!(seen >= checked, "the flag went back from {checked} to {seen}");
        for round in checked..seen {
            let expected = vec![byte_of(round); length_of(round) as usize];
            assert!(data.compare(round * SLOT, &expected).unwrap(), "{seen} without {round}");
        }
        checked = seen;
        progress.store(checked, Ordering::Release);
        std::thread::yield_now();
    }
}

fn raise(client: &Side, order: Order, flag: Flag, (values, key): (&Segment, &Segment), round: u64) {
    let last = client.jetty.ordered(order);
    let place = key.key().at(8);
    match flag {
        Flag::Write => {
            let local = values.slice(round * 8..round * 8 + 8);
            last.write(&client.peer, local, place, round).unwrap();
        }
        Flag::Add => last.fetch_add(&client.peer, place.word64(), 1, round).unwrap(),
    }
}

/// Writes data with relaxed order, and the flag with strict order.
fn flags_follow_data(mode: ServiceMode, flag: Flag, seed: u64) -> Pair {
    let pair = bad_pair(seed);
    let (client, server) = (&pair.client, &pair.server);
    let local = client.segment((ROUNDS * SLOT) as usize, Rights::NONE);
    let values = client.segment(ROUNDS as usize * 8, Rights::NONE);
    for round in 0..ROUNDS {
        let slot = vec![byte_of(round); SLOT as usize];
        local.write_at(round * SLOT, &slot).unwrap();
        values.write_at(round * 8, &(round + 1).to_ne_bytes()).unwrap();
    }
    let data = server.segment((ROUNDS * SLOT) as usize, Rights::WRITE);
    let word = server.segment(16, Rights::ALL);
    let progress = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&word, &data, &progress));
        for round in 0..ROUNDS + AHEAD {
            // The watcher must see the flag before it is complete, however busy the machine is.
            let unseen = || progress.load(Ordering::Acquire) == 0 && !watcher.is_finished();
            while round == ROUNDS / 2 && unseen() {
                std::thread::yield_now();
            }
            if round < ROUNDS {
                let range = round * SLOT..round * SLOT + length_of(round);
                let relaxed = client.jetty.ordered(Order::relaxed(mode));
                let place = data.key().at(range.start);
                relaxed.write(&client.peer, local.slice(range), place, round).unwrap();
                raise(client, Order::strict(mode), flag, (&values, &word), round);
            }
            if round >= AHEAD {
                let _ = client.succeed();
                let _ = client.succeed();
            }
        }
    });
    pair
}

#[test]
fn a_flag_follows_its_data_ordered_by_the_initiator() {
    let pair = flags_follow_data(ServiceMode::Roi, Flag::Write, 1);
    assert!(pair.client.context.counters().engine.gated > 0, "something had to wait");
}

#[test]
fn a_flag_follows_its_data_ordered_by_the_target() {
    let pair = flags_follow_data(ServiceMode::Rot, Flag::Write, 2);
    let counters = pair.server.context.counters();
    assert!(counters.engine.deferred > 0, "something came too early and was kept");
    assert!(counters.nic.placed_late > 0, "and was placed later");
    assert_eq!(pair.server.context.usage().deferred, 0, "and nothing stays behind");
}

#[test]
fn a_flag_follows_its_data_ordered_by_the_layer_below() {
    flags_follow_data(ServiceMode::Rol, Flag::Write, 3);
}

#[test]
fn an_atomic_follows_data() {
    for (mode, seed) in [(ServiceMode::Roi, 4), (ServiceMode::Rot, 5), (ServiceMode::Rol, 6)] {
        let pair = flags_follow_data(mode, Flag::Add, seed);
        assert_eq!(pair.server.context.counters().nic.atomics, ROUNDS, "each once");
    }
}

/// Early packets wait in the staging memory. Without one they are refused, and retransmitted.
#[test]
fn without_staging_memory_nothing_is_lost() {
    let limits = fairway::Limits::new().deferred(0);
    let pair = Pair::of(worse(BAD, 7), worse(BAD, 107).limits(limits));
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(200 * 64, 1);
    let remote = server.segment(200 * 64, Rights::WRITE);
    for round in 0..200 {
        let strict = client.jetty.ordered(Order::strict(ServiceMode::Rot));
        let range = round * 64..round * 64 + 64;
        strict
            .write(&client.peer, local.slice(range.clone()), remote.key().at(range.start), round)
            .unwrap();
    }
    for _ in 0..200 {
        let _ = client.succeed();
    }
    assert_eq!(content(&remote), content(&local));
    assert_eq!(server.context.counters().nic.placed_late, 0);
}

/// A WRITE that follows a READ of the same bytes, over a network that loses every tenth packet.
#[test]
fn a_fence_keeps_writes_behind_reads() {
    let spec = "delay=50us,loss=10%,reorder=8";
    let pair = Pair::of(worse(spec, 8), worse(spec, 108));
    let (client, server) = (&pair.client, &pair.server);
    let remote = server.filled(100 * 1000, 1);
    let before = content(&remote);
    let (mine, back) = (client.filled(100 * 1000, 2), client.open_segment(100 * 1000));
    for slot in 0..100 {
        let range = slot * 1000..slot * 1000 + 1000;
        let place = remote.key().at(range.start);
        client.jetty.read(&client.peer, back.slice(range.clone()), place, slot).unwrap();
        let fenced = client.jetty.ordered(Order::default().fenced());
        fenced.write(&client.peer, mine.slice(range), place, slot).unwrap();
    }
    for _ in 0..200 {
        let _ = client.succeed();
    }
    assert!(content(&back) == before, "a read saw what was written after it");
    assert_eq!(content(&remote), content(&mine));
}

#[test]
fn completions_come_in_order_if_requested() {
    let pair = bad_pair(9);
    let client = &pair.client;
    let local = client.filled(300_000, 1);
    let remote = pair.server.open_segment(300_000);
    let in_order = client.jetty.ordered(Order::default().completing_in_order());
    for id in 0..60 {
        let length = if id % 6 == 0 { 300_000 } else { 10 };
        in_order.write(&client.peer, local.slice(0..length), remote.key(), id).unwrap();
    }
    let ids: Vec<u64> = (0..60).map(|_| client.succeed().id.value()).collect();
    assert_eq!(ids, (0..60).collect::<Vec<_>>());
}

#[test]
fn receives_complete_in_order_if_requested() {
    let pair = bad_pair(10);
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(20_000, 1);
    let inbox = server.open_segment(20_000);
    for id in 0..100 {
        server.jetty.post_receive(&inbox, id).unwrap();
    }
    let in_order = client.jetty.ordered(Order::default().receiving_in_order());
    for id in 0..100 {
        let notify = NotifyTarget::new(server.jetty.number(), id);
        let length = if id % 5 == 0 { 20_000 } else { 10 };
        in_order.send_immediate(&client.peer, notify, local.slice(0..length), id).unwrap();
    }
    let received: Vec<u64> = (0..100).map(|_| server.succeed().immediate.unwrap()).collect();
    assert_eq!(received, (0..100).collect::<Vec<_>>());
}

#[test]
fn unreliable_messages_arrive_at_most_once_and_are_never_repeated() {
    let pair = Pair::of(worse("loss=30%,dup=30%", 11), builder());
    let (client, server) = (&pair.client, &pair.server);
    let outbox = client.filled(100 * 1000, 1);
    let inbox = server.open_segment(101 * 1000);
    for id in 0..101 {
        server.jetty.post_receive(inbox.slice(id * 1000..id * 1000 + 1000), id).unwrap();
    }
    let loose = client.jetty.ordered(Order::unreliable());
    for id in 0..100 {
        let notify = NotifyTarget::new(server.jetty.number(), id);
        let local = outbox.slice(id * 1000..id * 1000 + 1000);
        loose.send_immediate(&client.peer, notify, local, id).unwrap();
        assert_eq!(client.succeed().kind, CompletionKind::Send);
    }
    let last = NotifyTarget::new(server.jetty.number(), 1000);
    client.jetty.send_immediate(&client.peer, last, outbox.slice(0..0), 0).unwrap();
    let mut seen = [false; 100];
    loop {
        let received = server.succeed();
        let Some(sent @ 0..100) = received.immediate else { break };
        assert!(!std::mem::replace(&mut seen[sent as usize], true), "{sent} came twice");
        let expected = &content(&outbox)[sent as usize * 1000..][..1000];
        assert!(inbox.compare(received.id.value() * 1000, expected).unwrap());
    }
    let arrived = seen.iter().filter(|seen| **seen).count();
    assert!((20..100).contains(&arrived), "{arrived} of 100 arrived");
    assert_eq!(client.context.counters().engine.datagrams_sent, 100);
}

#[test]
fn orders_that_do_not_exist_are_refused() {
    let pair = Pair::new();
    let client = &pair.client;
    let local = client.open_segment(10_000);
    let remote = pair.server.open_segment(10_000);
    let key = remote.key();
    let loose = client.jetty.ordered(Order::unreliable());
    let refused = loose.write(&client.peer, &local, key, 1).unwrap_err();
    assert!(matches!(
        refused,
        Error::Unreliable { operation: "WRITE", length: 10_000, packet: MTU }
    ));
    let refused = loose.read(&client.peer, local.slice(0..10), key, 1).unwrap_err();
    assert!(matches!(refused, Error::Unreliable { operation: "READ", .. }), "{refused}");
    let refused = loose.atomic(&client.peer, key.at(0).word64(), AtomicOp::Load, 1).unwrap_err();
    assert!(matches!(refused, Error::Unreliable { operation: "atomic", .. }), "{refused}");
    let refused = client.jetty.ordered(Order::unreliable().fenced());
    let refused = refused.write(&client.peer, local.slice(0..10), key, 1).unwrap_err();
    assert!(matches!(refused, Error::Parameter { name: "order", .. }), "{refused}");
    let strict = client.jetty.ordered(Order::strict(ServiceMode::Rot));
    let refused = strict.load(&client.peer, local.slice(0..8), key, 1).unwrap_err();
    assert!(matches!(refused, Error::Parameter { name: "order", .. }), "{refused}");
    assert!(client.jetty.wait(std::time::Duration::ZERO).is_err(), "nothing was posted");
}

/// Batches take orders too.
#[test]
fn a_batch_keeps_order() {
    let pair = bad_pair(12);
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(50 * 2000, 1);
    let remote = server.segment(50 * 2000 + 8, Rights::ALL);
    let posted = client.jetty.batch(|batch| {
        for slot in 0..50 {
            let range = slot * 2000..slot * 2000 + 2000;
            let place = remote.key().at(range.start);
            let relaxed = batch.ordered(Order::relaxed(ServiceMode::Rot));
            relaxed.write(&client.peer, local.slice(range), place, slot)?;
        }
        let strict = batch.ordered(Order::strict(ServiceMode::Rot));
        strict.swap(&client.peer, remote.key().at(100_000).word64(), 77, 50)
    });
    assert_eq!(posted.unwrap(), 51);
    let flag = remote.atomic_u64(100_000).unwrap();
    let start = Instant::now();
    while flag.load(Ordering::Acquire) != 77 {
        assert!(start.elapsed() < TIMEOUT, "the flag never came");
        std::thread::yield_now();
    }
    assert!(remote.compare(0, &content(&local)).unwrap(), "the flag came before the data");
    for _ in 0..51 {
        let _ = client.succeed();
    }
}

/// Executes strict WRITEs to the same bytes: the memory must be as if they had been executed one
/// after the other.
fn writes_overlap(pair: &Pair, mode: ServiceMode) {
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(400_000, 5);
    let remote = server.segment(60_000, Rights::WRITE);
    let source = content(&local);
    let mut model = vec![0; 60_000];
    let lengths = [50_000, 100, 5_000, 1, 9_000, 2_000, 30_000, 64];
    for id in 0..120_usize {
        let length = lengths[id * 5 % lengths.len()];
        let (from, to) = (id * 2_901, id * 83 % 10_000);
        let strict = client.jetty.ordered(Order::strict(mode));
        let range = from as u64..(from + length) as u64;
        let place = remote.key().at(to as u64);
        strict.write(&client.peer, local.slice(range), place, id as u64).unwrap();
        model[to..to + length].copy_from_slice(&source[from..from + length]);
    }
    for _ in 0..120 {
        let _ = client.succeed();
    }
    assert!(content(&remote) == model, "{mode:?}: not what one after the other leaves");
}

#[test]
fn strict_writes_may_overlap() {
    for (mode, seed) in [(ServiceMode::Roi, 20), (ServiceMode::Rot, 21), (ServiceMode::Rol, 22)] {
        writes_overlap(&bad_pair(seed), mode);
        // Over a good network, payload is received directly into place.
        let clean = Pair::new();
        (0..3).for_each(|_| writes_overlap(&clean, mode));
    }
}

/// Payload that was set aside for a peer that dies does not stay.
#[test]
fn staging_memory_is_empty_after_a_peer_died() {
    let pair = Pair::of(worse(BAD, 30), worse(BAD, 130).profile(dead_after(300)));
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(64, 1);
    let remote = server.segment(64, Rights::ALL);
    let strict = client.jetty.ordered(Order::strict(ServiceMode::Rot));
    let (mut posted, start) = (0, Instant::now());
    while server.context.usage().deferred == 0 {
        assert!(start.elapsed() < TIMEOUT, "nothing came too early");
        if strict.write(&client.peer, &local, remote.key(), posted).is_ok() {
            posted += 1;
        }
        while client.jetty.poll(&mut Vec::new()) > 0 {}
    }
    client.context.simulate_crash();
    loop {
        if let Event::PeerDead(_) = server.context.wait_event(TIMEOUT).unwrap() {
            break;
        }
    }
    assert_eq!(server.context.usage().deferred, 0);
    drop(remote);
    assert_eq!(server.context.usage().segments, 0, "nothing keeps the segment");
}
