//! The life of Jetties, and of groups of them.

use super::*;

#[test]
fn the_token_of_a_jetty_is_checked() {
    let mut pair = Pair::new(0, 1);
    let queue = pair.queues[1];
    let config = JettyConfig { number: Some(3), token_value: 99, ..JettyConfig::new(queue, queue) };
    let jetty = pair.nics[1].create_jetty(&config).unwrap();
    let local = LocalRange { segment: pair.segments[1], offset: 0, length: 100 };
    pair.nics[1].post_receive(jetty, &ReceiveRequest { id: 1, local }).unwrap();
    pair.post(0, Work::Send { target: named(3) }, 10);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0)[0].status, Status::RemoteNoJetty);
    let target = Target { token_value: 99, ..named(3) };
    pair.post(1, Work::Send { target }, 10);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0)[0].status, Status::Success);
}

#[test]
fn a_suspended_jetty_drains_and_is_not_ready_to_peers() {
    let mut pair = Pair::new(0, 1);
    let [near, far] = pair.jetties;
    pair.receive(1, 100);
    pair.nics[1].set_jetty_state(far, JettyState::Suspended).unwrap();
    assert_eq!(pair.nics[1].poll_event(), Some(Event::JettyDrained { jetty: far }));
    pair.post(0, Work::Send { target: named(1) }, 10);
    pair.nics[0].set_jetty_state(near, JettyState::Suspended).unwrap();
    let local = LocalRange { segment: pair.segments[0], offset: 0, length: 10 };
    let (work, channel) = (Work::Send { target: named(1) }, pair.channels[0]);
    let order = OrderRequest::default();
    let request = WorkRequest { id: 9, channel, work, local, signaled: true, order };
    assert_eq!(pair.nics[0].post(pair.now, near, &request), Err(PostError::NotReady));
    for packet in pair.outgoing() {
        pair.deliver(1, &packet);
    }
    assert_eq!(pair.nics[1].counters().not_ready, 1);
    assert_eq!(pair.nics[0].poll_event(), None);
    pair.nics[1].set_jetty_state(far, JettyState::Ready).unwrap();
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0), [0]);
    assert_eq!(pair.nics[0].poll_event(), Some(Event::JettyDrained { jetty: near }));
    assert_eq!(pair.nics[0].poll_event(), None);
}

#[test]
fn a_failed_jetty_is_flushed_and_can_be_reset() {
    for mode in MODES {
        let mut pair = Pair::new(0, 1).with_staging();
        let near = pair.jetties[0];
        let local = LocalRange { segment: pair.segments[0], offset: 0, length: 10 };
        pair.nics[0].post_receive(near, &ReceiveRequest { id: 50, local }).unwrap();
        pair.post(0, Work::Send { target: named(1) }, 10);
        for packet in pair.outgoing() {
            pair.deliver(1, &packet);
        }
        for id in 1..5 {
            pair.write_to(id, 64, 10, strict(mode));
        }
        pair.nics[0].set_jetty_state(near, JettyState::Error).unwrap();
        assert_eq!(pair.nics[0].set_jetty_state(near, JettyState::Ready), Err(SetupError::Busy));
        pair.run_until_idle(|_, _| false);
        let mut done = pair.completions(0);
        done.sort_by_key(|completion| completion.id);
        let flushed: Vec<u64> = done.iter().map(|completion| completion.id).collect();
        assert_eq!(flushed, [0, 1, 2, 3, 4, 50], "{mode:?}");
        assert!(done.iter().all(|completion| completion.status == Status::Flushed));
        assert_eq!(pair.nics[0].poll_event(), Some(Event::JettyDrained { jetty: near }));
        assert_eq!(pair.nics[0].poll_event(), None);
        pair.nics[0].set_jetty_state(near, JettyState::Ready).unwrap();
        pair.write_to(9, 128, 10, strict(mode));
        pair.run_until_idle(|_, _| false);
        assert_eq!(pair.ids(0), [9], "what was flushed holds nothing up");
    }
}

#[test]
fn exception_modes_decide_what_a_refusal_does() {
    for (exception, state) in [
        (ExceptionMode::Continue, JettyState::Ready),
        (ExceptionMode::Suspend, JettyState::Suspended),
        (ExceptionMode::Error, JettyState::Error),
    ] {
        let mut pair = Pair::new(0, 1);
        let queue = pair.queues[0];
        let config = JettyConfig { number: Some(2), exception, ..JettyConfig::new(queue, queue) };
        let jetty = pair.nics[0].create_jetty(&config).unwrap();
        pair.jetties[0] = jetty;
        let wrong = RemoteRange { token_value: 0, ..pair.remote() };
        pair.post(0, Work::Write { remote: wrong }, 10);
        pair.run_until_idle(|_, _| false);
        assert_eq!(pair.nics[0].jetty_state(jetty), state);
        let event = pair.nics[0].poll_event();
        let status = Status::RemoteAccess;
        let expected = Event::JettyFault { jetty, status, state };
        assert_eq!(event, (exception != ExceptionMode::Continue).then_some(expected));
    }
}

fn group_of(pair: &mut Pair, dispatch: Dispatch) -> (JettyId, Vec<JettyId>) {
    let queue = pair.queues[1];
    let config = GroupConfig { number: Some(0), dispatch, ..GroupConfig::default() };
    let group = pair.nics[1].create_group(&config).unwrap();
    let members: Vec<JettyId> = (4..7)
        .map(|number| {
            let config = JettyConfig { number: Some(number), ..JettyConfig::new(queue, queue) };
            let member = pair.nics[1].create_jetty(&config).unwrap();
            pair.nics[1].join_group(group, member).unwrap();
            member
        })
        .collect();
    (group, members)
}

fn receives(pair: &mut Pair, jetty: JettyId, count: u64) {
    let local = LocalRange { segment: pair.segments[1], offset: 0, length: 100 };
    for id in 0..count {
        pair.nics[1].post_receive(jetty, &ReceiveRequest { id, local }).unwrap();
    }
}

#[test]
fn groups_dispatch_in_turn_by_hint_and_by_depth() {
    for (dispatch, expected) in [
        (Dispatch::RoundRobin, [4, 5, 6, 4, 5, 6]),
        (Dispatch::Hint, [5, 5, 5, 5, 5, 5]),
        (Dispatch::LeastDepth, [4, 5, 6, 4, 5, 6]),
    ] {
        let mut pair = Pair::new(0, 1);
        let (group, members) = group_of(&mut pair, dispatch);
        for &member in &members {
            receives(&mut pair, member, 6);
        }
        for id in 0..6 {
            let target = Target { jetty: group, token_value: 0, hint: 7 };
            pair.post(id, Work::Send { target }, 2_000 * (id as u32 % 2) / 40);
        }
        pair.run_until_idle(|_, _| false);
        let took: Vec<u32> = pair.completions(1).iter().map(|c| c.jetty.value()).collect();
        assert_eq!(took, expected, "{dispatch:?}");
    }
}

#[test]
fn members_come_and_go_and_nothing_is_lost() {
    let mut pair = Pair::new(0, 2);
    let (group, members) = group_of(&mut pair, Dispatch::RoundRobin);
    for &member in &members {
        receives(&mut pair, member, 60);
    }
    let mut random = Random::new(1);
    let target = Target { jetty: group, ..Target::default() };
    for id in 0..100 {
        pair.post(id, Work::Send { target }, 20);
        // The first one stays, so that there is always a member.
        let member = members[1 + random.number() as usize % 2];
        if pair.nics[1].leave_group(group, member).is_err() {
            pair.nics[1].join_group(group, member).unwrap();
        }
        if id % 7 == 0 {
            pair.run_until_idle(|_, _| random.number().is_multiple_of(3));
        }
        if id % 10 == 9 {
            for &member in &members {
                let _ = pair.nics[1].join_group(group, member);
            }
            pair.run_until_idle(|_, _| random.number().is_multiple_of(3));
        }
    }
    assert_eq!(pair.ids(0).len(), 100);
    assert_eq!(pair.completions(1).len(), 100);
}
