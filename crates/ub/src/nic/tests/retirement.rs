//! Groups that go on when one of their channels dies.

use super::*;
use crate::api::{DropReason, Event};
use fairway_wire::{Retire, Route, Tag, Tpn};

/// True for the packets of the channel with this index, in both directions.
fn of_channel(index: usize) -> impl Fn(&Transmit) -> bool {
    move |transmit| transmit.channel.index() == index
}

impl Pair {
    fn write_range(&mut self, id: u64, offset: u64, length: u32) {
        let mut remote = self.remote();
        remote.address += offset;
        self.post(id, Work::Write { remote }, length);
    }

    fn member_at(&self, n: usize, place: usize) -> ChannelId {
        self.nics[n].members(self.channels[n]).nth(place).unwrap()
    }

    /// Moves packets, a millisecond each time, until side 0 reports an event. Those for which
    /// `lose` returns true are kept, and returned.
    fn run_until_event(&mut self, lose: impl Fn(&Transmit) -> bool) -> (Vec<Event>, Vec<Transmit>) {
        let mut kept = Vec::new();
        for _ in 0..20_000 {
            self.now = self.now + Duration::from_ms(1);
            for n in 0..2 {
                self.nics[n].handle_timeout(self.now);
                while let Some(transmit) = self.nics[n].poll_transmit(self.now) {
                    match lose(&transmit) {
                        true => kept.push(transmit),
                        false => self.wires[1 - n].push_back(transmit),
                    }
                }
            }
            for n in 0..2 {
                while let Some(transmit) = self.wires[n].pop_front() {
                    self.deliver(n, &transmit);
                }
                self.nics[n].audit();
            }
            let events = self.events(0);
            if !events.is_empty() {
                return (events, kept);
            }
        }
        panic!("nothing was reported");
    }

    /// Delivers a notice by the channel with place `by`, as if the peer of side 1 had sent it.
    fn notify(&mut self, by: usize, channel: Tpn, answer: bool) -> Verdict {
        let route = Route {
            source: self.nics[0].address(),
            destination: self.nics[1].address(),
            source_tpn: self.member_at(0, by).tpn(),
            destination_tpn: self.member_at(1, by).tpn(),
            ..Route::default()
        };
        let packet = Packet::Retire(Retire { channel, answer });
        let received = Received { route, packet, payload: 0, ecn: Ecn::Capable, hops: 0 };
        self.nics[1].handle_packet(self.now, &received)
    }
}

/// WRITEs and READs that were under way on a channel end on the others, whichever channel dies, and
/// late packets of the dead one have no effect.
#[test]
fn writes_and_reads_move_from_a_dead_channel() {
    for dead in 0..3 {
        let mut pair = Pair::with_group_of(3, Profile::default());
        pair.run_until_idle(|_, _| false);
        for id in 0..9 {
            pair.write_range(id, id * 4096, 3000);
        }
        for id in 9..18 {
            let mut remote = pair.remote();
            remote.address += id * 4096;
            pair.post(id, Work::Read { remote }, 3000);
        }
        let (events, late) = pair.run_until_event(of_channel(dead));
        let (channel, retired) = (pair.channels[0], pair.member_at(0, dead));
        assert_eq!(events, [Event::ChannelRetired { channel, retired }]);
        pair.run_until_idle(|_, transmit| of_channel(dead)(transmit));
        let mut done = pair.completions(0);
        done.sort_by_key(|completion| completion.id);
        assert_eq!(done.len(), 18, "channel {dead}");
        assert!(done.iter().all(|completion| completion.status == Status::Success));
        let (channel, retired) = (pair.channels[1], pair.member_at(1, dead));
        assert_eq!(pair.events(1), [Event::ChannelRetired { channel, retired }]);
        assert!(pair.nics[0].counters().messages_moved >= 6);
        let placed = pair.effects.len();
        for transmit in &late {
            let n = usize::from(transmit.route.source == pair.nics[0].address());
            pair.deliver(n, transmit);
        }
        assert_eq!(pair.effects.len(), placed, "a late packet was placed");
        let dropped: u64 =
            pair.nics.iter().map(|nic| nic.counters().dropped(DropReason::Retired)).sum();
        assert_eq!(dropped, late.len() as u64);
        // The group is used on, and closes as a whole.
        pair.write_range(20, 0, 100);
        pair.run_until_idle(|_, transmit| of_channel(dead)(transmit));
        assert_eq!(pair.ids(0), [20]);
        pair.nics[0].close_channel(pair.now, pair.channels[0]).unwrap();
        for _ in 0..400 {
            pair.run_until_idle(|_, _| false);
            pair.now = pair.now + Duration::from_ms(1);
        }
        assert_eq!(pair.events(0), [Event::Closed { channel: pair.channels[0] }]);
        assert_eq!(pair.events(1), [Event::PeerClosed { channel: pair.channels[1] }]);
        for nic in &pair.nics {
            let usage = nic.usage();
            assert_eq!((usage.channels, usage.messages, usage.arrivals), (0, 0, 0));
        }
    }
}

/// A WRITE may be repeated only when the peer has ended its side, so it waits while every notice is
/// lost.
#[test]
fn writes_wait_for_the_peers_side() {
    let mut pair = Pair::with_group_of(2, Profile::default());
    pair.run_until_idle(|_, _| false);
    pair.write_range(0, 0, 3000);
    pair.write_range(1, 4096, 3000);
    let is_lost = |transmit: &Transmit| {
        of_channel(1)(transmit) || matches!(transmit.packet, Packet::Retire(_))
    };
    pair.run_until_event(is_lost);
    pair.run_losing(200_000, is_lost);
    assert_eq!(pair.ids(0), [0]);
    assert!(pair.nics[0].counters().retirement_notices_sent > 3, "notices are repeated");
    pair.run_until_idle(|_, transmit| of_channel(1)(transmit));
    assert_eq!(pair.ids(0), [1]);
}

/// Messages of which nothing was sent move at once, in order and with their numbers.
#[test]
fn what_has_not_begun_moves_at_once() {
    let mut pair = Pair::with_group_of(1, Profile::default());
    // The peer tracks one packet of the other channel.
    pair.join_with(|config| config.remote_window = 1).unwrap();
    pair.write_range(50, 0, 8);
    pair.write_range(51, 8, 8);
    while let Some(transmit) = pair.nics[0].poll_transmit(pair.now) {
        pair.wires[1].extend(Some(transmit).filter(|transmit| !of_channel(1)(transmit)));
    }
    for id in 0..8 {
        pair.receive(100 + id, 64);
        let order = OrderRequest {
            tag: Tag::So,
            receive_in_order: true,
            complete_in_order: true,
            ..OrderRequest::default()
        };
        pair.post_in_order(id, Work::Send { target: named(1) }, 64, order);
    }
    let (events, _) = pair.run_until_event(of_channel(1));
    assert!(matches!(events[..], [Event::ChannelRetired { .. }]), "{events:?}");
    pair.run_until_idle(|_, transmit| of_channel(1)(transmit));
    let mut ids = pair.ids(0);
    ids.retain(|id| *id < 50);
    assert_eq!(ids, (0..8).collect::<Vec<_>>());
    assert_eq!(pair.ids(1), (100..108).collect::<Vec<_>>());
}

/// A SEND that has begun may have been executed: the group ends.
#[test]
fn a_send_that_has_begun_ends_the_group() {
    let mut pair = Pair::with_group_of(2, Profile::default());
    pair.run_until_idle(|_, _| false);
    for id in 0..2 {
        pair.receive(100 + id, 64);
        pair.post(id, Work::Send { target: named(1) }, 64);
    }
    let (events, _) = pair.run_until_event(of_channel(1));
    assert_eq!(events, [Event::PeerDead { channel: pair.channels[0] }]);
    let statuses: Vec<_> = pair.completions(0).iter().map(|done| (done.id, done.status)).collect();
    assert_eq!(statuses, [(0, Status::Success), (1, Status::PeerDead)]);
    assert_eq!(pair.nics[0].usage().channels, 0);
}

/// Payload that is being placed here may still change memory: until it is in place, neither does a
/// READ move whose answer it is, nor does the peer get an answer to its notice.
#[test]
fn placements_end_before_anything_is_repeated() {
    let mut pair = Pair::with_group_of(2, Profile::default());
    pair.run_until_idle(|_, _| false);
    pair.write_range(0, 0, 8);
    pair.write_range(1, 4096, 8);
    let packets = pair.outgoing();
    let on_dead = packets.iter().find(|transmit| of_channel(1)(transmit)).unwrap();
    let received = Received {
        route: on_dead.route,
        packet: on_dead.packet,
        payload: 8,
        ecn: Ecn::Capable,
        hops: 0,
    };
    let Verdict::Place(placement) = pair.nics[1].handle_packet(pair.now, &received) else {
        panic!("a WRITE is placed");
    };
    let dead = pair.member_at(1, 1);
    assert_eq!(pair.notify(0, dead.tpn(), false), Verdict::Done);
    assert!(pair.nics[1].is_retired(dead));
    assert_eq!(pair.nics[1].poll_transmit(pair.now), None, "payload is being placed");
    pair.nics[1].handle_placed(pair.now, placement.token, 0);
    pair.nics[1].handle_timeout(pair.now);
    let answer = pair.nics[1].poll_transmit(pair.now).map(|transmit| transmit.packet);
    let channel = pair.member_at(0, 1).tpn();
    assert_eq!(answer, Some(Packet::Retire(Retire { channel, answer: true })));
}

/// A notice has an effect only if it names another channel of the group by which it comes.
#[test]
fn notices_that_name_no_other_channel_of_the_group_are_dropped() {
    let mut pair = Pair::with_group_of(2, Profile::default());
    pair.run_until_idle(|_, _| false);
    let [first, second] = [0, 1].map(|place| pair.member_at(1, place).tpn());
    let reserved = pair.nics[1].reserve_channel().unwrap().tpn();
    let older = Tpn::new(second.value() ^ 1 << 16);
    let wrong = [(0, first), (1, second), (0, reserved), (0, Tpn::new(77)), (0, older)];
    for (by, channel) in wrong {
        for answer in [false, true] {
            let verdict = pair.notify(by, channel, answer);
            assert_eq!(verdict, Verdict::Drop(DropReason::BadRetire), "{channel:?} by {by}");
        }
    }
    assert_eq!(pair.events(1), []);
    // The peer may end a channel that works, also the first one; copies have no further effect.
    for _ in 0..3 {
        assert_eq!(pair.notify(1, first, false), Verdict::Done);
    }
    let retired = pair.channels[1];
    assert_eq!(pair.events(1), [Event::ChannelRetired { channel: retired, retired }]);
    // No notice that names the last channel can come by another one.
    assert_eq!(pair.notify(0, second, false), Verdict::Drop(DropReason::Retired));
    let answers = pair.outgoing_of(1).len();
    assert_eq!(answers, 1, "answers that have not been sent are one");
    // Late notices find no group.
    let (now, leader) = (pair.now, pair.channels[1]);
    pair.nics[1].close_channel(now, leader).unwrap();
    assert!(matches!(pair.notify_after_the_end(first, second), Verdict::Drop(_)));
}

impl Pair {
    fn outgoing_of(&mut self, n: usize) -> Vec<Transmit> {
        core::iter::from_fn(|| self.nics[n].poll_transmit(self.now)).collect()
    }

    fn notify_after_the_end(&mut self, channel: Tpn, by: Tpn) -> Verdict {
        let route = Route {
            source: self.nics[0].address(),
            destination: self.nics[1].address(),
            source_tpn: self.member_at(0, 1).tpn(),
            destination_tpn: by,
            ..Route::default()
        };
        let packet = Packet::Retire(Retire { channel, answer: false });
        let received = Received { route, packet, payload: 0, ecn: Ecn::Capable, hops: 0 };
        self.nics[1].handle_packet(self.now, &received)
    }
}

/// A peer that did not agree may end no channel.
#[test]
fn notices_are_dropped_unless_agreed() {
    let mut pair = Pair::with_group_of(2, Profile::default());
    pair.without_retirement();
    let dead = pair.member_at(1, 1);
    assert_eq!(pair.notify(0, dead.tpn(), false), Verdict::Drop(DropReason::BadRetire));
    assert!(!pair.nics[1].is_retired(dead));
}

/// A peer that is silent on all channels is dead, once, when the last of them has been silent for
/// long enough.
#[test]
fn a_group_that_is_silent_on_all_channels_ends() {
    let mut pair = Pair::with_group_of(3, Profile::default());
    pair.run_until_idle(|_, _| false);
    pair.write_range(0, 0, 100);
    let begin = pair.now;
    let (events, _) = pair.run_until_event(|_| true);
    assert_eq!(events, [Event::PeerDead { channel: pair.channels[0] }]);
    let profile = Profile::default();
    let most = profile.peer_dead.saturating_add(profile.keep_alive.times(2));
    assert!(pair.now.since(begin) <= most, "{:?}", pair.now.since(begin));
    assert_eq!(pair.nics[0].usage().channels, 0);
}

/// Loads and stores go on by the first channel that is left, but not before the peer has ended its
/// side: until then a copy of an earlier store could be executed after a newer one.
#[test]
fn loads_and_stores_go_on_when_the_peer_has_ended_its_side() {
    let mut pair = Pair::with_group_of(2, Profile::default());
    pair.run_until_idle(|_, _| false);
    let remote = pair.remote();
    pair.post(0, Work::Store { remote }, 8);
    pair.run_until_idle(|_, _| false);
    let is_lost = |transmit: &Transmit| {
        of_channel(0)(transmit) || matches!(transmit.packet, Packet::Retire(_))
    };
    pair.run_until_event(is_lost);
    pair.post(1, Work::Store { remote }, 8);
    pair.run_losing(100_000, is_lost);
    assert_eq!(pair.ids(0), [0]);
    pair.run_until_idle(|_, transmit| of_channel(0)(transmit));
    assert_eq!(pair.ids(0), [1]);
    assert_eq!(pair.nics[1].counters().dropped(DropReason::Duplicate), 0);
}
