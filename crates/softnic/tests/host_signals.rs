//! What the host and its applications tell the NIC without calling it: hints in shared memory,
//! and what the host is short of.

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Pair, builder};
use fairway_softnic::{Error, HostPressure, JettyOptions, Post};

#[test]
fn a_hint_is_a_store_into_shared_memory() {
    let pair = Pair::of(builder().policy_named("sched=drr"), builder());
    let client = &pair.client;
    let words = client.open_segment(64);
    client.jetty.set_hint_word(&words, 8).unwrap();
    let (from, to) = (client.filled(4096, 1), pair.server.open_segment(4096));
    let handled = || client.context.scheduler_stats().unwrap().collected;
    let turn = |id| {
        client.jetty.write(&client.peer, &from, to.key(), id).unwrap();
        client.succeed();
    };
    turn(0);
    words.atomic_u64(8).unwrap().store(7, Ordering::Release);
    let before = handled();
    // The store alone is an event; it is found with the next turn, and heard with what moves then.
    turn(1);
    assert!(handled() > before);
    // The word may go: what it said last stays.
    drop(words.into_memory().unwrap());
    turn(2);
}

#[test]
fn a_word_that_cannot_be_is_refused() {
    let pair = Pair::new();
    let jetty = &pair.client.jetty;
    let words = pair.client.open_segment(16);
    assert!(matches!(jetty.set_hint_word(&words, 9), Err(Error::OutOfBounds { .. })));
    assert!(matches!(jetty.set_hint_word(&words, 4), Err(Error::Parameter { .. })));
    let foreign = pair.server.open_segment(16);
    assert!(matches!(jetty.set_hint_word(&foreign, 0), Err(Error::Foreign { .. })));
    // A Jetty that goes takes its word along.
    let other = pair.client.context.create_jetty(JettyOptions::default()).unwrap();
    other.set_hint_word(&words, 8).unwrap();
    drop(other);
    words.into_memory().unwrap();
}

/// The real host: whatever it says, the watch starts, tells, and ends with its context.
#[cfg(target_os = "linux")]
#[test]
fn the_host_is_watched() {
    let options = HostPressure {
        cpu_percent: Some(100),
        memory_percent: None,
        period: Duration::from_millis(1),
    };
    let watched = || builder().host_pressure(Some(options));
    let pair = Pair::of(watched(), watched());
    let (from, to) = (pair.client.filled(100_000, 1), pair.server.open_segment(100_000));
    for id in 0..20 {
        pair.client.jetty.write(&pair.client.peer, &from, to.key(), id).unwrap();
        pair.client.succeed();
    }
    let _ = pair.server.context.is_under_pressure();
}
