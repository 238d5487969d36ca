//! Order and atomics between two NICs; a module below tests the life of Jetties and groups.

use super::*;
use crate::api::{Dispatch, ExceptionMode, GroupConfig};
use fairway_wire::{AtomicOperator, Refusal, Tag};

mod jetties;
mod shared_answers;

const MODES: [ServiceMode; 3] = [ServiceMode::Roi, ServiceMode::Rot, ServiceMode::Rol];

fn strict(mode: ServiceMode) -> OrderRequest {
    OrderRequest { mode, tag: Tag::So, ..OrderRequest::default() }
}

fn relaxed(mode: ServiceMode) -> OrderRequest {
    OrderRequest { mode, tag: Tag::Ro, ..OrderRequest::default() }
}

impl Pair {
    fn write_to(&mut self, id: u64, offset: u64, length: u32, order: OrderRequest) {
        let mut remote = self.remote();
        remote.address += offset;
        self.post_in_order(id, Work::Write { remote }, length, order);
    }

    fn atomic(&mut self, id: u64, operator: AtomicOperator, operand: u64, order: OrderRequest) {
        let remote = self.remote();
        let work = Work::Atomic { remote, width: 8, operator, operand, compare: 0 };
        self.post_in_order(id, work, 0, order);
    }

    pub(super) fn with_staging(mut self) -> Pair {
        for n in 0..2 {
            let segment = self.segments[n];
            self.nics[n].set_staging(segment, MTU).unwrap();
        }
        self
    }

    /// All packets that node 0 sends now.
    pub(super) fn outgoing(&mut self) -> Vec<Transmit> {
        let now = self.now;
        core::iter::from_fn(|| self.nics[0].poll_transmit(now)).collect()
    }

    pub(super) fn ids(&mut self, n: usize) -> Vec<u64> {
        let done = self.completions(n);
        assert!(done.iter().all(|completion| completion.status == Status::Success), "{done:?}");
        done.iter().map(|completion| completion.id).collect()
    }
}

#[test]
fn d18_strict_arrivals_4_3_2_execute_in_order() {
    let mut pair = Pair::new(0, 1).with_staging();
    for id in 0..5 {
        pair.write_to(id, id * 64, 64, strict(ServiceMode::Rot));
    }
    let packets = pair.outgoing();
    assert_eq!(packets.len(), 5, "the target orders: all of them leave at once");
    for at in [4, 3, 2, 1, 0] {
        pair.deliver(1, &packets[at]);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.effects[4..], [0, 64, 128, 192, 256].map(|at| at as u64)[..]);
    assert_eq!(pair.ids(0), [0, 1, 2, 3, 4]);
    assert_eq!(pair.nics[1].counters().deferred, 4);
    let usage = pair.nics[1].usage();
    assert_eq!((usage.deferred, usage.arrivals, usage.messages, usage.order_records), (0, 0, 0, 1));
}

#[test]
fn strict_ones_execute_in_order_under_heavy_loss_in_every_mode() {
    for (mode, seed) in MODES.into_iter().flat_map(|mode| (0..15).map(move |seed| (mode, seed))) {
        let mut pair = Pair::new(0xFF_FFF8, 4).with_staging();
        for id in 0..40 {
            pair.write_to(id, id, 1, strict(mode));
        }
        let mut random = Random::new(seed);
        pair.run_until_idle(|_, _| random.number().is_multiple_of(4));
        let mut done = pair.ids(0);
        done.sort_unstable();
        assert_eq!(done, (0..40).collect::<Vec<u64>>());
        // The payload of deferred packets is placed in the staging memory first, at offsets that
        // are whole packets.
        let order: Vec<u64> = pair.effects.iter().copied().filter(|at| at % 1024 != 0).collect();
        assert_eq!(order, (1..40).collect::<Vec<u64>>(), "{mode:?}, seed {seed}");
    }
}

#[test]
fn without_staging_memory_what_comes_too_early_is_sent_back() {
    let mut pair = Pair::new(0, 1);
    for id in 0..4 {
        pair.write_to(id, id * 64, 64, strict(ServiceMode::Rot));
    }
    let packets = pair.outgoing();
    for at in [3, 2, 1, 0] {
        pair.deliver(1, &packets[at]);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.effects, [0, 64, 128, 192]);
    assert_eq!(pair.nics[1].counters().sent_back, 3);
    assert_eq!(pair.nics[1].counters().deferred, 0);
}

#[test]
fn d17_strict_after_none_is_not_stuck() {
    for mode in MODES {
        let mut pair = Pair::new(0, 2).with_staging();
        let none = OrderRequest { mode, ..OrderRequest::default() };
        pair.write_to(0, 0, 10, none);
        pair.write_to(1, 100, 10, strict(mode));
        pair.write_to(2, 200, 10, none);
        pair.write_to(3, 300, 10, strict(mode));
        pair.run_until_idle(|_, _| false);
        let mut ids = pair.ids(0);
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2, 3], "{mode:?}");
    }
}

#[test]
fn d16_strict_does_not_overtake_a_waiting_strict_one() {
    let mut pair = Pair::new(0, 1);
    pair.write_to(0, 0, 10, relaxed(ServiceMode::Roi));
    pair.write_to(1, 100, 10, strict(ServiceMode::Roi));
    pair.write_to(2, 200, 10, strict(ServiceMode::Roi));
    pair.write_to(3, 300, 10, OrderRequest::default());
    assert_eq!(pair.outgoing().len(), 2, "the relaxed one and the one without order");
    assert_eq!(pair.nics[0].counters().gated, 2);
}

#[test]
fn numbers_survive_their_wrap() {
    for mode in MODES {
        let mut pair = Pair::new(0, 2).with_staging();
        for round in 0..700 {
            for id in 0..100 {
                pair.write_to(round * 100 + id, id, 1, strict(mode));
            }
            pair.run_until_idle(|_, _| false);
            let expected: Vec<u64> = (round * 100..round * 100 + 100).collect();
            assert_eq!(pair.ids(0), expected, "{mode:?}");
            let order: Vec<u64> = pair.effects.drain(..).filter(|at| at % 1024 != 0).collect();
            assert_eq!(order, (1..100).collect::<Vec<u64>>());
        }
    }
}

#[test]
fn a_fence_waits_for_reads_and_atomics_and_for_nothing_else() {
    for mode in MODES {
        let mut pair = Pair::new(0, 1);
        let remote = pair.remote();
        pair.post(0, Work::Read { remote }, 10);
        pair.atomic(1, AtomicOperator::Add, 5, OrderRequest::default());
        pair.write_to(2, 0, 10, OrderRequest::default());
        let fenced = OrderRequest { mode, fence: true, ..OrderRequest::default() };
        pair.write_to(3, 100, 10, fenced);
        pair.post(4, Work::Read { remote }, 10);
        pair.write_to(5, 200, 10, OrderRequest::default());
        assert_eq!(pair.outgoing().len(), 5, "all but the fenced one");
        pair.run_until_idle(|_, _| false);
        let ids = pair.ids(0);
        let place = |id| ids.iter().position(|&other| other == id).unwrap();
        assert!(place(3) > place(0) && place(3) > place(1), "{ids:?}");
    }
}

#[test]
fn completions_in_order_wait_for_all_earlier_ones() {
    let mut pair = Pair::new(0, 1);
    let target = named(1);
    pair.post(0, Work::Send { target }, 10);
    let in_order = OrderRequest { complete_in_order: true, ..OrderRequest::default() };
    pair.write_to(1, 0, 10, in_order);
    pair.write_to(2, 0, 10, OrderRequest::default());
    for _ in 0..300 {
        pair.now = pair.now + Duration::from_us(1);
        for packet in pair.outgoing() {
            pair.deliver(1, &packet);
        }
        let now = pair.now;
        let answers: Vec<Transmit> =
            core::iter::from_fn(|| pair.nics[1].poll_transmit(now)).collect();
        for packet in answers {
            pair.deliver(0, &packet);
        }
        for nic in &mut pair.nics {
            nic.handle_timeout(now);
        }
    }
    assert_eq!(pair.ids(0), [2], "the send has no receive yet, and the write waits for it");
    pair.receive(9, 100);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0), [0, 1]);
}

#[test]
fn receives_in_order_complete_in_posting_order() {
    for seed in 0..20 {
        let mut pair = Pair::new(0, 4);
        let order = OrderRequest { receive_in_order: true, ..OrderRequest::default() };
        let target = named(1);
        for id in 0..30 {
            pair.receive(id, 5_000);
            let length = (id % 4) as u32 * 1500;
            pair.post_in_order(id, Work::SendImmediate { target, immediate: id }, length, order);
        }
        let mut random = Random::new(seed);
        pair.run_until_idle(|_, _| random.number().is_multiple_of(4));
        let got: Vec<u64> = pair.completions(1).iter().filter_map(|c| c.immediate).collect();
        assert_eq!(got, (0..30).collect::<Vec<u64>>(), "seed {seed}");
    }
}

#[test]
fn atomics_execute_exactly_once_and_bring_the_old_value() {
    for seed in 0..20 {
        let mut pair = Pair::new(0xFF_FFF0, 4);
        for id in 0..50 {
            let mode = MODES[id as usize % 3];
            let order = OrderRequest { mode, ..OrderRequest::default() };
            pair.atomic(id, AtomicOperator::Add, 1, order);
        }
        let mut random = Random::new(seed);
        pair.run_until_idle(|_, _| random.number().is_multiple_of(3));
        assert_eq!(pair.word, 50, "seed {seed}");
        let mut olds: Vec<u64> = pair.completions(0).iter().map(|done| done.value).collect();
        olds.sort_unstable();
        assert_eq!(olds, (0..50).collect::<Vec<u64>>(), "seed {seed}");
        assert_eq!(pair.nics[1].counters().atomics_executed, 50);
    }
}

#[test]
fn atomics_that_may_not_are_refused() {
    let mut pair = Pair::new(0, 1);
    let mut remote = pair.remote();
    let swap = |remote| Work::Atomic {
        remote,
        width: 8,
        operator: AtomicOperator::Swap,
        operand: 1,
        compare: 0,
    };
    remote.address += 4;
    pair.post(0, swap(remote), 0);
    remote.address -= 4;
    remote.token_value += 1;
    pair.post(1, swap(remote), 0);
    let request =
        SegmentRequest { address: 0, length: 64, rights: Rights::READ_WRITE, token_value: 5 };
    let plain = pair.nics[1].register(&request).unwrap();
    let remote = RemoteRange { token_id: plain.token_id(), token_value: 5, address: 0 };
    pair.post(2, swap(remote), 0);
    pair.run_until_idle(|_, _| false);
    let mut done = pair.completions(0);
    done.sort_by_key(|completion| completion.id);
    let statuses: Vec<Status> = done.iter().map(|completion| completion.status).collect();
    assert_eq!(statuses, [Status::RemoteMisaligned, Status::RemoteAccess, Status::RemoteRights]);
    assert_eq!((pair.word, pair.effects.len()), (0, 0));
}

#[test]
fn d22_the_acknowledgement_is_fused_in_rol_and_separate_otherwise() {
    for (mode, separate) in MODES.into_iter().zip([8, 8, 0]) {
        let mut pair = Pair::new(0, 1);
        let remote = pair.remote();
        for id in 0..8 {
            let order = OrderRequest { mode, ..OrderRequest::default() };
            pair.post_in_order(id, Work::Write { remote }, 100, order);
        }
        pair.post(8, Work::Read { remote }, 100);
        pair.run_until_idle(|_, _| false);
        assert_eq!(pair.ids(0).len(), 9);
        assert_eq!(pair.nics[1].counters().transaction_acks_sent, separate, "{mode:?}");
    }
}

#[test]
fn operation_without_order_passes_no_gate() {
    let mut pair = Pair::new(0, 2);
    for id in 0..100 {
        pair.write_to(id, id, 1, OrderRequest::default());
        pair.atomic(1000 + id, AtomicOperator::Add, 1, OrderRequest::default());
    }
    pair.run_until_idle(|_, _| false);
    for nic in &pair.nics {
        let counters = nic.counters();
        assert_eq!((counters.gated, counters.gates_passed, counters.deferred), (0, 0, 0));
        assert_eq!(nic.usage().order_records, 0);
    }
}

#[test]
fn d30_unreliable_packets_pass_no_gate_and_are_not_acknowledged() {
    let mut pair = Pair::new(0, 1);
    let order = OrderRequest { mode: ServiceMode::Uno, ..OrderRequest::default() };
    pair.receive(7, 100);
    for id in 0..4 {
        pair.write_to(id, id * 10, 10, order);
    }
    let target = named(1);
    pair.post_in_order(4, Work::SendImmediate { target, immediate: 3 }, 10, order);
    pair.post_in_order(5, Work::Send { target }, 10, order);
    let packets = pair.outgoing();
    assert_eq!(packets.len(), 6);
    assert_eq!(pair.ids(0), [0, 1, 2, 3, 4, 5], "done once they are on the wire");
    for packet in &packets[1..] {
        pair.deliver(1, packet);
    }
    assert_eq!(pair.effects, [10, 20, 30, 0]);
    assert_eq!(pair.nics[1].counters().datagrams_lost, 1, "the second send found no receive");
    let got = pair.completions(1);
    assert_eq!((got.len(), got[0].id, got[0].immediate), (1, 7, Some(3)));
    let now = pair.now;
    assert!(pair.nics[1].poll_transmit(now).is_none(), "the peer is not notified");
    let wrong = OrderRequest { fence: true, ..order };
    let local = LocalRange { segment: pair.segments[0], offset: 0, length: 10 };
    let work = Work::Write { remote: pair.remote() };
    let channel = pair.channels[0];
    let request = WorkRequest { id: 9, channel, work, local, signaled: true, order: wrong };
    let posted = pair.nics[0].post(pair.now, pair.jetties[0], &request);
    assert_eq!(posted, Err(PostError::Unreliable));
}

/// A peer may number READs and atomics that request their receives in order: it is as if the bug
/// was injected there.
#[test]
fn reads_and_atomics_that_request_receive_order_hold_up_no_receives() {
    for bug in [None, Some(InjectedBug::NumberFetches)] {
        let mut pair = Pair::new(0, 1).with_staging();
        pair.nics[0].inject(bug);
        let order = OrderRequest { receive_in_order: true, ..OrderRequest::default() };
        let target = named(1);
        for round in 0..100 {
            let remote = pair.remote();
            pair.post_in_order(3 * round, Work::Read { remote }, 10, order);
            let ordered = OrderRequest { receive_in_order: true, ..strict(ServiceMode::Rot) };
            pair.atomic(3 * round + 1, AtomicOperator::Add, 1, ordered);
            pair.receive(round, 100);
            pair.post_in_order(3 * round + 2, Work::Send { target }, 10, order);
            pair.run_until_idle(|_, _| false);
            assert_eq!(pair.completions(1).len(), 1, "round {round} with {bug:?}");
            assert_eq!(pair.ids(0).len(), 3, "round {round} with {bug:?}");
        }
    }
}

#[test]
fn a_send_that_is_given_up_does_not_hold_up_what_follows() {
    for mode in [ServiceMode::Rot, ServiceMode::Rol] {
        let mut pair =
            Pair::with_profile(0, 1, Profile { not_ready_retries: 1, ..Profile::default() })
                .with_staging();
        let target = named(1);
        let order = OrderRequest { receive_in_order: true, ..relaxed(mode) };
        pair.post_in_order(0, Work::Send { target }, 10, order);
        pair.write_to(1, 64, 10, strict(mode));
        pair.run_until_idle(|_, _| false);
        let mut done = pair.completions(0);
        done.sort_by_key(|completion| completion.id);
        let statuses: Vec<Status> = done.iter().map(|completion| completion.status).collect();
        assert_eq!(statuses, [Status::ReceiverNotReady, Status::Success], "{mode:?}");
        pair.receive(5, 100);
        pair.post_in_order(2, Work::SendImmediate { target, immediate: 1 }, 10, order);
        pair.run_until_idle(|_, _| false);
        assert_eq!(pair.completions(1).len(), 1, "the receive before it was given up");
    }
}

#[test]
fn refused_message_does_not_delay_later_ones() {
    for mode in MODES {
        let mut pair = Pair::new(0, 1).with_staging();
        let mut wrong = pair.remote();
        wrong.token_value = 1;
        pair.post_in_order(0, Work::Write { remote: wrong }, 5_000, relaxed(mode));
        pair.post_in_order(1, Work::Write { remote: wrong }, 10, strict(mode));
        pair.write_to(2, 64, 10, strict(mode));
        let mut random = Random::new(4);
        pair.run_until_idle(|_, _| random.number().is_multiple_of(3));
        let mut done = pair.completions(0);
        done.sort_by_key(|completion| completion.id);
        let statuses: Vec<Status> = done.iter().map(|completion| completion.status).collect();
        let refused = Status::RemoteAccess;
        assert_eq!(statuses, [refused, refused, Status::Success], "{mode:?}");
    }
}

#[test]
fn d9_the_same_jetty_number_of_two_channels_is_ordered_apart() {
    let mut pair = Pair::new(0, 1).with_staging();
    let near = pair.jetties[0];
    let far = pair.jetties[1];
    // Node 1 uses the same Jetty number towards node 0.
    assert_eq!(near, far);
    pair.write_to(0, 0, 10, strict(ServiceMode::Rot));
    let packets = pair.outgoing();
    pair.write_to(1, 64, 10, strict(ServiceMode::Rot));
    for packet in packets.into_iter().chain(pair.outgoing()) {
        pair.deliver(1, &packet);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0), [0, 1]);
}

#[test]
fn a_read_that_is_ordered_is_not_overtaken_while_it_may_be_resent() {
    // The answer is lost: until it has arrived, the strict write must not change what it reads.
    for mode in MODES {
        let mut pair = Pair::new(0, 1).with_staging();
        let remote = pair.remote();
        pair.post_in_order(0, Work::Read { remote }, 100, relaxed(mode));
        pair.write_to(1, 64, 10, strict(mode));
        pair.run_until_idle(lose_first_read_answer());
        assert_eq!(pair.ids(0), [0, 1], "{mode:?}");
    }
}

#[test]
fn a_hostile_order_breaks_nothing() {
    let mut random = Random::new(9);
    let mut pair = Pair::new(0, 1).with_staging();
    pair.write_to(0, 0, 10, strict(ServiceMode::Rot));
    let Transmit { route, packet: Packet::Data(honest), .. } = pair.outgoing()[0] else {
        panic!("a data packet")
    };
    for psn in 0..3000_u32 {
        let mut data = honest;
        data.psn = honest.psn.plus(psn);
        data.jetty = JettyId::new(random.number() as u32 % 5);
        data.order.tag = [Tag::No, Tag::Ro, Tag::So, Tag::Mo][random.number() as usize % 4];
        data.order.mode = MODES[random.number() as usize % 3];
        data.order.in_order = random.number().is_multiple_of(2);
        data.order.sequence = random.number() as u16 % 40;
        data.order.receive_sequence = random.number() as u16 % 40;
        if random.number().is_multiple_of(5) {
            data.operation = Operation::Abandon;
        }
        let payload = if data.operation == Operation::Abandon { 0 } else { 10 };
        let received =
            Received { route, packet: Packet::Data(data), payload, ecn: Ecn::Capable, hops: 0 };
        if let Verdict::Place(placement) = pair.nics[1].handle_packet(pair.now, &received) {
            pair.nics[1].handle_placed(pair.now, placement.token, 0);
        }
        while let Some(execution) = pair.nics[1].poll_execution() {
            if let Execution::Copy { token, .. } = execution {
                pair.nics[1].handle_placed(pair.now, token, 0);
            }
        }
        while let Some(sent) = pair.nics[1].poll_transmit(pair.now) {
            if let Packet::Nak(nak) = sent.packet {
                let void = Packet::Void(fairway_wire::Void {
                    psn: nak.psn,
                    message: nak.message,
                    ack_request: false,
                });
                let received =
                    Received { route, packet: void, payload: 0, ecn: Ecn::Capable, hops: 0 };
                pair.nics[1].handle_packet(pair.now, &received);
            }
        }
    }
    assert!(pair.nics[1].counters().data_received > 1000);
    let (now, channel) = (pair.now, pair.channels[1]);
    pair.nics[1].close_channel(now, channel).unwrap();
    let usage = pair.nics[1].usage();
    assert_eq!((usage.deferred, usage.order_records, usage.arrivals, usage.messages), (0, 0, 0, 0));
    let _ = Refusal::OutOfOrder;
}

#[test]
fn loads_and_stores_take_one_packet_each_way_and_no_sequence_number() {
    let mut pair = Pair::new(0, 1);
    let remote = pair.remote();
    pair.post(0, Work::Load { remote }, 8);
    pair.post(1, Work::Store { remote }, 64);
    pair.run_until_idle(|_, _| false);
    let mut ids = pair.ids(0);
    ids.sort_unstable();
    assert_eq!((ids, pair.sent), (vec![0, 1], 4));
    assert_eq!(pair.nics[0].counters().data_sent, 0);
    assert_eq!((pair.nics[0].usage().send_blocks, pair.nics[1].usage().bypass_answers), (0, 0));
}

#[test]
fn loads_and_stores_are_repeated_until_answered_and_stores_are_done_once() {
    for seed in 0..20 {
        let mut pair = Pair::new(0, 4);
        let remote = pair.remote();
        for id in 0..200 {
            let work = if id % 3 == 0 { Work::Load { remote } } else { Work::Store { remote } };
            pair.post(id, work, 1 + (id % 64) as u32);
        }
        let mut random = Random::new(seed);
        pair.run_until_idle(|_, _| random.number().is_multiple_of(6));
        let mut ids = pair.ids(0);
        ids.sort_unstable();
        assert_eq!(ids, (0..200).collect::<Vec<u64>>(), "seed {seed}");
        assert_eq!(pair.nics[1].counters().stores_done, 133, "seed {seed}");
        assert!(pair.nics[0].counters().bypass_repeated > 0);
    }
}

#[test]
fn a_late_copy_of_a_store_does_not_overwrite_a_newer_one() {
    let mut pair = Pair::new(0, 1);
    let remote = pair.remote();
    pair.post(0, Work::Store { remote }, 8);
    let copy = pair.outgoing()[0];
    pair.deliver(1, &copy);
    pair.run_until_idle(|_, _| false);
    for id in 1..200 {
        pair.post(id, Work::Store { remote }, 8);
        pair.run_until_idle(|_, _| false);
        let before = pair.placed[1];
        pair.deliver(1, &copy);
        assert_eq!(pair.placed[1], before, "the copy changed memory after {id} newer stores");
    }
    // A store that was given up by its initiator is late, too, as soon as a newer one has arrived.
    pair.post(300, Work::Store { remote }, 8);
    let lost = pair.outgoing()[0];
    pair.run_until_idle(|_, transmit| matches!(&transmit.packet, Packet::Bypass(_)));
    assert_eq!(pair.completions(0).last().map(|done| done.status), Some(Status::TimedOut));
    pair.post(301, Work::Store { remote }, 8);
    pair.run_until_idle(|_, _| false);
    let before = pair.placed[1];
    pair.deliver(1, &lost);
    assert_eq!(pair.placed[1], before);
}

#[test]
fn loads_and_stores_are_checked() {
    let mut pair = Pair::new(0, 1);
    let good = pair.remote();
    pair.post(0, Work::Load { remote: RemoteRange { token_value: 1, ..good } }, 8);
    pair.post(1, Work::Store { remote: RemoteRange { address: 0, ..good } }, 8);
    pair.run_until_idle(|_, _| false);
    let done = pair.completions(0);
    assert!(done.iter().all(|completion| completion.status == Status::RemoteAccess));
    assert_eq!((done.len(), pair.placed), (2, [0, 0]));
    let local = LocalRange { segment: pair.segments[0], offset: 0, length: 65 };
    let (work, channel, order) =
        (Work::Load { remote: good }, pair.channels[0], OrderRequest::default());
    let request = WorkRequest { id: 9, channel, work, local, signaled: true, order };
    assert_eq!(pair.nics[0].post(pair.now, pair.jetties[0], &request), Err(PostError::Width));
}
