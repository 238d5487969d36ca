//! The life cycle of Jetties: states, exception modes, numbers and tokens; and groups of Jetties.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Pair, Side, TIMEOUT, builder, dead_after};
use fairway::{
    Dispatch, Error, Event, ExceptionMode, GroupOptions, Jetty, JettyOptions, JettyState,
    NotifyTarget, Segment, SegmentKey, Status, To,
};

/// The next event of a Jetty.
fn jetty_event(side: &Side) -> Event {
    loop {
        let event = side.context.wait_event(TIMEOUT).unwrap();
        if matches!(event, Event::JettyFault { .. } | Event::JettyDrained { .. }) {
            return event;
        }
    }
}

fn drained(side: &Side, jetty: &Jetty) {
    match jetty_event(side) {
        Event::JettyDrained { jetty: number } => assert_eq!(number, jetty.number()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_suspended_jetty_ends_what_it_began_and_takes_nothing_new() {
    let pair = Pair::new();
    let client = &pair.client;
    let local = client.filled(1 << 20, 1);
    let remote = pair.server.open_segment(1 << 20);
    for id in 0..8 {
        client.jetty.write(&client.peer, &local, remote.key(), id).unwrap();
    }
    assert_eq!(client.jetty.state(), JettyState::Ready);
    client.jetty.suspend().unwrap();
    assert_eq!(client.jetty.state(), JettyState::Suspended);
    let refused = client.jetty.write(&client.peer, &local, remote.key(), 9);
    assert!(matches!(refused, Err(Error::JettyNotReady)));
    drained(client, &client.jetty);
    client.jetty.drain(TIMEOUT).unwrap();
    assert_eq!(client.jetty.outstanding(), 0);
    let mut done = Vec::new();
    client.jetty.poll(&mut done);
    assert_eq!(done.len(), 8, "what was posted has completed");
    assert!(done.iter().all(|completion| completion.status == Status::Success));
    client.jetty.resume().unwrap();
    client.jetty.write(&client.peer, &local, remote.key(), 10).unwrap();
    assert_eq!(client.succeed().id, 10);
}

#[test]
fn senders_wait_for_a_suspended_jetty() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let (outbox, inbox) = (client.filled(100, 1), server.open_segment(100));
    server.jetty.post_receive(&inbox, 1).unwrap();
    server.jetty.suspend().unwrap();
    client.jetty.send(&client.peer, server.jetty.number(), &outbox, 2).unwrap();
    let not_ready = |side: &Side| side.context.counters().engine.not_ready;
    while not_ready(client) == 0 && not_ready(server) == 0 {
        client.context.poll();
    }
    let nothing = server.jetty.wait(Duration::from_millis(5));
    assert!(matches!(nothing, Err(Error::Timeout { .. })), "it came although suspended");
    server.jetty.resume().unwrap();
    assert_eq!(server.succeed().id, 1);
    assert_eq!(client.succeed().id, 2);
}

#[test]
fn a_failed_jetty_flushes_and_can_be_reset() {
    // What the client sends takes so long that the first write cannot have ended when it fails.
    let slow = builder().emulate("delay=50ms".parse().unwrap(), 1);
    let pair = Pair::of(slow, builder());
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(1 << 20, 1);
    let remote = server.open_segment(1 << 20);
    let mut expected = BTreeMap::new();
    for id in 0..40 {
        client.jetty.write(&client.peer, &local, remote.key(), id).unwrap();
        expected.insert(id, ());
    }
    client.jetty.post_receive(&local, 100).unwrap();
    expected.insert(100, ());
    client.jetty.fail().unwrap();
    assert_eq!(client.jetty.state(), JettyState::Error);
    drained(client, &client.jetty);
    let mut flushed = 0;
    for _ in 0..41 {
        let done = client.wait();
        assert_eq!(
            expected.remove(&done.id.value()),
            Some(()),
            "{} completed twice",
            done.id.value()
        );
        match done.status {
            Status::Flushed => flushed += 1,
            status => assert_eq!(status, Status::Success),
        }
    }
    assert!(flushed > 1, "the receive, and writes that were not sent");
    let refused = client.jetty.post_receive(&local, 1);
    assert!(matches!(refused, Err(Error::JettyNotReady)));
    // A sender to it gets an error.
    server.jetty.send(&server.peer, client.jetty.number(), remote.slice(0..8), 5).unwrap();
    assert_eq!(server.wait().status, Status::RemoteNoJetty);
    client.jetty.reset().unwrap();
    client.jetty.post_receive(local.slice(0..8), 101).unwrap();
    server.jetty.send(&server.peer, client.jetty.number(), remote.slice(0..8), 6).unwrap();
    assert_eq!(server.succeed().id, 6);
    assert_eq!(client.succeed().id, 101);
}

#[test]
fn states_change_only_where_that_makes_sense() {
    let pair = Pair::of(builder().engines(1).profile(dead_after(600)), builder());
    let (client, jetty) = (&pair.client, &pair.client.jetty);
    let illegal = |result: Result<(), Error>, was, wanted| match result {
        Err(Error::JettyState { from, to }) => assert_eq!((from, to), (was, wanted)),
        other => panic!("{other:?}"),
    };
    illegal(jetty.resume(), JettyState::Ready, JettyState::Ready);
    illegal(jetty.reset(), JettyState::Ready, JettyState::Ready);
    jetty.suspend().unwrap();
    illegal(jetty.suspend(), JettyState::Suspended, JettyState::Suspended);
    illegal(jetty.reset(), JettyState::Suspended, JettyState::Ready);
    jetty.resume().unwrap();
    // The peer gives no answer to this write.
    let local = client.open_segment(8);
    let remote = pair.server.open_segment(8);
    pair.server.context.simulate_crash();
    jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
    jetty.fail().unwrap();
    illegal(jetty.fail(), JettyState::Error, JettyState::Error);
    illegal(jetty.resume(), JettyState::Error, JettyState::Ready);
    assert!(matches!(jetty.reset(), Err(Error::JettyBusy { outstanding: 1 })));
    assert!(matches!(jetty.drain(Duration::from_millis(1)), Err(Error::Timeout { .. })));
    assert_eq!(jetty.outstanding(), 1);
    jetty.drain(TIMEOUT).unwrap();
    assert_eq!(client.wait().status, Status::PeerDead);
    jetty.reset().unwrap();
    assert_eq!(jetty.state(), JettyState::Ready);
}

#[test]
fn failure_stops_a_jetty_with_that_option() {
    let pair = Pair::new();
    let client = &pair.client;
    let local = client.filled(1 << 20, 1);
    let remote = pair.server.open_segment(1 << 20);
    let wrong = SegmentKey { token_value: !remote.key().token_value, ..remote.key() };
    let modes = [
        (ExceptionMode::Continue, JettyState::Ready),
        (ExceptionMode::Suspend, JettyState::Suspended),
        (ExceptionMode::Error, JettyState::Error),
    ];
    for (exception, after) in modes {
        let options = JettyOptions::default().exception(exception);
        let jetty = client.context.create_jetty(options).unwrap();
        jetty.write(&client.peer, local.slice(0..8), wrong, 1).unwrap();
        assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::RemoteAccess);
        assert_eq!(jetty.state(), after, "{exception:?}");
        if after == JettyState::Ready {
            assert!(client.context.poll_events().is_empty());
        } else {
            let Event::JettyFault { jetty: number, status, state } = jetty_event(client) else {
                panic!("no fault")
            };
            assert_eq!((number, status, state), (jetty.number(), Status::RemoteAccess, after));
            drained(client, &jetty);
            if after == JettyState::Error { jetty.reset() } else { jetty.resume() }.unwrap();
        }
        jetty.write(&client.peer, local.slice(0..8), remote.key(), 2).unwrap();
        assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
    }
}

#[test]
fn numbers_and_tokens() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let options = JettyOptions::default().number(5).token(77);
    let jetty = server.context.create_jetty(options).unwrap();
    assert_eq!(jetty.number(), 5);
    let taken = server.context.create_jetty(options).unwrap_err();
    assert!(matches!(taken, Error::Number { value: 5, .. }), "{taken}");
    assert!(server.context.create_jetty(Default::default()).unwrap().number() >= 32);
    let (outbox, inbox) = (client.filled(64, 1), server.open_segment(64));
    jetty.post_receive(&inbox, 1).unwrap();
    for to in [To::new(5), To::new(5).token(78), To::new(6).token(77)] {
        client.jetty.send(&client.peer, to, &outbox, 1).unwrap();
        assert_eq!(client.wait().status, Status::RemoteNoJetty, "{to:?}");
    }
    client.jetty.send(&client.peer, To::new(5).token(77), &outbox, 1).unwrap();
    let _ = client.succeed();
    assert_eq!(jetty.wait(TIMEOUT).unwrap().id, 1);
    let refused = client.jetty.send(&client.peer, 1 << 20, &outbox, 1);
    assert!(matches!(refused, Err(Error::Number { name: "Jetty", .. })));
}

/// Members of a group at the server, each with `receives` receives.
fn members(server: &Side, inbox: &Segment, count: usize, receives: u64) -> Vec<Jetty> {
    let member = |_| {
        let jetty = server.context.create_jetty(Default::default()).unwrap();
        for id in 0..receives {
            jetty.post_receive(inbox.slice(0..8), id).unwrap();
        }
        jetty
    };
    (0..count).map(member).collect()
}

/// Sends one message and waits until it is acknowledged.
fn send_one(client: &Side, outbox: &Segment, to: To) {
    client.jetty.send(&client.peer, to, outbox.slice(0..8), 0).unwrap();
    let _ = client.succeed();
}

fn count(jetty: &Jetty) -> usize {
    let mut done = Vec::new();
    jetty.poll(&mut done);
    done.len()
}

#[test]
fn groups_dispatch_by_their_configured_rule() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let (outbox, inbox) = (client.filled(8, 1), server.open_segment(8));
    let workers = members(server, &inbox, 3, 40);
    let group_of = |dispatch| {
        let group =
            server.context.create_group(GroupOptions::default().dispatch(dispatch).token(3));
        let group = group.unwrap();
        workers.iter().for_each(|worker| group.join(worker).unwrap());
        group
    };
    let counts = || workers.iter().map(count).collect::<Vec<_>>();

    let in_turn = group_of(Dispatch::RoundRobin);
    let to = To::new(in_turn.number()).token(3);
    (0..9).for_each(|_| send_one(client, &outbox, to));
    assert_eq!(counts(), [3, 3, 3]);

    let by_hint = group_of(Dispatch::Hint);
    let to = To::new(by_hint.number()).token(3);
    for hint in [0, 1, 1, 2, 4, 5, 255] {
        send_one(client, &outbox, to.hint(hint));
    }
    assert_eq!(counts(), [2, 3, 2]);

    // The member that has taken the fewest receives without posting new ones.
    let least = group_of(Dispatch::LeastDepth);
    let to = To::new(least.number()).token(3);
    (0..2).for_each(|_| send_one(client, &outbox, to));
    assert_eq!(counts(), [1, 0, 1], "the second had one more before");
    for _ in 0..2 {
        workers[1].post_receive(inbox.slice(0..8), 0).unwrap();
    }
    (0..2).for_each(|_| send_one(client, &outbox, to));
    assert_eq!(counts(), [0, 2, 0]);

    client.jetty.send(&client.peer, least.number(), outbox.slice(0..8), 0).unwrap();
    assert_eq!(client.wait().status, Status::RemoteNoJetty, "without the token");
    drop(least);
    client.jetty.send(&client.peer, to, outbox.slice(0..8), 0).unwrap();
    assert_eq!(client.wait().status, Status::RemoteNoJetty, "the group is gone");
    assert_eq!(server.context.usage().groups, 2);
}

#[test]
fn members_join_once_and_leave_once() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let group = server.context.create_group(GroupOptions::default()).unwrap();
    let inbox = server.open_segment(8);
    let mut workers = members(server, &inbox, 33, 1);
    group.join(&workers[0]).unwrap();
    let twice = group.join(&workers[0]).unwrap_err();
    assert!(twice.to_string().contains("in already"), "{twice}");
    let stranger = group.leave(&workers[1]).unwrap_err();
    assert!(matches!(stranger, Error::Parameter { name: "group", .. }), "{stranger}");
    assert!(matches!(group.join(&client.jetty), Err(Error::Foreign { what: "Jetty" })));
    workers[1..32].iter().for_each(|worker| group.join(worker).unwrap());
    let full = group.join(&workers[32]).unwrap_err();
    assert!(full.to_string().contains("make another group"), "{full}");
    // Dropping a member makes room for another.
    drop(workers.remove(0));
    group.join(workers.last().unwrap()).unwrap();
    group.leave(&workers[0]).unwrap();
    let number = group.number();
    let taken = GroupOptions::default().number(number);
    assert!(matches!(server.context.create_group(taken), Err(Error::Number { .. })));
    drop(group);
    assert_eq!(server.context.create_group(taken).unwrap().number(), number);
}

/// Messages of the test below.
const MESSAGES: u64 = 3000;

/// Receives the messages to `jetty`, and posts each receive again.
fn serve(
    jetty: &Jetty,
    inbox: &Segment,
    seen: &mut [u32],
    done: &mut Vec<fairway::Completion>,
) -> u64 {
    done.clear();
    jetty.poll(done);
    for completion in &*done {
        assert_eq!(completion.status, Status::Success);
        seen[completion.immediate.unwrap() as usize] += 1;
        jetty.post_receive(inbox.slice(0..8), 0).unwrap();
    }
    done.len() as u64
}

fn group_loses_no_message(dispatch: Dispatch, seed: u64) {
    let worse = |seed| builder().emulate("delay=30us,loss=1%,reorder=8".parse().unwrap(), seed);
    let pair = Pair::of(worse(seed), worse(seed + 100));
    let (client, server) = (&pair.client, &pair.server);
    let (outbox, inbox) = (client.filled(8, 1), server.open_segment(8));
    let workers = members(server, &inbox, 4, 16);
    let group = server.context.create_group(GroupOptions::default().dispatch(dispatch));
    let group = group.unwrap();
    group.join(&workers[0]).unwrap();
    let all_sent = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in 0..MESSAGES + 32 {
                if id < MESSAGES {
                    let to = To::new(group.number()).hint(id as u8);
                    let notify = NotifyTarget::new(to, id);
                    client.jetty.send_immediate(&client.peer, notify, &outbox, id).unwrap();
                }
                if id >= 32 {
                    let _ = client.succeed();
                }
            }
            all_sent.store(true, Ordering::Release);
        });
        let (mut seen, mut done) = (vec![0; MESSAGES as usize], Vec::new());
        let (mut received, mut each, mut is_in) = (0, [0; 4], [true, false, false, false]);
        let start = Instant::now();
        for step in 0_usize.. {
            for (worker, jetty) in workers.iter().enumerate() {
                let took = serve(jetty, &inbox, &mut seen, &mut done);
                each[worker] += took;
                received += took;
            }
            if received == MESSAGES && all_sent.load(Ordering::Acquire) {
                break;
            }
            // Members join and leave; the first one stays.
            let who = 1 + step % 3;
            match is_in[who] {
                true => group.leave(&workers[who]).unwrap(),
                false => group.join(&workers[who]).unwrap(),
            }
            is_in[who] = !is_in[who];
            assert!(start.elapsed() < TIMEOUT, "{received} came");
        }
        assert!(seen.iter().all(|times| *times == 1), "each once");
        assert!(each.iter().all(|took| *took > 0), "everybody took part: {each:?}");
    });
}

#[test]
fn members_come_and_go_and_nothing_is_lost() {
    for (dispatch, seed) in
        [(Dispatch::RoundRobin, 1), (Dispatch::LeastDepth, 2), (Dispatch::Hint, 3)]
    {
        group_loses_no_message(dispatch, seed);
    }
}

#[test]
fn stopped_jetties_can_be_dropped() {
    let pair = Pair::new();
    let client = &pair.client;
    let local = client.filled(1 << 20, 1);
    let remote = pair.server.open_segment(1 << 20);
    for fail in [false, true] {
        let jetty = client.context.create_jetty(Default::default()).unwrap();
        for id in 0..4 {
            jetty.write(&client.peer, &local, remote.key(), id).unwrap();
            jetty.post_receive(&local, id).unwrap();
        }
        if fail { jetty.fail() } else { jetty.suspend() }.unwrap();
    }
    let start = Instant::now();
    while client.context.usage().jetties > 1 {
        assert!(start.elapsed() < TIMEOUT, "a Jetty stays behind");
        client.context.poll();
    }
    let jetties = |event: &Event| matches!(event, Event::JettyDrained { .. });
    let late = client.context.poll_events().into_iter().filter(jetties).count();
    assert!(late <= 1, "events of destroyed Jetties are not reported");
}
