//! The threads that drive a provider: applications that poll, and otherwise its background thread.

use crate::node::{Pair, content};
use fairway_roce::{Completion, Transport, Work, WorkRequest};
use fairway_ub::wire::roce::Tail;
use std::sync::atomic::Ordering;

const SEND: Work = Work::Send { tail: Tail::Nothing };

#[test]
fn a_target_that_never_polls_is_written_read_and_changed() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let bytes = content(1, 200_000);
    here.memory.write(0, &bytes);
    let length = bytes.len() as u32;
    for round in 0..50 {
        let (remote, immediate) = (there.remote(0), None);
        pair.post(0, round, Work::Write { remote, immediate }, here.local(0, length));
        here.sent(round);
        pair.post(0, round, Work::Read { remote }, here.local(400_000, length));
        here.sent(round);
        let remote = there.remote(800_000);
        pair.post(0, round, Work::FetchAdd { remote, add: 3 }, here.local(900_000, 8));
        assert_eq!(here.sent(round).value, 3 * round);
    }
    assert_eq!(here.memory.read(400_000, bytes.len()), bytes);
    assert_eq!(there.memory.word(800_000).load(std::sync::atomic::Ordering::SeqCst), 150);
}

#[test]
fn armed_queue_notifies_without_polling() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    for round in 0..100 {
        there.provider.arm(there.receives, false).unwrap();
        here.provider.arm(here.sends, false).unwrap();
        there.receive(pair.pairs[1], round, 0, 64);
        pair.post(0, round, SEND, here.local(0, 64));
        for (node, queue) in [(there, there.receives), (here, here.sends)] {
            node.recorder
                .until(|calls| calls.completions.pop().filter(|reported| *reported == queue));
            assert_eq!(node.next(queue).id, round);
        }
    }
}

#[test]
fn queue_armed_for_solicited_completions_notifies_for_those_only() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    there.provider.arm(there.receives, true).unwrap();
    for id in 0..2 {
        there.receive(pair.pairs[1], id, 0, 64);
        let solicited = id == 1;
        let local = here.local(0, 8);
        let request =
            WorkRequest { id, work: SEND, local, signaled: true, solicited, fence: false };
        assert_eq!(here.provider.post_send(pair.pairs[0], &[request]), (1, None));
        here.sent(id);
        if !solicited {
            assert!(there.recorder.until(|calls| Some(calls.completions.is_empty())));
        }
    }
    there.recorder.until(|calls| (calls.completions == [there.receives]).then_some(()));
    assert!(!there.received(0).solicited);
    assert!(there.received(1).solicited);
}

/// Operations of a burst may wait for others, but not for a program that does nothing more.
#[test]
fn small_operations_arrive_though_nobody_polls() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    for round in 1..=50_u64 {
        // So many that the last ones neither fill a call nor find the window full.
        let burst = 1 + round % 45;
        for n in 0..burst {
            let word = 8 * n as usize;
            here.memory.word(word).store(round, Ordering::Release);
            let work = Work::Write { remote: there.remote(8 * n), immediate: None };
            pair.post(0, n, work, here.local(8 * n, 8));
        }
        let arrived = |n| there.memory.word(8 * n as usize).load(Ordering::Acquire) == round;
        while !(0..burst).all(arrived) {
            std::thread::yield_now();
        }
        for n in 0..burst {
            here.sent(n);
        }
    }
}

/// With many operations under way the next one may wait for others, too, after a poll.
#[test]
fn small_operation_behind_many_arrives_though_nobody_polls_again() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    for round in 1..=50_u64 {
        let last = 17 + round % 29;
        let post = |n| {
            let word = 8 * n as usize;
            here.memory.word(word).store(round, Ordering::Release);
            let work = Work::Write { remote: there.remote(8 * n), immediate: None };
            pair.post(0, n, work, here.local(8 * n, 8));
        };
        (0..last).for_each(post);
        let mut completed = [Completion::EMPTY; 64];
        let count = here.provider.poll(here.sends, &mut completed) as u64;
        post(last);
        let arrived = |n| there.memory.word(8 * n as usize).load(Ordering::Acquire) == round;
        while !(0..=last).all(arrived) {
            std::thread::yield_now();
        }
        for n in count..=last {
            here.sent(n);
        }
    }
}

/// Latency benchmarks work like this: they post, poll for the completion, and then only read
/// memory.
#[test]
fn memory_changes_between_polls() {
    let pair = Pair::local(Transport::Rc);
    std::thread::scope(|scope| {
        for n in 0..2 {
            let pair = &pair;
            scope.spawn(move || {
                let [node, other] = [&pair.nodes[n], &pair.nodes[1 - n]];
                for round in 1..200 {
                    let written = || node.memory.word(0).load(Ordering::Acquire) == round;
                    while n == 1 && !written() {
                        std::thread::yield_now();
                    }
                    node.memory.word(8).store(round, Ordering::Release);
                    let work = Work::Write { remote: other.remote(0), immediate: None };
                    pair.post(n, round, work, node.local(8, 8));
                    node.sent(round);
                    while n == 0 && !written() {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
}
