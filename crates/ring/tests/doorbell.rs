//! Doorbells and the progress lock between real threads.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fairway_ring::{Doorbell, ProgressLock, Role, next_role};

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn ring_without_a_sleeper_makes_no_system_call() {
    let bell = Doorbell::new();
    assert!(!bell.ring());
    let ticket = bell.listen();
    assert!(!bell.rung(ticket));
    assert!(bell.ring());
    assert!(bell.rung(ticket));
    assert!(bell.wait(ticket, None), "rung after listening: returns at once");
    assert!(!bell.ring());
}

#[test]
fn wait_without_a_ring_times_out() {
    let bell = Doorbell::new();
    let ticket = bell.listen();
    assert!(!bell.wait(ticket, Some(Duration::from_millis(1))));
}

#[test]
fn two_threads_hand_a_number_to_and_fro() {
    const ROUNDS: u32 = 2_000;
    let (bells, turn) = ([Doorbell::new(), Doorbell::new()], AtomicU32::new(0));
    let play = |me: u32| {
        for round in 0..ROUNDS {
            let mine = 2 * round + me;
            loop {
                let ticket = bells[me as usize].listen();
                if turn.load(Ordering::Acquire) == mine {
                    break;
                }
                let waited = std::time::Instant::now();
                bells[me as usize].wait(ticket, Some(DEADLINE));
                assert!(waited.elapsed() < DEADLINE, "a wake-up was lost in round {round}");
            }
            turn.store(mine + 1, Ordering::Release);
            bells[1 - me as usize].ring();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(1));
        play(0);
    });
}

#[test]
fn roles_follow_the_table() {
    let table: Vec<_> =
        (0..8).map(|bits| next_role(bits & 4 != 0, bits & 2 != 0, bits & 1 != 0)).collect();
    use Role::{Driving, Parked, Watching};
    assert_eq!(table, [Driving, Watching, Driving, Driving, Parked, Parked, Parked, Parked]);
}

#[test]
fn the_background_steps_back_and_comes_back() {
    let progress_lock = ProgressLock::new();
    let mut seen = 0;
    assert_eq!(progress_lock.decide(&mut seen), Role::Driving);
    progress_lock.touch();
    assert_eq!(progress_lock.decide(&mut seen), Role::Watching);
    assert_eq!(progress_lock.decide(&mut seen), Role::Driving);
    assert!(progress_lock.try_lead());
    assert!(!progress_lock.try_lead(), "one leader at a time");
    assert_eq!(progress_lock.decide(&mut seen), Role::Parked);
    assert!(progress_lock.demand(), "parked: has to be rung");
    assert_eq!(progress_lock.decide(&mut seen), Role::Parked);
    assert!(progress_lock.resign(), "parked: has to be rung");
    assert_eq!(progress_lock.decide(&mut seen), Role::Driving, "the demand outlived the leader");
    assert!(!progress_lock.demand(), "driving already");
}
