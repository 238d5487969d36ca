//! Operations that go by several channels of a group in parts.

use super::*;
use crate::api::Event;
use fairway_wire::Tag;

const FIRST: u32 = 0xFF_FFFE;
const PART: u32 = 2 * MTU;

fn profile() -> Profile {
    Profile::default().part_bytes(PART)
}

fn pair(channels: u32) -> Pair {
    Pair::with_group_of(channels, profile())
}

/// By channel: how many packets with payload it carried in each direction.
fn payloads(packets: &[Transmit]) -> [u32; 4] {
    let mut counts = [0; 4];
    for transmit in packets.iter().filter(|transmit| transmit.gather.length > 0) {
        counts[transmit.channel.index()] += 1;
    }
    counts
}

/// Runs the pair until it is idle, and returns what was sent.
fn run(pair: &mut Pair) -> Vec<Transmit> {
    let mut packets = Vec::new();
    pair.run_until_idle(|_, transmit| {
        packets.push(*transmit);
        false
    });
    packets
}

#[test]
fn a_large_write_goes_by_all_channels_and_completes_once() {
    let mut pair = pair(3);
    let remote = pair.remote();
    let length = 9 * MTU + 1;
    pair.post(7, Work::Write { remote }, length);
    let packets = run(&mut pair);
    // Parts are whole packets, but for the last.
    assert_eq!(payloads(&packets), [4, 4, 2, 0]);
    let mut effects = core::mem::take(&mut pair.effects);
    effects.sort_unstable();
    let every: Vec<u64> = (0..10).map(|packet| packet * u64::from(MTU)).collect();
    assert_eq!(effects, every, "each packet was placed once");
    let done = pair.completions(0);
    assert_eq!(done.len(), 1);
    assert_eq!((done[0].id, done[0].status, done[0].bytes), (7, Status::Success, length));
    assert_eq!(done[0].channel, pair.channels[0]);
    assert_eq!(pair.nics[0].counters().divided, 1);
    assert_eq!(pair.nics[0].usage().messages, 0);
}

#[test]
fn a_large_read_is_answered_by_all_channels() {
    for mode in [ServiceMode::Rol, ServiceMode::Rot, ServiceMode::Roi] {
        let mut pair = pair(2);
        let remote = pair.remote();
        let order = OrderRequest { mode, ..OrderRequest::default() };
        pair.post_in_order(7, Work::Read { remote }, 8 * MTU, order);
        let packets = run(&mut pair);
        assert_eq!(payloads(&packets), [4, 4, 0, 0]);
        assert_eq!(pair.placed, [8, 0]);
        let done = pair.completions(0);
        assert_eq!((done.len(), done[0].status), (1, Status::Success), "{mode:?}");
        assert_eq!(pair.nics.each_ref().map(|nic| nic.usage().messages), [0, 0]);
    }
}

#[test]
fn operations_that_the_target_counts_as_one_stay_whole() {
    let target = named(1);
    let mut pair = pair(3);
    let remote = pair.remote();
    pair.receive(1, 64 * MTU);
    pair.receive(2, 64 * MTU);
    let tagged = |tag| OrderRequest { tag, ..OrderRequest::default() };
    pair.post(0, Work::Send { target }, 16 * MTU);
    pair.post(1, Work::WriteImmediate { remote, target, immediate: 4 }, 16 * MTU);
    pair.post_in_order(2, Work::Write { remote }, 16 * MTU, tagged(Tag::Ro));
    pair.post_in_order(3, Work::Write { remote }, 16 * MTU, tagged(Tag::So));
    // Too short for two parts.
    pair.post(4, Work::Write { remote }, 2 * PART - 1);
    run(&mut pair);
    assert_eq!(pair.nics[0].counters().divided, 0);
    assert_eq!(pair.completions(0).len(), 5);
}

#[test]
fn a_peer_that_did_not_agree_is_sent_no_parts() {
    let mut pair = Pair::with_profile(FIRST, 1, profile()).with_staging();
    pair.without_parts();
    pair.join().unwrap();
    let remote = pair.remote();
    pair.post(4, Work::Write { remote }, 16 * MTU);
    run(&mut pair);
    assert_eq!(pair.nics[0].counters().divided, 0);
}

#[test]
fn a_range_that_leaves_the_segment_is_refused_in_all_its_parts() {
    for write in [true, false] {
        let mut pair = pair(4);
        let mut remote = pair.remote();
        remote.address += (1 << 24) - u64::from(4 * MTU);
        let work = if write { Work::Write { remote } } else { Work::Read { remote } };
        pair.post(7, work, 16 * MTU);
        run(&mut pair);
        let done = pair.completions(0);
        assert_eq!(done.len(), 1, "the refusal of four parts is reported once");
        assert_eq!(done[0].status, Status::RemoteAccess);
        assert_eq!((pair.placed, pair.nics[0].counters().divided), ([0, 0], 1));
    }
}

#[test]
fn an_address_that_would_wrap_is_not_divided() {
    let mut pair = pair(2);
    let remote = RemoteRange { address: u64::MAX - 10, ..pair.remote() };
    pair.post(7, Work::Write { remote }, 16 * MTU);
    run(&mut pair);
    assert_eq!(pair.nics[0].counters().divided, 0);
    assert_eq!(pair.completions(0)[0].status, Status::RemoteAccess);
}

#[test]
fn completion_in_order_waits_for_all_parts() {
    let mut pair = pair(2);
    let remote = pair.remote();
    let order = OrderRequest { complete_in_order: true, ..OrderRequest::default() };
    pair.post_in_order(1, Work::Write { remote }, 16 * MTU, order);
    pair.post_in_order(2, Work::Write { remote }, 8, order);
    pair.post_in_order(3, Work::Read { remote }, 16 * MTU, order);
    pair.post_in_order(4, Work::Write { remote }, 8, order);
    let mut random = Random::new(3);
    pair.run_until_idle(|_, _| random.number().is_multiple_of(5));
    assert_eq!(pair.ids(0), [1, 2, 3, 4]);
    assert_eq!(pair.nics[0].counters().divided, 2);
}

/// The operation behind the fence waits for a READ in parts, and is divided when it may go.
#[test]
fn a_fence_waits_for_all_parts_of_a_read() {
    let mut pair = pair(2);
    let remote = pair.remote();
    let order = OrderRequest { fence: true, ..OrderRequest::default() };
    pair.post(1, Work::Read { remote }, 16 * MTU);
    pair.post_in_order(2, Work::Write { remote }, 16 * MTU, order);
    assert_eq!(pair.nics[0].counters().divided, 1);
    run(&mut pair);
    assert_eq!(pair.ids(0), [1, 2]);
    assert_eq!(pair.nics[0].counters().divided, 2);
}

#[test]
fn an_operation_is_whole_where_no_records_are_left_for_parts() {
    let limits =
        Limits { channels: 4, jetties: 8, read_slots: 1, messages: 6, ..Limits::default() };
    let new = |n| UbDevice::new(Cna::new(n), &limits, &profile(), u64::from(n));
    let swift = "cc=swift".parse().unwrap();
    let mut pair = Pair::between([1, 2].map(new), FIRST, 1, &swift);
    pair.join().unwrap();
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, 16 * MTU);
    pair.post(2, Work::Write { remote }, 16 * MTU);
    assert_eq!(pair.nics[0].counters().divided, 1, "three records of four are in use");
    run(&mut pair);
    assert_eq!(pair.completions(0).len(), 2);
}

#[test]
fn an_aborted_jetty_ends_every_part_at_once() {
    for sent in [0, 1, 5, 1000] {
        let mut pair = pair(3);
        let remote = pair.remote();
        pair.post(1, Work::Write { remote }, 32 * MTU);
        pair.post(2, Work::Read { remote }, 32 * MTU);
        for _ in 0..sent {
            let Some(transmit) = pair.nics[0].poll_transmit(pair.now) else { break };
            pair.deliver(1, &transmit);
        }
        pair.nics[0].abort_jetty(pair.jetties[0]).unwrap();
        let done = pair.completions(0);
        assert!(done.iter().all(|completion| completion.status == Status::Flushed), "{done:?}");
        assert_eq!(done.len(), 2, "after {sent} packets");
        run(&mut pair);
        assert_eq!(pair.completions(0), []);
        assert_eq!(pair.nics.each_ref().map(|nic| nic.usage().messages), [0, 0]);
        assert_eq!(pair.nics[1].usage().arrivals, 0, "the target drops what had arrived");
    }
}

/// A part that ends early leaves packets of its answer behind, and its slot goes to the next part.
#[test]
fn parts_have_transaction_numbers_of_their_own() {
    let mut pair = pair(3);
    let remote = pair.remote();
    pair.post(1, Work::Read { remote }, 32 * MTU);
    pair.post(2, Work::Read { remote }, 1);
    let mut numbers = Vec::new();
    while let Some(transmit) = pair.nics[0].poll_transmit(pair.now) {
        if let Packet::Data(data) = transmit.packet {
            numbers.push(data.transaction);
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers.len(), 4, "three parts, and an operation of one byte");
    numbers.dedup();
    assert_eq!(numbers.len(), 4, "{numbers:?}");
}

/// "Flushed" says that nothing of the operation was done.
#[test]
fn a_failed_jetty_flushes_an_operation_in_parts_only_if_none_has_begun() {
    for (sent, status, placed) in [(0, Status::Flushed, 0), (1, Status::Success, 32)] {
        let mut pair = pair(3);
        let remote = pair.remote();
        pair.post(1, Work::Write { remote }, 32 * MTU);
        for _ in 0..sent {
            let transmit = pair.nics[0].poll_transmit(pair.now).unwrap();
            pair.deliver(1, &transmit);
        }
        pair.nics[0].set_jetty_state(pair.jetties[0], JettyState::Error).unwrap();
        run(&mut pair);
        let done = pair.completions(0);
        assert_eq!((done.len(), done[0].status), (1, status));
        assert_eq!(pair.placed[1], placed);
    }
}

#[test]
fn operations_in_parts_end_with_their_group() {
    for closes in [true, false] {
        let mut pair = pair(3);
        let remote = pair.remote();
        pair.post(1, Work::Write { remote }, 32 * MTU);
        pair.post(2, Work::Read { remote }, 32 * MTU);
        for _ in 0..5 {
            let transmit = pair.nics[0].poll_transmit(pair.now).unwrap();
            pair.deliver(1, &transmit);
        }
        let (now, leader) = (pair.now, pair.channels[0]);
        let expected = match closes {
            true => {
                pair.nics[0].close_channel(now, leader).unwrap();
                Status::Flushed
            }
            false => {
                pair.run_losing_all(Duration::from_secs(8));
                Status::PeerDead
            }
        };
        let done = pair.completions(0);
        let ends: Vec<_> = done.iter().map(|completion| completion.status).collect();
        assert_eq!(ends, [expected; 2]);
        assert_eq!(pair.nics[0].usage().messages, 0);
        if !closes {
            assert_eq!(pair.events(0), [Event::PeerDead { channel: leader }]);
        }
    }
}

#[test]
fn memory_that_is_missing_for_one_part_fails_the_operation_once() {
    let mut pair = pair(2);
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, 16 * MTU);
    let mut ungathered = 0;
    for _ in 0..1_000 {
        pair.now = pair.now + Duration::from_ms(1);
        for n in 0..2 {
            pair.nics[n].handle_timeout(pair.now);
            while let Some(transmit) = pair.nics[n].poll_transmit(pair.now) {
                // The memory of the second part.
                if transmit.gather.length > 0 && transmit.gather.offset >= u64::from(8 * MTU) {
                    pair.nics[n].handle_ungathered(&transmit);
                    ungathered += 1;
                } else {
                    pair.deliver(1 - n, &transmit);
                }
            }
        }
    }
    assert!(ungathered > 0);
    let done = pair.completions(0);
    assert_eq!((done.len(), done[0].status), (1, Status::LocalMemory));
    assert_eq!(pair.nics[0].usage().messages, 0);
}

#[test]
fn operations_in_parts_survive_loss() {
    for seed in 0..20 {
        let mut pair = pair(4);
        let remote = pair.remote();
        for id in 0..4 {
            pair.post(2 * id, Work::Write { remote }, 40 * MTU + 7);
            pair.post(2 * id + 1, Work::Read { remote }, 33 * MTU + 9);
        }
        let mut random = Random::new(seed);
        pair.run_until_idle(|_, _| random.number().is_multiple_of(5));
        let done = pair.completions(0);
        assert_eq!(done.len(), 8);
        assert!(done.iter().all(|completion| completion.status == Status::Success));
        assert_eq!(pair.nics[0].counters().divided, 8);
    }
}

#[test]
fn longest_operations_are_sent_whole_or_in_parts() {
    for members in [0, 1] {
        for reads in [false, true] {
            let mut pair = Pair::new(0, 1);
            for _ in 0..members {
                pair.join().unwrap();
            }
            let length = 1 << 33;
            let request =
                SegmentRequest { address: 0, length, rights: Rights::ALL, token_value: 77 };
            let [near, far] = [0, 1].map(|n: usize| pair.nics[n].register(&request).unwrap());
            let remote = RemoteRange { token_id: far.token_id(), token_value: 77, address: 0 };
            let work = if reads { Work::Read { remote } } else { Work::Write { remote } };
            let request = WorkRequest {
                id: 1,
                channel: pair.channels[0],
                work,
                local: LocalRange { segment: near, offset: 0, length: u32::MAX },
                signaled: true,
                order: OrderRequest::default(),
            };
            pair.nics[0].post(pair.now, pair.jetties[0], &request).unwrap();
            assert!(pair.nics[0].poll_transmit(pair.now).is_some());
            assert_eq!(pair.nics[0].counters().divided, u64::from(members > 0));
        }
    }
}
