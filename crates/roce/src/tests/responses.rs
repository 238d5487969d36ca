//! Tests of READs, atomics and duplicates over RC, and of whatever waits for a placement.

use super::*;
use fairway_wire::roce::{NakCode, ReadFragment};

const SEND: Work = Work::Send { tail: Tail::Nothing };

#[test]
fn a_read_is_answered_in_packets_that_take_its_psns() {
    let mut pair = Pair::new(Transport::Rc);
    pair.read(0, 1, 3 * MTU + 1);
    pair.write(0, 2, 8);
    let sent = pair.pull(0);
    assert_eq!(psns(&sent), [0, 4]);
    pair.flow(1);
    let answers = pair.pull(1);
    assert_eq!(psns(&answers), [0, 1, 2, 3, 4]);
    let kinds = operations(&answers);
    assert!(matches!(kinds[0], Operation::ReadResponse(ReadFragment::First(_))));
    assert_eq!(kinds[1], Operation::ReadResponse(ReadFragment::Middle));
    assert!(matches!(kinds[3], Operation::ReadResponse(ReadFragment::Last(_))));
    assert!(matches!(kinds[4], Operation::Acknowledge(_)), "behind the answer, not before");
    pair.flow(0);
    assert_eq!(pair.sent(0).len(), 2);
    let bytes: u32 = pair.placed[0].iter().map(ScatterList::length).sum();
    assert_eq!(bytes, 3 * MTU + 1);
}

#[test]
fn rest_of_a_read_is_requested_again() {
    let mut pair = Pair::new(Transport::Rc);
    pair.read(0, 1, 4 * MTU);
    pair.write(0, 2, 8);
    pair.pull(0);
    pair.flow(1);
    let answers = pair.pull(1);
    pair.wires[0].clear();
    // The second packet of the answer is lost, which a later one reveals.
    pair.deliver(0, &answers[0]);
    pair.deliver(0, &answers[2]);
    let again = pair.pull(0);
    let Operation::ReadRequest(reth) = again[0].packet.operation else { panic!("{again:?}") };
    assert_eq!((reth.address, reth.length), (BASE + 8192 + u64::from(MTU), 3 * MTU));
    assert_eq!(psns(&again)[0], 1);
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 2);
    let offsets: Vec<u64> = pair.placed[0].iter().map(|one| one.ranges()[0].offset).collect();
    assert_eq!(offsets, [0, 1024, 2048, 3072], "each once");
}

/// Where packets overtake each other, a request may be repeated although its answer is on its way.
/// The next request, which that answer permits, may then come before the answer is sent again.
#[test]
fn a_request_is_taken_while_an_answer_that_has_arrived_is_sent_again() {
    for is_read in [true, false] {
        let mut pair = Pair::new(Transport::Rc);
        let post = |pair: &mut Pair, id| match is_read {
            true => pair.read(0, id, 8),
            false => pair.fetch_add(0, id, 1),
        };
        (0..4).for_each(|id| post(&mut pair, id));
        let requests = pair.pull(0);
        assert_eq!(requests.len(), 4, "as many as may be under way");
        pair.flow(1);
        let answers = pair.pull(1);
        pair.wires[0].clear();
        pair.deliver(1, &requests[0]);
        pair.deliver(0, &answers[0]);
        post(&mut pair, 4);
        pair.flow(1);
        let next = pair.pull(0);
        assert_eq!(next.len(), 1);
        pair.deliver(1, &next[0]);
        pair.wires[1].clear();
        pair.run_until_idle();
        let expected: Vec<_> = (0..5).map(|id| (id, Status::Success)).collect();
        assert_eq!(pair.sent(0), expected);
        assert_eq!(pair.executed, if is_read { 0 } else { 5 });
    }
}

/// Posts READs of 64 packets each, as many as may be in flight. Returns their answers, of which the
/// first arrives without its first packet.
fn many_reads(pair: &mut Pair) -> Vec<Transmit> {
    for id in 0..4 {
        pair.read(0, id, 64 * MTU);
    }
    assert_eq!(pair.pull(0).len(), 4);
    pair.flow(1);
    let answers = pair.pull(1);
    pair.wires[0].clear();
    assert_eq!(answers.len(), 4 * 64);
    answers
}

#[test]
fn fewer_answers_are_requested_at_once_after_a_loss() {
    let profile = Profile { window_adapts: true, ..Profile::default() };
    let mut pair = Pair::with(Transport::Rc, Reliability::default(), profile);
    let answers = many_reads(&mut pair);
    pair.deliver(0, &answers[1]);
    let again = pair.pull(0);
    assert_eq!(psns(&again), [0, 64]);
    pair.run_until_idle();
    let expected: Vec<_> = (0..4).map(|id| (id, Status::Success)).collect();
    assert_eq!(pair.sent(0), expected);
}

#[test]
fn a_peer_that_is_still_at_earlier_requests_is_waited_for() {
    let mut pair = Pair::new(Transport::Rc);
    let answers = many_reads(&mut pair);
    let timeout = Reliability::default().timeout;
    // The rest arrives slowly, for longer than all retries together would last.
    for answer in answers[1..].iter().step_by(16) {
        pair.pass(timeout);
        pair.deliver(0, answer);
    }
    assert_eq!(pair.sent(0), []);
    assert_eq!((pair.hosts[0].counters().timeouts, pair.hosts[0].counters().implied_naks), (1, 0));
    // The answers that were requested again follow.
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 4);
    // No time-out is necessary.
    pair.read(0, 99, MTU);
    pair.pull(0);
    pair.wires[1].clear();
    for _ in 0..40 {
        pair.pass(timeout);
        pair.pull(0);
        pair.wires[1].clear();
    }
    assert_eq!(pair.sent(0), [(99, Status::RetryExceeded)]);
}

#[test]
fn long_read_is_several_requests_that_fill_the_window() {
    let profile = Profile { window_packets: 64, acknowledge_every: 16, ..Profile::default() };
    let mut pair = Pair::with(Transport::Rc, Reliability::default(), profile);
    pair.read(0, 1, 30 * MTU + 1);
    let sent = pair.pull(0);
    assert_eq!(psns(&sent), [0, 8, 16, 24], "as many as may be in flight");
    let lengths = operations(&sent).into_iter().map(|operation| match operation {
        Operation::ReadRequest(reth) => (reth.address - BASE - 8192, reth.length),
        other => panic!("{other:?}"),
    });
    let whole = 8 * MTU;
    let expected = [(0, whole), (8 * 1024, whole), (16 * 1024, whole), (24 * 1024, 6 * MTU + 1)];
    assert_eq!(lengths.collect::<Vec<_>>(), expected);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    assert_eq!(pair.hosts[0].counters().resent_packets, 0);
}

#[test]
fn rest_of_a_request_of_a_long_read_ends_where_the_request_ended() {
    let profile = Profile { window_packets: 64, acknowledge_every: 16, ..Profile::default() };
    let mut pair = Pair::with(Transport::Rc, Reliability::default(), profile);
    pair.read(0, 1, 16 * MTU);
    // READs in flight are counted by requests: a fenced operation waits for the last of them.
    let fenced = WorkRequest { fence: true, ..pair.request(0, 2, SEND, 8) };
    pair.hosts[0].post_send(pair.now, pair.pairs[0], &fenced).unwrap();
    pair.receive(1, 1, 64);
    assert_eq!(psns(&pair.pull(0)), [0, 8]);
    pair.flow(1);
    let answers = pair.pull(1);
    pair.wires[0].clear();
    pair.deliver(0, &answers[0]);
    pair.deliver(0, &answers[2]);
    let again = pair.pull(0);
    assert_eq!(psns(&again), [1, 8]);
    let Operation::ReadRequest(reth) = again[0].packet.operation else { panic!("{again:?}") };
    assert_eq!(reth.length, 7 * MTU);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success)]);
    let offsets: Vec<u64> = pair.placed[0].iter().map(|one| one.ranges()[0].offset).collect();
    assert_eq!(offsets, (0..16).map(|packet| packet * 1024).collect::<Vec<_>>(), "each once");
}

#[test]
fn requests_of_a_long_read_count_as_messages() {
    let profile = Profile { window_packets: 64, acknowledge_every: 16, ..Profile::default() };
    let mut pair = Pair::with(Transport::Rc, Reliability::default(), profile);
    (0..3).for_each(|id| pair.receive(1, id, 64));
    pair.send(0, 0, 8);
    pair.read(0, 1, 40 * MTU);
    pair.run_until_idle();
    for id in 2..6 {
        pair.send(0, id, 8);
    }
    assert_eq!(psns(&pair.pull(0)), [41, 42], "two credits are left");
    pair.flow(1);
    (3..6).for_each(|id| pair.receive(1, id, 64));
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 6);
    assert_eq!(pair.hosts[1].counters().rnr_naks_sent, 0);
}

#[test]
fn long_read_does_not_overflow_the_buffer_of_a_slow_receiver() {
    const PACKETS: u32 = 900;
    // The peer sends as much as it may at once. The buffer holds `ROOM` packets, of which `TURN`
    // are processed before the peer sends again.
    const ROOM: usize = 128;
    const TURN: usize = 8;
    let (window_packets, window_adapts) = (ROOM as u32 / 2, true);
    let profile =
        Profile { window_packets, window_adapts, acknowledge_every: 16, ..Profile::default() };
    let mut pair = Pair::with(Transport::Rc, Reliability::default(), profile);
    pair.read(0, 1, PACKETS * MTU);
    let mut answers = 0;
    loop {
        pair.pull(0);
        pair.flow(1);
        answers += pair.pull(1).len();
        pair.wires[0].truncate(ROOM);
        if pair.wires[0].is_empty() {
            pair.pass(Reliability::default().timeout);
        }
        for _ in 0..TURN {
            let Some(packet) = pair.wires[0].pop_front() else { break };
            pair.deliver(0, &packet);
        }
        if let Some(done) = pair.sent(0).pop() {
            assert_eq!(done, (1, Status::Success));
            break;
        }
        assert!(answers <= 2 * PACKETS as usize, "{answers} packets, most of them for nothing");
    }
}

#[test]
fn repeated_atomic_is_answered_and_not_executed() {
    let mut pair = Pair::new(Transport::Rc);
    pair.word = 100;
    pair.fetch_add(0, 1, 5);
    let request = pair.pull(0);
    pair.flow(1);
    let answer = pair.pull(1);
    pair.wires[0].clear();
    pair.deliver(1, &request[0]);
    let again = pair.pull(1);
    assert_eq!(operations(&again), operations(&answer));
    pair.run_until_idle();
    let completion = pair.completions(0, 0)[0];
    assert_eq!((completion.value, completion.bytes), (100, 8));
    assert_eq!((pair.word, pair.executed), (105, 1));
}

#[test]
fn a_compare_and_swap_swaps_if_it_is_equal() {
    let mut pair = Pair::new(Transport::Rc);
    pair.word = 7;
    let remote = pair.remote(0, 0);
    for (id, compare) in [(1, 8), (2, 7)] {
        pair.post(0, id, Work::CompareSwap { remote, compare, swap: 40 + id }, 8);
        pair.run_until_idle();
        assert_eq!(pair.completions(0, 0)[0].value, 7);
    }
    assert_eq!(pair.word, 42);
}

#[test]
fn no_more_reads_are_under_way_than_agreed() {
    let mut pair = Pair::new(Transport::Rc);
    for id in 0..9 {
        pair.read(0, id, 8);
    }
    assert_eq!(pair.pull(0).len(), 4);
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 9);
}

#[test]
fn more_reads_than_agreed_are_refused() {
    let mut pair = Pair::new(Transport::Rc);
    pair.read(0, 0, 8);
    let read = pair.pull(0)[0];
    pair.wires[1].clear();
    for index in 0..5 {
        let mut next = read;
        next.packet.bth.psn = read.packet.bth.psn.plus(index);
        pair.deliver(1, &next);
    }
    let answers = pair.pull(1);
    assert_eq!(answers.len(), 5);
    assert_eq!(syndrome(&answers[4]), Syndrome::Nak(NakCode::InvalidRequest));
    assert_eq!(pair.states()[1], QueuePairState::Error);
}

#[test]
fn packet_is_acknowledged_only_once_placed() {
    let mut pair = Pair::new(Transport::Rc);
    pair.hold = true;
    pair.receive(1, 9, 64);
    pair.write(0, 1, 8);
    pair.write(0, 2, 8);
    pair.send(0, 3, 8);
    pair.read(0, 4, 8);
    pair.fetch_add(0, 5, 1);
    pair.pull(0);
    pair.flow(1);
    assert_eq!(pair.pull(1), []);
    assert_eq!(pair.executed, 0);
    let tokens = core::mem::take(&mut pair.held);
    assert_eq!(tokens.len(), 3);
    // The later placements finish first: they may not be acknowledged yet.
    pair.hosts[1].handle_placed(pair.now, tokens[2], 0);
    pair.hosts[1].handle_placed(pair.now, tokens[1], 0);
    assert_eq!(pair.pull(1), []);
    assert_eq!(pair.received(1), []);
    pair.hosts[1].handle_placed(pair.now, tokens[0], 0);
    assert_eq!(pair.received(1), [(9, Status::Success, 8)]);
    pair.execute(1);
    assert_eq!(pair.executed, 1);
    let answers = pair.pull(1);
    assert_eq!(psns(&answers), [3, 4], "the answers acknowledge what is before them");
}

#[test]
fn a_refusal_waits_for_what_it_acknowledges() {
    let mut pair = Pair::new(Transport::Rc);
    for id in 0..3 {
        pair.write(0, id, 8);
    }
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.hold = true;
    pair.deliver(1, &sent[0]);
    pair.deliver(1, &sent[2]);
    assert_eq!(pair.pull(1), []);
    let token = pair.held.pop().unwrap();
    pair.hosts[1].handle_placed(pair.now, token, 0);
    assert_eq!(syndrome(&pair.pull(1)[0]), Syndrome::Nak(NakCode::PsnSequence));
}

#[test]
fn a_send_that_comes_twice_takes_one_receive() {
    let mut pair = Pair::new(Transport::Rc);
    pair.receive(1, 1, 64);
    pair.receive(1, 2, 64);
    pair.send(0, 1, 8);
    let sent = pair.pull(0);
    pair.flow(1);
    assert_eq!(pair.deliver(1, &sent[0]), Verdict::Drop(DropReason::Duplicate));
    pair.run_until_idle();
    assert_eq!(pair.received(1), [(1, Status::Success, 8)]);
}

#[test]
fn an_acknowledgement_never_jumps_over_an_answer_that_was_lost() {
    let mut pair = Pair::new(Transport::Rc);
    pair.fetch_add(0, 1, 1);
    pair.write(0, 2, 8);
    pair.pull(0);
    pair.flow(1);
    let answers = pair.pull(1);
    pair.wires[0].clear();
    pair.deliver(0, &answers[1]);
    assert_eq!(pair.sent(0), []);
    assert_eq!(pair.hosts[0].counters().implied_naks, 1);
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 2);
    assert_eq!(pair.executed, 1);
}

#[test]
fn marked_packets_are_answered_by_notifications_at_intervals() {
    let mut pair = Pair::new(Transport::Rc);
    let notifications = |pair: &mut Pair| {
        pair.write(0, 1, 8);
        let sent = pair.pull(0);
        pair.wires[1].clear();
        for transmit in &sent {
            let payload = transmit.gather.length();
            let packet = transmit.packet;
            let marked = Received { source: 0, packet, payload, ecn: Ecn::Congested };
            pair.deliver_as(1, &marked);
        }
        let answers = pair.pull(1);
        pair.flow(0);
        let cnps = answers.iter().filter(|one| one.packet.operation == Operation::Cnp);
        cnps.clone().for_each(|cnp| assert!(cnp.packet.bth.becn));
        cnps.count()
    };
    assert_eq!(notifications(&mut pair), 1);
    assert_eq!(notifications(&mut pair), 0);
    pair.pass(Profile::default().cnp_interval);
    assert_eq!(notifications(&mut pair), 1);
    assert_eq!(pair.hosts[0].counters().cnps_received, 2);
}

#[test]
fn a_duplicate_is_not_acknowledged_beyond_an_answer_that_may_be_lost() {
    let mut pair = Pair::new(Transport::Rc);
    pair.write(0, 1, 8);
    pair.read(0, 2, 8);
    let sent = pair.pull(0);
    pair.flow(1);
    pair.pull(1);
    pair.wires[0].clear();
    pair.deliver(1, &sent[0]);
    assert_eq!(psns(&pair.pull(1)), [0]);
    // A duplicate of a WRITE behind the answered READ may acknowledge everything.
    pair.write(0, 3, 8);
    pair.write(0, 4, 8);
    let sent = pair.pull(0);
    pair.flow(1);
    pair.pull(1);
    pair.wires[0].clear();
    pair.deliver(1, &sent[0]);
    assert_eq!(psns(&pair.pull(1)), [3]);
}

#[test]
fn a_notified_requester_paces_itself_and_recovers() {
    let line_rate = 10_000_000_000;
    let dcqcn = Some(crate::policy::DcqcnRateParameters::new(line_rate));
    let profile = Profile { dcqcn, ..Profile::default() };
    let mut pair = Pair::with(Transport::Rc, Reliability::default(), profile);
    let rate = |pair: &mut Pair| pair.hosts[0].rate(pair.now, pair.pairs[0]).unwrap();
    pair.write(0, 1, 64 * MTU);
    assert_eq!(pair.hosts[0].poll_transmit(pair.now).map(|one| psns(&[one])), Some(alloc::vec![0]));
    let mut packet = Packet { bth: Default::default(), operation: Operation::Cnp };
    packet.bth.destination = pair.pairs[0];
    let ecn = Ecn::NotCapable;
    pair.deliver_as(0, &Received { source: 0, packet, payload: 0, ecn });
    assert_eq!(rate(&mut pair), line_rate / 2);
    // At 5 Gb/s a packet of 1106 bytes takes 1770 ns.
    let mut times = Vec::new();
    let begin = pair.now;
    while times.len() < 20 {
        if pair.hosts[0].poll_transmit(pair.now).is_some() {
            times.push(pair.now.since(begin).as_ns());
            continue;
        }
        let next = pair.hosts[0].poll_timeout().expect("it wakes when it may go on");
        pair.pass(next.since(pair.now));
    }
    let gaps: Vec<u64> = times.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.iter().all(|gap| (1769..=1771).contains(gap)), "{gaps:?}");
    pair.pass(Duration::from_ms(3));
    assert_eq!(rate(&mut pair), line_rate);
}
