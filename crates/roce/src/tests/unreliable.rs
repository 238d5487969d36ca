//! Tests of UC and UD.

use super::*;

#[test]
fn an_unreliable_send_is_done_when_it_has_left() {
    let mut pair = Pair::new(Transport::Uc);
    pair.send(0, 1, 2 * MTU);
    pair.write(0, 2, 8);
    assert_eq!(pair.pull(0).len(), 3);
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success)]);
    pair.receive(1, 7, 4 * MTU);
    pair.flow(1);
    assert_eq!(pair.received(1), [(7, Status::Success, 2 * MTU)]);
    assert_eq!(pair.pull(1), [], "it is not acknowledged");
}

#[test]
fn a_broken_message_is_dropped_and_its_receive_taken_by_the_next() {
    for lost in 0..3 {
        let mut pair = Pair::new(Transport::Uc);
        pair.receive(1, 7, 4 * MTU);
        pair.send(0, 1, 3 * MTU);
        pair.send(0, 2, 2 * MTU);
        let sent = pair.pull(0);
        pair.wires[1].clear();
        for (index, transmit) in sent.iter().enumerate() {
            if index != lost {
                pair.deliver(1, transmit);
            }
        }
        assert_eq!(pair.received(1), [(7, Status::Success, 2 * MTU)], "packet {lost} lost");
        assert_eq!(pair.states()[1], QueuePairState::ReadyToSend);
    }
}

#[test]
fn accesses_without_rights_of_an_unreliable_peer_are_dropped_silently() {
    let mut pair = Pair::new(Transport::Uc);
    let remote = RemoteAddress { r_key: 5, ..pair.remote(0, 0) };
    pair.post(0, 1, Work::Write { remote, immediate: None }, 8);
    pair.write(0, 2, 8);
    pair.run_until_idle();
    assert_eq!(pair.placed[1].len(), 1);
    assert_eq!(pair.states(), [QueuePairState::ReadyToSend; 2]);
}

#[test]
fn services_offer_what_the_specification_gives_them() {
    let remote = RemoteAddress::default();
    let (to, q_key) = (Peer::default(), 1);
    let works = [
        (Work::Send { tail: Tail::Nothing }, [true, true, false]),
        (Work::Send { tail: Tail::Invalidate(1) }, [true, false, false]),
        (Work::Write { remote, immediate: None }, [true, true, false]),
        (Work::Read { remote }, [true, false, false]),
        (Work::FetchAdd { remote, add: 1 }, [true, false, false]),
        (Work::CompareSwap { remote, compare: 1, swap: 1 }, [true, false, false]),
        (Work::Datagram { to, q_key, immediate: None }, [false, false, true]),
    ];
    for (work, offered) in works {
        for (transport, offered) in
            [Transport::Rc, Transport::Uc, Transport::Ud].iter().zip(offered)
        {
            let mut pair = Pair::new(*transport);
            let request = pair.request(0, 1, work, 8);
            let posted = pair.hosts[0].post_send(pair.now, pair.pairs[0], &request);
            let expected = if offered { Ok(()) } else { Err(PostError::Operation) };
            assert_eq!(posted, expected, "{transport:?} {work:?}");
        }
    }
}

#[test]
fn what_needs_an_answer_is_refused_where_none_may_be_in_flight() {
    let reliability = Reliability { read_depth: 0, ..Reliability::default() };
    let mut pair = Pair::with(Transport::Rc, reliability, Profile::default());
    let remote = pair.remote(0, 0);
    let add = Work::FetchAdd { remote, add: 1 };
    for work in [Work::Read { remote }, add] {
        let request = pair.request(0, 1, work, 8);
        let posted = pair.hosts[0].post_send(pair.now, pair.pairs[0], &request);
        assert_eq!(posted, Err(PostError::Operation));
    }
    pair.write(0, 2, 8);
    pair.run_until_idle();
    assert_eq!(pair.placed[1].len(), 1);
}

#[test]
fn a_send_queue_error_flushes_and_can_be_left() {
    let mut pair = Pair::new(Transport::Uc);
    let mut request = pair.request(0, 1, Work::Send { tail: Tail::Nothing }, 8);
    request.local = pair.local(0, LENGTH, 8);
    pair.hosts[0].post_send(pair.now, pair.pairs[0], &request).unwrap();
    pair.send(0, 2, 8);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::LocalProtection), (2, Status::Flushed)]);
    assert_eq!(pair.states()[0], QueuePairState::SendError);
    pair.hosts[0].modify(pair.pairs[0], &Change::Resume).unwrap();
    pair.receive(1, 7, 8);
    pair.send(0, 3, 8);
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(3, Status::Success)]);
    assert_eq!(pair.received(1), [(7, Status::Success, 8)]);
}

#[test]
fn a_datagram_goes_behind_room_for_its_ip_header() {
    let mut pair = Pair::new(Transport::Ud);
    pair.receive(1, 7, 40 + 100);
    let to = Peer { address: 0, queue_pair: pair.pairs[1] };
    pair.post(0, 1, Work::Datagram { to, q_key: 0x1111, immediate: Some(9) }, 100);
    let sent = pair.pull(0);
    let packet = sent[0].packet;
    let received = Received { source: 55, packet, payload: 100, ecn: Ecn::NotCapable };
    let Verdict::Place(Placement { target: Target { bytes: target, header, .. }, token }) =
        pair.hosts[1].handle_packet(pair.now, &received)
    else {
        panic!("a datagram is placed")
    };
    assert_eq!((header.ranges()[0].offset, header.length()), (0, 40));
    assert_eq!((target.ranges()[0].offset, target.length()), (40, 100));
    pair.hosts[1].handle_placed(pair.now, token, 0);
    let completion = pair.completions(1, 1)[0];
    assert_eq!((completion.id, completion.bytes), (7, 140));
    assert_eq!(completion.tail, Tail::Immediate(9));
    assert_eq!(completion.from, Peer { address: 55, queue_pair: pair.pairs[0] });
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
}

#[test]
fn datagrams_that_cannot_be_delivered_are_dropped() {
    let mut pair = Pair::new(Transport::Ud);
    let to = Peer { address: 0, queue_pair: pair.pairs[1] };
    let mut verdict = |q_key, length, receive: Option<u32>| {
        if let Some(bytes) = receive {
            pair.receive(1, 7, bytes);
        }
        pair.post(0, 1, Work::Datagram { to, q_key, immediate: None }, length);
        let sent = pair.pull(0);
        pair.wires[1].clear();
        pair.deliver(1, &sent[0])
    };
    assert_eq!(verdict(0x1111, 8, None), Verdict::Drop(DropReason::NotReady));
    assert_eq!(verdict(0x2222, 8, Some(64)), Verdict::Drop(DropReason::QueueKey));
    assert!(matches!(verdict(0x1111, 24, None), Verdict::Place(_)));
    let request = pair.request(0, 9, Work::Datagram { to, q_key: 1, immediate: None }, MTU + 1);
    let refused = pair.hosts[0].post_send(pair.now, pair.pairs[0], &request);
    assert_eq!(refused, Err(PostError::Length));
}

#[test]
fn datagram_that_is_too_long_fails_its_receive_in_turn_and_nothing_else() {
    let mut pair = Pair::new(Transport::Ud);
    pair.hold = true;
    let to = Peer { address: 0, queue_pair: pair.pairs[1] };
    for (length, id) in [100, 101, 99].into_iter().zip(7..) {
        pair.receive(1, id, 140);
        pair.post(0, id, Work::Datagram { to, q_key: 0x1111, immediate: None }, length);
    }
    let sent = pair.pull(0);
    let verdicts: Vec<Verdict> = sent.iter().map(|transmit| pair.deliver(1, transmit)).collect();
    assert_eq!(verdicts[1], Verdict::Drop(DropReason::Malformed));
    assert_eq!(pair.received(1), [], "the first has not been placed");
    for token in core::mem::take(&mut pair.held) {
        pair.hosts[1].handle_placed(pair.now, token, 0);
    }
    let (ok, failed) = (Status::Success, Status::LocalLength);
    assert_eq!(pair.received(1), [(7, ok, 140), (8, failed, 0), (9, ok, 139)]);
    assert_eq!(pair.states()[1], QueuePairState::ReadyToSend);
}

#[test]
fn a_receive_whose_memory_is_gone_ends_the_queue_pair_and_does_not_swallow_every_message() {
    let mut pair = Pair::new(Transport::Uc);
    let request = MemoryRequest { domain: 3, address: 0, length: 4096, rights: Rights::ALL };
    let region = pair.hosts[1].register(&request).unwrap();
    let local = LocalRange { segment: region.segment, offset: 0, length: 4096 }.into();
    let receive = ReceiveRequest { id: 1, local };
    pair.hosts[1].post_receive(pair.pairs[1], &receive).unwrap();
    pair.receive(1, 2, 4096);
    pair.hosts[1].deregister(region.segment).unwrap();
    pair.send(0, 1, 8);
    pair.run_until_idle();
    let ends = [(1, Status::LocalProtection, 0), (2, Status::Flushed, 0)];
    assert_eq!(pair.received(1), ends);
    assert_eq!(pair.states()[1], QueuePairState::Error);
}
