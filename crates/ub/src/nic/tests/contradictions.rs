//! A peer that contradicts itself. All tests but the first reproduce findings of fuzzing that
//! corrupted the accounts of the channel, or a list.

use super::*;
use fairway_wire::{Ack, AckFlags, Data, Executed, Nak, Order, Packet, Refusal, Void};

impl Pair {
    fn sent(&mut self, n: usize) -> Vec<Transmit> {
        let now = self.now;
        core::iter::from_fn(|| self.nics[n].poll_transmit(now)).collect()
    }

    /// A forged packet from node 1 to node 0.
    pub(super) fn forged(&self, like: &Transmit, packet: Packet) -> Transmit {
        let mut route = like.route;
        if route.source == self.nics[0].address() {
            core::mem::swap(&mut route.source, &mut route.destination);
            core::mem::swap(&mut route.source_tpn, &mut route.destination_tpn);
        }
        let channel = self.channels[1];
        Transmit { channel, route, packet, gather: LocalRange::default() }
    }

    /// The next genuine acknowledgement of node 1.
    fn true_acknowledgement(&mut self) -> Ack {
        self.now = self.now + Duration::from_ms(1);
        self.nics[1].handle_timeout(self.now);
        let acks = self.sent(1).into_iter().filter_map(|packet| match packet.packet {
            Packet::Ack(ack) => Some(ack),
            _ => None,
        });
        acks.reduce(|_, newer| newer).expect("an acknowledgement")
    }
}

/// A peer that has the channel's key may still name packets that were never sent.
#[test]
fn packets_about_numbers_that_were_not_sent_are_counted_and_change_nothing() {
    let mut pair = Pair::new(0xFF_FFF8, 4);
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, 12 * MTU);
    let packets = pair.sent(0);
    let next = Psn::new(0xFF_FFF8).plus(packets.len() as u32);
    pair.deliver(1, &packets[0]);
    let ack = pair.true_acknowledgement();
    let Packet::Data(first) = packets[0].packet else { panic!("the WRITE leaves first") };
    let usage = pair.nics[0].usage();
    let mut expected = 0;
    for ahead in [0, 1, 4096, 1 << 22, (1 << 23) - 1] {
        let psn = next.plus(ahead);
        let cumulative = Ack { cumulative: psn, flags: AckFlags::none(), ..ack };
        let mut selective = Ack { flags: AckFlags::SELECTIVE, ..ack };
        selective.sack.highest = psn;
        let reason = Refusal::Access;
        let nak = Nak { psn, message: first.message, reason, retry_after_us: 0 };
        for lie in [Packet::Ack(cumulative), Packet::Ack(selective), Packet::Nak(nak)] {
            let forged = pair.forged(&packets[0], lie);
            pair.deliver(0, &forged);
            expected += 1;
            assert_eq!(pair.nics[0].counters().dropped(DropReason::BadAcknowledgement), expected);
        }
    }
    pair.nics[0].audit();
    assert_eq!((pair.completions(0), pair.nics[0].usage()), (Vec::new(), usage));

    // A VOID beyond the window, and one for a number that has arrived.
    let window = pair.nics[1].limits().window_packets;
    let mut void = |psn: Psn| {
        let void = Packet::Void(Void { psn, message: first.message, ack_request: false });
        pair.deliver(1, &Transmit { packet: void, gather: LocalRange::default(), ..packets[0] });
        let counters = pair.nics[1].counters();
        (counters.dropped(DropReason::BeyondWindow), counters.dropped(DropReason::Duplicate))
    };
    assert_eq!(void(first.psn.plus(1 + window)), (1, 0));
    assert_eq!(void(first.psn.plus(1 << 22)), (2, 0));
    assert_eq!(void(first.psn), (2, 1));

    packets[1..].iter().for_each(|packet| pair.deliver(1, packet));
    pair.run_until_idle(|_, _| false);
    let done = pair.completions(0);
    assert_eq!((done.len(), done[0].status), (1, Status::Success));
    assert_eq!(pair.placed[1], 12);
}

#[test]
fn packet_that_is_claimed_and_called_missing_is_not_resent_twice() {
    let mut pair = Pair::new(0, 1);
    let remote = pair.remote();
    pair.post(0, Work::Write { remote }, 12 * MTU);
    let packets = pair.sent(0);
    pair.deliver(1, &packets[3]);
    let mut ack = pair.true_acknowledgement();
    // Nothing is acknowledged, so everything is declared lost by the timer.
    pair.now = pair.now + Duration::from_secs(1);
    pair.nics[0].handle_timeout(pair.now);
    pair.nics[0].audit();
    assert!(pair.nics[0].counters().lost > 0);
    // Packet 0 is reported missing by the cumulative number, and its selective bit says that it has
    // arrived.
    assert_eq!(ack.cumulative.next(), Psn::new(0));
    (ack.sack.base, ack.sack.bitmap) = (Psn::new(0), [1, 0, 0, 0, 0, 0, 0, 0]);
    let forged = pair.forged(&packets[0], Packet::Ack(ack));
    pair.deliver(0, &forged);
    pair.nics[0].audit();
    for _ in 0..4 {
        pair.sent(0);
        pair.nics[0].audit();
        pair.now = pair.now + Duration::from_ms(600);
        pair.nics[0].handle_timeout(pair.now);
    }
}

#[test]
fn refused_packet_that_is_acknowledged_is_no_revoked_loss() {
    let mut pair = Pair::new(0, 1);
    let remote = pair.remote();
    pair.post(0, Work::Write { remote }, 8);
    let packets = pair.sent(0);
    let Packet::Data(data) = packets[0].packet else { panic!("data") };
    pair.deliver(1, &packets[0]);
    let ack = pair.true_acknowledgement();
    let nak = Nak {
        psn: data.psn,
        message: data.message,
        reason: Refusal::ReceiverNotReady,
        retry_after_us: 100,
    };
    let forged = pair.forged(&packets[0], Packet::Nak(nak));
    pair.deliver(0, &forged);
    let forged = pair.forged(&packets[0], Packet::Ack(ack));
    pair.deliver(0, &forged);
    pair.nics[0].audit();
    assert_eq!(pair.nics[0].counters().lost_revoked, 0);
}

#[test]
fn answer_whose_operation_was_refused_meanwhile_ends_nothing() {
    refuse_while_an_answer_is_placed(|nic, now, token| nic.handle_placed(now, token, 0));
    refuse_while_an_answer_is_placed(|nic, now, token| nic.handle_unplaced(now, token));
}

fn refuse_while_an_answer_is_placed(end: fn(&mut UbDevice, Instant, PlacementToken)) {
    let (mut pair, token) = refused_while_placed(Refusal::ReceiverNotReady);
    end(&mut pair.nics[0], pair.now, token);
    pair.nics[0].audit();
    assert_eq!(pair.completions(0), [], "it is requested again");
    pair.now = pair.now + Duration::from_ms(1);
    pair.nics[0].handle_timeout(pair.now);
    let again = pair.sent(0);
    let is_request = |packet: &Transmit| {
        matches!(packet.packet, Packet::Data(Data { operation: Operation::Read { .. }, .. }))
    };
    assert!(again.iter().any(is_request), "{again:?}");
}

#[test]
fn refused_read_ends_when_nothing_of_its_answer_is_being_placed() {
    let (mut pair, token) = refused_while_placed(Refusal::Access);
    assert_eq!(pair.completions(0), [], "its memory is still in use");
    pair.nics[0].handle_placed(pair.now, token, 0);
    pair.nics[0].audit();
    assert_eq!(pair.statuses(), [Status::RemoteAccess]);
}

/// A READ that was refused while its answer, which the token names, is being placed.
fn refused_while_placed(refusal: Refusal) -> (Pair, PlacementToken) {
    let mut pair = Pair::new(0, 1);
    let remote = pair.remote();
    pair.post(1, Work::Read { remote }, 8);
    let request = pair.sent(0).remove(0);
    pair.deliver(1, &request);
    pair.now = pair.now + Duration::from_ms(1);
    pair.nics[1].handle_timeout(pair.now);
    let sent = pair.sent(1);
    let is_answer = |packet: &&Transmit| {
        matches!(packet.packet, Packet::Data(Data { operation: Operation::ReadResponse, .. }))
    };
    let answer = *sent.iter().find(is_answer).expect("an answer");
    let Packet::Data(data) = answer.packet else { panic!("data") };
    let received = |transmit: &Transmit| Received {
        route: transmit.route,
        packet: transmit.packet,
        payload: transmit.gather.length,
        ecn: Ecn::Capable,
        hops: 0,
    };
    let Verdict::Place(placement) = pair.nics[0].handle_packet(pair.now, &received(&answer)) else {
        panic!("an answer to be placed");
    };
    // The request is acknowledged, so the refusal decides what becomes of the READ.
    for packet in sent.iter().filter(|packet| matches!(packet.packet, Packet::Ack(_))) {
        pair.deliver(0, packet);
    }
    let (refusal, others) = (Some(refusal), Executed::NONE);
    let operation = Operation::Done { refusal, retry_after_us: 100, others };
    let psn = data.psn.next();
    let done = Data { psn, last: true, index: 0, order: Order::NONE, operation, ..data };
    let forged = pair.forged(&answer, Packet::Data(done));
    pair.deliver(0, &forged);
    (pair, placement.token)
}

/// A peer may give its Jetties larger numbers than there are here, and refuse an answer as it
/// refuses a message that came too early.
#[test]
fn refused_answer_to_a_jetty_with_a_large_number_is_sent_again() {
    for reason in [Refusal::OutOfOrder, Refusal::ReceiverNotReady] {
        let mut pair = Pair::new(0, 1);
        let token_id = pair.segments[0].token_id();
        let access = fairway_wire::Access { address: 0x1000, length: 8, token_id, token_value: 77 };
        pair.post(0, Work::Write { remote: pair.remote() }, 8);
        let like = pair.sent(0).remove(0);
        pair.deliver(1, &like);
        let ack = pair.true_acknowledgement();
        let Packet::Data(first) = like.packet else { panic!("a WRITE") };
        let read = Data {
            operation: Operation::Read { access },
            jetty: JettyId::new(0xF_FFFF),
            order: Order::NONE,
            ..first
        };
        let forged = pair.forged(&like, Packet::Data(read));
        pair.deliver(0, &forged);
        let is_answer = |transmit: &Transmit| match transmit.packet {
            Packet::Data(data) => Some(data).filter(|data| data.psn != first.psn),
            _ => None,
        };
        let answer = pair.sent(0).iter().find_map(is_answer).expect("an answer");
        let (psn, message) = (answer.psn, answer.message);
        let nak = Nak { psn, message, reason, retry_after_us: 0 };
        let forged = pair.forged(&like, Packet::Nak(nak));
        pair.deliver(0, &forged);
        assert!(pair.sent(0).iter().any(|sent| matches!(sent.packet, Packet::Void(_))));
        let forged = pair.forged(&like, Packet::Ack(Ack { cumulative: psn, ..ack }));
        pair.deliver(0, &forged);
        pair.now = pair.now + Duration::from_ms(1);
        pair.nics[0].handle_timeout(pair.now);
        let again = pair.sent(0).iter().find_map(is_answer).expect("the answer, again");
        assert_eq!(again.operation, Operation::ReadResponse);
        pair.nics[0].audit();
    }
}
