//! Channels that the state machines of set-up have opened carry operations.

use super::*;
use crate::setup::{
    Attempt, Established, Identity, Listener, Members, OpenRequest, Outcome, Reaction,
};
use core::net::SocketAddr;
use fairway_wire::{BYPASS, GROUP_MAX, Joins, KEY_LEN, PADDED_HELLOS, Parameters, Ports, Tpn};

const CLIENT: usize = 0;
const SERVER: usize = 1;
const CHANNELS: u16 = 3;

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, node as u8], 4810))
}

fn identity(node: usize, limits: &Limits) -> Identity {
    let limits = Parameters {
        mtu_bytes: MTU as u16 + 8 * node as u16,
        paths: 4,
        window_packets: limits.receive_window() as u16,
        message_slots: 64,
        read_slots: limits.read_slots as u16,
        keep_alive_ms: 0,
        channels: CHANNELS,
        capabilities: PADDED_HELLOS | BYPASS,
    };
    let cna = Cna::new(node as u32 + 1);
    let ports = vec![Ports::new(&[4810]).unwrap(); CHANNELS as usize];
    Identity { cna, setup_cna: Cna::new(0x10_0000 + node as u32), ports, limits }
}

struct Hosts {
    now: Instant,
    nics: [UbDevice; 2],
    identities: [Identity; 2],
    listener: Listener,
}

impl Hosts {
    /// Sets up a channel, and opens both ends of it.
    fn set_up(&mut self, joins: Option<Joins>) -> ([ChannelId; 2], [Established; 2]) {
        let channels = [CLIENT, SERVER].map(|node| self.nics[node].reserve_channel().unwrap());
        let request = OpenRequest {
            server: address(SERVER),
            tpn: channels[CLIENT].tpn(),
            first_psn: Psn::new(0xFF_FFF0),
            nonce: 5 << 20 | u64::from(channels[CLIENT].tpn().value()),
            joins,
            mtu_bytes: u16::MAX,
            deadline: self.now + Duration::from_secs(1),
            key: [1; KEY_LEN],
        };
        let mut attempt = Attempt::new(self.now, &self.identities[CLIENT], request);
        let mut far = None;
        for _ in 0..2 {
            let request = attempt.poll_transmit(self.now)[0];
            let from = address(CLIENT);
            let answer =
                match self.listener.handle_message(self.now, from, u16::MAX, &request.setup) {
                    Reaction::Ignore => panic!("no answer to {request:?}"),
                    Reaction::Answer(answer) => answer,
                    Reaction::Open(opening) => {
                        let end = (channels[SERVER].tpn(), Psn::new(7));
                        far = Some(opening.established(end.1));
                        self.listener.opened(self.now, &opening, end, [2; KEY_LEN])
                    }
                };
            attempt.handle_message(self.now, address(SERVER), &answer);
        }
        let Some(Outcome::Open { server, accept }) = attempt.outcome() else {
            panic!("not open: {attempt:?}");
        };
        (channels, [attempt.established(server, &accept), far.expect("the server has opened it")])
    }

    /// Opens the two ends of a channel, of which the first of the group is `leader`.
    fn open(&mut self, channels: [ChannelId; 2], ends: &[Established; 2], leader: &Leader) {
        for node in [CLIENT, SERVER] {
            let policy = "cc=swift".parse::<PolicySpec>().unwrap().build(MTU);
            let leader = leader.map(|leader| leader[node]);
            let config = ChannelConfig { leader, ..ends[node].config(policy) };
            assert_eq!((config.mtu, config.paths), (MTU, 4));
            assert_eq!((config.unreliable, config.bypass), (false, true), "what both offer");
            self.nics[node].open_channel(self.now, channels[node], config).unwrap();
        }
    }
}

type Leader = Option<[ChannelId; 2]>;

#[test]
fn group_that_was_set_up_carries_operations() {
    let limits = Limits { channels: 4, jetties: 8, read_slots: 64, ..Limits::default() };
    let nics =
        [1, 2].map(|n| UbDevice::new(Cna::new(n), &limits, &Profile::default(), u64::from(n)));
    let identities = [CLIENT, SERVER].map(|node| identity(node, nics[node].limits()));
    let listener = Listener::new(identities[SERVER].clone(), [3; 32]);
    let now = Instant::from_ps(u64::MAX - 1_000_000);
    let mut hosts = Hosts { now, nics, identities, listener };
    let (first, ends) = hosts.set_up(None);
    hosts.open(first, &ends, &None);
    let mut members = ends.map(|end| Members::new(&end.agreed));
    let leader = ends[SERVER].endpoint.tpn;
    for number in members[CLIENT].missing().collect::<Vec<_>>() {
        let joins = Joins { leader, number };
        let (channels, ends) = hosts.set_up(Some(joins));
        assert!(members[SERVER].admits(joins, &ends[SERVER].agreed));
        hosts.open(channels, &ends, &Some(first));
        members.iter_mut().for_each(|members| members.join(number));
    }
    assert!(members.iter().all(|members| members.is_complete()));
    let mut pair = Pair::connected(hosts.nics, first, now);
    let remote = pair.remote();
    for id in 0..8 {
        pair.post(id, Work::Write { remote }, 200_000);
    }
    let mut by_channel = [0; GROUP_MAX as usize];
    pair.run_until_idle(|_, transmit| {
        by_channel[transmit.channel.index()] += 1;
        false
    });
    let done = pair.completions(0);
    assert_eq!(done.len(), 8);
    assert!(done.iter().all(|one| one.status == Status::Success), "{done:?}");
    let used = by_channel.iter().filter(|packets| **packets > 100).count();
    assert_eq!(used, usize::from(CHANNELS), "channels that carry packets: {by_channel:?}");
}

#[test]
fn each_number_of_a_group_joins_once() {
    let limits = Limits { read_slots: 64, ..Limits::default() };
    let agreed = identity(SERVER, &limits).limits;
    let mut members = Members::new(&agreed);
    let joins = |number| Joins { leader: Tpn::new(1), number };
    assert_eq!(members.missing().collect::<Vec<_>>(), [1, 2]);
    for refused in [0, 3, 15, 16, 255] {
        assert!(!members.admits(joins(refused), &agreed), "{refused}");
        members.join(refused);
    }
    let fewer_paths = Parameters { paths: 3, ..agreed };
    assert!(!members.admits(joins(1), &fewer_paths));
    assert!(members.admits(joins(1), &agreed));
    members.join(1);
    assert!(!members.admits(joins(1), &agreed), "it is open");
    assert!(!members.is_complete());
    members.join(2);
    assert!(members.is_complete());
    assert!(Members::new(&Parameters { channels: 1, ..agreed }).is_complete());
}

#[test]
fn channel_that_lingers_is_freed_when_one_is_needed() {
    let mut pair = Pair::new(0, 2);
    let channel = pair.channels[1];
    assert!(!pair.nics[0].end_lingering(), "it is open");
    pair.nics[1].close_channel(pair.now, channel).unwrap();
    let close = pair.nics[1].poll_transmit(pair.now).unwrap();
    pair.deliver(0, &close);
    assert!(!pair.nics[0].end_lingering(), "it has not answered");
    let answer = pair.nics[0].poll_transmit(pair.now).unwrap();
    let before = pair.nics[0].usage().channels;
    assert!(pair.nics[0].end_lingering());
    assert_eq!(pair.nics[0].usage().channels, before - 1);
    assert!(!pair.nics[0].end_lingering());
    // The peer repeats its close, or gets the answer, and ends.
    pair.nics[1].handle_timeout(pair.now + Duration::from_ms(25));
    let repeated = pair.nics[1].poll_transmit(pair.now + Duration::from_ms(25)).unwrap();
    pair.deliver(0, &repeated);
    pair.deliver(1, &answer);
    assert_eq!(pair.nics[0].poll_transmit(pair.now), None);
    assert_eq!(pair.nics[1].poll_event(), Some(Event::Closed { channel }));
}
