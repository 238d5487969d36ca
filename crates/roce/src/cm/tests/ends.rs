//! Tests of refusals, withdrawals, and peers that are gone.

use super::*;

fn rejects(events: &[Event]) -> Vec<(ConnectionId, u16)> {
    let reason = |event: &Event| match event {
        Event::Rejected { connection, reject } => Some((*connection, reject.reason.0)),
        _ => None,
    };
    events.iter().filter_map(reason).collect()
}

#[test]
fn without_a_listener_the_reason_is_the_service() {
    let mut pair = Pair::new();
    let active = pair.connect(5);
    assert_eq!(rejects(&pair.events(0)), [(active, 8)]);
    assert_eq!(pair.said(), [(0, "REQ"), (1, "REJ")]);
    assert_eq!(pair.managers[0].state(active), Some(State::Ended));
    assert_eq!(pair.managers[1].in_use(), 0);
    assert_eq!(pair.managers[1].counters().dropped[DropReason::NoListener as usize], 1);
    pair.finish([active, CommunicationId(0)]);
}

#[test]
fn refusal_arrives_with_its_reason_although_packets_are_lost() {
    let mut pair = Pair::new();
    pair.listen();
    pair.lose.push(("REJ", 1));
    let active = pair.connect(5);
    let passive = pair.requested();
    pair.managers[1].reject(pair.now, passive, Reason::CONSUMER, &[4; 148]).unwrap();
    pair.managers[1].close(pair.now, passive).unwrap();
    pair.run_until_idle();
    assert_eq!(pair.events(0), []);
    pair.pass(Duration::from_ms(300));
    let events = pair.events(0);
    assert_eq!(rejects(&events), [(active, 28)]);
    let [Event::Rejected { reject, .. }] = events[..] else { panic!("{events:?}") };
    assert_eq!((reject.private, reject.refused), ([4; 148], Refused::Request));
    pair.finish([active, passive]);
}

#[test]
fn a_reply_may_be_refused() {
    let mut pair = Pair::new();
    pair.listen();
    let active = pair.connect(5);
    let passive = pair.requested();
    pair.accept(passive, 6);
    pair.lose.push(("REJ", 1));
    pair.managers[0].reject(pair.now, active, Reason::CONSUMER, &[0; 148]).unwrap();
    pair.run_until_idle();
    pair.pass(Duration::from_ms(300));
    assert_eq!(rejects(&pair.events(1)), [(passive, 28)]);
    pair.finish([active, passive]);
}

#[test]
fn connecting_to_a_silent_host_times_out() {
    let mut pair = Pair::new();
    pair.listen();
    pair.lose.push(("REQ", 100));
    let active = pair.connect(5);
    pair.pass(Duration::from_secs(40));
    assert_eq!(pair.events(0), []);
    pair.pass(Duration::from_secs(40));
    assert_eq!(pair.events(0), [Event::TimedOut { connection: active }]);
    let said = pair.said();
    assert_eq!(said.iter().filter(|(_, name)| *name == "REQ").count(), 16, "as announced");
    assert_eq!(said.last(), Some(&(0, "REJ")));
    pair.finish([active, CommunicationId(0)]);
}

#[test]
fn withdrawn_request_is_reported() {
    let mut pair = Pair::new();
    pair.listen();
    let active = pair.connect(5);
    let passive = pair.requested();
    pair.managers[0].close(pair.now, active).unwrap();
    pair.run_until_idle();
    assert_eq!(rejects(&pair.events(1)), [(passive, Reason::TIMEOUT.0)]);
    let late = pair.managers[1].accept(pair.now, passive, &reply(6));
    assert_eq!(late, Err(CommandError::State(State::Ended)));
    assert_eq!(pair.managers[0].in_use(), 0);
    pair.finish([active, passive]);
}

#[test]
fn a_withdrawal_that_is_lost_makes_no_half_connection() {
    let mut pair = Pair::new();
    pair.listen();
    let active = pair.connect(5);
    let passive = pair.requested();
    pair.lose.push(("REJ", 1));
    pair.managers[0].close(pair.now, active).unwrap();
    pair.run_until_idle();
    pair.accept(passive, 6);
    // REP finds no record, and is refused.
    assert_eq!(rejects(&pair.events(1)), [(passive, Reason::INVALID_ID.0)]);
    pair.finish([active, passive]);
}

#[test]
fn a_peer_that_accepts_in_vain_gives_up() {
    let mut pair = Pair::new();
    pair.listen();
    let active = pair.connect(5);
    pair.pass(Duration::from_ms(300));
    let passive = pair.requested();
    // The other end received an MRA, and does not repeat its request.
    pair.lose.push(("REP", 100));
    pair.accept(passive, 6);
    pair.pass(Duration::from_secs(80));
    assert_eq!(pair.events(1).last(), Some(&Event::TimedOut { connection: passive }));
    assert_eq!(rejects(&pair.events(0)), [(active, Reason::TIMEOUT.0)]);
    pair.finish([active, passive]);
}

#[test]
fn a_peer_that_is_gone_does_not_keep_us() {
    let mut pair = Pair::new();
    pair.listen();
    let ids = pair.connected(5);
    pair.lose.push(("DREQ", 100));
    pair.managers[0].disconnect(pair.now, ids[0]).unwrap();
    let again = pair.managers[0].disconnect(pair.now, ids[0]);
    assert_eq!(again, Err(CommandError::State(State::Disconnecting)));
    pair.run_until_idle();
    pair.pass(Duration::from_secs(80));
    let end = Event::Disconnected { connection: ids[0] };
    assert_eq!(pair.events(0).iter().filter(|event| **event == end).count(), 1);
    pair.lose.clear();
    pair.finish(ids);
}

#[test]
fn both_may_end_it_at_once() {
    let mut pair = Pair::new();
    pair.listen();
    let ids = pair.connected(5);
    for (side, id) in ids.into_iter().enumerate() {
        pair.events(side);
        pair.managers[side].disconnect(pair.now, id).unwrap();
    }
    pair.run_until_idle();
    for (side, connection) in ids.into_iter().enumerate() {
        assert_eq!(pair.events(side), [Event::Disconnected { connection }]);
    }
    pair.finish(ids);
}

/// The manager of a program that was started again.
fn restarted() -> Manager {
    Manager::new(&Limits::default(), &Profile::default(), 7, 99)
}

#[test]
fn a_queue_pair_that_is_connected_again_ends_what_it_was_in() {
    for lost in [None, Some("RTU")] {
        let mut pair = Pair::new();
        pair.listen();
        let [_, passive] = pair.connected(5);
        pair.events(1);
        // The program is killed and started again, with the same numbers.
        pair.managers[0] = restarted();
        let active = pair.connect(5);
        let events = pair.events(1);
        let [Event::Requested { connection, .. }] = events[..] else { panic!("{events:?}") };
        pair.lose.extend(lost.map(|kind| (kind, 1)));
        pair.accept(connection, 7);
        pair.confirm(active);
        if lost.is_some() {
            assert_eq!(pair.events(1), []);
            // A first packet proves as much as RTU.
            pair.managers[1].establish(pair.now, connection).unwrap();
            pair.run_until_idle();
        }
        let private = if lost.is_some() { [0; 224] } else { [3; 224] };
        let established = Event::Established { connection, private };
        assert_eq!(pair.events(1), [Event::Disconnected { connection: passive }, established]);
        assert_eq!(pair.states([active, connection]), [Some(State::Established); 2]);
        pair.managers[1].close(pair.now, passive).unwrap();
        pair.finish([active, connection]);
    }
}

/// The address, queue pair and service of a connected peer are no secrets of the two ends.
#[test]
fn request_with_the_queue_pair_of_a_connected_peer_alone_changes_nothing() {
    let mut pair = Pair::new();
    pair.listen();
    let ids = pair.connected(5);
    pair.events(1);
    pair.said();
    for number in 0..3 {
        let local = CommunicationId(0x0700_0000 | number);
        let message = Message::Request(Request { local, ..request(5) });
        let forged = cm::emit(&Datagram { transaction: u64::from(number), message });
        pair.managers[1].handle_datagram(pair.now, &from(0), &forged);
        pair.run_until_idle();
        let events = pair.events(1);
        let [Event::Requested { connection, .. }] = events[..] else { panic!("{events:?}") };
        // Whatever the program does, the peer's host refuses what it did not request.
        match number {
            0 => pair.accept(connection, 7),
            1 => pair.managers[1].close(pair.now, connection).unwrap(),
            _ => {}
        }
        pair.run_until_idle();
        let events = pair.events(1);
        let rejected = |event: &Event| matches!(event, Event::Rejected { .. });
        assert!(events.iter().all(rejected) && events.len() == usize::from(number == 0));
        assert_eq!(pair.states(ids), [Some(State::Established); 2]);
    }
    pair.pass(Duration::from_secs(100));
    assert_eq!(pair.states(ids), [Some(State::Established); 2]);
    assert_eq!(pair.events(0).len(), 1, "the reply that established the connection");
}

#[test]
fn late_confirmation_of_an_older_connection_ends_no_newer_one() {
    let mut pair = Pair::new();
    pair.listen();
    let old = pair.connect(5);
    let older = pair.requested();
    pair.accept(older, 6);
    pair.managers[0].confirm(pair.now, old, &[0; 224]).unwrap();
    let ready = pair.managers[0].poll_transmit().unwrap();
    pair.managers[0] = restarted();
    let active = pair.connect(5);
    let newer = pair.requested();
    pair.accept(newer, 7);
    pair.managers[1].handle_datagram(pair.now, &from(0), &ready.bytes);
    assert_eq!(pair.managers[1].state(newer), Some(State::Accepting));
    pair.confirm(active);
    assert_eq!(pair.states([active, newer]), [Some(State::Established); 2]);
    assert_eq!(pair.managers[1].state(older), Some(State::Waiting));
}

#[test]
fn refusal_without_the_id_of_this_end_ends_no_confirmed_connection() {
    let mut pair = Pair::new();
    pair.listen();
    let [active, passive] = pair.connected(5);
    let names = Names { local: active, remote: CommunicationId(0) };
    let message = super::super::refuse::rejection(names, Refused::Request, Reason::TIMEOUT);
    let guess = cm::emit(&Datagram { transaction: 1, message });
    let dropped = pair.managers[1].handle_datagram(pair.now, &from(0), &guess);
    assert_eq!(dropped, Some(DropReason::NoConnection));
    assert_eq!(pair.states([active, passive]), [Some(State::Established); 2]);
    pair.finish([active, passive]);
}

#[test]
fn ending_a_listener_refuses_requests_that_were_not_reported() {
    let mut pair = Pair::new();
    let listener = pair.listen();
    let taken = pair.managers[1].listen(pair.now, SERVICE, 1);
    assert_eq!(taken, Err(CommandError::ServiceTaken));
    let kept = pair.connected(5);
    pair.events(0);
    // The request arrives, and is not reported yet.
    let active = pair.managers[0].connect(pair.now, 1, &request(8)).unwrap();
    let sent = pair.managers[0].poll_transmit().unwrap();
    pair.carry(0, &sent);
    pair.managers[1].unlisten(pair.now, listener).unwrap();
    pair.run_until_idle();
    assert_eq!(rejects(&pair.events(0)), [(active, 28)]);
    assert_eq!(pair.states(kept), [Some(State::Established); 2]);
    let missing = pair.managers[1].unlisten(pair.now, listener);
    assert_eq!(missing, Err(CommandError::Missing));
    pair.managers[0].close(pair.now, active).unwrap();
    pair.finish(kept);
}

#[test]
fn request_that_was_reported_is_accepted_after_its_listener_has_ended() {
    let mut pair = Pair::new();
    let listener = pair.listen();
    let active = pair.connect(5);
    let events = pair.events(1);
    let Event::Requested { connection, .. } = events[0] else { panic!("{events:?}") };
    pair.managers[1].unlisten(pair.now, listener).unwrap();
    pair.accept(connection, 7);
    pair.confirm(active);
    assert_eq!(pair.states([active, connection]), [Some(State::Established); 2]);
    pair.finish([active, connection]);
}

#[test]
fn a_full_backlog_makes_wait_and_a_full_table_refuses() {
    let mut pair = Pair::with(&Limits { connections: 3, ..Limits::default() });
    pair.is_one_host = true;
    pair.managers[1].listen(pair.now, SERVICE, 2).unwrap();
    let ids = [5, 6, 7].map(|queue_pair| pair.connect(queue_pair));
    assert_eq!(pair.events(1).len(), 2);
    assert_eq!(pair.managers[1].counters().dropped[DropReason::Quota as usize], 1);
    pair.managers[1].listen(pair.now, SERVICE + 1, 8).unwrap();
    pair.managers[0] = Manager::new(&Limits::default(), &Profile::default(), 7, 99);
    for (number, expected) in [(8, 0), (9, 1)] {
        let other = Request { service: SERVICE + 1, ..request(number) };
        pair.managers[0].connect(pair.now, 1, &other).unwrap();
        pair.run_until_idle();
        assert_eq!(rejects(&pair.events(0)).len(), expected);
    }
    assert_ne!(ids[0], ids[1]);
}

/// A request was refused because the table was full, and its copy was accepted when there was room
/// again.
#[test]
fn late_refusal_of_a_request_ends_no_connection_that_its_copy_has_made() {
    let mut pair = Pair::new();
    pair.listen();
    let active = pair.managers[0].connect(pair.now, 1, &request(5)).unwrap();
    let request = pair.managers[0].poll_transmit().unwrap();
    let refused = refuse(&request.bytes).unwrap();
    pair.managers[1].handle_datagram(pair.now, &from(0), &request.bytes);
    pair.run_until_idle();
    let passive = pair.requested();
    pair.accept(passive, 6);
    for is_confirmed in [false, true] {
        if is_confirmed {
            pair.confirm(active);
        }
        let dropped = pair.managers[0].handle_datagram(pair.now, &from(1), &refused);
        assert_eq!(dropped, Some(DropReason::NoConnection));
    }
    assert_eq!(pair.states([active, passive]), [Some(State::Established); 2]);
}

#[test]
fn commands_know_their_states() {
    let mut pair = Pair::new();
    pair.listen();
    let now = pair.now;
    let [active, passive] = pair.connected(5);
    let [left, right] = &mut pair.managers;
    let refused = Err(CommandError::State(State::Established));
    assert_eq!(left.confirm(now, active, &[0; 224]), refused);
    assert_eq!(left.reject(now, active, Reason::CONSUMER, &[0; 148]), refused);
    assert_eq!(right.accept(now, passive, &reply(6)), refused);
    let unknown = CommunicationId(0);
    assert_eq!(right.disconnect(now, unknown), Err(CommandError::Missing));
    assert_eq!(right.close(now, active), Err(CommandError::Missing));
    assert_eq!(right.state(CommunicationId(u32::MAX)), None);
}
