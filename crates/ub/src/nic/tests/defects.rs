//! Defects of the transport in an earlier open implementation of Unified Bus, each as a test. The
//! numbers only distinguish them. Defects of the codec are tested with the codec, those of order by
//! the storm.

use super::*;
use fairway_wire::{AckFlags, Packet};

impl Pair {
    /// All packets that node `n` sends now.
    fn leaving(&mut self, n: usize) -> Vec<Transmit> {
        let now = self.now;
        core::iter::from_fn(|| self.nics[n].poll_transmit(now)).collect()
    }

    /// Twelve packets of node 0, sent and not delivered.
    fn twelve(&mut self) -> Vec<Transmit> {
        let remote = self.remote();
        self.post(0, Work::Write { remote }, 12 * MTU);
        let packets = self.leaving(0);
        assert_eq!(packets.len(), 12);
        packets
    }

    fn acknowledgements(&mut self) -> Vec<(Transmit, fairway_wire::Ack)> {
        self.now = self.now + Duration::from_ms(1);
        self.nics[1].handle_timeout(self.now);
        let packets = self.leaving(1).into_iter();
        let acks = packets.filter_map(|packet| match packet.packet {
            Packet::Ack(ack) => Some((packet, ack)),
            _ => None,
        });
        acks.collect()
    }
}

#[test]
fn d8_d26_marks_of_switches_come_back_to_the_sender() {
    let mut pair = Pair::new(0, 1);
    for (number, packet) in pair.twelve().iter().enumerate() {
        let received = Received {
            route: packet.route,
            packet: packet.packet,
            payload: packet.gather.length,
            ecn: if number < 5 { Ecn::Congested } else { Ecn::Capable },
            hops: 0,
        };
        let Verdict::Place(placement) = pair.nics[1].handle_packet(pair.now, &received) else {
            panic!("a payload to be placed");
        };
        pair.nics[1].handle_placed(pair.now, placement.token, 0);
    }
    let acks = pair.acknowledgements();
    assert_eq!(acks.last().map(|(_, ack)| ack.marks), Some(5), "on the wire");
    for (packet, _) in &acks {
        pair.deliver(0, packet);
    }
    assert_eq!(pair.nics[0].paths(pair.channels[0])[0].marked, 5, "and to its policies");
}

#[test]
fn d10_nothing_is_acknowledged_that_has_not_arrived() {
    let mut pair = Pair::new(0xFF_FFF8, 1);
    let packets = pair.twelve();
    // All packets but the first arrive: nothing may be acknowledged as "everything up to".
    for packet in &packets[1..] {
        pair.deliver(1, packet);
    }
    for (packet, ack) in pair.acknowledgements() {
        assert!(ack.cumulative.distance_from(Psn::new(0xFF_FFF8)) < 0, "{ack:?}");
        pair.deliver(0, &packet);
    }
    assert_eq!(pair.completions(0), [], "it is not done");
    // A refusal acknowledges nothing, either.
    let mut pair = Pair::new(0, 1);
    let packets = pair.twelve();
    pair.nics[1].deregister(pair.segments[1]).unwrap();
    pair.deliver(1, &packets[3]);
    let naks = pair.leaving(1);
    assert!(naks.iter().any(|packet| matches!(packet.packet, Packet::Nak(_))), "{naks:?}");
    for packet in &naks {
        pair.deliver(0, packet);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0)[0].status, Status::RemoteAccess);
}

#[test]
fn d11_what_is_acknowledged_selectively_is_in_place() {
    let mut pair = Pair::new(0, 1);
    let remote = pair.remote();
    pair.post(0, Work::Write { remote }, 200 * MTU);
    let packets = pair.leaving(0);
    let first = packets.len() as u32;
    // Packets far behind the first, which is lost: beyond 8, and beyond 64.
    for packet in &packets[1..] {
        pair.deliver(1, packet);
    }
    assert_eq!(pair.placed[1], first - 1);
    let acks = pair.acknowledgements();
    let selective = |ack: &fairway_wire::Ack| ack.flags.contains(AckFlags::SELECTIVE);
    assert!(acks.iter().any(|(_, ack)| selective(ack)), "{acks:?}");
    for (packet, _) in &acks {
        pair.deliver(0, packet);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0), [0]);
    assert_eq!(pair.placed[1], 200, "each was placed once");
}

#[test]
fn d12_d13_one_input_may_have_many_outputs() {
    let mut pair = Pair::new(0, 1);
    let packets = pair.twelve();
    // Only the last arrives; what is missing is found out at once, and all of it is sent again.
    pair.deliver(1, &packets[11]);
    for (packet, _) in pair.acknowledgements() {
        pair.deliver(0, &packet);
    }
    pair.now = pair.now + Profile::default().timeout_max;
    pair.nics[0].handle_timeout(pair.now);
    let mut again = Vec::new();
    for _ in 0..20 {
        again.extend(pair.leaving(0));
        pair.now = pair.now + Profile::default().timeout_max;
        pair.nics[0].handle_timeout(pair.now);
    }
    let mut resent: Vec<u32> = again
        .iter()
        .filter_map(|packet| match packet.packet {
            Packet::Data(data) => Some(data.index),
            _ => None,
        })
        .collect();
    resent.sort_unstable();
    resent.dedup();
    assert_eq!(resent, (0..11).collect::<Vec<u32>>(), "all that is missing, and not its head");
}

#[test]
fn late_first_copy_proves_nothing_of_the_path_of_the_second() {
    let spec: PolicySpec = "cc=fixed:1M,path=plb,loss=path-order".parse().unwrap();
    let mut pair = Pair::with_policy(0, 4, Profile::default(), 64, &spec);
    // The first path is measured: 11 ms.
    let packets = pair.twelve();
    pair.now = pair.now + Duration::from_ms(10);
    packets.iter().for_each(|packet| pair.deliver(1, packet));
    for (packet, _) in pair.acknowledgements() {
        pair.deliver(0, &packet);
    }
    // Of the next twelve packets the first eight are late, are declared lost, and are resent on
    // another path.
    let late = pair.twelve();
    let first = late[0].route.path;
    pair.now = pair.now + Duration::from_ms(10);
    late[8..].iter().for_each(|packet| pair.deliver(1, packet));
    for (packet, _) in pair.acknowledgements() {
        pair.deliver(0, &packet);
    }
    let again = pair.leaving(0);
    assert_eq!(again.len(), 8);
    assert!(again.iter().all(|packet| packet.route.path != first), "{again:?}");
    // One of them arrives after all, and is acknowledged a millisecond after its second copy was
    // sent.
    pair.deliver(1, &late[7]);
    for (packet, _) in pair.acknowledgements() {
        pair.deliver(0, &packet);
    }
    assert_eq!(pair.leaving(0), [], "the other second copies are under way");
    for packet in &late[..7] {
        pair.deliver(1, packet);
    }
    for (packet, _) in pair.acknowledgements() {
        pair.deliver(0, &packet);
    }
    assert_eq!(pair.statuses(), [Status::Success; 2]);
    assert_eq!(pair.nics[0].counters().data_resent, 8);
}

/// Number of copies of the first packet that are sent in `rounds` milliseconds in which the network
/// holds each of them back, while others arrive; `edit` changes their acknowledgements.
fn copies_of_the_first(rounds: u32, edit: impl Fn(&mut fairway_wire::Ack)) -> u32 {
    let spec: PolicySpec = "cc=fixed:1M,loss=path-order".parse().unwrap();
    let mut pair = Pair::with_policy(0, 1, Profile::default(), 64, &spec);
    let mut copies = 0;
    for _ in 0..rounds {
        let remote = pair.remote();
        pair.post(0, Work::Write { remote }, 8 * MTU);
        let packets = pair.leaving(0);
        pair.now = pair.now + Duration::from_ms(1);
        for packet in packets {
            match packet.packet {
                Packet::Data(data) if data.psn == Psn::new(0) => copies += 1,
                _ => pair.deliver(1, &packet),
            }
        }
        for (mut packet, mut ack) in pair.acknowledgements() {
            edit(&mut ack);
            packet.packet = Packet::Ack(ack);
            pair.deliver(0, &packet);
        }
    }
    copies
}

#[test]
fn each_further_copy_of_a_packet_has_more_time_than_the_one_before() {
    let copies = copies_of_the_first(60, |_| ());
    assert!((4..=8).contains(&copies), "{copies} copies");
}

#[test]
fn a_fourth_copy_waits_as_well_where_no_round_trip_is_known() {
    let twice = 2 * Profile::default().timeout_initial.as_ns() / 1_000_000;
    let forget = |ack: &mut fairway_wire::Ack| {
        ack.flags = AckFlags::from_bits(ack.flags.bits() & !AckFlags::ECHO.bits());
    };
    assert_eq!(copies_of_the_first(twice as u32 / 4, forget), 3);
}

#[test]
fn first_copy_of_a_retransmitted_packet_bounds_the_round_trip() {
    let first = Duration::from_ms(1);
    let profile = Profile { timeout_initial: first, timeout_min: first, ..Profile::default() };
    let spec: PolicySpec = "cc=fixed:1M,loss=path-order".parse().unwrap();
    let mut pair = Pair::with_policy(0, 1, profile, 64, &spec);
    let packets = pair.twelve();
    pair.now = pair.now + first;
    pair.nics[0].handle_timeout(pair.now);
    assert!(!pair.leaving(0).is_empty(), "sent again after the first time-out");
    pair.now = pair.now + Duration::from_ms(5);
    pair.deliver(1, &packets[0]);
    for (packet, ack) in pair.acknowledgements() {
        assert!(!ack.flags.contains(AckFlags::ECHO_RETRY));
        pair.deliver(0, &packet);
    }
    let known = pair.nics[0].round_trip(pair.channels[0]);
    assert!((5..=6).contains(&(known.as_ns() / 1_000_000)), "{known:?}");
}

/// The target keeps the record of a message that it has refused until its slot has another message.
#[test]
fn message_with_the_number_and_slot_of_one_that_was_refused_is_placed() {
    for skipped in [(1 << 24) - 2, (1 << 24) - 1, 1 << 24] {
        let mut pair = Pair::new(0, 1);
        let (good, channel) = (pair.remote(), pair.channels[0]);
        let bad = RemoteRange { token_value: 1, ..good };
        pair.post(0, Work::Write { remote: bad }, 3 * MTU);
        pair.run_until_idle(|_, _| false);
        assert_eq!(pair.completions(0)[0].status, Status::RemoteAccess);
        pair.nics[0].open(channel).unwrap().1.skip_messages(skipped);
        pair.post(1, Work::Write { remote: good }, 3 * MTU);
        pair.run_until_idle(|_, _| false);
        assert_eq!(pair.completions(0)[0].status, Status::Success);
        assert_eq!(pair.placed[1], 3, "{skipped} messages between");
    }
}
