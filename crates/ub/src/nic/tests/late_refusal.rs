//! Messages that were acknowledged before their turn, and whose memory is missing when it comes.

use super::*;
use crate::api::Event;
use crate::placement::{Execution, PlacementToken};
use fairway_wire::{Nak, Refusal, Tag, Void};

/// Memory from this offset on is missing at node 1. Its staging memory lies in another segment.
const GONE: u64 = 1 << 20;

fn in_order(mode: ServiceMode) -> OrderRequest {
    OrderRequest { mode, tag: Tag::Mo, complete_in_order: true, ..OrderRequest::default() }
}

struct Scene {
    pair: Pair,
}

impl Scene {
    fn new() -> Scene {
        Scene { pair: Pair::new(0xFF_FFF8, 1).with_staging() }
    }

    fn write(&mut self, id: u64, offset: u64, length: u32) {
        let mut remote = self.pair.remote();
        remote.address += offset;
        let order = in_order(ServiceMode::Rol);
        self.pair.post_in_order(id, Work::Write { remote }, length, order);
    }

    /// Hands a packet to a node. At node 1 the memory behind [`GONE`] is missing.
    fn deliver(&mut self, n: usize, transmit: &Transmit) {
        let received = Received {
            route: transmit.route,
            packet: transmit.packet,
            payload: transmit.gather.length,
            ecn: Ecn::Capable,
            hops: 0,
        };
        match self.pair.nics[n].handle_packet(self.pair.now, &received) {
            Verdict::Place(placement) => self.place(n, &placement.target, placement.token),
            Verdict::Own(atomic) => self.place(n, &atomic.target, atomic.token),
            Verdict::Done | Verdict::Drop(_) => {}
        }
        while let Some(execution) = self.pair.nics[n].poll_execution() {
            match execution {
                Execution::Copy { to, token, .. } => self.place(n, &to, token),
                Execution::Atomic(atomic) => self.place(n, &atomic.target, atomic.token),
            }
        }
    }

    fn place(&mut self, n: usize, target: &LocalRange, token: PlacementToken) {
        let now = self.pair.now;
        let is_missing = n == 1 && target.segment == self.pair.segments[1] && target.offset >= GONE;
        match is_missing {
            true => self.pair.nics[n].handle_unplaced(now, token),
            false => self.pair.nics[n].handle_placed(now, token, 0),
        }
    }

    /// Moves packets until all operations have ended; `lose` returns true for packets that are
    /// lost.
    fn run_until_idle(&mut self, mut lose: impl FnMut(&Transmit) -> bool) {
        for _ in 0..10_000 {
            self.pair.now = self.pair.now + Duration::from_us(20);
            let mut moved = false;
            for n in 0..2 {
                self.pair.nics[n].handle_timeout(self.pair.now);
                while let Some(transmit) = self.pair.nics[n].poll_transmit(self.pair.now) {
                    moved = true;
                    if !lose(&transmit) {
                        self.deliver(1 - n, &transmit);
                    }
                }
                self.pair.nics[n].audit();
            }
            if !moved {
                let due = self.pair.nics.iter().filter_map(UbDevice::poll_timeout);
                let next = due.reduce(Instant::min).unwrap_or(self.pair.now);
                self.pair.now = self.pair.now.max(next);
            }
            if self.pair.nics.iter().all(|nic| nic.usage().messages == 0) {
                return;
            }
        }
        panic!("it never settles: {:?}", self.pair.nics.each_ref().map(|nic| *nic.counters()));
    }

    fn statuses(&mut self) -> Vec<(u64, Status)> {
        self.pair.completions(0).iter().map(|done| (done.id, done.status)).collect()
    }

    /// Sends everything that was posted, and delivers it except for the first packet.
    fn arrive_but_first(&mut self) -> Transmit {
        let packets = self.pair.outgoing();
        for packet in &packets[1..] {
            self.deliver(1, packet);
        }
        packets[0]
    }

    /// The acknowledgements of what has arrived.
    fn acknowledge(&mut self) {
        self.pair.now = self.pair.now + Duration::from_ms(1);
        self.pair.nics[1].handle_timeout(self.pair.now);
        while let Some(ack) = self.pair.nics[1].poll_transmit(self.pair.now) {
            self.deliver(0, &ack);
        }
    }
}

const DONE: Status = Status::Success;
const REFUSED: Status = Status::RemoteAccess;

#[test]
fn acknowledged_write_whose_memory_is_missing_at_its_turn_fails() {
    for length in [8, 5 * MTU] {
        let mut scene = Scene::new();
        scene.write(0, 0, 8);
        scene.write(1, GONE, length);
        scene.write(2, 64, 8);
        let first = scene.arrive_but_first();
        scene.acknowledge();
        assert_eq!(scene.statuses(), [], "they are reported in order");
        scene.deliver(1, &first);
        scene.run_until_idle(|_| false);
        assert_eq!(scene.statuses(), [(0, DONE), (1, REFUSED), (2, DONE)], "{length} bytes");
        assert_eq!(scene.pair.nics[1].counters().refused_late, 1);
        scene.write(3, 128, 8);
        scene.run_until_idle(|_| false);
        assert_eq!(scene.statuses(), [(3, DONE)], "the connection goes on");
    }
}

#[test]
fn every_acknowledged_write_whose_memory_is_missing_fails() {
    let mut scene = Scene::new();
    scene.write(0, 0, 8);
    for id in 1..9 {
        let offset = if id % 4 == 0 { 64 * id } else { GONE + 64 * id };
        scene.write(id, offset, 8);
    }
    let first = scene.arrive_but_first();
    scene.acknowledge();
    scene.deliver(1, &first);
    scene.run_until_idle(|_| false);
    let expected: Vec<_> =
        (0..9).map(|id| (id, if id % 4 == 0 { DONE } else { REFUSED })).collect();
    assert_eq!(scene.statuses(), expected);
}

#[test]
fn write_whose_acknowledgement_was_lost_fails_as_well() {
    let mut scene = Scene::new();
    scene.write(0, 0, 8);
    scene.write(1, GONE, 8);
    let first = scene.arrive_but_first();
    scene.deliver(1, &first);
    scene.run_until_idle(|_| false);
    assert_eq!(scene.statuses(), [(0, DONE), (1, REFUSED)]);
}

/// The first two of each kind of packet are lost.
#[test]
fn late_refusal_and_its_confirmation_may_be_lost() {
    let mut scene = Scene::new();
    scene.write(0, 0, 8);
    scene.write(1, GONE, 8);
    scene.write(2, GONE, 8);
    scene.write(3, 64, 8);
    let first = scene.arrive_but_first();
    scene.acknowledge();
    scene.deliver(1, &first);
    let mut lost = [0; 3];
    scene.run_until_idle(|transmit| {
        let kind = match transmit.packet {
            Packet::Nak(_) => 0,
            Packet::Void(_) => 1,
            Packet::Ack(_) => 2,
            _ => return false,
        };
        lost[kind] += 1;
        lost[kind] <= 2
    });
    assert_eq!(scene.statuses(), [(0, DONE), (1, REFUSED), (2, REFUSED), (3, DONE)]);
    assert!(lost[0] > 2 && lost[1] > 2, "{lost:?}");
}

#[test]
fn acknowledged_send_whose_receive_is_missing_fails_at_both_ends() {
    let mut scene = Scene::new();
    scene.write(0, 0, 8);
    let target = named(1);
    let local = LocalRange { segment: scene.pair.segments[1], offset: GONE, length: 100 };
    let jetty = scene.pair.jetties[1];
    scene.pair.nics[1].post_receive(jetty, &ReceiveRequest { id: 7, local }).unwrap();
    scene.pair.receive(8, 100);
    scene.pair.post_in_order(1, Work::Send { target }, 50, in_order(ServiceMode::Rol));
    let first = scene.arrive_but_first();
    scene.acknowledge();
    scene.deliver(1, &first);
    scene.run_until_idle(|_| false);
    assert_eq!(scene.statuses(), [(0, DONE), (1, Status::RemoteOperation)]);
    let received = scene.pair.completions(1);
    assert_eq!((received[0].id, received[0].status), (7, Status::LocalMemory));
}

#[test]
fn acknowledged_write_into_a_segment_that_is_deregistered_fails() {
    let mut scene = Scene::new();
    let request = SegmentRequest { address: 0, length: 4096, rights: Rights::ALL, token_value: 5 };
    let other = scene.pair.nics[1].register(&request).unwrap();
    scene.write(0, 0, 8);
    let remote = RemoteRange { token_id: other.token_id(), token_value: 5, address: 0 };
    scene.pair.post_in_order(1, Work::Write { remote }, 8, in_order(ServiceMode::Rol));
    let first = scene.arrive_but_first();
    scene.acknowledge();
    scene.pair.nics[1].deregister(other).unwrap();
    scene.deliver(1, &first);
    scene.run_until_idle(|_| false);
    assert_eq!(scene.statuses(), [(0, DONE), (1, REFUSED)]);
}

/// The READ's answer is acknowledged, so that the overlapping WRITE and what follows are due.
#[test]
fn without_a_packet_to_refuse_by_the_channel_falls_silent_and_is_to_be_closed() {
    let mut scene = Scene::new();
    let remote = scene.pair.remote();
    scene.pair.post_in_order(0, Work::Read { remote }, 100, in_order(ServiceMode::Rot));
    scene.write(1, 50, 10);
    let packets = scene.pair.outgoing();
    scene.deliver(1, &packets[0]);
    scene.deliver(1, &packets[1]);
    while let Some(packet) = scene.pair.nics[1].poll_transmit(scene.pair.now) {
        scene.deliver(0, &packet);
    }
    assert_eq!(scene.statuses(), [(0, DONE)]);
    // The acknowledgement of the answer is in transit when a WRITE overtakes it.
    let mut acks = Vec::new();
    while let Some(packet) = scene.pair.nics[0].poll_transmit(scene.pair.now) {
        acks.push(packet);
    }
    scene.pair.now = scene.pair.now + Duration::from_ms(1);
    scene.pair.nics[0].handle_timeout(scene.pair.now);
    scene.write(2, GONE, 8);
    while let Some(packet) = scene.pair.nics[0].poll_transmit(scene.pair.now) {
        match packet.packet {
            Packet::Data(_) => scene.deliver(1, &packet),
            _ => acks.push(packet),
        }
    }
    scene.acknowledge();
    for ack in &acks {
        scene.deliver(1, ack);
    }
    let channel = scene.pair.channels[1];
    let events: Vec<_> = core::iter::from_fn(|| scene.pair.nics[1].poll_event()).collect();
    assert_eq!(events, [Event::ExecutionLost { channel }]);
    scene.pair.now = scene.pair.now + Duration::from_ms(1);
    scene.pair.nics[1].handle_timeout(scene.pair.now);
    assert_eq!(scene.pair.nics[1].poll_transmit(scene.pair.now), None);
    scene.pair.nics[1].close_channel(scene.pair.now, channel).unwrap();
    scene.run_until_idle(|_| false);
    let closed = Status::PeerClosed;
    assert_eq!(scene.statuses(), [(1, closed), (2, closed)]);
}

/// A WRITE that was posted while a READ was in progress ends by its answer. If that answer were
/// sent, what follows could be reported.
#[test]
fn message_that_is_answered_is_no_cause_to_refuse_by() {
    let mut scene = Scene::new();
    let remote = scene.pair.remote();
    scene.pair.post_in_order(0, Work::Read { remote }, 100, in_order(ServiceMode::Rot));
    scene.write(1, 500, 10);
    let packets = scene.pair.outgoing();
    scene.deliver(1, &packets[0]);
    scene.acknowledge();
    assert_eq!(scene.statuses(), [(0, DONE)]);
    while let Some(ack) = scene.pair.nics[0].poll_transmit(scene.pair.now) {
        scene.deliver(1, &ack);
    }
    scene.write(2, GONE, 8);
    scene.write(3, 64, 8);
    for packet in scene.pair.outgoing() {
        scene.deliver(1, &packet);
    }
    scene.acknowledge();
    scene.deliver(1, &packets[1]);
    let channel = scene.pair.channels[1];
    let events: Vec<_> = core::iter::from_fn(|| scene.pair.nics[1].poll_event()).collect();
    assert_eq!(events, [Event::ExecutionLost { channel }]);
    assert_eq!(scene.pair.nics[1].poll_transmit(scene.pair.now), None, "not even the answer");
    scene.pair.nics[1].close_channel(scene.pair.now, channel).unwrap();
    scene.run_until_idle(|_| false);
    let closed = Status::PeerClosed;
    assert_eq!(scene.statuses(), [(1, closed), (2, closed), (3, closed)]);
}

/// A peer with a channel may refuse anything at any time.
#[test]
fn late_refusals_of_what_was_never_sent_only_cost_packets() {
    let mut scene = Scene::new();
    for id in 0..8 {
        scene.write(id, 64 * id, 3 * MTU);
    }
    let packets = scene.pair.outgoing();
    let Packet::Data(first) = packets[0].packet else { panic!("data") };
    for ahead in 0..200 {
        let nak = Nak {
            psn: first.psn.plus(ahead % 24),
            message: Msn::new(first.message.value().wrapping_add(100 + ahead)),
            reason: [Refusal::Access, Refusal::Operation, Refusal::Length][ahead as usize % 3],
            retry_after_us: 0,
        };
        let forged = scene.pair.forged(&packets[0], Packet::Nak(nak));
        scene.deliver(0, &forged);
        scene.pair.nics[0].audit();
    }
    for packet in &packets {
        scene.deliver(1, packet);
    }
    scene.run_until_idle(|_| false);
    assert_eq!(scene.statuses(), (0..8).map(|id| (id, DONE)).collect::<Vec<_>>());
}

/// A message that is being sent is refused with a packet of one that was sent before it.
#[test]
fn late_refusal_of_a_message_that_has_only_begun_ends_it() {
    let mut scene = Scene::new();
    scene.write(0, 0, 8);
    scene.write(1, 64, 20 * MTU);
    let now = scene.pair.now;
    let packets = [(); 6].map(|()| scene.pair.nics[0].poll_transmit(now).unwrap());
    let [Packet::Data(first), Packet::Data(begun)] = [packets[0].packet, packets[1].packet] else {
        panic!("data");
    };
    for packet in &packets[1..] {
        scene.deliver(1, packet);
    }
    scene.acknowledge();
    let (psn, message, reason) = (first.psn, begun.message, Refusal::Access);
    let nak = Packet::Nak(Nak { psn, message, reason, retry_after_us: 0 });
    let forged = scene.pair.forged(&packets[0], nak);
    scene.deliver(0, &forged);
    scene.pair.nics[0].audit();
    scene.deliver(1, &packets[0]);
    scene.run_until_idle(|_| false);
    assert_eq!(scene.statuses(), [(0, DONE), (1, REFUSED)]);
}

#[test]
fn void_that_names_another_message_confirms_nothing() {
    let mut scene = Scene::new();
    scene.write(0, 0, 8);
    scene.write(1, GONE, 8);
    let first = scene.arrive_but_first();
    scene.acknowledge();
    scene.deliver(1, &first);
    let Packet::Data(data) = first.packet else { panic!("data") };
    let void = Void { psn: data.psn, message: data.message, ack_request: true };
    let forged = Packet::Void(void);
    scene.deliver(1, &Transmit { packet: forged, gather: LocalRange::default(), ..first });
    let now = scene.pair.now;
    while let Some(packet) = scene.pair.nics[1].poll_transmit(now) {
        if let Packet::Ack(ack) = packet.packet {
            assert!(ack.cumulative.distance_from(data.psn) < 0, "{ack:?}");
        }
    }
    scene.run_until_idle(|_| false);
    assert_eq!(scene.statuses(), [(0, DONE), (1, REFUSED)]);
}
