//! Jetties that end abruptly, and those that share receives.

use super::*;
use crate::{ExceptionMode, JettyState};

impl Pair {
    /// Creates another Jetty at the second node.
    fn another(&mut self, number: u32) -> JettyId {
        let queue = self.queues[1];
        let config = JettyConfig { number: Some(number), ..JettyConfig::new(queue, queue) };
        self.nics[1].create_jetty(&config).unwrap()
    }

    fn receive_at(&mut self, jetty: JettyId, id: u64) {
        let local = LocalRange { segment: self.segments[1], offset: 0, length: 100 };
        self.nics[1].post_receive(jetty, &ReceiveRequest { id, local }).unwrap();
    }
}

#[test]
fn aborted_operation_is_flushed_at_once_and_touches_no_memory_afterwards() {
    let mut pair = Pair::new(0, 1);
    let near = pair.jetties[0];
    let remote = pair.remote();
    for id in 0..3 {
        pair.post(3 * id, Work::Write { remote }, 5000);
        pair.post(3 * id + 1, Work::Read { remote }, 5000);
        pair.post(3 * id + 2, Work::Send { target: named(1) }, 5000);
    }
    let sent = pair.outgoing();
    assert!(sent.len() > 3);
    pair.nics[0].abort_jetty(near).unwrap();
    let mut ended = pair.completions(0);
    ended.sort_by_key(|completion| completion.id);
    assert_eq!(ended.iter().map(|ended| ended.id).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    assert!(ended.iter().all(|ended| ended.status == Status::Flushed));
    assert_eq!(pair.nics[0].segment_references(pair.segments[0]), 0, "its memory is free");
    assert_eq!(pair.nics[0].destroy_jetty(near), Ok(()));
    // Some of the sent packets arrive; answers arrive, and are dropped.
    for packet in sent.iter().step_by(2) {
        pair.deliver(1, packet);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0), []);
    assert_eq!(pair.nics[0].usage().messages, 0, "records come back");
}

/// One of the operations has been acknowledged, and waits for those before it.
#[test]
fn operations_that_complete_in_order_are_aborted_at_once() {
    let mut pair = Pair::new(0, 1).with_staging();
    let near = pair.jetties[0];
    let remote = pair.remote();
    let order = OrderRequest {
        mode: ServiceMode::Rol,
        tag: fairway_wire::Tag::Mo,
        complete_in_order: true,
        ..OrderRequest::default()
    };
    for id in 0..5 {
        pair.post_in_order(id, Work::Write { remote }, 5000, order);
    }
    pair.post_in_order(5, Work::Write { remote }, 8, order);
    let sent = pair.outgoing();
    pair.deliver(1, sent.last().unwrap());
    pair.now = pair.now + Duration::from_ms(1);
    pair.nics[1].handle_timeout(pair.now);
    while let Some(ack) = pair.nics[1].poll_transmit(pair.now) {
        pair.deliver(0, &ack);
    }
    let waiting = pair.nics[0].counters().completions_awaiting_order;
    pair.nics[0].abort_jetty(near).unwrap();
    let ended = pair.completions(0);
    assert_eq!(ended.len(), 6, "{waiting} waited for earlier ones");
    assert!(waiting > 0 && ended.iter().all(|ended| ended.status == Status::Flushed), "{ended:?}");
    assert_eq!(pair.nics[0].segment_references(pair.segments[0]), 1, "that of the staging memory");
    assert_eq!(pair.nics[0].destroy_jetty(near), Ok(()));
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0), []);
    assert_eq!(pair.nics[0].usage().messages, 0, "records come back");
}

/// A refused operation completes with its failure, as one that waits for those before it.
#[test]
fn failures_that_an_abort_reports_do_not_change_the_state() {
    let mut pair = Pair::new(0, 1);
    let queue = pair.queues[0];
    let config = JettyConfig {
        number: Some(2),
        exception: ExceptionMode::Error,
        ..JettyConfig::new(queue, queue)
    };
    let near = pair.nics[0].create_jetty(&config).unwrap();
    pair.jetties[0] = near;
    let order = OrderRequest { complete_in_order: true, ..OrderRequest::default() };
    let remote = pair.remote();
    pair.post_in_order(0, Work::Write { remote }, 5000, order);
    pair.post_in_order(1, Work::Send { target: named(30) }, 8, order);
    let sent = pair.outgoing();
    pair.deliver(1, sent.last().unwrap());
    while let Some(refusal) = pair.nics[1].poll_transmit(pair.now) {
        pair.deliver(0, &refusal);
    }
    while let Some(packet) = pair.nics[0].poll_transmit(pair.now) {
        pair.deliver(1, &packet);
    }
    while let Some(ack) = pair.nics[1].poll_transmit(pair.now) {
        pair.deliver(0, &ack);
    }
    pair.nics[0].abort_jetty(near).unwrap();
    let ended = pair.completions(0);
    let statuses: Vec<Status> = ended.iter().map(|ended| ended.status).collect();
    assert_eq!(statuses, [Status::Flushed, Status::RemoteNoJetty]);
    assert_eq!(pair.nics[0].jetty_state(near), JettyState::Ready);
    assert_eq!(pair.nics[0].poll_event(), None);
    assert_eq!(pair.nics[0].destroy_jetty(near), Ok(()));
}

#[test]
fn a_receive_that_a_message_has_taken_is_flushed_and_the_rest_goes_nowhere() {
    let mut pair = Pair::new(0, 1);
    let far = pair.jetties[1];
    pair.receive(1, 5000);
    pair.receive(2, 5000);
    pair.post(0, Work::Send { target: named(1) }, 5000);
    let sent = pair.outgoing();
    pair.deliver(1, &sent[0]);
    pair.nics[1].abort_jetty(far).unwrap();
    let ended = pair.completions(1);
    let ids: Vec<u64> = ended.iter().map(|ended| ended.id).collect();
    assert_eq!(ids, [1, 2]);
    assert!(ended.iter().all(|ended| ended.status == Status::Flushed));
    assert_eq!(pair.nics[1].segment_references(pair.segments[1]), 0);
    assert_eq!(pair.nics[1].destroy_jetty(far), Ok(()));
    for packet in &sent[1..] {
        pair.deliver(1, packet);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0)[0].status, Status::RemoteNoJetty, "its sender is notified");
    // The record of the aborted message is removed when its slot has a new message.
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, 5000);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.nics[1].usage().arrivals, 0);
}

#[test]
fn jetties_draw_from_one_queue_of_receives() {
    let mut pair = Pair::new(0, 1);
    let [queue, one, two] = [5, 6, 7].map(|number| pair.another(number));
    assert_eq!(pair.nics[1].share_receives(one, one), Err(SetupError::Parameter("source")));
    for jetty in [one, two] {
        pair.nics[1].share_receives(jetty, queue).unwrap();
    }
    for id in 0..4 {
        pair.receive_at(queue, id);
    }
    let local = LocalRange { segment: pair.segments[1], offset: 0, length: 100 };
    let own = pair.nics[1].post_receive(one, &ReceiveRequest { id: 9, local });
    assert_eq!(own, Err(PostError::NotReady));
    for (id, to) in [(0, 6), (1, 7), (2, 6)] {
        pair.post(id, Work::Send { target: named(to) }, 10);
        pair.run_until_idle(|_, _| false);
    }
    let got: Vec<_> = pair.completions(1).iter().map(|it| (it.id, it.jetty.value())).collect();
    assert_eq!(got, [(0, 6), (1, 7), (2, 6)]);
    // When one Jetty ends, the receives stay available to the others.
    assert_eq!(pair.nics[1].destroy_jetty(queue), Err(SetupError::Busy));
    pair.nics[1].abort_jetty(one).unwrap();
    pair.nics[1].destroy_jetty(one).unwrap();
    assert_eq!(pair.completions(1), []);
    pair.post(3, Work::Send { target: named(7) }, 10);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(1)[0].id, 3);
    pair.nics[1].destroy_jetty(two).unwrap();
    pair.nics[1].destroy_jetty(queue).unwrap();
}

#[test]
fn receive_that_is_withdrawn_has_no_completion_and_the_next_takes_its_place() {
    let mut pair = Pair::new(0, 1);
    let [queue, one] = [5, 6].map(|number| pair.another(number));
    pair.nics[1].share_receives(one, queue).unwrap();
    assert_eq!(pair.nics[1].withdraw_receive(queue), None);
    let held = pair.nics[1].segment_references(pair.segments[1]);
    (0..3).for_each(|id| pair.receive_at(queue, id));
    assert_eq!(pair.nics[1].withdraw_receive(one), None, "they are posted to the other Jetty");
    assert_eq!(pair.nics[1].withdraw_receive(queue), Some(0));
    pair.post(0, Work::Send { target: named(6) }, 10);
    pair.run_until_idle(|_, _| false);
    let got: Vec<_> = pair.completions(1).iter().map(|it| it.id).collect();
    assert_eq!(got, [1]);
    assert_eq!(pair.nics[1].withdraw_receive(queue), Some(2));
    assert_eq!(pair.nics[1].withdraw_receive(queue), None);
    assert_eq!(pair.nics[1].segment_references(pair.segments[1]), held);
    // All entries of the completion queue are free again.
    assert_eq!(pair.nics[1].usage().receives, 0);
}

const MEMORY_ORDER: OrderRequest = OrderRequest {
    mode: ServiceMode::Rol,
    tag: fairway_wire::Tag::Mo,
    fence: false,
    receive_in_order: true,
    complete_in_order: true,
};

/// The next Jetty of the number sends one more message. Returns whether it was received, once.
fn next_jetty_sends(pair: &mut Pair, order: OrderRequest) -> bool {
    let (old, queue) = (pair.jetties[0], pair.queues[0]);
    pair.nics[0].destroy_jetty(old).unwrap();
    let config = JettyConfig { number: Some(1), ..JettyConfig::new(queue, queue) };
    pair.jetties[0] = pair.nics[0].create_jetty(&config).unwrap();
    for id in 0..4 {
        pair.receive(500 + id, 100);
    }
    pair.post_in_order(1000, Work::Send { target: named(1) }, 8, order);
    pair.run_for(200_000);
    let done: Vec<_> = pair.completions(0).iter().map(|ended| (ended.id, ended.status)).collect();
    done == [(1000, Status::Success)] && pair.completions(1).len() == 1
}

fn is_abandoned(transmit: &Transmit) -> bool {
    matches!(transmit.packet, Packet::Data(data) if data.operation == Operation::Abandon)
}

/// More operations than the target tracks are given up at once, or behind a notice that was lost.
#[test]
fn numbers_of_abandoned_operations_are_skipped_however_many_there_are() {
    use fairway_wire::Tag;
    for tag in [Tag::Mo, Tag::Ro, Tag::So] {
        let order = OrderRequest { tag, ..MEMORY_ORDER };
        for count in [100, 128, 129, 130, 200] {
            for (aborts, lost) in [(true, 0), (false, 0), (true, 1), (false, 1), (false, 70)] {
                let mut pair = Pair::new(0, 1).with_staging();
                let jetty = pair.jetties[0];
                for id in 0..count {
                    pair.post_in_order(id, Work::Send { target: named(1) }, 8, order);
                }
                // There is no receive.
                pair.run_for(300);
                match aborts {
                    true => pair.nics[0].abort_jetty(jetty).unwrap(),
                    false => pair.nics[0].set_jetty_state(jetty, JettyState::Error).unwrap(),
                }
                let mut left = lost;
                pair.run_until_idle(|_, transmit| {
                    let is_lost = left > 0 && is_abandoned(transmit);
                    left -= u32::from(is_lost);
                    is_lost
                });
                assert_eq!(pair.completions(0).len() as u64, count);
                assert!(
                    next_jetty_sends(&mut pair, order),
                    "{tag:?}, {count} operations, aborts {aborts}, {lost} lost"
                );
            }
        }
    }
}

#[test]
fn aborted_operations_give_notice_in_the_order_of_posting() {
    let mut pair = Pair::new(0, 1).with_staging();
    let jetty = pair.jetties[0];
    for id in 0..20 {
        pair.post_in_order(id, Work::Send { target: named(1) }, 8, MEMORY_ORDER);
    }
    pair.nics[0].abort_jetty(jetty).unwrap();
    let numbers = pair.outgoing().into_iter().filter(is_abandoned).map(|sent| match sent.packet {
        Packet::Data(data) => data.order.sequence,
        other => panic!("{other:?}"),
    });
    assert_eq!(numbers.collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
}

/// The answer to a READ of an aborted Jetty arrives when the next Jetty of its number has begun a
/// READ of other memory.
#[test]
fn answer_to_a_read_of_an_earlier_jetty_is_ignored() {
    let mut pair = Pair::new(0, 1);
    let (near, remote) = (pair.jetties[0], pair.remote());
    pair.post(0, Work::Read { remote }, 2 * MTU);
    let request = pair.outgoing().remove(0);
    pair.deliver(1, &request);
    let now = pair.now;
    let (answers, others): (Vec<_>, Vec<_>) =
        core::iter::from_fn(|| pair.nics[1].poll_transmit(now))
            .partition(|sent| matches!(sent.packet, Packet::Data(_)));
    assert_eq!(answers.len(), 2);
    for other in &others {
        pair.deliver(0, other);
    }
    pair.now = pair.now + Duration::from_ms(1);
    pair.nics[1].handle_timeout(pair.now);
    let now = pair.now;
    let later: Vec<_> = core::iter::from_fn(|| pair.nics[1].poll_transmit(now)).collect();
    for ack in later.iter().filter(|sent| matches!(sent.packet, Packet::Ack(_))) {
        pair.deliver(0, ack);
    }
    pair.nics[0].abort_jetty(near).unwrap();
    assert_eq!(pair.completions(0)[0].status, Status::Flushed);
    pair.nics[0].destroy_jetty(near).unwrap();
    let queue = pair.queues[0];
    let config = JettyConfig { number: Some(near.value()), ..JettyConfig::new(queue, queue) };
    pair.jetties[0] = pair.nics[0].create_jetty(&config).unwrap();
    let other = RemoteRange { address: remote.address + (1 << 20), ..remote };
    pair.post(1, Work::Read { remote: other }, 2 * MTU);
    assert!(!pair.outgoing().is_empty(), "the new READ is under way");
    for answer in &answers {
        pair.deliver(0, answer);
    }
    assert_eq!(pair.completions(0), [], "the bytes of the old READ are not those of the new one");
    assert_eq!(pair.placed[0], 0);
}

/// A Jetty is aborted while a SEND to it that had to wait for its turn is being executed.
#[test]
fn message_whose_execution_outlasts_its_jetty_is_freed_once() {
    for missing in [false, true] {
        let mut pair = Pair::new(0, 1).with_staging();
        let mode = ServiceMode::Rot;
        let strict = OrderRequest { mode, tag: fairway_wire::Tag::So, ..OrderRequest::default() };
        let (remote, far) = (pair.remote(), pair.jetties[1]);
        pair.receive(7, 100);
        pair.post_in_order(0, Work::Write { remote }, 8, strict);
        pair.post_in_order(1, Work::Send { target: named(1) }, 8, strict);
        let packets = pair.outgoing();
        assert_eq!(packets.len(), 2);
        pair.deliver(1, &packets[1]);
        let received = Received {
            route: packets[0].route,
            packet: packets[0].packet,
            payload: packets[0].gather.length,
            ecn: Ecn::Capable,
            hops: 0,
        };
        let Verdict::Place(placement) = pair.nics[1].handle_packet(pair.now, &received) else {
            panic!("the WRITE is placed");
        };
        pair.nics[1].handle_placed(pair.now, placement.token, 0);
        let Some(Execution::Copy { token, .. }) = pair.nics[1].poll_execution() else {
            panic!("the turn of the SEND has come");
        };
        pair.nics[1].abort_jetty(far).unwrap();
        assert_eq!(pair.completions(1).len(), 1);
        match missing {
            true => pair.nics[1].handle_unplaced(pair.now, token),
            false => pair.nics[1].handle_placed(pair.now, token, 0),
        }
        assert_eq!(pair.nics[1].usage().arrivals, 0);
        pair.run_until_idle(|_, _| false);
        let done: Vec<_> = pair.completions(0).iter().map(|ended| ended.status).collect();
        assert_eq!(done, [Status::Success, Status::RemoteNoJetty]);
        assert_eq!(pair.nics[0].usage().messages, 0);
    }
}
