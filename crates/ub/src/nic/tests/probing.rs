//! Round trips measured out of band.

use super::*;
use crate::policy::{AckSample, CongestionControl, LossSample};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use fairway_wire::Probe;

fn pair(policy: &str, paths: u32) -> Pair {
    let spec: PolicySpec = policy.parse().unwrap();
    Pair::with_policy(0xFF_FF00, paths, Profile::default(), 64, &spec)
}

impl Pair {
    fn advance(&mut self, us: u64) {
        self.now = self.now + Duration::from_us(us);
    }

    fn probed(&self) -> Vec<u64> {
        let paths = self.nics[0].paths(self.channels[0]);
        paths.iter().map(|path| path.probed_rtt.as_us()).collect()
    }

    /// Replaces the congestion control of the first side by [`Split`]; returns what that records.
    fn split_delays(&mut self) -> (Arc<AtomicU64>, Arc<AtomicU64>) {
        let [part, hops] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let index = self.channels[0].index();
        let EntryState::Open(channel) = &mut self.nics[0].entries[index].state else {
            panic!("an open channel");
        };
        channel.set_controller(Box::new(Split(part.clone(), hops.clone())));
        (part, hops)
    }

    /// The next probe of a side, however long it takes until it is due.
    fn next_probe(&mut self, n: usize) -> Transmit {
        for _ in 0..1000 {
            self.nics[n].handle_timeout(self.now);
            while let Some(transmit) = self.nics[n].poll_transmit(self.now) {
                if matches!(transmit.packet, Packet::Probe(_)) {
                    return transmit;
                }
            }
            self.now = self.nics[n].poll_timeout().unwrap().max(self.now);
        }
        panic!("no probe is sent");
    }
}

#[test]
fn every_path_is_measured_in_use_or_not() {
    let mut pair = pair("probe=periodic:400us", 4);
    let mut last = pair.now;
    for round in 0..8 {
        let probe = pair.next_probe(0);
        assert_eq!(probe.route.path, round % 4, "each in turn");
        let step = pair.now.since(last);
        assert!(step <= Duration::from_us(100), "{step:?}");
        // To the peer, a while there, and back.
        let path = u64::from(probe.route.path);
        pair.advance(10 + path);
        pair.deliver(1, &probe);
        pair.advance(17);
        let answer = pair.next_probe(1);
        assert_eq!(answer.route.path, probe.route.path);
        pair.advance(5);
        pair.deliver(0, &answer);
        last = pair.now;
    }
    assert_eq!(pair.probed(), [15, 16, 17, 18]);
    let paths = pair.nics[0].paths(pair.channels[0]);
    let known: Vec<_> = paths.iter().map(|path| path.smoothed_rtt.as_us()).collect();
    assert_eq!(known, [15, 16, 17, 18], "nothing else is known of them");
    let counters = pair.nics[0].counters();
    assert_eq!((counters.round_trip_probes_sent, counters.round_trip_probes_answered), (8, 8));
}

#[test]
fn answers_to_probes_that_were_not_sent_are_ignored() {
    let mut pair = pair("probe=periodic:400us", 1);
    let probe = pair.next_probe(0);
    pair.advance(10);
    pair.deliver(1, &probe);
    let answer = pair.next_probe(1);
    let Packet::Probe(probe) = answer.packet else { panic!("a probe") };
    let wrong = Probe { number: probe.number ^ 1, ..probe };
    pair.deliver(0, &Transmit { packet: Packet::Probe(wrong), ..answer });
    assert_eq!(pair.probed(), [0]);
    pair.deliver(0, &answer);
    assert_eq!(pair.probed(), [10]);
    // A copy of the valid answer arrives late, and one with an impossible turn-round time.
    pair.advance(500);
    pair.deliver(0, &answer);
    assert_eq!(pair.probed(), [10]);
    let probe = pair.next_probe(0);
    let Packet::Probe(sent) = probe.packet else { panic!("a probe") };
    let odd = Packet::Probe(Probe { number: sent.number, turn_ns: Some(u32::MAX) });
    pair.deliver(0, &Transmit { packet: odd, ..answer });
    assert_eq!(pair.probed(), [10], "nothing comes back in no time");
}

#[test]
fn peer_answers_a_probe_for_each_path_at_a_time() {
    let mut pair = pair("cc=swift", 3);
    let route = fairway_wire::Route {
        source: Cna::new(1),
        destination: Cna::new(2),
        source_tpn: pair.channels[0].tpn(),
        destination_tpn: pair.channels[1].tpn(),
        path: 0,
        priority: fairway_wire::Priority::CONTROL,
        cci: Default::default(),
    };
    for number in 0..20 {
        let packet = Packet::Probe(Probe { number, turn_ns: None });
        let gather = LocalRange::default();
        pair.deliver(1, &Transmit { channel: pair.channels[0], route, packet, gather });
    }
    let answers = core::iter::from_fn(|| pair.nics[1].poll_transmit(pair.now)).count();
    assert_eq!(answers, 3);
}

#[test]
fn probes_follow_what_is_sent() {
    let mut pair = pair("cc=swift,probe=sampled:64K", 4);
    let remote = pair.remote();
    for id in 0..4 {
        pair.post(id, Work::Write { remote }, 1_000_000);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0).len(), 4);
    let counters = pair.nics[0].counters();
    let (sent, answered) = (counters.round_trip_probes_sent, counters.round_trip_probes_answered);
    // 4.3 MB with headers; one probe at a time on each path.
    assert!((10..=66).contains(&sent) && answered + 4 >= sent, "{sent} {answered}");
    assert_eq!(pair.nics[1].counters().round_trip_probes_sent, 0, "it sends no data");
}

#[test]
fn loss_starts_probes_of_the_anomaly_mode() {
    let probes = |lose: bool| {
        let mut pair = pair("cc=fixed:64K,probe=anomaly:100", 2);
        let remote = pair.remote();
        pair.post(1, Work::Write { remote }, 500_000);
        pair.run_until_idle(|n, _| lose && n % 100 == 50);
        assert_eq!(pair.completions(0).len(), 1);
        pair.nics[0].counters().round_trip_probes_sent
    };
    assert_eq!(probes(false), 0);
    assert!((1..20).contains(&probes(true)));
}

/// Records the hosts' part of the last delay, in picoseconds, and the switches that were passed.
struct Split(Arc<AtomicU64>, Arc<AtomicU64>);

impl CongestionControl for Split {
    fn name(&self) -> &'static str {
        "split"
    }

    fn window_bytes(&self) -> u64 {
        1 << 20
    }

    fn on_ack(&mut self, sample: &AckSample) {
        let part = sample.endpoint_delay.map_or(u64::MAX, Duration::as_ps);
        self.0.store(part, Ordering::Relaxed);
        self.1.store(u64::from(sample.hops), Ordering::Relaxed);
    }

    fn on_loss(&mut self, _: &LossSample) {}
}

#[test]
fn round_trip_beyond_that_of_a_probe_is_host_delay() {
    let mut pair = pair("probe=periodic:10ms", 1);
    let (part, _) = pair.split_delays();
    let write = |pair: &mut Pair, takes: u64| {
        let remote = pair.remote();
        pair.post(1, Work::Write { remote }, 100);
        let data = pair.nics[0].poll_transmit(pair.now).unwrap();
        pair.advance(takes);
        pair.deliver(1, &data);
        pair.nics[1].handle_timeout(pair.now);
        let ack = pair.nics[1].poll_transmit(pair.now).unwrap();
        pair.deliver(0, &ack);
        Duration::from_ps(part.load(Ordering::Relaxed))
    };
    assert_eq!(write(&mut pair, 50).as_ps(), u64::MAX, "nothing is known");
    let probe = pair.next_probe(0);
    pair.advance(20);
    pair.deliver(1, &probe);
    let answer = pair.next_probe(1);
    pair.deliver(0, &answer);
    assert_eq!(write(&mut pair, 50), Duration::from_us(30));
    assert_eq!(write(&mut pair, 15), Duration::ZERO);
    // Old samples do not count any more.
    pair.advance(11_000);
    assert_eq!(write(&mut pair, 50).as_ps(), u64::MAX);
}

#[test]
fn time_that_packets_wait_in_hosts_is_host_delay() {
    let mut pair = pair("probe=off", 1);
    let (part, _) = pair.split_delays();
    let write = |pair: &mut Pair, there: Option<u64>, here: Option<u64>| {
        let remote = pair.remote();
        pair.post(1, Work::Write { remote }, 100);
        let data = pair.nics[0].poll_transmit(pair.now).unwrap();
        pair.advance(60);
        pair.nics[1].set_host_wait(there.map(Duration::from_us));
        pair.deliver(1, &data);
        pair.advance(5);
        pair.nics[1].handle_timeout(pair.now);
        let ack = pair.nics[1].poll_transmit(pair.now).unwrap();
        pair.advance(20);
        pair.nics[0].set_host_wait(here.map(Duration::from_us));
        pair.deliver(0, &ack);
        let part = Duration::from_ps(part.load(Ordering::Relaxed));
        (part.as_us(), pair.nics[0].round_trip(pair.channels[0]).as_us())
    };
    let unknown = Duration::from_ps(u64::MAX).as_us();
    assert_eq!(write(&mut pair, None, None), (unknown, 80), "without the five at the peer");
    // Delays are reported in units of 64 ns, rounded down.
    assert_eq!(write(&mut pair, Some(40), Some(10)).0, 54, "forty and five at the peer, ten here");
    assert_eq!(write(&mut pair, None, Some(0)).0, 4, "the peer knows of no wait");
    assert_eq!(write(&mut pair, Some(70), Some(20)).0, unknown, "no packet travels in no time");
}

#[test]
fn the_law_learns_how_many_switches_an_acknowledgement_has_passed() {
    let mut pair = pair("probe=off", 1);
    let (_, hops) = pair.split_delays();
    for switches in [3, 0, 5] {
        let remote = pair.remote();
        pair.post(1, Work::Write { remote }, 100);
        let data = pair.nics[0].poll_transmit(pair.now).unwrap();
        pair.advance(10);
        pair.deliver(1, &data);
        pair.nics[1].handle_timeout(pair.now);
        let Transmit { route, packet, .. } = pair.nics[1].poll_transmit(pair.now).unwrap();
        assert!(matches!(packet, Packet::Ack(_)), "{packet:?}");
        let ecn = Ecn::Capable;
        let ack = Received { route, packet, payload: 0, ecn, hops: switches };
        let _ = pair.nics[0].handle_packet(pair.now, &ack);
        assert_eq!(hops.load(Ordering::Relaxed), u64::from(switches));
    }
}

#[test]
fn paths_that_failed_together_come_back_together() {
    let profile = Profile { path_probe: Duration::from_ms(2), ..Profile::default() };
    // The default choice would not try again a path that does not deliver.
    let by_turns = "cc=swift,path=spray".parse().unwrap();
    let mut pair = Pair::with_policy(0xFF_FF00, 8, profile, 64, &by_turns);
    let is_dead = |transmit: &Transmit| (1..7).contains(&transmit.route.path);
    let down = |pair: &Pair| {
        let paths = pair.nics[0].paths(pair.channels[0]);
        paths.iter().filter(|path| !path.usable).count()
    };
    for round in 0..1_000 {
        let remote = pair.remote();
        pair.post(round, Work::Write { remote }, 64 * MTU);
        pair.run_until_idle(|_, transmit| is_dead(transmit));
        pair.completions(0);
        if down(&pair) == 6 {
            break;
        }
    }
    assert_eq!(down(&pair), 6);
    // All paths are probed at the same time, and each answer proves one path.
    pair.run_for(2_100);
    assert_eq!(down(&pair), 0);
}

/// A policy that stays with one path would try that one and its neighbour only.
#[test]
fn a_packet_that_is_sent_again_and_again_tries_all_paths() {
    for choice in ["plb", "flowlet", "least-rtt", "spray", "reps", "p2c"] {
        for (length, dead) in [(1, 4..15), (64 * MTU, 0..14), (64 * MTU, 3..16)] {
            let spec = format!("cc=swift,path={choice}").parse().unwrap();
            let profile = Profile::new().small_message_bytes(0);
            let mut pair = Pair::with_policy(0xFF_FF00, 16, profile, 64, &spec);
            let remote = pair.remote();
            pair.post(1, Work::Write { remote }, length);
            pair.run_until_idle(|_, transmit| dead.contains(&transmit.route.path));
            let statuses: Vec<_> = pair.completions(0).iter().map(|one| one.status).collect();
            assert_eq!(statuses, [Status::Success], "{choice}, {length} bytes, {dead:?} are dead");
        }
    }
}

/// A pair of four paths that writes until a path is out of use, for 2 ms at most.
fn write_until_path_down(probe: &str, lose: impl Fn(&Transmit) -> bool) -> (Pair, Duration) {
    // Only probes take paths out of use.
    let profile = Profile::new().path_timeouts(u32::MAX).probe_timeout(Duration::from_us(50));
    let profile = profile.small_message_bytes(0);
    let spec = format!("cc=fixed:64K,path=spray,probe={probe}").parse().unwrap();
    let mut pair = Pair::with_policy(0xFF_FF00, 4, profile, 64, &spec);
    let begin = pair.now;
    for round in 0.. {
        let took = pair.now.since(begin);
        if pair.nics[0].counters().paths_down > 0 || took >= Duration::from_ms(2) {
            return (pair, took);
        }
        let remote = pair.remote();
        pair.post(round, Work::Write { remote }, 16 * MTU);
        pair.run_losing(10, &lose);
        pair.completions(0);
    }
    unreachable!("the loop returns")
}

fn is_second_path(transmit: &Transmit) -> bool {
    transmit.route.path == 1
}

#[test]
fn a_path_that_leaves_two_probes_unanswered_goes_out_of_use() {
    for probe in ["anomaly:100", "periodic:40us", "sampled:4K"] {
        let (mut pair, took) = write_until_path_down(probe, is_second_path);
        assert!(took <= Duration::from_us(300), "{probe}: {took:?}");
        let usable: Vec<_> =
            pair.nics[0].paths(pair.channels[0]).iter().map(|path| path.usable).collect();
        assert_eq!(usable, [true, false, true, true], "{probe}");
        // What was in flight there goes by other paths.
        pair.run_until_idle(|_, transmit| is_second_path(transmit));
        assert_eq!(pair.nics[0].usage().messages, 0, "{probe}");
        let is_data = |transmit: &Transmit| matches!(transmit.packet, Packet::Data(_));
        let remote = pair.remote();
        pair.post(1000, Work::Write { remote }, 64 * MTU);
        pair.run_until_idle(|_, transmit| {
            assert!(!is_data(transmit) || !is_second_path(transmit), "{probe}: {transmit:?}");
            is_second_path(transmit)
        });
    }
    let (_, took) = write_until_path_down("off", is_second_path);
    assert!(took >= Duration::from_ms(2), "nothing else takes it out of use: {took:?}");
}

#[test]
fn a_path_that_answers_probes_stays_in_use() {
    // It loses all data. Then one of every two probes, so that the next one is answered.
    let is_data = |transmit: &Transmit| matches!(transmit.packet, Packet::Data(_));
    let probes = core::cell::Cell::new(0);
    let every_other = |transmit: &Transmit| {
        let is_probe = matches!(transmit.packet, Packet::Probe(probe) if probe.turn_ns.is_none());
        probes.set(probes.get() + u32::from(is_probe));
        is_probe && probes.get() % 2 == 1
    };
    for probe in ["anomaly:100", "periodic:40us"] {
        let lossy = |transmit: &Transmit| is_second_path(transmit) && is_data(transmit);
        let (pair, _) = write_until_path_down(probe, lossy);
        assert_eq!(pair.nics[0].counters().paths_down, 0, "{probe}");
        let lossy = |transmit: &Transmit| {
            is_second_path(transmit) && (is_data(transmit) || every_other(transmit))
        };
        let (pair, _) = write_until_path_down(probe, lossy);
        assert_eq!(pair.nics[0].counters().paths_down, 0, "{probe}");
        assert!(probes.take() > 3, "{probe}");
    }
}

#[test]
fn a_peer_that_answers_on_no_path_takes_none_out_of_use() {
    let silent_since = core::cell::Cell::new(0);
    let (pair, _) = write_until_path_down("periodic:40us", |_| {
        silent_since.set(silent_since.get() + 1);
        silent_since.get() > 100
    });
    let counters = pair.nics[0].counters();
    assert_eq!(counters.paths_down, 0);
    assert!(counters.round_trip_probes_sent > counters.round_trip_probes_answered + 8);
}

#[test]
fn the_answer_to_a_probe_brings_a_path_back() {
    let (mut pair, _) = write_until_path_down("periodic:40us", is_second_path);
    assert_eq!(pair.nics[0].counters().paths_down, 1);
    // Far less than the interval at which paths out of use are probed.
    pair.run_for(100);
    assert_eq!(pair.nics[0].counters().paths_up, 1);
    assert!(pair.nics[0].paths(pair.channels[0])[1].usable);
}

/// So a peer receives a packet from there although there is nothing to send.
#[test]
fn first_path_is_probed_on_request_and_stays_in_use_if_the_probe_is_lost() {
    for is_lost in [false, true] {
        let mut pair = pair("probe=off", 4);
        assert!(pair.nics[0].poll_transmit(pair.now).is_none());
        let channel = pair.channels[0];
        pair.nics[0].probe_first_path(channel);
        pair.nics[0].probe_first_path(channel);
        let probe = pair.nics[0].poll_transmit(pair.now).expect("a probe");
        assert_eq!(probe.route.path, 0);
        assert!(pair.nics[0].poll_transmit(pair.now).is_none(), "one is enough");
        if !is_lost {
            pair.deliver(1, &probe);
            let answer = pair.nics[1].poll_transmit(pair.now).expect("an answer");
            pair.deliver(0, &answer);
        }
        let remote = pair.remote();
        pair.post(0, Work::Write { remote }, 5000);
        pair.run_until_idle(|_, _| false);
        assert_eq!(pair.completions(0)[0].status, Status::Success);
        assert!(pair.nics[0].paths(channel).iter().all(|path| path.usable));
        assert_eq!(pair.nics[0].poll_event(), None);
    }
}
