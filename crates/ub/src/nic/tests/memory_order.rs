//! Memory order (tag MO) between two NICs: what is placed when, whatever order packets arrive in.

use super::*;
use crate::placement::{Execution, PlacementToken, Purpose};
use fairway_wire::Tag;

fn in_memory(mode: ServiceMode) -> OrderRequest {
    OrderRequest { mode, tag: Tag::Mo, complete_in_order: true, ..OrderRequest::default() }
}

const WRITES: ServiceMode = ServiceMode::Rol;
const ANSWERS: ServiceMode = ServiceMode::Rot;

/// An access of node 1 to memory for a packet: its kind, the segment's number and the offset.
type Step = (Part, u64, u32);

/// The kind of payload that was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A packet of a message whose turn had come.
    Arrival,
    /// A packet, into the staging memory.
    Staging,
    /// Payload copied from the staging memory.
    Deferred,
}

fn part_of(token: &PlacementToken) -> Part {
    match token.purpose {
        Purpose::Arrival(_) => Part::Arrival,
        Purpose::Staging(_) => Part::Staging,
        Purpose::Deferred(_) => Part::Deferred,
        other => panic!("{other:?} is no part of a message in memory order"),
    }
}

impl Pair {
    fn write_in_memory_order(&mut self, id: u64, offset: u64, length: u32) {
        let mut remote = self.remote();
        remote.address += offset;
        self.post_in_order(id, Work::Write { remote }, length, in_memory(WRITES));
    }

    /// Delivers a packet of node 0 to node 1, and returns the accesses to memory that follow.
    fn take(&mut self, transmit: &Transmit) -> Vec<Step> {
        let mut steps = Vec::new();
        let now = self.now;
        let nic = &mut self.nics[1];
        let received = Received {
            route: transmit.route,
            packet: transmit.packet,
            payload: transmit.gather.length,
            ecn: Ecn::Capable,
            hops: 0,
        };
        if let Verdict::Place(placement) = nic.handle_packet(now, &received) {
            let target = placement.target;
            steps.push((part_of(&placement.token), target.offset, target.length));
            nic.handle_placed(now, placement.token, 0);
        }
        while let Some(Execution::Copy { to, token, .. }) = nic.poll_execution() {
            steps.push((part_of(&token), to.offset, to.length));
            nic.handle_placed(now, token, 0);
        }
        steps
    }
}

#[test]
fn write_that_arrives_before_an_earlier_one_is_set_aside_until_its_turn() {
    let mut pair = Pair::new(0, 1).with_staging();
    pair.write_in_memory_order(0, 0, 64);
    pair.write_in_memory_order(1, 64, 8);
    let packets = pair.outgoing();
    assert_eq!(packets.len(), 2, "nothing waits at the initiator");
    let early = pair.take(&packets[1]);
    assert_eq!(early.len(), 1);
    assert_eq!(early[0].0, Part::Staging);
    let both = pair.take(&packets[0]);
    assert_eq!(both, [(Part::Arrival, 0, 64), (Part::Deferred, 64, 8)]);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0), [0, 1]);
}

#[test]
fn last_packet_of_a_message_is_placed_last() {
    let mut pair = Pair::new(0, 1).with_staging();
    pair.write_in_memory_order(0, 0, 2 * MTU + 10);
    let packets = pair.outgoing();
    assert_eq!(packets.len(), 3);
    assert_eq!(pair.take(&packets[2])[0].0, Part::Staging);
    assert_eq!(pair.take(&packets[0]), [(Part::Arrival, 0, MTU)]);
    let (middle, last) = (u64::from(MTU), 2 * u64::from(MTU));
    let end = pair.take(&packets[1]);
    assert_eq!(end, [(Part::Arrival, middle, MTU), (Part::Deferred, last, 10)]);
}

#[test]
fn write_to_memory_that_a_read_returns_waits_until_the_answer_has_arrived() {
    let mut pair = Pair::new(0, 1).with_staging();
    let remote = pair.remote();
    pair.post_in_order(0, Work::Read { remote }, 100, in_memory(ANSWERS));
    pair.write_in_memory_order(1, 50, 10);
    pair.write_in_memory_order(2, 500, 10);
    let packets = pair.outgoing();
    assert!(pair.take(&packets[0]).is_empty());
    assert_eq!(pair.take(&packets[1])[0].0, Part::Staging, "it overlaps");
    assert_eq!(pair.take(&packets[2])[0].0, Part::Staging, "it follows one that waits");
    pair.run_until_idle(lose_first_read_answer());
    assert_eq!(pair.ids(0), [0, 1, 2]);
}

/// Memory of relaxed ordering is written as packets arrive, but a READ returns the bytes as of its
/// turn.
#[test]
fn write_that_follows_a_read_waits_for_it_in_relaxed_memory_as_well() {
    let mut pair = Pair::new(0, 1).with_staging();
    let rights = Rights::ALL.with(Rights::RELAXED);
    let request = SegmentRequest { address: 0x1000, length: 4096, rights, token_value: 77 };
    let segment = pair.nics[1].register(&request).unwrap();
    let at = |offset: u64| RemoteRange {
        token_id: segment.token_id(),
        token_value: 77,
        address: 0x1000 + offset,
    };
    pair.write_in_memory_order(0, 0, 8);
    pair.post_in_order(1, Work::Write { remote: at(0) }, 10, in_memory(WRITES));
    pair.post_in_order(2, Work::Read { remote: at(0) }, 100, in_memory(ANSWERS));
    pair.post_in_order(3, Work::Write { remote: at(50) }, 10, in_memory(WRITES));
    let mut packets = pair.outgoing();
    packets.sort_by_key(|packet| match packet.packet {
        Packet::Data(data) => data.order.sequence,
        _ => panic!("data"),
    });
    assert_eq!(pair.take(&packets[1]), [(Part::Arrival, 0, 10)], "before its turn");
    assert_eq!(pair.take(&packets[3])[0].0, Part::Staging, "a READ was under way");
    pair.take(&packets[0]);
    pair.take(&packets[2]);
    pair.run_until_idle(lose_first_read_answer());
    assert_eq!(pair.ids(0), [0, 1, 2, 3]);
}

#[test]
fn without_staging_memory_what_comes_early_is_sent_back_and_comes_again() {
    let mut pair = Pair::new(0, 1);
    for id in 0..3 {
        pair.write_in_memory_order(id, 64 * id, 2000);
    }
    // The newest packet arrives, and all others are lost.
    let packets = pair.outgoing();
    assert!(pair.take(&packets[packets.len() - 1]).is_empty());
    assert_eq!(pair.nics[1].counters().sent_back, 1);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0), [0, 1, 2]);
}

#[test]
fn memory_order_does_not_mix_with_other_orders_on_one_jetty() {
    let mut pair = Pair::new(0, 1).with_staging();
    pair.write_in_memory_order(0, 0, 8);
    let remote = pair.remote();
    let (channel, local) =
        (pair.channels[0], LocalRange { segment: pair.segments[0], offset: 0, length: 8 });
    let order = OrderRequest { tag: Tag::So, ..OrderRequest::default() };
    let work = Work::Write { remote };
    let request = WorkRequest { id: 1, channel, work, local, signaled: true, order };
    let jetty = pair.jetties[0];
    assert_eq!(pair.nics[0].post(pair.now, jetty, &request), Err(PostError::MemoryOrder));
    let order = in_memory(ANSWERS);
    let request = WorkRequest { order, ..request };
    assert_eq!(pair.nics[0].post(pair.now, jetty, &request), Err(PostError::MemoryOrder));
}

#[test]
fn write_after_a_strict_read_of_an_earlier_jetty_with_its_number_completes_in_place() {
    let mut pair = Pair::new(0, 1).with_staging();
    let (remote, strict) = (pair.remote(), OrderRequest { tag: Tag::So, ..in_memory(WRITES) });
    pair.post_in_order(0, Work::Read { remote }, 100, strict);
    for packet in pair.outgoing() {
        pair.take(&packet);
    }
    let answer = pair.nics[1].poll_transmit(pair.now).unwrap();
    pair.deliver(0, &answer);
    assert_eq!(pair.ids(0), [0]);
    // The acknowledgement of the answer is lost.
    while pair.nics[0].poll_transmit(pair.now).is_some() {}
    pair.nics[0].destroy_jetty(pair.jetties[0]).unwrap();
    let queue = pair.queues[0];
    let config = JettyConfig { number: Some(1), ..JettyConfig::new(queue, queue) };
    pair.jetties[0] = pair.nics[0].create_jetty(&config).unwrap();
    pair.write_in_memory_order(1, 500, 10);
    let packets = pair.outgoing();
    assert_eq!(pair.take(&packets[0])[0].0, Part::Staging, "the READ has not ended here");
    for _ in 0..10 {
        pair.now = pair.now + Duration::from_us(1);
        while let Some(transmit) = pair.nics[1].poll_transmit(pair.now) {
            pair.deliver(0, &transmit);
        }
    }
    assert_eq!(pair.ids(0), [], "it is not in place");
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0), [1]);
    assert_eq!(pair.effects.last(), Some(&500));
}

#[test]
fn operation_that_was_given_up_is_not_mixed_up_with_those_of_the_next_jetty_of_its_number() {
    let mut pair = Pair::new(0, 1).with_staging();
    let target = named(pair.jetties[1].value());
    let again = |pair: &mut Pair| {
        pair.nics[0].destroy_jetty(pair.jetties[0]).unwrap();
        let queue = pair.queues[0];
        let config = JettyConfig { number: Some(1), ..JettyConfig::new(queue, queue) };
        pair.jetties[0] = pair.nics[0].create_jetty(&config).unwrap();
    };
    // A SEND that finds no receive is flushed. The target has not acknowledged that it does not
    // wait for it when its Jetty goes.
    pair.post_in_order(0, Work::Send { target }, 10, in_memory(WRITES));
    pair.run_for(20);
    pair.nics[0].set_jetty_state(pair.jetties[0], JettyState::Error).unwrap();
    let mut given_up = Vec::new();
    while given_up.is_empty() {
        pair.run_for(1);
        given_up = pair.completions(0);
    }
    assert_eq!(given_up[0].status, Status::Flushed);
    again(&mut pair);
    for id in 1..4 {
        pair.write_in_memory_order(id, 64 * id, 8);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0), [1, 2, 3]);
    again(&mut pair);
    assert_eq!(pair.nics[0].usage().order_records, 1, "numbers go on; the Jetty's record is free");
}

#[test]
fn write_of_which_only_the_start_was_sent_can_be_refused_at_its_turn() {
    let mut pair = Pair::new(0, 1).with_staging();
    let remote = pair.remote();
    pair.post_in_order(0, Work::Read { remote }, 64, in_memory(ANSWERS));
    // A WRITE that is posted while a READ is in progress is answered when it has been executed.
    pair.write_in_memory_order(1, 0, 2 * MTU);
    let now = pair.now;
    let first = pair.nics[0].poll_transmit(now).unwrap();
    let start = pair.nics[0].poll_transmit(now).unwrap();
    assert_eq!(pair.take(&start)[0].0, Part::Staging);
    pair.nics[1].deregister(pair.segments[1]).unwrap();
    assert!(pair.take(&first).is_empty());
    // The refusals arrive before the rest of the second WRITE is sent.
    while let Some(packet) = pair.nics[1].poll_transmit(now) {
        pair.deliver(0, &packet);
    }
    pair.run_until_idle(|_, _| false);
    let statuses: Vec<Status> = pair.completions(0).iter().map(|done| done.status).collect();
    assert_eq!(statuses, [Status::RemoteAccess, Status::RemoteAccess]);
}

/// The operations of a Jetty that are ordered by one target leave together.
#[test]
fn ordered_operations_leave_together_however_many_came_before() {
    for posts in [5, 1 << 30, (1 << 31) + 5, (1 << 31) + (1 << 30)] {
        for (tag, mode) in [(Tag::Mo, WRITES), (Tag::So, ServiceMode::Rot)] {
            let mut pair = Pair::new(0, 1).with_staging();
            let remote = pair.remote();
            let order = OrderRequest { tag, ..in_memory(mode) };
            pair.post_in_order(0, Work::Write { remote }, 8, order);
            pair.run_until_idle(|_, _| false);
            let jetty = pair.jetties[0];
            pair.nics[0].shared.initiator.skip_serials(jetty, posts);
            for id in 1..9 {
                pair.post_in_order(id, Work::Write { remote }, 8, order);
            }
            assert_eq!(pair.outgoing().len(), 8, "{tag:?}, {posts} posts before");
            assert_eq!(pair.nics[0].counters().gated, 0);
        }
    }
}
