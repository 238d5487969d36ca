//! Tests of the states of a queue pair.

use super::*;
use alloc::format;
use alloc::string::String;

fn attributes() -> Attributes {
    let reliability = Reliability { read_depth: 4, ..Reliability::default() };
    Attributes { rights: Rights::ALL, q_key: 0, reliability, rnr_timer: RNR }
}

/// All changes, with parameters that are in range.
fn changes() -> [(&'static str, Change); 8] {
    let init = Change::Init { rights: Rights::ALL, p_key: 0xffff, q_key: 0 };
    let (peer, expected, read_depth) = (Peer::default(), Psn::new(0), 4);
    let receive = Change::ReadyToReceive { peer, mtu: MTU, expected, read_depth, rnr_timer: RNR };
    let reliability = Reliability { read_depth: 4, ..Reliability::default() };
    let send = Change::ReadyToSend { first: expected, reliability };
    [
        ("reset", Change::Reset),
        ("init", init),
        ("receive", receive),
        ("send", send),
        ("drain", Change::Drain),
        ("resume", Change::Resume),
        ("adjust", Change::Adjust(attributes())),
        ("error", Change::Error),
    ]
}

#[test]
fn the_table_of_states_is_the_specifications() {
    let mut table = String::new();
    for transport in [Transport::Rc, Transport::Ud] {
        table += &format!("{transport:?}\n");
        for state in QueuePairState::ALL {
            table += &format!("{:<15}", format!("{state:?}"));
            for (name, change) in changes() {
                if let Ok(next) = state.after(transport, &change) {
                    table += &format!(" {name}>{next:?}");
                }
            }
            table += "\n";
        }
    }
    assert_eq!(table, include_str!("states.txt"));
}

#[test]
fn permitted_posts_depend_on_the_state() {
    let mut pair = Pair::new(Transport::Rc);
    let number = pair.pairs[0];
    let send = pair.request(0, 1, Work::Send { tail: Tail::Nothing }, 8);
    let receive = ReceiveRequest { id: 2, local: pair.local(0, 0, 8) };
    pair.hosts[0].modify(number, &Change::Reset).unwrap();
    assert_eq!(pair.hosts[0].post_send(pair.now, number, &send), Err(PostError::State));
    assert_eq!(pair.hosts[0].post_receive(number, &receive), Err(PostError::State));
    for (_, change) in &changes()[1..3] {
        pair.hosts[0].modify(number, change).unwrap();
        assert_eq!(pair.hosts[0].post_send(pair.now, number, &send), Err(PostError::State));
        assert_eq!(pair.hosts[0].post_receive(number, &receive), Ok(()));
    }
    pair.hosts[0].modify(number, &Change::Error).unwrap();
    assert_eq!(pair.received(0), [(2, Status::Flushed, 0), (2, Status::Flushed, 0)]);
    // In the error state every request is accepted, and flushed at once.
    assert_eq!(pair.hosts[0].post_send(pair.now, number, &send), Ok(()));
    assert_eq!(pair.hosts[0].post_receive(number, &receive), Ok(()));
    assert_eq!(pair.sent(0), [(1, Status::Flushed)]);
    assert_eq!(pair.received(0), [(2, Status::Flushed, 0)]);
    assert_eq!(pair.hosts[0].in_use(), [0; 3]);
}

#[test]
fn parameters_out_of_range_change_nothing() {
    let mut pair = Pair::new(Transport::Rc);
    let number = pair.pairs[0];
    pair.hosts[0].modify(number, &Change::Reset).unwrap();
    pair.hosts[0].modify(number, &changes()[1].1).unwrap();
    let Change::ReadyToReceive { peer, expected, rnr_timer, .. } = changes()[2].1 else {
        panic!("the third change")
    };
    for (mtu, read_depth, name) in [(1000, 4, "mtu"), (0, 4, "mtu"), (256, 5, "read_depth")] {
        let change = Change::ReadyToReceive { peer, mtu, expected, read_depth, rnr_timer };
        let refused = pair.hosts[0].modify(number, &change);
        assert_eq!(refused, Err(ChangeError::Parameter(name)));
        assert_eq!(pair.hosts[0].state(number), Some(QueuePairState::Init));
    }
}

#[test]
fn drain_completes_operations_under_way() {
    let profile = Profile { window_packets: 2, acknowledge_every: 2, ..Profile::default() };
    let mut pair = Pair::with(Transport::Rc, Reliability::default(), profile);
    pair.write(0, 1, 4 * MTU);
    pair.write(0, 2, 8);
    pair.pull(0);
    pair.hosts[0].modify(pair.pairs[0], &Change::Drain).unwrap();
    assert_eq!(pair.hosts[0].poll_event(), None);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    let drained = Event::Drained { queue_pair: pair.pairs[0] };
    assert_eq!(pair.hosts[0].poll_event(), Some(drained));
    assert_eq!(pair.hosts[0].poll_event(), None, "once");
    pair.hosts[0].modify(pair.pairs[0], &Change::Resume).unwrap();
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(2, Status::Success)]);
}

#[test]
fn drain_without_operations_ends_at_once() {
    let mut pair = Pair::new(Transport::Rc);
    pair.write(0, 1, 8);
    pair.run_until_idle();
    for _ in 0..2 {
        pair.hosts[0].modify(pair.pairs[0], &Change::Drain).unwrap();
        let drained = Event::Drained { queue_pair: pair.pairs[0] };
        assert_eq!(pair.hosts[0].poll_event(), Some(drained));
        pair.hosts[0].modify(pair.pairs[0], &Change::Resume).unwrap();
    }
}

#[test]
fn a_reset_forgets_everything_and_the_queue_pair_lives_again() {
    let mut pair = Pair::new(Transport::Rc);
    pair.hold = true;
    pair.receive(1, 1, 64);
    pair.receive(1, 2, 64);
    pair.send(0, 1, 8);
    pair.read(0, 2, 8);
    pair.pull(0);
    pair.flow(1);
    let late = pair.held[0];
    for n in 0..2 {
        pair.hosts[n].modify(pair.pairs[n], &Change::Reset).unwrap();
        assert_eq!(pair.hosts[n].in_use(), [0; 3]);
    }
    assert_eq!((pair.sent(0), pair.received(1)), (Vec::new(), Vec::new()));
    let reliability = Reliability { read_depth: 4, ..Reliability::default() };
    for n in 0..2 {
        let peer = Peer { address: 0, queue_pair: pair.pairs[1 - n] };
        connect(&mut pair.hosts[n], pair.pairs[n], peer, reliability);
    }
    pair.receive(1, 3, 64);
    pair.send(0, 3, 8);
    pair.pull(0);
    pair.flow(1);
    // A placement begun before the reset does not count as one begun after it.
    pair.hosts[1].handle_placed(pair.now, late, 0);
    assert_eq!(pair.received(1), []);
    pair.hosts[1].handle_placed(pair.now, pair.held[1], 0);
    assert_eq!(pair.received(1), [(3, Status::Success, 8)]);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(3, Status::Success)]);
}

#[test]
fn a_message_that_a_reset_cuts_off_is_forgotten() {
    for transport in [Transport::Rc, Transport::Uc] {
        for is_write in [true, false] {
            let mut pair = Pair::new(transport);
            pair.receive(1, 1, 4 * MTU);
            match is_write {
                true => pair.write(0, 1, 3 * MTU),
                false => pair.send(0, 1, 3 * MTU),
            }
            let sent = pair.pull(0);
            pair.deliver(1, &sent[0]);
            pair.wires[1].clear();
            let reliability = Reliability { read_depth: 4, ..Reliability::default() };
            for n in 0..2 {
                pair.hosts[n].modify(pair.pairs[n], &Change::Reset).unwrap();
                let peer = Peer { address: 0, queue_pair: pair.pairs[1 - n] };
                connect(&mut pair.hosts[n], pair.pairs[n], peer, reliability);
            }
            pair.receive(1, 2, 64);
            pair.send(0, 2, 8);
            pair.run_until_idle();
            assert_eq!(pair.sent(0), [(2, Status::Success)], "{transport:?} {is_write}");
            assert_eq!(pair.received(1), [(2, Status::Success, 8)], "{transport:?} {is_write}");
        }
    }
}

#[test]
fn unpolled_completions_go_with_their_queue_pair() {
    let mut pair = Pair::new(Transport::Rc);
    pair.receive(0, 9, 8);
    pair.write(0, 1, 8);
    pair.send(1, 5, 8);
    pair.run_until_idle();
    assert!(pair.hosts[0].has_completions(pair.pairs[0]));
    pair.hosts[0].destroy_queue_pair(pair.pairs[0]).unwrap();
    assert!(!pair.hosts[0].has_completions(pair.pairs[0]));
    assert_eq!(pair.sent(0), []);
    assert_eq!(pair.received(0), []);
    assert!(pair.hosts[1].has_completions(pair.pairs[1]));
    assert_eq!(pair.sent(1), [(5, Status::Success)]);
    assert!(!pair.hosts[1].has_completions(pair.pairs[1]));
}

#[test]
fn a_destroyed_queue_pairs_number_is_not_used_again_soon() {
    let mut pair = Pair::new(Transport::Rc);
    pair.write(0, 1, 8);
    let late = pair.pull(0)[0];
    pair.hosts[1].destroy_queue_pair(pair.pairs[1]).unwrap();
    let number = pair.hosts[1].create_queue_pair(&config(Transport::Rc, pair.queues[1])).unwrap();
    assert_ne!(number, pair.pairs[1]);
    assert_eq!(pair.deliver(1, &late), Verdict::Drop(DropReason::NoQueuePair));
    let mut numbers = Vec::new();
    for _ in 0..600 {
        let config = config(Transport::Rc, pair.queues[1]);
        let number = pair.hosts[1].create_queue_pair(&config).unwrap();
        assert!(number.value() > 1, "0 and 1 are not ours to give");
        pair.hosts[1].destroy_queue_pair(number).unwrap();
        numbers.push(number);
    }
    assert!(numbers.windows(500).all(|some| some[0] != some[499]));
}

#[test]
fn first_packet_is_reported_as_established() {
    let mut pair = Pair::new(Transport::Rc);
    let number = pair.pairs[1];
    pair.hosts[1].modify(number, &Change::Reset).unwrap();
    let peer = Peer { address: 0, queue_pair: pair.pairs[0] };
    pair.hosts[1].modify(number, &changes()[1].1).unwrap();
    let expected = Psn::new(0xff_fffe);
    let (read_depth, rnr_timer) = (4, RNR);
    let ready = Change::ReadyToReceive { peer, mtu: MTU, expected, read_depth, rnr_timer };
    pair.hosts[1].modify(number, &ready).unwrap();
    pair.write(0, 1, 8);
    pair.write(0, 2, 8);
    pair.run_until_idle();
    assert_eq!(pair.hosts[1].poll_event(), Some(Event::Established { queue_pair: number }));
    assert_eq!(pair.hosts[1].poll_event(), None);
    assert_eq!(pair.sent(0).len(), 2, "it answers before it is ready to send");
}

#[test]
fn memory_in_use_is_released_when_its_operations_are_done() {
    let mut pair = Pair::new(Transport::Rc);
    pair.write(0, 1, 8);
    let segment = pair.regions[0].segment;
    assert_eq!(pair.hosts[0].deregister(segment), Ok(false));
    pair.run_until_idle();
    assert_eq!(pair.hosts[0].poll_event(), Some(Event::SegmentReleased { segment }));
}

#[test]
fn attributes_change_in_a_state_that_receives() {
    let mut pair = Pair::new(Transport::Rc);
    let number = pair.pairs[0];
    let too_many = Reliability { rnr_retries: 8, ..attributes().reliability };
    for (reliability, name) in [
        (too_many, "retries"),
        (Reliability { read_depth: 0, ..Reliability::default() }, "read_depth"),
    ] {
        let change = Change::Adjust(Attributes { reliability, ..attributes() });
        assert_eq!(pair.hosts[0].modify(number, &change), Err(ChangeError::Parameter(name)));
    }
    let granting = |rights| Change::Adjust(Attributes { rights, ..attributes() });
    pair.hosts[1].modify(pair.pairs[1], &granting(Rights::WRITE)).unwrap();
    pair.write(0, 1, 8);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    pair.hosts[1].modify(pair.pairs[1], &granting(Rights::READ)).unwrap();
    pair.write(0, 2, 8);
    pair.run_until_idle();
    let [(2, status)] = pair.sent(0)[..] else { panic!("one completion") };
    assert!(matches!(status, Status::RemoteAccess | Status::RemoteInvalidRequest), "{status:?}");
    pair.hosts[0].modify(number, &Change::Reset).unwrap();
    let refused = pair.hosts[0].modify(number, &granting(Rights::READ));
    assert_eq!(refused, Err(ChangeError::State(QueuePairState::Reset)));
}
