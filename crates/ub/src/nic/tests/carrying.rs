//! Acknowledgements that data packets carry.

use super::*;
use fairway_wire::{AckFlags, CarriedAck, Data};

/// A pair that agreed on it, and what side 1 owes when a WRITE of `length` bytes has arrived there.
fn pair_after_a_write(length: u32) -> Pair {
    let mut pair = Pair::new(0xFF_FFFF, 2);
    pair.agree_on_carried_acks();
    pair.write_by(0, 1, length);
    pair.pass(0);
    pair
}

impl Pair {
    fn agree_on_carried_acks(&mut self) {
        for n in 0..2 {
            let channel = self.channels[n];
            let (_, channel) = self.nics[n].open(channel).expect("the channel is open");
            channel.agree_on_carried_acks();
        }
    }

    /// Posts a WRITE of one side into the memory of the other.
    fn write_by(&mut self, n: usize, id: u64, length: u32) {
        let local = LocalRange { segment: self.segments[n], offset: 0, length };
        let token_id = self.segments[1 - n].token_id();
        let remote = RemoteRange { token_id, token_value: 77, address: 0x1000 };
        let (channel, work) = (self.channels[n], Work::Write { remote });
        let order = OrderRequest::default();
        let request = WorkRequest { id, channel, work, local, signaled: true, order };
        self.nics[n].post(self.now, self.jetties[n], &request).unwrap();
    }

    /// Delivers what one side sends now.
    fn pass(&mut self, n: usize) {
        while let Some(transmit) = self.nics[n].poll_transmit(self.now) {
            self.deliver(1 - n, &transmit);
        }
        self.now = self.now + Duration::from_us(3);
    }

    /// What one side sends now.
    fn sent_by(&mut self, n: usize) -> Vec<Transmit> {
        core::iter::from_fn(|| self.nics[n].poll_transmit(self.now)).collect()
    }
}

fn carried(transmit: &Transmit) -> Option<CarriedAck> {
    let Packet::Data(data) = transmit.packet else { panic!("{transmit:?} is no data") };
    data.carried
}

/// The packet as it arrives, for a test that does not place it, or not at once.
fn received(transmit: &Transmit) -> Received {
    Received {
        route: transmit.route,
        packet: transmit.packet,
        payload: transmit.gather.length,
        ecn: Ecn::Capable,
        hops: 0,
    }
}

/// True if an acknowledgement leaves as a packet of its own, before data that carries none.
fn goes_alone(sent: &[Transmit]) -> bool {
    matches!(sent[0].packet, Packet::Ack(_)) && sent[1..].iter().all(|data| carried(data).is_none())
}

#[test]
fn an_answer_carries_the_acknowledgement() {
    let mut pair = pair_after_a_write(64);
    pair.write_by(1, 2, 64);
    let sent = pair.sent_by(1);
    assert_eq!(sent.len(), 1, "{sent:?}");
    let ack = carried(&sent[0]).expect("an acknowledgement");
    assert_eq!((ack.cumulative(), ack.flags()), (Psn::new(0xFF_FFFF), AckFlags::ECHO));
    assert_eq!(u64::from(ack.echo_delay()), 3_000 / 64);
    let counters = pair.nics[1].counters();
    assert_eq!((counters.acks_carried, counters.acks_sent), (1, 0));
    pair.deliver(0, &sent[0]);
    let done = pair.completions(0);
    assert_eq!(
        done.iter().map(|one| (one.id, one.status)).collect::<Vec<_>>(),
        [(1, Status::Success)]
    );
    assert_eq!(pair.nics[0].round_trip(pair.channels[0]), Duration::from_ns(56));
    // Nothing is to be sent after the answer's acknowledgement, which no packet carries.
    let sent = pair.sent_by(0);
    assert!(matches!(sent[..], [Transmit { packet: Packet::Ack(_), .. }]), "{sent:?}");
    pair.deliver(1, &sent[0]);
    assert_eq!(pair.completions(1).len(), 1);
    assert!(pair.nics.iter().all(|nic| nic.usage().messages == 0));
}

#[test]
fn messages_to_and_fro_need_no_other_packets() {
    let mut pair = pair_after_a_write(64);
    for id in 2..300 {
        let n = id as usize % 2;
        pair.write_by(1 - n, id, 1 + id as u32 % (MTU - 8));
        let sent = pair.sent_by(1 - n);
        assert!(sent.len() == 1 && carried(&sent[0]).is_some(), "{id}: {sent:?}");
        pair.deliver(n, &sent[0]);
        pair.now = pair.now + Duration::from_us(3);
        assert_eq!(pair.completions(n).len(), 1, "{id}");
    }
}

#[test]
fn what_reports_more_goes_alone() {
    // Two messages are to be sent: both leave in one run, in which packets are of equal length.
    let mut pair = pair_after_a_write(64);
    pair.write_by(1, 2, 64);
    pair.write_by(1, 3, 64);
    assert!(goes_alone(&pair.sent_by(1)), "two messages");
    // The answer leaves no room, or has several packets.
    for length in [MTU - 7, MTU, 3 * MTU] {
        let mut pair = pair_after_a_write(64);
        pair.write_by(1, 2, length);
        assert!(goes_alone(&pair.sent_by(1)), "an answer of {length} bytes");
    }
    // The start of a message of several packets is known now.
    let mut pair = pair_after_a_write(3 * MTU);
    pair.write_by(1, 2, 64);
    assert!(goes_alone(&pair.sent_by(1)), "a new start");
    // A packet has arrived twice.
    let mut pair = pair_after_a_write(64);
    pair.pass(1);
    pair.write_by(0, 2, 64);
    let copy = pair.sent_by(0)[0];
    pair.deliver(1, &copy);
    pair.deliver(1, &copy);
    pair.write_by(1, 3, 64);
    assert!(goes_alone(&pair.sent_by(1)), "a duplicate");
    // A packet is missing.
    let mut pair = pair_after_a_write(64);
    pair.pass(1);
    pair.write_by(0, 2, 64);
    pair.write_by(0, 3, 64);
    let sent = pair.sent_by(0);
    pair.deliver(1, &sent[1]);
    pair.write_by(1, 4, 64);
    let answers = pair.sent_by(1);
    assert!(goes_alone(&answers), "a gap: {answers:?}");
}

#[test]
fn marks_and_pressure_go_alone() {
    let mut pair = Pair::new(0, 2);
    pair.agree_on_carried_acks();
    pair.write_by(0, 1, 64);
    let sent = pair.sent_by(0);
    pair.deliver_marked(&sent[0]);
    pair.write_by(1, 2, 64);
    assert!(goes_alone(&pair.sent_by(1)), "a mark");
    let mut pair = pair_after_a_write(64);
    pair.nics[1].set_pressure(true);
    pair.write_by(1, 2, 64);
    assert!(goes_alone(&pair.sent_by(1)), "the receiver asks for less");
}

#[test]
fn nothing_is_carried_while_a_payload_is_being_placed() {
    let mut pair = Pair::new(0, 2);
    pair.agree_on_carried_acks();
    pair.write_by(0, 1, 64);
    pair.write_by(0, 2, 64);
    let sent = pair.sent_by(0);
    pair.deliver(1, &sent[0]);
    let verdict = pair.nics[1].handle_packet(pair.now, &received(&sent[1]));
    let Verdict::Place(placement) = verdict else { panic!("{verdict:?}") };
    pair.now = pair.now + Duration::from_us(200);
    pair.nics[1].handle_timeout(pair.now);
    pair.write_by(1, 3, 64);
    let sent = pair.sent_by(1);
    assert!(goes_alone(&sent), "{sent:?}");
    let Packet::Ack(ack) = sent[0].packet else { panic!("an acknowledgement") };
    assert_eq!(ack.cumulative, Psn::new(0), "the second payload is not in place");
    pair.nics[1].handle_placed(pair.now, placement.token, 0);
    let sent = pair.sent_by(1);
    let Packet::Ack(ack) = sent[0].packet else { panic!("an acknowledgement") };
    assert_eq!(ack.cumulative, Psn::new(1));
}

/// A retransmission carries nothing, and the lost acknowledgement is not missed.
#[test]
fn a_lost_answer_is_sent_again_without_the_acknowledgement() {
    let mut pair = pair_after_a_write(64);
    pair.write_by(1, 2, 64);
    let mut carrying = 0;
    pair.run_until_idle(|_, transmit| {
        let Packet::Data(data) = transmit.packet else { return false };
        assert!(!data.retry || data.carried.is_none(), "{data:?}");
        carrying += u32::from(data.carried.is_some());
        data.carried.is_some()
    });
    assert_eq!(carrying, 1);
    for n in 0..2 {
        assert_eq!(pair.completions(n).len(), 1);
    }
}

/// A packet with an acknowledgement of packets that were not sent has no effect at all, nor has one
/// with any acknowledgement where the two sides have not agreed on it.
#[test]
fn a_packet_with_a_wrong_acknowledgement_is_dropped() {
    let mut pair = pair_after_a_write(64);
    pair.write_by(1, 2, 64);
    let sent = pair.sent_by(1);
    let Packet::Data(data) = sent[0].packet else { panic!("data") };
    let ahead = CarriedAck::new(Psn::new(0), AckFlags::ECHO, 1, 100);
    let forged = Packet::Data(Data { carried: Some(ahead), ..data });
    pair.deliver(0, &Transmit { packet: forged, ..sent[0] });
    assert_eq!(pair.placed[0], 0);
    assert!(pair.completions(0).is_empty());
    assert_eq!(pair.nics[0].counters().dropped(DropReason::BadAcknowledgement), 1);
    pair.deliver(0, &sent[0]);
    assert_eq!((pair.placed[0], pair.completions(0).len()), (1, 1));

    let mut pair = Pair::new(0xFF_FFFF, 2);
    pair.write_by(0, 1, 64);
    pair.pass(0);
    pair.write_by(1, 2, 64);
    let sent = pair.sent_by(1);
    assert!(goes_alone(&sent), "it was not agreed on");
    let Packet::Data(data) = sent[1].packet else { panic!("data") };
    let right = CarriedAck::new(Psn::new(0xFF_FFFF), AckFlags::ECHO, 1, 100);
    let forged = Packet::Data(Data { carried: Some(right), ..data });
    pair.deliver(0, &Transmit { packet: forged, ..sent[1] });
    assert!(pair.placed[0] == 0 && pair.completions(0).is_empty());
}

/// The header of a packet whose payload was cut off acknowledges as well.
#[test]
fn a_trimmed_packet_acknowledges() {
    let mut pair = pair_after_a_write(64);
    pair.write_by(1, 2, 64);
    let sent = pair.sent_by(1);
    let verdict = pair.nics[0].handle_trimmed(pair.now, &received(&sent[0]));
    assert_eq!(verdict, Verdict::Done);
    assert_eq!((pair.placed[0], pair.completions(0).len()), (0, 1));
}
