//! Tests of RC with packets placed as they arrive.

use super::*;
use fairway_wire::roce::NakCode;

fn pair(tolerance: u32) -> Pair {
    let out_of_order = Some(OutOfOrder { window: 16, tolerance });
    let profile = Profile { out_of_order, ..Profile::default() };
    Pair::with(Transport::Rc, Reliability::default(), profile)
}

/// The same pair with memory that may change in any order.
fn relaxed_pair(tolerance: u32) -> Pair {
    let mut pair = pair(tolerance);
    let rights = Rights::ALL.with(Rights::RELAXED);
    pair.hosts[1].change_region(pair.regions[1].segment, rights, 3).unwrap();
    pair
}

#[test]
fn packets_of_a_write_are_placed_in_any_order_and_counted_in_theirs() {
    let mut pair = relaxed_pair(8);
    pair.write(0, 1, 4 * MTU + 100);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for index in [0, 4, 2, 3] {
        assert!(matches!(pair.deliver(1, &sent[index]), Verdict::Place(_)), "packet {index}");
    }
    assert_eq!(pair.deliver(1, &sent[2]), Verdict::Drop(DropReason::Duplicate));
    assert_eq!(pair.pull(1), [], "nothing is missing, as far as can be observed, and nothing done");
    pair.deliver(1, &sent[1]);
    assert_eq!(psns(&pair.pull(1)), [4]);
    pair.run_until_idle();
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
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    assert_eq!(pair.placed[1].len(), 10);
}

#[test]
fn second_gap_is_reported_once_the_first_has_closed_without_further_packets() {
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
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
}

#[test]
fn packets_without_an_address_are_kept_until_their_turn() {
    let mut pair = pair(8);
    pair.receive(1, 70, 4 * MTU);
    pair.receive(1, 71, 8);
    pair.write(0, 1, 8);
    pair.send(0, 2, 3 * MTU);
    pair.send(0, 3, 8);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for index in [4, 2, 3, 1] {
        assert!(
            matches!(pair.deliver(1, &sent[index]), Verdict::Own(OwnVerdict::Buffer { .. })),
            "packet {index}"
        );
    }
    assert_eq!(pair.deliver(1, &sent[3]), Verdict::Drop(DropReason::Duplicate));
    assert_eq!((pair.hosts[1].buffered(), pair.pull(1)), (4, Vec::new()));
    pair.deliver(1, &sent[0]);
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 3);
    let whole = (70, Status::Success, 3 * MTU);
    assert_eq!(pair.received(1), [whole, (71, Status::Success, 8)]);
    assert_eq!((pair.hosts[1].buffered(), pair.hosts[0].counters().resent_packets), (0, 0));
    assert_eq!(pair.hosts[1].counters().received_packets, 6);
}

#[test]
fn immediate_data_waits_for_its_turn_to_take_a_receive() {
    let mut pair = pair(8);
    pair.receive(1, 70, 8);
    pair.receive(1, 71, 8);
    pair.send(0, 1, 8);
    let remote = pair.remote(0, 4096);
    pair.post(0, 2, Work::Write { remote, immediate: Some(5) }, 2 * MTU);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for index in [2, 1, 0] {
        pair.deliver(1, &sent[index]);
    }
    pair.run_until_idle();
    let ids: Vec<u64> = pair.received(1).iter().map(|one| one.0).collect();
    assert_eq!((ids, pair.sent(0).len()), (alloc::vec![70, 71], 2));
}

#[test]
fn writes_whose_first_packet_came_are_placed_before_those_in_front_of_them() {
    let mut pair = relaxed_pair(8);
    pair.write(0, 1, 2 * MTU);
    for (id, offset) in [(2, 16_384), (3, 32_768)] {
        let remote = pair.remote(0, offset);
        pair.post(0, id, Work::Write { remote, immediate: None }, 2 * MTU + 8);
    }
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for index in [2, 4, 5, 7] {
        assert!(matches!(pair.deliver(1, &sent[index]), Verdict::Place(_)), "packet {index}");
    }
    // Packet 1 is buffered, because the first packet of its message has not arrived yet.
    assert!(matches!(pair.deliver(1, &sent[1]), Verdict::Own(OwnVerdict::Buffer { .. })));
    assert!(matches!(pair.deliver(1, &sent[3]), Verdict::Place(_)));
    pair.deliver(1, &sent[0]);
    assert!(matches!(pair.deliver(1, &sent[6]), Verdict::Place(_)));
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 3);
    let mut offsets: Vec<u64> = pair.placed[1].iter().map(|one| one.ranges()[0].offset).collect();
    offsets.sort_unstable();
    let expected = [4096, 16_384, 32_768].iter().flat_map(|start| {
        let packets = if *start == 4096 { 2 } else { 3 };
        (0..packets).map(move |index| start + index * u64::from(MTU))
    });
    assert_eq!(offsets, expected.collect::<Vec<u64>>());
    assert_eq!(pair.hosts[0].counters().resent_packets, 0);
}

#[test]
fn a_later_writes_bytes_remain_where_an_earlier_one_comes_after_it() {
    let mut pair = relaxed_pair(8);
    pair.write(0, 1, 2 * MTU);
    pair.write(0, 2, 2 * MTU);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for index in [2, 3, 0, 1] {
        pair.deliver(1, &sent[index]);
    }
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 2);
    assert_eq!(pair.placed[1].len(), 2, "those of the first one came too late");
    assert_eq!(pair.hosts[0].counters().resent_packets, 0);
}

#[test]
fn a_later_write_comes_again_that_an_earlier_one_overwrites_in_part() {
    let mut pair = relaxed_pair(8);
    pair.write(0, 1, MTU);
    let remote = pair.remote(0, 4096 + 8);
    pair.post(0, 2, Work::Write { remote, immediate: None }, 16);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.hold = true;
    pair.deliver(1, &sent[1]);
    assert_eq!(pair.deliver(1, &sent[0]), Verdict::Drop(DropReason::Gap), "not while it is placed");
    let token = pair.held.pop().unwrap();
    pair.hosts[1].handle_placed(pair.now, token, 0);
    pair.hold = false;
    pair.deliver(1, &sent[0]);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success)]);
    let lengths: Vec<u32> = pair.placed[1].iter().map(ScatterList::length).collect();
    assert_eq!(lengths, [16, MTU, 16]);
}

#[test]
fn every_lost_packet_of_many_is_sent_again_once() {
    let mut pair = pair(3);
    for id in 0..4 {
        pair.write(0, id, 4 * MTU);
    }
    let sent = pair.pull(0);
    pair.wires[1].clear();
    let lost = [0, 2, 5, 8, 12, 15];
    for index in (0..16).filter(|index| !lost.contains(index)) {
        pair.deliver(1, &sent[index]);
    }
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 4);
    let counters = pair.hosts[0].counters();
    assert_eq!((counters.resent_packets, counters.timeouts, counters.probes), (6, 0, 0));
}

#[test]
fn a_lost_end_is_probed_for_long_before_the_time_out() {
    let mut pair = pair(8);
    pair.write(0, 1, 8);
    pair.run_until_idle();
    pair.write(0, 2, 5 * MTU);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for transmit in &sent[..3] {
        pair.deliver(1, transmit);
    }
    for _ in 0..2 {
        pair.pass(Duration::from_us(400));
        // A probe is lost, too.
        assert_eq!(psns(&pair.pull(0)), [1]);
        pair.wires[1].clear();
    }
    pair.pass(Duration::from_ms(1));
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success)]);
    let counters = pair.hosts[0].counters();
    assert_eq!((counters.timeouts, counters.probes), (0, 3));
}

#[test]
fn a_peer_without_the_option_gets_everything_again() {
    let out_of_order = Some(OutOfOrder { window: 16, tolerance: 8 });
    let own = Profile { out_of_order, ..Profile::default() };
    let mut pair = Pair::between(Transport::Rc, Reliability::default(), [own, Profile::default()]);
    pair.write(0, 1, 12 * MTU);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for index in (0..12).filter(|index| *index != 1) {
        pair.deliver(1, &sent[index]);
    }
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    let counters = pair.hosts[0].counters();
    assert!(counters.resent_packets < 16 && counters.timeouts == 0, "{counters:?}");
}

#[test]
fn early_packets_that_contradict_their_message_are_judged_in_their_turn() {
    let mut pair = pair(8);
    pair.write(0, 1, 3 * MTU + 8);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.deliver(1, &sent[0]);
    let ecn = Ecn::NotCapable;
    // One packet lies beyond the end, and the other is a last packet in place of a middle one.
    for (index, psn, payload) in [(2, 4, MTU), (3, 2, 8)] {
        let mut packet = sent[index].packet;
        packet.bth.psn = sent[0].packet.bth.psn.plus(psn);
        let verdict = pair.deliver_as(1, &Received { source: 0, packet, payload, ecn });
        assert!(
            matches!(verdict, Verdict::Own(OwnVerdict::Buffer { .. })),
            "{index} {psn} {payload}"
        );
    }
    pair.deliver(1, &sent[1]);
    pair.pull(1);
    assert_eq!(pair.states()[1], QueuePairState::Error);
    assert_eq!((pair.hosts[1].in_use(), pair.hosts[1].buffered()), ([0; 3], 0));
}

#[test]
fn a_write_that_begins_within_another_ends_the_queue_pair() {
    let mut pair = relaxed_pair(8);
    pair.write(0, 1, 3 * MTU);
    let remote = pair.remote(0, 65_536);
    pair.post(0, 2, Work::Write { remote, immediate: None }, 8);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    let mut packet = sent[3].packet;
    packet.bth.psn = sent[1].packet.bth.psn;
    let ecn = Ecn::NotCapable;
    let verdict = pair.deliver_as(1, &Received { source: 0, packet, payload: 8, ecn });
    assert!(matches!(verdict, Verdict::Place(_)));
    pair.deliver(1, &sent[0]);
    pair.pull(1);
    assert_eq!(pair.states()[1], QueuePairState::Error);
    assert_eq!((pair.hosts[1].in_use(), pair.hosts[1].buffered()), ([0; 3], 0));
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
    // A device with few records replaces that of one side.
    let mut host = RoceDevice::new(&limits, &profile, 7);
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
    // All packets but the second arrive, which are more than there are records.
    for transmit in &sent[2..] {
        pair.deliver(1, transmit);
    }
    assert!(matches!(pair.deliver(1, &sent[1]), Verdict::Place(_)), "its turn has come");
    pair.run_until_idle();
    // Dropped packets are retransmitted after the time-out.
    pair.pass(Duration::from_ms(20));
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
}
