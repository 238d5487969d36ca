//! RC with packets placed as they come.

use super::*;
use fairway_wire::roce::NakCode;

fn pair(tolerance: u32) -> Pair {
    let out_of_order = Some(OutOfOrder { window: 16, tolerance });
    let profile = Profile { out_of_order, ..Profile::default() };
    Pair::with(Transport::Rc, Reliability::default(), profile)
}

#[test]
fn packets_of_a_write_are_placed_in_any_order_and_counted_in_theirs() {
    let mut pair = pair(8);
    pair.write(0, 1, 4 * MTU + 100);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for index in [0, 4, 2, 3] {
        assert!(matches!(pair.deliver(1, &sent[index]), Verdict::Place(_)), "packet {index}");
    }
    assert_eq!(pair.deliver(1, &sent[2]), Verdict::Drop(DropReason::Duplicate));
    assert_eq!(pair.pull(1), [], "nothing is missing, as far as one can tell, and nothing done");
    pair.deliver(1, &sent[1]);
    assert_eq!(psns(&pair.pull(1)), [4]);
    pair.settle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    let offsets: Vec<u64> = pair.placed[1].iter().map(|one| one.ranges()[0].offset).collect();
    assert_eq!(offsets, [0, 4, 2, 3, 1].map(|index| 4096 + index * u64::from(MTU)));
    assert_eq!(pair.hosts[0].counters().resent_packets, 0);
}

#[test]
fn beyond_the_tolerance_the_missing_packet_alone_is_sent_again() {
    let mut pair = pair(3);
    pair.write(0, 1, 10 * MTU);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for index in [0, 2, 3, 4] {
        pair.deliver(1, &sent[index]);
    }
    assert_eq!(pair.pull(1), []);
    pair.deliver(1, &sent[5]);
    let refusal = pair.pull(1);
    assert_eq!(syndrome(&refusal[0]), Syndrome::Nak(NakCode::PsnSequence));
    for transmit in &sent[6..] {
        pair.deliver(1, transmit);
    }
    pair.flow(0);
    assert_eq!(psns(&pair.pull(0)), [1]);
    pair.settle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    assert_eq!(pair.placed[1].len(), 10);
}

#[test]
fn another_gap_is_told_of_when_the_first_has_closed_although_nothing_more_comes() {
    let mut pair = pair(3);
    pair.write(0, 1, 12 * MTU);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for index in [0, 2, 3, 4, 6, 7, 8, 9, 10, 11] {
        pair.deliver(1, &sent[index]);
    }
    assert_eq!(psns(&pair.pull(1)), [1]);
    pair.deliver(1, &sent[1]);
    let answers = pair.pull(1);
    assert_eq!(psns(&answers), [5]);
    assert_eq!(syndrome(&answers[0]), Syndrome::Nak(NakCode::PsnSequence));
    pair.deliver(1, &sent[5]);
    pair.settle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
}

#[test]
fn what_cannot_be_placed_early_is_asked_for_when_the_gap_has_closed() {
    let mut pair = pair(8);
    pair.write(0, 1, 3 * MTU);
    pair.write(0, 2, 8);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for index in [0, 2, 3] {
        pair.deliver(1, &sent[index]);
    }
    assert_eq!(pair.pull(1), []);
    pair.deliver(1, &sent[1]);
    let answers = pair.pull(1);
    assert_eq!(syndrome(&answers[0]), Syndrome::Nak(NakCode::PsnSequence));
    assert_eq!(psns(&answers)[0], 3);
    pair.settle();
    assert_eq!(pair.sent(0).len(), 2);
    assert_eq!(pair.hosts[0].counters().timeouts, 0);
}

#[test]
fn early_packets_that_contradict_their_message_are_not_placed() {
    let mut pair = pair(8);
    pair.write(0, 1, 3 * MTU + 8);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.deliver(1, &sent[0]);
    let ecn = Ecn::NotCapable;
    // Beyond the end; the last one where a middle one belongs; too short; too long.
    for (index, psn, payload) in [(2, 4, MTU), (3, 2, 8), (2, 2, MTU - 1), (3, 3, 9)] {
        let mut packet = sent[index].packet;
        packet.bth.psn = sent[0].packet.bth.psn.plus(psn);
        let verdict = pair.deliver_as(1, &Received { source: 0, packet, payload, ecn });
        assert_eq!(verdict, Verdict::Drop(DropReason::Gap), "{index} {psn} {payload}");
    }
    pair.deliver(1, &sent[2]);
    pair.hosts[1].modify(pair.pairs[1], &Change::Error).unwrap();
    assert_eq!(pair.hosts[1].in_use(), [0; 3], "an early packet's record is given back, too");
}

#[test]
fn early_packets_are_acknowledged_only_in_place() {
    let mut pair = pair(8);
    pair.hold = true;
    pair.write(0, 1, 3 * MTU);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for index in [0, 2, 1] {
        pair.deliver(1, &sent[index]);
    }
    let tokens = core::mem::take(&mut pair.held);
    pair.hosts[1].handle_placed(pair.now, tokens[0], 0);
    pair.hosts[1].handle_placed(pair.now, tokens[2], 0);
    assert_eq!(pair.pull(1), []);
    pair.hosts[1].handle_placed(pair.now, tokens[1], 0);
    assert_eq!(psns(&pair.pull(1)), [2]);
}

#[test]
fn packets_that_wait_for_others_leave_room_for_those_whose_turn_it_is() {
    let mut pair = pair(8);
    let profile = Profile { out_of_order: Some(OutOfOrder::default()), ..Profile::default() };
    let limits = Limits { pending: 8, queue_pairs: 4, read_depth: 4, ..Limits::default() };
    // A host with few records, in the place of one side.
    let mut host = Host::new(&limits, &profile, 7);
    let queues = [(); 2].map(|()| host.create_completion_queue(64).unwrap());
    let request = MemoryRequest { domain: 3, address: BASE, length: LENGTH, rights: Rights::ALL };
    let region = host.register(&request).unwrap();
    assert_eq!(region.segment, pair.regions[1].segment);
    let number = host.create_queue_pair(&config(Transport::Rc, queues)).unwrap();
    assert_eq!(number, pair.pairs[1]);
    let peer = Peer { address: 0, queue_pair: pair.pairs[0] };
    let reliability = Reliability { read_depth: 4, ..Reliability::default() };
    connect(&mut host, number, peer, reliability);
    pair.regions[1] = region;
    pair.queues[1] = queues;
    pair.hosts[1] = host;
    pair.write(0, 1, 16 * MTU);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.deliver(1, &sent[0]);
    // All but the second: more than there are records.
    for transmit in &sent[2..] {
        pair.deliver(1, transmit);
    }
    assert!(matches!(pair.deliver(1, &sent[1]), Verdict::Place(_)), "its turn has come");
    pair.settle();
    // What was dropped comes again when its time is up.
    pair.pass(Duration::from_ms(20));
    pair.settle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
}
