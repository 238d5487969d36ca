//! What acknowledgements tell about the paths: which of them was marked, and what was only late.

use super::*;
use fairway_wire::{Ack, AckFlags, Data};

fn pair(policy: &str, paths: u32) -> Pair {
    // No acknowledgement is due before the 64th packet unless something requires it.
    with_profile(policy, paths, |profile| profile.acknowledge_marks(true))
}

fn with_profile(policy: &str, paths: u32, change: impl Fn(Profile) -> Profile) -> Pair {
    let profile = Profile::default().acknowledge_every(1000).small_message_bytes(0);
    Pair::with_policy(0, paths, change(profile), 64, &policy.parse().unwrap())
}

impl Pair {
    /// The packets of one WRITE, which all leave at once.
    fn write_packets(&mut self, packets: u32) -> Vec<Transmit> {
        let remote = self.remote();
        self.post(1, Work::Write { remote }, packets * MTU);
        core::iter::from_fn(|| self.nics[0].poll_transmit(self.now)).collect()
    }

    pub(super) fn deliver_marked(&mut self, transmit: &Transmit) {
        let received = Received {
            route: transmit.route,
            packet: transmit.packet,
            payload: transmit.gather.length,
            ecn: Ecn::Congested,
            hops: 0,
        };
        let Verdict::Place(placement) = self.nics[1].handle_packet(self.now, &received) else {
            panic!("a payload to be placed");
        };
        self.nics[1].handle_placed(self.now, placement.token, 0);
    }

    /// The acknowledgement that leaves now, if any.
    fn acknowledgement(&mut self) -> Option<(Transmit, Ack)> {
        let transmit = self.nics[1].poll_transmit(self.now)?;
        let Packet::Ack(ack) = transmit.packet else { return None };
        Some((transmit, ack))
    }

    fn marks(&self) -> Vec<u64> {
        self.nics[0].paths(self.channels[0]).iter().map(|path| path.marked).collect()
    }
}

/// Packets of a chunk of 32 KiB, headers included.
const CHUNK: u32 = 30;

#[test]
fn a_marked_packet_is_acknowledged_at_once_and_its_path_is_told() {
    let mut pair = pair("cc=fixed:256K,path=spray", 4);
    let packets = pair.write_packets(60);
    for transmit in &packets[..40] {
        pair.deliver(1, transmit);
        assert!(pair.acknowledgement().is_none(), "nothing requires an acknowledgement");
    }
    let path = packets[40].route.path;
    assert_ne!(path, packets[0].route.path, "another chunk");
    pair.deliver_marked(&packets[40]);
    let (transmit, ack) = pair.acknowledgement().expect("at once");
    assert!(ack.flags.contains(AckFlags::ECHO));
    assert_eq!((ack.marks, ack.echo, transmit.route.path), (1, Psn::new(40), path));
    pair.now = pair.now + Duration::from_us(10);
    pair.deliver(0, &transmit);
    let mut wanted = vec![0; 4];
    wanted[usize::from(path)] = 1;
    assert_eq!(pair.marks(), wanted);
    // The mark was acknowledged: the next packet is an ordinary one.
    pair.deliver(1, &packets[41]);
    assert!(pair.acknowledgement().is_none());
}

#[test]
fn marks_count_for_the_path_of_their_packet_and_not_for_that_of_the_acknowledgement() {
    let mut pair = pair("cc=fixed:256K,path=spray", 4);
    let packets = pair.write_packets(60);
    let path = packets[0].route.path;
    pair.deliver_marked(&packets[0]);
    let (transmit, _) = pair.acknowledgement().expect("at once");
    let route = fairway_wire::Route { path: 3 - path, ..transmit.route };
    pair.now = pair.now + Duration::from_us(10);
    pair.deliver(0, &Transmit { route, ..transmit });
    let mut wanted = vec![0; 4];
    wanted[usize::from(path)] = 1;
    assert_eq!(pair.marks(), wanted);
}

/// The first packets of each of the first chunks of a WRITE, without requests for acknowledgements.
fn chunks(pair: &mut Pair, count: usize, packets: usize) -> Vec<Vec<Transmit>> {
    let all = pair.write_packets((count as u32 + 1) * CHUNK);
    let of_one_path = |a: &Transmit, b: &Transmit| a.route.path == b.route.path;
    let chunks: Vec<Vec<_>> = all
        .chunk_by(of_one_path)
        .map(|chunk| chunk.iter().take(packets).map(without_request).collect())
        .take(count)
        .collect();
    assert_eq!(chunks.len(), count);
    chunks
}

fn without_request(transmit: &Transmit) -> Transmit {
    let Packet::Data(data) = transmit.packet else { panic!("data") };
    Transmit { packet: Packet::Data(Data { ack_request: false, ..data }), ..*transmit }
}

/// Packets by several paths are marked; one acknowledgement names the paths, and what each took.
#[test]
fn one_acknowledgement_tells_the_marks_and_round_trips_of_several_paths() {
    let mut pair =
        with_profile("cc=fixed:480K,path=spray", 4, |profile| profile.reorder_tolerance(1000));
    let chunks = chunks(&mut pair, 4, 15);
    let path = |chunk: usize| usize::from(chunks[chunk][0].route.path);
    let mut wanted = vec![0; 4];
    for (at, marks) in [0, 2, 0, 9].into_iter().enumerate() {
        // Each chunk takes 1 us longer than the one before.
        pair.now = pair.now + Duration::from_us(1);
        chunks[at][..marks].iter().for_each(|transmit| pair.deliver_marked(transmit));
        chunks[at][marks..].iter().for_each(|transmit| pair.deliver(1, transmit));
        assert!(pair.acknowledgement().is_none(), "nothing requires an acknowledgement");
        wanted[path(at)] = marks as u64;
    }
    pair.now = pair.now + Duration::from_us(100);
    pair.nics[1].handle_timeout(pair.now);
    let (transmit, ack) = pair.acknowledgement().expect("it is delayed for so long");
    let marks: Vec<u8> = ack.paths.iter().map(|report| report.marks).collect();
    assert_eq!(marks, [0, 2, 0, 7], "a report counts no more than seven");
    assert_eq!(ack.marks, 11);
    let route = fairway_wire::Route { path: chunks[0][0].route.path, ..transmit.route };
    pair.deliver(0, &Transmit { route, ..transmit });
    // Those beyond seven count for the path of the acknowledgement.
    wanted[path(0)] += 2;
    wanted[path(3)] -= 2;
    assert_eq!(pair.marks(), wanted);
    let paths = pair.nics[0].paths(pair.channels[0]);
    for (at, us) in (1..=4).enumerate() {
        let round_trip = paths[path(at)].smoothed_rtt.as_ns();
        assert!(round_trip.abs_diff(us * 1000) <= 64, "path {at}: {round_trip} ns");
    }
}

/// A marked packet that finds no room in the reports is acknowledged at once.
#[test]
fn marks_of_more_paths_than_fit_are_acknowledged_at_once() {
    let mut pair =
        with_profile("cc=fixed:480K,path=spray", 16, |profile| profile.reorder_tolerance(1000));
    let mut firsts = chunks(&mut pair, 9, 1).into_iter().map(|chunk| chunk[0]);
    for transmit in firsts.by_ref().take(fairway_wire::PATH_REPORTS_MAX) {
        pair.deliver_marked(&transmit);
        assert!(pair.acknowledgement().is_none());
    }
    pair.deliver(1, &firsts.next().unwrap());
    assert!(pair.acknowledgement().is_none(), "it has no mark");
    let last = firsts.next().unwrap();
    pair.deliver_marked(&last);
    let (transmit, ack) = pair.acknowledgement().expect("for the mark without room");
    assert_eq!((ack.paths.len(), ack.marks), (5, 6));
    pair.now = pair.now + Duration::from_us(10);
    pair.deliver(0, &transmit);
    assert_eq!(pair.marks()[usize::from(last.route.path)], 1, "by the acknowledgement's path");
}

#[test]
fn every_chunk_can_request_an_acknowledgement() {
    let requests = |every_chunk| {
        let change = |profile: Profile| profile.acknowledge_chunks(every_chunk);
        let mut pair = with_profile("cc=fixed:480K,path=spray", 4, change);
        let packets = pair.write_packets(4 * CHUNK);
        let chunks = packets.chunk_by(|a, b| a.route.path == b.route.path).count();
        let requests = packets
            .iter()
            .filter(|transmit| matches!(transmit.packet, Packet::Data(data) if data.ack_request))
            .count();
        (chunks, requests)
    };
    let (chunks, few) = requests(false);
    assert!(few < chunks);
    assert_eq!(requests(true), (chunks, chunks));
}

/// A peer may report any number of marks for any packets: each counts once at most.
#[test]
fn reports_of_packets_that_were_never_sent_change_nothing() {
    let mut pair =
        with_profile("cc=fixed:480K,path=spray", 4, |profile| profile.reorder_tolerance(1000));
    let packets = pair.write_packets(8);
    packets.iter().for_each(|transmit| pair.deliver(1, transmit));
    let (transmit, mut ack) = pair.acknowledgement().expect("the last packet requests one");
    for offset in [2047, -2048, 1, 700] {
        let report = fairway_wire::PathReport { offset, retry: true, marks: 7, delay: 0 };
        assert!(ack.paths.push(report));
    }
    pair.now = pair.now + Duration::from_us(10);
    pair.deliver(0, &Transmit { packet: Packet::Ack(ack), ..transmit });
    assert_eq!(pair.marks(), [0; 4]);
}

#[test]
fn a_gap_that_was_reported_is_acknowledged_when_it_closes() {
    let mut pair = pair("cc=fixed:256K,path=spray", 1);
    let packets = pair.write_packets(8);
    for transmit in packets[..2].iter().chain(&packets[3..7]).chain([&packets[2]]) {
        pair.deliver(1, transmit);
        assert!(pair.acknowledgement().is_none(), "the peer was not told of the gap");
    }
    // The same with an acknowledgement while the third is missing.
    let mut pair = self::pair("cc=fixed:256K,path=spray", 1);
    let packets = pair.write_packets(8);
    for transmit in packets[..2].iter().chain(&packets[3..6]) {
        pair.deliver(1, transmit);
    }
    pair.deliver_marked(&packets[6]);
    let (_, ack) = pair.acknowledgement().expect("for the mark");
    assert!(ack.flags.contains(AckFlags::SELECTIVE));
    pair.deliver(1, &packets[2]);
    let (_, ack) = pair.acknowledgement().expect("the gap is closed");
    assert!(!ack.flags.contains(AckFlags::SELECTIVE));
    assert_eq!(ack.cumulative, Psn::new(6));
    assert!(!ack.flags.contains(AckFlags::ECHO), "its round trip is not that of the path");
}

#[test]
fn a_marked_packet_that_was_acknowledged_for_another_reason_requires_no_second_acknowledgement() {
    let mut pair = pair("cc=fixed:256K,path=spray", 1);
    let packets = pair.write_packets(12);
    for transmit in packets[..2].iter().chain(&packets[3..6]) {
        pair.deliver(1, transmit);
    }
    pair.deliver_marked(&packets[6]);
    pair.acknowledgement().expect("for the mark");
    // This packet is marked, and closes a gap that was reported.
    pair.deliver_marked(&packets[2]);
    let (_, ack) = pair.acknowledgement().expect("the gap is closed");
    assert_eq!(ack.marks, 2);
    pair.deliver(1, &packets[7]);
    assert!(pair.acknowledgement().is_none(), "all marks are acknowledged");
}

/// The last packet of a chunk is lost: no packet of its own path proves that. By time it is found
/// after a round trip and a reordering window, and otherwise after a round trip of silence.
#[test]
fn a_loss_at_the_end_of_a_path_is_found_by_time() {
    let resent_after = |policy: &str| {
        let profile = Profile::default().timeout_min(Duration::from_us(80));
        let profile = profile.acknowledge_delay(Duration::from_us(10)).small_message_bytes(0);
        let mut pair = Pair::with_policy(0, 4, profile, 64, &policy.parse().unwrap());
        let pass = |pair: &mut Pair, us| pair.now = pair.now + Duration::from_us(us);
        // Round trips of 20 us, until little else is expected.
        for _ in 0..40 {
            let packet = pair.write_packets(1);
            pass(&mut pair, 10);
            pair.deliver(1, &packet[0]);
            pass(&mut pair, 10);
            let (transmit, _) = pair.acknowledgement().expect("the last packet requests one");
            pair.deliver(0, &transmit);
        }
        let remote = pair.remote();
        pair.post(1, Work::Write { remote }, 3 * CHUNK * MTU);
        let mut packets = Vec::new();
        while packets.len() < 3 * CHUNK as usize {
            pair.now = pair.now + Duration::from_ns(100);
            packets.push(pair.nics[0].poll_transmit(pair.now).expect("the window is large"));
        }
        let path = |index: usize| packets[index].route.path;
        let end = (1..).find(|index| path(*index) != path(index - 1)).expect("several chunks");
        let lost = packets[end - 1];
        let sent_at = pair.now;
        pass(&mut pair, 10);
        for transmit in packets.iter().filter(|transmit| transmit.packet != lost.packet) {
            pair.deliver(1, transmit);
        }
        let (transmit, _) = pair.acknowledgement().expect("the last packet requests one");
        pass(&mut pair, 10);
        pair.deliver(0, &transmit);
        for _ in 0..10_000 {
            if let Some(Transmit { packet: Packet::Data(data), .. }) =
                pair.nics[0].poll_transmit(pair.now)
            {
                assert!(data.retry);
                return pair.now.since(sent_at).as_us();
            }
            pass(&mut pair, 1);
            pair.nics[0].handle_timeout(pair.now);
        }
        panic!("{policy}: it is never resent");
    };
    let by_time = resent_after("cc=fixed:256K,path=spray,loss=rack");
    assert!((20..24).contains(&by_time), "{by_time} us");
    let by_silence = resent_after("cc=fixed:256K,path=spray,loss=path-order");
    assert!(by_silence > 30, "{by_silence} us");
}

/// A driver that receives many packets at a time can send an acknowledgement that covers enough of
/// them before it receives more.
#[test]
fn an_acknowledgement_of_enough_packets_is_announced() {
    let profile = |profile: Profile| profile.acknowledge_every(8);
    let mut pair = with_profile("cc=fixed:256K", 1, profile);
    let packets = pair.write_packets(20);
    for eight in packets.chunks_exact(8) {
        for transmit in eight {
            assert!(!pair.nics[1].has_full_ack(0), "before {:?}", transmit.packet);
            pair.deliver(1, transmit);
        }
        assert!(pair.nics[1].has_full_ack(0));
        let transmit = pair.nics[1].poll_urgent(pair.now, 0).expect("an acknowledgement");
        assert!(matches!(transmit.packet, Packet::Ack(_)));
        assert!(pair.nics[1].poll_urgent(pair.now, 0).is_none() && !pair.nics[1].has_full_ack(0));
    }
}
