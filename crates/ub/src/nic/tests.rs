//! Two NICs, a virtual clock, no bytes: behaviour of the protocol when nothing, or one thing, goes
//! wrong.

use super::*;
use crate::api::{
    ChannelConfig, CompletionKind, JettyConfig, JettyState, LocalRange, OrderRequest, PostError,
    ReceiveRequest, RemoteRange, Rights, Status, Work, WorkRequest,
};
use crate::control::CongestionProcessor;
use crate::placement::AtomicExecution;
use crate::policy::PolicySpec;
use alloc::vec;
use fairway_wire::{Duration, Ecn, JettyId, Msn, Operation, Psn, ServiceMode, Target};

mod carrying;
mod channel_groups;
mod controllers;
mod dividing;
mod late_refusal;
mod mailbox;
mod memory_order;
mod missing;
mod pacing;
mod probing;
mod resting;
mod retirement;
mod set_up;
mod signals;
mod tracing;
mod transactions;
mod visiting;

const MTU: u32 = 1024;

/// For [`Pair::run_until_idle`]: the first packet of an answer to a READ is lost.
fn lose_first_read_answer() -> impl FnMut(u32, &Transmit) -> bool {
    let mut lost = false;
    move |_, transmit| {
        let is_answer = matches!(&transmit.packet, Packet::Data(data)
            if data.operation == Operation::ReadResponse);
        is_answer && !std::mem::replace(&mut lost, true)
    }
}

fn named(number: u32) -> Target {
    Target { jetty: JettyId::new(number), ..Target::default() }
}

struct Pair {
    now: Instant,
    nics: [UbDevice; 2],
    channels: [ChannelId; 2],
    jetties: [JettyId; 2],
    queues: [CompletionQueueId; 2],
    segments: [SegmentId; 2],
    /// Packets in transit to each side.
    wires: [VecDeque<Transmit>; 2],
    sent: u32,
    /// Number of payloads that each side had to place.
    placed: [u32; 2],
    /// Offsets of changes to memory, in order.
    effects: Vec<u64>,
    /// The word that all atomics change.
    word: u64,
    /// Congestion controls that run apart from the data path, at random times.
    processors: Vec<CongestionProcessor>,
    turns: Random,
}

impl Pair {
    fn new(first_psn: u32, paths: u32) -> Pair {
        Pair::with_profile(first_psn, paths, Profile::default())
    }

    fn with_profile(first_psn: u32, paths: u32, profile: Profile) -> Pair {
        Pair::with_read_slots(first_psn, paths, profile, 64)
    }

    fn with_read_slots(first_psn: u32, paths: u32, profile: Profile, read_slots: u32) -> Pair {
        // Swift's window takes many packets from the start, and it does not pace them.
        let swift = "cc=swift".parse().unwrap();
        Pair::with_policy(first_psn, paths, profile, read_slots, &swift)
    }

    fn with_policy(
        first_psn: u32,
        paths: u32,
        profile: Profile,
        read_slots: u32,
        policy: &PolicySpec,
    ) -> Pair {
        let limits = Limits { channels: 4, jetties: 8, read_slots, ..Limits::default() };
        let nics = [1, 2].map(|n| UbDevice::new(Cna::new(n), &limits, &profile, u64::from(n)));
        Pair::between(nics, first_psn, paths, policy)
    }

    /// `prepare` is called with both NICs before they are connected.
    fn with_homes(paths: u32, policy: &PolicySpec, prepare: impl FnMut(&mut UbDevice)) -> Pair {
        let limits = Limits { channels: 4, jetties: 8, read_slots: 64, ..Limits::default() };
        let new = |n| UbDevice::new(Cna::new(n), &limits, &Profile::default(), u64::from(n));
        let mut nics = [1, 2].map(new);
        nics.iter_mut().for_each(prepare);
        Pair::between(nics, 0xFF_FF00, paths, policy)
    }

    fn between(mut nics: [UbDevice; 2], first_psn: u32, paths: u32, policy: &PolicySpec) -> Pair {
        let limits = *nics[0].limits();
        let now = Instant::from_ps(u64::MAX - 1_000_000);
        let channels = [0, 1].map(|n: usize| nics[n].reserve_channel().unwrap());
        for n in 0..2 {
            let config = ChannelConfig {
                leader: None,
                engine: 0,
                remote: Cna::new(2 - n as u32),
                remote_tpn: channels[1 - n].tpn(),
                first_psn: Psn::new(first_psn),
                remote_first_psn: Psn::new(first_psn),
                first_message: Msn::new(0xFF_FFF0),
                unreliable: true,
                bypass: true,
                parts: true,
                retires: true,
                carried_acks: false,
                mtu: MTU,
                paths,
                remote_window: limits.receive_window(),
                remote_message_slots: 64,
                remote_read_slots: limits.read_slots,
                policy: policy.build(MTU),
            };
            nics[n].open_channel(now, channels[n], config).unwrap();
        }
        Pair::connected(nics, channels, now)
    }

    /// Creates a pair of two NICs that have opened a channel to each other.
    fn connected(mut nics: [UbDevice; 2], channels: [ChannelId; 2], now: Instant) -> Pair {
        let queues = [0, 1].map(|n: usize| nics[n].create_completion_queue(256).unwrap());
        let jetties = [0, 1].map(|n: usize| {
            let config = JettyConfig { number: Some(1), ..JettyConfig::new(queues[n], queues[n]) };
            nics[n].create_jetty(&config).unwrap()
        });
        let segments = [0, 1].map(|n: usize| {
            let request = SegmentRequest {
                address: 0x1000,
                length: 1 << 24,
                rights: Rights::ALL,
                token_value: 77,
            };
            nics[n].register(&request).unwrap()
        });
        let wires = [VecDeque::new(), VecDeque::new()];
        Pair {
            now,
            nics,
            channels,
            jetties,
            queues,
            segments,
            wires,
            sent: 0,
            placed: [0; 2],
            effects: Vec::new(),
            word: 0,
            processors: Vec::new(),
            turns: Random::new(9),
        }
    }

    fn post(&mut self, id: u64, work: Work, length: u32) {
        self.post_in_order(id, work, length, OrderRequest::default());
    }

    fn post_in_order(&mut self, id: u64, work: Work, length: u32, order: OrderRequest) {
        let local = LocalRange { segment: self.segments[0], offset: 0, length };
        let channel = self.channels[0];
        let request = WorkRequest { id, channel, work, local, signaled: true, order };
        self.nics[0].post(self.now, self.jetties[0], &request).unwrap();
    }

    fn remote(&self) -> RemoteRange {
        RemoteRange { token_id: self.segments[1].token_id(), token_value: 77, address: 0x1000 }
    }

    fn receive(&mut self, id: u64, length: u32) {
        let local = LocalRange { segment: self.segments[1], offset: 0, length };
        self.nics[1].post_receive(self.jetties[1], &ReceiveRequest { id, local }).unwrap();
    }

    /// Moves packets until none is left; `lose` is called for each and returns true if it is lost.
    fn run_until_idle(&mut self, mut lose: impl FnMut(u32, &Transmit) -> bool) {
        for _ in 0..1_000_000 {
            self.now = self.now + Duration::from_us(1);
            let mut moved = false;
            self.run_processors();
            for n in 0..2 {
                self.nics[n].handle_timeout(self.now);
                while let Some(transmit) = self.nics[n].poll_transmit(self.now) {
                    moved = true;
                    self.sent += 1;
                    if !lose(self.sent, &transmit) {
                        self.wires[1 - n].push_back(transmit);
                    }
                }
                while let Some(transmit) = self.wires[n].pop_front() {
                    moved = true;
                    self.deliver(n, &transmit);
                }
                self.nics[n].audit();
            }
            if !moved {
                let next = self.nics.iter().filter_map(UbDevice::poll_timeout);
                let Some(next) = next.reduce(Instant::min) else { return };
                let idle = self.nics.iter().all(|nic| nic.usage().messages == 0);
                if idle {
                    return;
                }
                self.now = self.now.max(next);
            }
        }
        let counters = self.nics.each_ref().map(|nic| *nic.counters());
        let waiting = self.nics.each_ref().map(|nic| nic.usage().messages);
        panic!("it never settles: {waiting:?} messages wait; {counters:?}");
    }

    /// Moves packets for this many microseconds, whatever is unfinished then.
    fn run_for(&mut self, microseconds: u32) {
        self.run_losing(microseconds, |_| false);
    }

    /// The same; a packet takes a microsecond. `lose` is called for each, and returns true if it is
    /// lost.
    fn run_losing(&mut self, microseconds: u32, mut lose: impl FnMut(&Transmit) -> bool) {
        for _ in 0..microseconds {
            self.now = self.now + Duration::from_us(1);
            for n in 0..2 {
                while let Some(transmit) = self.wires[n].pop_front() {
                    self.deliver(n, &transmit);
                }
            }
            for n in 0..2 {
                self.nics[n].handle_timeout(self.now);
                while let Some(transmit) = self.nics[n].poll_transmit(self.now) {
                    if !lose(&transmit) {
                        self.wires[1 - n].push_back(transmit);
                    }
                }
            }
        }
    }

    fn run_processors(&mut self) {
        for (nic, processor) in self.nics.iter_mut().zip(&mut self.processors) {
            if self.turns.number().is_multiple_of(4) {
                while let Some(controller) = nic.poll_controller() {
                    processor.adopt(controller);
                }
                processor.run(self.turns.number() as u32 % 8);
            }
        }
    }

    fn deliver(&mut self, n: usize, transmit: &Transmit) {
        let received = Received {
            route: transmit.route,
            packet: transmit.packet,
            payload: transmit.gather.length,
            ecn: Ecn::Capable,
            hops: 0,
        };
        match self.nics[n].handle_packet(self.now, &received) {
            Verdict::Place(placement) => {
                assert_eq!(placement.target.length, transmit.gather.length);
                self.placed[n] += 1;
                self.effects.push(placement.target.offset);
                self.nics[n].handle_placed(self.now, placement.token, 0);
            }
            Verdict::Own(atomic) => self.change(n, &atomic),
            Verdict::Done | Verdict::Drop(_) => {}
        }
        while let Some(execution) = self.nics[n].poll_execution() {
            match execution {
                Execution::Copy { to, token, .. } => {
                    self.effects.push(to.offset);
                    self.nics[n].handle_placed(self.now, token, 0);
                }
                Execution::Atomic(atomic) => self.change(n, &atomic),
            }
        }
    }

    fn change(&mut self, n: usize, atomic: &AtomicExecution) {
        self.effects.push(atomic.target.offset);
        let old = self.word;
        self.word = atomic.operator.apply(old, atomic.operand, atomic.compare);
        self.nics[n].handle_placed(self.now, atomic.token, old);
    }

    fn completions(&mut self, n: usize) -> Vec<Completion> {
        let queue = self.queues[n];
        core::iter::from_fn(|| self.nics[n].poll_completion(queue)).collect()
    }
}

#[test]
fn a_write_of_many_packets_across_the_psn_wrap() {
    for paths in [1, 4, 256] {
        let mut pair = Pair::new(0xFF_FFF0, paths);
        let remote = pair.remote();
        pair.post(5, Work::Write { remote }, 1_000_001);
        pair.run_until_idle(|_, _| false);
        let done = pair.completions(0);
        assert_eq!(done.len(), 1);
        assert_eq!((done[0].id, done[0].status, done[0].bytes), (5, Status::Success, 1_000_001));
        assert_eq!(pair.nics[0].counters().data_sent, 977);
        assert_eq!(pair.nics[0].counters().data_resent, 0);
        assert!(pair.nics[0].counters().continuation_packets_sent > 0);
        assert_eq!(pair.nics[1].counters().data_received, 977);
        assert_eq!(pair.nics[1].usage().bitmap_blocks, 0, "an idle channel holds no block");
    }
}

/// Everything is acknowledged that arrived before a peer closes directly after its last message.
#[test]
fn packets_received_before_a_close_are_acknowledged() {
    let mut pair = Pair::new(0, 2);
    pair.receive(9, 100);
    pair.post(1, Work::Send { target: named(pair.jetties[1].value()) }, 100);
    let remote = pair.remote();
    pair.post(2, Work::Write { remote }, 10_000);
    while let Some(transmit) = pair.nics[0].poll_transmit(pair.now) {
        pair.deliver(1, &transmit);
    }
    assert_eq!(pair.completions(1).len(), 1);
    let channel = pair.channels[1];
    pair.nics[1].close_channel(pair.now, channel).unwrap();
    pair.post(3, Work::Write { remote }, 10_000);
    pair.run_until_idle(|_, _| false);
    let done = pair.completions(0);
    let done: Vec<_> = done.iter().map(|one| (one.id, one.status)).collect();
    let success = Status::Success;
    assert_eq!(done, [(1, success), (2, success), (3, Status::PeerClosed)]);
}

#[test]
fn repeated_closes_take_different_paths() {
    // This policy keeps its path until it is congested.
    let plb = "cc=swift,path=plb".parse().unwrap();
    let mut pair = Pair::with_policy(0, 4, Profile::default(), 64, &plb);
    let channel = pair.channels[0];
    pair.nics[0].close_channel(pair.now, channel).unwrap();
    let mut paths = Vec::new();
    for _ in 0..200 {
        while let Some(transmit) = pair.nics[0].poll_transmit(pair.now) {
            assert!(matches!(transmit.packet, Packet::Close(_)), "{transmit:?}");
            paths.push(transmit.route.path);
        }
        let Some(next) = pair.nics[0].poll_timeout() else { break };
        pair.now = next;
        pair.nics[0].handle_timeout(pair.now);
    }
    assert!(paths.len() > 2, "{paths:?}");
    assert!(paths.windows(2).all(|two| two[0] != two[1]), "{paths:?}");
}

/// A receiver that can record nothing behind the first missing packet's block shows the sender a
/// window that ends there, so a loss costs that packet alone.
#[test]
fn receiver_without_blocks_shows_a_window_that_it_can_record() {
    let limits = Limits {
        channels: 4,
        jetties: 8,
        bitmap_blocks: 0,
        window_packets: 256,
        ..Limits::default()
    };
    let new = |n| UbDevice::new(Cna::new(n), &limits, &Profile::default(), u64::from(n));
    let policy = "cc=fixed:16M".parse().unwrap();
    let mut pair = Pair::between([1, 2].map(new), 0, 1, &policy);
    let remote = pair.remote();
    let packets = 720;
    pair.post(1, Work::Write { remote }, packets * MTU);
    let (mut edge, mut first, mut windows) = (limits.receive_window(), None, 0);
    pair.run_until_idle(|_, transmit| match transmit.packet {
        Packet::Ack(ack) if transmit.route.source == Cna::new(2) => {
            let recordable = (ack.cumulative.value() + 1) / 16 * 16 + 16;
            assert_eq!(ack.cumulative.value() + 1 + u32::from(ack.window), recordable);
            (edge, windows) = (edge.max(recordable), windows + 1);
            false
        }
        Packet::Data(data) => {
            assert!(data.psn.value() < edge, "{:?} is beyond {edge}", data.psn);
            // The first packet behind the first window is lost once.
            let is_lost = first.is_none() && data.psn.value() >= 240;
            first = first.or(is_lost.then_some(data.psn));
            is_lost
        }
        _ => false,
    });
    assert!(first.is_some() && windows > 30, "{windows} windows");
    let done = pair.completions(0);
    assert_eq!(
        done.iter().map(|one| (one.id, one.status)).collect::<Vec<_>>(),
        [(1, Status::Success)]
    );
    let drops = pair.nics[1].counters().drops[DropReason::BitmapPool as usize];
    assert_eq!(drops, 0, "packets were sent that could not be recorded");
}

#[test]
fn every_operation_completes_under_heavy_loss() {
    for seed in 0..20 {
        let mut pair = Pair::new(0xFF_FF00, 4);
        let remote = pair.remote();
        let target = named(1);
        for n in 0..8 {
            pair.receive(100 + n, 20_000);
        }
        pair.post(1, Work::Write { remote }, 10_000);
        pair.post(2, Work::Read { remote }, 10_000);
        pair.post(3, Work::Send { target }, 10_000);
        pair.post(4, Work::SendImmediate { target, immediate: 9 }, 0);
        pair.post(5, Work::WriteImmediate { remote, target, immediate: 10 }, 1);
        pair.post(6, Work::Read { remote }, 0);
        pair.post(7, Work::Write { remote }, 0);
        let mut random = Random::new(seed);
        pair.run_until_idle(|_, _| random.number().is_multiple_of(4));
        let mut done = pair.completions(0);
        done.sort_by_key(|completion| completion.id);
        let ids: Vec<u64> = done.iter().map(|completion| completion.id).collect();
        assert_eq!(ids, vec![1, 2, 3, 4, 5, 6, 7], "seed {seed}");
        assert!(done.iter().all(|completion| completion.status == Status::Success));
        let mut got: Vec<_> =
            pair.completions(1).iter().map(|c| (c.kind, c.bytes, c.immediate)).collect();
        got.sort_by_key(|entry| entry.1);
        let expected = vec![
            (CompletionKind::Receive, 0, Some(9)),
            (CompletionKind::ReceiveWrite, 1, Some(10)),
            (CompletionKind::Receive, 10_000, None),
        ];
        assert_eq!(got, expected, "seed {seed}");
        assert_eq!(pair.nics[1].counters().dropped(DropReason::StartUnknown), 0);
        assert_eq!(pair.nics[1].usage().arrivals, 0);
    }
}

#[test]
fn refusals_carry_the_reason_and_nothing_is_placed() {
    let mut pair = Pair::new(0, 1);
    let good = pair.remote();
    let target = named(1);
    let cases = [
        (
            Work::Write { remote: RemoteRange { token_value: 78, ..good } },
            5_000,
            Status::RemoteAccess,
        ),
        (Work::Write { remote: RemoteRange { address: 0, ..good } }, 5_000, Status::RemoteAccess),
        (Work::Read { remote: RemoteRange { token_value: 1, ..good } }, 10, Status::RemoteAccess),
        (Work::Send { target: named(3) }, 10, Status::RemoteNoJetty),
        (Work::Send { target }, 5_000, Status::RemoteLength),
    ];
    pair.receive(9, 100);
    for (id, (work, length, _)) in cases.iter().enumerate() {
        pair.post(id as u64, *work, *length);
    }
    let mut random = Random::new(3);
    pair.run_until_idle(|_, _| random.number().is_multiple_of(3));
    let mut done = pair.completions(0);
    done.sort_by_key(|completion| completion.id);
    assert_eq!(done.len(), cases.len());
    for (completion, case) in done.iter().zip(cases) {
        assert_eq!(completion.status, case.2);
    }
    assert_eq!(pair.placed, [0, 0]);
    assert!(pair.completions(1).is_empty());
}

#[test]
fn a_send_waits_for_its_receive() {
    let mut pair = Pair::new(0, 2);
    pair.post(1, Work::Send { target: named(1) }, 3_000);
    for _ in 0..2_000 {
        pair.now = pair.now + Duration::from_us(1);
        for n in 0..2 {
            pair.nics[n].handle_timeout(pair.now);
            while let Some(transmit) = pair.nics[n].poll_transmit(pair.now) {
                pair.wires[1 - n].push_back(transmit);
            }
            while let Some(transmit) = pair.wires[n].pop_front() {
                pair.deliver(n, &transmit);
            }
        }
    }
    assert!(pair.nics[1].counters().not_ready > 3);
    assert!(pair.completions(0).is_empty());
    pair.receive(7, 3_000);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0)[0].status, Status::Success);
    let got = pair.completions(1);
    assert_eq!((got.len(), got[0].id, got[0].bytes), (1, 7, 3_000));
}

#[test]
fn a_pause_of_our_own_is_not_the_death_of_the_peer() {
    let mut pair = Pair::new(0, 1);
    // Both sides stand still for a minute; then the timers run before anything is read.
    pair.now = pair.now + Duration::from_secs(60);
    for nic in &mut pair.nics {
        nic.handle_timeout(pair.now);
    }
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, 10);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0)[0].status, Status::Success);
    // A peer that stays silent is dead all the same.
    let limit = pair.now + Duration::from_secs(4);
    while pair.nics[0].poll_event().is_none() {
        pair.now = pair.now + Duration::from_ms(1);
        assert!(pair.now.is_before(limit), "the failure was not detected");
        pair.nics[0].handle_timeout(pair.now);
        while pair.nics[0].poll_transmit(pair.now).is_some() {}
    }
}

#[test]
fn a_message_that_fits_a_chunk_leaves_before_the_next_one() {
    let mut pair = Pair::new(0, 4);
    let remote = pair.remote();
    for id in 0..2 {
        pair.post(id, Work::Write { remote }, 16 * MTU);
    }
    let numbers: Vec<_> = core::iter::from_fn(|| pair.nics[0].poll_transmit(pair.now))
        .map(|transmit| match transmit.packet {
            Packet::Data(data) => (data.message, data.last),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(numbers.len(), 32);
    let first = numbers[0].0;
    assert!(numbers[..16].iter().all(|(message, _)| *message == first), "{numbers:?}");
    assert!(numbers[15].1 && numbers[31].1);
}

#[test]
fn a_message_keeps_its_turn_for_as_long_as_the_profile_says() {
    for (turn_bytes, first_turn) in [(0, 57), (60 * MTU, 80), (50 * MTU, 57)] {
        let mut pair = Pair::with_profile(0, 4, Profile::new().message_turn_bytes(turn_bytes));
        let remote = pair.remote();
        for id in 0..2 {
            pair.post(id, Work::Write { remote }, 80 * MTU);
        }
        let sent: Vec<_> = core::iter::from_fn(|| pair.nics[0].poll_transmit(pair.now))
            .filter_map(|transmit| match transmit.packet {
                Packet::Data(data) => Some(data.message),
                _ => None,
            })
            .collect();
        let turns: Vec<_> = sent.chunk_by(|one, next| one == next).map(<[_]>::len).collect();
        assert!(
            turns.len() > 1 && turns[0] == first_turn,
            "turns of {turn_bytes} bytes: {turns:?}"
        );
    }
}

mod aborting;
mod agreed;
mod bypassing;
mod contradictions;
mod crawling;
mod credit;
mod defects;
mod failing;
mod flows;
mod guarding;
mod receive_matching;
mod sharing;
mod small_messages;
