//! One fault at a time, with a known reaction.

mod pair;

use fairway_device::drive::Driver;
use fairway_ub::control::TraceEntry;
use fairway_ub::wire::{Duration, Ecn, Operation, Packet, Target};
use fairway_ub::{
    CompletionKind, Event, Limits, Profile, Received, Status, Transmit, Verdict, Work,
};
use pair::{Fate, LATENCY, Pair, Settings, fine, lose_once};

const LONG: Duration = Duration::from_secs(1);

/// Length of a message of several packets, the last one short.
const LENGTH: u32 = 10 * 4096 + 77;

fn is_data(packet: &Packet) -> bool {
    matches!(packet, Packet::Data(_))
}

fn is_last(packet: &Packet) -> bool {
    matches!(packet, Packet::Data(data) if data.last)
}

fn write(pair: &mut Pair) {
    let remote = pair.remote(0, 500);
    pair.post(0, 1, Work::Write { remote }, LENGTH);
}

fn assert_written(pair: &Pair) {
    let length = LENGTH as usize;
    assert!(
        pair.memory[1].bytes[500..500 + length] == pair.memory[0].bytes[..length],
        "bytes differ"
    );
}

#[test]
fn a_lost_acknowledgement_costs_one_time_out_and_one_packet() {
    let mut pair = Pair::new(&Settings::default());
    let remote = pair.remote(0, 0);
    pair.post(0, 1, Work::Write { remote }, 64);
    let start = pair.now;
    let mut fate = lose_once(1, |packet| matches!(packet, Packet::Ack(_)));
    let done = pair.complete(0, LONG, &mut fate);
    assert_eq!(done.status, Status::Success);
    assert_eq!(pair.drivers[0].device().counters().data_resent, 1);
    assert_eq!(pair.drivers[1].device().counters().payload_received, 64);
    let timeout = Profile::default().timeout_initial;
    let took = pair.now.since(start);
    assert!(took >= timeout && took < timeout.saturating_add(LATENCY.times(4)), "{took:?}");
}

#[test]
fn an_echo_kept_for_longer_than_its_round_trip_gives_no_sample() {
    let mut pair = Pair::new(&Settings::default());
    pair.drivers[0].device_mut().set_trace(pair.now, 64);
    let remote = pair.remote(0, 0);
    pair.post(0, 1, Work::Write { remote }, 64);
    let mut caught = None;
    pair.run(LATENCY.times(3), &mut |_, from, transmit| match transmit.packet {
        Packet::Ack(mut ack) if from == 1 => {
            ack.echo_delay = u16::MAX;
            caught = Some((transmit.route, Packet::Ack(ack)));
            Fate::Lose
        }
        _ => Fate::Deliver,
    });
    let (route, packet) = caught.expect("the WRITE was acknowledged");
    let received = Received { route, packet, payload: 0, ecn: Ecn::Capable, hops: 0 };
    assert_eq!(pair.drivers[0].device_mut().handle_packet(pair.now, &received), Verdict::Done);
    assert_eq!(pair.completions(0).len(), 1);
    assert_eq!(
        pair.drivers[0].device().round_trip(pair.channels[0]),
        Duration::ZERO,
        "no sample yet"
    );
    let mut trace = Vec::new();
    pair.drivers[0].device_mut().take_trace(pair.now, &mut trace);
    let acks = trace.iter().filter_map(|record| match record.entry {
        TraceEntry::Ack { rtt, .. } => Some(rtt),
        _ => None,
    });
    assert_eq!(acks.collect::<Vec<_>>(), [None]);
}

#[test]
fn the_lost_last_packet_of_a_message_is_resent_alone() {
    let mut pair = Pair::new(&Settings::default());
    write(&mut pair);
    let done = pair.complete(0, LONG, &mut lose_once(0, is_last));
    assert_eq!((done.status, done.bytes), (Status::Success, LENGTH));
    assert_eq!(pair.drivers[0].device().counters().data_resent, 1);
    assert_written(&pair);
}

#[test]
fn a_packet_lost_in_the_middle_is_found_without_a_time_out() {
    let mut pair = Pair::new(&Settings::default());
    write(&mut pair);
    let third = |packet: &Packet| matches!(packet, Packet::Data(data) if data.index == 3);
    pair.complete(0, LONG, &mut lose_once(0, third));
    let counters = pair.drivers[0].device().counters();
    assert_eq!((counters.data_resent, counters.timeouts), (1, 0));
    assert_written(&pair);
}

/// Recovery needs no later packet: the trimmed header reports the loss.
#[test]
fn a_trimmed_packet_is_sent_again_at_once() {
    // The window permits the whole message at once.
    let mut pair = Pair::new(&Settings { policies: "cc=swift", ..Settings::default() });
    write(&mut pair);
    let start = pair.now;
    let mut cut = 0;
    // The last packet, which no packet overtakes, and its second copy.
    let mut fate = |_: &Pair, sender: usize, transmit: &Transmit| {
        let wanted = sender == 0 && is_last(&transmit.packet) && cut < 2;
        cut += u32::from(wanted);
        if wanted { Fate::Trim } else { Fate::Deliver }
    };
    let done = pair.complete(0, LONG, &mut fate);
    assert_eq!((done.status, done.bytes), (Status::Success, LENGTH));
    let counters = pair.drivers[0].device().counters();
    assert_eq!((counters.data_resent, counters.timeouts, counters.lost), (2, 0, 2));
    assert_eq!(pair.drivers[1].device().counters().trimmed_received, 2);
    assert_eq!(pair.drivers[1].device().counters().payload_received, u64::from(LENGTH));
    // Three round trips, and the bytes of the message.
    assert!(pair.now.since(start) < LATENCY.times(6).saturating_add(Duration::from_us(40)));
    assert_written(&pair);
}

/// The first copy's trimmed header arrives while a second copy is in flight: no third is sent.
#[test]
fn late_news_of_a_trimmed_packet_is_no_news() {
    let mut pair = Pair::new(&Settings::default());
    write(&mut pair);
    let third = |packet: &Packet| matches!(packet, Packet::Data(data) if data.index == 3);
    let (mut cut, mut late) = (false, false);
    let mut fate = |_: &Pair, sender: usize, transmit: &Transmit| {
        if sender == 0 && third(&transmit.packet) && !cut {
            cut = true;
            return Fate::Trim;
        }
        if sender == 1 && matches!(transmit.packet, Packet::Nak(_)) && !late {
            late = true;
            return Fate::Delay(LATENCY.times(2).saturating_add(Duration::from_us(15)));
        }
        Fate::Deliver
    };
    pair.complete(0, LONG, &mut fate);
    let counters = pair.drivers[0].device().counters();
    assert!(cut && late);
    assert_eq!((counters.data_resent, counters.timeouts, counters.spurious), (1, 0, 0));
    assert_written(&pair);
}

/// A third of a message of 200 packets is trimmed. CUBIC shrinks its window, and retransmissions
/// wait for room in it; only the packet that the receiver misses first, and probes, may exceed it.
#[test]
fn retransmissions_wait_for_room_in_the_window() {
    let mut pair = Pair::new(&Settings { policies: "cc=cubic", ..Settings::default() });
    let remote = pair.remote(0, 0);
    pair.post(0, 1, Work::Write { remote }, 200 * 4096);
    let (mut arrived, mut beyond) = (std::collections::BTreeSet::new(), 0);
    let mut fate = |pair: &Pair, sender: usize, transmit: &Transmit| {
        let Packet::Data(data) = &transmit.packet else { return Fate::Deliver };
        let (window, in_flight) =
            pair.drivers[sender].device().window(pair.channels[sender]).unwrap();
        let missing = (0..).find(|index| !arrived.contains(index)).unwrap_or(0);
        if in_flight > window && data.index > missing {
            beyond += 1;
        }
        if data.index % 3 == 1 && !data.retry {
            return Fate::Trim;
        }
        arrived.insert(data.index);
        Fate::Deliver
    };
    let done = pair.complete(0, LONG, &mut fate);
    assert_eq!(done.status, Status::Success);
    let counters = pair.drivers[0].device().counters();
    assert!(counters.data_resent >= 66, "{counters:?}");
    assert!(beyond <= counters.tail_probes, "{beyond} beyond the window: {counters:?}");
}

/// A packet that was sent twice yields a round trip if the echo identifies the copy that arrived.
#[test]
fn retransmission_gives_its_round_trip() {
    let mut pair = Pair::new(&Settings::default());
    let remote = pair.remote(0, 0);
    pair.post(0, 1, Work::Write { remote }, 64);
    let mut fate = lose_once(0, is_data);
    pair.complete(0, LONG, &mut fate);
    let counters = pair.drivers[0].device().counters();
    assert_eq!((counters.data_sent, counters.data_resent), (1, 1));
    let round_trip = pair.drivers[0].device().round_trip(pair.channels[0]);
    let least = LATENCY.times(2);
    let most = least.saturating_add(Duration::from_us(5));
    assert!(round_trip >= least && round_trip <= most, "{round_trip:?}");
}

#[test]
fn a_lost_read_response_is_resent_by_its_sender() {
    let mut pair = Pair::new(&Settings::default());
    let remote = pair.remote(0, 900);
    pair.post(0, 7, Work::Read { remote }, LENGTH);
    let done = pair.complete(0, LONG, &mut lose_once(1, is_data));
    assert_eq!(
        (done.status, done.kind, done.bytes),
        (Status::Success, CompletionKind::Read, LENGTH)
    );
    assert_eq!(pair.drivers[1].device().counters().data_resent, 1);
    assert_eq!(pair.drivers[0].device().counters().data_sent, 1);
    let length = LENGTH as usize;
    assert!(pair.memory[0].bytes[..length] == pair.memory[1].bytes[900..900 + length]);
}

#[test]
fn a_lost_refusal_is_repeated_when_the_packet_is() {
    let mut pair = Pair::new(&Settings::default());
    let mut remote = pair.remote(0, 0);
    remote.token_value ^= 1;
    let before = pair.memory[1].bytes.clone();
    pair.post(0, 1, Work::Write { remote }, 64);
    let mut fate = lose_once(1, |packet| matches!(packet, Packet::Nak(_)));
    let done = pair.complete(0, LONG, &mut fate);
    assert_eq!((done.status, done.bytes), (Status::RemoteAccess, 0));
    assert_eq!(pair.drivers[1].device().counters().naks_sent, 2);
    assert!(pair.memory[1].bytes == before, "a refused write touched memory");
}

#[test]
fn a_send_waits_for_its_receive() {
    let mut pair = Pair::new(&Settings::default());
    let target = Target { jetty: pair.jetties[1], ..Target::default() };
    pair.post(0, 1, Work::SendImmediate { target, immediate: 0xFEED }, 5000);
    pair.run(Duration::from_ms(3), &mut fine);
    assert!(pair.completions(0).is_empty() && pair.drivers[1].device().counters().not_ready > 3);
    pair.post_receive(1, 2, 2000, 6000);
    assert_eq!(pair.complete(0, LONG, &mut fine).status, Status::Success);
    let received = pair.completions(1);
    assert_eq!(received.len(), 1);
    let got = (received[0].id, received[0].bytes, received[0].immediate);
    assert_eq!(got, (2, 5000, Some(0xFEED)));
    assert!(pair.memory[1].bytes[2000..7000] == pair.memory[0].bytes[..5000]);
}

#[test]
fn a_send_gives_up_after_its_retries() {
    let profile = Profile::new().not_ready_retries(3);
    let mut pair = Pair::new(&Settings { profile, ..Settings::default() });
    let target = Target { jetty: pair.jetties[1], ..Target::default() };
    pair.post(0, 1, Work::Send { target }, 10);
    assert_eq!(pair.complete(0, LONG, &mut fine).status, Status::ReceiverNotReady);
    assert_eq!(pair.drivers[0].device().counters().data_sent, 4, "once, and three times more");
}

#[test]
fn numbers_wrap_unnoticed() {
    for before in [1, 3, 9, 15, 16, 17] {
        let first_psn = (1 << 24) - before;
        let mut pair = Pair::new(&Settings { first_psn, ..Settings::default() });
        write(&mut pair);
        assert_eq!(pair.complete(0, LONG, &mut fine).status, Status::Success);
        assert_eq!(pair.drivers[0].device().counters().data_resent, 0);
        assert_eq!(pair.drivers[1].device().counters().drops.iter().sum::<u64>(), 0);
        assert_written(&pair);
    }
}

/// No later packet proves the loss, but detecting it does not take a time-out.
#[test]
fn the_end_of_what_is_sent_is_missed_before_the_time_out() {
    for lost in [1, 3] {
        let mut pair = Pair::new(&Settings { paths: 4, memory: 1 << 20, ..Settings::default() });
        let remote = pair.remote(0, 0);
        // Measures round trips first.
        pair.post(0, 0, Work::Write { remote }, 64 << 10);
        pair.complete(0, LONG, &mut fine);
        let packets = pair.drivers[0].device().counters().data_sent;
        let mut sent = 0;
        let mut fate = |_: &Pair, from: usize, _: &fairway_ub::Transmit| {
            sent += u64::from(from == 0);
            let is_last = (packets - lost + 1..=packets).contains(&sent);
            if from == 0 && is_last { Fate::Lose } else { Fate::Deliver }
        };
        let start = pair.now;
        pair.post(0, 1, Work::Write { remote }, 64 << 10);
        assert_eq!(pair.complete(0, LONG, &mut fate).status, Status::Success);
        let counters = pair.drivers[0].device().counters();
        assert_eq!((counters.timeouts, counters.spurious), (0, 0), "{lost}");
        assert!(counters.tail_probes >= 1, "{lost}");
        assert!(pair.now.since(start) < Profile::default().timeout_min, "{lost}");
    }
}

#[test]
fn network_without_loss_sees_no_probes() {
    let mut pair = Pair::new(&Settings { paths: 4, ..Settings::default() });
    let remote = pair.remote(0, 0);
    for (id, length) in [1, 64 << 10, 64, 1 << 19, 4096].into_iter().enumerate() {
        pair.post(0, id as u64, Work::Write { remote }, length);
        pair.complete(0, LONG, &mut fine);
        // No operation waits for the acknowledgement of a response, so it may come late.
        pair.post(1, id as u64, Work::Read { remote: pair.remote(1, 0) }, length);
        pair.complete(1, LONG, &mut fine);
        // Long enough for every timer.
        pair.run(Profile::default().timeout_min.times(2), &mut fine);
    }
    for nic in pair.drivers.iter().map(Driver::device) {
        let counters = nic.counters();
        assert_eq!((counters.tail_probes, counters.data_resent, counters.timeouts), (0, 0, 0));
    }
}

/// A packet that was sent twice yields no round trip, so the waiting times themselves have to grow.
#[test]
fn a_path_that_got_longer_is_not_probed_for_ever() {
    let timeout_min = Duration::from_ms(80);
    let profile = Profile::new().timeout_min(timeout_min);
    let mut pair = Pair::new(&Settings { profile, ..Settings::default() });
    let remote = pair.remote(0, 0);
    pair.post(0, 0, Work::Write { remote }, 64);
    pair.complete(0, LONG, &mut fine);
    // Longer than two round trips, after which a probe is sent, and shorter than the time-out.
    let longer = Duration::from_ms(30);
    let mut slow = |_: &Pair, from: usize, _: &Transmit| {
        if from == 0 { Fate::Delay(longer) } else { Fate::Deliver }
    };
    let mut probes = [0; 2];
    for id in 1..=20 {
        pair.post(0, id, Work::Write { remote }, 64);
        assert_eq!(pair.complete(0, LONG, &mut slow).status, Status::Success);
        pair.run(longer.times(2), &mut slow);
        probes[usize::from(id > 3)] = pair.drivers[0].device().counters().tail_probes;
    }
    assert!((1..=3).contains(&probes[0]), "{probes:?}");
    assert_eq!(probes[1], probes[0]);
    let counters = pair.drivers[0].device().counters();
    assert_eq!((counters.spurious, counters.timeouts), (probes[1], 0));
}

/// The path is given up without a time-out, because every loss is detected before.
#[test]
fn a_path_that_swallows_the_end_is_given_up() {
    // The messages below are spread over the paths, by turns: the default choice would not try
    // again a path that does not deliver.
    let profile = Profile::new().small_message_bytes(8 << 10);
    let policies = "path=spray";
    let mut pair = Pair::new(&Settings { paths: 4, profile, policies, ..Settings::default() });
    let remote = pair.remote(0, 0);
    pair.post(0, 0, Work::Write { remote }, 64 << 10);
    pair.complete(0, LONG, &mut fine);
    let mut swallow = |_: &Pair, from: usize, transmit: &Transmit| {
        let is_gone = from == 0 && transmit.route.path == 2;
        if is_gone { Fate::Lose } else { Fate::Deliver }
    };
    let mut id = 1;
    while pair.drivers[0].device().counters().paths_down == 0 {
        assert!(id < 40, "the path is still in use");
        pair.post(0, id, Work::Write { remote }, 16 << 10);
        assert_eq!(pair.complete(0, LONG, &mut swallow).status, Status::Success);
        id += 1;
    }
    assert_eq!(pair.drivers[0].device().counters().timeouts, 0, "after {id}");
}

#[test]
fn a_dead_path_is_left_and_taken_back() {
    let policies = "path=spray";
    let settings = Settings { paths: 4, memory: 1 << 24, policies, ..Settings::default() };
    let mut pair = Pair::new(&settings);
    let remote = pair.remote(0, 0);
    let mut fate = |pair: &Pair, _: usize, transmit: &fairway_ub::Transmit| {
        let dead = transmit.route.path == 2 && pair.now.as_ps() < 400_000_000_000;
        if dead { Fate::Lose } else { Fate::Deliver }
    };
    for id in 0..40 {
        pair.post(0, id, Work::Write { remote }, 1 << 20);
        pair.complete(0, LONG, &mut fate);
        pair.run(Duration::from_ms(5), &mut fate);
    }
    let (channel, path) = (pair.channels[0], 2);
    assert_eq!(pair.events(0), [Event::PathDown { channel, path }]);
    pair.run(Duration::from_ms(500), &mut fate);
    assert_eq!(pair.events(0), [Event::PathUp { channel, path }]);
    assert!(pair.drivers[0].device().paths(channel).iter().all(|path| path.usable));
}

#[test]
fn a_known_start_is_not_sent_again() {
    let mut pair = Pair::new(&Settings { memory: 1 << 22, ..Settings::default() });
    let remote = pair.remote(0, 0);
    pair.post(0, 1, Work::Write { remote }, 4 << 20);
    pair.complete(0, LONG, &mut fine);
    let counters = pair.drivers[0].device().counters();
    assert_eq!(counters.data_sent, 1024);
    let start_known = pair.log.iter().filter(
        |(_, packet)| matches!(packet, Packet::Data(data) if data.operation == Operation::Continuation),
    );
    assert_eq!(start_known.count() as u64, counters.continuation_packets_sent);
    assert_eq!(counters.continuation_bytes_saved, 20 * counters.continuation_packets_sent);
    // All packets except about one round trip's worth omit the address.
    assert!(counters.continuation_packets_sent > 900, "{}", counters.continuation_packets_sent);
}

#[test]
fn a_send_is_delivered_once_whatever_is_lost() {
    for seed in 0..200 {
        let mut random = fairway_device::random::Random::new(seed);
        let limits = Limits::new().message_slots(2);
        let mut pair = Pair::new(&Settings { limits, ..Settings::default() });
        let target = Target { jetty: pair.jetties[1], ..Target::default() };
        let mut fate = |_: &Pair, _: usize, _: &fairway_ub::Transmit| {
            if random.chance(300) { Fate::Lose } else { Fate::Deliver }
        };
        for id in 0..10 {
            pair.post(0, id, Work::SendImmediate { target, immediate: id }, 100 + id as u32);
            if id % 3 == 0 {
                pair.run(Duration::from_us(50), &mut fate);
            }
            pair.post_receive(1, id, 1000 * id, 1000);
        }
        let mut sent: Vec<u64> =
            (0..10).map(|_| pair.complete(0, LONG.times(10), &mut fate).id).collect();
        let mut received: Vec<_> =
            pair.completions(1).iter().map(|done| (done.immediate.unwrap(), done.bytes)).collect();
        sent.sort_unstable();
        received.sort_unstable();
        assert_eq!(sent, (0..10).collect::<Vec<_>>(), "seed {seed}");
        let expected: Vec<_> = (0..10).map(|id| (id, 100 + id as u32)).collect();
        assert_eq!(received, expected, "seed {seed}");
    }
}

#[test]
fn a_dead_peer_is_reported_in_time() {
    let mut pair = Pair::new(&Settings::default());
    write(&mut pair);
    pair.complete(0, LONG, &mut fine);
    let remote = pair.remote(0, 0);
    pair.post(0, 2, Work::Write { remote }, LENGTH);
    let start = pair.now;
    let profile = Profile::default();
    let most = profile.peer_dead.saturating_add(profile.keep_alive);
    let mut dead = |_: &Pair, _: usize, _: &fairway_ub::Transmit| Fate::Lose;
    let done = pair.complete(0, most, &mut dead);
    assert_eq!((done.id, done.status), (2, Status::PeerDead));
    assert!(pair.now.since(start) >= Duration::from_ps(profile.peer_dead.as_ps() / 2));
    let channel = pair.channels[0];
    assert_eq!(pair.events(0), [Event::PeerDead { channel }]);
    assert_eq!(pair.drivers[0].device().usage().messages, 0);
}

#[test]
fn close_is_repeated_until_it_is_answered() {
    let mut pair = Pair::new(&Settings::default());
    let channels = pair.channels;
    pair.drivers[0].device_mut().close_channel(pair.now, channels[0]).unwrap();
    pair.wake();
    let mut left = 3;
    let mut fate = |_: &Pair, from: usize, _: &fairway_ub::Transmit| {
        left -= i32::from(from == 0);
        if left >= 0 && from == 0 { Fate::Lose } else { Fate::Deliver }
    };
    pair.run(Duration::from_ms(90), &mut fate);
    assert_eq!(pair.events(1), [Event::PeerClosed { channel: channels[1] }]);
    assert_eq!(pair.events(0), [Event::Closed { channel: channels[0] }]);
}

#[test]
fn the_answer_to_a_close_is_repeated_too() {
    let mut pair = Pair::new(&Settings::default());
    let channels = pair.channels;
    pair.drivers[0].device_mut().close_channel(pair.now, channels[0]).unwrap();
    pair.wake();
    pair.run(Duration::from_ms(90), &mut lose_once(1, |packet| matches!(packet, Packet::Close(_))));
    assert_eq!(pair.events(0), [Event::Closed { channel: channels[0] }]);
    assert_eq!(pair.events(1), [Event::PeerClosed { channel: channels[1] }]);
    pair.run(Duration::from_secs(1), &mut fine);
    assert_eq!([0, 1].map(|n: usize| pair.drivers[n].device().usage().channels), [0, 0]);
}
