//! Receives that are matched by sequence.

use super::*;
use fairway_wire::{Packet, Tag};

const FAR: u32 = 7;
const ORDER: OrderRequest = OrderRequest {
    mode: ServiceMode::Rol,
    tag: Tag::Ro,
    fence: false,
    complete_in_order: false,
    receive_in_order: true,
};

impl Pair {
    /// A pair with a Jetty in sequence at the second node.
    fn in_sequence(paths: u32) -> Pair {
        let mut pair = Pair::new(0, paths);
        pair.make_far_jetty();
        pair
    }

    fn make_far_jetty(&mut self) {
        let queue = self.queues[1];
        let number = Some(FAR);
        let config = JettyConfig { number, in_sequence: true, ..JettyConfig::new(queue, queue) };
        self.nics[1].create_jetty(&config).unwrap();
    }

    fn far_receive(&mut self, id: u64, length: u32) {
        let local = LocalRange { segment: self.segments[1], offset: 0, length };
        let request = ReceiveRequest { id, local };
        self.nics[1].post_receive(JettyId::new(FAR), &request).unwrap();
    }

    fn send(&mut self, id: u64, length: u32) {
        let work = Work::SendImmediate { target: named(FAR), immediate: id };
        self.post_in_order(id, work, length, ORDER);
    }

    fn write(&mut self, id: u64, length: u32) {
        let remote = self.remote();
        let order = OrderRequest { receive_in_order: false, ..ORDER };
        self.post_in_order(id, Work::Write { remote }, length, order);
    }

    /// Ids of receives, and the immediate data of the messages in them.
    fn received(&mut self) -> Vec<(u64, Option<u64>)> {
        let done = self.completions(1);
        assert!(done.iter().all(|done| done.status == Status::Success), "{done:?}");
        done.iter().map(|done| (done.id, done.immediate)).collect()
    }
}

#[test]
fn the_kth_message_takes_the_kth_receive_however_they_come() {
    for seed in 0..50 {
        let mut pair = Pair::in_sequence(4);
        let length = |id: u64| (id * 7919 % 6_000) as u32;
        for id in 0..40 {
            // Each message just fits its receive.
            pair.far_receive(id, length(id));
            pair.send(id, length(id));
        }
        let mut random = Random::new(seed);
        pair.run_until_idle(|_, _| random.number().is_multiple_of(4));
        let expected: Vec<_> = (0..40).map(|id| (id, Some(id))).collect();
        assert_eq!(pair.received(), expected, "seed {seed}");
        assert_eq!(pair.ids(0).len(), 40);
        assert_eq!(pair.nics[1].usage().receives, 0);
    }
}

#[test]
fn ordered_receives_wait_neither_for_each_other_nor_for_writes() {
    let mut pair = Pair::in_sequence(1);
    (0..3).for_each(|id| pair.far_receive(id, 5_000));
    pair.write(10, 5_000);
    (0..3).for_each(|id| pair.send(id, 5_000));
    let packets = pair.outgoing();
    assert_eq!(packets.len(), 20, "all leave at once");
    // The last message arrives first, the write last.
    for at in (0..20).rev() {
        assert_eq!(pair.received(), []);
        pair.deliver(1, &packets[at]);
    }
    assert_eq!(pair.received(), [(0, Some(0)), (1, Some(1)), (2, Some(2))]);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0).len(), 4);
}

#[test]
fn early_message_leaves_receives_to_others_and_does_not_count_as_refused() {
    let mut pair = Pair::in_sequence(1);
    let near = pair.jetties[0];
    pair.nics[0].set_jetty_not_ready_retries(near, Some(0)).unwrap();
    pair.far_receive(0, 100);
    (0..2).for_each(|id| pair.send(id, 100));
    let packets = pair.outgoing();
    pair.deliver(1, &packets[1]);
    assert_eq!(pair.nics[1].counters().not_ready, 1);
    pair.deliver(1, &packets[0]);
    assert_eq!(pair.received(), [(0, Some(0))]);
    pair.far_receive(1, 100);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.received(), [(1, Some(1))]);
    assert_eq!(pair.ids(0), [0, 1]);
    // Refusals of the oldest message are counted.
    pair.send(2, 100);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0)[0].status, Status::ReceiverNotReady);
}

#[test]
fn the_receive_of_one_that_never_comes_goes_to_the_next() {
    let mut pair = Pair::in_sequence(1);
    (0..4).for_each(|id| pair.far_receive(id, 100));
    pair.send(0, 5_000);
    pair.send(1, 100);
    let packets = pair.outgoing();
    pair.deliver(1, packets.last().unwrap());
    assert_eq!(pair.received(), [], "it waits for the other");
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.received(), [(1, Some(1))]);
    let mut statuses: Vec<_> = pair.completions(0).iter().map(|it| (it.id, it.status)).collect();
    statuses.sort_by_key(|it| it.0);
    assert_eq!(statuses, [(0, Status::RemoteLength), (1, Status::Success)]);
    pair.send(2, 100);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.received(), [(0, Some(2))]);
}

#[test]
fn messages_set_aside_or_waiting_are_flushed_with_their_jetty() {
    let mut pair = Pair::in_sequence(1);
    (0..5).for_each(|id| pair.far_receive(id, 100));
    (0..3).for_each(|id| pair.send(id, 100));
    let packets = pair.outgoing();
    pair.deliver(1, &packets[2]);
    assert_eq!(pair.nics[1].destroy_jetty(JettyId::new(FAR)), Err(SetupError::Busy));
    pair.nics[1].abort_jetty(JettyId::new(FAR)).unwrap();
    let mut flushed = pair.completions(1);
    flushed.sort_by_key(|done| done.id);
    assert_eq!(flushed.iter().map(|done| done.id).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(flushed.iter().all(|done| done.status == Status::Flushed));
    assert_eq!(pair.nics[1].segment_references(pair.segments[1]), 0);
    pair.nics[1].destroy_jetty(JettyId::new(FAR)).unwrap();
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(1), []);
    assert_eq!(pair.nics[1].usage().unreported, 0);
}

#[test]
fn early_message_leaves_the_last_receive_to_one_whose_receive_was_flushed() {
    let mut pair = Pair::in_sequence(1);
    (0..2).for_each(|id| pair.far_receive(id, 100));
    (0..2).for_each(|id| pair.send(id, 100));
    let packets = pair.outgoing();
    // The second message takes the second receive; the first receive is set aside, then flushed.
    pair.deliver(1, &packets[1]);
    pair.nics[1].abort_jetty(JettyId::new(FAR)).unwrap();
    pair.nics[1].destroy_jetty(JettyId::new(FAR)).unwrap();
    assert_eq!(pair.completions(1).len(), 2);
    pair.make_far_jetty();
    pair.far_receive(10, 100);
    pair.send(2, 100);
    let third = pair.outgoing();
    pair.deliver(1, third.last().unwrap());
    assert_eq!(pair.nics[1].counters().not_ready, 1);
    pair.deliver(1, &packets[0]);
    assert_eq!(pair.received(), [(10, Some(0))]);
    pair.far_receive(11, 100);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.received(), [(11, Some(2))]);
}

#[test]
fn refusal_of_an_unordered_message_that_overtakes_another_is_not_counted() {
    let mut pair = Pair::in_sequence(1);
    let near = pair.jetties[0];
    pair.nics[0].set_jetty_not_ready_retries(near, Some(0)).unwrap();
    pair.far_receive(0, 100);
    for id in 0..2 {
        let work = Work::SendImmediate { target: named(FAR), immediate: id };
        pair.post_in_order(id, work, 100, OrderRequest { tag: Tag::No, ..ORDER });
    }
    let packets = pair.outgoing();
    pair.deliver(1, &packets[1]);
    assert_eq!(pair.nics[1].counters().not_ready, 1);
    pair.far_receive(1, 100);
    pair.deliver(1, &packets[0]);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.received(), [(0, Some(0)), (1, Some(1))]);
    assert!(pair.completions(0).iter().all(|done| done.status == Status::Success));
}

#[test]
fn message_that_overtakes_another_is_tried_again_ever_more_seldom() {
    let mut pair = Pair::in_sequence(1);
    pair.far_receive(0, 100);
    (0..2).for_each(|id| pair.send(id, 100));
    // For 100 ms, a thousand times the delay after a refusal, the first message is lost.
    for _ in 0..10_000 {
        pair.now = pair.now + Duration::from_us(10);
        for n in 0..2 {
            pair.nics[n].handle_timeout(pair.now);
            while let Some(transmit) = pair.nics[n].poll_transmit(pair.now) {
                let Packet::Data(data) = transmit.packet else {
                    pair.wires[1 - n].push_back(transmit);
                    continue;
                };
                if data.order.receive_sequence == 1 {
                    pair.wires[1 - n].push_back(transmit);
                }
            }
            while let Some(transmit) = pair.wires[n].pop_front() {
                pair.deliver(n, &transmit);
            }
        }
    }
    let refused = pair.nics[1].counters().not_ready;
    assert!((8..=25).contains(&refused), "refused {refused} times");
    pair.far_receive(1, 100);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.received(), [(0, Some(0)), (1, Some(1))]);
}

/// For 30 messages that wait for receives: the number of refusals, and the time in microseconds, if
/// `at_once` receives are posted every 2 ms.
fn wait_for_receives(at_once: u64) -> (u64, u64) {
    const COUNT: u64 = 30;
    let mut pair = Pair::in_sequence(1);
    (0..COUNT).for_each(|id| pair.send(id, 100));
    pair.run_for(40_000);
    let before = pair.nics[1].counters().not_ready;
    let (mut given, mut taken, mut waited) = (0, 0, 0);
    while taken < COUNT {
        if waited % 2_000 == 0 {
            let next = (given + at_once).min(COUNT);
            (given..next).for_each(|id| pair.far_receive(id, 100));
            given = next;
        }
        pair.run_for(100);
        waited += 100;
        let done = pair.received();
        for (id, immediate) in &done {
            assert_eq!(Some(*id), *immediate);
        }
        taken += done.len() as u64;
        assert!(waited < 1_000_000, "{taken} were received");
    }
    (pair.nics[1].counters().not_ready - before, waited)
}

#[test]
fn retries_of_refused_messages_are_few() {
    let (one_by_one, _) = wait_for_receives(1);
    assert!(one_by_one <= 20 * 30 + 150, "{one_by_one} refusals");
    let (at_once, waited) = wait_for_receives(30);
    assert!(at_once <= 30, "{at_once} refusals");
    assert!(waited <= 4_000, "all took {waited} us");
}

#[test]
fn message_that_waits_for_its_turn_is_not_passed_over_when_its_sender_gives_it_up() {
    let mut pair = Pair::in_sequence(1);
    (0..2).for_each(|id| pair.far_receive(id, 100));
    (0..2).for_each(|id| pair.send(id, 100));
    let packets = pair.outgoing();
    pair.deliver(1, &packets[1]);
    // The message's sender does not know that it has arrived.
    let Packet::Data(data) = packets[1].packet else { panic!("data") };
    let (psn, message) = (data.psn.next(), data.message.next());
    let operation = fairway_wire::Operation::Abandon;
    let given_up = fairway_wire::Data { psn, message, operation, ..data };
    let mut forged = packets[1];
    forged.packet = Packet::Data(given_up);
    forged.gather.length = 0;
    pair.deliver(1, &forged);
    pair.deliver(1, &packets[0]);
    assert_eq!(pair.received(), [(0, Some(0)), (1, Some(1))]);
}
