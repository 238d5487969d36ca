//! Tests that memory changes as if operations were executed in the order of posting.

use super::*;
use fairway_wire::roce::{NakCode, ReadFragment};

fn early_pair() -> Pair {
    let out_of_order = Some(OutOfOrder { window: 16, tolerance: 8 });
    let profile = Profile { out_of_order, ..Profile::default() };
    Pair::with(Transport::Rc, Reliability::default(), profile)
}

/// A pair whose side 0 sends without regard to order, as requesters of other implementations do.
fn careless() -> Pair {
    let mut pair = Pair::new(Transport::Rc);
    relax(&mut pair, 0);
    pair
}

/// Lets the queue pair of side `n`, which is connected anew, allow any order.
fn relax(pair: &mut Pair, n: usize) {
    let (host, number) = (&mut pair.hosts[n], pair.pairs[n]);
    host.modify(number, &Change::Reset).unwrap();
    let peer = Peer { address: 0, queue_pair: pair.pairs[1 - n] };
    let rights = Rights::ALL.with(Rights::RELAXED);
    connect_granting(
        host,
        number,
        peer,
        Reliability { read_depth: 4, ..Reliability::default() },
        rights,
    );
}

fn write_to(pair: &mut Pair, id: u64, offset: u64, length: u32) {
    let remote = pair.remote(0, offset);
    pair.post(0, id, Work::Write { remote, immediate: None }, length);
}

fn is_answer(transmit: &Transmit) -> bool {
    matches!(transmit.packet.operation, Operation::ReadResponse(_))
}

#[test]
fn an_operation_waits_for_the_answer_to_a_read_that_it_overlaps() {
    let mut pair = Pair::new(Transport::Rc);
    pair.read(0, 1, 2 * MTU);
    write_to(&mut pair, 2, 8192 + u64::from(2 * MTU), 8);
    write_to(&mut pair, 3, 8192 - 8, 8);
    write_to(&mut pair, 4, 8192 + u64::from(2 * MTU) - 8, 8);
    write_to(&mut pair, 5, 0, 8);
    assert_eq!(pair.pull(0).len(), 3, "the READ and what only lies beside it");
    pair.flow(1);
    let answers = pair.pull(1);
    pair.wires[0].clear();
    pair.deliver(0, &answers[0]);
    assert_eq!(pair.pull(0), [], "half an answer is none");
    pair.deliver(0, &answers[1]);
    assert_eq!(pair.pull(0).len(), 2);
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 5);
}

#[test]
fn an_operation_waits_for_a_read_that_is_sent_again() {
    let mut pair = Pair::new(Transport::Rc);
    pair.read(0, 1, 8);
    pair.fetch_add(0, 2, 1);
    write_to(&mut pair, 3, 8192, 8);
    assert_eq!(pair.pull(0).len(), 2);
    pair.wires[1].clear();
    pair.pass(Duration::from_ms(20));
    assert_eq!(pair.pull(0).len(), 2, "the WRITE waits still");
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 3);
    assert_eq!(pair.hosts[0].counters().timeouts, 1);
}

#[test]
fn a_queue_pair_that_allows_any_order_waits_for_no_read() {
    let mut pair = careless();
    pair.read(0, 1, 8);
    write_to(&mut pair, 2, 8192, 8);
    pair.fetch_add(0, 3, 1);
    assert_eq!(pair.pull(0).len(), 3);
}

#[test]
fn the_answer_to_a_read_is_made_before_what_it_reads_is_changed() {
    let mut pair = careless();
    pair.read(0, 1, 2 * MTU);
    write_to(&mut pair, 2, 8192 + u64::from(2 * MTU), 8);
    write_to(&mut pair, 3, 8192 + u64::from(2 * MTU) - 8, 8);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.deliver(1, &sent[0]);
    assert!(matches!(pair.deliver(1, &sent[1]), Verdict::Place(_)));
    assert!(pair.wires[0].is_empty(), "nothing is read there");
    assert!(matches!(pair.deliver(1, &sent[2]), Verdict::Place(_)));
    assert_eq!(pair.wires[0].iter().filter(|answer| is_answer(answer)).count(), 2);
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 3);
    assert_eq!(pair.hosts[0].counters().resent_packets, 0);
}

#[test]
fn write_that_would_change_an_unsent_answer_is_retransmitted() {
    let mut pair = careless();
    pair.read(0, 1, 2 * MTU);
    write_to(&mut pair, 2, 8192, 8);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.blocked = true;
    pair.deliver(1, &sent[0]);
    assert_eq!(pair.deliver(1, &sent[1]), Verdict::Drop(DropReason::Gap));
    let answers = pair.pull(1);
    assert!(is_answer(&answers[0]) && is_answer(&answers[1]));
    assert_eq!(syndrome(&answers[2]), Syndrome::Nak(NakCode::PsnSequence));
    pair.flow(0);
    // A copy of the READ is answered again, and that answer has to leave first, too.
    pair.deliver(1, &sent[0]);
    assert_eq!(pair.deliver(1, &sent[1]), Verdict::Drop(DropReason::Gap));
    pair.blocked = false;
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(pair.hosts[0].counters().timeouts, 0);
}

#[test]
fn only_unsent_bytes_of_an_answer_are_protected() {
    let mut pair = careless();
    pair.read(0, 1, 2 * MTU);
    write_to(&mut pair, 2, 8192, 8);
    write_to(&mut pair, 3, 8192 + u64::from(MTU), 8);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.blocked = true;
    pair.deliver(1, &sent[0]);
    let first = pair.hosts[1].poll_transmit(pair.now).unwrap();
    let fragment = first.packet.operation;
    assert!(matches!(fragment, Operation::ReadResponse(ReadFragment::First(_))));
    assert!(matches!(pair.deliver(1, &sent[1]), Verdict::Place(_)));
    assert_eq!(pair.deliver(1, &sent[2]), Verdict::Drop(DropReason::Gap));
}

#[test]
fn regions_that_share_memory_are_recognised() {
    let mut pair = careless();
    let request = MemoryRequest { domain: 3, address: 0, length: 4096, rights: Rights::ALL };
    let other = pair.hosts[1].register(&request).unwrap();
    pair.read(0, 1, 8);
    let remote = RemoteAddress { address: 16, r_key: other.r_key };
    for id in [2, 3] {
        pair.post(0, id, Work::Write { remote, immediate: None }, 8);
    }
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.blocked = true;
    pair.deliver(1, &sent[0]);
    assert!(matches!(pair.deliver(1, &sent[1]), Verdict::Place(_)));
    // The bytes of the other region from 16 on are those of the first region from 8192 on.
    pair.hosts[1].set_place(other.segment, BASE + 8192 - 16);
    assert_eq!(pair.deliver(1, &sent[2]), Verdict::Drop(DropReason::Gap));
}

#[test]
fn a_message_into_what_a_read_reads_waits_for_the_answer() {
    let mut pair = Pair::new(Transport::Rc);
    let request = ReceiveRequest { id: 7, local: pair.local(1, 8192 + 8, 16) };
    pair.hosts[1].post_receive(pair.pairs[1], &request).unwrap();
    pair.read(0, 1, 16);
    pair.send(0, 2, 16);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.blocked = true;
    pair.deliver(1, &sent[0]);
    assert_eq!(pair.deliver(1, &sent[1]), Verdict::Drop(DropReason::Gap));
    pair.blocked = false;
    assert!(matches!(pair.deliver(1, &sent[1]), Verdict::Place(_)));
    pair.run_until_idle();
    assert_eq!((pair.sent(0).len(), pair.received(1).len()), (2, 1));
}

#[test]
fn placement_waits_for_an_earlier_atomic() {
    let mut pair = Pair::new(Transport::Rc);
    pair.hold = true;
    write_to(&mut pair, 1, 4096, 8);
    pair.fetch_add(0, 2, 1);
    pair.fetch_add(0, 3, 1);
    write_to(&mut pair, 4, 8192, 8);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    for transmit in &sent[..3] {
        pair.deliver(1, transmit);
    }
    assert_eq!(pair.executed, 0, "the WRITE is not in place");
    assert_eq!(pair.deliver(1, &sent[3]), Verdict::Drop(DropReason::Gap));
    let token = pair.held.pop().unwrap();
    pair.hosts[1].handle_placed(pair.now, token, 0);
    pair.execute(1);
    pair.hold = false;
    pair.run_until_idle();
    assert_eq!((pair.executed, pair.sent(0).len()), (2, 4));
    assert_eq!(pair.hosts[0].counters().timeouts, 0);
}

#[test]
fn current_message_is_placed_early_except_its_end() {
    let mut pair = early_pair();
    pair.write(0, 1, 3 * MTU + 8);
    write_to(&mut pair, 2, 65_536, 8);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    assert!(
        matches!(pair.deliver(1, &sent[4]), Verdict::Own(OwnVerdict::Buffer { .. })),
        "a later message"
    );
    assert!(
        matches!(pair.deliver(1, &sent[2]), Verdict::Own(OwnVerdict::Buffer { .. })),
        "a message not begun"
    );
    assert!(matches!(pair.deliver(1, &sent[0]), Verdict::Place(_)));
    pair.deliver(1, &sent[1]);
    assert_eq!(pair.placed[1].len(), 3, "with what was kept");
    pair.write(0, 3, 3 * MTU + 8);
    pair.deliver(1, &sent[3]);
    let more = pair.pull(0);
    pair.wires[1].clear();
    assert!(matches!(pair.deliver(1, &more[0]), Verdict::Place(_)));
    assert!(
        matches!(pair.deliver(1, &more[3]), Verdict::Own(OwnVerdict::Buffer { .. })),
        "the end"
    );
    assert!(matches!(pair.deliver(1, &more[2]), Verdict::Place(_)), "the middle");
    pair.deliver(1, &more[1]);
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 3);
    assert_eq!(pair.hosts[0].counters().resent_packets, 0);
}

#[test]
fn message_does_not_change_bytes_of_an_earlier_read() {
    let mut pair = early_pair();
    relax(&mut pair, 0);
    pair.read(0, 1, 8 * MTU);
    write_to(&mut pair, 2, 8192 - u64::from(MTU), 4 * MTU);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.blocked = true;
    pair.deliver(1, &sent[0]);
    assert!(matches!(pair.deliver(1, &sent[1]), Verdict::Place(_)));
    assert!(matches!(pair.deliver(1, &sent[3]), Verdict::Own(OwnVerdict::Buffer { .. })));
    pair.blocked = false;
    pair.deliver(1, &sent[2]);
    pair.deliver(1, &sent[4]);
    pair.run_until_idle();
    assert_eq!(pair.sent(0).len(), 2);
}

#[test]
fn taking_relaxed_ordering_from_a_region_refuses_nothing_under_way() {
    let mut pair = Pair::new(Transport::Rc);
    let segment = pair.regions[1].segment;
    let relaxed = Rights::ALL.with(Rights::RELAXED);
    pair.hosts[1].change_region(segment, relaxed, 3).unwrap();
    pair.write(0, 1, 2 * MTU);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    let placed = |verdict| match verdict {
        Verdict::Place(placement) => placement.target.relaxed,
        other => panic!("{other:?}"),
    };
    assert!(placed(pair.deliver(1, &sent[0])));
    pair.hosts[1].change_region(segment, Rights::ALL, 3).unwrap();
    assert!(!placed(pair.deliver(1, &sent[1])));
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
}
