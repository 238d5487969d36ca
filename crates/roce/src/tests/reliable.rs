//! Tests of the RC requester, and of losses.

use super::*;
use fairway_wire::roce::{Credits, NakCode, Reth, Service, WriteFragment};

#[test]
fn a_message_is_cut_into_packets_of_an_mtu() {
    let mut pair = Pair::new(Transport::Rc);
    pair.write(0, 1, 2 * MTU + 100);
    let sent = pair.pull(0);
    let kinds = sent.iter().map(|one| match one.packet.operation {
        Operation::Write { service: Service::Rc, fragment } => fragment,
        other => panic!("{other:?}"),
    });
    let kinds: Vec<WriteFragment> = kinds.collect();
    let WriteFragment::First(reth) = kinds[0] else { panic!("{kinds:?}") };
    assert_eq!((reth.address, reth.length), (BASE + 4096, 2 * MTU + 100));
    assert_eq!(kinds[1..], [WriteFragment::Middle, WriteFragment::Last(None)]);
    let lengths: Vec<u32> = sent.iter().map(|one| one.gather.length()).collect();
    assert_eq!(lengths, [MTU, MTU, 100]);
    assert_eq!(psns(&sent), [0, 1, 2], "over the end of the circle");
    let ack_requests: Vec<bool> = sent.iter().map(|one| one.packet.bth.ack_request).collect();
    assert_eq!(ack_requests, [false, false, true]);
    pair.run_until_idle();
    let offsets: Vec<u64> = pair.placed[1].iter().map(|one| one.ranges()[0].offset).collect();
    assert_eq!(offsets, [4096, 4096 + u64::from(MTU), 4096 + 2 * u64::from(MTU)]);
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
}

fn splitting() -> Pair {
    let profile = Profile { split_writes: true, ..Profile::default() };
    Pair::with(Transport::Rc, Reliability::default(), profile)
}

fn fragments(sent: &[Transmit]) -> Vec<WriteFragment> {
    let fragment = |one: &Transmit| match one.packet.operation {
        Operation::Write { fragment, .. } => fragment,
        other => panic!("{other:?}"),
    };
    sent.iter().map(fragment).collect()
}

#[test]
fn a_split_write_is_writes_of_one_packet_each() {
    let mut pair = splitting();
    pair.write(0, 1, 2 * MTU + 100);
    let r_key = pair.remote(0, 0).r_key;
    let sent = pair.pull(0);
    let only = |at: u32, length| {
        let address = BASE + 4096 + u64::from(at);
        WriteFragment::Only(Reth { address, r_key, length }, None)
    };
    assert_eq!(fragments(&sent), [only(0, MTU), only(MTU, MTU), only(2 * MTU, 100)]);
    let ack_requests: Vec<bool> = sent.iter().map(|one| one.packet.bth.ack_request).collect();
    assert_eq!(ack_requests, [false, false, true]);
    pair.run_until_idle();
    let offsets: Vec<u64> = pair.placed[1].iter().map(|one| one.ranges()[0].offset).collect();
    assert_eq!(offsets, [4096, 4096 + u64::from(MTU), 4096 + 2 * u64::from(MTU)]);
    assert_eq!(pair.sent(0), [(1, Status::Success)], "one completion");
}

#[test]
fn messages_behind_split_writes_are_counted_as_the_peer_counts_them() {
    let mut pair = splitting();
    for id in 0..4 {
        pair.receive(1, id, 64);
    }
    for id in 0..8 {
        pair.write(0, 10 + id, 3 * MTU);
        // The receiver grants credit by the number of messages that it has completed.
        pair.send(0, 20 + id, 64);
        pair.run_until_idle();
        pair.receive(1, 30 + id, 64);
    }
    assert_eq!(pair.sent(0).len(), 16);
    assert_eq!(pair.received(1).len(), 8);
    assert_eq!(pair.hosts[1].counters().rnr_naks_sent, 0);
}

#[test]
fn a_write_with_immediate_data_is_never_split() {
    let mut pair = splitting();
    pair.receive(1, 50, 64);
    let remote = pair.remote(0, 4096);
    pair.post(0, 1, Work::Write { remote, immediate: Some(7) }, 2 * MTU);
    let sent = pair.pull(0);
    let reth = Reth { address: remote.address, r_key: remote.r_key, length: 2 * MTU };
    assert_eq!(fragments(&sent), [WriteFragment::First(reth), WriteFragment::Last(Some(7))]);
}

#[test]
fn writes_are_sent_whole_after_a_loss() {
    for out_of_order in [None, Some(OutOfOrder { tolerance: 1, ..OutOfOrder::default() })] {
        let profile = Profile { split_writes: true, out_of_order, ..Profile::default() };
        let mut pair = Pair::with(Transport::Rc, Reliability::default(), profile);
        pair.write(0, 1, 6 * MTU);
        let sent = pair.pull(0);
        pair.wires[1].clear();
        for index in [0, 2, 3, 4, 5] {
            pair.deliver(1, &sent[index]);
        }
        pair.pull(1);
        pair.flow(0);
        let again = pair.pull(0);
        assert_eq!(fragments(&again)[0], fragments(&sent)[1], "as before");
        pair.run_until_idle();
        pair.write(0, 2, 3 * MTU);
        let whole = pair.pull(0);
        let middle = whole.iter().filter(|one| {
            let Operation::Write { fragment, .. } = one.packet.operation else { return false };
            fragment == WriteFragment::Middle
        });
        assert_eq!(middle.count(), 1, "{out_of_order:?}");
        pair.run_until_idle();
        assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success)]);
    }
}

#[test]
fn one_acknowledgement_answers_many_messages() {
    let mut pair = Pair::new(Transport::Rc);
    for id in 0..10 {
        pair.write(0, id, 8);
    }
    pair.pull(0);
    pair.flow(1);
    let answers = pair.pull(1);
    assert_eq!(psns(&answers), [9]);
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 10);
    assert_eq!(pair.hosts[0].poll_timeout().map(|at| at.is_before(pair.now)), Some(false));
}

#[test]
fn a_gap_is_refused_once_and_everything_behind_it_sent_again() {
    let mut pair = Pair::new(Transport::Rc);
    for id in 0..5 {
        pair.write(0, id, 8);
    }
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for transmit in [&sent[0], &sent[2], &sent[3], &sent[4]] {
        pair.deliver(1, transmit);
    }
    let answers = pair.pull(1);
    assert_eq!(answers.len(), 1, "the refusal acknowledges what is before it");
    assert_eq!(psns(&answers), [1]);
    assert_eq!(syndrome(&answers[0]), Syndrome::Nak(NakCode::PsnSequence));
    pair.flow(0);
    assert_eq!(pair.sent(0), [(0, Status::Success)]);
    assert_eq!(psns(&pair.pull(0)), [1, 2, 3, 4]);
    // A copy of the refusal has no further effect.
    pair.deliver(0, &answers[0]);
    assert_eq!(pair.pull(0), []);
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 4);
    assert_eq!(pair.placed[1].len(), 5, "each once");
}

#[test]
fn lost_acknowledgement_is_requested_again() {
    let mut pair = Pair::new(Transport::Rc);
    pair.write(0, 1, 8);
    pair.pull(0);
    pair.flow(1);
    pair.pull(1);
    pair.wires[0].clear();
    let timeout = Reliability::default().timeout;
    pair.pass(timeout.saturating_sub(Duration::from_ns(1)));
    assert_eq!(pair.pull(0), [], "not before its time");
    pair.pass(Duration::from_ns(1));
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    assert_eq!(pair.placed[1].len(), 1, "the copy is acknowledged, and not placed");
    assert_eq!(pair.hosts[1].counters().duplicate_requests, 1);
}

#[test]
fn a_peer_that_never_answers_is_given_up_after_all_retries() {
    let reliability = Reliability { retries: 3, ..Reliability::default() };
    let mut pair = Pair::with(Transport::Rc, reliability, Profile::default());
    pair.write(0, 1, 8);
    pair.write(0, 2, 8);
    let mut times = 0;
    while pair.states()[0] == QueuePairState::ReadyToSend {
        times += pair.pull(0).iter().filter(|one| psns(&[**one]) == [0]).count();
        pair.wires[1].clear();
        pair.pass(reliability.timeout);
    }
    assert_eq!(times, 1 + 3);
    assert_eq!(pair.sent(0), [(1, Status::RetryExceeded), (2, Status::Flushed)]);
    let fault = Event::Fault { queue_pair: pair.pairs[0], status: Status::RetryExceeded };
    assert_eq!(pair.hosts[0].poll_event(), Some(fault));
    assert_eq!(pair.hosts[0].in_use(), [0; 3]);
}

#[test]
fn progress_restores_retries() {
    let reliability = Reliability { retries: 1, ..Reliability::default() };
    let mut pair = Pair::with(Transport::Rc, reliability, Profile::default());
    for id in 0..10 {
        // Every packet is lost once.
        pair.write(0, id, 8);
        pair.pull(0);
        pair.wires[1].clear();
        pair.pass(reliability.timeout);
        pair.run_until_idle();
        assert_eq!(pair.sent(0), [(id, Status::Success)]);
    }
}

#[test]
fn send_is_retried_after_the_timer_of_a_receiver_not_ready() {
    let mut pair = Pair::new(Transport::Rc);
    pair.send(0, 1, 8);
    pair.write(0, 2, 8);
    pair.pull(0);
    pair.flow(1);
    let refusal = pair.pull(1);
    assert_eq!(refusal.len(), 1);
    assert_eq!(syndrome(&refusal[0]), Syndrome::RnrNak(RNR));
    pair.flow(0);
    assert_eq!(pair.pull(0), []);
    pair.receive(1, 70, 64);
    pair.pass(RNR.duration().saturating_sub(Duration::from_ns(1)));
    assert_eq!(pair.pull(0), []);
    pair.pass(Duration::from_ns(1));
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(pair.received(1), [(70, Status::Success, 8)]);
}

#[test]
fn a_receiver_that_is_never_ready_is_given_up() {
    let reliability = Reliability { rnr_retries: 2, ..Reliability::default() };
    let mut pair = Pair::with(Transport::Rc, reliability, Profile::default());
    pair.send(0, 1, 8);
    for _ in 0..3 {
        assert_eq!(pair.states()[0], QueuePairState::ReadyToSend);
        pair.run_until_idle();
        pair.pass(RNR.duration());
    }
    assert_eq!(pair.sent(0), [(1, Status::RnrRetryExceeded)]);
    assert_eq!(pair.states()[0], QueuePairState::Error);
}

#[test]
fn seven_rnr_retries_are_without_end() {
    let mut pair = Pair::new(Transport::Rc);
    pair.send(0, 1, 8);
    for _ in 0..50 {
        pair.run_until_idle();
        pair.pass(RNR.duration());
    }
    pair.receive(1, 1, 8);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
}

#[test]
fn credits_hold_back_messages_without_a_receive() {
    let mut pair = Pair::new(Transport::Rc);
    for id in 0..3 {
        pair.receive(1, id, 64);
    }
    // The first acknowledgement gives credit for the two receives that are left.
    pair.send(0, 0, 8);
    pair.run_until_idle();
    for id in 1..6 {
        pair.send(0, id, 8);
    }
    let sent = pair.pull(0);
    assert_eq!(psns(&sent), [1, 2], "two credits");
    pair.flow(1);
    for id in 3..6 {
        pair.receive(1, id, 64);
    }
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 6);
    assert_eq!(pair.hosts[1].counters().rnr_naks_sent, 0);
    pair.write(0, 9, 8);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(9, Status::Success)], "WRITEs need none");
}

#[test]
fn sender_without_credits_sends_one_packet() {
    let mut pair = Pair::new(Transport::Rc);
    pair.write(0, 0, 8);
    pair.run_until_idle();
    pair.send(0, 1, 3 * MTU);
    pair.send(0, 2, 8);
    assert_eq!(psns(&pair.pull(0)), [1]);
    pair.receive(1, 50, 4 * MTU);
    pair.receive(1, 51, 4 * MTU);
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 3);
}

#[test]
fn the_window_bounds_what_is_under_way() {
    let profile = Profile { window_packets: 8, acknowledge_every: 4, ..Profile::default() };
    let mut pair = Pair::with(Transport::Rc, Reliability::default(), profile);
    pair.write(0, 1, 20 * MTU);
    let sent = pair.pull(0);
    assert_eq!(sent.len(), 8);
    let ack_requests = sent.iter().filter(|one| one.packet.bth.ack_request).count();
    assert_eq!(ack_requests, 2, "so that it moves on before it is full");
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    assert_eq!(pair.hosts[0].counters().resent_packets, 0);
}

#[test]
fn acknowledgements_grant_unlimited_credit_with_shared_receives() {
    let mut pair = Pair::new(Transport::Rc);
    let queue = pair.hosts[1].create_receive_queue(3, 4).unwrap();
    let shared =
        QueuePairConfig { shared_receives: Some(queue), ..config(Transport::Rc, pair.queues[1]) };
    let numbers = [0, 1].map(|_| pair.hosts[1].create_queue_pair(&shared).unwrap());
    pair.hosts[0].destroy_queue_pair(pair.pairs[0]).unwrap();
    for (id, number) in (0..).zip(numbers) {
        let own = pair.hosts[0].create_queue_pair(&config(Transport::Rc, pair.queues[0])).unwrap();
        let address = 0;
        let reliability = Reliability { read_depth: 4, ..Reliability::default() };
        connect(&mut pair.hosts[1], number, Peer { address, queue_pair: own }, reliability);
        connect(&mut pair.hosts[0], own, Peer { address, queue_pair: number }, reliability);
        let local = pair.local(1, 0, 64);
        let receive = ReceiveRequest { id, local };
        assert_eq!(pair.hosts[1].post_receive(number, &receive), Err(PostError::State));
        pair.hosts[1].post_shared_receive(queue, &receive).unwrap();
        pair.pairs[0] = own;
        pair.send(0, id, 8);
        pair.pull(0);
        pair.flow(1);
        let answers = pair.pull(1);
        assert_eq!(syndrome(&answers[0]), Syndrome::Ack(Credits::UNLIMITED));
        pair.run_until_idle();
        let completions = pair.completions(1, 1);
        assert_eq!((completions[0].id, completions[0].queue_pair), (id, number));
    }
    assert_eq!(pair.hosts[1].destroy_receive_queue(queue), Err(fairway_device::SetupError::Busy));
}

#[test]
fn a_fence_waits_for_the_reads_before_it() {
    let mut pair = Pair::new(Transport::Rc);
    pair.read(0, 1, 8);
    let mut request = pair.request(0, 2, Work::Send { tail: Tail::Nothing }, 8);
    request.fence = true;
    pair.hosts[0].post_send(pair.now, pair.pairs[0], &request).unwrap();
    pair.receive(1, 0, 64);
    assert_eq!(pair.pull(0).len(), 1);
    pair.flow(1);
    pair.pull(1);
    pair.hold = true;
    pair.flow(0);
    assert_eq!(pair.pull(0), [], "the answer is here, but not in place");
    let token = pair.held.pop().unwrap();
    pair.hosts[0].handle_placed(pair.now, token, 0);
    assert_eq!(pair.pull(0).len(), 1);
}

#[test]
fn messages_of_no_bytes_are_messages() {
    let mut pair = Pair::new(Transport::Rc);
    pair.receive(1, 7, 0);
    pair.send(0, 1, 0);
    pair.write(0, 2, 0);
    pair.read(0, 3, 0);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [1, 2, 3].map(|id| (id, Status::Success)));
    assert_eq!(pair.received(1), [(7, Status::Success, 0)]);
    assert!(pair.placed[0].is_empty() && pair.placed[1].is_empty());
}

#[test]
fn every_gap_is_refused() {
    let mut pair = Pair::new(Transport::Rc);
    for id in 0..3 {
        pair.write(0, id, 8);
        pair.write(0, 10 + id, 8);
        let sent = pair.pull(0);
        pair.wires[1].clear();
        pair.deliver(1, &sent[1]);
        assert_eq!(syndrome(&pair.pull(1)[0]), Syndrome::Nak(NakCode::PsnSequence));
        pair.run_until_idle();
        assert_eq!(pair.sent(0).len(), 2);
    }
    assert_eq!(pair.hosts[0].counters().timeouts, 0);
}

#[test]
fn packets_acknowledged_meanwhile_are_not_retransmitted() {
    let mut pair = Pair::new(Transport::Rc);
    for id in 0..4 {
        pair.write(0, id, 8);
    }
    pair.pull(0);
    pair.flow(1);
    pair.pass(Reliability::default().timeout);
    let answers = pair.pull(1);
    assert_eq!(psns(&answers), [3]);
    pair.flow(0);
    assert_eq!(pair.pull(0), []);
    pair.write(0, 4, 8);
    assert_eq!(psns(&pair.pull(0)), [4]);
}
