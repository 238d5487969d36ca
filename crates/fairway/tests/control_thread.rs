//! Congestion controls and schedulers on a separate thread, on live traffic.

mod common;

use std::time::Instant;

use common::{Pair, TIMEOUT, builder, content};
use fairway::ProcessorStats;

const SIZE: usize = 1_000_003;

/// Executes WRITEs of different bytes to different places, then compares every byte.
fn exercise(pair: &Pair, seed: u64) {
    let client = &pair.client;
    let count = 8;
    let mine: Vec<_> = (0..count).map(|n| client.filled(SIZE, seed + n)).collect();
    let theirs: Vec<_> = (0..count).map(|_| pair.server.open_segment(SIZE)).collect();
    for (id, (from, to)) in mine.iter().zip(&theirs).enumerate() {
        client.jetty.write(&client.peer, from, to.key(), id as u64).unwrap();
    }
    for _ in 0..count {
        let _ = client.succeed();
    }
    for (from, to) in mine.iter().zip(&theirs) {
        assert!(content(from) == content(to), "the bytes are those that were written");
    }
}

/// Waits until the client's controllers have handled more than `before` events: on a busy host
/// their thread may run for the first time when all bytes have arrived.
fn handled_after(pair: &Pair, before: u64) -> ProcessorStats {
    let begun = Instant::now();
    loop {
        let stats = pair.client.context.congestion_stats().expect("they run on events");
        if stats.handled > before && stats.bytes > 0 {
            return stats;
        }
        assert!(begun.elapsed() < TIMEOUT, "{stats:?}");
    }
}

#[test]
fn controllers_on_their_own_thread_carry_all_traffic() {
    for policy in ["cc=swift", "cc=dcqcn", "cc=eqds:line=10Gbps", "cc=cubic,sched=drr"] {
        let both = || builder().policy_named(policy).control_threads(1);
        let pair = Pair::of(both(), both());
        exercise(&pair, 1);
        let stats = handled_after(&pair, 0);
        assert!(stats.collected >= stats.handled, "{policy}: {stats:?}");
    }
}

/// Only the scheduler is replaced while it runs; channels keep their congestion controls.
#[test]
fn a_scheduler_is_replaced_and_congestion_controls_stay() {
    let both = || builder().policy_named("cc=eqds,sched=drr").control_threads(1);
    let pair = Pair::of(both(), both());
    exercise(&pair, 1);
    assert!(pair.client.context.scheduler_stats().is_some());
    for (round, policy) in ["sched=greedy", "sched=static:line=10Gbps"].iter().enumerate() {
        let policies = policy.parse::<fairway::Policies>().unwrap();
        pair.client.context.set_policy(policies).unwrap();
        let scheduled = pair.client.context.scheduler_stats().is_some();
        assert_eq!(scheduled, round == 1, "{policy}");
        let before = pair.client.context.congestion_stats().unwrap().handled;
        exercise(&pair, 10 + round as u64);
        let _ = handled_after(&pair, before);
    }
}

#[test]
fn without_it_congestion_controls_are_called_directly() {
    let pair = Pair::of(builder(), builder());
    exercise(&pair, 3);
    assert_eq!(pair.client.context.congestion_stats(), None);
}
