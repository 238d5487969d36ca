//! TP channel groups: several channels between two NICs, and one transaction layer.

use super::*;
use crate::api::Event;
use fairway_wire::{AtomicOperator, Tag};

const FIRST: u32 = 0xFF_FFFE;

impl Pair {
    /// Two NICs with a group of this many channels, which take operations in turn.
    fn with_group(channels: u32) -> Pair {
        Pair::with_group_of(channels, Profile::default())
    }

    pub(super) fn with_group_of(channels: u32, profile: Profile) -> Pair {
        let profile = Profile { group_slack: 0, ..profile };
        let mut pair = Pair::with_profile(FIRST, 1, profile).with_staging();
        for _ in 1..channels {
            pair.join().unwrap();
        }
        pair
    }

    /// Adds one more channel to the group, on both sides.
    pub(super) fn join(&mut self) -> Result<(), SetupError> {
        self.join_with(|_| {})
    }

    /// The same, with changes to the configurations.
    pub(super) fn join_with(
        &mut self,
        change: impl Fn(&mut ChannelConfig),
    ) -> Result<(), SetupError> {
        let ids = [0, 1].map(|n: usize| self.nics[n].reserve_channel().unwrap());
        for n in 0..2 {
            let mut config = self.member(n, ids[1 - n]);
            change(&mut config);
            self.nics[n].open_channel(self.now, ids[n], config)?;
        }
        Ok(())
    }

    fn member(&self, n: usize, theirs: ChannelId) -> ChannelConfig {
        ChannelConfig {
            leader: Some(self.channels[n]),
            engine: 0,
            remote: self.nics[1 - n].address(),
            remote_tpn: theirs.tpn(),
            first_psn: Psn::new(FIRST),
            remote_first_psn: Psn::new(FIRST),
            first_message: Msn::new(0),
            unreliable: true,
            bypass: true,
            parts: true,
            retires: true,
            carried_acks: false,
            mtu: MTU,
            paths: 1,
            remote_window: self.nics[0].limits().receive_window(),
            remote_message_slots: 64,
            remote_read_slots: 64,
            policy: PolicySpec::default().build(MTU),
        }
    }

    fn write_at(&mut self, id: u64, offset: u64, tag: Tag) {
        let mut remote = self.remote();
        remote.address += offset;
        let order = OrderRequest { mode: ServiceMode::Rot, tag, ..OrderRequest::default() };
        self.post_in_order(id, Work::Write { remote }, 8, order);
    }

    /// Moves no packets for a while.
    pub(super) fn run_losing_all(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now.is_before(end) {
            self.now = self.now + Duration::from_ms(1);
            self.nics[0].handle_timeout(self.now);
            while self.nics[0].poll_transmit(self.now).is_some() {}
        }
    }

    /// Acts as if the first channel's peer took no parts.
    pub(super) fn without_parts(&mut self) {
        for (nic, channel) in self.nics.iter_mut().zip(self.channels) {
            let (_, channel) = nic.open(channel).unwrap();
            channel.may_send_parts = false;
        }
    }

    /// Acts as if the sides had not agreed that the group goes on without a channel.
    pub(super) fn without_retirement(&mut self) {
        for n in 0..2 {
            let members: Vec<_> = self.nics[n].members(self.channels[n]).collect();
            for member in members {
                self.nics[n].open(member).unwrap().1.keep_indispensable();
            }
        }
    }

    pub(super) fn events(&mut self, n: usize) -> Vec<Event> {
        core::iter::from_fn(|| self.nics[n].poll_event()).collect()
    }
}

#[test]
fn d24_every_channel_of_a_group_has_numbers_of_its_own() {
    let mut pair = Pair::with_group(3);
    for id in 0..6 {
        pair.write_at(id, id * 8, Tag::No);
    }
    let packets = pair.outgoing();
    let data = packets.iter().filter_map(|transmit| match transmit.packet {
        Packet::Data(data) => Some((transmit.route, data.psn)),
        _ => None,
    });
    let data: Vec<_> = data.collect();
    assert_eq!(data.len(), 6);
    for member in 0..3 {
        let own = data.iter().filter(|(route, _)| route.source_tpn.value() & 0xFFFF == member);
        let psns: Vec<_> = own.clone().map(|(_, psn)| *psn).collect();
        assert_eq!(psns, [Psn::new(FIRST), Psn::new(FIRST + 1)], "channel {member}");
        let mut targets = own.map(|(route, _)| route.destination_tpn);
        let target = targets.next().unwrap();
        assert!(targets.all(|other| other == target), "a channel has one other end");
    }
    for transmit in &packets {
        pair.deliver(1, transmit);
    }
    pair.run_until_idle(|_, _| false);
    let done = pair.completions(0);
    assert_eq!(done.len(), 6);
    // Whichever channel carried it, an operation belongs to the connection.
    assert!(done.iter().all(|completion| completion.channel == pair.channels[0]));
}

#[test]
fn ordered_operation_waits_for_an_earlier_one_of_another_channel() {
    let mut pair = Pair::with_group(2);
    pair.write_at(0, 0, Tag::Ro);
    pair.write_at(1, 8, Tag::So);
    let packets = pair.outgoing();
    assert_ne!(packets[0].channel, packets[1].channel);
    pair.deliver(1, &packets[1]);
    assert_eq!(pair.nics[1].counters().deferred, 1);
    pair.deliver(1, &packets[0]);
    // The second WRITE is set aside, and then executed after the first.
    assert_eq!(pair.effects[1..], [0, 8]);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0), [0, 1]);
    assert_eq!(pair.nics[1].usage().order_records, 1, "one tracker for the group");
}

#[test]
fn atomics_of_a_strict_jetty_come_one_after_the_other_under_loss() {
    for seed in 0..10 {
        let mut pair = Pair::with_group(3);
        for id in 0..60 {
            let remote = pair.remote();
            let operator = AtomicOperator::Add;
            let work = Work::Atomic { remote, width: 8, operator, operand: 1, compare: 0 };
            let mode = [ServiceMode::Roi, ServiceMode::Rot, ServiceMode::Rol][seed as usize % 3];
            let order = OrderRequest { mode, tag: Tag::So, ..OrderRequest::default() };
            pair.post_in_order(id, work, 0, order);
        }
        let mut random = Random::new(seed);
        pair.run_until_idle(|_, _| random.number().is_multiple_of(5));
        let mut done = pair.completions(0);
        done.sort_by_key(|completion| completion.id);
        let olds: Vec<u64> = done.iter().map(|completion| completion.value).collect();
        assert_eq!(olds, (0..60).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn a_group_closes_as_one() {
    let mut pair = Pair::with_group(3);
    for id in 0..6 {
        pair.write_at(id, 0, Tag::Ro);
    }
    let (now, leader) = (pair.now, pair.channels[0]);
    pair.nics[0].close_channel(now, leader).unwrap();
    assert_eq!(pair.nics[0].close_channel(now, leader), Err(SetupError::Missing));
    let flushed = pair.completions(0);
    assert_eq!(flushed.len(), 6);
    assert!(flushed.iter().all(|completion| completion.status == Status::Flushed));
    for _ in 0..400 {
        pair.run_until_idle(|_, _| false);
        pair.now = pair.now + Duration::from_ms(1);
    }
    assert_eq!(pair.events(0), [Event::Closed { channel: leader }]);
    assert_eq!(pair.events(1), [Event::PeerClosed { channel: pair.channels[1] }]);
    // The Jetty's records of order stay; those of the group are freed.
    for (nic, records) in pair.nics.iter().zip([1, 0]) {
        let usage = nic.usage();
        assert_eq!((usage.channels, usage.order_records, usage.messages), (0, records, 0));
    }
    // All channel numbers can be used again.
    for _ in 0..2 * pair.nics[0].limits().channels {
        let id = pair.nics[0].reserve_channel().unwrap();
        pair.nics[0].release_channel(id);
    }
}

#[test]
fn a_group_dies_as_one_unless_agreed() {
    let mut pair = Pair::with_group(2);
    pair.without_retirement();
    let lost = |transmit: &Transmit| transmit.channel.index() == 1;
    pair.run_until_idle(|_, _| false);
    for id in 0..4 {
        pair.write_at(id, 0, Tag::No);
    }
    let limit = pair.now + Duration::from_secs(10);
    let mut events = Vec::new();
    while events.is_empty() {
        pair.now = pair.now + Duration::from_ms(1);
        assert!(pair.now.is_before(limit), "the failure was not detected");
        for n in 0..2 {
            pair.nics[n].handle_timeout(pair.now);
            while let Some(transmit) = pair.nics[n].poll_transmit(pair.now) {
                if !lost(&transmit) {
                    pair.wires[1 - n].push_back(transmit);
                }
            }
        }
        for n in 0..2 {
            while let Some(transmit) = pair.wires[n].pop_front() {
                pair.deliver(n, &transmit);
            }
        }
        events = pair.events(0);
    }
    assert_eq!(events, [Event::PeerDead { channel: pair.channels[0] }]);
    let done = pair.completions(0);
    assert_eq!(done.len(), 4);
    let dead = done.iter().filter(|completion| completion.status == Status::PeerDead).count();
    assert_eq!(dead, 2, "those by the channel without a peer");
    assert_eq!(pair.nics[0].usage().channels, 0);
}

#[test]
fn no_peer_is_called_dead_while_ends_are_held() {
    let mut pair = Pair::with_group(2);
    pair.nics[0].suspend_teardown(true);
    for _ in 0..8_000 {
        pair.now = pair.now + Duration::from_ms(1);
        pair.nics[0].handle_timeout(pair.now);
        while pair.nics[0].poll_transmit(pair.now).is_some() {}
    }
    assert_eq!(pair.events(0), []);
    assert!(pair.nics[0].suspend_teardown(false), "one would have been");
    pair.now = pair.now + Duration::from_ms(1);
    pair.nics[0].handle_timeout(pair.now);
    assert_eq!(pair.events(0), [Event::PeerDead { channel: pair.channels[0] }]);
}

#[test]
fn groups_take_only_what_fits() {
    let mut pair = Pair::with_group(2);
    let follower = pair.nics[0].members(pair.channels[0]).nth(1).unwrap();
    let local = LocalRange { segment: pair.segments[0], offset: 0, length: 8 };
    let (work, order) = (Work::Write { remote: pair.remote() }, OrderRequest::default());
    let request = WorkRequest { id: 0, channel: follower, work, local, signaled: true, order };
    let posted = pair.nics[0].post(pair.now, pair.jetties[0], &request);
    assert_eq!(posted, Err(PostError::NoChannel), "operations name the first channel");
    assert_eq!(pair.nics[0].close_channel(pair.now, follower), Err(SetupError::Missing));
    let id = pair.nics[0].reserve_channel().unwrap();
    let wrong = [
        ChannelConfig { leader: Some(follower), ..pair.member(0, pair.channels[1]) },
        ChannelConfig { leader: Some(id), mtu: 0, ..pair.member(0, pair.channels[1]) },
        ChannelConfig { mtu: MTU / 2, ..pair.member(0, pair.channels[1]) },
        ChannelConfig { remote: Cna::new(77), ..pair.member(0, pair.channels[1]) },
        ChannelConfig { engine: 1, ..pair.member(0, pair.channels[1]) },
    ];
    for config in wrong {
        let opened = pair.nics[0].open_channel(pair.now, id, config);
        assert!(matches!(opened, Err(SetupError::Parameter(_))), "{opened:?}");
    }
    pair.nics[0].release_channel(id);
    assert_eq!(pair.nics[0].usage().channels, 2);
}
