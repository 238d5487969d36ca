//! Tests of completion queues, shared receive queues, numbers, and memory that is deregistered
//! while it is in use.

use super::*;

#[test]
fn silent_sends_need_no_room_in_a_completion_queue() {
    let mut pair = Pair::new(Transport::Rc);
    let remote = pair.remote(0, 0);
    for id in 0..1000 {
        let work = Work::Write { remote, immediate: None };
        let request = WorkRequest { signaled: false, ..pair.request(0, id, work, 8) };
        pair.hosts[0].post_send(pair.now, pair.pairs[0], &request).unwrap();
        pair.run_until_idle();
    }
    assert_eq!(pair.sent(0), []);
    assert_eq!(pair.states(), [QueuePairState::ReadyToSend; 2]);
}

#[test]
fn a_completion_too_many_is_an_overrun_and_ends_the_queue_pair() {
    let mut pair = Pair::new(Transport::Rc);
    let queue = pair.queues[0][0];
    for id in 0..65 {
        pair.write(0, id, 8);
        pair.run_until_idle();
    }
    let queue_pair = pair.pairs[0];
    assert_eq!(pair.hosts[0].poll_event(), Some(Event::Overrun { queue }));
    let fault = Event::Fault { queue_pair, status: Status::Flushed };
    assert_eq!(pair.hosts[0].poll_event(), Some(fault));
    assert_eq!(pair.states()[0], QueuePairState::Error);
    let sent = pair.sent(0);
    assert_eq!(sent.len(), 64, "what came before the overrun is there");
    assert!(sent.iter().all(|(_, status)| *status == Status::Success));
    // The queue never recovers.
    pair.write(0, 99, 8);
    assert_eq!(pair.sent(0), []);
    assert_eq!(pair.hosts[0].poll_event(), None, "it is said once");
}

#[test]
fn a_queue_of_receives_runs_over_likewise() {
    let mut pair = Pair::new(Transport::Rc);
    let queue = pair.queues[1][1];
    pair.hosts[1].resize_completion_queue(queue, 2).unwrap();
    for id in 0..3 {
        pair.receive(1, id, 64);
        pair.send(0, id, 8);
    }
    pair.run_until_idle();
    assert_eq!(pair.hosts[1].poll_event(), Some(Event::Overrun { queue }));
    assert_eq!(pair.states()[1], QueuePairState::Error);
    assert_eq!(pair.received(1).len(), 2);
}

#[test]
fn armed_queue_reports_one_completion() {
    let mut pair = Pair::new(Transport::Rc);
    let queue = pair.queues[0][0];
    pair.write(0, 1, 8);
    pair.run_until_idle();
    pair.hosts[0].arm(queue, true).unwrap();
    assert_eq!(pair.hosts[0].poll_notification(), None, "none that waits is solicited");
    pair.hosts[0].arm(queue, false).unwrap();
    assert_eq!(pair.hosts[0].poll_notification(), Some(queue), "one waits that was not polled");
    assert!(!pair.hosts[0].is_armed());
    pair.hosts[0].arm(queue, false).unwrap();
    assert_eq!(pair.hosts[0].poll_notification(), None, "that one has been reported");
    assert_eq!(pair.hosts[0].poll_completion(queue).map(|done| done.id), Some(1));
    pair.hosts[0].arm(queue, false).unwrap();
    assert_eq!(pair.hosts[0].poll_notification(), None, "what was polled does not count");
    for id in 2..4 {
        pair.write(0, id, 8);
        pair.run_until_idle();
    }
    assert_eq!(pair.hosts[0].poll_notification(), Some(queue));
    assert_eq!(pair.hosts[0].poll_notification(), None);
    while pair.hosts[0].poll_completion(queue).is_some() {}
    pair.hosts[0].arm(queue, false).unwrap();
    pair.write(0, 4, 8);
    pair.run_until_idle();
    assert_eq!(pair.hosts[0].poll_notification(), Some(queue));
}

#[test]
fn queue_armed_for_solicited_completions_notifies_for_those_and_errors() {
    let mut pair = Pair::new(Transport::Rc);
    let queue = pair.queues[1][1];
    pair.hosts[1].arm(queue, true).unwrap();
    let send = |pair: &mut Pair, solicited| {
        pair.receive(1, 0, 64);
        let work = Work::Send { tail: Tail::Nothing };
        let request = WorkRequest { solicited, ..pair.request(0, 0, work, 8) };
        pair.hosts[0].post_send(pair.now, pair.pairs[0], &request).unwrap();
        pair.run_until_idle();
    };
    send(&mut pair, false);
    assert_eq!(pair.hosts[1].poll_notification(), None);
    send(&mut pair, true);
    assert_eq!(pair.hosts[1].poll_notification(), Some(queue));
    pair.hosts[1].arm(queue, true).unwrap();
    pair.receive(1, 9, 64);
    pair.hosts[1].modify(pair.pairs[1], &Change::Error).unwrap();
    assert_eq!(pair.hosts[1].poll_notification(), Some(queue), "flushed is an error");
}

#[test]
fn a_queue_shrinks_only_to_what_is_in_it() {
    let mut pair = Pair::new(Transport::Rc);
    let queue = pair.queues[0][0];
    for id in 0..3 {
        pair.write(0, id, 8);
    }
    pair.run_until_idle();
    let host = &mut pair.hosts[0];
    let parameter = Err(crate::SetupError::Parameter("depth"));
    assert_eq!(host.resize_completion_queue(queue, 2), parameter);
    assert_eq!(host.resize_completion_queue(queue, 3), Ok(()));
    assert_eq!(host.resize_completion_queue(queue, 4000), Ok(()));
    assert_eq!(pair.sent(0).len(), 3);
}

/// Creates a queue pair of host 1 with a shared receive queue, connected to that of host 0.
fn shared(pair: &mut Pair, depth: u32) -> ReceiveQueueId {
    let host = &mut pair.hosts[1];
    let queue = host.create_receive_queue(3, depth).unwrap();
    let config =
        QueuePairConfig { shared_receives: Some(queue), ..config(Transport::Rc, pair.queues[1]) };
    let number = host.create_queue_pair(&config).unwrap();
    let reliability = Reliability { read_depth: 4, ..Reliability::default() };
    connect(host, number, Peer { address: 0, queue_pair: pair.pairs[0] }, reliability);
    pair.hosts[0].modify(pair.pairs[0], &Change::Reset).unwrap();
    let peer = Peer { address: 0, queue_pair: number };
    connect(&mut pair.hosts[0], pair.pairs[0], peer, reliability);
    pair.pairs[1] = number;
    queue
}

#[test]
fn a_shared_queue_that_runs_low_is_reported_once() {
    let mut pair = Pair::new(Transport::Rc);
    let queue = shared(&mut pair, 8);
    let post = |pair: &mut Pair, id| {
        let local = pair.local(1, 0, 64);
        pair.hosts[1].post_shared_receive(queue, &ReceiveRequest { id, local }).unwrap();
    };
    for id in 0..4 {
        post(&mut pair, id);
    }
    pair.hosts[1].limit_receive_queue(queue, 3).unwrap();
    for (id, event) in [None, Some(Event::ReceiveLimit { queue }), None].into_iter().enumerate() {
        pair.send(0, id as u64, 8);
        pair.run_until_idle();
        assert_eq!(pair.hosts[1].poll_event(), event, "after {} sends", id + 1);
    }
    // The queue already holds fewer receives than the limit.
    pair.hosts[1].limit_receive_queue(queue, 5).unwrap();
    assert_eq!(pair.hosts[1].poll_event(), Some(Event::ReceiveLimit { queue }));
}

#[test]
fn queue_pair_reports_when_it_takes_no_more_of_a_shared_queue() {
    let mut pair = Pair::new(Transport::Rc);
    let queue = shared(&mut pair, 8);
    let local = pair.local(1, 0, 64);
    pair.hosts[1].post_shared_receive(queue, &ReceiveRequest { id: 1, local }).unwrap();
    let queue_pair = pair.pairs[1];
    for _ in 0..2 {
        pair.hosts[1].modify(queue_pair, &Change::Error).unwrap();
    }
    assert_eq!(pair.hosts[1].poll_event(), Some(Event::LastReceive { queue_pair }));
    assert_eq!(pair.hosts[1].poll_event(), None);
    assert_eq!(pair.received(1), [], "the receive is the others'");
}

#[test]
fn numbers_stay_within_their_range() {
    let base = 5 << 16;
    let limits =
        Limits { queue_pairs: 64, number_bits: 16, number_base: base, ..Limits::default() };
    let mut host = RoceDevice::new(&limits, &Profile::default(), 1);
    let queue = host.create_completion_queue(8).unwrap();
    let config = config(Transport::Rc, [queue; 2]);
    let mut seen = alloc::collections::BTreeSet::new();
    let mut live = VecDeque::new();
    for _ in 0..65_536 {
        if live.len() == 64 {
            host.destroy_queue_pair(live.pop_front().unwrap()).unwrap();
        }
        let number = host.create_queue_pair(&config).unwrap();
        assert_eq!(number.value() >> 16, 5);
        assert!(seen.insert(number), "{number:?} came again");
        live.push_back(number);
    }
    assert!(host.create_queue_pair(&config).is_err(), "all are taken");
    let first = Limits { number_base: 0, ..limits };
    let mut host = RoceDevice::new(&first, &Profile::default(), 1);
    let queue = host.create_completion_queue(8).unwrap();
    let config = QueuePairConfig { send_queue: queue, receive_queue: queue, ..config };
    assert!(host.create_queue_pair(&config).unwrap().value() > 1, "0 and 1 are not ours");
}

#[test]
fn shuffled_numbers_cannot_be_predicted_and_recur_as_late_as_others() {
    let numbers = |seed| {
        let limits = Limits { queue_pairs: 64, number_bits: 10, ..Limits::default() };
        let mut host = RoceDevice::new(&limits, &Profile::default(), 1);
        host.shuffle_numbers(seed);
        let queue = host.create_completion_queue(8).unwrap();
        let config = config(Transport::Rc, [queue; 2]);
        let mut live = VecDeque::new();
        let mut numbers = Vec::new();
        for _ in 0..900 {
            if live.len() == 64 {
                assert!(host.create_queue_pair(&config).is_err(), "all are taken");
                host.destroy_queue_pair(live.pop_front().unwrap()).unwrap();
            }
            let number = host.create_queue_pair(&config).unwrap();
            live.push_back(number);
            numbers.push(number.value());
        }
        numbers
    };
    let drawn = numbers(7);
    let seen: alloc::collections::BTreeSet<_> = drawn.iter().collect();
    assert_eq!(seen.len(), drawn.len(), "a number came again");
    assert!(drawn.iter().all(|number| (2..1024).contains(number)));
    let steps: alloc::collections::BTreeSet<_> =
        drawn[..64].windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    assert!(steps.len() > 50, "{steps:?}");
    assert!((0..20).any(|seed| numbers(seed)[0] != drawn[0]));
}

#[test]
fn operation_on_deregistered_memory_fails_when_its_turn_comes() {
    let mut pair = Pair::new(Transport::Rc);
    pair.write(0, 1, 8);
    let segment = pair.regions[0].segment;
    assert_eq!(pair.hosts[0].deregister(segment), Ok(false));
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::LocalProtection)]);
    assert_eq!(pair.hosts[0].poll_event(), Some(Event::SegmentReleased { segment }));

    let mut pair = Pair::new(Transport::Rc);
    pair.receive(1, 5, 64);
    pair.hosts[1].deregister(pair.regions[1].segment).unwrap();
    pair.send(0, 1, 8);
    pair.run_until_idle();
    assert_eq!(pair.received(1), [(5, Status::LocalProtection, 0)]);
    assert_eq!(pair.sent(0), [(1, Status::RemoteOperation)]);
    assert_eq!(pair.placed[1], [], "nothing is placed");

    let mut pair = Pair::new(Transport::Rc);
    pair.read(0, 1, 8);
    pair.pull(0);
    pair.hosts[0].deregister(pair.regions[0].segment).unwrap();
    pair.flow(1);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::LocalProtection)]);
    assert_eq!(pair.placed[0], []);
}
